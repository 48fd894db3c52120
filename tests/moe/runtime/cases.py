"""What the processes of a living set do with layers. Each function is called on all ranks, with their group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from tests.moe.runtime.small import CPU, MODELS, apart, drawn, gradients, layers_of, plain, prompts
from tests.moe.runtime.written import attending_first, sequential
from weftrace.errors import ProfileError
from weftrace.facts.models import ModelConfig
from weftrace.moe.operations import Overlap
from weftrace.moe.overlap_files import load_overlap
from weftrace.moe.runtime.executor import execute
from weftrace.moe.runtime.layers.layer import MoeLayer
from weftrace.moe.runtime.layers.tokens import Tokens, split_prompts, whole
from weftrace.moe.runtime.micro_batch import MicroBatch
from weftrace.moe.runtime.moving.payload import PUBLISHED, Payloads
from weftrace.moe.runtime.moving.transports import transport_of
from weftrace.moe.runtime.steps import HowToRun, run
from weftrace.moe.setting import Setting

LENGTHS = [5, 9]
SIZE = 16


def compared(group: dist.ProcessGroup | None, overlap: str, kind: Any, models: list[str], **more: Any) -> list[Any]:
    """The list against one operation after another, and against all experts in one process: by model what was equal.

    overlap: a name.
    """
    found = load_overlap(overlap, kind)
    return [_compared(group, found, kind, MODELS[name], **more) for name in models]


def _compared(
    group: dist.ProcessGroup | None, overlap: Overlap, kind: Any, config: ModelConfig, published: bool = False,
    only: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    payloads = PUBLISHED if published else Payloads()
    config = replace(config, hidden_size=128) if published else config
    ranks, rank = (dist.get_world_size(group), dist.get_rank(group)) if group else (1, 0)
    step = _STEPS[kind]
    runs = []
    for each in (overlap, sequential(overlap, kind)):
        layers = layers_of(config, ranks=ranks, rank=rank, only=only)
        runs.append((step(group, each, layers, config, payloads, rank), gradients(layers)))
    (outputs, grads), (in_turn, grads_in_turn) = runs
    summary: dict[str, Any] = {
        "outputs": all(torch.equal(a, b) for a, b in zip(outputs, in_turn, strict=True)),
        "gradients": {name: torch.equal(grads[name], grads_in_turn[name]) for name in grads_in_turn},
    }
    if not published:
        want, want_grads = _in_one_process(config, kind, overlap, ranks, rank, only)
        summary["outputs by one process"] = max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(outputs, want, strict=True)
        )
        summary["gradients by one process"] = (
            apart(_summed(group, grads), _mine(want_grads, ranks, rank)) if grads else 0
        )
    return summary


def _trains(
    group: dist.ProcessGroup | None, overlap: Overlap, layers: list[MoeLayer], config: ModelConfig, payloads: Payloads,
    rank: int,
) -> list[Tensor]:  # fmt: skip
    """Micro-batch 0 forward; then it goes back while 1 goes forward; then 1 goes back. Outputs and input gradients."""
    transport = transport_of(group)
    both = [
        MicroBatch(layers, prompts(whole(LENGTHS)), _input(config, rank, seed), transport, payloads) for seed in (0, 1)
    ]
    outputs = []
    execute(overlap, {(0, "F"): both[0]})
    for back, forth in ((both[0], {(0, "F"): both[1]}), (both[1], {})):
        outputs.append(back.output())
        back.output_grad = 2 * back.output()
        execute(overlap, {**forth, (1, "B"): back})
    return [*outputs, *(each.input_grad() for each in both)]


def _infers(of: Callable[[Overlap, int, list[MoeLayer]], dict[int, Tokens]]) -> Any:
    def step(
        group: dist.ProcessGroup | None, overlap: Overlap, layers: list[MoeLayer], config: ModelConfig,
        payloads: Payloads, rank: int,
    ) -> list[Tensor]:  # fmt: skip
        with torch.no_grad():
            tokens = of(overlap, rank, layers)
            rows = _input(config, rank, 0, sum(each.count for each in tokens.values()))
            parts = rows.split([each.count for each in tokens.values()])
            transport = transport_of(group)
            both = {
                (number, "F"): MicroBatch(layers, of_it, part, transport, payloads)
                for (number, of_it), part in zip(tokens.items(), parts, strict=True)
            }
            execute(overlap, both)
            return [each.output() for each in both.values()]

    return step


def _prompts(overlap: Overlap, rank: int, layers: list[MoeLayer]) -> dict[int, Tokens]:
    numbers = attending_first(overlap)
    parts = split_prompts(LENGTHS) if len(numbers) == 2 else [whole(LENGTHS)]
    found = {number: prompts(part) for number, part in zip(numbers, parts, strict=True)}
    for each in found.values():
        each.earlier = found[numbers[0]].earlier
    return found


def _requests(overlap: Overlap, rank: int, layers: list[MoeLayer]) -> dict[int, Tokens]:
    kept = [layer.attention.kept_dim for layer in layers]
    return {
        number: Tokens(
            device=CPU, requests=3, per_request=2, filled=5,
            caches=[drawn(3, 7, dim, seed=100 * rank + 10 * at + number) for at, dim in enumerate(kept)],
        )
        for number in attending_first(overlap)
    }  # fmt: skip


_STEPS: dict[str, Any] = {"train": _trains, "prefill": _infers(_prompts), "decode": _infers(_requests)}


def _input(config: ModelConfig, rank: int, seed: int, count: int = sum(LENGTHS)) -> Tensor:
    return drawn(count, config.hidden_size, seed=10 * rank + seed)


def _in_one_process(
    config: ModelConfig, kind: str, overlap: Overlap, ranks: int, mine: int, only: int | None
) -> tuple[list[Tensor], dict[str, Tensor]]:
    """What `plain` makes of the tokens of all ranks, with all experts: this rank's results, and gradients."""
    layers = layers_of(config, only=only)
    found: list[Tensor] = []
    for rank in range(ranks):
        if kind == "train":
            inputs = [_input(config, rank, seed).requires_grad_() for seed in (0, 1)]
            outputs = [plain(layers, x, prompts(whole(LENGTHS))) for x in inputs]
            torch.stack([out.square().sum() for out in outputs]).sum().backward()
            made = [*(out.detach() for out in outputs), *(x.grad for x in inputs if x.grad is not None)]
        elif kind == "prefill":
            with torch.no_grad():
                out = plain(layers, _input(config, rank, 0), prompts(whole(LENGTHS)))
                made = [*out.split([each.count for each in _prompts(overlap, rank, layers).values()])]
        else:
            with torch.no_grad():
                both = _requests(overlap, rank, layers).values()
                rows = _input(config, rank, 0, 6 * len(both)).split(6)
                made = [plain(layers, x, tokens) for x, tokens in zip(rows, both, strict=True)]
        found = made if rank == mine else found
    return found, gradients(layers)


def _summed(group: dist.ProcessGroup | None, grads: dict[str, Tensor]) -> dict[str, Tensor]:
    """Over ranks, but for those of experts, which one rank has."""
    found = {name: grad.clone() for name, grad in grads.items()}
    for name, grad in found.items():
        if group and ".experts." not in f".{name}":
            dist.all_reduce(grad, group=group)
    return found


def _mine(grads: dict[str, Tensor], ranks: int, rank: int) -> dict[str, Tensor]:
    """Of all experts those of this rank."""
    return {name: grad.chunk(ranks)[rank] if ".experts." in f".{name}" else grad for name, grad in grads.items()}


def refused(group: dist.ProcessGroup | None, ep: int) -> str:
    """What `run` says where the setting has another number of GPUs than there are processes."""
    setting = Setting.of("prefill", model=MODELS["mla"], ep=ep, tokens=8, sequence=8, num_layers=1)
    try:
        run(setting, load_overlap("two-micro-batches"), HowToRun(group=group, payloads=Payloads()))
    except ProfileError as error:
        return str(error)
    return ""
