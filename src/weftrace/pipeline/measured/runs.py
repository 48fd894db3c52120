"""What did the ranks of a pipeline do, and when? Read from traces whose ranges name actions (`annotations`).

Each rank writes a trace. weftrace's runtime writes a range `3F5` around the action, `wait` around the wait for messages
before it, and `pipeline step` around a whole step; other frameworks have other names, and some tell fewer numbers.
What an action took never includes the wait for its message:

    host     range 3F5       [....wait....|== compute ==|send]     torch: from the first operator after the wait
    device   launched in it            [recv kernel]               the wait: from the action before, until it ended
                                                   [gemm][gemm]    the action: first start to last end of what computes,
                                                                   and of collectives that forwards run too

A range that names neither stage nor micro-batch is told by its order on its rank (`MeasuredRun.numbers`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import TraceError
from weftrace.notebook import InNotebook
from weftrace.pipeline.measured.absent_ranks import Absence, absence
from weftrace.pipeline.measured.annotations import ACTIONS, NamedRange, named_ranges
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule
from weftrace.trace.job import Job
from weftrace.trace.model import Trace, is_annotation
from weftrace.trace.phases import find_steps, step_at
from weftrace.trace.work import works_of
from weftrace.units import counted, duration

_Ints = NDArray[np.int64]
_LEAST_STALL_NS: Final = 100_000  # a shorter gap inside an F&B of the host is Python's
_RECEIVES: Final = r"^(?:gloo|mpi|ucc):recv"  # of a backend on CPUs, in flight
_NOT_COMPUTING: Final = r"^(?:c10d::|record_param_comms|(?:gloo|mpi|ucc):)"
_SENDS: Final = r"^c10d::(?:send|isend)"
_REPLICAS_DIFFER: Final = 1.1  # slowest by quickest: less is not worth a sentence
_MOST_NAMED: Final = 8  # replicas

#: Which of several data-parallel replicas: a number, all as one table of actions, or None, whose steps take longest.
Replica = int | Literal["all"] | None

#: Columns of `MeasuredRun.actions`: the action's own, then times of one clock.
RUN_SCHEMA: dict[str, pl.DataType] = {
    **ACTION_SCHEMA,
    "step": pl.Int32(),  # which step of the recording, from 0
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "stalled_ns": pl.Int64(),  # of an F&B: what it waited between its halves for a message; else 0
    "waited_ns": pl.Int64(),  # since the action before it: time in waits for messages, 0 without one
    "waited_until_ns": pl.Int64(),  # when the last of them ended; -1 without one
}

#: What an action took by itself: its time without waits inside it.
TOOK: Final = pl.col("end_ns") - pl.col("start_ns") - pl.col("stalled_ns")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class MeasuredRun(InNotebook):
    """The actions of a recorded run.

    actions: frame of `RUN_SCHEMA`, by rank and in order of their ranges; times in ns as the traces' clocks tell them.
    basis: "host", an action lasts as long as its range, without its wait; "device", from the first start to the last
        end of what was launched inside it. has_waits: whether waits for messages were recorded.
    numbers: "named", the ranges tell stage and micro-batch; "local", each rank numbers its own chunks; "order", they
        tell no stage: each rank is taken as one, until `on_stages_of` sets them by order, as a schedule has them.
    has_one_clock: whether all ranks are of one file or name one machine.
    absent: ranks of the job without a trace; None where there are none, or nothing tells. notes: what was chosen.
    """

    actions: pl.DataFrame
    basis: Literal["host", "device"]
    has_waits: bool
    numbers: Literal["named", "local", "order"] = "named"
    has_one_clock: bool = False
    source: str = ""
    absent: Absence | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_partial(self) -> bool:
        """Whether a rank of the pipeline has no trace."""
        return self.absent is not None and self.absent.takes_part

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
    """The run that traces of a pipeline's ranks tell of. Ranks are those of the traces, numbered anew from 0 in order;
    of several data-parallel replicas that whose steps take longest.

    workers: processes that read them, as `Job.map` has it.

    Raises `TraceError` where a trace cannot be read, holds no range of an action, or two are of one rank.
    """
    return chosen_replica(runs_of(source, workers=workers), None)


def runs_of(source: Trace | Job, *, workers: int | None = None) -> tuple[MeasuredRun, ...]:
    """The run of each replica, with its name as the first of its notes: ranks that ran the same actions of the same
    stages are of different ones. As `run_of`."""
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
    told = _with_common_steps([found[rank] for rank in sorted(found)])
    traced = [rank.rank for rank in told]
    return tuple(_run_of(replica, name, traced) for replica in _replicas(told))


def chosen_replica(runs: Sequence[MeasuredRun], replica: Replica) -> MeasuredRun:
    """One of the runs of replicas (the first note of each is its name), or all in one as though they were more steps;
    what was chosen is in `notes`.

    Raises `TraceError` for a number that there is not.
    """
    if isinstance(replica, int) and not 0 <= replica < len(runs):
        raise TraceError(f"{runs[0].source}: no replica {replica}: there are {len(runs)}, counted from 0.")
    if len(runs) == 1:
        return replace(runs[0], notes=runs[0].notes[1:])
    if replica == "all":
        actions, first = [], 0
        for run in runs:
            actions.append(run.actions.with_columns(pl.col("step") + first))
            first += max(run.steps) + 1
        notes = [f"over all {len(runs)} data-parallel replicas", *(note for run in runs for note in run.notes[1:])]
        absent = runs[0].absent if all(run.is_partial for run in runs) else None
        notes = list(dict.fromkeys([*notes, *_differences(runs)]))
        return replace(runs[0], actions=pl.concat(actions), absent=absent, notes=tuple(notes))
    at = replica if isinstance(replica, int) else max(range(len(runs)), key=lambda at: _span_ns(runs[at]))
    why = "as asked" if isinstance(replica, int) else "because its steps take longest"
    note = f"the pipeline of replica {at} ({runs[at].notes[0]}), {why}: one of {counted(len(runs), 'replica')}"
    return replace(runs[at], notes=(*runs[at].notes[1:], note, *_differences(runs)))


def _differences(runs: Sequence[MeasuredRun]) -> tuple[str, ...]:
    """By how much replicas differ, in a sentence: of the kind and stage for which they differ most; none below 1.1."""
    rows = pl.concat([run.actions.with_columns(replica=pl.lit(at), took=TOOK) for at, run in enumerate(runs)])
    key = ("kind", "stage")
    usual = rows.filter(pl.col("kind") != "F&B").group_by(*key, "replica").agg(pl.median("took"))
    ratio = pl.max("took") / pl.min("took")
    most = usual.group_by(key).agg(ratio=ratio).filter(pl.col("ratio") > _REPLICAS_DIFFER).sort(
        pl.col("ratio"), "stage", descending=[True, False]
    ).head(1)  # fmt: skip
    if most.is_empty():
        return ()
    row = most.row(0, named=True)
    took = dict(usual.join(most, on=key).sort("replica").select("replica", "took").iter_rows())
    each = [
        f"{duration(round(ns))} in replica {at} ({runs[at].notes[0]})" for at, ns in list(took.items())[:_MOST_NAMED]
    ]
    more = f" and others in {len(took) - _MOST_NAMED:,} more" if len(took) > _MOST_NAMED else ""
    return (
        f"the replicas differ by a factor of up to {row['ratio']:.2f}: {row['kind']} of stage {row['stage']} takes "
        f"{', '.join(each)}{more}. If they are pipelines of different models, give the traces of one",
    )


def _span_ns(run: MeasuredRun) -> int:
    """All its steps, each from the first start to the last end."""
    spans = run.actions.group_by("step").agg(span=pl.col("end_ns").max() - pl.col("start_ns").min())
    return int(spans.get_column("span").sum())


def has_actions(trace: Trace) -> bool:
    """Whether a trace has ranges, or Python frames, that name actions of a pipeline; where the names tell no numbers,
    of forwards and of backwards."""
    return bool(_named_in(trace)[1])


# --- one rank ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a rank's trace tells.

    actions: frame of `RUN_SCHEMA` without rank; step -1 and stage or micro_batch null where they are not told.
    host: the name of its machine.
    numbers: of each step, that of its `ProfilerStep` and which of that it is, in order; empty where nothing numbers
        them. pipeline: the ranks among which it sends and receives; empty where that is not known. apart: collectives
        that only backwards run and that end after their last kernel, by how many ns at most.
    """

    path: str
    rank: int | None
    world_size: int | None
    actions: pl.DataFrame
    frameworks: tuple[str, ...]
    host: str | None
    numbers: tuple[tuple[int, int], ...]
    pipeline: tuple[int, ...]
    is_device: bool
    has_waits: bool
    frames: bool
    apart: dict[str, int]


def _named_in(trace: Trace) -> tuple[pl.DataFrame, dict[str, NamedRange], bool]:
    """The ranges of a trace that are known (name, pid, tid, ts_ns, end_ns), what their names say, and whether they are
    Python frames: of the annotations, or else of the frames, where they are read, that name actions."""
    tables = [(trace.events.filter(is_annotation()), False)]
    if trace.frames is not None:
        tables.append((trace.frames, True))
    for table, frames in tables:
        columns = table.select(pl.col("name", "pid", "tid"), "ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
        names = columns.get_column("name").unique().cast(pl.String).to_list()
        named = named_ranges(names, frames=frames)
        actions = [range_ for range_ in named.values() if range_.is_action]
        kinds = {range_.kind for range_ in actions}
        if any(range_.tells_all for range_ in actions) or ("F" in kinds and kinds & {"B", "I"}):
            known = columns.with_columns(pl.col("name").cast(pl.String)).filter(pl.col("name").is_in(list(named)))
            return known, named, frames
    return tables[0][0].clear(), {}, False


def _actions_of(trace: Trace) -> _Told:
    """The actions of one rank's trace."""
    ranges, named, frames = _named_in(trace)
    if not named:
        hint = "" if trace.frames is None else " or Python function"
        raise TraceError(
            f"{trace.path}: no range{hint} names an action of a pipeline, such as 3F5 or 0F4&7B1. Record the run with "
            "weftrace's pipeline runtime, torch.distributed.pipelining, or a framework that names its forwards and "
            "backwards, inside torch.profiler.profile; with_stack=True also tells Megatron-LM's and DeepSpeed's."
        )
    kinds = {name: range_.kind for name, range_ in named.items()}
    ranges = ranges.with_columns(kind=pl.col("name").replace_strict(kinds, return_dtype=pl.String)).sort(
        "ts_ns", "end_ns", descending=[False, True], maintain_order=True
    )
    own = _actions_in(ranges.filter(pl.col("kind").is_in(list(ACTIONS))), named)
    start, end = (own.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    said = [named[name] for name in own.get_column("name")]
    on_device = bool(trace.device_ids)
    if on_device:
        is_forward = np.array([range_.kind == "F" for range_ in said])
        sends = ranges.filter(pl.col("kind") == "send")
        times, waits, passed, apart = _on_device(trace, start, end, is_forward, sends)
        has_waits, pipeline = passed.height > 0, _pipeline_of(passed)
    else:
        inside = np.array([range_.waits_inside for range_ in said])
        pipeline, apart = (), {}
        times, waits, has_waits = _on_host(trace, start, end, inside, ranges.filter(pl.col("kind") == "wait"), said)
    profilers = find_steps(trace.events)
    steps = ranges.filter(pl.col("kind") == "step").get_column("ts_ns").to_numpy()
    if not len(steps):
        steps = profilers.get_column("host_start_ns").to_numpy()
    step = np.maximum(np.searchsorted(steps, start, "right") - 1, 0) if len(steps) else np.full(len(start), -1)
    rows = [[getattr(range_, column, None) for column in ACTION_SCHEMA] for range_ in said]
    columns = {"step": step, "start_ns": times[0], "end_ns": times[1], "stalled_ns": times[2]}
    columns |= {"waited_ns": waits[0], "waited_until_ns": waits[1]}
    frame = pl.DataFrame(rows, schema=ACTION_SCHEMA, orient="row").with_columns(
        **{name: pl.Series(name, values) for name, values in columns.items()}
    )
    return _Told(
        path=trace.path,
        rank=trace.rank,
        world_size=trace.world_size,
        actions=frame.select(pl.col(n).cast(t) for n, t in RUN_SCHEMA.items()),
        frameworks=tuple(sorted({range_.framework for range_ in said})),
        host=trace.info.get("host_name"),
        numbers=_numbers_of(steps, profilers),
        pipeline=pipeline,
        is_device=on_device,
        has_waits=has_waits,
        frames=frames,
        apart=apart,
    )


def _pipeline_of(passed: pl.DataFrame) -> tuple[int, ...]:
    """The process group in which most messages passed, in the order of its ranks, as torch recorded it."""
    groups = passed.get_column("group_ranks").drop_nulls().cast(pl.String).value_counts(sort=True)
    if groups.is_empty() or not re.fullmatch(r"\[[\d, ]+\]", text := str(groups.row(0)[0])):
        return ()
    return tuple(int(rank) for rank in text[1:-1].split(","))


def _numbers_of(steps: _Ints, profilers: pl.DataFrame) -> tuple[tuple[int, int], ...]:
    """Of steps that start at these times: the number of the `ProfilerStep` around each, and which of that it is; empty
    where one lies in none."""
    number = step_at(pl.Series(steps, dtype=pl.Int64), profilers)
    nth = number.to_frame().select(pl.int_range(pl.len()).over("step")).to_series()
    return () if number.null_count() else tuple(zip(number.to_list(), nth.to_list(), strict=True))


def _actions_in(ranges: pl.DataFrame, named: Mapping[str, NamedRange]) -> pl.DataFrame:
    """The outermost actions. Where they tell all numbers, what does not, such as a user's range around a step, is none,
    unless there are more of that, or it alone tells of forwards or of backwards."""
    tells_all = pl.col("name").is_in([name for name, range_ in named.items() if range_.tells_all])
    numbered, others = (_outermost(ranges.filter(each)) for each in (tells_all, ~tells_all))
    ways = [set(each.get_column("kind").replace({"I": "B", "W": "B"})) for each in (numbered, others)]
    is_enough = numbered.height >= others.height and ("F&B" in ways[0] or ways[0] >= ways[1])
    return numbered if is_enough else _outermost(ranges)


def _outermost(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges that lie in no other of their thread; a wrapped module may name an action twice."""
    reached = pl.col("end_ns").cum_max().shift(1).over("pid", "tid")
    return ranges.filter((pl.col("ts_ns") >= reached).fill_null(True))


_Times = tuple[_Ints, _Ints, _Ints]  # start, end, stalled
_Waits = tuple[_Ints, _Ints]  # waited, until


def _on_host(
    trace: Trace, start: _Ints, end: _Ints, inside: NDArray[np.bool_], waits: pl.DataFrame, said: Sequence[NamedRange]
) -> tuple[_Times, _Waits, bool]:
    """By the ranges. inside: which of them also wait for their message: they begin to compute when it had come."""
    waited, until = _waits(waits, start)
    stalled = np.zeros(len(start), np.int64)
    events = trace.events.select(
        pl.col("name").cast(pl.String), "cat", "ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns")
    )
    come = np.sort(events.filter(pl.col("name").str.contains(_RECEIVES)).get_column("end_ns").to_numpy())
    if not inside.any():
        if waits.is_empty() and len(come):
            waited, until = _arrivals(np.zeros_like(come), come, start, end)
        return (start, end, stalled), (waited, until), bool(waits.height or len(come))
    ops = events.filter(pl.col("cat") == "cpu_op").sort("ts_ns")
    computing = ops.filter(~pl.col("name").str.contains(_NOT_COMPUTING))
    if computing.is_empty():
        raise TraceError(
            f"{trace.path}: the pipeline waits for messages inside its ranges, and the trace has no operators, so "
            "when it began to compute is unknown. Record ProfilerActivity.CPU."
        )
    op_start, op_end = (computing.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    sends = ops.filter(pl.col("name").str.contains(_SENDS)).get_column("ts_ns").to_numpy()
    first = np.minimum(_next(op_start, start, end), end)
    arrived = _last_before(come, first)
    waits_here = inside & (arrived > start)
    begun = np.where(waits_here, arrived, start)
    sent = _next(sends, first, end)
    ended = np.where(inside, sent, end)
    waited += np.where(waits_here, begun - start, 0)
    until = np.where(waits_here, begun, until)
    for at in [at for at, range_ in enumerate(said) if range_.kind == "F&B" and inside[at]]:
        stalled[at] = _stall(op_start, op_end, come, int(begun[at]), int(ended[at]))
    return (begun, ended, stalled), (waited, until), True


def _next(times: _Ints, since: _Ints, until: _Ints) -> _Ints:
    """The first of sorted times from each `since` on; `until` where it would be later."""
    at = np.searchsorted(times, since, "left")
    found: _Ints = np.minimum(np.append(times, np.iinfo(np.int64).max)[at], until)
    return found


def _last_before(times: _Ints, until: _Ints) -> _Ints:
    """The last of sorted times that is not after each `until`; the least number without one."""
    found: _Ints = np.insert(times, 0, np.iinfo(np.int64).min)[np.searchsorted(times, until, "right")]
    return found


def _stall(op_start: _Ints, op_end: _Ints, come: _Ints, begin: int, end: int) -> int:
    """The gaps between operators of one action, from its begin to its end, in which a message came."""
    rows = slice(*np.searchsorted(op_start, (begin, end)))
    free = np.maximum.accumulate(op_end[rows])[:-1]
    again = op_start[rows][1:]
    gaps = np.flatnonzero(again - free >= _LEAST_STALL_NS)
    arrived = _last_before(come, again[gaps])
    return int(np.maximum(arrived - free[gaps], 0).sum())


def _waits(waits: pl.DataFrame, start: _Ints) -> _Waits:
    """Of each action: the time in waits since the action before it, and when the last of them ended."""
    begin, end = (waits.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    before = np.searchsorted(start, begin, "left")  # the action that a wait is for: the first that starts after it
    belongs = before < len(start)
    waited, until = np.zeros(len(start), np.int64), np.full(len(start), -1, np.int64)
    np.add.at(waited, before[belongs], (end - begin)[belongs])
    np.maximum.at(until, before[belongs], end[belongs])
    return waited, until


def _on_device(
    trace: Trace, start: _Ints, end: _Ints, is_forward: NDArray[np.bool_], sends: pl.DataFrame
) -> tuple[_Times, _Waits, pl.DataFrame, dict[str, int]]:
    """By what the device ran: first start and last end of what was launched inside each range, without messages
    between ranks; the range, where nothing was. A message that ended between an action and the next was waited for.
    And the messages that may have been received.

    A collective at the end counts to its action where forwards run it too, in the same group, as tensor parallelism
    does, until the next action begins; one that only backwards run is a reduction of gradients, and is apart: its name,
    and by how many ns it ended later at most.
    """
    works = pl.concat([work.events for work in works_of(trace)]).filter(pl.col("launch_ts_ns").is_not_null())
    collective, is_p2p = pl.col("collective").cast(pl.String), pl.col("name").cast(pl.String).str.contains("SendRecv")
    is_message = ((collective == "send_recv") | ((collective == "coalesced") & is_p2p)).fill_null(False)
    own, passed = works.filter(~is_message), works.filter(is_message)
    launch, first, last = (own.get_column(name).to_numpy() for name in ("launch_ts_ns", "start_ns", "end_ns"))
    computes = (own.get_column("kind").cast(pl.String) != "communication").to_numpy()
    at = _range_at(start, end, launch)
    begin, until = np.full(len(start), np.iinfo(np.int64).max), np.full(len(start), np.iinfo(np.int64).min)
    np.minimum.at(begin, at[at >= 0], first[at >= 0])
    trails = (at >= 0) & computes
    np.maximum.at(until, at[trails], last[trails])
    computed = until.copy()
    shared = np.flatnonzero((at >= 0) & ~computes)
    told = own[shared].select(pl.col("collective").cast(pl.String), pl.col("group_ranks").cast(pl.String))
    named = dict(zip(shared.tolist(), told.rows(), strict=True))
    of_forwards = {named[row] for row in shared[is_forward[at[shared]]].tolist()}
    follows = np.append(np.minimum.accumulate(begin[::-1])[::-1], np.iinfo(np.int64).max)[1:]  # the next action's begin
    apart: dict[str, int] = {}
    for row in shared[last[shared] > computed[at[shared]]].tolist():
        action = at[row]
        if named[row] in of_forwards:
            until[action] = max(until[action], min(last[row], follows[action]))
        elif computed[action] >= begin[action]:
            name = named[row][0] or "collective"
            apart[name] = max(apart.get(name, 0), int(last[row] - computed[action]))
    is_empty = until < begin
    begin, until = np.where(is_empty, start, begin), np.where(is_empty, end, until)
    send_start, send_end = (sends.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    called = passed.get_column("launch_ts_ns").to_numpy()
    passed = passed.filter(pl.Series(_range_at(send_start, send_end, called) < 0, dtype=pl.Boolean)).sort("end_ns")
    posted, came = (passed.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    waits = _arrivals(posted, came, begin, until)
    return (begin, until, np.zeros(len(begin), np.int64)), waits, passed, apart


def _arrivals(posted: _Ints, came: _Ints, start: _Ints, end: _Ints) -> _Waits:
    """Waits for messages, of actions from start to end: the last message that came after the action before and before
    this one, from when that had ended and the message was begun. came: sorted."""
    if not len(came):
        return np.zeros(len(start), np.int64), np.full(len(start), -1)
    order = np.argsort(start, kind="stable")
    free = np.empty(len(start), np.int64)
    free[order] = np.append(start.min(initial=0), np.maximum.accumulate(end[order])[:-1])
    which = np.maximum(np.searchsorted(came, start, "right") - 1, 0)
    arrived, since = came[which], np.maximum(posted[which], free)
    waits_here = (arrived <= start) & (arrived > free)
    return np.where(waits_here, arrived - since, 0), np.where(waits_here, arrived, -1)


def _range_at(start: _Ints, end: _Ints, times: _Ints) -> _Ints:
    """Which of sorted ranges, that do not overlap, holds each time; -1 where none does."""
    if not len(start):
        return np.full(len(times), -1)
    at = np.searchsorted(start, times, "right") - 1
    return np.where((at >= 0) & (times < end[np.maximum(at, 0)]), at, -1)


# --- all ranks --------------------------------------------------------------------------------------------------------


def _with_common_steps(told: Sequence[_Told]) -> list[_Told]:
    """The ranks with steps of one numbering, from 0, where a `ProfilerStep` numbers them on all."""
    if not all(rank.numbers for rank in told):
        return list(told)
    at = {number: at for at, number in enumerate(sorted({number for rank in told for number in rank.numbers}))}
    common = [dict(enumerate(at[number] for number in rank.numbers)) for rank in told]
    return [
        replace(rank, actions=rank.actions.with_columns(pl.col("step").replace_strict(steps, return_dtype=pl.Int32)))
        for rank, steps in zip(told, common, strict=True)
    ]


def _replicas(told: Sequence[_Told]) -> list[list[_Told]]:
    """The ranks of each pipeline, by its process group where ranges name no stage; else, where several ran the same
    action, the k-th of those with the same stages is of the k-th replica."""
    groups = {rank.pipeline: [other for other in told if other.pipeline == rank.pipeline] for rank in told}
    is_apart = sum(len(group) for group in groups) == len({rank for group in groups for rank in group})
    if all(groups) and is_apart and any(rank.actions.get_column("stage").null_count() for rank in told):
        return [sorted(ranks, key=_place) for _, ranks in sorted(groups.items())]
    if any(rank.actions.get_column("stage").null_count() for rank in told) or len(told) == 1:
        return [list(told)]
    keys = ["step", "kind", "stage", "micro_batch", "back_stage", "back_micro_batch"]
    firsts = [rank.actions.unique(keys).select(keys) for rank in told]
    if not pl.concat(firsts).is_duplicated().any():
        return [list(told)]
    of_stages: dict[tuple[int, ...], list[_Told]] = {}
    for rank in told:
        of_stages.setdefault(tuple(sorted(rank.actions.get_column("stage").unique().to_list())), []).append(rank)
    if len(number := {len(ranks) for ranks in of_stages.values()}) != 1:
        missing = min(of_stages.items(), key=lambda each: len(each[1]))
        raise TraceError(
            f"{told[0].path}: several ranks ran the same actions, so they are data-parallel replicas, but of stage "
            f"{missing[0][0]} there is only {counted(len(missing[1]), 'trace')}. Give one trace of each stage "
            "(--ranks), or all traces."
        )
    return [[ranks[at] for ranks in of_stages.values()] for at in range(number.pop())]


def _place(told: _Told) -> int:
    """Where in its pipeline a rank is."""
    return told.pipeline.index(told.rank) if told.rank in told.pipeline else len(told.pipeline)


def _stage_of(told: _Told, at: int, absent: Absence) -> int:
    """Of a rank whose ranges name none, where others have no trace: its place in its process group; its number, where
    the pipeline is the whole job; else its place among the traces."""
    if told.rank in told.pipeline:
        return _place(told)
    return told.rank if told.rank is not None and absent.num_stages == told.world_size else at


def _run_of(told: Sequence[_Told], source: str, traced: Sequence[int | None]) -> MeasuredRun:
    """The ranks of one pipeline as a run. traced: the ranks of all traces."""
    actions = pl.concat(
        [rank.actions.with_columns(pl.lit(number, dtype=pl.Int32).alias("rank")) for number, rank in enumerate(told)]
    )
    by_order = bool(actions.get_column("stage").null_count() or actions.get_column("micro_batch").null_count())
    if (actions.get_column("step") < 0).any():
        actions = _with_steps(actions, by_order)
    actions, left_out = _on_all_ranks(actions, told)
    group, world_size = told[0].pipeline, told[0].world_size
    absent = absence(actions, [rank.rank for rank in told], traced=traced, world_size=world_size, group=group)
    if by_order:
        nth = pl.int_range(pl.len(), dtype=pl.Int32).over("rank", "step", "kind")
        places = [at if absent is None else _stage_of(rank, at, absent) for at, rank in enumerate(told)]
        place = pl.col("rank").replace_strict(dict(enumerate(places)), return_dtype=pl.Int32)
        actions = actions.with_columns(pl.coalesce("stage", place), pl.coalesce("micro_batch", nth))
    on_device = all(rank.is_device for rank in told)
    frameworks = sorted({name for rank in told for name in rank.frameworks})
    notes = []
    if len(told) and told[0].rank is not None:
        notes.append(f"ranks {', '.join(str(rank.rank) for rank in told[:4])}{'…' if len(told) > 4 else ''}")
    else:
        notes.append("the traces as given")
    if frameworks != ["weftrace"]:
        how = "Python functions" if any(rank.frames for rank in told) else "ranges"
        notes.append(f"actions are {how} of {' and '.join(frameworks)}")
    if by_order:
        notes.append("they name no stage, so their order on each rank gives it")
    if absent is not None:
        notes.append(absent.sentence)
    notes += left_out
    if names := sorted({name for rank in told for name in rank.apart}):
        longest = max(time_ns for rank in told for time_ns in rank.apart.values())
        notes.append(
            f"{' and '.join(names)} of backwards alone {'is' if len(names) == 1 else 'are'} taken as the reduction of "
            f"gradients, apart from B and W: up to {duration(longest)} after the last kernel"
        )
    return MeasuredRun(
        actions=actions,
        basis="device" if on_device else "host",
        has_waits=all(rank.has_waits for rank in told),
        numbers="order" if by_order else "named",
        has_one_clock=told[0].host is not None and all(rank.host == told[0].host for rank in told),
        source=source,
        absent=absent,
        notes=tuple(notes),
    )


def _on_all_ranks(actions: pl.DataFrame, told: Sequence[_Told]) -> tuple[pl.DataFrame, list[str]]:
    """The steps that all ranks recorded, and how many others there are, in a sentence. Raises `TraceError` where there
    are none, or where nothing numbers the steps, a rank has fewer, and the k-th of all ranks are not of one time."""
    spans = actions.group_by("step", "rank").agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    steps = spans.group_by("step").agg(pl.len(), at_once=pl.col("start_ns").max() < pl.col("end_ns").min())
    whole = steps.filter(pl.col("len") == len(told))
    if whole.height == steps.height:
        return actions, []
    if whole.is_empty():
        raise TraceError(f"{told[0].path}: no step was recorded on all {len(told)} ranks. Record the same on all.")
    if not all(rank.numbers for rank in told) and not whole.get_column("at_once").all():
        each = spans.group_by("rank").len().sort("len", "rank", descending=[True, False]).rows()
        (many, most), (few, least) = each[0], each[-1]
        raise TraceError(
            f"{told[few].path}: rank {few} recorded {counted(least, 'step')} and rank {many} {most}, and nothing "
            "numbers them, so which belong together is unknown. Record the same steps on all ranks, or call the "
            "profiler's step(), which numbers them."
        )
    left = counted(steps.height - whole.height, "step")
    kept = actions.filter(pl.col("step").is_in(whole.get_column("step").implode()))
    return kept, [f"{left} of {steps.height} left out: not recorded on all ranks"]


def _with_steps(actions: pl.DataFrame, by_order: bool) -> pl.DataFrame:
    """Steps of traces that tell none: an action that comes again is of the next step; of ranges without numbers, the
    step is over when the first rank has as many backwards as forwards."""
    if not by_order:
        again = pl.int_range(pl.len(), dtype=pl.Int32).over("rank", *(c for c in ACTION_SCHEMA if c != "rank"))
        return actions.with_columns(again.alias("step"))
    first = actions.filter(pl.col("rank") == 0).get_column("kind").cast(pl.String)
    open_ = (first.is_in(["F"]).cast(pl.Int32) - first.is_in(["B", "I"]).cast(pl.Int32)).cum_sum()
    closed = (open_ == 0).arg_true()
    num = int(first[: int(closed[0]) + 1].is_in(["F"]).sum()) if len(closed) else actions.height
    nth = pl.int_range(pl.len(), dtype=pl.Int32).over("rank", "kind")
    return actions.with_columns((nth // max(num, 1)).alias("step"))
