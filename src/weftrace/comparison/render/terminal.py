"""A comparison in a terminal; drawn from its document, so a saved JSON prints the same."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from weftrace.comparison.diffs import RankRow
from weftrace.comparison.document import LEVELS, DiffReport, LatenessRow, MoverRow
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
    FIGURE_TERMS,
    LEVEL_TERMS,
    LIMITS,
    NOISE_LIMITS,
    both_ranks_words,
    difference_words,
    own_words,
    part_words,
    parts_of,
    rank_words,
    rows_of,
    steps_words,
    verdict_words,
    without_common_folders,
)
from weftrace.render import palette
from weftrace.render.console_parts import BOLD, DIM, ERROR, WARNING, print_blocks, section, table
from weftrace.render.console_text import clean, joined, kernel_label, shorten_middle, shorten_start
from weftrace.units import Unit, unit_for

MAX_WIDTH = 140
TOP = 8
_BAR = 8
_OTHER = 0.1  # a number that differs from another by more is told beside it
_LEFT = ("", "why", "noise", "result")


def print_diff(report: DiffReport, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.diff/1` document: the sentence and the verdict, the parts that add up, who moved, the gates.

    top: rows of each table of movers, at most; a line more says what is left out.
    """
    width = min(console.width, MAX_WIDTH)
    before, after = report.before, report.after
    unit = unit_for(max(before.median_ns, after.median_ns))
    ranks = both_ranks_words(before, after)
    room = (width - len(f"weftrace diff ·  →  · {ranks}")) // 2
    names = [shorten_start(clean(each), room) for each in without_common_folders(before.source, after.source)]
    title = joined([Text("weftrace diff", style=BOLD), " → ".join(names), ranks], " · ")
    blocks: list[RenderableType] = [title, _opening(report), _standing(report)]
    if facts := [row for row in report.verdict.facts if row[1] != row[2]]:
        blocks.append(_facts(facts, width))
    if report.parts:
        blocks.append(_parts(report, unit, width))
    if report.tells_causes:
        tables = [(level, rows_of(report, level)) for level in LEVELS]
        blocks += [
            _movers(rows, level, unit, width, top)
            for level, rows in tables
            if any(unit.shows(row["change_ns"]) for row in rows)
        ]
        blocks += _shapes(report, unit, width, top)
        blocks += _findings(report, top)
    if any(unit.shows(row["change_ns"]) for row in report.lateness):
        blocks.append(_lateness(report, unit, width, top))
    if any(unit.shows(row["change_ns"]) for row in report.by_rank):
        blocks.append(_ranks(report, unit, width, top))
    if report.gates:
        blocks.append(_gates(report, width))
    if report.is_noise is not None:
        blocks.append(Text(NOISE_LIMITS, style=DIM))
    print_blocks(blocks, console, width)


def _opening(report: DiffReport) -> RenderableType:
    """Whether the two may be compared, then what changed."""
    style = {"comparable": DIM, "comparable, but": WARNING, "not comparable": ERROR}[report.verdict.word]
    verdict, headline = Text(clean(verdict_words(report)), style=style), Text(clean(report.headline), style=BOLD)
    if report.tells_causes:
        return Group(verdict, headline)
    return Group(headline, verdict) if verdict else headline  # which says the first reason


def _standing(report: DiffReport) -> RenderableType:
    """Of both sides the steps that count, files that failed, and what is missing."""
    lines = []
    for name, side in (("before", report.before), ("after", report.after)):
        lines.append(Text(clean(f"{name + ':':<7} {steps_words(side)}"), style=DIM))
        lines += [Text(clean(f"{name}: {each}"), style=WARNING) for each in side.failures[:8]]
    if (difference := report.difference) and report.change_ns:
        lines.append(Text(f"change: {difference_words(difference)}", style=DIM))
    return Group(*lines, *(Text(clean(note), style=DIM) for note in report.notes))


def _facts(facts: Sequence[tuple[str, str, str]], width: int) -> RenderableType:
    room = max(12, (width - 24) // 2)
    lines = [[clean(name), *(shorten_middle(clean(text), room) for text in pair)] for name, *pair in facts]
    heads = ("what differs", "before", "after")
    return table(heads, lines, width, left=heads)


def _parts(report: DiffReport, unit: Unit, width: int) -> RenderableType:
    """The waterfall: all rows, and the remainder, add up to the change of the median step."""
    changes = [*(row["change_ns"] for row in parts_of(report)), report.remainder_ns]
    most = max(1, *map(abs, changes))
    *lines, step = [[clean(name), *cells] for name, *cells in part_lines(report, unit)]
    bars = [_bar(change_ns, most) for change_ns, _ in zip(changes, lines, strict=False)]
    barred = [[*line[:4], bar, *line[4:]] for line, bar in zip([*lines, step], [*bars, ""], strict=True)]
    heads = (unit.name, *PART_HEADS[:3], "", *PART_HEADS[3:])
    shown = table(*without_empty(heads, barred), width, left=(heads[0], *_LEFT), bold=len(lines))
    return Group(section("What a step is made of", "mean step; the changes add up"), shown)


def _movers(rows: Sequence[MoverRow], level: str, unit: Unit, width: int, top: int) -> RenderableType:
    """Those whose time changed, the largest change first."""
    named = moved(rows, unit)
    lines = [[clean(name), *mover_cells(row, unit)] for name, row in named[:top]]
    if left := [row for _, row in named[top:]]:
        sums = {key: sum(row[key] for row in left) for key in ("before_ns", "after_ns", "change_ns")}
        lines.append([f"{len(left):,} more", *changed(sums, unit), "", "", ""])
    heads = (unit.name, *MOVER_HEADS)
    shorten = _kernel if level == "kernel" else shorten_middle
    same = len(rows) - len(named)
    note = f"what each adds to the step{f'; {same:,} unchanged' if same else ''}"
    shown = table(*without_empty(heads, lines), width, left=(heads[0], *_LEFT), shorten=shorten)
    return Group(section(LEVEL_TERMS[level], note), shown)


def _shapes(report: DiffReport, unit: Unit, width: int, top: int) -> list[RenderableType]:
    """Operators by their shapes: what is slower at the same work, and what does other work."""
    lines, left = shape_lines(report, unit, top)
    if not lines:
        return []
    heads, cells = without_empty((unit.name, *SHAPE_HEADS), [[clean(name), *more] for name, *more in lines])
    sentences = [Text(clean(each)) for each in report.shape_sentences]
    more = [Text(f"{left:,} more shapes", style=DIM)] if left > 0 else []
    shown = table(heads, cells, width, left=(heads[0], *_LEFT))
    return [Group(section("Operators by shape", "time of their calls, beside others or not"), *sentences, shown, *more)]


def _findings(report: DiffReport, top: int) -> list[RenderableType]:
    """What advice finds in one run alone, or costs another time, a line each."""
    found = report.findings or []
    if not found:
        return []
    lines = [Text(clean(each["sentence"])) for each in found[:top]]
    more = [Text(f"{len(found) - top:,} more", style=DIM)] if len(found) > top else []
    return [Group(section("Findings", "of weftrace advise, in both runs"), *lines, *more)]


def _kernel(name: str, width: int) -> str:
    """A kernel; of one in another's place both, each in half of the room."""
    names = name.split(" → ")
    room = max(1, (width - 3 * (len(names) - 1)) // len(names))
    return " → ".join(kernel_label(each, room) for each in names)


def _gates(report: DiffReport, width: int) -> RenderableType:
    """A line a gate: the figure on both sides, its limit, whether it was met."""
    lines = [[clean(gate["figure"]), *gate_cells(gate)] for gate in report.gates]
    colours = [palette.EXPOSED if gate["is_met"] is False else None for gate in report.gates]
    shown = without_empty(("gate", *GATE_HEADS), lines)
    return Group(section("Gates"), table(*shown, width, left=("gate", *_LEFT), coloured=("result", colours)))


def _lateness(report: DiffReport, unit: Unit, width: int, top: int) -> RenderableType:
    late = [row for row in report.lateness if unit.shows(row["after_raw_ns"] - row["before_raw_ns"])]
    lines = [
        [
            clean(row["name"]),
            *changed(row, unit),
            _hidden_too(row, unit),
            clean(own_words(row)) if report.tells_causes else "",
        ]
        for row in late[:top]
    ]
    heads = (unit.name, "before", "after", "change", "hidden too", "itself, in a step of its own")
    note = "for how long others waited for each, mean over ranks"
    if any(line[4] for line in lines):
        note += "; hidden too: and beside computation"
    left = len(late) - top
    more = [Text(f"{left:,} more ranks", style=DIM)] if left > 0 else []
    shown = table(*without_empty(heads, lines), width, left=(heads[0], heads[-1]))
    return Group(section("Late ranks", note), shown, *more)


def _hidden_too(row: LatenessRow, unit: Unit) -> str:
    """The change of waiting with what computation hid of it, where that is another number."""
    whole_ns = row["after_raw_ns"] - row["before_raw_ns"]
    return unit.signed(whole_ns) if abs(whole_ns - row["change_ns"]) > _OTHER * abs(whole_ns) else ""


def _ranks(report: DiffReport, unit: Unit, width: int, top: int) -> RenderableType:
    """The ranks whose step changed most, in their order."""
    rows = report.by_rank
    most = sorted(rows, key=lambda row: -abs(row["change_ns"]))[:top]
    lines = [
        [rank_words(row, rows), *changed(row, unit), *(_part_of_rank(row, unit) if report.tells_causes else ("", ""))]
        for row in rows
        if row in most
    ]
    heads = (unit.name, "before", "after", "change", "most of it", "of that")
    left = f"; {len(rows) - len(lines):,} that changed less left out" if len(lines) < len(rows) else ""
    shown = table(*without_empty(heads, lines), width, left=(heads[0], heads[-1]))
    return Group(section("Ranks", f"mean step of each{left}"), shown)


def _part_of_rank(row: RankRow, unit: Unit) -> tuple[str, str]:
    """The part that changed most of a rank's step, and by how much."""
    if not row["part_change_ns"]:
        return "", ""
    return part_words(row["part"], row["cause"]) if row["part"] else "", unit.signed(row["part_change_ns"])


def _bar(change_ns: int, most: int) -> str:
    """Growth is full, what fell is hollow."""
    return ("█" if change_ns > 0 else "░") * round(_BAR * abs(change_ns) / most)


def print_figures(console: Console) -> None:
    """Every figure that a gate may hold, and what it is."""
    room = max(map(len, FIGURE_TERMS)) + 2
    summary = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    summary.add_column(no_wrap=True, min_width=room)
    summary.add_column()
    for form, meaning in FIGURE_TERMS.items():
        summary.add_row(Text(form, style=BOLD), Text(meaning))
    note = "of a step, mean over the steps that count and over the ranks that both have"
    print_blocks([section("Figures", note), summary, Text(LIMITS)], console, min(console.width, MAX_WIDTH))
