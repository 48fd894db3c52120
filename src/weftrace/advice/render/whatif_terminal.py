"""What-ifs in a terminal: changes tried, and where speed is worth most; drawn from their documents."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.advice.document import PartRow
from weftrace.advice.render.terminal import TOP, notes_block, opening, replay_block, waits_block
from weftrace.advice.render.words import off, saved_words, weakest_words
from weftrace.advice.whatif_document import CurveTold, SensitivityDocument, WhatIfDocument, before_and_after
from weftrace.render.console_parts import WARNING, frame, print_blocks, section, table, unit_for
from weftrace.render.console_text import clean
from weftrace.units import percent

MAX_WIDTH = 140
_BAR = 24
_KINDS = {"class": "By class", "family": "By kernel family", "phase": "By phase", "rank": "By rank"}


def print_what_if(document: WhatIfDocument, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.what_if/1` document: before and after, both paths, where the answer stops being valid."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening("whatif", document["source"], document["device_name"], document["ranks"], document["headline"]),
        _spans(document, width),
        replay_block(document["replay"]),
    ]
    if document["limits"]:
        limits = [Text(clean(limit)) for limit in document["limits"]]
        blocks.append(frame("Where the answer stops being valid", limits, WARNING))
    blocks += [
        _both("The path by class", document["before"], document["after"], width, top),
        _both("The path by phase", document["before_phases"], document["after_phases"], width, top),
        waits_block(document["waits"], document["kept"], width),
        Text(clean(weakest_words(document["weakest"]))),
    ]
    print_blocks([*blocks, *notes_block(document["notes"])], console, width)


def print_sensitivity(document: SensitivityDocument, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.sensitivity/1` document: a table a kind of selection, then the curves."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening(
            "whatif --sensitivity", document["source"], document["device_name"], document["ranks"], document["headline"]
        ),
        replay_block(document["replay"]),
    ]
    kinds = [kind for kind in _KINDS if any(row["kind"] == kind for row in document["rows"])]
    several = len(document["ranks"]) > 1
    blocks += [_table(document, kind, width, top) for kind in kinds if kind != "rank" or several]
    blocks += [_curve(curve, document, width) for curve in document["curves"]]
    blocks.append(waits_block(document["waits"], document["kept"], width))
    print_blocks([*blocks, *notes_block(document["notes"])], console, width)


def _spans(document: WhatIfDocument, width: int) -> RenderableType:
    unit = unit_for(document["replayed_ns"])
    replay = document["replay"]
    lines = [
        ["measured", unit(replay["span_ns"]), ""],
        ["replayed", unit(document["replayed_ns"]), f"{off(replay['error'])} off the measurement"],
        ["with the change", unit(document["after_ns"]), f"{off(document['change'])} of the replay"],
        ["saved", unit(document["saved_ns"]), "less than the replay is off" if document["is_within_error"] else ""],
    ]
    heads = ("span", unit.name, "")
    return table(heads, lines, width, left=(heads[0], heads[2]), bold=2)


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


def _table(document: SensitivityDocument, kind: str, width: int, top: int) -> RenderableType:
    rows = [row for row in document["rows"] if row["kind"] == kind]
    unit = unit_for(document["replayed_ns"])
    most = max((row["share"] for row in rows), default=0.0)
    lines = [
        [
            clean(row["selector"].removeprefix(f"{kind}:")),
            "█" * round(12 * row["share"] / most) if most > 0 else "",
            saved_words(row["share"]),
            unit(row["critical_ns"]),
            unit(row["time_ns"]),
        ]
        for row in rows[:top]
    ]
    heads = (kind, "", "span", f"on the path, {unit.name}", "of all")
    left = len(rows) - top
    note = f"{100 * document['by']:g} % faster{f'; {left:,} more' if left > 0 else ''}"
    return Group(section(_KINDS[kind], note), table(heads, lines, width, left=heads[:2]))


def _curve(curve: CurveTold, document: SensitivityDocument, width: int) -> RenderableType:
    """A line a factor: the bar is the span, of the longest."""
    unit = unit_for(document["replayed_ns"])
    longest = max((point["span_ns"] for point in curve["points"]), default=1) or 1
    lines = [
        [
            f"×{point['factor']:g}",
            "█" * round(_BAR * point["span_ns"] / longest),
            unit(point["span_ns"]),
            off(point["change"]),
        ]
        for point in curve["points"]
    ]
    heads = (clean(curve["selector"]), "", f"span, {unit.name}", "change")
    told = [Text(clean(curve["sentence"]))] if curve["sentence"] else []
    return Group(section("Curve"), table(heads, lines, width, left=heads[:2]), *told)
