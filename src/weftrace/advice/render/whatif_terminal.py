"""What-ifs in a terminal: changes tried, and where speed is worth most; drawn from the values."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.advice.document import PartRow
from weftrace.advice.render.terminal import TOP, opening_of, replay_block, waits_block
from weftrace.advice.render.words import range_words, weakest_words
from weftrace.advice.whatif_document import CurveSummary, SensitivityReport, WhatIfReport, before_and_after
from weftrace.render.console_parts import WARNING, frame, notes_block, print_blocks, section, table
from weftrace.render.console_text import clean
from weftrace.units import percent, signed, unit_for

MAX_WIDTH = 140
_BAR = 24
_KINDS = {"class": "By class", "family": "By kernel family", "phase": "By phase", "rank": "By rank"}


def print_what_if(report: WhatIfReport, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.what_if/1` report: before and after, both paths, where the answer stops being valid."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening_of("whatif", report),
        _spans(report, width),
        replay_block(report),
    ]
    if report.limits:
        limits = [Text(clean(limit)) for limit in report.limits]
        blocks.append(frame("Where the answer stops being valid", limits, WARNING))
    blocks += [
        _both("The path by class", report.before, report.after, width, top),
        _both("The path by phase", report.before_phases, report.after_phases, width, top),
        waits_block(report, width),
        Text(clean(weakest_words(report.weakest))),
    ]
    print_blocks([*blocks, *notes_block(report.notes)], console, width)


def print_sensitivity(report: SensitivityReport, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.sensitivity/1` report: a table a kind of selection, then the curves."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening_of("whatif --sensitivity", report),
        replay_block(report),
    ]
    kinds = [kind for kind in _KINDS if any(row["kind"] == kind for row in report.rows)]
    several = len(report.ranks) > 1
    blocks += [_table(report, kind, width, top) for kind in kinds if kind != "rank" or several]
    blocks += [_curve(curve, report, width) for curve in report.curves]
    blocks.append(waits_block(report, width))
    print_blocks([*blocks, *notes_block(report.notes)], console, width)


def _spans(report: WhatIfReport, width: int) -> RenderableType:
    unit = unit_for(report.replayed_ns)
    replay = report.replay
    lines = [
        ["measured", unit(replay.span_ns), ""],
        ["replayed", unit(report.replayed_ns), f"{signed(replay.error, 2)} off the measurement"],
    ]
    if report.is_interval:
        ends = (("at least", report.low_ns), ("at most", report.high_ns))
        lines += [[f"with the change, {which}", unit(ns), f"{_of(report, ns)} of the replay"] for which, ns in ends]
        saved = range_words(report.replayed_ns - report.high_ns, report.replayed_ns - report.low_ns, unit)
        lines.append(["saved", saved, ""])
    else:
        lines += [
            ["with the change", unit(report.after_ns), f"{signed(report.change, 2)} of the replay"],
            ["saved", unit(report.saved_ns), "less than the replay is off" if report.is_within_error else ""],
        ]
    heads = ("span", unit.name, "")
    return table(heads, lines, width, left=(heads[0], heads[2]), bold=2)


def _of(report: WhatIfReport, span_ns: int) -> str:
    return signed(span_ns / max(1, report.replayed_ns) - 1, 2)


def _both(title: str, before: list[PartRow], after: list[PartRow], width: int, top: int) -> RenderableType:
    times = before_and_after(before, after)
    total = max(sum(old for old, _ in times.values()), 1), max(sum(new for _, new in times.values()), 1)
    unit = unit_for(max(total))
    ranked = sorted(times.items(), key=lambda item: -max(item[1]))
    shown = [(clean(name), old, new) for name, (old, new) in ranked[:top]]
    if left := [spent for _, spent in ranked[top:]]:
        shown.append((f"{len(left):,} more", sum(old for old, _ in left), sum(new for _, new in left)))
    lines = [[name, unit(old), percent(old / total[0]), unit(new), percent(new / total[1])] for name, old, new in shown]
    heads = (unit.name, "before", "share", "after", "share ")
    return Group(section(title), table(heads, lines, width, left=heads[:1]))


def _table(report: SensitivityReport, kind: str, width: int, top: int) -> RenderableType:
    rows = [row for row in report.rows if row["kind"] == kind]
    unit = unit_for(report.replayed_ns)
    most = max((row["share"] for row in rows), default=0.0)
    lines = [
        [
            clean(row["selector"].removeprefix(f"{kind}:")),
            "█" * round(12 * row["share"] / most) if most > 0 else "",
            signed(-row["share"], 3),
            unit(row["critical_ns"]),
            unit(row["time_ns"]),
        ]
        for row in rows[:top]
    ]
    heads = [kind, "", "span", f"on the path, {unit.name}", "of all"]
    if any(row["least_ns"] < row["most_ns"] for row in rows):
        for line, row in zip(lines, rows, strict=False):
            line[1:3] = [range_words(row["least_ns"], row["most_ns"], unit)]
        heads[1:3] = [f"saves, {unit.name}"]
    left = len(rows) - top
    note = f"{100 * report.by:g} % faster{f'; {left:,} more' if left > 0 else ''}"
    return Group(section(_KINDS[kind], note), table(heads, lines, width, left=heads[: len(heads) - 3]))


def _curve(curve: CurveSummary, report: SensitivityReport, width: int) -> RenderableType:
    """A line a factor: the bar is the span, of the longest."""
    unit = unit_for(report.replayed_ns)
    longest = max((point["span_ns"] for point in curve.points), default=1) or 1
    lines = [
        [
            f"×{point['factor']:g}",
            "█" * round(_BAR * point["span_ns"] / longest),
            unit(point["span_ns"]),
            signed(point["change"], 2),
        ]
        for point in curve.points
    ]
    heads = [clean(curve.selector), "", f"span, {unit.name}", "change"]
    if any(point["low_ns"] < point["high_ns"] for point in curve.points):
        heads.append("lies between")
        for line, point in zip(lines, curve.points, strict=True):
            line.append(range_words(point["low_ns"], point["high_ns"], unit))
    summary = [Text(clean(curve.sentence))] if curve.sentence else []
    return Group(section("Curve"), table(heads, lines, width, left=heads[:2]), *summary)
