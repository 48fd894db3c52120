"""The lane picture in a terminal: what the compute lane runs while the communication lane moves data.

One row of bands is a stretch of time, by preference one repetition of the phases (a layer); all rows have one scale. A
box is as wide as its phase is long. Its fill tells the direction, in characters as well as in colour, so that the
picture survives a pipe. Under the bands, red marks where communication ran and no compute did.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from rich.cells import cell_len
from rich.console import Console, Group
from rich.style import Style
from rich.text import Text

from weft.report import palette
from weft.report.console_text import clean, fitted, joined, shorten_middle, suited
from weft.units import MS, US, duration, percent

MIN_WIDTH = 60
MAX_WIDTH = 200
MAX_ROWS = 12
MAX_TRACKS = 3  # boxes of one lane that run at the same time are drawn under each other, up to this many
MARGIN = 12  # columns left of the bands, for a lane's name and SMs
LEGIBLE = 10  # columns that a short phase should have before two layers share a row
MIN_MARK = 0.05  # a smaller part of a column exposed is not marked: kernels leave microseconds between them

_Key = tuple[str, int | None, str | None]  # name, index, direction of a box

_LEVELS = "▁▂▃▄▅▆▇█"
_FILL = {"F": "░", "B": "▒", "W": "▓", None: " "}
_DIRECTION_NAMES = {"F": "forward", "B": "backward", "W": "weight gradient"}
_LANE_NAMES = {"compute": "compute", "communication": "communic."}
_NOTE = Style(dim=True)
_EXPOSED = Style(color=palette.EXPOSED, bold=True)
_IDLE = Style(color=palette.IDLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box of one row: a phase, or the part of it that falls into the row. Columns are relative to the row's start.

    left, right: columns, right excluded. duration_ns: of the whole phase, also where the row shows a part of it; 0 for
    boxes that are narrower than a column.
    before, after: whether the phase began before this row, or goes on after it.
    """

    name: str
    index: int | None
    direction: str | None
    lane: str
    left: int
    right: int
    duration_ns: int
    before: bool = False
    after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One lane within one row. tracks: boxes that do not overlap, by column; more than one where phases run at once."""

    lane: str
    sms: str
    tracks: tuple[tuple[Box, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A stretch of time as it is drawn: its bands, and per column the part of it that is exposed, or idle (0 to 1).

    num_columns: columns that the stretch fills; a last row may be shorter than the others.
    """

    start_ns: int
    end_ns: int
    num_columns: int
    bands: tuple[Band, ...]
    exposed: tuple[float, ...]
    idle: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Rows of one scale, and what they could not show.

    num_narrow: boxes narrower than a column, drawn as a mark or lost behind another. num_covered: boxes that overlap
    more than `MAX_TRACKS` others. end_ns: where the last row ends; asked_end_ns: where it should, had there been room.
    """

    rows: tuple[Row, ...]
    ns_per_column: float
    start_ns: int
    end_ns: int
    asked_end_ns: int
    num_narrow: int = 0
    num_covered: int = 0
    codes: Mapping[str, str] = field(default_factory=dict)


def print_lanes(
    rank: Mapping[str, Any],
    console: Console,
    width: int | None = None,
    *,
    start_ns: int | None = None,
    end_ns: int | None = None,
) -> None:
    """Print the lane picture of one rank of a report.

    rank: a member of `ranks` in a report document (schema weft.report/1). width: columns to use, the console's when
    None. start_ns, end_ns: the stretch to draw, in nanoseconds from the rank's first device event; all of it when None.
    """
    columns = max(min(width or console.width, MAX_WIDTH), MIN_WIDTH)
    picture = lane_picture(rank, num_columns=columns - MARGIN, start_ns=start_ns, end_ns=end_ns)
    words = [line for text in _heading(rank, picture) for line in text.wrap(console, columns)]
    notes = [line for text in _left_out(rank, picture) for line in text.wrap(console, columns)]
    drawn, coded = _drawn(picture)
    lines = [*words, Text(), *drawn, *_legend(picture, coded, columns), *notes]
    # The lines are as wide as asked, which may be more than the console's own width: it must not fold them again.
    console.print(suited(Group(*lines), console), soft_wrap=True)


def lane_picture(
    rank: Mapping[str, Any], *, num_columns: int, start_ns: int | None = None, end_ns: int | None = None
) -> Picture:
    """Lay out the lanes of one rank in rows of at most `num_columns` columns."""
    lanes = [lane for lane in rank.get("lanes", ()) if lane["boxes"]]
    boxes = [box for lane in lanes for box in lane["boxes"]]
    start = max(0, start_ns or 0)
    end = int(rank["span_ns"]) if end_ns is None else min(end_ns, int(rank["span_ns"]))
    if not boxes or end <= start:
        return Picture(rows=(), ns_per_column=1.0, start_ns=start, end_ns=start, asked_end_ns=start)
    cuts = _row_cuts(lanes, start, end, num_columns)
    scale = max(b - a for a, b in pairwise(cuts)) / num_columns
    rows, num_narrow, num_covered = [], 0, 0
    for a, b in pairwise(cuts):
        bands = []
        for lane in lanes:
            tracks, narrow, covered = _tracks(lane, a, b, scale)
            num_narrow += narrow
            num_covered += covered
            bands.append(Band(lane=lane["lane"], sms=_sms(lane), tracks=tracks))
        columns = _num_columns(a, b, scale)
        covered_part = _coverage(((box["start_ns"], box["end_ns"]) for box in boxes), a, columns, scale)
        rows.append(
            Row(
                start_ns=a,
                end_ns=b,
                num_columns=columns,
                bands=tuple(bands),
                exposed=_coverage(rank.get("exposed", ()), a, columns, scale),
                idle=tuple(max(0.0, 1 - part) for part in covered_part),
            )
        )
    return Picture(
        rows=tuple(rows),
        ns_per_column=scale,
        start_ns=cuts[0],
        end_ns=cuts[-1],
        asked_end_ns=end,
        num_narrow=num_narrow,
        num_covered=num_covered,
        codes=_codes({clean(box["name"]) for box in boxes}),
    )


# ---- rows


def _row_cuts(lanes: Sequence[Mapping[str, Any]], start: int, end: int, num_columns: int) -> list[int]:
    """Where rows begin, and where the last one ends.

    Rows begin with a repetition of the first compute phase, so that the layers of a model stand under each other; as
    many repetitions share a row as stay legible. Where phases do not repeat evenly, rows are equally long.
    """
    boxes = [(box["start_ns"], box["end_ns"]) for lane in lanes for box in lane["boxes"]]
    legible_ns = num_columns * _short_ns([(a, b) for a, b in boxes if b > start and a < end]) / LEGIBLE
    anchors = _repetitions(lanes, start, end)
    if anchors:
        periods = [b - a for a, b in pairwise([*anchors, end])]
        together = max(1, int(legible_ns // max(periods)))
        cuts = [start, *anchors[together::together], end]
        return cuts[: MAX_ROWS + 1]
    num_rows = max(1, min(MAX_ROWS, math.ceil((end - start) / max(legible_ns, 1))))
    length = _round_up((end - start) / num_rows) if num_rows > 1 else end - start
    return [*range(start, end, length), end]


def _repetitions(lanes: Sequence[Mapping[str, Any]], start: int, end: int) -> list[int]:
    """Starts of the boxes that repeat the first compute phase, when they come at even distances; else nothing."""
    lane = next((lane for lane in lanes if lane["lane"] == "compute"), lanes[0])
    boxes = [box for box in lane["boxes"] if start <= box["start_ns"] < end and box.get("phase") is not None]
    if not boxes:
        return []
    first_of_phase: dict[int, int] = {}  # a phase that something interrupted has several boxes
    for box in boxes:
        if box["name"] == boxes[0]["name"]:
            first_of_phase.setdefault(box["phase"], box["start_ns"])
    anchors = sorted(set(first_of_phase.values()))
    if len(anchors) < 2:
        return []
    # The first row also takes what comes before its first phase, so its own length does not count here.
    periods = sorted(b - a for a, b in pairwise([*anchors, end]))
    middle = periods[len(periods) // 2]
    return anchors if periods[-1] <= 1.5 * middle and anchors[0] - start <= 0.5 * middle else []


def _short_ns(intervals: Sequence[tuple[int, int]]) -> float:
    """How long a short box is: a quarter of all boxed time is in boxes no longer than this."""
    lengths = sorted(b - a for a, b in intervals)
    total, seen = sum(lengths), 0
    for length in lengths:
        seen += length
        if seen >= total / 4:
            return max(length, 1)
    return 1


def _round_up(value: float) -> int:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return int(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value))


# ---- boxes


def _num_columns(start: int, end: int, scale: float) -> int:
    return max(1, round((end - start) / scale))


def _tracks(
    lane: Mapping[str, Any], start: int, end: int, scale: float
) -> tuple[tuple[tuple[Box, ...], ...], int, int]:
    """Boxes of a lane between two times, in as few tracks as keep them apart; and how many were narrow, or covered."""
    wide: list[list[Box]] = [[]]
    narrow: dict[int, dict[_Key, int]] = {}
    num_narrow = num_covered = 0
    for box in sorted(lane["boxes"], key=lambda box: (box["start_ns"], -box["end_ns"])):
        a, b = max(box["start_ns"], start), min(box["end_ns"], end)
        if a >= b:
            continue
        left, right = round((a - start) / scale), round((b - start) / scale)
        key = (clean(box["name"]), box.get("index"), box.get("direction"))
        if right - left < 1:
            num_narrow += box["start_ns"] >= start  # a box cut by the row's start was counted in the row before
            column = min(int((a - start) / scale), _num_columns(start, end, scale) - 1)
            shares = narrow.setdefault(column, {})
            shares[key] = shares.get(key, 0) + b - a
            continue
        before, after = box["start_ns"] < start, box["end_ns"] > end
        whole_ns = box["end_ns"] - box["start_ns"]
        placed = _place(wide, left, right)
        if placed is None:
            num_covered += 1
            continue
        track, left = placed
        track.append(_box(lane["lane"], key, left, right, whole_ns, before, after))
    _fill_in(wide[0], narrow, lane["lane"])
    return tuple(tuple(track) for track in wide), num_narrow, num_covered


def _place(tracks: list[list[Box]], left: int, right: int) -> tuple[list[Box], int] | None:
    """The first track with room from `left` to `right`; neighbours that share a rounded column give it to the first."""
    for track in tracks:
        taken = track[-1].right if track else 0
        if taken <= left or (taken == left + 1 and right - left > 2):
            return track, max(left, taken)
    if len(tracks) < MAX_TRACKS:
        tracks.append([])
        return tracks[-1], left
    return None


def _fill_in(track: list[Box], narrow: Mapping[int, Mapping[_Key, int]], lane: str) -> None:
    """Put boxes narrower than a column into the columns that are free; the longest of a column stands for all of it.

    Neighbours of one name make one box, without a duration: what else ran in its columns is not known here.
    """
    taken = {column for box in track for column in range(box.left, box.right)}
    runs: list[Box] = []
    for column in sorted(set(narrow) - taken):
        name, index, direction = max(narrow[column], key=lambda key: narrow[column][key])
        last = runs[-1] if runs else None
        if last and last.right == column and (last.name, last.direction) == (name, direction):
            runs[-1] = _box(lane, (name, None, direction), last.left, column + 1, 0)
        else:
            runs.append(_box(lane, (name, index, direction), column, column + 1, 0))
    track.extend(runs)
    track.sort(key=lambda box: box.left)


def _box(
    lane: str,
    key: _Key,
    left: int,
    right: int,
    duration_ns: int,
    before: bool = False,
    after: bool = False,
) -> Box:
    name, index, direction = key
    return Box(
        name=name,
        index=index,
        direction=direction,
        lane=lane,
        left=left,
        right=right,
        duration_ns=duration_ns,
        before=before,
        after=after,
    )


def _coverage(intervals: Any, start: int, num_columns: int, scale: float) -> tuple[float, ...]:
    """Per column, which part of it the intervals cover (they may overlap each other; 1 at most)."""
    covered = [0.0] * num_columns
    reached = start
    for interval_start, interval_end in sorted(intervals):
        a, b = max(interval_start, reached), min(interval_end, start + num_columns * scale)
        reached = max(reached, interval_end)
        if a >= b:
            continue
        first, last = (a - start) / scale, (b - start) / scale
        for column in range(int(first), min(math.ceil(last), num_columns)):
            covered[column] += min(last, column + 1) - max(first, column)
    return tuple(min(1.0, part) for part in covered)


# ---- names


def _stem(name: str) -> tuple[str, str]:
    """`attn(F)` as (`attn`, `F`); a name with no direction as (name, ``)."""
    match = re.fullmatch(r"(.+)\(([A-Z])\)", name)
    return (match[1], match[2]) if match else (name, "")


def _codes(names: set[str]) -> dict[str, str]:
    """A short code for each name, unlike every other: the fewest letters that tell it apart, and the direction."""
    codes: dict[str, str] = {}
    for name in sorted(names):
        stem, direction = _stem(name)
        letters = re.sub(r"[^\w]", "", stem) or stem
        candidates = [letters[:n] + direction for n in range(1, len(letters) + 1)]
        numbered = (f"{letters[:1]}{n}{direction}" for n in range(1, len(names) + 1))
        codes[name] = next(code for code in (*candidates, *numbered) if code not in codes.values())
    return codes


def _label(box: Box, width: int, codes: Mapping[str, str], used_codes: set[str]) -> str:
    """The longest that fits of: name and index, name, a telling part of it, its code; a code is explained below."""
    stem, direction = _stem(box.name)
    bare = box.name.strip("#* ") or box.name  # some frameworks frame their phases: ## forward ##
    named = [box.name if box.index is None else f"{box.name} {box.index}", box.name, bare]
    if direction:
        telling = max(4, len(codes.get(box.name, "")) - len(direction))  # letters that can be read, and tell it apart
        named += [stem + direction, stem[:telling] + direction]
    for label in named:
        if cell_len(label) <= width:
            return label
    if not direction and width >= 8 and cell_len(bare) <= 3 * width:
        return shorten_middle(bare, width)
    code = codes.get(box.name, "")
    if code and cell_len(code) <= width:
        used_codes.add(box.name)
        return code
    return ""


def _sms(lane: Mapping[str, Any]) -> str:
    if lane.get("sms") is None:
        return ""
    return f"{'' if lane.get('sms_exact') else '≤'}{lane['sms']} SMs"


# ---- drawing


def _heading(rank: Mapping[str, Any], picture: Picture) -> list[Text]:
    who = "lanes" if rank.get("rank") is None else f"lanes of rank {rank['rank']}"
    parts = [who, clean(rank.get("device_name") or ""), "simulated" if rank.get("simulated") else ""]
    lines = [joined([Text(parts[0], style="bold"), *[p for p in parts[1:] if p]], " · ")]
    if rank.get("basis") == "host":
        lines.append(Text("No device work in this file: host operators stand in for it.", style="bold yellow"))
    if not picture.rows:
        lines.append(Text("Nothing ran in this stretch." if rank.get("lanes") else "There is no work to draw."))
        return lines
    for lane in rank.get("lanes", ()):
        if not lane["boxes"]:
            continue
        sms = _sms(lane)
        line = f"{lane['lane']}: {duration(lane['busy_ns'])} busy{f' on {sms}' if sms else ''}"
        if lane["lane"] == "communication":
            hidden = percent(rank.get("hidden_fraction"))
            line += f", {hidden} of it hidden, {duration(rank['exposed_communication_ns'])} exposed"
        lines.append(Text(line))
    if not rank.get("communication_ns"):
        lines.append(Text("No communication ran, so there is nothing to hide."))
    whole = (picture.start_ns, picture.end_ns) == (0, rank["span_ns"])
    span = duration(rank["span_ns"])
    drawn = f"All {span} drawn"
    if not whole:
        begun = f"{duration(picture.start_ns)} to" if picture.start_ns else "The first"
        drawn = f"{begun} {duration(picture.end_ns)} of {span} drawn"
    lines.append(Text(f"{drawn}; one column is {duration(picture.ns_per_column)}", style=_NOTE))
    return lines


def _drawn(picture: Picture) -> tuple[list[Text], set[str]]:
    """All rows as lines, and the names for which only their code had room."""
    used: set[str] = set()
    lines: list[Text] = []
    any_communication = any(band.lane == "communication" for band in picture.rows[0].bands) if picture.rows else False
    silent: list[Row] = []  # rows in which nothing ran share a line
    for row in [*picture.rows, None]:
        if row is not None and not any(track for band in row.bands for track in band.tracks):
            silent.append(row)
            continue
        if silent:
            stretch = f"{duration(silent[0].start_ns)} to {duration(silent[-1].end_ns)}"
            lines += [Text(f"{'':{MARGIN}}╌╌ neither lane ran from {stretch}", style=_IDLE), Text()]
            silent = []
        if row is not None:
            lines.append(_axis(row, picture.ns_per_column))
            for band in row.bands:
                lines.extend(_band_lines(band, row.num_columns, picture.codes, used))
            lines += [_marks(row, "exposed" if any_communication else "idle"), Text()]
    return lines, used


def _axis(row: Row, scale: float) -> Text:
    """Tick marks at round times, each with its time to the right of it; the first also has the unit."""
    step = max(_round_up(10 * scale), 1)
    unit_ns, unit = (MS, "ms") if step >= MS // 10 else (US, "µs") if step >= US // 10 else (1, "ns")
    decimals = 1 if step % unit_ns else 0
    cells = ["─"] * row.num_columns
    free = 0
    for time in range(-(-row.start_ns // step) * step, row.end_ns, step):
        column = int((time - row.start_ns) / scale)
        label = f"┬{time / unit_ns:,.{decimals}f}{'' if free else f' {unit}'}"
        if column >= free and column + len(label) <= row.num_columns:
            cells[column : column + len(label)] = label
            free = column + len(label) + 1
    return Text(" " * MARGIN + "".join(cells), style=_NOTE)


def _band_lines(band: Band, num_columns: int, codes: Mapping[str, str], used: set[str]) -> list[Text]:
    lines: list[Text] = []
    for track in band.tracks:
        names, times = Text(), Text()
        column = 0
        for at, box in enumerate(track):
            gap = _gap(column, box.left, track[at - 1] if at else None)
            names.append(gap)
            times.append(gap)
            width = box.right - box.left
            room = max(0, width - 1 - box.after)
            name = _label(box, room, codes, used)
            time = _box_time(box, room)
            names.append_text(_box_text(box, name, room))
            times.append_text(_box_text(box, time, room))
            column = box.right
        gap = _gap(column, num_columns, track[-1] if track else None)
        names.append(gap)
        times.append(gap)
        lines += [names, times]
    heads = [_LANE_NAMES.get(band.lane, clean(band.lane)), band.sms] + [""] * len(lines)
    for line, head, bold in zip(lines, heads, (True, *[False] * len(lines)), strict=False):
        _prepend(line, head, Style(bold=bold))
    return lines


def _prepend(line: Text, head: str, style: Style) -> None:
    body = line.copy()
    line.plain = ""
    line.spans = []
    line.append(fitted(head, MARGIN), style=style)
    line.append_text(body)


def _gap(column: int, until: int, last: Box | None) -> str:
    """Nothing ran; where there is room, a thin edge ends the box before, so that fills need not tell."""
    length = until - column
    closes = last is not None and last.right - last.left > 1 and length > 1
    return "▏" + " " * (length - 1) if closes else " " * length


def _box_text(box: Box, text: str, room: int) -> Text:
    """An edge, the text and the fill: one piece as wide as the box."""
    ink, shade = _box_styles(box.direction, box.lane)
    used = cell_len(text)
    padding = " " if text and used < room else ""
    edge = "‹" if box.before else "┃" if box.right - box.left == 1 else "│"
    piece = Text(edge, style=ink)
    piece.append(text + padding, style=ink)
    piece.append(_FILL.get(box.direction, " ") * max(0, room - used - len(padding)), style=shade)
    return piece.append("›" if box.after and box.right - box.left > 1 else "", style=ink)


def _box_time(box: Box, room: int) -> str:
    """How long the phase took, in the unit that fits."""
    text = duration(box.duration_ns)
    if box.duration_ns and len(text) <= room:
        return text
    number = text.partition(" ")[0]
    return number if len(number) <= room and box.duration_ns >= MS else ""


def _box_styles(direction: str | None, lane: str) -> tuple[Style, Style]:
    """Styles of a box's text and of its fill: the fill is the ground a little darker, plain without colours."""
    ground = palette.DIRECTION_COLOURS.get(direction or "") or palette.KIND_COLOURS.get(lane, palette.COMPUTE)
    red, green, blue = (int(ground[n : n + 2], 16) * 4 // 5 for n in (1, 3, 5))
    ink = palette.INK if direction else palette.PAPER
    return Style(color=ink, bgcolor=ground), Style(color=f"#{red:02x}{green:02x}{blue:02x}", bgcolor=ground)


def _marks(row: Row, head: str) -> Text:
    """The third line of a row: how much of each column is exposed communication; dashes where neither lane ran."""
    line = Text(fitted(head, MARGIN), style=_EXPOSED if head == "exposed" else _IDLE)
    for exposed, idle in zip(row.exposed, row.idle, strict=True):
        if exposed >= MIN_MARK:
            line.append(_LEVELS[min(len(_LEVELS) - 1, int(exposed * len(_LEVELS)))], style=_EXPOSED)
        elif idle >= 0.5:
            line.append("╌", style=_IDLE)
        else:
            line.append(" ")
    return line


def _legend(picture: Picture, coded: set[str], width: int) -> list[Text]:
    shown = [box for row in picture.rows for band in row.bands for track in band.tracks for box in track]
    chips = []
    for direction, name in _DIRECTION_NAMES.items():
        if any(box.direction == direction for box in shown):
            ink, shade = _box_styles(direction, "compute")
            chip = Text(f"│{direction} ", style=ink).append(_FILL[direction] * 2, style=shade)
            chips.append(joined([chip, f" {name}"]))
    if any(level >= MIN_MARK for row in picture.rows for level in row.exposed):
        chips.append(joined([Text("▂▅█", style=_EXPOSED), " exposed, by part of the column"]))
    if any(level >= 0.5 for row in picture.rows for level in row.idle):
        chips.append(joined([Text("╌╌", style=_IDLE), " neither lane ran"]))
    if any(box.before or box.after for box in shown):
        chips.append(Text("‹ › goes on in the row before or after"))
    explained = [Text(f"{picture.codes[name]} = {shorten_middle(name, 40)}") for name in coded]
    return _flowed(chips, width) + _flowed(sorted(explained, key=str), width)


def _flowed(chips: Sequence[Text], width: int) -> list[Text]:
    """Chips on as few lines as hold them; none is broken."""
    lines: list[Text] = []
    for chip in chips:
        if lines and lines[-1].cell_len + 3 + chip.cell_len <= width:
            lines[-1] = joined([lines[-1], chip], "   ")
        else:
            lines.append(chip)
    return lines


def _left_out(rank: Mapping[str, Any], picture: Picture) -> list[Text]:
    """What the picture does not show, and what helps."""
    notes = []
    if picture.end_ns < picture.asked_end_ns:
        notes.append(
            f"Not drawn: {duration(picture.asked_end_ns - picture.end_ns)} after {duration(picture.end_ns)} "
            f"({MAX_ROWS} rows are drawn). "
            "Choose a later stretch to see them."
        )
    if picture.num_narrow:
        notes.append(
            f"Narrower than a column ({duration(picture.ns_per_column)}): {picture.num_narrow:,} of the boxes; the "
            "longest stands for its column. Choose a shorter stretch to see them."
        )
    if picture.num_covered:
        notes.append(f"Not drawn: {picture.num_covered:,} boxes that overlap more than {MAX_TRACKS - 1} others.")
    listed, total = len(rank.get("exposed", ())), rank.get("num_exposed", 0)
    if total > listed:
        notes.append(f"The {listed:,} longest of {total:,} exposed stretches are marked.")
    return [Text(note, style=_NOTE) for note in notes]
