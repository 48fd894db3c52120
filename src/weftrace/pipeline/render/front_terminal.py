"""Time against memory in a terminal: a point per schedule, the front named."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.pipeline.choices.document import CandidateRow, RecommendationReport
from weftrace.render.console_parts import section
from weftrace.render.console_text import clean
from weftrace.units import counted, duration, size

_HEIGHT = 10
_MARGIN = 10  # columns for times
_REACH = 1.3  # as much memory as this times the most of the front, and of the cap, is drawn


def front_picture(report: RecommendationReport, width: int) -> RenderableType | None:
    """Steps from below upwards, memory to the right; None where the front is one schedule."""
    in_bytes = report.memory_in == "bytes"
    rows = [row for row in report.rows if not row.needs]
    cap = report.cap_bytes if in_bytes else report.memory_cap
    front = [row for row in rows if row.on_front]
    if len(front) < 2:
        return None
    right = _REACH * max(_held(row, in_bytes=in_bytes) for row in front)
    right = max(right, min(cap or 0, 2 * right) * 1.05)
    drawn = [row for row in rows if _held(row, in_bytes=in_bytes) <= right]
    columns = width - _MARGIN - 1
    lowest, highest = min(row.step_ns for row in drawn), max(row.step_ns for row in drawn)
    lines = [[" "] * columns for _ in range(_HEIGHT)]
    if cap is not None and cap <= right:
        for line in lines:
            line[round(cap / right * (columns - 1))] = "┆"
    places = {}
    for row in sorted(drawn, key=lambda row: row.on_front):
        x = round(_held(row, in_bytes=in_bytes) / right * (columns - 1))
        y = _HEIGHT - 1 - round((row.step_ns - lowest) / max(highest - lowest, 1) * (_HEIGHT - 1))
        places[row.name] = x, y
        lines[y][x] = "◆" if row.name == report.choice else "●" if row.on_front else "·"
    for row in front:
        _name(lines, *places[row.name], clean(row.name))
    told = {0: duration(highest), _HEIGHT - 1: duration(lowest)}
    texts = [Text(f"{told.get(y, ''):>{_MARGIN - 1}} │{''.join(line).rstrip()}") for y, line in enumerate(lines)]
    end = size(round(right)) if in_bytes else f"{right:.3g} {'chunk activations' if columns > 40 else 'chunks'}"
    axis = [Text(" " * _MARGIN + "└" + "─" * columns), Text(f"{' ' * _MARGIN}0{end:>{columns}}")]
    return Group(section("Time against memory", _key(report, rows, drawn, cap)), *texts, *axis)


def _key(
    report: RecommendationReport, rows: Sequence[CandidateRow], drawn: Sequence[CandidateRow], cap: float | None
) -> str:
    left_out = len(rows) - len(drawn)
    parts = ["◆ choice" if report.choice else "", "● front, named", "· others", "┆ cap" if cap else ""]
    parts.append(f"{counted(left_out, 'schedule')} that hold{'s' * (left_out == 1)} more left out" if left_out else "")
    return ", ".join(filter(None, parts))


def _held(row: CandidateRow, *, in_bytes: bool) -> float:
    return (row.peak_bytes or 0) if in_bytes else row.peak_chunks


def _name(lines: list[list[str]], x: int, y: int, name: str) -> None:
    """Write a name beside its point, where there is room: to its right, else to its left."""
    line = lines[y]
    for first in (x + 2, x - 1 - len(name)):
        around = line[max(first - 1, 0) : first + len(name) + 1]
        inside = first >= 0 and first + len(name) <= len(line)
        if inside and all(each == " " or (at == 0 and first == x + 2) for at, each in enumerate(around)):
            line[first : first + len(name)] = name
            return
