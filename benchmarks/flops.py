"""What is timed of the FLOPs profiler: `python -m benchmarks.flops overhead|memory|report|meta ...`.

`overhead large|small|tiny TURNS NAME...`: in one process and one thread, contestants run the same model in turns, each
turn beside a plain one. Ratios are medians over turns, so a machine that is slow for a while disturbs them little.
`memory NAME`, `meta NAME`: one contestant in a process of its own, whose peak the caller reads. `report RUNS`: what
follows the run.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

Step = Callable[[], Any]


class Block(nn.Module):
    """A transformer's layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.attention_norm(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        residual: torch.Tensor = x + self.down(self.act(self.up(self.mlp_norm(x))))
        return residual


def transformer(width: int, num_layers: int, length: int, batch: int = 1) -> tuple[nn.Module, torch.Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width) for _ in range(num_layers))), torch.randn(batch, length, width)


# Width, layers, length. A forward is 0.3 s of large operators, 1.2 ms of 200 small ones, or as long of 300 tiny ones.
MODELS = {"large": (1024, 4, 256), "small": (64, 8, 32), "tiny": (32, 12, 16)}


class PassThrough(TorchDispatchMode):
    """What every counter at the dispatcher pays: a Python call for each operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


@contextmanager
def counting(model: nn.Module) -> Iterator[None]:
    from weftrace.flops import profile

    with profile(model, time=False):
        yield


@contextmanager
def deepspeed_profiler(model: nn.Module) -> Iterator[None]:
    profiler = import_module("deepspeed.profiling.flops_profiler").FlopsProfiler(model)
    profiler.start_profile()
    try:
        yield
    finally:
        profiler.end_profile()


def torch_profiler(model: nn.Module) -> AbstractContextManager[Any]:
    from torch.profiler import ProfilerActivity, profile

    return profile(activities=[ProfilerActivity.CPU])


CONTESTANTS: dict[str, Callable[[nn.Module], AbstractContextManager[Any]]] = {
    "plain": lambda model: nullcontext(),
    "pass-through": lambda model: PassThrough(),  # type: ignore[no-untyped-call]
    "counting": counting,
    "FlopCounterMode": lambda model: FlopCounterMode(display=False),
    "torch.profiler": torch_profiler,
    "DeepSpeed": deepspeed_profiler,
}


def steady(model: nn.Module, name: str, step: Step, repeats: int) -> list[float]:
    """Seconds of steps under a contestant, after one that is not timed."""
    if name == "timing":
        return timed_steps(model, step, repeats)
    with CONTESTANTS[name](model):
        if name != "plain":
            step()
        return [seconds(step) for _ in range(repeats)]


def timed_steps(model: nn.Module, step: Step, repeats: int) -> list[float]:
    """Steps under weftrace's timing hooks, with what it does between steps."""
    from weftrace.flops import profile

    with profile(model, warm_up=1) as p:

        def whole() -> None:
            step()
            p.step()

        whole()
        whole()
        return [seconds(whole) for _ in range(repeats)]


def once(model: nn.Module, step: Step) -> float:
    """Seconds of everything: opening a profile, a first step whose formulas are asked, and the report."""
    from weftrace.flops import profile

    def whole() -> None:
        with profile(model) as p:
            step()
        p.report()

    return seconds(whole)


def seconds(call: Callable[[], Any]) -> float:
    """Processor time, in one thread: what a clock shows on an idle machine, and fair on a busy one."""
    start = time.process_time()
    call()
    return time.process_time() - start


def overhead(which: str, num_turns: str, *names: str) -> dict[str, Any]:
    """For "forward" (without gradients) and "both" (forward and backward): plain_ms, and each contestant's ratio to it.

    A contestant "once" is weftrace's whole call. inside_s: of all turns.
    """
    torch.set_num_threads(1)
    model, x = transformer(*MODELS[which])
    repeats = 1 if which == "large" else 20

    def forward() -> None:
        with torch.no_grad():
            model(x)

    def both() -> None:
        model.zero_grad()
        model(x).square().mean().backward()

    began = time.perf_counter()
    facts: dict[str, Any] = {}
    for part, step in (("forward", forward), ("both", both)):
        step()
        plain_s: list[float] = []
        ratios: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(int(num_turns)):
            for name in names:
                taken = [once(model, step)] if name == "once" else steady(model, name, step, repeats)
                plain = statistics.median(steady(model, "plain", step, repeats))
                plain_s.append(plain)
                ratios[name].append(statistics.median(taken) / plain)
        facts[part] = {
            "plain_ms": statistics.median(plain_s) * 1e3,
            "ratios": {name: statistics.median(found) for name, found in ratios.items()},
        }
    return {"inside_s": time.perf_counter() - began, **facts}


def memory(name: str) -> dict[str, Any]:
    """Forward and backward of a model of large activations, under a contestant; what it imports is loaded before."""
    import weftrace.flops.runtime.profile  # noqa: F401  (in every process, so that it is in no difference)

    # 12 activations of 64 MB: above what glibc keeps for itself, so that the peak is the same in each run.
    model, x = nn.Sequential(*(nn.Sequential(nn.LayerNorm(64), nn.Tanh()) for _ in range(6))), torch.randn(2**18, 64)

    def step() -> None:
        model(x).sum().backward()

    start = time.perf_counter()
    if name == "timing":
        timed_steps(model, step, 1)
    else:
        with CONTESTANTS[name](model):
            for _ in range(3):
                step()
    return {"inside_s": time.perf_counter() - start}


def report(num_runs: str) -> dict[str, Any]:
    """A model of 1000 modules, forward and backward: what `report` and the document take after it. inside_s: both."""
    from weftrace.flops import profile
    from weftrace.flops.document import flops_document

    model, x = transformer(16, 125, 8)
    with profile(model) as p:
        model(x).square().mean().backward()
    runs = []
    for _ in range(int(num_runs)):
        start = time.perf_counter()
        found = p.report()
        middle = time.perf_counter()
        flops_document(found)
        runs.append((time.perf_counter() - start, middle - start))
    return {
        "inside_s": min(runs)[0],
        "report_s": min(runs)[1],
        "num_modules": len(found.modules),
        "num_rows": len(found.ops),
    }


def meta(name: str) -> dict[str, Any]:
    """Llama-3-70B, 8192 tokens, forward and backward on a meta device: with weftrace, or with FlopCounterMode."""
    from weftrace.flops import profile
    from weftrace.flops.derived.tally import total
    from weftrace.flops.runtime.models import build_model, run_phase

    start = time.perf_counter()
    model = build_model("llama-3-70b")
    if name == "FlopCounterMode":
        with FlopCounterMode(display=False) as counter:
            run_phase(model, "llama-3-70b", phase="train", batch=1, seq_len=8192)
        flops = counter.get_total_flops()
    else:
        with profile(model) as p:
            run_phase(model, "llama-3-70b", phase="train", batch=1, seq_len=8192)
        flops = total(p.report()).full_flops
    return {"inside_s": time.perf_counter() - start, "flops": flops}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    "overhead": overhead,
    "memory": memory,
    "report": report,
    "meta": meta,
}

if __name__ == "__main__":
    print("\n" + json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
