"""From a path to a finished report: the document, and the timelines that only HTML shows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from weftrace.analysis.rank import RankAnalysis, analyze_rank, collect
from weftrace.facts.hardware import Hardware
from weftrace.flops.join.join import TraceJoin, join
from weftrace.flops.values import FlopsReport
from weftrace.report.document import Document, document_of, flops_of_rank
from weftrace.report.timeline import timeline_payload
from weftrace.trace.job import Job
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.work import works_of

MAX_TIMELINE_EVENTS = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report, ready to be drawn: the document, and for each of its ranks the timeline (empty if not asked for)."""

    document: Document
    timelines: tuple[dict[str, Any], ...] = ()


def build_report(
    source: Trace | Job,
    *,
    rules: KernelRules | None = None,
    step: int | None = None,
    timelines: bool = True,
    flops: FlopsReport | None = None,
    hardware: Hardware | str | None = None,
    workers: int | None = None,
    executor: Executor | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Report:
    """Analyse a trace or a job and put the report together.

    timelines: also pack events for the HTML page, about 200,000 over all ranks. flops: what a step of the same run
    costs; each rank then tells its FLOP/s and MFU by phase. hardware: the accelerator whose peaks count for it, by
    default the one that the trace names. The other arguments are those of
    `weftrace.analyze`.
    """
    number = 1 if isinstance(source, Trace) else max(1, len(source.ranks or source.paths))
    per_rank = max(2_000, MAX_TIMELINE_EVENTS // number) if timelines else 0
    each = partial(_one_rank, rules=rules, step=step, max_events=per_rank, flops=flops, hardware=hardware)
    if isinstance(source, Trace):
        parts, failures, name = each(source), [], source.path or "in memory"
    else:
        outcomes = source.map(each, workers=workers, executor=executor, on_done=on_done)
        parts = [part for outcome in outcomes for part in outcome.value or ()]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        name = source.source
    analysis = collect(name, [rank for rank, _, _ in parts], failures)
    by_rank = {id(rank): timeline for rank, timeline, _ in parts}
    document = document_of(analysis)
    joined = {id(rank): found for rank, _, found in parts if found is not None}
    for told, rank in zip(document["ranks"], analysis.ranks, strict=True):
        if id(rank) in joined:
            told["flops"] = flops_of_rank(joined[id(rank)])
    return Report(
        document=document,
        timelines=tuple(t for rank in analysis.ranks if (t := by_rank[id(rank)]) is not None),
    )


def _one_rank(
    trace: Trace,
    *,
    rules: KernelRules | None,
    step: int | None,
    max_events: int,
    flops: FlopsReport | None = None,
    hardware: Hardware | str | None = None,
) -> list[tuple[RankAnalysis, dict[str, Any] | None, TraceJoin | None]]:
    parts = []
    for work in works_of(trace, rules=rules, step=step):
        timeline = timeline_payload(trace, work.events, max_events=max_events) if max_events else None
        joined = None if flops is None else join(flops, work, hardware)
        parts.append((analyze_rank(work), timeline, joined))
    return parts
