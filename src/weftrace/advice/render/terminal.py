"""A critical path in a terminal; drawn from the value, so a saved JSON prints the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.advice.document import Advice, CriticalPathReport, PartRow
from weftrace.advice.render.words import (
    SOURCE_WORDS,
    contention_words,
    doubt_words,
    kept_words,
    kernel_words,
    range_words,
    replay_words,
    votes_words,
    weakest_words,
)
from weftrace.advice.swaps.schedules import ScheduleSwap
from weftrace.render.console_parts import DIM, WARNING, notes_block, opening, print_blocks, section, table
from weftrace.render.console_text import clean, shorten_middle
from weftrace.units import counted, percent, signed, unit_for

MAX_WIDTH = 140
TOP = 8
_BAR = 16


def print_critical_path(report: CriticalPathReport, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.critical_path/1` report: the sentence, the replay's error, the path by what it is made of.

    top: rows of each table, at most; a line more says what is left out.
    """
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening_of("critical-path", report),
        replay_block(report),
        _classes(report, width)
        if report.waterfall
        else _parts("By class", report.by_class, report.span_ns, width, top),
        _parts("By phase", report.by_phase, report.span_ns, width, top),
        _parts("By kernel", report.by_kernel, report.span_ns, width, top, shorten=kernel_words),
        _parts("By cause", report.by_cause, report.span_ns, width, top, note="how an op came to run when it did"),
    ]
    if len(report.ranks) > 1:
        blocks.append(_parts("By rank", report.by_rank, report.span_ns, width, top))
    if len(report.steps) > 1:
        blocks.append(_steps(report, width, top))
    blocks += [_slack(report, width, top), waits_block(report, width)]
    blocks.append(Text(clean(weakest_words(report.weakest))))
    print_blocks([*blocks, *notes_block(report.notes)], console, width)


def opening_of(command: str, report: Advice | ScheduleSwap) -> list[RenderableType]:
    """What was asked of which trace, and the answer."""
    who = f"rank {report.ranks[0]}" if len(report.ranks) == 1 else counted(len(report.ranks), "rank")
    return opening(command, (report.source, report.device_name, who), report.headline)


def replay_block(report: Advice) -> RenderableType:
    """How far the replay is off, and a warning where that is too much, or where ranks are absent."""
    said = Text(clean(replay_words(report.replay)))
    if not (doubts := doubt_words(report)):
        return said
    return Group(said, Text(clean(doubts), style=WARNING))


def waits_block(report: Advice, width: int) -> RenderableType:
    """Where the plan's waits come from, what else the replay keeps, and what its kernels cost each other."""
    waits = report.waits
    lines = [
        [SOURCE_WORDS[row["source"]], f"{row['count']:,}", f"{row['confidence']:.2f}", votes_words(row)]
        for row in waits
    ]
    heads = ("waits", "number", "confidence", "votes for : against")
    summary = f"{kept_words(report.kept, waits)} {contention_words(report.contention)}"
    block = table(heads, lines, width, left=heads[:1])
    return Group(section("What the plan rests on"), block, Text(clean(summary), style=DIM))


def _classes(report: CriticalPathReport, width: int) -> RenderableType:
    """The waterfall: classes on the path, then the replay's error, which add up to the measured span."""
    bars, replay = report.waterfall, report.replay
    unit = unit_for(replay.span_ns)
    lines = [
        [
            bar["name"],
            _bar(bar["share"]),
            unit(bar["time_ns"]),
            percent(bar["share"]),
            "–" if bar["alone_ns"] is None else range_words(bar["least_ns"] or 0, bar["most_ns"] or 0, unit),
        ]
        for bar in bars
    ]
    lines.append(["measured", "", unit(replay.span_ns), "", ""])
    heads = (unit.name, "", "on the path", "share", "saved with none of it")
    summary = section(
        "By class", f"the bars add up; what each would save alone does not; replay {signed(replay.error, 2)}"
    )
    return Group(summary, table(heads, lines, width, left=heads[:2], bold=len(lines) - 1))


def _steps(report: CriticalPathReport, width: int, top: int) -> RenderableType:
    """The longest steps on the path, in their order, and what decided each."""
    steps = report.steps
    longest = sorted(steps, key=lambda row: -row["path_ns"])[:top]
    shown = [row for row in steps if row in longest]
    unit = unit_for(report.span_ns)
    lines = [
        ["outside" if row["step"] is None else str(row["step"]), unit(row["path_ns"]), f"rank {row['rank']}",
         unit(row["rank_ns"]), clean(row["what"]), unit(row["time_ns"])]
        for row in shown
    ]  # fmt: skip
    heads = ("step", unit.name, "decided by", "on it", "most of it", "of that")
    left = f"{len(steps) - len(shown)} shorter ones left out" if len(shown) < len(steps) else ""
    return Group(section("By step", left), table(heads, lines, width, left=(heads[0], heads[2], heads[4])))


def _parts(
    title: str,
    rows: Sequence[PartRow],
    span_ns: int,
    width: int,
    top: int,
    *,
    note: str = "",
    shorten: Callable[[str, int], str] = shorten_middle,
) -> RenderableType:
    unit = unit_for(span_ns)
    shown = rows[:top]
    lines = [[clean(row["name"]), _bar(row["share"]), unit(row["time_ns"]), percent(row["share"])] for row in shown]
    left = rows[top:]
    if left:
        time_ns, share = sum(row["time_ns"] for row in left), sum(row["share"] for row in left)
        lines.append([f"{len(left):,} more", _bar(share), unit(time_ns), percent(share)])
    heads = (unit.name, "", "on the path", "share")
    return Group(section(title, note), table(heads, lines, width, left=heads[:2], shorten=shorten))


def _slack(report: CriticalPathReport, width: int, top: int) -> RenderableType:
    rows = report.slack
    unit = unit_for(report.span_ns)
    lines = [
        [
            clean(row["phase"]),
            f"{row['on_path']:,}",
            f"{row['num_ops']:,}",
            unit(row["least_ns"]),
            unit(row["median_ns"]),
        ]
        for row in rows[:top]
    ]
    heads = (unit.name, "without slack", "of", "least slack", "median")
    note = "how much later work on a device could start; least first"
    more = [Text(f"{len(rows) - top:,} more phases", style=DIM)] if len(rows) > top else []
    return Group(section("Slack", note), table(heads, lines, width, left=heads[:1]), *more)


def _bar(share: float) -> str:
    return "█" * round(_BAR * min(max(share, 0.0), 1.0))
