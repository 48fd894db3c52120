"""A profile's steps, run: the layers of a setting, and as many walks of an operation list as are asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ProfileError
from weftrace.moe.operations import Overlap, need_whole
from weftrace.moe.runtime.executor import execute
from weftrace.moe.runtime.lanes import Lanes, lanes_of
from weftrace.moe.runtime.layers.layer import LayerOptions, MoeLayer, build_layers
from weftrace.moe.runtime.layers.tokens import Segment, Tokens, split_prompts, whole
from weftrace.moe.runtime.micro_batch import MicroBatch
from weftrace.moe.runtime.moving.exchanges import Transport
from weftrace.moe.runtime.moving.payload import PUBLISHED, Payloads
from weftrace.moe.runtime.moving.transports import transport_of
from weftrace.moe.runtime.walking import going
from weftrace.moe.setting import Setting
from weftrace.units import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class HowToRun:
    """Everything about a run that its setting does not say.

    group: of torch.distributed, as large as the setting's `ep`; None: this process alone, which emulates a group where
    `ep` is above 1 (copies instead of messages; the result's notes say so). device, dtype: None is CUDA and BF16 where
    there is a GPU, else a CPU and FP32. routing: "balanced", as in the published profiles, or "learned". payloads: how
    rows travel; `PUBLISHED` is FP8 to the experts and BF16 back. deepep: they travel by DeepEP (unproved). prompts:
    lengths of all prompts of prefill on this rank, None: as the setting says. seed: of weights, the same on all ranks,
    and of inputs.
    """

    group: dist.ProcessGroup | None = None
    device: torch.device | None = None
    dtype: torch.dtype | None = None
    routing: str = "balanced"
    payloads: Payloads = PUBLISHED
    deepep: bool = False
    prompts: Sequence[int] | None = None
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunResult:
    """What a run left. steps: walks of the list, without the first forward of training.

    outputs: of the last step, by micro-batch of the list that went forward: [T, h]. layers: with the gradients of all
    steps summed, in training. notes: what to know before trusting its times.
    """

    steps: int
    outputs: dict[int, Tensor]
    layers: list[MoeLayer]
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Bench:
    """What every step needs. waiting: micro-batches that went forward and have not come back."""

    setting: Setting
    overlap: Overlap
    how: HowToRun
    device: torch.device
    dtype: torch.dtype
    transport: Transport
    layers: list[MoeLayer]
    tokens: dict[int, Tokens]
    lanes: Lanes
    waiting: list[MicroBatch] = field(default_factory=list)
    made: int = 0


def run(
    setting: Setting,
    overlap: Overlap,
    how: HowToRun | None = None,
    *,
    steps: int = 1,
    on_step: Callable[[int], object] | None = None,
) -> RunResult:
    """Builds the setting's layers, and walks the list `steps` times through them.

    A step of training is one walk: micro-batches go forward while those of the step before go backward, as in the
    published profile; the first ones go forward before step 0. The loss is half the sum of squares of what comes out.
    A step of prefill takes new prompts through all layers; one of decode the newest tokens of each request, whose cache
    holds the rest: every step writes the same positions again, so that all cost the same. on_step(step) is called at
    the end of each step, as a profiler's `step` wants it.

    Raises `ProfileError`, with both numbers, where the setting does not fit the processes, or the list cannot be
    executed.
    """
    bench = _bench(setting, overlap, how or HowToRun())
    forward, backward = going(overlap, "F"), going(overlap, "B")
    outputs: dict[int, Tensor] = {}
    with torch.set_grad_enabled(bool(backward)):
        if backward:
            _walk(bench, forward, [])
        for step in range(steps):
            outputs = _walk(bench, forward, backward)
            if on_step is not None:
                on_step(step)
    notes = (bench.transport.note, *overlap.notes)
    return RunResult(steps=steps, outputs=outputs, layers=bench.layers, notes=tuple(filter(None, notes)))


def _bench(setting: Setting, overlap: Overlap, how: HowToRun) -> _Bench:
    if how.group is not None and dist.get_world_size(how.group) != setting.ep:
        raise ProfileError(
            f"the setting has {counted(setting.ep, 'GPU')} (EP), and {dist.get_world_size(how.group)} processes run"
        )
    if setting.num_redundant:
        raise ProfileError(f"{setting.num_redundant} copies of experts: layers run with each expert once, 0 copies")
    device = how.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = how.dtype or (torch.bfloat16 if device.type == "cuda" else torch.float32)
    transport = transport_of(how.group, setting.ep if how.group is None else 1, deepep=how.deepep)
    how.payloads.fit(setting.model.hidden_size)
    _check_ways(setting, overlap)
    options = LayerOptions(
        device=device, dtype=dtype, ranks=transport.ranks, rank=transport.rank, routing=how.routing, seed=how.seed
    )
    layers = build_layers(setting.model, setting.num_layers, options)
    tokens = _tokens(setting, overlap, how, device)
    bench = _Bench(setting, overlap, how, device, dtype, transport, layers, tokens, lanes_of(device))
    if setting.kind == "decode":
        for number, each in tokens.items():
            _fill_caches(bench, each, number)
    return bench


def _check_ways(setting: Setting, overlap: Overlap) -> None:
    need_whole(overlap, setting.kind)
    back, forth = len(going(overlap, "B")), len(going(overlap, "F"))
    if back and back != forth:
        raise ProfileError(
            f"overlap {overlap.name!r}: {counted(back, 'micro-batch')} come back in a step in which {forth} go forward"
        )
    if back and setting.kind != "train":
        raise ProfileError(f"overlap {overlap.name!r} has a backward, and {setting.kind} has none")


def _walk(bench: _Bench, forward: Sequence[int], backward: Sequence[int]) -> dict[int, Tensor]:
    """One walk; the outputs of what went forward."""
    micro_batches: dict[tuple[int, str], MicroBatch] = {(number, "F"): _made(bench, number) for number in forward}
    for number in backward:
        back = bench.waiting.pop(0)
        back.output_grad = back.output()
        micro_batches[number, "B"] = back
    execute(bench.overlap, micro_batches, bench.lanes)
    outputs = {number: micro_batches[number, "F"].output().detach() for number in forward}
    if torch.is_grad_enabled():
        bench.waiting += [micro_batches[number, "F"] for number in forward]
    return outputs


def _made(bench: _Bench, number: int) -> MicroBatch:
    """A new micro-batch of the list's micro-batch of that number."""
    tokens = bench.tokens[number]
    tokens.earlier.clear()
    hidden, kind = bench.setting.model.hidden_size, bench.setting.kind
    step, bench.made = bench.made // len(bench.tokens), bench.made + 1
    if kind == "prefill" and len(bench.tokens) <= 2:  # prompts are the same, however they are shared out
        prompts = (
            (each, _drawn(bench, (each.of, hidden), f"step {step} prompt {each.prompt}")) for each in tokens.segments
        )
        x = torch.cat([rows[each.start : each.end] for each, rows in prompts])
    else:
        step = 0 if kind == "decode" else step
        x = _drawn(bench, (tokens.count, hidden), f"step {step} micro-batch {number}")
    return MicroBatch(bench.layers, tokens, x, bench.transport, bench.how.payloads)


def _tokens(setting: Setting, overlap: Overlap, how: HowToRun, device: torch.device) -> dict[int, Tokens]:
    """By micro-batch of the list. Prefill's prompts are split over two micro-batches, so that attention costs both the
    same; the first part goes to the one that attends first."""
    numbers = going(overlap, "F")
    if how.prompts is not None:
        _check_prompts(how.prompts, setting)
    if setting.kind == "decode":
        filled = setting.sequence - setting.tokens_per_request
        if filled < 0:
            held = counted(setting.sequence, "token")
            raise ProfileError(f"a cache of {held} cannot hold the {setting.tokens_per_request} of a step")
        each = setting.tokens_per_request
        return {
            number: Tokens(device=device, requests=setting.requests, per_request=each, filled=filled)
            for number in numbers
        }
    if setting.kind == "prefill" and len(numbers) == 2:
        lengths = how.prompts or _lengths(2 * setting.tokens, setting.sequence)
        earlier: dict[tuple[int, int], Tensor] = {}
        first = next(each.micro_batch for each in overlap.operations if each.work in ("attn", "attn-1"))
        parts = dict(zip((first, *(set(numbers) - {first})), split_prompts(lengths), strict=True))
        return {number: Tokens(device=device, segments=parts[number], earlier=earlier) for number in numbers}
    if how.prompts is not None and len(numbers) > 1:
        raise ProfileError(f"prompts are shared out among 2 micro-batches, and overlap {overlap.name!r} has {numbers}")
    segments: tuple[Segment, ...] = whole(how.prompts or _lengths(setting.tokens, setting.sequence))
    return {number: Tokens(device=device, segments=segments) for number in numbers}


def _check_prompts(lengths: Sequence[int], setting: Setting) -> None:
    if setting.kind == "decode":
        raise ProfileError(f"decode has {counted(setting.requests, 'request')} and a cache, and no prompts of its own")
    wrong = [length for length in lengths if type(length) is not int or length < 1]
    if wrong or not lengths:
        raise ProfileError(f"prompts of {list(lengths)} tokens: there is at least one, and each has 1 token or more")


def _lengths(tokens: int, sequence: int) -> list[int]:
    """Prompts of the setting's length, and one of what is left."""
    rest = tokens % sequence
    return [sequence] * (tokens // sequence) + ([rest] if rest else [])


def _fill_caches(bench: _Bench, tokens: Tokens, number: int) -> None:
    for layer in bench.layers:
        shape = tokens.requests, bench.setting.sequence, layer.attention.kept_dim
        tokens.caches.append(_drawn(bench, shape, f"cache of layer {layer.layer} micro-batch {number}"))


def _drawn(bench: _Bench, shape: tuple[int, ...], what: str) -> Tensor:
    """Another one on each rank."""
    seed = zlib.crc32(f"{bench.how.seed} {bench.transport.rank} {what}".encode())
    draw = torch.Generator(bench.device).manual_seed(seed)
    return torch.empty(shape, device=bench.device, dtype=bench.dtype).normal_(generator=draw)
