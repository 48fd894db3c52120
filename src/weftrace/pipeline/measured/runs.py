"""What did the ranks of a pipeline do, and when? Read from traces whose ranges name actions (`range_names`).

Each rank writes a trace: a range `3F5` around the action, `wait` around the wait for messages before it, and `pipeline
step` around a whole step. On a device an action is what was launched inside its range.

torch's own runtime names its ranges `PP:3F5` and `PP:(0F4;7B1)OVERLAP_F_B`, and waits for messages inside them: their
length tells nothing, but what they launched on a device does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import TraceError
from weftrace.notebook import InNotebook
from weftrace.pipeline.range_names import STEP, WAIT, action_in
from weftrace.pipeline.schedule import ACTION_SCHEMA, Action, Schedule
from weftrace.trace.job import Job
from weftrace.trace.model import Trace, is_annotation
from weftrace.trace.phases import find_steps
from weftrace.trace.work import works_of
from weftrace.units import counted, duration

_Ints = NDArray[np.int64]
_TORCH: Final = "PP:"
_TORCH_PAIR = re.compile(r"PP:\((\d+F\d+);(\d+B\d+)\)OVERLAP_F_B")

#: Columns of `MeasuredRun.actions`: the action's own, then times of one clock.
RUN_SCHEMA: dict[str, pl.DataType] = {
    **ACTION_SCHEMA,
    "step": pl.Int32(),  # which `pipeline step` of the recording, from 0
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "waited_ns": pl.Int64(),  # since the action before it: time in ranges `wait`, 0 without one
    "waited_until_ns": pl.Int64(),  # when the last of them ended; -1 without one
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeasuredRun(InNotebook):
    """The actions of a recorded run.

    actions: frame of `RUN_SCHEMA`, by rank and in order of their ranges; times in ns as the traces' clocks tell them.
    basis: "host", an action lasts as long as its range; "device", from the first start to the last end of what was
        launched inside it. has_waits: whether waits for messages were recorded, on the host. notes: what was chosen.
    """

    actions: pl.DataFrame
    basis: Literal["host", "device"]
    has_waits: bool
    source: str = ""
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """Numbers of the recorded steps."""
        return tuple(self.actions.get_column("step").unique().sort().to_list())

    @property
    def num_ranks(self) -> int:
        return int(self.actions.get_column("rank").n_unique())

    def of_step(self, step: int | None = None) -> MeasuredRun:
        """One step: of that number, or the last. Raises `TraceError` for one that was not recorded."""
        chosen = self.steps[-1] if step is None else step
        if chosen not in self.steps:
            raise TraceError(
                f"{self.source}: no pipeline step {chosen}; recorded are {', '.join(map(str, self.steps))}."
            )
        return replace(self, actions=self.actions.filter(pl.col("step") == chosen))

    def of_schedule(self, schedule: Schedule) -> MeasuredRun:
        """The steps that hold as many actions as the schedule; all of them, where none does. Forwards alone, as an
        evaluation runs them, are steps too."""
        counts = self.actions.group_by("step").len().filter(pl.col("len") == len(schedule))
        kept = self.actions.filter(pl.col("step").is_in(counts.get_column("step").implode()))
        return self if kept.is_empty() else replace(self, actions=kept)

    @property
    def makespan_ns(self) -> int:
        """From the first start to the last end over all ranks, the longest step."""
        spans = self.actions.group_by("step").agg(pl.col("end_ns").max() - pl.col("start_ns").min())
        return int(spans.get_column("end_ns").max())  # type: ignore[arg-type]

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "actions", f"{self.actions.height:,} on {counted(self.num_ranks, 'rank')} ({self.basis})"
        yield "steps", f"{len(self.steps)}"
        yield "makespan", duration(self.makespan_ns)


def run_of(source: Trace | Job, *, workers: int | None = None) -> MeasuredRun:
    """The run that traces of a pipeline's ranks tell of. Ranks are those of the traces, numbered anew from 0 in order.

    workers: processes that read them, as `Job.map` has it.

    Raises `TraceError` where a trace cannot be read, holds no range of an action, or two are of one rank.
    """
    if isinstance(source, Trace):
        found = {(0 if source.rank is None else source.rank): _actions_of(source)}
        name = source.path
    else:
        found, name = {}, source.source
        for number, outcome in enumerate(source.map(_actions_of, workers=workers)):
            if outcome.failure is not None or outcome.value is None:
                raise TraceError(outcome.failure.error if outcome.failure else f"{outcome.path}: cannot be used.")
            rank = number if outcome.rank is None else outcome.rank
            if rank in found:
                raise TraceError(f"{outcome.path}: a second trace of rank {rank}; give one trace per rank, of one run.")
            found[rank] = outcome.value
    frames = [
        table.with_columns(pl.lit(number, dtype=pl.Int32).alias("rank"))
        for number, (_, (table, _, _)) in enumerate(sorted(found.items()))
    ]
    on_device = all(is_device for _, is_device, _ in found.values())
    return MeasuredRun(
        actions=pl.concat(frames),
        basis="device" if on_device else "host",
        has_waits=not on_device and all(has_waits for _, _, has_waits in found.values()),
        source=name,
    )


def has_actions(trace: Trace) -> bool:
    """Whether a trace has ranges that name actions of a pipeline."""
    names = trace.events.filter(is_annotation()).get_column("name").unique().cast(pl.String)
    return any(_named(name) is not None for name in names)


def are_of_torch(trace: Trace) -> bool:
    """Whether torch's pipeline runtime named the actions of a trace."""
    names = trace.events.filter(is_annotation()).get_column("name").unique().cast(pl.String)
    return bool(names.str.starts_with(_TORCH).any())


def _named(name: str) -> Action | None:
    """The action of a range, as weftrace's runtime or torch's names it."""
    if not name.startswith(_TORCH):
        return action_in(name, 0)
    pair = _TORCH_PAIR.fullmatch(name)
    return action_in(f"{pair[1]}&{pair[2]}" if pair else name.removeprefix(_TORCH), 0)


def _actions_of(trace: Trace) -> tuple[pl.DataFrame, bool, bool]:
    """The actions of one rank's trace, whether their times are the device's, and whether waits are recorded."""
    ranges = (
        trace.events.filter(is_annotation())
        .select(pl.col("name").cast(pl.String), "ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
        .sort("ts_ns", "end_ns")
    )
    known = {name: _named(name) for name in ranges.get_column("name").unique()}
    actions = [name for name, action in known.items() if action is not None]
    own = ranges.filter(pl.col("name").is_in(actions))
    if own.is_empty():
        raise TraceError(
            f"{trace.path}: no range names an action of a pipeline, such as 3F5 or 0F4&7B1. Record the run with "
            "weftrace's pipeline runtime inside torch.profiler.profile."
        )
    on_device = bool(trace.device_ids)
    if not on_device and actions[0].startswith(_TORCH):
        raise TraceError(
            f"{trace.path}: torch's pipeline runtime waits for messages inside its ranges ({actions[0]}), so without a "
            "device's work their length is not the time of an action. Record the run with weftrace's runtime."
        )
    start, end = (own.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    steps = ranges.filter(pl.col("name") == STEP).get_column("ts_ns").to_numpy()
    if not len(steps):
        steps = find_steps(trace.events).get_column("host_start_ns").to_numpy()
    step = np.maximum(np.searchsorted(steps, start, "right") - 1, 0) if len(steps) else np.zeros(len(start), np.int64)
    waits = ranges.filter(pl.col("name") == WAIT)
    waited, until = _waits(waits, start)
    rows = [[getattr(known[name], column) for column in ACTION_SCHEMA] for name in own.get_column("name")]
    frame = pl.DataFrame(rows, schema=ACTION_SCHEMA, orient="row")
    times = _device_times(trace, start, end) if on_device else (start, end)
    columns = {"step": step, "start_ns": times[0], "end_ns": times[1], "waited_ns": waited, "waited_until_ns": until}
    frame = frame.with_columns(**{name: pl.Series(name, values) for name, values in columns.items()})
    return frame.select(pl.col(n).cast(t) for n, t in RUN_SCHEMA.items()), on_device, waits.height > 0


def _waits(waits: pl.DataFrame, start: _Ints) -> tuple[_Ints, _Ints]:
    """Of each action: the time in waits since the action before it, and when the last of them ended."""
    begin, end = (waits.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    before = np.searchsorted(start, begin, "left")  # the action that a wait is for: the first that starts after it
    belongs = before < len(start)
    waited, until = np.zeros(len(start), np.int64), np.full(len(start), -1, np.int64)
    np.add.at(waited, before[belongs], (end - begin)[belongs])
    np.maximum.at(until, before[belongs], end[belongs])
    return waited, until


def _device_times(trace: Trace, start: _Ints, end: _Ints) -> tuple[_Ints, _Ints]:
    """First start and last end of the device's work that was launched inside each range; the range, where none was."""
    events = pl.concat([work.events for work in works_of(trace)]).filter(pl.col("launch_ts_ns").is_not_null())
    launch, first, last = (events.get_column(name).to_numpy() for name in ("launch_ts_ns", "start_ns", "end_ns"))
    at = np.searchsorted(start, launch, "right") - 1
    inside = (at >= 0) & (launch < end[np.maximum(at, 0)])
    begin, until = np.full(len(start), np.iinfo(np.int64).max), np.full(len(start), np.iinfo(np.int64).min)
    np.minimum.at(begin, at[inside], first[inside])
    np.maximum.at(until, at[inside], last[inside])
    is_empty = until < begin
    return np.where(is_empty, start, begin), np.where(is_empty, end, until)
