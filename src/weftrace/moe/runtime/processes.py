"""A run of a profile in the processes that torchrun started: their group, their device, their clock."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from statistics import median
from typing import Protocol

import torch
import torch.distributed as dist

from weftrace.errors import ProfileError
from weftrace.moe.operations import Overlap
from weftrace.moe.runtime.moving.payload import PUBLISHED, Payloads
from weftrace.moe.runtime.steps import HowToRun, run
from weftrace.moe.runtime.walking import going
from weftrace.moe.setting import Setting
from weftrace.units import S, counted

WARM_UP = 2  # steps before any is timed
DTYPES = ("float64", "float32", "bfloat16", "float16")  # that torch multiplies matrices in, on every device


class Steps(Protocol):
    """Who is told that a step is over: a recording, a profiler."""

    def step(self) -> None: ...


#: Given what the run is, a block around its steps: how a command joins a run with what records it.
Recorder = Callable[[Mapping[str, str]], AbstractContextManager[Steps]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a run of a profile came to, as rank 0 tells it.

    step_ns: median over the timed steps, of the slowest rank of each; none of them was recorded. tokens: that go
    forward in a step, on all ranks together. told: what the run is, by the keys of `Trace.info`. notes: what to know
    before trusting its times.
    """

    rank: int
    step_ns: int
    tokens: int
    summary: Mapping[str, str]
    notes: tuple[str, ...]

    @property
    def tokens_per_s(self) -> float:
        return self.tokens * S / self.step_ns


def run_in_processes(
    setting: Setting,
    overlap: Overlap,
    how: HowToRun,
    *,
    steps: int,
    recorded: int = 0,
    recorder: Recorder | None = None,
) -> Ran:
    """Runs the list in all processes of torchrun, or in this one alone: `WARM_UP` steps, `steps` that are timed, and
    `recorded` more for the recorder, so that what is timed is not slowed by it.

    how: where it has no group, one is made (NCCL on CUDA, else gloo). Raises what `run` raises.
    """
    device = how.device or _device()
    with _group(how.group, device) as group:
        how = replace(how, group=group, device=device)
        summary = _describe(setting, overlap, how)
        _agree(summary, how, {"steps": steps, "recorded": recorded})
        clock = _Clock(device)
        with recorder(summary) if recorder else nullcontext() as recording:

            def on_step(step: int) -> None:
                if step < WARM_UP + steps:
                    clock.tick()
                if recording is not None:
                    recording.step()

            result = run(setting, overlap, how, steps=WARM_UP + steps + recorded, on_step=on_step)
        took = torch.tensor(clock.took_ns[WARM_UP:], dtype=torch.int64, device=device)
        if group is not None:
            dist.all_reduce(took, dist.ReduceOp.MAX, group)
        num_ranks = dist.get_world_size(group) if group else 1
        return Ran(
            rank=dist.get_rank(group) if group else 0, step_ns=int(median(took.tolist())), summary=summary,
            tokens=setting.tokens * len(going(overlap, "F")) * num_ranks, notes=result.notes,
        )  # fmt: skip


def _agree(summary: Mapping[str, str], how: HowToRun, counts: Mapping[str, int]) -> None:
    """Raises `ProfileError`, on all ranks, where one was asked for another run than rank 0: they would wait for each
    other until the group's time is up."""
    if how.group is None:
        return
    asked = {key.removeprefix("profile."): text for key, text in summary.items() if key != "profile.hardware"}
    asked |= {"dtype": str(how.dtype), "seed": str(how.seed), **{name: str(count) for name, count in counts.items()}}
    of_ranks: list[dict[str, str]] = [{} for _ in range(dist.get_world_size(how.group))]
    dist.all_gather_object(of_ranks, asked, group=how.group)
    for rank, other in enumerate(of_ranks):
        for what, text in of_ranks[0].items():
            if other.get(what) != text:
                raise ProfileError(
                    f"ranks were asked for different runs: {what} is {text} on rank 0, {other.get(what)} on rank {rank}"
                )


@contextmanager
def _group(given: dist.ProcessGroup | None, device: torch.device) -> Iterator[dist.ProcessGroup | None]:
    """The given group, or one of all processes for as long as the block lasts; None in a process alone."""
    if given is not None:
        yield given
    elif int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield None
    else:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        try:
            yield dist.group.WORLD
        finally:
            dist.destroy_process_group()


def _device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    return device


class _Clock:
    """How long each step took, the device's work included."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.took_ns: list[int] = []
        self._last_ns = time.perf_counter_ns()

    def tick(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        now = time.perf_counter_ns()
        self.took_ns.append(now - self._last_ns)
        self._last_ns = now


def _describe(setting: Setting, overlap: Overlap, how: HowToRun) -> dict[str, str]:
    """What was run, for the file; of the setting's accelerator nothing, for this is another one."""
    assert how.device is not None
    on_gpu = how.device.type == "cuda"
    backend = dist.get_backend(how.group) if how.group is not None else "copies in one process"
    cpu = f"CPU, {counted(torch.get_num_threads(), 'thread')}"
    own = {
        "hardware": torch.cuda.get_device_name(how.device) if on_gpu else cpu,
        "comm": f"{backend}; rows travel as {how.payloads.dispatch} to the experts, {how.payloads.combine} back",
        "overlap": overlap.name, "layers": str(setting.num_layers), "hidden": f"{setting.model.hidden_size:,}",
        "routing": how.routing, "costs": "executed",
    }  # fmt: skip
    shown = {key: text for key, text in setting.summary().items() if key not in ("hardware", "sms", "comm")}
    return {f"profile.{key}": text for key, text in {**shown, **own}.items()}


def how_to_run(*, device: str, dtype: str, routing: str, exact: bool, seed: int) -> HowToRun:
    """From words: device "cpu", "cuda", or "" for the GPU where there is one; dtype as torch calls it, "" for the
    device's own; exact: rows travel as they are. Raises `ProfileError` for what is not here."""
    here = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    if device and device not in here:
        raise ProfileError(f"device {device!r} is not here; this machine has {' and '.join(here)}")
    if dtype and dtype not in DTYPES:
        raise ProfileError(f"dtype {dtype!r}: layers are computed in {', '.join(DTYPES)}")
    return HowToRun(
        device=torch.device("cpu") if device == "cpu" else _device(),
        dtype=getattr(torch, dtype) if dtype else None, routing=routing,
        payloads=Payloads() if exact else PUBLISHED, seed=seed,
    )  # fmt: skip
