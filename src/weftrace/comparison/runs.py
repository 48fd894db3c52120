"""What of a run is compared: the time of each step, shared out among kernels, and what the run says of itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from weftrace.analysis import arrivals
from weftrace.analysis.efficiency import efficiency_or_none
from weftrace.analysis.excluded_ranks import apart_notes, apart_of, by_rank, names_of, placed
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.meetings import meetings_of
from weftrace.analysis.operator_times import operator_rows
from weftrace.analysis.rank import collect
from weftrace.analysis.run_facts import facts_of
from weftrace.analysis.step_shares import LABELS as LABELS
from weftrace.analysis.step_shares import SHARE_SCHEMA as SHARE_SCHEMA
from weftrace.analysis.step_shares import SUMS as SUMS
from weftrace.analysis.step_shares import WAITING as WAITING
from weftrace.analysis.step_shares import event_labels as event_labels
from weftrace.analysis.step_shares import step_shares
from weftrace.analysis.stragglers import lateness_of
from weftrace.analysis.waiting_shares import waiting_shares
from weftrace.comparison.run_values import RankRun as RankRun
from weftrace.comparison.run_values import Run as Run
from weftrace.comparison.saved_reports import is_report, read_report
from weftrace.errors import TraceError
from weftrace.trace.job import Failure, Job, open_trace
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.named_steps import with_steps
from weftrace.trace.work import Work, works_of

if TYPE_CHECKING:  # traces are compared without that wing
    from weftrace.advice.findings.advising import RankAdvice

#: What can be compared. Several traces are those of a job's ranks, as `simulate_ranks` gives them.
Source = str | os.PathLike[str] | Trace | Job | Run | Mapping[int, Trace]
#: Device events of a run up to which its findings are looked for; ranks up to which they are replayed together.
_MAX_ADVISED_EVENTS, _MOST_JOINED = 50_000, 16


def run_of(
    source: Source,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    keep_work: bool = False,
    steps_by: str | None = None,
    advises: bool = False,
    on_done: Callable[[str], None] | None = None,
) -> Run:
    """What of a trace or a job is compared. A path may name either, or the JSON of a report on one.

    rules: kernel rules, weftrace's own by default. workers, on_done: see `Job.map`. keep_work: of a single trace, and
    of traces in memory, keep the work for the page. steps_by: see `with_steps`. advises: also look for what costs time,
    in runs of up to 50,000 device events. A Run stays as it is.

    Raises TraceError where nothing can be read, ComparisonError where steps_by names no two ranges, DocumentError of a
    report that holds too little.
    """
    if isinstance(source, Run):
        return source
    devices = partial(_devices, rules=rules, steps_by=steps_by)
    if isinstance(source, Mapping):
        devices = partial(devices, keep_work=keep_work, advised=_Advised.of(len(source), advises))
        ranks = [rank for trace in source.values() for rank in devices(trace)]
        return _together("in memory", ranks, ())
    if not isinstance(source, Trace | Job):
        if is_report(source):
            return read_report(source)
        source = open_trace(source, frames=True, workers=workers)
    if isinstance(source, Trace):
        ranks = devices(source, keep_work=keep_work, advised=_Advised.of(1, advises))
        return _together(source.path or "in memory", ranks, ())
    devices = partial(devices, advised=_Advised.of(len(source.ranks or source.paths), advises))
    outcomes = source.map(devices, workers=workers, on_done=on_done)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    ranks = [rank for outcome in outcomes for rank in outcome.value or ()]
    if not ranks:
        raise TraceError(failures[0].error if failures else f"{source.source}: no trace is there.")
    return _together(source.source, ranks, failures)


@dataclass(frozen=True, slots=True)
class _Advised:
    """max_events: of a rank, up to which it is looked at. joins: whether the ranks are replayed together."""

    max_events: int
    joins: bool

    @classmethod
    def of(cls, num_ranks: int, advises: bool) -> _Advised:
        return cls(_MAX_ADVISED_EVENTS // max(1, num_ranks) if advises else 0, num_ranks <= _MOST_JOINED)


def _devices(
    trace: Trace, *, rules: KernelRules | None, advised: _Advised, keep_work: bool = False, steps_by: str | None = None
) -> list[RankRun]:
    named, name = with_steps(trace, steps_by)
    works = works_of(named, rules=rules)
    own = works if name is None else works_of(trace, rules=rules)  # as reports look at it
    return [
        replace(
            rank_run(work), work=work if keep_work else None, steps_by=name, rules=rules,
            advised=_rank_advice(whole, advised),
        )
        for work, whole in zip(works, own, strict=True)
    ]  # fmt: skip


def _rank_advice(work: Work, asked: _Advised) -> RankAdvice | None:
    """What the rules of advice found on a device; None where they were not asked, or it is too large."""
    if not 0 < work.events.height <= asked.max_events:
        return None
    try:
        from weftrace.advice.findings.advising import advise_work
    except ModuleNotFoundError:  # installed without that wing
        return None
    try:
        return advise_work(work, keep_plan=asked.joins)
    except Exception:  # what is beside the comparison must not cost it
        return None


def _advice(source: str, ranks: Sequence[RankRun], failures: Sequence[Failure]) -> AdviceReport | None:
    """The findings of a run; None unless all of its ranks were looked at."""
    found = [rank.advised for rank in ranks if rank.advised is not None]
    if not found or len(found) < len(ranks):
        return None
    from weftrace.advice.findings.advising import advice_of

    try:
        return advice_of(collect(source, [rank.analysis for rank in found], failures), found)
    except Exception:  # as above
        return None


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
        shapes=None if (efficiency := efficiency_or_none(work, innermost=launched_by)) is None else efficiency.in_steps,
    )


def _together(source: str, ranks: list[RankRun], failures: Sequence[Failure]) -> Run:
    """Ranks in order, but for those that are of no sum, with what each waited for others."""
    ordered, renumbered = placed(sorted(ranks, key=by_rank))
    apart = apart_of(ordered)
    counted, notes = with_waits([rank for rank, why in zip(ordered, apart, strict=True) if why is None])
    said = (*renumbered, *apart_notes(ordered, apart, lambda number: "left out"), *notes)
    return Run(
        source=source,
        ranks=tuple(replace(rank, advised=None) for rank in counted),
        failures=tuple(failures),
        notes=said,
        advice=_advice(source, ranks, failures),
    )


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
