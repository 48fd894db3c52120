"""From a path to a finished report: every analysis of every rank, the document, and the timelines that a page shows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, TypedDict, Unpack

from weftrace.analysis.excluded_ranks import by_rank
from weftrace.analysis.rank import Analysis, RankAnalysis, analyze_rank, collect
from weftrace.costs.custom_ops import CustomOp
from weftrace.errors import AdviceError, TraceError, WeftraceError
from weftrace.facts import Hardware, hardware
from weftrace.notebook import InNotebook
from weftrace.report.document import MOST_STRETCHES, document_of
from weftrace.report.document_types import ReportDocument
from weftrace.report.timeline import timeline_payload
from weftrace.report.timeline_gaps import MOST_GAPS, timeline_gaps
from weftrace.report.timeline_types import TimelinePayload
from weftrace.trace.code_names import By, each_of
from weftrace.trace.job import Job, open_trace
from weftrace.trace.kernels import KernelRules
from weftrace.trace.limits import EVENTS_PER_RANK, REPORTED_RANKS
from weftrace.trace.model import Trace
from weftrace.trace.named_steps import with_steps
from weftrace.trace.work import StepBy, Work, works_of
from weftrace.units import duration, percent
from weftrace.workers.spool import Spool

if TYPE_CHECKING:  # and imported where a report of FLOPs is at hand: traces are reported on without that wing
    from weftrace.advice.findings.advising import RankAdvice
    from weftrace.analysis.findings import AdviceReport
    from weftrace.analysis.job_slowdown import JobSlowdown
    from weftrace.flops.join.join import TraceJoin
    from weftrace.flops.values import FlopsReport

#: Events of a trace that its page draws, and of all ranks of a job together.
MAX_TIMELINE_EVENTS, _EVENTS_OF_JOB = 1_000_000, 200_000
#: Of a job of more ranks than `_MANY` fewer, so that its page stays below 5 MB; of each rank so many at least.
_MANY, _EVENTS_OF_MANY, _LEAST_EVENTS = 64, 64_000, 500
#: Ranks of one file from which on several are analysed at once.
_MANY_IN_A_FILE, _MOST_THREADS = 16, 2
_LEAST_GAPS = 100  # of each rank of a large job
#: Device events of a trace up to which its page tells the critical path: what is found in a second or two.
MAX_PATH_EVENTS = 50_000
#: Events of a job's devices, or its ranges, up to which its report replays it: what is done in some seconds.
MAX_REPLAYED_EVENTS, MAX_REPLAYED_RANGES = 200_000, 1_000_000
#: Ranks of a job up to which its report's advice replays them together; device events of all ranks up to which a
#: report has advice: what is found in some seconds. Of more, `weftrace advise` tells.
_MOST_JOINED, MAX_ADVISED_EVENTS = 16, 50_000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RankReport(InNotebook):
    """One device of one rank. timeline: its events, packed for the page; flops: a step's cost joined to its times;
    work: what all of it was made of, where the page needs it again; advice: what the rules found on it."""

    analysis: RankAnalysis
    timeline: TimelinePayload | None = None
    flops: TraceJoin | None = None
    work: Work | None = None
    advice: RankAdvice | None = None

    def _describe(self) -> Iterable[tuple[str, str]]:
        return self.analysis._describe()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(InNotebook):
    """What a trace, or each rank of a job, tells.

    document: all of it as JSON-able values (schema weftrace.report/1), which is what every renderer draws from.
    timelines: of each rank of the document its events for the page, None where they were not asked for.
    analysis: the same as typed values and frames; None of a report that was loaded from its document.
    works: of a single trace of up to 50,000 device events, what it was made of, a device each: its page finds the
        critical path in it. Empty, or None, elsewhere.
    """

    document: ReportDocument
    timelines: tuple[TimelinePayload | None, ...] = ()
    analysis: Analysis | None = None
    works: tuple[Work | None, ...] = field(default=(), compare=False)

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "", self.document["headline"]
        for rank in self.document["ranks"][:8]:
            span = rank["span_ns"]
            name = "trace" if rank["rank"] is None else f"rank {rank['rank']}"
            if not span:
                yield name, "no device work"
                continue
            parts = {"compute": rank["compute_ns"], "exposed communication": rank["exposed_communication_ns"],
                     "exposed memory": rank["exposed_memory_ns"], "idle": rank["idle_ns"]}  # fmt: skip
            summary = ", ".join(f"{part} {percent(value / span)}" for part, value in parts.items())
            yield name, f"{duration(span)}: {summary}"
        if (more := self.document["num_ranks"] - 8) > 0:
            yield "…", f"{more} more ranks"

    def _picture(self) -> str:
        """The lanes of the first rank that has any."""
        from weftrace.render.lanes_scene import lanes_svg

        drawn = next((rank for rank in self.document["ranks"] if any(lane["boxes"] for lane in rank["lanes"])), None)
        return "" if drawn is None else lanes_svg(drawn, title=drawn["path"])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """What a report is made of.

    rules: kernel rules, weftrace's own by default. step: only ProfilerStep N, its window of the device's time or, with
    step_by "launch", the events that it launched. by: "module", "line" or both: time by module, by Python function too,
    for which files are read with their Python frames (a Trace must have been: `open(path, frames=True)`). timelines:
    also pack events for the page, up to 1,000,000 of a trace, about 200,000 over all ranks of a job. most_stretches:
    of busy time of each lane in the document; beyond it neighbours are merged. flops: what a step of the same run
    costs; each rank then tells its FLOP/s and MFU by phase. hardware: the accelerator whose peaks count for that and
    for efficiency, by default the one that the trace names. custom_ops: what operators of other libraries cost
    (`weftrace.costs.load_custom_ops`). advice: also look for what costs time, and replay what a remedy would save, in
    all of a recording.
    """

    rules: KernelRules | None = None
    step: int | None = None
    step_by: StepBy = "window"
    by: By | Sequence[By] = ()
    timelines: bool = True
    most_stretches: int = MOST_STRETCHES
    flops: FlopsReport | None = None
    hardware: Hardware | str | None = None
    custom_ops: tuple[CustomOp, ...] | None = None
    advice: bool = True


class OwnOptions(TypedDict, total=False):
    """Fields of `ReportOptions` as keywords, for type checkers and editors."""

    rules: KernelRules | None
    step: int | None
    step_by: StepBy
    by: By | Sequence[By]
    timelines: bool
    most_stretches: int
    flops: FlopsReport | None
    hardware: Hardware | str | None
    custom_ops: tuple[CustomOp, ...] | None
    advice: bool


def analyze(
    source: str | os.PathLike[str] | Trace | Job,
    options: ReportOptions | None = None,
    *,
    workers: int | None = None,
    executor: Executor | None = None,
    on_done: Callable[[str], None] | None = None,
    spool: Spool | None = None,
    **own: Unpack[OwnOptions],
) -> Report:
    """Analyse a path, a trace, or every rank of a job, and put the report together.

    options: what it is made of; own: fields of `ReportOptions` in its place, as `analyze(path, by="module")`.
    workers, executor, on_done, spool: see `Job.map`; of a path to a single file, workers read it (`read_chrome`).
    Raises TraceError when nothing can be read. Of a job, a rank that fails is in the document's `failures`, and the
    others are reported.
    """
    asked = replace(options or ReportOptions(), **own)
    each_of(asked.by)  # refuses unknown words before anything is read
    if isinstance(asked.hardware, str):
        asked = replace(asked, hardware=hardware(asked.hardware))
    if not isinstance(source, Trace | Job):
        source = open_trace(source, frames=True, workers=workers)
    if isinstance(source, Trace):
        _refuse_many_ranks(source)
        number = len(source.plain.workers) if source.plain else 1
    else:
        number = max(1, len(source.ranks or source.paths))
    shared = MAX_TIMELINE_EVENTS if number == 1 else _EVENTS_OF_JOB if number <= _MANY else _EVENTS_OF_MANY
    kept = MAX_REPLAYED_EVENTS // number if number <= _MOST_JOINED else 0
    each = partial(_devices, asked=asked, max_events=max(_LEAST_EVENTS, shared // number), max_plan=kept,
                   max_advised=MAX_ADVISED_EVENTS // number)  # fmt: skip
    replaying = None
    if isinstance(source, Trace):
        if number >= _MANY_IN_A_FILE and asked.step is None and source.events.height <= MAX_REPLAYED_RANGES:
            pool = ThreadPoolExecutor(max_workers=1)  # both leave the interpreter to others much of the time
            replaying = pool.submit(_replayed, source)
            pool.shutdown(wait=False)
        ranks, failures, name = each(source, keep_work=asked.timelines), [], source.path or "in memory"
    else:
        job = replace(source, frames=True)
        outcomes = job.map(each, workers=workers, executor=executor, on_done=on_done, spool=spool)
        ranks = [rank for outcome in outcomes for rank in outcome.value or ()]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        name = source.source
    ranks.sort(key=lambda rank: by_rank(rank.analysis))
    chip = asked.hardware if isinstance(asked.hardware, Hardware) else None
    analysis = collect(name, [rank.analysis for rank in ranks], failures, chip)
    slowdown, note = None, ""
    if replaying is not None:
        slowdown, note = replaying.result()
    elif asked.step is None:
        slowdown, note = _slowdown(source, analysis, [rank.advice for rank in ranks], workers)
    advice = _advice(analysis, [rank.advice for rank in ranks], slowdown)
    if note:
        analysis = replace(analysis, notes=(*analysis.notes, note))
    return Report(
        document=document_of(
            analysis,
            flops=[rank.flops for rank in ranks],
            slowdown=slowdown,
            most_stretches=asked.most_stretches,
            advice=advice,
        ),
        timelines=tuple(rank.timeline for rank in ranks),
        analysis=analysis,
        works=tuple(rank.work for rank in ranks),
    )


def _slowdown(
    source: Trace | Job, analysis: Analysis, advised: Sequence[RankAdvice | None], workers: int | None
) -> tuple[JobSlowdown | None, str]:
    """How much slower a job is than at its ranks' common pace; or what is to be said of why that is not told."""
    ranks = [rank for rank in analysis.ranks if rank.apart is None]
    on_hosts = {rank.basis for rank in ranks} == {"host"}  # a run on CPUs, or a host that only launches
    if len(ranks) < 2 or not (on_hosts or {rank.basis for rank in ranks} <= {"device", "ranges"}):
        return None, ""
    events = sum(int(rank.kernels.kernels.get_column("num_events").sum()) for rank in ranks)
    if events > (MAX_REPLAYED_RANGES if ranks[0].basis == "ranges" else MAX_REPLAYED_EVENTS):
        return None, f"{events:,} events are too many to replay in a report: run weftrace stragglers for the job's S"
    slowdown, note = _replayed(_kept(advised) or source, workers)
    return slowdown, "" if on_hosts else note


def _kept(advised: Sequence[RankAdvice | None]) -> list[Work]:
    """What the ranks did, where advice kept the plans of all of them: their files need not be read again."""
    plans = [rank.plan for rank in advised if rank is not None and rank.plan is not None]
    works = [plan if isinstance(plan, Work) else plan.works[0] for plan in plans]
    return works if len(works) == len(advised) else []


def _replayed(source: Trace | Job | Sequence[Work], workers: int | None = None) -> tuple[JobSlowdown | None, str]:
    try:
        from weftrace.advice import infer_lanes_of, slowdown_of
    except ModuleNotFoundError:  # installed without that wing
        return None, ""
    try:
        return slowdown_of(infer_lanes_of(source, workers=workers)), ""
    except AdviceError:  # ranks that do nothing together
        return None, ""
    except WeftraceError as error:
        return None, f"the job could not be replayed: {error}"


def _advice(
    analysis: Analysis, ranks: Sequence[RankAdvice | None], slowdown: JobSlowdown | None
) -> AdviceReport | None:
    """What to do about the run; None where nothing was looked for."""
    found = [rank for rank in ranks if rank is not None]
    if not found or len(found) < len(ranks):  # some ranks were too large: no half of a job's advice
        return None
    from weftrace.advice.findings.advising import advice_of

    try:
        return advice_of(analysis, found, slowdown=slowdown, replays_job=False)
    except Exception:  # what is beside the report must not cost the report
        return None


def _rank_advice(
    work: Work, analysis: RankAnalysis, asked: ReportOptions, max_plan: int, max_advised: int
) -> RankAdvice | None:
    """What the rules found on a device of up to max_advised events. max_plan: up to which its plan is kept."""
    events = work.events.height
    if not asked.advice or asked.step is not None or not 0 < events <= max_advised:
        return None
    try:
        from weftrace.advice.findings.advising import advise_work
    except ModuleNotFoundError:  # installed without that wing
        return None
    chip = asked.hardware if isinstance(asked.hardware, Hardware) else None
    try:
        return advise_work(work, given=analysis, chip=chip, keep_plan=events <= max_plan)
    except Exception:  # as above
        return None


def _refuse_many_ranks(trace: Trace) -> None:
    ranks = len(trace.plain.workers) if trace.plain else 0
    if ranks > REPORTED_RANKS and len(trace) < EVENTS_PER_RANK * ranks:
        raise TraceError(
            f"{trace.path}: {ranks:,} ranks with {len(trace):,} events: a report has {REPORTED_RANKS} at most, or more "
            f"with {EVENTS_PER_RANK} events each. Choose some with --ranks, or use weftrace stragglers for all of them."
        )


def _devices(
    trace: Trace, *, asked: ReportOptions, max_events: int, max_plan: int, max_advised: int, keep_work: bool = False
) -> list[RankReport]:
    _refuse_many_ranks(trace)
    works = works_of(trace, rules=asked.rules, step=asked.step, step_by=asked.step_by)
    named, steps_by = with_steps(trace) if asked.step is None else (trace, None)
    stepped = [None] * len(works) if steps_by is None else works_of(named, rules=asked.rules)
    by = each_of(asked.by)

    def one(work: Work, again: Work | None) -> RankReport:
        analysis = analyze_rank(work, by=by, stepped=again, hardware=asked.hardware, custom_ops=asked.custom_ops)
        return RankReport(
            analysis=replace(analysis, steps_by=steps_by),
            timeline=_timeline(work, max_events) if asked.timelines else None,
            flops=None if asked.flops is None else _joined(asked.flops, work, asked.hardware),
            work=work if keep_work and work.events.height <= MAX_PATH_EVENTS else None,
            advice=_rank_advice(work, analysis, asked, max_plan, max_advised),
        )

    if len(works) < _MANY_IN_A_FILE:
        return [one(*each) for each in zip(works, stepped, strict=True)]
    with ThreadPoolExecutor(max_workers=min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, works, stepped))


def _timeline(work: Work, max_events: int) -> TimelinePayload:
    timeline = timeline_payload(work.trace, work.events, max_events=max_events)
    gaps = timeline_gaps(work, timeline["start_ns"], most=min(MOST_GAPS, max(_LEAST_GAPS, max_events // 50)))
    return timeline if gaps is None else {**timeline, "gaps": gaps}


def _joined(flops: FlopsReport, work: Work, hardware: Hardware | str | None) -> TraceJoin:
    from weftrace.flops.join.join import join

    return join(flops, work, hardware)
