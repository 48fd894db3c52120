"""HTML of a comparison of pipeline schedules: time against memory, the table, pictures of those that are chosen.

The page of a recommendation is that of a comparison, with the choice as its headline and what would flip it below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from weftrace.errors import OutputError
from weftrace.files.values import filled, to_document
from weftrace.pipeline.choices.document import RecommendationReport
from weftrace.pipeline.comparing.comparison import Comparison
from weftrace.pipeline.comparing.document import ImpossibleRow, ScheduleRow, comparison_summary
from weftrace.pipeline.render.comparison_words import (
    COMPARISON_TERMS,
    LawLine,
    comparison_headline,
    costs_in,
    law_lines,
    setting,
)
from weftrace.pipeline.render.page import HOME, MAX_CELLS, STYLES, PictureBlock, picture_block
from weftrace.pipeline.render.words import PICTURE_TERMS
from weftrace.render.page import render_page
from weftrace.units import counted
from weftrace.version import __version__

#: Drawn at first beside the best: what everybody knows, and what most ask about.
_DRAWN_FIRST = ("1f1b", "dualpipe")


class ComparisonBlock(TypedDict):
    """What the page of a comparison holds. pictures: by row; null where the schedules are too large to hold them all.
    front: rows that no other beats in both time of devices and memory, from the fastest on. first: rows drawn at first.
    """

    facts: list[str]
    equal: str
    unit_ns: int
    memory_cap: float | None
    rows: tuple[ScheduleRow, ...]
    impossible: tuple[ImpossibleRow, ...]
    front: list[int]
    first: list[int]
    laws: list[LawLine]
    pictures: list[PictureBlock | None]


def render_comparison_html(comparison: Comparison) -> str:
    """One self-contained page of a comparison, as text."""
    summary = comparison_summary(comparison)
    return render_comparison(
        comparison_block(comparison),
        title=f"Pipeline schedules: {setting(summary)}",
        headline=comparison_headline(summary),
    )


def render_comparison(block: ComparisonBlock, *, title: str, headline: str) -> str:
    """The page of what `comparison_block` gives."""
    return render_page(
        "comparison.html",
        home=HOME,
        entry="comparison",
        styles=STYLES,
        blocks=[("weftrace-comparison", to_document(block))],
        terms={**COMPARISON_TERMS, **PICTURE_TERMS},
        tables={"schedules": ScheduleRow},
        title=title,
        headline=headline,
        version=__version__,
    )


def comparison_block(comparison: Comparison, first: Sequence[int] | None = None) -> ComparisonBlock:
    """The comparison as its page holds it, the best row first. first: rows that are drawn at first."""
    summary = comparison_summary(comparison)
    rows = summary.rows
    front = _front(rows)
    if first is None:
        first = sorted({*range(len(rows[:1])), *(at for at, row in enumerate(rows) if row.name in _DRAWN_FIRST)})
    return ComparisonBlock(
        facts=[fact for fact in (setting(summary), costs_in(summary), summary.left_out) if fact],
        equal=summary.equal,
        unit_ns=summary.unit_ns,
        memory_cap=summary.memory_cap,
        rows=rows,
        impossible=summary.impossible,
        front=front,
        first=list(first),
        laws=law_lines(rows),
        pictures=_pictures(comparison, [*first, *front]),
    )


def _pictures(comparison: Comparison, asked: Sequence[int]) -> list[PictureBlock | None]:
    """By row; asked: rows that get room before others, which get it from the best on."""
    ranked = comparison.ranked
    found: list[PictureBlock | None] = [None] * len(ranked)
    room = MAX_CELLS
    for at in dict.fromkeys([*asked, *range(len(ranked))]):
        run = ranked[at].simulation
        if run is not None and len(run.schedule) <= room:
            room -= len(run.schedule)
            found[at] = picture_block(run, ranked[at].title)
    return found


def _front(rows: Sequence[ScheduleRow]) -> list[int]:
    """Rows from the least time of devices to the most, each of which holds less than all before it."""
    order = sorted(range(len(rows)), key=lambda at: (_device_ns(rows[at]), rows[at].peak_activations))
    front: list[int] = []
    for at in order:
        if not front or rows[at].peak_activations < rows[front[-1]].peak_activations:
            front.append(at)
    return front


def _device_ns(row: ScheduleRow) -> int:
    return row.step_ns * row.num_devices


def render_recommendation_html(report: RecommendationReport) -> str:
    """One self-contained page of a recommendation, as text.

    Raises `OutputError` for one that was read from a file: it holds no schedules to draw.
    """
    devices, micro_batches = counted(report.num_devices, "device"), counted(report.num_micro_batches, "micro-batch")
    return render_comparison(
        _recommendation_block(report),
        title=f"Which schedule: {devices}, {micro_batches}",
        headline=report.headline,
    )


def _recommendation_block(report: RecommendationReport) -> ComparisonBlock:
    """The comparison of the same schedules, with the sentences of the recommendation; the choice is drawn at first."""
    found = report.found
    if found is None:
        raise OutputError(
            "a saved recommendation holds no schedules to draw: make the page with the command that makes the "
            "recommendation, `weftrace pipeline recommend ... -o choice.html`."
        )
    comparison = filled(Comparison, found, num_stages=None, candidates=(*found.ranked, *found.impossible))
    first = [at for at, each in enumerate(comparison.ranked) if each in (found.choice, found.baseline)]
    block = comparison_block(comparison, first)
    block["facts"] = [*report.sentences, *block["facts"]]
    return block
