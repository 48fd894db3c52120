"""What did the actions of a measured run cost? Over micro-batches, as `Costs` that can be simulated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import TraceError
from weftrace.pipeline.costs import Costs, durations_ns
from weftrace.pipeline.dependencies import messages, messages_between_ranks
from weftrace.pipeline.measured.runs import TOOK, MeasuredRun
from weftrace.pipeline.schedule import ACTION_SCHEMA, Action, Schedule
from weftrace.units import counted

Typical = Literal["median", "mean"]
#: What a run without I and W adds to the source of its costs.
_UNSPLIT = "; its backwards are B alone: I has all of it and W is 0, because nothing tells W's share"
_FEW_STAGES = 64  # of which any may be missing
_TYPICAL = {"median": pl.median("duration_ns"), "mean": pl.mean("duration_ns")}


def costs_of_run(run: MeasuredRun, schedule: Schedule, *, typical: Typical = "mean") -> Costs:
    """What predicts how long a run of that schedule takes.

    The means of its actions, so that the time that each rank's actions took together is kept, or the medians, which
    leave out what went wrong now and then; rank_factor, by how much those of a rank took longer than these; and
    latency_ns, the median of how long after its sender's end a message was there, over those that were waited for, 0
    where the run tells of no waits.

    Raises `TraceError` where the run is not one of the schedule.
    """
    steps = run.of_schedule(schedule)
    latency_ns = latency_of_run(steps, schedule)
    costs = costs_of_actions(steps, schedule.num_stages, typical=typical)
    return replace(costs, rank_factor=_rank_factors(steps, schedule, costs, typical), latency_ns=latency_ns)


def latency_of_run(run: MeasuredRun, schedule: Schedule) -> int:
    """The median of how long after its sender's end a message was there, in ns, over those that were waited for, in all
    steps of that schedule; 0 where the run tells of no waits. Raises `TraceError` where the run is not one of it."""
    known = _latencies_of(run.of_schedule(schedule), schedule)
    return int(np.median(known)) if len(known) else 0


def costs_of_forecast(run: MeasuredRun, schedule: Schedule) -> Costs:
    """What forecasts another step of that schedule: `costs_of_run` by means, and what passes between actions with it.

    Each action takes as long as it did, and the time before it in which its rank neither ran one nor waited for another
    rank: Python, posting of messages, the way of a message that was sent before its reader was free. latency_ns: the
    mean.

    Raises `TraceError` where the run is not one of the schedule.
    """
    steps = run.of_schedule(schedule)
    known = _latencies_of(steps, schedule)
    latency_ns = int(np.mean(known)) if len(known) else 0
    each = matched(steps, schedule).group_by("step")
    done = [_with_overhead(step.sort("row"), schedule, latency_ns) for _, step in each]
    wider = replace(steps, actions=pl.concat(done).select(steps.actions.columns))
    costs = costs_of_actions(wider, schedule.num_stages, typical="mean")
    return replace(costs, rank_factor=_rank_factors(wider, schedule, costs, "mean"), latency_ns=latency_ns)


def _with_overhead(step: pl.DataFrame, schedule: Schedule, latency_ns: int) -> pl.DataFrame:
    """Actions that begin when nothing that the schedule knows of held them up: after the action before, and after the
    wait for a message that was sent later than that action ended; one that was sent before is there after the latency.
    step: `matched`, in the order of the schedule."""
    rank = schedule.rank_N
    start, end, until = (step.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "waited_until_ns"))
    never = start.min() - latency_ns
    sent = messages_between_ranks(schedule)
    last = np.full(len(rank), never)
    np.maximum.at(last, sent.op, end[sent.on])
    first = np.where(last > never, never, start)  # nothing shows what held up a first action without a message
    free = np.where(np.diff(rank, prepend=-1) != 0, first, np.roll(end, 1))
    held = (until >= 0) & (last > free)
    begun = np.minimum(start, np.maximum(free, np.where(held, until, last + latency_ns)))
    return step.with_columns(start_ns=pl.Series(begun))


def costs_of_actions(run: MeasuredRun, num_stages: int | None = None, *, typical: Typical = "median") -> Costs:
    """The costs of a chunk by stage: of each kind the median over the actions of that stage, all steps and ranks, or
    the mean: a median leaves out what went wrong now and then.

    F&B by pair of stages; a pair that did not run gains as much as those that did, all together. What did not run apart
    follows from what did: without I and W, I is B and W is 0, and `source` says so; without a B, it is I + W. A stage
    that has no action of a kind has the mean of the others. num_stages: as many as the actions name, by default.

    Raises `TraceError` where the actions tell nothing of a forward or of a backward.
    """
    actions = run.actions.with_columns(duration_ns=TOOK)
    named = int(actions.select(pl.max_horizontal(pl.max("stage"), pl.max("back_stage"))).item()) + 1
    known = actions.get_column("stage").n_unique()
    if num_stages is None and named > _FEW_STAGES + 16 * known:
        raise TraceError(
            f"{run.source}: stage {named - 1:,} has actions, but of all stages before it only {known - 1:,} have: give "
            "the traces of the others."
        )
    stages = num_stages or named
    by_stage = {kind: _by_stage(actions, kind, stages, typical) for kind in ("F", "I", "W", "B")}
    forward, whole = by_stage["F"], by_stage["B"]
    if forward is None:
        raise TraceError(f"{run.source}: no action of the run is an F alone, so what a forward costs is not known.")
    gradient, weight = by_stage["I"], by_stage["W"]
    if (gradient is None or weight is None) and whole is not None:
        gradient, weight = whole, (0,) * stages
    if gradient is None or weight is None:
        raise TraceError(f"{run.source}: it holds neither a B nor I and W, so what a backward costs is not known.")
    both = whole or tuple(own + later for own, later in zip(gradient, weight, strict=True))
    return Costs(
        forward_ns=forward,
        input_ns=gradient,
        weight_ns=weight,
        backward_ns=whole,
        overlapped_ns=_pairs(actions, forward, both, typical),
        activation_bytes=1,
        source=f"{typical}s of {run.source}{'' if tells_weight(run) else _UNSPLIT}",
    )


def tells_weight(run: MeasuredRun) -> bool:
    """Whether actions of the run tell I from W. `costs_of_actions` of one that has B alone are right for schedules that
    split no backward, and for no others."""
    return bool(run.actions.get_column("kind").is_in(("I", "W")).any())


def with_share_of_weight(costs: Costs, share: float) -> Costs:
    """Costs of a run that has B alone, with this part of each B as W."""
    assert isinstance(costs.backward_ns, tuple), "B was measured, by stage"
    weight = tuple(round(each * share) for each in costs.backward_ns)
    gradient = tuple(each - own for each, own in zip(costs.backward_ns, weight, strict=True))
    return replace(costs, input_ns=gradient, weight_ns=weight, source=costs.source.removesuffix(_UNSPLIT))


def _rank_factors(run: MeasuredRun, schedule: Schedule, costs: Costs, typical: Typical) -> tuple[float, ...]:
    """Of each rank: the time of its actions by that of the same actions at the typical costs of their stages."""
    ranks = schedule.rank_N
    usual = np.bincount(ranks, durations_ns(schedule, costs), schedule.num_ranks) * len(run.steps)
    alike = run.actions.with_columns(duration_ns=TOOK).group_by("rank", "kind", "stage", "back_stage")
    took = alike.agg(_TYPICAL[typical] * pl.len()).group_by("rank").agg(pl.sum("duration_ns")).sort("rank")
    factors = took.get_column("duration_ns").to_numpy() / np.maximum(usual, 1)
    return tuple(float(factor) if factor > 0 else 1.0 for factor in factors)


def matched(run: MeasuredRun, schedule: Schedule) -> pl.DataFrame:
    """The run's actions with `row`, that of each in `schedule.actions`; all steps.

    Raises `TraceError` at the first action that is not where the schedule has it.
    """
    if run.num_ranks != schedule.num_ranks:
        raise TraceError(
            f"{run.source}: traces of {counted(run.num_ranks, 'rank')}; schedule {schedule.name!r} has "
            f"{schedule.num_ranks}. Give one trace a rank of one pipeline."
        )
    planned = schedule.actions.with_row_index("row").with_columns(place=pl.int_range(pl.len()).over("rank"))
    done = run.actions.with_columns(place=pl.int_range(pl.len()).over("step", "rank"))
    both = done.join(planned, on=["rank", "place"], how="left", suffix="_planned", maintain_order="left")
    differs = pl.any_horizontal(
        pl.col(name).ne_missing(pl.col(f"{name}_planned")) for name in ACTION_SCHEMA if name not in ("rank", "offload")
    )
    if len(wrong := both.filter(pl.col("row").is_null() | differs)):
        _refuse(wrong.row(0, named=True), run, schedule)
    each = done.select(pl.col("step").unique()).join(planned.select(pl.col("rank").unique()), how="cross")
    counts = each.join(done.group_by("step", "rank").len(), on=["step", "rank"], how="left").fill_null(0)
    counts = counts.join(planned.group_by("rank").len(), on="rank", suffix="_planned")
    if len(short := counts.filter(pl.col("len") < pl.col("len_planned")).sort("step", "rank")):
        row = short.row(0, named=True)
        raise TraceError(
            f"{run.source}: rank {row['rank']} has {row['len']} actions in step {row['step']}; schedule "
            f"{schedule.name!r} has {row['len_planned']}. The recording may have been cut."
        )
    return both.select(*run.actions.columns, pl.col("row").cast(pl.Int64))


def _refuse(row: dict[str, Any], run: MeasuredRun, schedule: Schedule) -> None:
    named = ("kind", "stage", "micro_batch", "back_stage", "back_micro_batch")
    done = Action(rank=row["rank"], **{name: row[name] for name in named})
    where = f"{run.source}: action {row['place'] + 1} of rank {row['rank']} in step {row['step']} is {done}; "
    if row["row"] is None:
        raise TraceError(f"{where}schedule {schedule.name!r} has no more on that rank. Is it the plan that was run?")
    planned = Action(rank=row["rank"], **{name: row[f"{name}_planned"] for name in named})
    raise TraceError(f"{where}schedule {schedule.name!r} has {planned} there. Is it the plan that was run?")


def _by_stage(actions: pl.DataFrame, kind: str, num_stages: int, typical: Typical) -> tuple[int, ...] | None:
    """Of each stage; None where no stage has such actions."""
    own = actions.filter(pl.col("kind") == kind).group_by("stage").agg(_TYPICAL[typical])
    if own.is_empty():
        return None
    found = dict(own.iter_rows())
    usual = float(own.get_column("duration_ns").mean())  # type: ignore[arg-type]
    return tuple(round(found.get(stage, usual)) for stage in range(num_stages))


def _pairs(
    actions: pl.DataFrame, forward: tuple[int, ...], backward: tuple[int, ...], typical: Typical
) -> tuple[tuple[int, ...], ...] | None:
    """Of F&B by [forward's stage][backward's stage], as measured; of pairs that did not run the same part of F + B as
    of those that did. None where none ran."""
    own = actions.filter(pl.col("kind") == "F&B").group_by("stage", "back_stage").agg(_TYPICAL[typical])
    if own.is_empty():
        return None
    serial = np.array(forward)[:, None] + np.array(backward)
    took = {(stage, back_stage): time_ns for stage, back_stage, time_ns in own.iter_rows()}
    gained = sum(took.values()) / max(sum(int(serial[pair]) for pair in took), 1)
    found = np.rint(serial * gained).astype(np.int64)
    for pair, time_ns in took.items():
        found[pair] = round(time_ns)
    return tuple(tuple(row) for row in found.tolist())


def _latencies_of(run: MeasuredRun, schedule: Schedule) -> NDArray[np.int64]:
    """Of all steps; none of a run that tells no waits. Raises `TraceError` where it is not one of the schedule."""
    done = matched(run, schedule)
    if not run.has_waits:
        return np.zeros(0, np.int64)
    return np.concatenate([_latencies(step.sort("row"), schedule) for _, step in done.group_by("step")])


def _latencies(step: pl.DataFrame, schedule: Schedule) -> NDArray[np.int64]:
    """Of messages that were waited for: when the wait ended, after the end of the action that sent."""
    start, end, until = (step.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "waited_until_ns"))
    rank = schedule.rank_N
    sent = messages(schedule)
    op, on = (sent.get_column(name).to_numpy().astype(np.int64) for name in ("op", "on"))
    free = np.where(np.diff(rank, prepend=-1) != 0, start.min(), np.roll(end, 1))
    last = np.full(len(rank), np.iinfo(np.int64).min)
    np.maximum.at(last, op, end[on])
    was_waited_for = (rank[op] != rank[on]) & (until[op] >= 0) & (end[on] > free[op]) & (end[on] == last[op])
    late: NDArray[np.int64] = until[op[was_waited_for]] - end[on[was_waited_for]]
    return np.maximum(late, 0)
