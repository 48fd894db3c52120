"""When does each action of a schedule run, how long does the step take, who idles when, and what is held in memory?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict, get_args

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.errors import PlanError, ScheduleError
from weftrace.files.schemas import Count
from weftrace.files.values import filled
from weftrace.notebook import InNotebook
from weftrace.pipeline.as_plan import plan_of, plan_of_times, told
from weftrace.pipeline.costs import Costs, of_stages
from weftrace.pipeline.held import Sizes, changes_of_curve, holdings, in_bytes, in_chunks
from weftrace.pipeline.planned.transfers import arrivals
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule, code_of
from weftrace.plan import Timetable, critical_path, timetable
from weftrace.units import duration

#: Where a step ends. barrier: for all ranks when the last of them is done. span: for each rank when it is done itself.
Boundary = Literal["barrier", "span"]

#: Actions from which on a plan is made without names and memory: they would take most of the memory.
_LARGE = 1 << 20
_F, _B, _I, _FB = (code_of(kind) for kind in ("F", "B", "I", "F&B"))


class RankRow(TypedDict):
    """A rank's step: busy, and idle in warm-up, steady state and cool-down; the most that it holds at once."""

    rank: Count
    busy_ns: Count
    idle_ns: Count
    warm_up_ns: Count
    steady_ns: Count
    cool_down_ns: Count
    peak_bytes: Count
    peak_activations: Annotated[Count, Meta(description="Chunks with activations, or a part of them, held.")]
    weight_bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """What came of a simulation, without the actions and their times, which take 50 bytes an action: its numbers, and
    the size of its schedule."""

    num_ranks: int
    num_stages: int
    num_replicas: int
    num_slices: int
    boundary: Boundary
    makespan_ns: int
    step_ns: int
    bubble_ns: int
    ranks: pl.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Simulation(InNotebook):
    """A schedule run with costs.

    boundary: what a rank's step is. "barrier": from 0 to the makespan, for every rank. "span": from the start of its
        first action to the end of its last, as where the next step's forwards may begin on one rank while another
        still works.
    ran: start and end of each op of `plan_of(schedule, costs)`; of a large schedule without names, phases and memory,
        which only `times` makes.
    ranks: frame of `RankRow`. busy_ns: the sum of the rank's actions. idle_ns: its step - busy_ns,
        of which warm_up_ns lies before the start of its first action that has a backward in it (B, I, F&B), steady_ns
        from there to the end of its last that has a forward (F, F&B), and cool_down_ns after both. Without any
        backward, warm-up ends where its first action starts. peak_bytes: most that it holds at once, weight_bytes, the
        parameters of its stages, among it. peak_activations: most chunks whose activations, or a part of them, it holds
        at once: from the start of F to the end of W or B, or of I where `Costs.pending_bytes` is 0.
    """

    schedule: Schedule
    costs: Costs
    boundary: Boundary
    ran: Timetable
    ranks: pl.DataFrame

    @property
    def times(self) -> Timetable:
        """Start and end of each op of `plan_of(schedule, costs)`. Where a schedule has more than a million actions,
        each call completes the plan."""
        if len(self.schedule) < _LARGE:
            return self.ran
        plan = told(self.ran.plan, self.schedule, self.costs)
        return Timetable(plan=plan, start_ns=self.ran.start_ns, end_ns=self.ran.end_ns)

    @property
    def makespan_ns(self) -> int:
        """From the start of the first action to the end of the last, over all ranks."""
        return self.ran.makespan_ns

    @property
    def step_ns(self) -> int:
        """The longest step of a rank: how often a step can follow another. With a barrier, the makespan."""
        return int(self.ranks.select((pl.col("busy_ns") + pl.col("idle_ns")).max()).item())

    @property
    def bubble_ns(self) -> int:
        """The idle time of the rank that idles most. It names no cause: what messages cost is in it."""
        return int(self.ranks.select(pl.col("idle_ns").max()).item())

    @property
    def outcome(self) -> Outcome:
        """What remains of it where the actions are too many to be kept."""
        return filled(Outcome, self, self.schedule)

    @property
    def actions(self) -> pl.DataFrame:
        """The schedule's actions with their `start_ns` and `end_ns`."""
        num = len(self.schedule)
        return self.schedule.actions.with_columns(
            start_ns=pl.Series(self.ran.start_ns[:num]), end_ns=pl.Series(self.ran.end_ns[:num])
        )

    @property
    def messages(self) -> pl.DataFrame:
        """`weftrace.pipeline.dependencies.messages` of the schedule with `arrived_ns`: from when on the action `op` may
        start as far as this message is concerned, which is before it has arrived where an F&B needs it late."""
        return arrivals(self.schedule, self.costs, self.ran)

    def memory(self, rank: int) -> pl.DataFrame:
        """What a rank holds over time, its parameters included: from `time_ns` on, `bytes`; the first row is at 0.

        Raises `ScheduleError` where there is no such rank.
        """
        self.schedule.on_rank(rank)
        weight_bytes = self.ranks.get_column("weight_bytes")[rank]
        sizes = in_bytes(self.schedule, self.costs)
        time_ns, held = changes_of_curve(*holdings(self.schedule, self.ran, sizes).curve(rank))
        return pl.DataFrame({"time_ns": time_ns, "bytes": held + weight_bytes})

    def critical_path(self) -> pl.DataFrame:
        """What decides the makespan, first to last, as `weftrace.plan.critical_path` tells it; `op` is the row of the
        action, or of a message or copy from `len(schedule)` on. The parts and the lags add up to the makespan."""
        return critical_path(self.times)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "schedule", self.schedule.name
        yield "makespan", duration(self.makespan_ns)
        yield f"bubble ({self.boundary})", duration(self.bubble_ns)
        yield "peak", f"{self.ranks.select(pl.col('peak_activations').max()).item()} chunks on a rank"


def simulate(schedule: Schedule, costs: Costs, boundary: Boundary = "barrier") -> Simulation:
    """Run a schedule with costs. Raises `ScheduleError` as `check` does, and where costs are of another pipeline."""
    if boundary not in get_args(Boundary):
        raise ScheduleError(f"boundary = {boundary!r}; a step ends at a 'barrier', or a rank's own 'span' does.")
    plan = (plan_of if len(schedule) < _LARGE else plan_of_times)(schedule, costs)
    try:
        return at_times(schedule, costs, timetable(plan), boundary)
    except PlanError as error:
        check(schedule)  # tells a circle in words of pipelines
        raise ScheduleError(str(error)) from error  # sums of times, or of bytes, that are too large


def at_times(schedule: Schedule, costs: Costs, times: Timetable, boundary: Boundary = "barrier") -> Simulation:
    """What came of a schedule whose actions ran at these times, simulated or measured.

    times: of a plan whose first rows are the schedule's actions.
    """
    parts = [_idle(schedule, times, boundary), _memory(schedule, costs, times)]
    ranks = pl.concat(parts, how="horizontal").select(*RankRow.__annotations__)
    return Simulation(schedule=schedule, costs=costs, boundary=boundary, ran=times, ranks=ranks)


# --- idle time --------------------------------------------------------------------------------------------------------


def _idle(schedule: Schedule, times: Timetable, boundary: Boundary) -> pl.DataFrame:
    """rank, busy_ns, idle_ns and its three parts. On a rank, actions follow each other: the time until one starts
    that no action of it took is idle."""
    num, num_ranks = len(schedule), schedule.num_ranks
    start, end = times.start_ns[:num], times.end_ns[:num]
    first = _first_rows(schedule)
    code = schedule.kind_N
    backwards = np.flatnonzero((code == _B) | (code == _I) | (code == _FB))
    forwards = np.flatnonzero((code == _F) | (code == _FB))
    at_backward = _at(backwards, np.searchsorted(backwards, first[:-1]))
    has_backward = at_backward < first[1:]
    warm_row = np.where(has_backward, at_backward, first[:-1])  # with it, warm-up is over
    cool_row = _at(forwards, np.searchsorted(forwards, first[1:]) - 1) + 1  # from it on, cool-down
    cool_row = np.where(cool_row > first[:-1], cool_row, first[1:])
    has_any = first[1:] > first[:-1]
    begin, until = np.zeros(num_ranks, np.int64), np.full(num_ranks, times.makespan_ns)
    if boundary == "span":
        begin[has_any], until[has_any] = start[first[:-1][has_any]], end[first[1:][has_any] - 1]
        until[~has_any] = 0
    warm_at, cool_at = until.copy(), until.copy()
    warm_at[has_any] = start[warm_row[has_any]]
    is_cool = has_any & (cool_row > warm_row)
    cool_at[has_any] = warm_at[has_any]
    cool_at[is_cool] = end[cool_row[is_cool] - 1]
    busy_warm, busy_cool, busy = (_busy(times, first, until_row) for until_row in (warm_row, cool_row, first[1:]))
    warm_up = warm_at - begin - busy_warm
    steady = cool_at - warm_at - (busy_cool - busy_warm)
    cool_down = until - cool_at - (busy - busy_cool)
    return pl.DataFrame(
        {"rank": np.arange(num_ranks), "busy_ns": busy, "idle_ns": until - begin - busy, "warm_up_ns": warm_up,
         "steady_ns": steady, "cool_down_ns": cool_down}
    ).cast({"rank": pl.Int32})  # fmt: skip


def _busy(times: Timetable, first: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """How long the actions of each rank take, from its first row on until the one given, [R]; a rank at a time, as one
    sum over all would take as much memory as their times."""
    rows = [slice(*each) for each in zip(first[:-1].tolist(), end.tolist(), strict=True)]
    return np.array([(times.end_ns[each] - times.start_ns[each]).sum() for each in rows], np.int64)


def _at(rows: NDArray[np.int64], position: NDArray[np.int64]) -> NDArray[np.int64]:
    """rows[position]; where the position is past one end, a row that is on no rank's side: far behind, or before."""
    padded = np.concatenate([[-1], rows, [np.iinfo(np.int64).max]])
    found: NDArray[np.int64] = padded[position + 1]
    return found


# --- memory -----------------------------------------------------------------------------------------------------------


def _memory(schedule: Schedule, costs: Costs, times: Timetable) -> pl.DataFrame:
    """peak_bytes, peak_activations, weight_bytes of each rank."""
    weight_S = of_stages(costs, "weight_bytes", schedule.num_stages)
    weight_bytes = np.zeros(schedule.num_ranks, np.int64)
    for ranks in schedule.rank_of:
        np.add.at(weight_bytes, list(ranks), weight_S)
    sizes = in_bytes(schedule, costs), in_chunks(schedule, costs)
    held = [holdings(schedule, times, size).peaks() for size in sizes[_are_equal(*sizes) :]]
    return pl.DataFrame(
        {"peak_bytes": weight_bytes + held[0], "peak_activations": held[-1], "weight_bytes": weight_bytes}
    )


def _are_equal(one: Sizes, other: Sizes) -> bool:
    return all(map(np.array_equal, one, other))


def _first_rows(schedule: Schedule) -> NDArray[np.int64]:
    """The first row of each rank's actions, and the number of all, [R + 1]."""
    ranks = schedule.rank_N
    return np.searchsorted(ranks, np.arange(schedule.num_ranks + 1))
