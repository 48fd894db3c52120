"""What of a run is compared: the time of each step, shared out among kernels, and what the run says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import polars as pl

from weftrace.analysis import arrivals
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.late_ranks import lateness_of
from weftrace.analysis.meetings import meetings_of
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.ranks_apart import apart_notes, apart_of, by_rank, names_of, placed
from weftrace.analysis.run_facts import facts_of
from weftrace.analysis.step_shares import LABELS as LABELS
from weftrace.analysis.step_shares import SHARE_SCHEMA as SHARE_SCHEMA
from weftrace.analysis.step_shares import SUMS as SUMS
from weftrace.analysis.step_shares import WAITING as WAITING
from weftrace.analysis.step_shares import StepShares, step_shares
from weftrace.analysis.step_shares import event_labels as event_labels
from weftrace.analysis.waiting_shares import waiting_shares
from weftrace.errors import TraceError
from weftrace.notebook import InNotebook
from weftrace.trace.job import Failure, Job, open_trace
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.named_steps import with_steps
from weftrace.trace.work import Basis, Work, works_of


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RankRun(InNotebook):
    """One device of one rank. Times in ns.

    shares: a frame of `SHARE_SCHEMA`; own_ns adds up to each step's window exactly. windows: step, start_ns, end_ns
    (absolute) of each step; empty without steps. span_ns: from the first device start to the last end.
    waits: rows that split waiting for late ranks from shares (`waiting_shares`); None where that is not known: of a
    single rank, or where no two share a collective. shared: shares with when communication ran; with arrivals, at its
    collectives, what lateness is told from; None of a saved report's.
    name, places: see `RankAnalysis`.
    num_merged: rows that a saved report has merged, its smallest ones.
    seam_ns: how far the ends of windows may be off (`StepShares`).
    facts: what the file says of device, versions and settings, by name (`facts_of`). work: all of it, where a page
    needs it again; saved: in its place a saved report's rank, which holds lanes. steps_by: what ranges of the host are
    called that stand for steps (`with_steps`); None where a profiler recorded steps, or there are none.
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
    arrivals: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=ARRIVAL_SCHEMA))
    shared: StepShares | None = None
    waits: pl.DataFrame | None = None
    name: str = ""
    places: tuple[tuple[str, int], ...] = ()
    seam_ns: int | None = None
    num_merged: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    work: Work | None = None
    saved: Mapping[str, Any] | None = None
    steps_by: str | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(self.windows.get_column("step").to_list())

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "rank", "–" if self.rank is None else str(self.rank)
        yield "steps", str(len(self.steps))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Run(InNotebook):
    """One of the two runs that are compared: a trace, a job of many ranks, or what a saved report holds of them.

    ranks: in order of rank, then device, without those that count in no sum of their job (`apart_of`). failures: files
    that could not be used. notes: what is missing or left out, and how lateness was told.
    """

    source: str
    ranks: tuple[RankRun, ...]
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "ranks", str(len(self.ranks))
        yield from (("", note) for note in self.notes)


#: What can be compared. Several traces are those of a job's ranks, as `simulate_ranks` gives them.
Source = str | os.PathLike[str] | Trace | Job | Run | Mapping[int, Trace]


def run_of(
    source: Source,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    keep_work: bool = False,
    steps_by: str | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Run:
    """What of a trace or a job is compared. A path may name either, or the JSON of a report on one.

    rules: kernel rules, weftrace's own by default. workers, on_done: see `Job.map`. keep_work: of a single trace, keep
    its work for the page. steps_by: see `with_steps`. Raises TraceError where nothing can be read, ComparisonError
    where steps_by names no two ranges, DocumentError of a report that holds too little.
    """
    if isinstance(source, Run):
        return source
    if isinstance(source, Mapping):
        ranks = [rank for trace in source.values() for rank in _devices(trace, rules, steps_by=steps_by)]
        return _together("in memory", ranks, ())
    if not isinstance(source, Trace | Job):
        from weftrace.comparison.saved_reports import is_report, read_report  # which makes the values of this file

        if is_report(source):
            return read_report(source)
        source = open_trace(source, workers=workers)
    if isinstance(source, Trace):
        return _together(
            source.path or "in memory", _devices(source, rules, keep_work=keep_work, steps_by=steps_by), ()
        )
    outcomes = source.map(partial(_devices, rules=rules, steps_by=steps_by), workers=workers, on_done=on_done)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    ranks = [rank for outcome in outcomes for rank in outcome.value or ()]
    if not ranks:
        raise TraceError(failures[0].error if failures else f"{source.source}: no trace is there.")
    return _together(source.source, ranks, failures)


def _devices(
    trace: Trace, rules: KernelRules | None, *, keep_work: bool = False, steps_by: str | None = None
) -> list[RankRun]:
    trace, name = with_steps(trace, steps_by)
    works = works_of(trace, rules=rules)
    return [replace(rank_run(work), work=work if keep_work else None, steps_by=name) for work in works]


def rank_run(work: Work) -> RankRun:
    """What of one device is compared."""
    launched_by = operator_rows(work.trace.events, work.events) if work.basis == "device" else None
    shared = step_shares(work, launched_by=launched_by)
    worker = work.trace.plain.workers[0] if work.trace.plain else None
    return RankRun(
        rank=work.trace.rank,
        device=work.device,
        world_size=work.trace.world_size,
        path=work.trace.path,
        basis=work.basis,
        simulated=work.trace.simulated,
        span_ns=work.end_ns - work.start_ns,
        shares=shared.shares,
        windows=shared.windows,
        arrivals=arrivals(work),
        shared=shared,
        name=worker.name if worker else "",
        places=worker.places if worker else (),
        facts=facts_of(work, launched_by),
        seam_ns=shared.seam_ns,
    )


def _together(source: str, ranks: list[RankRun], failures: Sequence[Failure]) -> Run:
    """Ranks in order, but for those that are of no sum, with what each waited for others."""
    ordered, renumbered = placed(sorted(ranks, key=by_rank))
    apart = apart_of(ordered)
    counted, notes = with_waits([rank for rank, why in zip(ordered, apart, strict=True) if why is None])
    said = (*renumbered, *apart_notes(ordered, apart, lambda number: "left out"), *notes)
    return Run(source=source, ranks=counted, failures=tuple(failures), notes=said)


def with_waits(ranks: Sequence[RankRun]) -> tuple[tuple[RankRun, ...], tuple[str, ...]]:
    """The ranks with what each waited for another of them, and how that was told."""
    shared = [rank.shared for rank in ranks if rank.shared is not None]
    clock_of = ["(simulated)" if rank.simulated else rank.path for rank in ranks]  # a plan's ranks are on one clock
    is_asked = 1 < len(ranks) == len(shared)
    found = lateness_of(meetings_of([rank.arrivals for rank in ranks], clock_of)) if is_asked else None
    if found is None:
        return tuple(replace(rank, waits=None) for rank in ranks), ()
    waits = waiting_shares(shared, names_of(ranks), found.began)
    return tuple(replace(rank, waits=rows) for rank, rows in zip(ranks, waits, strict=True)), found.notes
