"""HTML of a comparison: both steps side by side, what changed as bars that add up, who moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, TypedDict, cast

from weftrace.analysis.time_owners import PARTS
from weftrace.comparison.document import LEVELS, DiffReport, MoverRow, Movers, PartRow
from weftrace.comparison.render.picture import MAX_NAME, RankPicture, rank_pictures
from weftrace.comparison.render.words import DIFF_TERMS, MEDIAN_LESS_MEAN, part_labels, why_words
from weftrace.comparison.runs import WAITING
from weftrace.comparison.shape_changes import ShapeChangeRow
from weftrace.files.values import to_document
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the page's template and static files.
HOME = "weftrace.comparison.render"
STYLES = ("render/page.css", "render/charts.css", "render/path.css", "diff.css")

#: Rows of each list of movers that a page holds at most, those that changed most.
MAX_ROWS = 400
#: Bars of changes; the smallest beyond them are one, "others".
MAX_BARS = 12

EFFECTS: Final = ("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns")
#: Part of a step -> what it is coloured as.
ROLES: Mapping[str, str] = dict(
    zip((*PARTS, WAITING), ("compute", "exposed", "memory", "idle", "waiting"), strict=True)
)

_NAMES = ("name", "before_name", "after_name", "replaced_by")
_ROOM = 0.25  # of the axis: changes that fill less of it are seen on one that does not begin at 0


class BarSummary(TypedDict):
    """A bar between the step before and the one after. All of them add up to the change of the median step, exactly.

    why: by what most of it came about, as tables say it. role: its colour. is_noise: None where it is not asked, or one
    step tells nothing.
    """

    name: str
    why: str
    role: str
    change_ns: int
    by_number_ns: int
    by_duration_ns: int
    by_overlap_ns: int
    by_kernel_ns: int
    is_noise: bool | None


class DiffBlock(TypedDict):
    """What the page of a comparison holds. document: of long lists of movers the first rows. bars: of the waterfall.
    begin_ns: where its axis begins. ranks: pictures; none of a comparison that was read from a file."""

    document: DiffReport
    bars: list[BarSummary]
    begin_ns: int
    ranks: list[RankPicture]


def render_diff_html(report: DiffReport) -> str:
    """One self-contained page of a comparison, as text."""
    return render_page(
        "diff.html",
        home=HOME,
        entry="diff",
        styles=STYLES,
        blocks=[("weftrace-diff", to_document(diff_block(report)))],
        terms=DIFF_TERMS,
        tables={"movers": MoverRow, "shape-changes": ShapeChangeRow},
        title=f"{report.before.source} → {report.after.source}",
        headline=report.headline,
        version=__version__,
    )


def diff_block(report: DiffReport) -> DiffBlock:
    """What the page holds of a comparison."""
    bars = bars_of(report)
    return {
        "document": _shortened(report),
        "bars": bars,
        "begin_ns": axis_begin(report.before.median_ns, bars),
        "ranks": [] if report.diff is None else rank_pictures(report.diff),
    }


def bars_of(report: DiffReport, most: int = MAX_BARS) -> list[BarSummary]:
    """The parts that changed, in the document's order, then others, then the remainder."""
    names = part_labels(report.parts)
    named = [(name, part) for name, part in zip(names, report.parts, strict=True) if part["change_ns"]]
    parts = [part for _, part in named]
    large = sorted(parts, key=lambda part: -abs(part["change_ns"]))[:most]
    small = [part for part in parts if part not in large]
    bars = [_bar(name, [part]) for name, part in named if part in large]
    if small:
        bars.append(_bar("others", small))
    if report.remainder_ns:
        effects = dict.fromkeys(EFFECTS, 0)
        summary = {"name": MEDIAN_LESS_MEAN, "why": "", "role": "error", "change_ns": report.remainder_ns, **effects}
        bars.append(cast(BarSummary, {**summary, "is_noise": None}))
    return bars


def _bar(name: str, parts: Sequence[PartRow]) -> BarSummary:
    sums = {key: sum(part[key] for part in parts) for key in ("change_ns", *EFFECTS)}
    role, is_noise = (ROLES.get(parts[0]["part"], ""), parts[0]["is_noise"]) if len(parts) == 1 else ("", None)
    why = why_words(parts[0]) if len(parts) == 1 else ""
    return cast(BarSummary, {"name": name, "why": why, "role": role, **sums, "is_noise": is_noise})


def axis_begin(before_ns: int, bars: Sequence[BarSummary]) -> int:
    """Where the axis of a waterfall begins: 0, or where changes are small, a round number as far from them as they
    reach."""
    levels = [before_ns]
    for bar in bars:
        levels.append(levels[-1] + bar["change_ns"])
    low, reach = min(levels), max(levels) - min(levels)
    if reach >= _ROOM * max(levels) or not reach:
        return 0
    raw = low - reach
    if raw <= 0:
        return 0
    unit = 10 ** max(0, math.floor(math.log10(reach)))
    return int(raw // unit * unit)


def _shortened(report: DiffReport) -> DiffReport:
    """With names and lists of movers that fit a page."""
    movers = {level: [_named(row) for row in report.movers[level][:MAX_ROWS]] for level in LEVELS}
    return replace(report, movers=cast(Movers, movers))


def _named(row: MoverRow) -> MoverRow:
    names = {key: None if row[key] is None else row[key][:MAX_NAME] for key in _NAMES}  # type: ignore[literal-required]
    return cast(MoverRow, {**row, **names})
