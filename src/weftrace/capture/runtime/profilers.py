"""torch.profiler, started and stopped: what is asked of it, and what it is known to refuse."""

from __future__ import annotations

import gc
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from torch._C._autograd import _profiler_enabled
from torch.autograd import profiler as autograd_profiler
from torch.autograd.profiler import KinetoStepTracker
from torch.profiler import ProfilerActivity, profile
from torch.profiler.profiler import PROFILER_STEP_NAME

from weftrace.capture.places import World, world_of
from weftrace.version import __version__


class Session:
    """One recording of torch.profiler, from `start` to `stop`, both on the thread that runs the steps."""

    def __init__(self, *, shapes: bool, stacks: bool) -> None:
        self._profile = _unnoticed(record_shapes=shapes, with_stack=stacks, experimental_config=_config(stacks))

    def start(self) -> None:
        self._profile.start()

    def stop(self) -> Callable[[str], Any]:
        """Ends it, the device's work included; what saves it as JSON to a path, once.

        torch gathers all events here, on this thread and under Python's lock: 2 to 4 µs an event.
        """
        self._profile.stop()
        assert self._profile.profiler is not None
        result = self._profile.profiler.kineto_results
        # Where another profiler took its session, torch hands out a result of nothing, and crashes when it is saved.
        if result is None or not getattr(result, "trace_start_ns", getattr(result, "trace_start_us", int))():
            raise RuntimeError("torch.profiler recorded nothing: another profiler took its place")
        return result.save


def _activities() -> list[ProfilerActivity] | None:
    """All that torch has here; without the GPU where the program has not begun to use it, for a stop would begin it."""
    return [ProfilerActivity.CPU] if torch.cuda.is_available() and not torch.cuda.is_initialized() else None


def _config(stacks: bool) -> Any:
    """Without torch's Python objects of events, which only its own tables need: a third of what a stop takes."""
    try:
        from torch._C._profiler import _ExperimentalConfig

        return None if stacks else _ExperimentalConfig(trace_only=True)
    except (ImportError, TypeError):  # torch before 2.12 or so
        return None


def somebody_else_records() -> bool:
    """Whether another profiler of torch is running, or waits for its steps. torch does not refuse a second one in all
    cases: sessions end each other, results are empty, the start of one raises in the program that owns it."""
    return bool(autograd_profiler._is_profiler_enabled) or bool(_profiler_enabled()) or somebody_else_waits()


def somebody_else_waits() -> bool:
    """Whether a profiler with a schedule has started and not ended: between two calls of its `step` it has a range."""
    if PROFILER_STEP_NAME not in KinetoStepTracker._step_dict:  # each one enters itself when it is made
        return False
    return any(issubclass(type(each), profile) and each.step_rec_fn is not None for each in gc.get_objects())


def _unnoticed(**asked: Any) -> profile:
    """A profiler that does not stay in the list by which `somebody_else_waits` knows others."""
    was_there = PROFILER_STEP_NAME in KinetoStepTracker._step_dict
    made = profile(activities=_activities(), **asked)
    if not was_there:
        KinetoStepTracker.erase_step_count(PROFILER_STEP_NAME)
    return made


def load_profiler() -> None:
    """The first start in a process takes up to a second, and more for a device: so it is made before the run."""
    first = _unnoticed()
    first.start()
    first.stop()


def this_process() -> World:
    """As torch.distributed knows it, else as torchrun tells it."""
    world = world_of(os.environ)
    if dist.is_available() and dist.is_initialized():
        return replace(world, rank=dist.get_rank(), world_size=dist.get_world_size())
    return world


def distributed_info(world: World) -> dict[str, Any]:
    """What torch writes as `distributedInfo` where torch.distributed runs; for a process where it does not."""
    return {"backend": "", "rank": world.rank, "world_size": world.world_size}


def versions() -> dict[str, str]:
    """capture.torch, capture.cuda and so on: of what took part."""
    found = {
        "weftrace": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "nccl": _nccl_version(),
        "host": platform.node(),
        "program": os.path.basename(sys.argv[0]) if sys.argv else "",
    }
    return {f"capture.{name}": str(version) for name, version in found.items() if version}


def _nccl_version() -> str | None:
    if not (torch.cuda.is_available() and dist.is_available() and dist.is_nccl_available()):
        return None
    version: Any = torch.cuda.nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
