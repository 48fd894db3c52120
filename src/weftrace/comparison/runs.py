"""What of a run is compared: the time of each step, shared out among kernels, and what the run says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl

from weftrace.analysis import account_of, arrivals
from weftrace.analysis.intervals import EMPTY, Intervals
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.time_owners import own_times
from weftrace.comparison.facts import facts_of
from weftrace.notebook import InNotebook
from weftrace.trace.device_windows import step_windows
from weftrace.trace.job import Failure, Job, open_trace
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.work import Basis, Work, works_of

#: Columns of `RankRun.shares`: a row a step and a kernel of one kind, operator and phase. Times in ns, sums.
SHARE_SCHEMA: dict[str, pl.DataType] = {
    "step": pl.Int64(),  # null outside of all steps, and where there are none
    "part": pl.String(),  # one of `PARTS`
    "cause": pl.String(),  # of idle time: host_wait, dependency_wait, kernel_gap, unknown; of communication: its role
    "kind": pl.String(),
    "family": pl.String(),  # of communication, which collective, where that is known
    "kernel": pl.String(),  # of idle time, what ends the gap; so are kind, family, operator and phase
    "operator": pl.String(),  # the innermost that launched it; null where none is known
    "phase": pl.String(),
    "num": pl.Int64(),  # launches; of idle time, gaps
    "raw_ns": pl.Int64(),  # durations
    "union_ns": pl.Int64(),  # by which they lengthen the time of their class (`own_times`)
    "own_ns": pl.Int64(),  # by which they lengthen the part
}
#: A part that jobs of several ranks have beside `PARTS`: communication or idle time in which a rank waited for the last
#: to come. Its cause is the rank with which the waiting began: "rank 2".
WAITING = "waiting for late ranks"

LABELS = ("part", "cause", "kind", "family", "kernel", "operator", "phase")
SUMS = ("num", "raw_ns", "union_ns", "own_ns")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RankRun(InNotebook):
    """One device of one rank. Times in ns.

    shares: a frame of `SHARE_SCHEMA`; own_ns adds up to each step's window exactly. windows: step, start_ns, end_ns
    (absolute) of each step; empty without steps. span_ns: from the first device start to the last end.
    exposed: when communication was exposed, arrivals: at its collectives; what lateness is told from.
    seam_ns: how windows end: the time from the last device end to the next window's start, or by which the step's work
    reaches into that, median over steps; None of fewer than two windows. Nothing ends the last window, which may
    differ from the others by as much.
    facts: what the file says of device, versions and settings, by name (`facts_of`). work: all of it, where a page
    needs it again.
    """

    rank: int | None
    device: int | None
    world_size: int | None
    path: str
    basis: Basis
    simulated: bool
    span_ns: int
    shares: pl.DataFrame
    windows: pl.DataFrame
    arrivals: pl.DataFrame
    exposed: Intervals = EMPTY
    seam_ns: int | None = None
    facts: dict[str, str] = field(default_factory=dict)
    work: Work | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(self.windows.get_column("step").to_list())

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "rank", "–" if self.rank is None else str(self.rank)
        yield "steps", str(len(self.steps))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Run(InNotebook):
    """One of the two runs that are compared: a trace, a job of many ranks, or what a saved report holds of them.

    ranks: in order of rank, then device. failures: files that could not be used. notes: what is missing.
    """

    source: str
    ranks: tuple[RankRun, ...]
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "ranks", str(len(self.ranks))


def run_of(
    source: str | os.PathLike[str] | Trace | Job | Run,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    keep_work: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> Run:
    """What of a trace or a job is compared. A path may name either.

    rules: kernel rules, weftrace's own by default. workers, on_done: see `Job.map`. keep_work: of a single trace, keep
    its work for the page. Raises TraceError where nothing can be read.
    """
    if isinstance(source, Run):
        return source
    if not isinstance(source, Trace | Job):
        source = open_trace(source, workers=workers)
    if isinstance(source, Trace):
        name, ranks, failures = source.path or "in memory", _devices(source, rules, keep_work=keep_work), []
    else:
        outcomes = source.map(partial(_devices, rules=rules), workers=workers, on_done=on_done)
        ranks = [rank for outcome in outcomes for rank in outcome.value or ()]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        name = source.source
    return Run(source=name, ranks=tuple(sorted(ranks, key=_in_order)), failures=tuple(failures))


def _devices(trace: Trace, rules: KernelRules | None, *, keep_work: bool = False) -> list[RankRun]:
    works = works_of(trace, rules=rules)
    return [replace(rank_run(work), work=work if keep_work else None) for work in works]


def _in_order(rank: RankRun) -> tuple[bool, int, int, str]:
    return (rank.rank is None, rank.rank or 0, rank.device or 0, rank.path)


def rank_run(work: Work) -> RankRun:
    """What of one device is compared."""
    account = account_of(work)
    launched_by = operator_rows(work.trace.events, work.events) if work.basis == "device" else None
    windows = step_windows(work.events)
    return RankRun(
        rank=work.trace.rank,
        device=work.device,
        world_size=work.trace.world_size,
        path=work.trace.path,
        basis=work.basis,
        simulated=work.trace.simulated,
        span_ns=work.end_ns - work.start_ns,
        shares=_shares(work, own_times(account), launched_by),
        windows=windows,
        arrivals=arrivals(work),
        exposed=account.exposed,
        facts=facts_of(work, launched_by),
        seam_ns=_seam(work.events, windows),
    )


def _seam(events: pl.DataFrame, windows: pl.DataFrame) -> int | None:
    """See `RankRun.seam_ns`."""
    starts = windows.get_column("start_ns").to_numpy()[1:]
    if not len(starts):
        return None
    reach = np.maximum.accumulate(events.get_column("end_ns").to_numpy())
    before = np.searchsorted(events.get_column("start_ns").to_numpy(), starts)
    return int(np.median(np.abs(starts - reach[np.maximum(before - 1, 0)])))


def _shares(work: Work, owned: pl.DataFrame, launched_by: pl.Series | None) -> pl.DataFrame:
    is_idle = pl.col("part") == "idle"
    rows = owned.join(event_labels(work, launched_by), on="row", how="left").with_columns(
        pl.when(is_idle).then("cause").otherwise(pl.col("role").cast(pl.String)).alias("cause")
    )
    summed = rows.group_by("step", *LABELS).agg(pl.col(SUMS).sum())
    return summed.select(pl.col(name).cast(dtype) for name, dtype in SHARE_SCHEMA.items()).sort(
        "step", *LABELS, nulls_last=True
    )


def event_labels(work: Work, launched_by: pl.Series | None = None) -> pl.DataFrame:
    """Whose each event of a device is: row (in the trace's events), kind, family, kernel, role, operator, phase.

    launched_by: `operator_rows` of the events, where they are at hand.
    """
    every = work.around.events
    family = pl.when(pl.col("kind") == "communication").then(pl.coalesce("collective", "family")).otherwise("family")
    labels = every.select("row", "kind", family.alias("family"), pl.col("name").alias("kernel"), "role", "phase")
    return labels.with_columns(_operators(work, every, launched_by), _phase_names(work, every))


def _operators(work: Work, events: pl.DataFrame, launched_by: pl.Series | None) -> pl.Series:
    names = work.trace.events.get_column("name")
    if work.basis != "device":
        return pl.Series("operator", [None] * events.height, dtype=names.dtype)
    rows = operator_rows(work.trace.events, events) if launched_by is None else launched_by
    return names.gather(rows).alias("operator")


def _phase_names(work: Work, events: pl.DataFrame) -> pl.Series:
    return work.phases.get_column("name").gather(events.get_column("phase")).alias("phase")
