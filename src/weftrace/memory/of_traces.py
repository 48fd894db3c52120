"""Memory of each device of a trace, by itself: what `weftrace memory` shows of a trace."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.analysis.memory import MemoryUse, memory_use
from weftrace.errors import TraceError
from weftrace.files.sources import file_name
from weftrace.notebook import InNotebook
from weftrace.trace import Job, Trace, open_trace, works_of
from weftrace.units import size


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class TraceMemory(InNotebook):
    """What a recording held of each device's memory, and of the host's."""

    source: Annotated[str, Meta(description="Name of its file.")]
    devices: Annotated[tuple[MemoryUse, ...], Meta(min_length=1, description="The devices, then the CPU.")]

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield from ((each.device, f"peak {size(each.peak_bytes)}") for each in self.devices)


def memory_of(source: Trace | str | os.PathLike[str], *, step: int | None = None) -> TraceMemory:
    """Memory over a trace's recording, or over one of its ProfilerSteps.

    Raises TraceError where the file has no memory events, or is a job of many files.
    """
    trace = source if isinstance(source, Trace) else open_trace(str(source))
    if isinstance(trace, Job):
        raise TraceError(f"{source}: holds many files; give one of them.")
    found: dict[str, MemoryUse] = {}
    for work in works_of(trace, step=step):
        found |= {use.device: use for use in memory_use(work) if use.device not in found}
    if not found:
        raise TraceError(
            f"{trace.path}: has no memory events{'' if step is None else f' in step {step}'}. Record it with "
            "torch.profiler.profile(profile_memory=True)."
        )
    ordered = sorted(found.values(), key=lambda use: use.device == "CPU")
    return TraceMemory(source=file_name(trace.path) or "in memory", devices=tuple(ordered))


def trace_table(memory: TraceMemory) -> pl.DataFrame:
    """What was alive at each device's peak: its `AliveRow`s, with the device."""
    return pl.concat(each.alive.select(pl.lit(each.device).alias("device"), pl.all()) for each in memory.devices)
