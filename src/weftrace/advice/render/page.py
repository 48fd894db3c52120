"""HTML of advice: a critical path, with what would be saved; a what-if, before and after; a job's slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

import polars as pl

from weftrace.advice.critical_paths import CriticalPath, WeakestEdge
from weftrace.advice.document import Advice, CriticalPathReport
from weftrace.advice.render.advice_terminal import facts_of
from weftrace.advice.render.colours import CLASS_ROLES
from weftrace.advice.render.picture import MAX_NAME, MAX_OPS, PathPicture, path_picture
from weftrace.advice.render.words import (
    PATH_TERMS,
    SOURCE_WORDS,
    WHAT_IF_TERMS,
    contention_words,
    doubt_words,
    kept_words,
    replay_words,
    weakest_words,
)
from weftrace.advice.whatif_document import SensitivityReport, WhatIfReport
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.files.values import to_document
from weftrace.render.findings_parts import FINDING_TERMS, FindingCards, finding_cards
from weftrace.render.packed import packed_rows
from weftrace.render.page import render_page, without_folders
from weftrace.render.slowdown_words import SLOWDOWN_TERMS
from weftrace.version import __version__

#: The package that holds the pages' templates and static files.
HOME = "weftrace.advice.render"
STYLES = ("render/page.css", "render/charts.css", "render/path.css")

#: Rows of a table that a page holds at most, those of most time first.
MAX_ROWS = 400
#: Waits that it lists, the least sure first.
MAX_WAITS = 200


class WaitRow(TypedDict):
    """A wait on the path that is not certain. at_ns: when the op that waited started, from the first on a device."""

    name: str
    waited_for: str
    source: str
    votes_for: int | None
    votes_against: int | None
    confidence: float
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySummary:
    """What is said of the replay, of why it is not to be trusted, and of the wait of which we are least sure."""

    replay: str
    doubts: str
    kept: str
    weakest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathBlock:
    """A critical path as a page holds it. picture: None of one that was read from a file, which holds no ops.

    document: without its parts, and of long tables the first rows. roles: class -> colour. waits: those on the path
    that are not certain, the least sure first.
    """

    document: CriticalPathReport
    summary: ReplaySummary
    roles: Mapping[str, str]
    picture: PathPicture | None
    waits: list[WaitRow]
    num_waits: int
    sensitivity: SensitivityReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIfBlock:
    """A what-if as its page holds it. before, after: None of one that was read from a file."""

    document: WhatIfReport
    summary: ReplaySummary
    roles: Mapping[str, str]
    before: PathPicture | None
    after: PathPicture | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SensitivityBlock:
    """A sensitivity as its page holds it."""

    document: SensitivityReport
    summary: ReplaySummary


def render_path_html(report: CriticalPathReport, sensitivity: SensitivityReport | None = None) -> str:
    """One self-contained page of a critical path, as text. sensitivity: of the same plan."""
    return _page("path", path_block(report, sensitivity), {**PATH_TERMS, **WHAT_IF_TERMS})


def render_what_if_html(report: WhatIfReport) -> str:
    """One self-contained page of a what-if, as text."""
    found = report.found
    if found is not None and (found.before.parts.is_empty() or found.after.parts.is_empty()):
        found = None
    block = WhatIfBlock(
        document=report,
        summary=_replay_summary(report, report.weakest),
        roles=CLASS_ROLES,
        before=None if found is None else path_picture(found.before, max_ops=MAX_OPS // 2),
        after=None if found is None else path_picture(found.after, before=found.before, max_ops=MAX_OPS // 2),
    )
    return _page("what_if", block, {**PATH_TERMS, **WHAT_IF_TERMS})


def render_sensitivity_html(report: SensitivityReport) -> str:
    """One self-contained page of a sensitivity and its curves, as text."""
    return _page("sensitivity", SensitivityBlock(document=report, summary=_replay_summary(report)), WHAT_IF_TERMS)


def render_stragglers_html(found: JobSlowdown) -> str:
    """One self-contained page of a job's slowdown, as text."""
    return render_page(
        "stragglers.html",
        home=HOME,
        entry="stragglers",
        styles=("render/page.css", "render/charts.css", "render/slowdown.css"),
        blocks=[("weftrace-stragglers", packed_rows(to_document(found)))],
        terms=SLOWDOWN_TERMS,
        title="stragglers",
        headline=found.headline,
        version=__version__,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceBlock:
    """Advice as its page holds it."""

    facts: list[str]
    notes: list[str]
    advice: FindingCards


def render_advice_html(report: AdviceReport) -> str:
    """One self-contained page of advice, as text."""
    block = AdviceBlock(
        facts=[without_folders(fact) for fact in facts_of(report)],
        notes=list(report.notes),
        advice=finding_cards(report),
    )
    return render_page(
        "advice.html",
        home=HOME,
        entry="advice",
        styles=("render/page.css", "render/charts.css", "render/findings.css"),
        blocks=[("weftrace-advice", to_document(block))],
        terms=FINDING_TERMS,
        title="advice",
        headline=report.headline,
        version=__version__,
    )


def path_block(
    report: CriticalPathReport, sensitivity: SensitivityReport | None = None, *, max_ops: int = MAX_OPS
) -> PathBlock:
    """What a page that shows a critical path holds of it."""
    path = report.path
    if path is not None and path.parts.is_empty():
        path = None  # nothing takes any time: there is nothing to draw
    unsure = pl.DataFrame() if path is None else path.path.filter(pl.col("confidence") < 1)
    return PathBlock(
        document=_shortened(report),
        summary=_replay_summary(report, report.weakest),
        roles=CLASS_ROLES,
        picture=None if path is None else path_picture(path, max_ops=max_ops),
        waits=[] if path is None else _waits(unsure, path),
        num_waits=unsure.height,
        sensitivity=sensitivity,
    )


def _page(entry: str, block: PathBlock | WhatIfBlock | SensitivityBlock, terms: Mapping[str, tuple[str, str]]) -> str:
    return render_page(
        f"{entry}.html",
        home=HOME,
        entry=entry,
        styles=STYLES,
        blocks=[(f"weftrace-{entry.replace('_', '-')}", to_document(block))],
        terms=terms,
        title=block.document.source,
        headline=block.document.headline,
        version=__version__,
    )


def _replay_summary(report: Advice, weakest: WeakestEdge | Literal[""] | None = "") -> ReplaySummary:
    return ReplaySummary(
        replay=replay_words(report.replay),
        doubts=doubt_words(report),
        kept=f"{kept_words(report.kept, report.waits)} {contention_words(report.contention)}",
        weakest="" if weakest == "" else weakest_words(weakest),
    )


def _shortened(report: CriticalPathReport) -> CriticalPathReport:
    """Without what the picture holds, and with names and tables that fit a page."""
    short: dict[str, Any] = {}
    for key in ("by_phase", "by_family", "by_kernel"):
        short[key] = [{**row, "name": row["name"][:MAX_NAME]} for row in getattr(report, key)[:MAX_ROWS]]
    return replace(report, parts=pl.DataFrame(), **short)


def _waits(unsure: pl.DataFrame, path: CriticalPath) -> list[WaitRow]:
    names = path.times.plan.ops.get_column("name").cast(pl.String).str.slice(0, MAX_NAME)
    begin = int(path.parts.item(0, "from_ns"))
    unsure = unsure.sort("confidence", maintain_order=True).head(MAX_WAITS)
    rows = unsure.select(
        pl.col("name").cast(pl.String).str.slice(0, MAX_NAME), pl.col("source").replace(SOURCE_WORDS), "votes_for",
        "votes_against", "confidence", waited_for=names.gather(unsure.get_column("cause")),
        at_ns=pl.col("start_ns") - begin,
    )  # fmt: skip
    return rows.to_dicts()  # type: ignore[return-value]
