"""What do ops that run at the same time cost each other? A layer above the engine, off unless it is called.

The engine takes durations as they are. Here a plan whose durations are those of ops that run alone is simulated, what
overlapped what is measured, durations are stretched by a table of slowdowns, and it is simulated again, until durations
stay: a fixed point, found by repetition.

An op that alone takes d, and of whose time D a part o lies beside what slows it by a factor f, loses L = o * (1 - 1/f)
of it, and is done where D - L = d. A round is a step of Newton's method: D grows by what is left of the work,
d - (D - L), at the speed that it has at its end. The gaps between the kernels of an op are no work, and lose nothing:
they lie evenly in it, so L is what the whole op would lose, times the share of kernels in it. Where durations were
measured while both ran, the cost is in them already, and a table would count it twice.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.notebook import InNotebook
from weftrace.plan.graph import graph_of, hold_ns, with_durations
from weftrace.plan.model import Plan, need_plan
from weftrace.plan.rows import rows_by_rank
from weftrace.plan.times import Timetable, times_of
from weftrace.trace.kernels import classify, load_rules
from weftrace.units import percent

_MAX_RATE = 1 - 1e-3  # an op is slowed by no more than a thousand
_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown(InNotebook):
    """One row of a table: ops that `of` selects take `factor` times as long while one that `beside` selects runs.

    of, beside: expressions over the columns of `Plan.ops`, and `family`, the kernel family that weftrace's rules find
    in the op's name; where one is null, the op is not selected. Both are of the same rank; no op slows itself. An op
    takes the first row whose `of` selects it, and no other, and is slowed once however many run beside it. An op of
    many kernels runs from its first to its last.
    factor: 1 or more; None for fewer SMs: an op that asks for more SMs than those beside it leave free runs on what is
    left, in time that is inverse to the SMs (a kernel that is not bound by its SMs takes less; a kernel with fewer
    blocks than asked for here takes the same), and on one at least.
    """

    name: str
    of: pl.Expr
    beside: pl.Expr
    factor: float | None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contended(InNotebook):
    """A plan as it runs where its ops slow each other.

    times: of the plan with its durations stretched. alone_ns: durations before, int64, [ops]. rounds: simulations until
    durations stayed. settled: whether they did. change_ns: the largest change of a duration in the last round.
    """

    times: Timetable
    alone_ns: _Ints
    rounds: int
    settled: bool
    change_ns: int

    def _describe(self) -> Iterator[tuple[str, str]]:
        plan = self.times.plan
        added = int(plan.ops.get_column("duration_ns").sum()) - int(self.alone_ns.sum())
        yield "plan", plan.name
        yield "added to durations", percent(added / max(1, int(self.alone_ns.sum())), 1)
        yield "rounds", f"{self.rounds}, {'settled' if self.settled else 'not settled'}"
        yield from (("note", note) for note in plan.notes[-1:])


def load_slowdowns(name: str = "deepseek_training") -> tuple[Slowdown, ...]:
    """A table that comes with weftrace, by its name in `contention.toml`. Raises `PlanError` where there is none."""
    tables = tomllib.loads((files("weftrace.plan") / "contention.toml").read_text("utf-8"))
    if name not in tables:
        raise PlanError(f"no table of slowdowns {name!r}; there are {', '.join(tables)}.")
    table = tables[name]
    return tuple(
        Slowdown(
            name=row["name"],
            of=(pl.col("kind") == "compute")
            & (pl.lit(True) if row["families"] == ["*"] else pl.col("family").is_in(row["families"])),
            beside=pl.col("kind") == row["beside"],
            factor=row["factor"],
            source=table["source"],
        )
        for row in table["slowdown"]
    )


def with_contention(
    plan: Plan, slowdowns: Sequence[Slowdown], *, max_rounds: int = 10, tolerance: float = 1e-3
) -> Contended:
    """Run a plan whose durations are those of ops that run alone, where what runs together slows each other.

    Repeats until no duration changes by more than `tolerance` of the makespan in a round, at most `max_rounds` times,
    2 or more: two or three suffice as a rule. Where ops swap places from round to round it may never settle, which
    `settled` says. The plan's notes tell the table and the rounds. An op in a meet is slowed in its own time, not in
    its wait; what it waits slows no other by a factor, but it holds its SMs.

    Raises `PlanError` where the plan cannot run, for a factor below 1, for rows about SMs without `plan.num_sms`, or
    for expressions that do not say of each op whether it is selected.
    """
    need_plan(plan)
    _check_table(plan, slowdowns)
    if type(max_rounds) is not int or max_rounds < 2:
        raise PlanError(f"max_rounds = {max_rounds!r}: a first round sees what overlaps, a second what it costs.")
    if not isinstance(tolerance, int | float) or not tolerance >= 0:
        raise PlanError(f"tolerance = {tolerance!r}; it is a share of the makespan, 0 or more.")
    alone_ns = plan.ops.get_column("duration_ns").to_numpy()
    table = _chosen(plan, slowdowns)
    rows, _, first = rows_by_rank(plan.ops)
    by_rank = np.split(rows, first[1:])
    graph = graph_of(plan)
    times, rounds, change_ns, settled = times_of(graph), 1, 0, not len(plan)
    while not settled and rounds < max_rounds:
        duration_ns = _stretched(times, alone_ns, table, by_rank)
        change_ns = int(np.abs(duration_ns - times.plan.ops.get_column("duration_ns").to_numpy()).max())
        settled = change_ns <= max(1, tolerance * times.makespan_ns)  # 1 ns may swing by rounding alone
        if change_ns:
            times = times_of(with_durations(graph, plan.with_ops(duration_ns=pl.Series(duration_ns))))
            rounds += 1
    summary = "settled" if settled else f"not settled, the last changed a duration by {change_ns:,} ns"
    names = "; ".join(row.name for row in slowdowns) or "no slowdowns given"
    note = f"ops slow each other: {names} ({rounds} round{'s' if rounds > 1 else ''}, {summary})"
    stretched = replace(times.plan, notes=(*plan.notes, note))
    return Contended(
        times=replace(times, plan=stretched), alone_ns=alone_ns, rounds=rounds, settled=settled, change_ns=change_ns
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A row of a table, or several of factors with the same beside: who takes it, who slows them, and of each op the
    share of its time that it loses then, [ops]; by_sms: it loses by the SMs that are left."""

    of: _Bools
    beside: _Bools
    lost: _Floats
    by_sms: bool


def _chosen(plan: Plan, slowdowns: Sequence[Slowdown]) -> list[_Row]:
    """The rows of a table, each op in one at most."""
    ops = plan.ops
    asked = (each for row in slowdowns for each in (row.of, row.beside) if isinstance(each, pl.Expr))
    if any(name not in ops.columns for each in asked for name in each.meta.root_names()):
        families = classify(ops.get_column("name"), load_rules()).get_column("family").cast(pl.String)
        ops = ops.with_columns(family=families)
    on_device = (ops.get_column("kind") != "host").to_numpy()
    is_free = on_device.copy()
    chosen: list[_Row] = []
    for row in slowdowns:
        of, beside = (_selected(ops, row, which) for which in ("of", "beside"))
        of, beside, is_free = of & is_free, beside & on_device, is_free & ~of
        lost = np.where(of, 1.0 if row.factor is None else 1 - 1 / row.factor, 0.0)
        new = _Row(of=of, beside=beside, lost=lost, by_sms=row.factor is None)
        at = next((i for i, each in enumerate(chosen) if _are_one(each, new)), len(chosen))
        if at == len(chosen):
            chosen.append(new)
        else:
            chosen[at] = replace(new, of=chosen[at].of | of, lost=chosen[at].lost + lost)
    return chosen


def _are_one(row: _Row, other: _Row) -> bool:
    return not row.by_sms and not other.by_sms and bool((row.beside == other.beside).all())


def _selected(ops: pl.DataFrame, row: Slowdown, which: str) -> _Bools:
    """The ops that an expression of the table selects."""
    expression = getattr(row, which)
    if not isinstance(expression, pl.Expr):
        raise PlanError(f"slowdown {row.name!r}: {which} = {expression!r}; it is an expression over columns of ops.")
    try:
        selected = ops.with_columns(expression.alias("selected")).get_column("selected")
    except pl.exceptions.PolarsError as error:
        raise PlanError(f"slowdown {row.name!r}: {which}: {str(error).splitlines()[0]}") from error
    if selected.dtype not in (pl.Boolean(), pl.Null()):
        raise PlanError(f"slowdown {row.name!r}: {which} is {selected.dtype}; it must be true or false of each op.")
    return selected.cast(pl.Boolean()).fill_null(False).to_numpy().astype(bool)


def _check_table(plan: Plan, slowdowns: Sequence[Slowdown]) -> None:
    if not isinstance(slowdowns, Sequence) or not all(isinstance(row, Slowdown) for row in slowdowns):
        raise PlanError(f"a list of Slowdowns is wanted here, not {slowdowns!r}.")
    for row in slowdowns:
        if row.factor is None:
            if plan.num_sms is None:
                raise PlanError(
                    f"slowdown {row.name!r} is about SMs, and plan {plan.name!r} does not know its device's."
                )
        elif not isinstance(row.factor, int | float) or not math.isfinite(row.factor):
            raise PlanError(f"slowdown {row.name!r}: its factor is {row.factor!r}; it is a number, or None for SMs.")
        elif row.factor < 1:
            raise PlanError(
                f"slowdown {row.name!r}: its factor is {row.factor}; what runs beside makes nothing faster."
            )


def _stretched(times: Timetable, alone_ns: _Ints, table: Sequence[_Row], by_rank: Sequence[_Ints]) -> _Ints:
    """A round: the duration that each op would have by what runs beside it now."""
    plan = times.plan
    lost_ns, rate = np.zeros(len(plan)), np.zeros(len(plan))
    for row in table:
        _add_lost(times, by_rank, row, lost_ns, rate)
    now_ns = plan.ops.get_column("duration_ns").to_numpy()
    if plan.gap_ns:
        span_ns = np.maximum(1, hold_ns(plan.ops, plan.gap_ns))
        share = now_ns / span_ns
        rate = rate * share + lost_ns / span_ns * (1 - share)  # of what is lost, the slope by the duration
        lost_ns *= share
    left_ns = alone_ns - (now_ns - lost_ns)
    duration_ns = np.rint(now_ns + left_ns / (1 - np.minimum(rate, _MAX_RATE))).astype(np.int64)
    return np.asarray(np.maximum(alone_ns, duration_ns))


def _add_lost(times: Timetable, by_rank: Sequence[_Ints], row: _Row, lost_ns: _Floats, rate_at_end: _Floats) -> None:
    """Add, for each op, the time that it loses to what runs beside it, and at which rate it loses when it ends."""
    work_ns = times.end_ns - hold_ns(times.plan.ops, times.plan.gap_ns)  # from when on a member of a meet does its work
    for rows in by_rank:
        slowed = rows[row.of[rows] & (times.end_ns[rows] > work_ns[rows])]
        others = rows[row.beside[rows]]
        if not len(others) or not len(slowed):
            continue
        begins = (times.start_ns if row.by_sms else work_ns)[others]
        spans = _Spans(begins, times.end_ns[others], _weights(times.plan, others, row))
        asked, slows = _weights(times.plan, slowed, row), row.beside[slowed]
        for itself in (False, True):  # no op slows itself
            for weight in np.unique(asked[slows == itself]).tolist():
                these = slowed[(slows == itself) & (asked == weight)]
                rate = _rate(row, weight, spans.held - weight * itself, times.plan.num_sms)
                lost_ns[these] += row.lost[these] * spans.area(rate, work_ns[these], times.end_ns[these])
                rate_at_end[these] += row.lost[these] * spans.just_before(rate, times.end_ns[these])


def _weights(plan: Plan, ops: _Ints, row: _Row) -> _Ints:
    """What each op adds while it runs: one, or its SMs."""
    if not row.by_sms:
        return np.ones(len(ops), np.int64)
    return plan.ops.get_column("num_sms").gather(ops).fill_null(0).to_numpy().astype(np.int64)


def _rate(row: _Row, asked: int, others: _Ints, num_sms: int | None) -> _Floats:
    """Where others hold that much: whether an op is slowed, or by SMs, 1 - 1 / f, the share of time that is lost."""
    if not row.by_sms:
        return (others > 0).astype(np.float64)
    assert num_sms is not None, "refused before"
    left = np.maximum(1, num_sms - others)
    return np.where(asked > left, 1 - left / max(1, asked), 0.0)


class _Spans:
    """How much is held at each time by ops that run: constant between the moments at which one starts or ends."""

    def __init__(self, start_ns: _Ints, end_ns: _Ints, weight: _Ints) -> None:
        at = np.concatenate([start_ns, end_ns])
        order = np.argsort(at, kind="stable")
        self.moments = at[order].astype(np.float64)
        self.held = np.cumsum(np.concatenate([weight, -weight])[order])  # from each moment on

    def area(self, rate: _Floats, begin_ns: _Ints, end_ns: _Ints) -> _Floats:
        """The area over [begin, end) under a rate that is given from each moment on; it is 0 before the first."""
        upto = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(self.moments))])
        return np.asarray(np.interp(end_ns, self.moments, upto) - np.interp(begin_ns, self.moments, upto))

    def just_before(self, rate: _Floats, at_ns: _Ints) -> _Floats:
        """The rate just before each time."""
        return np.asarray(np.concatenate([[0.0], rate])[np.searchsorted(self.moments, at_ns, side="left")])
