"""How far was a run from its plan, and why? Both makespans, and the difference by cause, to the nanosecond."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import polars as pl
from msgspec import Meta

from weftrace.errors import TraceError
from weftrace.files.columns import frame_schema
from weftrace.files.schemas import Count
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.dependencies import messages_between_ranks
from weftrace.pipeline.measured.one_clock import on_one_clock
from weftrace.pipeline.measured.plain_runs import on_stages_of
from weftrace.pipeline.measured.run_costs import costs_of_run, matched
from weftrace.pipeline.measured.runs import MeasuredRun, run_of
from weftrace.pipeline.measured.told_schedules import need_all_ranks
from weftrace.pipeline.plan_vs_measured.forecasts import StepForecast, step_forecasts
from weftrace.pipeline.plan_vs_measured.lateness import MeasuredTimes, PlannedTimes, chain_of, lateness
from weftrace.pipeline.plan_vs_measured.outliers import Outlier, outliers
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.pipeline.simulation import Simulation, simulate
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One rank in this step, and what of the slip is on it."""

    rank: Count
    busy_ns: Annotated[Count, Meta(description="In its actions.")]
    idle_ns: Annotated[int, Meta(description="Its bubble with a barrier: the makespan of all ranks - busy_ns.")]
    idle_span_ns: Annotated[int, Meta(description="Between its own first start and last end.")]
    waited_ns: Annotated[int | None, Meta(description="In waits for messages; null where the run does not tell.")]
    planned_busy_ns: Count
    planned_idle_ns: Count
    own_ns: int
    p2p_ns: int
    between_ns: int
    slack_ns: int


#: Columns of `Slip.ranks`.
RANK_SCHEMA: dict[str, pl.DataType] = {**frame_schema(RankRow), "rank": pl.Int32()}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Slip(InNotebook):
    """A measured step beside its plan.

    planned_ns, measured_ns: makespans, from the first start to the last end over all ranks.
    own_ns, p2p_ns, between_ns, slack_ns: their difference by cause, along the critical path of the measured step, the
        chain of causes of the action that ended last. own: actions took longer than planned; p2p: messages took longer;
        between: the rank did neither an action nor wait for a message; slack: less what the plan had to spare there.
        measured - planned = own + p2p + between - slack.
    actions: frame of `lateness.LATENESS_SCHEMA`, each action with the causes of its lateness.
    path: the critical path's rows of it, first to last. ranks: frame of `RANK_SCHEMA`.
    costs_from: "plan", or "run" where the planned times come from the medians of the step itself: then the difference
        is what medians leave out. step: which of the recorded steps; num_steps: how many there are.
    outliers: actions that took much longer than others of their rank, kind and stage. steps: all recorded steps, each
        forecast from the others.
    """

    schedule: Schedule
    costs: Costs
    costs_from: Literal["plan", "run"]
    run: MeasuredRun
    step: int
    num_steps: int
    planned_ns: int
    measured_ns: int
    own_ns: int
    p2p_ns: int
    between_ns: int
    slack_ns: int
    actions: pl.DataFrame
    path: tuple[int, ...]
    ranks: pl.DataFrame
    outliers: tuple[Outlier, ...] = ()
    steps: tuple[StepForecast, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """(planned - measured) / measured: of a prediction, how far off it was."""
        return (self.planned_ns - self.measured_ns) / self.measured_ns if self.measured_ns else 0.0

    @property
    def bubble_ns(self) -> int:
        """The idle time of the rank that idles most, with a barrier at the step's end."""
        return int(self.ranks.get_column("idle_ns").max())  # type: ignore[arg-type]

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "schedule", self.schedule.name
        yield "makespan", f"{duration(self.measured_ns)} measured, {duration(self.planned_ns)} planned"
        yield "error", percent(self.error)
        yield "actions took longer", duration(self.own_ns)
        yield "messages took longer", duration(self.p2p_ns)
        yield "between actions", duration(self.between_ns)
        yield "less slack", duration(self.slack_ns)


def slip(
    schedule: Schedule, measured: MeasuredRun | Trace | Job, costs: Costs | None = None, *, step: int | None = None
) -> Slip:
    """Planned against measured, for one step: the last, or the one of that number (from 0).

    costs: what the plan rested on; None for the medians of the measured step itself (`costs_of_run`).
    Raises `TraceError` where the traces are of another schedule or number of ranks, or where a rank has none.
    """
    run = measured if isinstance(measured, MeasuredRun) else run_of(measured)
    need_all_ranks(run)
    run = on_stages_of(run, schedule).of_schedule(schedule)
    run, clocks = on_one_clock(run, schedule)
    chosen = run.of_step(step)
    done = matched(chosen, schedule).sort("row")
    if done.is_empty():
        raise TraceError(f"{run.source}: the step holds no action.")
    used = costs_of_run(chosen, schedule, typical="median") if costs is None else costs
    simulation = simulate(schedule, used)
    zero = int(done.get_column("start_ns").min())  # type: ignore[arg-type]
    times = _measured(done, zero, chosen.has_waits)
    table = lateness(schedule, planned_of(simulation), times)
    path = chain_of(table, int(np.argmax(times.end_ns)))
    last = table.row(path[-1], named=True)
    planned_ns = simulation.makespan_ns
    spare = planned_ns - last["planned_end_ns"]  # the plan ended later than this action
    return Slip(
        schedule=schedule,
        costs=used,
        costs_from="run" if costs is None else "plan",
        run=chosen,
        step=chosen.steps[0],
        num_steps=len(run.steps),
        planned_ns=planned_ns,
        measured_ns=int(times.end_ns.max()),
        own_ns=last["caused_own_ns"] + last["own_ns"],
        p2p_ns=last["caused_p2p_ns"],
        between_ns=last["caused_between_ns"],
        slack_ns=last["caused_slack_ns"] + spare,
        actions=table,
        path=tuple(path),
        ranks=_ranks(simulation, table[path], done, times),
        outliers=outliers(chosen, table[path]),
        steps=step_forecasts(schedule, run),
        notes=(*run.notes, *((clocks,) if clocks else ()), *_notes(schedule, times, chosen)),
    )


def planned_of(simulation: Simulation) -> PlannedTimes:
    """When actions were to run, and how long each message of `messages(schedule)` was to travel after its sender's end:
    negative where an F&B was to send it before that."""
    actions, sent = simulation.actions, simulation.messages
    start, end = (actions.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    transit = sent.get_column("arrived_ns").to_numpy() - end[sent.get_column("on").to_numpy()]
    return PlannedTimes(start_ns=start, end_ns=end, transit_ns=transit)


def _measured(done: pl.DataFrame, zero: int, has_waits: bool) -> MeasuredTimes:
    start, end = (done.get_column(name).to_numpy() - zero for name in ("start_ns", "end_ns"))
    if not has_waits:
        return MeasuredTimes(start_ns=start, end_ns=end)
    until = done.get_column("waited_until_ns").to_numpy()
    return MeasuredTimes(
        start_ns=start,
        end_ns=end,
        waited_ns=done.get_column("waited_ns").to_numpy(),
        waited_until_ns=np.where(until < 0, -1, np.maximum(until - zero, 0)),
    )


def _ranks(simulation: Simulation, table: pl.DataFrame, done: pl.DataFrame, times: MeasuredTimes) -> pl.DataFrame:
    """A row a rank; table: the critical path's rows."""
    makespan = int(times.end_ns.max())
    busy = pl.col("end_ns") - pl.col("start_ns")
    ranks = done.group_by("rank").agg(
        busy_ns=busy.sum(),
        idle_ns=makespan - busy.sum(),
        idle_span_ns=pl.col("end_ns").max() - pl.col("start_ns").min() - busy.sum(),
        waited_ns=pl.lit(None) if times.waited_ns is None else pl.col("waited_ns").sum(),
    )
    planned = simulation.ranks.select("rank", planned_busy_ns="busy_ns", planned_idle_ns="idle_ns")
    parts = table.group_by("rank").agg(pl.sum("own_ns", "p2p_ns", "between_ns", "slack_ns"))
    joined = ranks.join(planned, on="rank").join(parts, on="rank", how="left").sort("rank")
    return joined.select(pl.col(name).cast(dtype).fill_null(0) if name in parts.columns else pl.col(name).cast(dtype)
                         for name, dtype in RANK_SCHEMA.items())  # fmt: skip


def _notes(schedule: Schedule, times: MeasuredTimes, run: MeasuredRun) -> tuple[str, ...]:
    notes = []
    if not run.has_waits:
        what = "the device's queue" if run.basis == "device" else "no range of a wait"
        notes.append(
            f"the run records no waits for messages ({what}): time before an action that needs another rank's output "
            "counts as its message's"
        )
    if stalled := int(run.actions.get_column("stalled_ns").sum()):
        notes.append(f"F&B waited {duration(stalled)} between their halves for messages, which counts as theirs")
    op, on, *_ = messages_between_ranks(schedule)
    early = times.start_ns[op] < times.end_ns[on]
    early &= schedule.kind_N[on] != code_of("F&B")  # which may send before its end
    if early.any():
        by = int((times.end_ns[on] - times.start_ns[op])[early].max())
        notes.append(
            f"{int(early.sum()):,} actions start before what they need was made, by {duration(by)} at most: the clocks "
            "of the ranks drift"
        )
    return tuple(notes)
