"""How much memory did a recording hold when, and who had allocated what was alive at the peak?

With `profile_memory=True` the profiler writes each allocation and free, of a device or the CPU, with the sums after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.memory.curves import CHANGE_SCHEMA, CurveRow, alive_at, bounded_curve
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import Trace
from weftrace.trace.phases import assign_phases, find_steps
from weftrace.trace.work import Work, as_work
from weftrace.units import size

#: Rows of what was alive at the peak; what follows is one row.
_MOST_ROWS = 40
BEFORE, OTHERS, UNMATCHED, NO_OPERATOR = "(before the recording)", "(others)", "(not matched)", "(no operator)"
#: c10's types of devices, as files number them.
DEVICE_TYPES = {0: "CPU", 1: "CUDA", 6: "HIP", 9: "XLA", 12: "XPU", 13: "MPS", 15: "HPU", 19: "MTIA", 20: "PrivateUse1"}
_CPU = 0
#: Operators that do nothing but allocate: who called them is who wanted the memory.
_ALLOCATING = r"^aten::(?:new_)?(?:empty|resize|set)(?:_strided|_like|_as|_permuted|_quantized|_affine_quantized)?_?$"


class AliveRow(TypedDict):
    """What was alive at the peak, by who allocated it. The rows add up to the peak, to the byte."""

    operator: Annotated[
        str,
        Meta(
            description="The innermost operator that was open on the allocating thread, those that only allocate "
            "(aten::empty and the like) left out. (before the recording): allocated when the recording began, and not "
            "freed until the peak. (no operator): none was open. (not matched): sums of the file that its events do "
            "not explain; negative where it lacks frees. (others): the rows that follow."
        ),
        Shown("allocated by", wide=True),
    ]
    phase: Annotated[str | None, Meta(description="The annotation in which it was allocated."), Shown("phase")]
    num_blocks: Annotated[Count | None, Meta(description="Null if only the sum is known."), Shown("blocks")]
    alive_bytes: Annotated[int, Shown("bytes")]
    share: Annotated[float, Meta(description="Of the peak."), Shown("of peak")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MemoryUse(InNotebook):
    """Memory of one device over a recording, as its allocator counted it.

    By hand: take the file's `[memory]` events of one device in order of time. `Total Allocated` of each is what is
    allocated from then on, the largest is the peak; fragmentation is `Total Reserved` - `Total Allocated`, memory that
    the allocator holds and nobody uses. Blocks that were taken until the peak and not given back, by their address,
    were alive there.
    """

    device: Annotated[str, Meta(description="Kind and number, as the file says: CUDA 0, HIP 0, CPU.")]
    num_events: Annotated[Count, Meta(description="Allocations and frees.")]
    first_bytes: Annotated[int, Meta(description="Allocated when it began.")]
    last_bytes: Annotated[int, Meta(description="Allocated when it ended.")]
    peak_bytes: Annotated[int, Meta(description="The most that was allocated at a time.")]
    peak_ns: Annotated[int, Meta(description="When, from the start of the device's span; the first of equals.")]
    reserved_bytes: Annotated[Count | None, Meta(description="Reserved at that moment; null where it is not recorded.")]
    most_reserved_bytes: Annotated[Count | None, Meta(description="The most that was reserved at a time.")]
    most_fragmented_bytes: Annotated[int | None, Meta(description="The most that was reserved and not allocated.")]
    most_fragmented_ns: Annotated[int | None, Meta(description="When that was.")]
    is_relative: Annotated[
        bool, Meta(description="Whether the file lacks sums, so that bytes count from the start of the recording.")
    ]
    curve: Annotated[
        pl.DataFrame,
        As(list[CurveRow]),
        Meta(description="Over time, at most 1,440 points: each stretch's first, last, highest and lowest."),
    ]
    alive: Annotated[pl.DataFrame, As(list[AliveRow]), Meta(description="At the peak, most bytes first.")]

    @property
    def fragmented_bytes(self) -> Annotated[int | None, Meta(description="reserved_bytes - peak_bytes, at the peak.")]:
        return None if self.reserved_bytes is None else self.reserved_bytes - self.peak_bytes

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "device", self.device
        yield "peak", size(self.peak_bytes)
        if self.most_reserved_bytes is not None:
            yield "reserved at most", size(self.most_reserved_bytes)
        for row in self.alive.head(5).iter_rows(named=True):
            yield row["operator"], size(row["alive_bytes"])


def memory_use(source: Trace | Work) -> tuple[MemoryUse, ...]:
    """Memory of a device, and of the CPU beside it: empty where the file has no memory events.

    Of a step the peak is sought within the step on the host, which is where memory is allocated.
    Raises TraceError when a Trace holds several devices.
    """
    work = as_work(source)
    events = work.trace.memory
    if events is None or events.is_empty():
        return ()
    on_cpu = pl.col("device_type") == _CPU
    others = events.filter(~on_cpu)
    if work.device is not None and others.get_column("device").n_unique() > 1:
        others = others.filter(pl.col("device") == work.device)
    parts = [*_by_device(others), *_by_device(events.filter(on_cpu))]
    found = (_use(name, part, work) for name, part in parts)
    return tuple(each for each in found if each is not None)


def _by_device(events: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    parts = events.sort("device_type", "device", maintain_order=True).partition_by(
        "device_type", "device", as_dict=True, maintain_order=True
    )
    for (kind, device), part in parts.items():
        name = DEVICE_TYPES.get(kind, f"device type {kind}")
        yield name if kind == _CPU else f"{name} {device}", part


def _use(device: str, events: pl.DataFrame, work: Work) -> MemoryUse | None:
    events = events.sort("ts_ns", maintain_order=True)
    is_relative = events.get_column("allocated_bytes").null_count() > 0
    summed = pl.col("bytes").cum_sum() if is_relative else pl.col("allocated_bytes")
    # a CPU's allocator reserves nothing, and the profiler writes 0
    reserves = not is_relative and bool(events.select((pl.col("reserved_bytes") > 0).any()).item())
    reserved = pl.col("reserved_bytes") if reserves else pl.lit(None, pl.Int64)
    changes = events.select(
        (pl.col("ts_ns") - work.start_ns).alias("time_ns"), "address", "bytes",
        summed.alias("allocated_bytes"), reserved.alias("reserved_bytes"),
    ).cast(CHANGE_SCHEMA)  # type: ignore[arg-type]  # fmt: skip
    first, stop = _rows_of(work, changes.get_column("time_ns").to_numpy())
    here = changes[first:stop]
    if here.is_empty():
        return None
    first_bytes = int(here.item(0, "allocated_bytes") - here.item(0, "bytes"))
    row = first + int(here.get_column("allocated_bytes").arg_max())  # type: ignore[arg-type]
    peak = changes.row(row, named=True)
    begun = here.head(1).with_columns(pl.lit(first_bytes, pl.Int64).alias("allocated_bytes"))
    if first_bytes >= peak["allocated_bytes"]:  # nothing is higher than the beginning
        row, peak = first - 1, begun.row(0, named=True)
    gap = here.get_column("reserved_bytes") - here.get_column("allocated_bytes")
    widest = gap.arg_max() if reserves else None
    return MemoryUse(
        device=device,
        num_events=here.height,
        first_bytes=first_bytes,
        last_bytes=int(here.item(-1, "allocated_bytes")),
        peak_bytes=peak["allocated_bytes"],
        peak_ns=peak["time_ns"],
        reserved_bytes=peak["reserved_bytes"],
        most_reserved_bytes=here.get_column("reserved_bytes").max() if reserves else None,  # type: ignore[arg-type]
        most_fragmented_bytes=None if widest is None else int(gap[widest]),
        most_fragmented_ns=None if widest is None else int(here.item(widest, "time_ns")),
        is_relative=is_relative,
        curve=bounded_curve(pl.concat([begun, here])),
        alive=_alive(events, changes, row, peak["allocated_bytes"], work),
    )


def _rows_of(work: Work, times_ns: NDArray[np.int64]) -> tuple[int, int]:
    """First row and end of those in a step's range on the host, or in a window; of all where the work is no part."""
    start, end = work.window_ns or (None, None)
    if work.step is not None:
        steps = find_steps(work.trace.events).filter(pl.col("step") == work.step)
        start, end = steps.select("host_start_ns", "host_end_ns").row(0) if steps.height else (start, end)
    if start is None or end is None:
        return 0, len(times_ns)
    first, stop = np.searchsorted(times_ns, [start - work.start_ns, end - work.start_ns])
    return int(first), int(stop)


def _alive(events: pl.DataFrame, changes: pl.DataFrame, row: int, peak_bytes: int, work: Work) -> pl.DataFrame:
    blocks, given_bytes = alive_at(changes, row)
    first_bytes = int(changes.item(0, "allocated_bytes") - changes.item(0, "bytes"))
    owners = _owners(events[blocks.get_column("row")], work).with_columns(blocks.get_column("bytes"))
    rows = (
        owners.group_by("operator", "phase")
        .agg(pl.len().cast(pl.Int64).alias("num_blocks"), pl.col("bytes").sum().alias("alive_bytes"))
        .sort("alive_bytes", "operator", "phase", descending=[True, False, False], nulls_last=True)
    )
    rest = rows[_MOST_ROWS:]
    known = int(blocks.get_column("bytes").sum())
    before = first_bytes - given_bytes
    sums = {OTHERS: int(rest.get_column("alive_bytes").sum()), BEFORE: before, UNMATCHED: peak_bytes - known - before}
    numbers = {OTHERS: int(rest.get_column("num_blocks").sum())}
    told = [
        {"operator": name, "phase": None, "num_blocks": numbers.get(name), "alive_bytes": count}
        for name, count in sums.items()
        if count
    ]
    every = pl.concat([rows.head(_MOST_ROWS), pl.DataFrame(told, schema=rows.schema)])
    share = (pl.col("alive_bytes") / max(1, peak_bytes)).alias("share")
    every = every.with_columns(share).sort("alive_bytes", descending=True, maintain_order=True)
    return every.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(AliveRow).items())


def _owners(taken: pl.DataFrame, work: Work) -> pl.DataFrame:
    """operator and phase of each allocation."""
    calls = taken.select(
        pl.col("ts_ns").alias("launch_ts_ns"), pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid")
    )
    events = work.trace.events
    ranges = events.select("pid", "tid", "ts_ns", "dur_ns", "cat", "name")
    names = ranges.get_column("name").unique().cast(pl.String)
    empty = names.filter(names.str.contains(_ALLOCATING)).cast(pl.Categorical()).implode()
    is_op = pl.col("cat") == "cpu_op"
    rows = open_at_launch(ranges, calls, is_op & ~pl.col("name").is_in(empty))
    if rows.null_count():  # what only allocates is better than no operator
        rows = rows.fill_null(open_at_launch(ranges, calls, is_op))
    operator = events.get_column("name").gather(rows).cast(pl.String)
    phase = assign_phases(work.phases, calls, events)
    name_of = work.phases.get_column("name")
    return pl.DataFrame(
        {
            "operator": operator.fill_null(NO_OPERATOR),
            "phase": name_of.gather(phase.fill_null(0)).set(phase.is_null(), None)
            if name_of.len()
            else pl.Series([None] * taken.height, dtype=pl.String),
        }
    )
