"""What does a kernel lose beside communication, by the trace itself? And when does a plan run, if kernels lose that?

The same kernel (name, grid, block, shapes of its operator's arguments) runs beside communication in one layer, and away
from it in another. Alone it takes d, the median of those away; beside communication for a share o of its time D it
loses L = o * D * (1 - 1/f), so that D = d / (1 - o * (1 - 1/f)): each run beside tells f. Only transfers count: what a
member of a collective waits slows no other.

Durations of an inferred plan hold what the run lost. They are made those of ops that run alone, changed, and stretched
by what lies beside them then (`weftrace.plan.with_contention`); without a change that gives the replay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.advice.concurrency import concurrency_fraction
from weftrace.advice.swaps.sm_splits import BOUND_BY_SMS
from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED
from weftrace.notebook import InNotebook
from weftrace.plan.contention import Slowdown, load_slowdowns, with_contention
from weftrace.plan.graph import hold_ns
from weftrace.plan.inference.values import Inferred
from weftrace.plan.model import Plan
from weftrace.plan.times import Timetable, timetable
from weftrace.trace.containment import open_at_launch
from weftrace.units import US

#: A kernel is away from communication below the first share of its time, and beside it from the second on.
AWAY, BESIDE = 0.02, 0.25
#: Runs away and beside that a kernel needs each; a loss of less than this share, or than `_SURELY` times its standard
#: error, is none.
LEAST_PAIRS, LEAST_LOSS = 3, 0.02
#: Of all kernels together: with fewer pairs than that the trace tells nothing.
LEAST_ALL = 6
#: Kernels that take less alone tell nothing; nor do those of which runs differ by more than this share.
SHORTEST_NS, MOST_SPREAD = 10 * US, 0.1
#: A kernel that loses more than this share of its time does something else.
MOST_LOSS = 0.5
#: Devices that the stated factors were measured on.
STATED_FOR = "H800"
#: Factors are told apart to this.
STEP = 0.01

#: The standard error of a median over that of a mean, of a normal distribution.
_OF_A_MEDIAN = 1.2533
#: Standard errors above 0 that a loss is one from on.
_SURELY = 4

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contention(InNotebook):
    """What kernels lose beside communication.

    factor_of: of each op of the plan, [ops]: how many times as long it takes while a transfer runs on its rank.
    alone_of: the share of its duration that it would take alone, as it is replayed. Both empty of one read from a file.
    """

    basis: Annotated[
        Literal["measured", "stated", "none"],
        Meta(description="measured: here, of `share`; stated: on another of the same device; none: durations stay."),
    ]
    num_pairs: Annotated[Count, Meta(description="Runs of a kernel beside communication, each with one away from it.")]
    share: Annotated[float, Meta(ge=0, le=1, description="Of the time of computation, that of kernels so measured.")]
    factor: Annotated[float, Meta(ge=1, description="By which computation takes longer beside it: mean, by time.")]
    source: Annotated[str, Meta(description="Of stated factors; empty elsewhere.")] = ""
    factor_of: Annotated[_Floats, UNSAVED] = field(default_factory=lambda: np.zeros(0))
    alone_of: Annotated[_Floats, UNSAVED] = field(default_factory=lambda: np.zeros(0))

    @property
    def is_used(self) -> bool:
        """Whether any op is slowed."""
        return bool((self.factor_of > 1).any())


_KEPT: WeakKeyDictionary[Inferred, Contention] = WeakKeyDictionary()  # each is asked for many times


def contention_of(inferred: Inferred) -> Contention:
    """By the trace; where it has too few pairs, as stated for the same device; else none. Of a plan of phases, whose
    ops are no kernels, and of one without computation beside communication: none."""
    if (known := _KEPT.get(inferred)) is None:
        known = _KEPT[inferred] = _contention(inferred)
    return known


def _contention(inferred: Inferred) -> Contention:
    ones = np.ones(len(inferred.plan))
    none = Contention(basis="none", num_pairs=0, share=0.0, factor=1.0, factor_of=ones, alone_of=ones)
    what = inferred.measured.get_column("what")
    if inferred.kernels is not None or not inferred.works or not (what == "communication").any():
        return none
    computes = ((what == "compute") & inferred.measured.get_column("event").is_not_null()).to_numpy()
    start, end = (inferred.measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    kernels = _kernels(inferred, computes).with_columns(beside=pl.Series(_beside(inferred, start, end)[computes]))
    measured, num_pairs = _measured(kernels)
    table: tuple[Slowdown, ...] = ()
    if STATED_FOR in inferred.plan.device_name and not any(work.trace.simulated for work in inferred.works):
        table = load_slowdowns()
    if num_pairs < LEAST_ALL and not table:
        return none
    factor_of, known = _stated(inferred, table), np.zeros(len(computes), np.bool_)
    if num_pairs >= LEAST_ALL:
        known[computes] = ~np.isnan(measured)
        factor_of[known] = measured[known[computes]]
    took = inferred.plan.ops.get_column("duration_ns").to_numpy() * computes
    whole = max(1, int(took.sum()))
    factor_of = 1 + np.rint((factor_of - 1) / STEP) * STEP
    beside = _beside(inferred, inferred.times.start_ns, inferred.times.end_ns)
    return Contention(
        basis="measured" if known.any() else "stated",
        num_pairs=num_pairs,
        share=round(float(took[known].sum() / whole), 4),
        factor=round(max(1.0, float((factor_of * took).sum() / whole)), 4),
        source=table[0].source if table and not known[computes].all() else "",
        factor_of=factor_of,
        alone_of=1 - beside * (1 - 1 / factor_of),
    )


def contended(inferred: Inferred, contention: Contention, plan: Plan) -> Timetable:
    """When the ops of a changed plan run, each slowed by what lies beside it then. plan: its first ops are those of the
    inferred plan, with other durations."""
    if not contention.is_used or _is_as_it_was(inferred.plan, plan):
        return timetable(plan)  # what it cost is in it
    factors = contention.factor_of
    of_plan = np.ones(len(plan))
    of_plan[: len(factors)] = factors
    rows = [
        Slowdown(
            name=f"× {factor:.2f}",
            of=pl.lit(pl.Series(of_plan == factor)),
            beside=pl.col("kind") == "communication",
            factor=float(factor),
            source=contention.basis,
        )
        for factor in np.unique(of_plan[of_plan > 1])
    ]
    alone = plan.ops.get_column("duration_ns").to_numpy().astype(np.float64)
    alone[: len(factors)] *= contention.alone_of
    quiet = plan.with_ops(duration_ns=pl.Series(np.rint(alone).astype(np.int64)))
    return with_contention(quiet, rows, max_rounds=20, tolerance=1e-5).times


def _is_as_it_was(before: Plan, plan: Plan) -> bool:
    """Whether ops last as long, device work is on its streams, and no wait is gone: threads may be held by more."""
    of_device = pl.when(pl.col("kind") != "host").then("stream")
    ops, were = (each.ops.select("duration_ns", stream=of_device) for each in (plan, before))
    columns = ("op", "on", "since", "lag_ns")
    return ops.equals(were) and before.waits.join(plan.waits, on=columns, how="anti").is_empty()


def _beside(inferred: Inferred, start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> _Floats:
    """Of each op the share of its time during which a transfer runs on its rank, [ops]."""
    transfers = (inferred.plan.ops.get_column("kind") == "communication").to_numpy()
    begins = np.where(transfers, end_ns - hold_ns(inferred.plan.ops, inferred.plan.gap_ns), start_ns)
    at = inferred.measured.get_column("at").to_numpy()
    return concurrency_fraction(at, begins, end_ns, transfers)


def _kernels(inferred: Inferred, computes: NDArray[np.bool_]) -> pl.DataFrame:
    """Computation on devices: took_ns, family, and `same`, a number for each kernel with its grid, block and shapes."""
    rows = inferred.measured.select("at", "event", "family", took_ns=pl.col("end_ns") - pl.col("start_ns"))
    rows = rows.with_row_index("op").filter(pl.Series(computes))
    known = []
    for at, work in enumerate(inferred.works):
        mine = rows.filter(at=at)
        events = work.events.select("row", "launch_pid", "launch_tid", "launch_ts_ns", "num_blocks")
        events = events[mine.get_column("event")]
        every = work.trace.events
        launched = every.select(pl.col("name", "grid", "block").cast(pl.String), "num_threads", "shared_bytes")
        calls = every.select("pid", "tid", "ts_ns", "dur_ns", "cat", "input_shapes")
        operators = (pl.col("cat") == "cpu_op") & pl.col("input_shapes").is_not_null()
        shapes = every.get_column("input_shapes").cast(pl.String).gather(open_at_launch(calls, events, operators))
        own = launched[events.get_column("row")].with_columns(events.get_column("num_blocks"), shapes=shapes)
        known.append(mine.hstack(own.with_columns(on=pl.lit(at))))
    same = ("name", "grid", "block", "num_threads", "shared_bytes", "num_blocks", "shapes", "on")
    return pl.concat(known).sort("op").with_columns(same=pl.struct(same).rank("dense"))


def _measured(kernels: pl.DataFrame) -> tuple[_Floats, int]:
    """Of each kernel its factor, NaN where nothing tells, and of how many pairs. A kernel with few pairs takes the
    median of its family's, or of the kernels that computing bounds, or memory, as it.

    Where runs of one kernel differ much among themselves, away or beside, they are of different work: files without
    shapes do not tell. They are no pairs, nor are kernels so short that a clock of whole µs counts.
    """
    away, near = pl.col("beside") <= AWAY, pl.col("beside") >= BESIDE
    loss = (1 - pl.col("alone") / pl.col("took_ns")) / pl.col("beside")
    rows = kernels.with_columns(
        is_bound=pl.col("family").cast(pl.String).str.contains(BOUND_BY_SMS).fill_null(False),
        alone=pl.col("took_ns").filter(away).median().over("same"),
        apart=_spread(pl.col("took_ns").filter(away)).over("same"),
        num_away=away.sum().over("same"),
    )
    pairs = rows.filter(near).with_columns(loss=loss).with_columns(around=_spread(pl.col("loss")).over("same"))
    pairs = pairs.filter(
        pl.col("num_away") >= LEAST_PAIRS,
        pl.len().over("same") >= LEAST_PAIRS,
        pl.col("alone") >= SHORTEST_NS,
        pl.col("apart") <= MOST_SPREAD * pl.col("alone"),
        pl.col("around") <= MOST_SPREAD,
        pl.col("loss").median().over("same") <= MOST_LOSS,
    )
    if pairs.is_empty():
        return np.full(kernels.height, np.nan), 0
    rows = rows.join(_losses(pairs, "same"), on="same", how="left", maintain_order="left")
    family = _losses(pairs, "family").rename({"loss": "of_family"})
    rows = rows.join(family, on="family", how="left", maintain_order="left")
    alike = _losses(pairs, "is_bound").rename({"loss": "of_alike"})
    rows = rows.join(alike, on="is_bound", how="left", maintain_order="left")
    lost = rows.select(pl.coalesce("loss", "of_family", "of_alike").clip(0, MOST_LOSS)).to_series()
    num = pairs.group_by("same").agg(pl.min_horizontal(pl.len(), pl.col("num_away").first())).get_column("len").sum()
    return 1 / (1 - lost.fill_null(np.nan).to_numpy()), int(num)


def _spread(values: pl.Expr) -> pl.Expr:
    """The standard deviation of most of them: 1.48 times the median distance from the median."""
    return 1.4826 * (values - values.median()).abs().median()


def _losses(pairs: pl.DataFrame, by: str) -> pl.DataFrame:
    """Of each group the median loss, 0 where it is small or not `_SURELY` standard errors above 0. Of few runs the
    spread is at least that of all kernels."""
    typical = float(pairs.get_column("around").median() or 0.0)  # type: ignore[arg-type]
    spread = pl.max_horizontal(_spread(pl.col("loss")), pl.lit(typical))
    error = _SURELY * _OF_A_MEDIAN * spread / pl.len().sqrt()
    sure = (pl.col("loss").median() >= LEAST_LOSS) & (pl.col("loss").median() > error)
    return pairs.group_by(by).agg(pl.when(sure).then(pl.col("loss").median()).otherwise(0.0).alias("loss"))


def _stated(inferred: Inferred, table: tuple[Slowdown, ...]) -> _Floats:
    kernels = inferred.plan.ops.select("kind", inferred.measured.get_column("family").cast(pl.String))
    factor = pl.lit(1.0)
    for row in reversed(table):
        factor = pl.when(row.of).then(row.factor or 1.0).otherwise(factor)
    factors: _Floats = kernels.with_columns(factor=factor).get_column("factor").to_numpy().copy()
    return factors
