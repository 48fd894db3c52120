"""The tables of a comparison that terminal and Markdown both have, as lines of plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weftrace.analysis.efficiency.sizes import shape_label
from weftrace.comparison.document import DiffReport, MoverRow
from weftrace.comparison.gates import GateRow, figure_text
from weftrace.comparison.render.words import (
    MEDIAN_LESS_MEAN,
    call_words,
    gate_change,
    gate_limit,
    gate_result,
    launches_words,
    mover_names,
    mover_words,
    noise_words,
    part_names,
    parts_of,
    why_words,
)
from weftrace.units import Unit

#: Heads of the columns after the first.
SHAPE_HEADS = ("before", "after", "change", "calls", "a call", "noise")
PART_HEADS = ("before", "after", "change", "why", "noise")
MOVER_HEADS = ("before", "after", "change", "launches", "why", "noise")
GATE_HEADS = ("before", "after", "change", "limit", "noise", "result")


def changed(row: Mapping[str, Any], unit: Unit) -> list[str]:
    """Time before, after, and the change."""
    return [unit(row["before_ns"]), unit(row["after_ns"]), unit.signed(row["change_ns"])]


def part_lines(report: DiffReport, unit: Unit) -> list[list[str]]:
    """The parts of a step, what its median has beyond its mean, and last the step: the sum of all."""
    parts = parts_of(report)
    lines = [
        [name, *changed(row, unit), why_words(row) if report.tells_causes else "", noise_words(row)]
        for name, row in zip(part_names(parts), parts, strict=True)
    ]
    if unit.shows(report.remainder_ns):
        lines.append([MEDIAN_LESS_MEAN, "", "", unit.signed(report.remainder_ns), "", ""])
    step = [unit(report.before.median_ns), unit(report.after.median_ns), unit.signed(report.change_ns)]
    return [*lines, ["step", *step, "", "within" if report.is_noise and report.change_ns else ""]]


def moved(rows: Sequence[MoverRow], unit: Unit) -> list[tuple[str, MoverRow]]:
    """Those whose time changed, with their names."""
    return [(name, row) for name, row in zip(mover_names(rows), rows, strict=True) if unit.shows(row["change_ns"])]


def mover_cells(row: MoverRow, unit: Unit) -> list[str]:
    """What stands beside a mover's name."""
    return [*changed(row, unit), launches_words(row), mover_words(row), noise_words(row)]


def shape_lines(report: DiffReport, unit: Unit, most: int) -> tuple[list[list[str]], int]:
    """Operators by shapes whose time changed, and how many more there are."""
    rows = [row for row in report.shapes if unit.shows(row["change_ns"])]
    lines = [
        [shape_label(row["operator"], row["shapes"]), *changed(row, unit), launches_words(row), call_words(row),
         noise_words(row)]
        for row in rows[:most]
    ]  # fmt: skip
    return lines, len(rows) - len(lines)


def gate_cells(gate: GateRow) -> list[str]:
    """What stands beside a gate's figure: the figure on both sides, its change and limit, whether it was met."""
    sides = [
        "–" if gate["is_met"] is None else figure_text(side, gate["unit"]) for side in (gate["before"], gate["after"])
    ]
    return [*sides, gate_change(gate), gate_limit(gate), noise_words(gate), gate_result(gate["is_met"])]


def without_empty(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table without the columns in which nothing stands."""
    rows = list(lines)
    kept = [at for at in range(len(heads)) if any(line[at] for line in rows)]
    return [heads[at] for at in kept], [[line[at] for at in kept] for line in rows]
