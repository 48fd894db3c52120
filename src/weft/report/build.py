"""From a path to a finished report: the document, and the timelines that only HTML shows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.analysis.rank import RankAnalysis, analyze_rank, collect
from weft.report.document import Document, document_of
from weft.report.timeline import timeline_payload
from weft.trace.job import Job
from weft.trace.kernels import KernelRules
from weft.trace.model import Trace
from weft.trace.work import works_of

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
    workers: int | None = None,
    executor: Executor | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Report:
    """Analyse a trace or a job and put the report together.

    timelines: also pack events for the HTML page, about 200,000 over all ranks. The other arguments are those of
    `weft.analyze`.
    """
    number = 1 if isinstance(source, Trace) else max(1, len(source.ranks or source.paths))
    per_rank = max(2_000, MAX_TIMELINE_EVENTS // number) if timelines else 0
    each = partial(_one_rank, rules=rules, step=step, max_events=per_rank)
    if isinstance(source, Trace):
        parts, failures, name = each(source), [], source.path or "in memory"
    else:
        outcomes = source.map(each, workers=workers, executor=executor, on_done=on_done)
        parts = [part for outcome in outcomes for part in outcome.value or ()]
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        name = source.source
    analysis = collect(name, [rank for rank, _ in parts], failures)
    by_rank = {id(rank): timeline for rank, timeline in parts}
    return Report(
        document=document_of(analysis),
        timelines=tuple(t for rank in analysis.ranks if (t := by_rank[id(rank)]) is not None),
    )


def _one_rank(
    trace: Trace, *, rules: KernelRules | None, step: int | None, max_events: int
) -> list[tuple[RankAnalysis, dict[str, Any] | None]]:
    parts = []
    for work in works_of(trace, rules=rules, step=step):
        timeline = timeline_payload(trace, work.events, max_events=max_events) if max_events else None
        parts.append((analyze_rank(work), timeline))
    return parts
