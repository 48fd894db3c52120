"""From a trace to the tables of `columns.py`: only those that are asked for, and of these what is asked for.

What takes time is worked out once a device, when a column first needs it: classes and launches of kernels for all
tables but `events`, operators, owners of time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis import Account, kernel_table, own_times, queue_length
from weftrace.analysis import phases as phase_times
from weftrace.analysis.efficiency import Efficiency, OperatorRateRow, ShapeRow, efficiency_or_none
from weftrace.analysis.hidden_communication import DTYPE_BYTES
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.phase_times import with_sms
from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.analysis.waiting.host_paths import KINDS
from weftrace.analysis.waiting.idle_pieces import CAUSES, IdlePieces, idle_pieces
from weftrace.files.columns import frame_schema
from weftrace.files.plain_text import without_surrogates
from weftrace.questions.columns import TABLES
from weftrace.trace import KernelRules, Trace, Work, works_of
from weftrace.trace.device_windows import step_windows
from weftrace.trace.kernels import bus_factor
from weftrace.trace.named_steps import with_steps
from weftrace.trace.phases import find_phases, find_steps
from weftrace.trace.work import workers_of

#: Table -> those of its columns that are wanted.
Needs = Mapping[str, Collection[str]]
_Array = NDArray[np.int64]

_AS_NAMED = {"start_ns": "ts_ns", "process_group": "group"}  # column of events -> its name in `EVENT_SCHEMA`


def build(trace: Trace, needs: Needs, *, rules: KernelRules | None = None) -> dict[str, pl.DataFrame]:
    """The tables that are wanted of a trace, each with the columns that are wanted. Raises TraceError as `works_of`."""
    parts = [_Part(part, rules) for part in (workers_of(trace) if trace.plain is not None else (trace,))]
    built = {}
    for name, wanted in needs.items():
        chosen = [column for column in TABLES[name].columns if column.name in wanted]
        frames = [frame for part in parts for frame in part.frames(name, frozenset(wanted))]
        schema = {column.name: column.dtype for column in chosen}
        typed = [frame.select(pl.col(column).cast(dtype) for column, dtype in schema.items()) for frame in frames]
        built[name] = pl.concat(typed) if typed else pl.DataFrame(schema=schema)
    return built


class _Part:
    """The events of one rank."""

    def __init__(self, trace: Trace, rules: KernelRules | None) -> None:
        self.trace, self.rules = trace, rules

    @cached_property
    def begins_ns(self) -> int:
        """Start of the first event: what at_ns counts from."""
        return int(self.trace.events.get_column("ts_ns").min() or 0)  # type: ignore[arg-type]

    @cached_property
    def devices(self) -> list[_Device]:
        stepped, steps_by = with_steps(self.trace)
        works = works_of(stepped, rules=self.rules)
        if steps_by is not None:  # names of ranges that stand for steps, with the numbers that told them apart
            names = find_phases(self.trace.events).get_column("name")
            works = [replace(work, phases=work.phases.with_columns(names)) for work in works]
        return [_Device(work, self.begins_ns) for work in works if work.basis != "none"]

    def frames(self, name: str, wanted: frozenset[str]) -> Iterator[pl.DataFrame]:
        """A table, device by device."""
        if name == "events":
            yield _events(self.trace, self.begins_ns)
            return
        for device in self.devices:
            frame = _BUILDERS[name](device, wanted)
            yield frame.with_columns(
                pl.lit(device.work.trace.rank, pl.Int64).alias("rank"),
                pl.lit(device.work.device, pl.Int64).alias("device"),
                *device.times(frame),
            )


@dataclass(kw_only=True, eq=False)
class _Owned:
    """Whose each nanosecond is: `own_times` of a work whose rows are numbered, and its sums by row."""

    times: pl.DataFrame
    height: int

    def sums(self, column: str, *, idle: bool = False) -> _Array:
        """Of each event, or of the gap before it."""
        chosen = self.times.filter((pl.col("part") == "idle") == idle)
        total = np.zeros(self.height, np.int64)
        np.add.at(total, chosen.get_column("row").to_numpy(), chosen.get_column(column).to_numpy())
        return total

    def first(self, column: str, *, idle: bool = False) -> pl.Series:
        """Of each event, or of the gap before it, what holds where it starts."""
        chosen = self.times.filter((pl.col("part") == "idle") == idle, pl.col("num") == 1)
        empty = pl.Series(column, [None], dtype=self.times.schema[column]).new_from_index(0, self.height)
        return empty.scatter(chosen.get_column("row"), chosen.get_column(column))


class _Device:
    """One device's work, with what several tables need of it."""

    def __init__(self, work: Work, begins_ns: int) -> None:
        # Rows are numbered anew: of a plain trace, several pieces are of one event.
        row = pl.int_range(pl.len(), dtype=pl.UInt32).alias("row")
        self.recorded, self.work = work, replace(work, events=work.events.with_columns(row))
        self.event = work.events.get_column("row").cast(pl.Int64).alias("event")
        self.begins_ns = begins_ns

    def times(self, frame: pl.DataFrame) -> Iterator[pl.Expr]:
        """What follows from start_ns and end_ns, for tables that have them."""
        if "start_ns" in frame.columns:
            yield (pl.col("start_ns") - self.begins_ns).alias("at_ns")
            yield (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns")

    @cached_property
    def account(self) -> Account:
        return Account(work=self.work)

    @cached_property
    def owned(self) -> _Owned:
        return _Owned(times=own_times(self.account), height=self.work.events.height)

    @cached_property
    def efficiency(self) -> Efficiency | None:
        return efficiency_or_none(self.recorded)

    @cached_property
    def idle(self) -> IdlePieces:
        return idle_pieces(self.work)

    @cached_property
    def gaps(self) -> pl.DataFrame:
        """Each gap: gap, row (of the event that ends it), from_ns (absolute), gap_ns, cause: that of most of it."""
        idle = self.idle
        pieces = pl.DataFrame({"gap": idle.gap, "cause": pl.Series(CAUSES).gather(idle.cause), "ns": idle.length})
        most = pieces.group_by("gap", "cause").agg(pl.col("ns").sum()).sort("ns", "cause").unique("gap", keep="last")
        gaps = idle.gaps.events.select(
            pl.int_range(pl.len(), dtype=pl.Int64).alias("gap"), "row", "from_ns",
            (pl.col("until_ns") - pl.col("from_ns")).alias("gap_ns"),
        )  # fmt: skip
        return gaps.join(most.select("gap", "cause"), on="gap", how="left", maintain_order="left")

    @cached_property
    def operator_event(self) -> pl.Series:
        """The operator that launched each event, as its row; null where none is known."""
        if self.work.basis != "device":
            return pl.Series("operator_event", [None], dtype=pl.Int64).new_from_index(0, self.work.events.height)
        return operator_rows(self.work.trace.events, self.work.events).cast(pl.Int64).alias("operator_event")

    @property
    def launched(self) -> pl.Expr:
        """Start of an event's launch call. Operators of a host, where they stand in for a device, have none."""
        return pl.col("launch_ts_ns") if self.work.basis == "device" else pl.lit(None, pl.Int64)

    @property
    def operator(self) -> pl.Series:
        return self.work.trace.events.get_column("name").gather(self.operator_event).alias("operator")

    @property
    def phase(self) -> pl.Series:
        return self.work.phases.get_column("name").gather(self.work.events.get_column("phase")).alias("phase")


def _events(trace: Trace, begins_ns: int) -> pl.DataFrame:
    start, dur = pl.col("ts_ns"), pl.col("dur_ns")
    return trace.events.with_row_index("event").with_columns(
        pl.lit(trace.rank, pl.Int64).alias("rank"),
        *(pl.col(own).alias(name) for name, own in _AS_NAMED.items()),
        (start + dur).alias("end_ns"),
        (start - begins_ns).alias("at_ns"),
    )


def _work(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    events = device.work.events
    frame = events.rename({"phase": "phase_id", "step": "launched_step"})
    frame = frame.with_columns(device.event, pl.col("group").alias("process_group"))
    frame = frame.with_columns(
        device.launched.alias("launch_ns"),
        (pl.col("start_ns") - device.launched).alias("launch_delay_ns"),
        _payload_bytes(),
    )
    if "sms" in wanted:
        frame = with_sms(frame, device.work.num_sms)
    if "phase" in wanted:
        frame = frame.with_columns(device.phase)
    if wanted & {"operator", "operator_event"}:
        frame = frame.with_columns(device.operator, device.operator_event)
    if wanted & {"gap_before_ns", "gap_cause"}:
        gaps = device.gaps.select("row", gap_before_ns="gap_ns", gap_cause="cause")
        frame = frame.join(gaps, on="row", how="left", maintain_order="left").with_columns(
            pl.col("gap_before_ns").fill_null(0)
        )
    if wanted & {"step", "part", "own_ns", "exposed_ns", "hidden_ns"}:
        frame = frame.with_columns(_owners(device.owned))
    return frame


def _owners(owned: _Owned) -> list[pl.Series]:
    own, union = owned.sums("own_ns"), owned.sums("union_ns")
    part = owned.first("part")
    is_exposed = (part != "compute").fill_null(False).to_numpy()
    return [
        owned.first("step"), part, pl.Series("own_ns", own),
        pl.Series("exposed_ns", np.where(is_exposed, own, 0)),
        pl.Series("hidden_ns", np.where(is_exposed, union - own, 0)),
    ]  # fmt: skip


def _payload_bytes() -> pl.Expr:
    element = pl.col("dtype").cast(pl.String).replace_strict(DTYPE_BYTES, default=None, return_dtype=pl.Int64)
    return (pl.col("payload_elems") * element).alias("payload_bytes")


def _collectives(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    frame = _work(device, wanted).filter(pl.col("kind") == "communication")
    if not wanted & {"algbw_GBps", "busbw_GBps"}:
        return frame
    sized = frame.select(pl.col("collective").cast(pl.String), "group_size").unique().filter(pl.col("group_size") > 1)
    factors = sized.with_columns(
        pl.Series("factor", [bus_factor(name, size) for name, size in sized.iter_rows()], dtype=pl.Float64)
    )
    dur = pl.col("end_ns") - pl.col("start_ns")
    algbw = pl.when(dur > 0, pl.col("payload_bytes") > 0).then(pl.col("payload_bytes") / dur)
    frame = frame.with_columns(pl.col("collective").cast(pl.String), algbw.alias("algbw_GBps"))
    frame = frame.join(factors, on=("collective", "group_size"), how="left", nulls_equal=True, maintain_order="left")
    return frame.with_columns((pl.col("algbw_GBps") * pl.col("factor")).alias("busbw_GBps"))


def _gaps(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    events, gaps = device.work.events, device.gaps
    at = gaps.get_column("row")
    step = device.owned.first("step", idle=True).gather(at) if "step" in wanted else pl.Series("step", [None] * len(at))
    ended = pl.Series(_ended_last(events)).gather(at)
    following = events[at.cast(pl.Int64)].select("name", "kind", "family", "stream", device.launched.alias("launch_ns"))
    summary = following.select(pl.all().name.prefix("next_")).with_columns(
        device.event.gather(at).alias("next_event"),
        device.phase.gather(at).alias("next_phase"),
        device.event.gather(ended).alias("prev_event"),
        events.get_column("name").gather(ended).alias("prev_name"),
    )
    if "next_operator" in wanted:
        summary = summary.with_columns(device.operator.gather(at).alias("next_operator"))
    start = pl.col("from_ns")
    span = gaps.select("gap", "cause", start.alias("start_ns"), (start + pl.col("gap_ns")).alias("end_ns"))
    return span.hstack(summary).with_columns(step)


def _idle(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    idle, windows = device.idle, step_windows(device.work.events)
    gaps, paths = idle.gaps.events, idle.paths
    nodes = pl.Series(np.where(idle.path >= 0, idle.path, len(paths.name)))  # the last one stands for none
    outermost = np.arange(len(paths.name))
    for node in np.flatnonzero(paths.parent >= 0):  # a parent comes before its children
        outermost[node] = outermost[paths.parent[node]]
    none = pl.Series([None], dtype=pl.String)
    names = pl.concat([paths.names.gather(paths.name), none])
    around = pl.concat([paths.names.gather(paths.name[outermost]), none])
    kinds = pl.concat([pl.Series(KINDS, dtype=pl.String).gather(paths.kind), none])
    starts = windows.get_column("start_ns").to_numpy()
    at = np.searchsorted(starts, idle.start, "right") - 1
    inside = (at >= 0) & (idle.start < np.append(windows.get_column("end_ns").to_numpy(), 0)[at])
    steps = pl.concat([windows.get_column("step").cast(pl.Int64), pl.Series([None], dtype=pl.Int64)])
    return pl.DataFrame(
        {
            "gap": idle.gap,
            "start_ns": idle.start,
            "end_ns": idle.end,
            "step": steps.gather(np.where(inside, at, windows.height)),
            "part": pl.Series(PARTS).gather(idle.part),
            "cause": pl.Series(CAUSES).gather(idle.cause),
            "name": names.gather(nodes),
            "name_kind": kinds.gather(nodes),
            "within": around.gather(nodes),
            "call": gaps.get_column("call").gather(idle.gap),
            "prev_event": device.event.gather(gaps.get_column("before").gather(idle.gap)),
            "prev_name": gaps.get_column("before_name").gather(idle.gap),
            "next_event": device.event.gather(gaps.get_column("row").gather(idle.gap)),
            "next_name": gaps.get_column("name").gather(idle.gap),
        }
    )


def _idle_parts(device: _Device, windows: pl.DataFrame) -> pl.DataFrame:
    """The parts of idle time in windows (start_ns, end_ns), a column each."""
    idle = device.idle
    hidden = np.isin(idle.cause, [CAUSES.index(cause) for cause in ("unrecorded", "file_cut")])
    bounds = np.stack([windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns")])
    chosen = {part: (idle.part == at) & ~hidden for at, part in enumerate(PARTS)} | {"unrecorded": hidden}
    columns = {}
    for part, of_part in chosen.items():  # of disjoint pieces in order of time, what lies before each bound
        start, end = idle.start[of_part], idle.end[of_part]
        before = np.concatenate(([0], np.cumsum(end - start)))
        place = np.searchsorted(start, bounds, "right")
        open_ns = np.append(end, 0)[place - 1] - bounds if len(end) else np.zeros_like(bounds)
        passed = before[place] - np.where(place > 0, np.maximum(open_ns, 0), 0)
        columns[f"idle_{part}_ns"] = passed[1] - passed[0]
    return pl.DataFrame(columns)


def _ended_last(events: pl.DataFrame) -> _Array:
    """Of each event, which of those that started before ended last."""
    end = events.get_column("end_ns").to_numpy()
    if not len(end):
        return np.zeros(0, np.int64)
    reach = np.maximum.accumulate(end)
    leads = np.concatenate(([True], reach[1:] > reach[:-1]))
    last = np.maximum.accumulate(np.where(leads, np.arange(len(end)), 0))
    return np.concatenate(([0], last[:-1])).astype(np.int64)


def _phases(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    host = device.work.phases.select(
        pl.col("phase").cast(pl.Int64), "tid", "host_start_ns", "host_end_ns",
        host_dur_ns=pl.col("host_end_ns") - pl.col("host_start_ns"),
    )  # fmt: skip
    found = phase_times(device.account).with_columns(pl.col("phase").cast(pl.Int64))
    return found.join(host, on="phase", how="left", maintain_order="left").rename(
        {"phase": "phase_id", "index": "occurrence"}
    )


def _steps(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    windows = step_windows(device.work.events)
    times = device.owned.times.with_columns(pl.col("step").cast(pl.Int64))
    if windows.is_empty():
        windows = _whole(device.work)
        times = times.with_columns(pl.lit(None, pl.Int64).alias("step"))
    totals = times.group_by("step").agg(*_parts(), _counted(idle=False), _counted(idle=True))
    hosts = find_steps(device.work.trace.events)
    windows = windows.hstack(_idle_parts(device, windows))
    totals = windows.join(totals, on="step", how="left", nulls_equal=True, maintain_order="left")
    counts = [name for name in totals.columns if name not in windows.columns]
    return (
        totals.with_columns(pl.col(counts).fill_null(0), (pl.col("end_ns") - pl.col("start_ns")).alias("span_ns"))
        .join(hosts, on="step", how="left", maintain_order="left")
        .sort("step")
    )


def _whole(work: Work) -> pl.DataFrame:
    """The window of what has no steps."""
    schema = {"step": pl.Int64(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}
    return pl.DataFrame({"step": [None], "start_ns": [work.start_ns], "end_ns": [work.end_ns]}, schema=schema)


def _counted(*, idle: bool) -> pl.Expr:
    name = "num_gaps" if idle else "num_events"
    return pl.col("num").filter((pl.col("part") == "idle") == idle).sum().alias(name)


def _parts() -> list[pl.Expr]:
    """The parts of a span, of rows of `own_times`."""

    def total(part: str, column: str = "own_ns") -> pl.Expr:
        return pl.col(column).filter(pl.col("part") == part).sum()

    exposed, memory = "exposed communication", "exposed memory"
    return [
        total("compute").alias("compute_ns"),
        total(exposed, "union_ns").alias("communication_ns"),
        (total(exposed, "union_ns") - total(exposed)).alias("hidden_communication_ns"),
        total(exposed).alias("exposed_communication_ns"),
        total(memory, "union_ns").alias("memory_ns"),
        total(memory).alias("exposed_memory_ns"),
        total("idle").alias("idle_ns"),
    ]


def _kernels(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    frame = kernel_table(device.work).kernels
    if "own_ns" not in wanted:
        return frame
    key = ("name", "kind", "family")
    own = device.work.events.select(pl.col(key).cast(pl.String), pl.Series("own_ns", device.owned.sums("own_ns")))
    return frame.join(
        own.group_by(key).agg(pl.col("own_ns").sum()), on=key, how="left", nulls_equal=True, maintain_order="left"
    )


def _operators(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    return device.efficiency.operators if device.efficiency else pl.DataFrame(schema=frame_schema(OperatorRateRow))


def _shapes(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    return device.efficiency.shapes if device.efficiency else pl.DataFrame(schema=frame_schema(ShapeRow))


def _queue(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    length = queue_length(device.work)
    until = pl.col("ts_ns").shift(-1).fill_null(pl.max_horizontal("ts_ns", pl.lit(device.work.end_ns)))
    return length.select(pl.col("ts_ns").alias("start_ns"), until.alias("end_ns"), "queue_length")


def _ranks(device: _Device, wanted: frozenset[str]) -> pl.DataFrame:
    work, trace = device.work, device.work.trace
    about = trace.device(work.device) if work.device is not None else None
    summary = {
        "path": without_surrogates(trace.path), "world_size": trace.world_size,
        "device_name": about.name if about else None, "num_sms": about.num_sms if about else None,
        "basis": work.basis, "simulated": trace.simulated, "start_ns": work.start_ns, "end_ns": work.end_ns,
        "span_ns": work.end_ns - work.start_ns, "num_events": work.events.height, "num_steps": len(work.steps),
        "num_unlinked": work.num_unlinked, "num_clipped": work.num_clipped, "num_dropped": trace.quality.num_dropped,
    }  # fmt: skip
    return pl.DataFrame([summary]).hstack(device.owned.times.select(_parts())).hstack(_idle_parts(device, _whole(work)))


_BUILDERS: dict[str, Callable[[_Device, frozenset[str]], pl.DataFrame]] = {
    "work": _work,
    "gaps": _gaps,
    "idle": _idle,
    "phases": _phases,
    "steps": _steps,
    "collectives": _collectives,
    "kernels": _kernels,
    "operators": _operators,
    "shapes": _shapes,
    "queue": _queue,
    "ranks": _ranks,
}
