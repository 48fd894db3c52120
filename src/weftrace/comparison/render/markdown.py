"""A comparison as Markdown, made for a pull request: what fits on a screen, the rest folded. And its movers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from weftrace.comparison.document import LEVELS, DiffReport, MoverRow, SideSummary
from weftrace.comparison.render.tables import (
    GATE_HEADS,
    MOVER_HEADS,
    PART_HEADS,
    SHAPE_HEADS,
    changed,
    gate_cells,
    moved,
    mover_cells,
    part_lines,
    shape_lines,
    without_empty,
)
from weftrace.comparison.render.words import (
    LEVEL_TERMS,
    NOISE_LIMITS,
    own_words,
    ranks_words,
    rows_of,
    steps_words,
    verdict_words,
)
from weftrace.render.console_text import kernel_label
from weftrace.render.markdown import Markdown, markdown_table, markdown_text
from weftrace.units import Unit, unit_for
from weftrace.version import __version__

_TOP = 5  # movers that are seen without unfolding
_FOLDED = 15  # of each level
_WIDTH = 60  # of a kernel's name


def diff_markdown(report: DiffReport) -> str:
    """Headline, verdict, gates, the parts of a step, the families that moved most; folded, who else and what of."""
    unit = unit_for(max(report.before.median_ns, report.after.median_ns))
    parts = [
        f"**{markdown_text(report.headline)}**",
        markdown_text(verdict_words(report)),
        _gates(report),
        _parts(report, unit) if report.parts else "",
        _movers(report, "family", unit, 0, _TOP) if report.tells_causes else "",
        *(markdown_text(each) for each in report.shape_sentences if report.tells_causes),
        _findings(report),
        _lateness(report, unit),
        *(_folded(report, level, unit) for level in LEVELS if report.tells_causes),
        _shapes(report, unit) if report.tells_causes else "",
        _runs(report),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def movers_table(report: DiffReport) -> pl.DataFrame:
    """The movers of all levels, a row each."""
    rows = [{"level": level, **row} for level in LEVELS for row in dict(report.movers)[level]]  # type: ignore[attr-defined]
    return pl.DataFrame(rows, schema=["level", *MoverRow.__annotations__], infer_schema_length=None)


def _gates(report: DiffReport) -> str:
    lines = []
    for gate in report.gates:
        *cells, result = gate_cells(gate)
        lines.append([gate["figure"], *cells, f"{_MARKS[gate['is_met']]} {result}"])
    return _table(("gate", *GATE_HEADS), lines) if lines else ""


_MARKS = {True: "✅", False: "❌", None: "➖"}


def _parts(report: DiffReport, unit: Unit) -> str:
    *lines, step = part_lines(report, unit)
    bold = [*(Markdown(f"**{cell}**") for cell in step[:4]), "", ""]
    return _table((f"part of a step, {unit.name}", *PART_HEADS), [*lines, bold])


def _movers(report: DiffReport, level: str, unit: Unit, start: int, end: int) -> str:
    """Of those that moved, the rows from start to end; and by how many they go on."""
    named = moved(rows_of(report, level), unit)
    if not named[start:]:
        return ""
    lines = [
        [kernel_label(name, _WIDTH) if level == "kernel" else name, *mover_cells(row, unit)]
        for name, row in named[start:end]
    ]
    if left := len(named[end:]):
        lines.append([f"{left:,} more{'' if start or level != 'family' else ', below'}", *[""] * 6])
    return _table((f"{LEVEL_TERMS[level].lower()}, {unit.name}", *MOVER_HEADS), lines)


def _findings(report: DiffReport) -> str:
    """What advice finds in one run alone, or costs another time."""
    return "\n".join(f"- {markdown_text(each['sentence'])}" for each in report.findings or ())


def _lateness(report: DiffReport, unit: Unit) -> str:
    """The ranks that others waited for."""
    lines = [
        [
            row["name"],
            *changed(row, unit),
            own_words(row) if report.tells_causes else "",
        ]
        for row in report.lateness[:_TOP]
        if unit.shows(row["change_ns"])
    ]
    heads = (f"others waited for, {unit.name}", "before", "after", "change", "itself, in a step of its own")
    return _table(heads, lines) if lines else ""


def _folded(report: DiffReport, level: str, unit: Unit) -> str:
    """Who moved; of families those that the table above leaves out."""
    start = _TOP if level == "family" else 0
    table = _movers(report, level, unit, start, start + _FOLDED)
    term = LEVEL_TERMS[level]
    return _details(f"{'More ' + term.lower() if start else term} that moved", table) if table else ""


def _shapes(report: DiffReport, unit: Unit) -> str:
    lines, left = shape_lines(report, unit, _FOLDED)
    if not lines:
        return ""
    rows = [*lines, *[[f"{left:,} more", *[""] * 6]] * (left > 0)]
    return _details("Operators by shape that changed", _table((f"operator, {unit.name}", *SHAPE_HEADS), rows))


def _runs(report: DiffReport) -> str:
    """What was compared with what, what both say of themselves, and what was left out."""
    stated = [f"- {name}: {_side(report.before if name == 'before' else report.after)}" for name in ("before", "after")]
    stated += [f"- {markdown_text(note)}" for note in report.notes]
    facts = report.verdict.facts
    table = markdown_table(("", "before", "after"), facts) if facts else ""
    several = "mean over " if len(report.before.ranks) > 1 else ""
    note = f"Times are of a step, {several}{ranks_words(report.before)}. {NOISE_LIMITS}"
    text = "\n\n".join(filter(None, ["\n".join(stated), table, note, f"weftrace {__version__}"]))
    return _details("What was compared", text)


def _side(side: SideSummary) -> str:
    dropped = [f"without step {each['step']}: {each['why']}" for each in side.dropped]
    return "; ".join(
        markdown_text(text) for text in (side.source, steps_words(replace(side, dropped=[])), *dropped, *side.failures)
    )


def _details(summary: str, text: str) -> str:
    return f"<details><summary>{summary}</summary>\n\n{text}\n\n</details>"


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return markdown_table(*without_empty(heads, lines))
