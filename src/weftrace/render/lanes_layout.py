"""Where the boxes of the lane picture go, in columns: rows of one scale, bands, tracks. Drawing is `lanes_text`'s.

A row is a stretch of time, by preference one repetition of the phases, so that a model's layers stand under each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from weftrace.alphabet import stem_of
from weftrace.render import palette
from weftrace.render.console_text import clean
from weftrace.render.lane_types import LaneDocument, LanePicture, number_of, sms_text

MAX_ROWS = 12
MAX_TRACKS = 3  # boxes of one lane that run at the same time are drawn under each other, up to this many
LEGIBLE = 10  # columns that a short phase should have before two layers share a row

_Key = tuple[str, str, str | None]  # name, number, direction of a box


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box of one row: a phase, or the part of it that falls into the row. Columns are relative to the row's start.

    left, right: columns, right excluded. duration_ns: of the whole phase, also where the row shows a part of it; 0 for
    boxes that are narrower than a column.
    number: see `number_of`; none where the box stands for several.
    before, after: whether the phase began before this row, or goes on after it.
    """

    name: str
    number: str
    direction: str | None
    left: int
    right: int
    duration_ns: int
    before: bool = False
    after: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One lane within one row. tracks: boxes that do not overlap, by column; more than one where phases run at once.

    colour: of boxes without a direction.
    """

    lane: str
    sms: str
    colour: str
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

    num_lanes: those that there are, drawn or empty.
    num_narrow: boxes narrower than a column, drawn as a mark or lost behind another. num_covered: boxes that overlap
    more than `MAX_TRACKS` others. end_ns: where the last row ends; asked_end_ns: where it should, had there been room.
    """

    rows: tuple[Row, ...]
    ns_per_column: float
    start_ns: int
    end_ns: int
    asked_end_ns: int
    num_lanes: int = 0
    num_narrow: int = 0
    num_covered: int = 0
    codes: Mapping[str, str] = field(default_factory=dict)


def lane_picture(
    picture: LanePicture, *, num_columns: int, start_ns: int | None = None, end_ns: int | None = None
) -> Picture:
    """Lay out the lanes of a rank, or of whatever else has lanes, in rows of at most `num_columns` columns."""
    lanes = [lane for lane in picture["lanes"] if lane["boxes"]]
    boxes = [box for lane in lanes for box in lane["boxes"]]
    start = max(0, start_ns or 0)
    end = picture["span_ns"] if end_ns is None else min(end_ns, picture["span_ns"])
    if not boxes or end <= start:
        return Picture(rows=(), ns_per_column=1.0, start_ns=start, end_ns=start, asked_end_ns=start)
    cuts = _row_cuts(lanes, start, end, num_columns)
    scale = max(b - a for a, b in pairwise(cuts)) / num_columns
    colours = palette.lane_colours([lane["lane"] for lane in lanes])
    rows, num_narrow, num_covered = [], 0, 0
    for a, b in pairwise(cuts):
        bands = []
        for lane, colour in zip(lanes, colours, strict=True):
            tracks, narrow, covered = _tracks(lane, a, b, scale)
            num_narrow += narrow
            num_covered += covered
            bands.append(Band(lane=lane["lane"], sms=sms_text(lane), colour=colour, tracks=tracks))
        columns = _num_columns(a, b, scale)
        covered_part = _coverage(((box["start_ns"], box["end_ns"]) for box in boxes), a, columns, scale)
        rows.append(
            Row(
                start_ns=a,
                end_ns=b,
                num_columns=columns,
                bands=tuple(bands),
                exposed=_coverage(picture["exposed"], a, columns, scale),
                idle=tuple(max(0.0, 1 - part) for part in covered_part),
            )
        )
    return Picture(
        rows=tuple(rows),
        ns_per_column=scale,
        start_ns=cuts[0],
        end_ns=cuts[-1],
        asked_end_ns=end,
        num_lanes=len(picture["lanes"]),
        num_narrow=num_narrow,
        num_covered=num_covered,
        codes=_codes({clean(box["name"]) for box in boxes}),
    )


def _row_cuts(lanes: Sequence[LaneDocument], start: int, end: int, num_columns: int) -> list[int]:
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
    length = round_up((end - start) / num_rows) if num_rows > 1 else end - start
    return [*range(start, end, length), end]


def _repetitions(lanes: Sequence[LaneDocument], start: int, end: int) -> list[int]:
    """Starts of the boxes that repeat the first compute phase, when they come at even distances; else nothing."""
    lane = next((lane for lane in lanes if lane["lane"] == "compute"), lanes[0])
    boxes = [box for box in lane["boxes"] if start <= box["start_ns"] < end and box["phase"] is not None]
    if not boxes:
        return []
    first_of_phase: dict[int | None, int] = {}  # a phase that something interrupted has several boxes
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


def round_up(value: float) -> int:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return int(next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value))


def _num_columns(start: int, end: int, scale: float) -> int:
    return max(1, round((end - start) / scale))


def _tracks(lane: LaneDocument, start: int, end: int, scale: float) -> tuple[tuple[tuple[Box, ...], ...], int, int]:
    """Boxes of a lane between two times, in as few tracks as keep them apart; and how many were narrow, or covered."""
    wide: list[list[Box]] = [[]]
    narrow: dict[int, dict[_Key, int]] = {}
    num_narrow = num_covered = 0
    for box in sorted(lane["boxes"], key=lambda box: (box["start_ns"], -box["end_ns"])):
        a, b = max(box["start_ns"], start), min(box["end_ns"], end)
        if a >= b:
            continue
        left, right = round((a - start) / scale), round((b - start) / scale)
        key = (clean(box["name"]), number_of(box), box["direction"])
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
        track.append(_box(key, left, right, whole_ns, before, after))
    _fill_in(wide[0], narrow)
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


def _fill_in(track: list[Box], narrow: Mapping[int, Mapping[_Key, int]]) -> None:
    """Put boxes narrower than a column into the columns that are free; the longest of a column stands for all of it.

    Neighbours of one name make one box, without a duration: what else ran in its columns is not known here.
    """
    taken = {column for box in track for column in range(box.left, box.right)}
    runs: list[Box] = []
    for column in sorted(set(narrow) - taken):
        name, number, direction = max(narrow[column], key=lambda key: narrow[column][key])
        last = runs[-1] if runs else None
        if last and last.right == column and (last.name, last.direction) == (name, direction):
            runs[-1] = _box((name, "", direction), last.left, column + 1, 0)
        else:
            runs.append(_box((name, number, direction), column, column + 1, 0))
    track.extend(runs)
    track.sort(key=lambda box: box.left)


def _box(
    key: _Key,
    left: int,
    right: int,
    duration_ns: int,
    before: bool = False,
    after: bool = False,
) -> Box:
    name, number, direction = key
    return Box(
        name=name,
        number=number,
        direction=direction,
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


def _codes(names: set[str]) -> dict[str, str]:
    """A short code for each name, unlike every other: the fewest letters that tell it apart, and the direction."""
    codes: dict[str, str] = {}
    for name in sorted(names):
        stem, direction = stem_of(name)
        letters = re.sub(r"[^\w]", "", stem) or stem
        candidates = [letters[:n] + direction for n in range(1, len(letters) + 1)]
        numbered = (f"{letters[:1]}{n}{direction}" for n in range(1, len(names) + 1))
        codes[name] = next(code for code in (*candidates, *numbered) if code not in codes.values())
    return codes
