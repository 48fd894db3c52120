"""Where the boxes of the lane picture go, in columns: rows of one scale, bands, tracks. Drawing is `lanes_text`'s.

A row is a stretch of time, by preference one repetition of the phases, so that a model's layers stand under each other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from weftrace.alphabet import DIRECTIONS, stem_of
from weftrace.render import palette
from weftrace.render.console_text import clean
from weftrace.render.lane_types import BoxDocument, LaneDocument, LanePicture, number_of, sms_text
from weftrace.render.scene import round_up

MAX_ROWS = 12
MAX_ROWS_WITHOUT_PHASES = 4  # runs of kernels say less than phases: an overview, and the reader chooses a stretch
MAX_TRACKS = 3  # boxes of one lane that run at the same time are drawn under each other, up to this many
LEGIBLE = 10  # columns that a short phase should have before two layers share a row
JOINED = 2  # stretches of one phase that are fewer columns apart are drawn as one box; how busy it was is said

_TRIFLE = 0.1  # of the busy time of a box; what takes less does not part it
_TELLING = 0.05  # a phase that takes less of the compute lane is no mark for where a row begins
_Key = tuple[str, str, str | None]  # name, number, role of a box


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A box of one row: stretches of a phase, or the part of them that falls into the row. Columns are relative to the
    row's start.

    left, right: columns, right excluded. duration_ns: from its start to its end, also where the row shows a part of it;
    busy_ns: of it, when the phase ran; both 0 for boxes of a column or less.
    number: see `number_of`; none where the box stands for several.
    role: what its colour tells, one of `palette.ROLE_COLOURS`: its direction, or its micro-batch; None for its lane.
    before, after: whether the phase began before this row, or goes on after it.
    """

    name: str
    number: str
    role: str | None
    left: int
    right: int
    duration_ns: int
    busy_ns: int
    before: bool = False
    after: bool = False

    @property
    def density(self) -> float:
        """The part of the box in which it ran; 1 where that is not known."""
        return self.busy_ns / self.duration_ns if self.duration_ns else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """One lane within one row. tracks: boxes that do not overlap, by column; more than one where phases run at once.

    busy: the part of each column in which the lane ran (0 to 1). colour: of boxes without a role.
    """

    lane: str
    sms: str
    colour: str
    tracks: tuple[tuple[Box, ...], ...]
    busy: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRow:
    """A stretch of time as it is drawn: its bands, and per column the part of it that is exposed, or idle (0 to 1).

    idle: the device ran nothing. elsewhere: it ran what is in no lane, memory copies; at least this part.
    num_columns: columns that the stretch fills; a last row may be shorter than the others.
    """

    start_ns: int
    end_ns: int
    num_columns: int
    bands: tuple[Band, ...]
    exposed: tuple[float, ...]
    idle: tuple[float, ...]
    elsewhere: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPicture:
    """Rows of one scale, and what they could not show.

    num_narrow: boxes of less than a column, or of one that another took: drawn as a mark or lost behind another.
    num_covered: boxes that overlap more than `MAX_TRACKS` others. end_ns: where the last row ends; asked_end_ns: where
    it should, had there been room.
    """

    rows: tuple[TextRow, ...]
    ns_per_column: float
    start_ns: int
    end_ns: int
    asked_end_ns: int
    num_narrow: int = 0
    num_covered: int = 0
    codes: Mapping[str, str] = field(default_factory=dict)


def lane_picture(
    picture: LanePicture, *, num_columns: int, start_ns: int | None = None, end_ns: int | None = None
) -> TextPicture:
    """Lay out the lanes of a rank, or of whatever else has lanes, in rows of at most `num_columns` columns."""
    lanes = [lane for lane in picture["lanes"] if lane["boxes"]]
    boxes = [box for lane in lanes for box in lane["boxes"]]
    start = max(0, start_ns or 0)
    end = picture["span_ns"] if end_ns is None else min(end_ns, picture["span_ns"])
    if not boxes or end <= start:
        return TextPicture(rows=(), ns_per_column=1.0, start_ns=start, end_ns=start, asked_end_ns=max(start, end))
    cuts = _row_cuts(lanes, start, end, num_columns)
    scale = max(b - a for a, b in pairwise(cuts)) / num_columns
    colours = palette.lane_colours([lane["lane"] for lane in lanes])
    rows, num_narrow, num_covered = [], 0, 0
    for a, b in pairwise(cuts):
        columns = _num_columns(a, b, scale)
        bands = []
        for lane, colour in zip(lanes, colours, strict=True):
            tracks, narrow, covered = _tracks(lane, a, b, scale)
            num_narrow += narrow
            num_covered += covered
            busy = coverage(lane["busy"], a, columns, scale)
            bands.append(
                Band(lane=lane["lane"], sms=sms_text(lane), colour=colour, tracks=tracks, busy=tuple(busy.tolist()))
            )
        device = coverage(picture["busy"], a, columns, scale)
        in_lanes = np.sum([band.busy for band in bands], axis=0)
        rows.append(
            TextRow(
                start_ns=a,
                end_ns=b,
                num_columns=columns,
                bands=tuple(bands),
                exposed=tuple(coverage(picture["exposed"], a, columns, scale).tolist()),
                idle=tuple((1 - device).tolist()),
                elsewhere=tuple(np.maximum(0.0, device - in_lanes).tolist()),
            )
        )
    return TextPicture(
        rows=tuple(rows),
        ns_per_column=scale,
        start_ns=cuts[0],
        end_ns=cuts[-1],
        asked_end_ns=end,
        num_narrow=num_narrow,
        num_covered=num_covered,
        codes=_codes({clean(box["name"]) for box in boxes}),
    )


def _row_cuts(lanes: Sequence[LaneDocument], start: int, end: int, num_columns: int) -> list[int]:
    """Where rows begin, and where the last one ends.

    Rows begin with a repetition of the first compute phase, so that the layers of a model stand under each other; as
    many repetitions share a row as stay legible. Where phases do not repeat evenly, rows are equally long.
    """
    whole = [(a, b) for lane in lanes for a, b in _phases(lane["boxes"]) if b > start and a < end]
    legible_ns = num_columns * _short_ns(whole) / LEGIBLE
    anchors = _repetitions(lanes, start, end)
    if anchors:
        periods = [b - a for a, b in pairwise([*anchors, end])]
        together = max(1, int(legible_ns // max(periods)))
        cuts = [start, *anchors[together::together], end]
        return cuts[: MAX_ROWS + 1]
    phased = any(box["phase"] is not None for lane in lanes for box in lane["boxes"])
    most = MAX_ROWS if phased else MAX_ROWS_WITHOUT_PHASES
    num_rows = max(1, min(most, math.ceil((end - start) / max(legible_ns, 1))))
    length = round_up((end - start) / num_rows) if num_rows > 1 else end - start
    return [*range(start, end, length), end]


def _phases(boxes: Sequence[BoxDocument]) -> Iterator[tuple[int, int]]:
    """From the first to the last box of each phase; of work in no phase, each box."""
    found: dict[int, tuple[int, int]] = {}
    for box in boxes:
        if box["phase"] is None:
            yield box["start_ns"], box["end_ns"]
            continue
        start, end = found.get(box["phase"], (box["start_ns"], box["end_ns"]))
        found[box["phase"]] = min(start, box["start_ns"]), max(end, box["end_ns"])
    yield from found.values()


def _repetitions(lanes: Sequence[LaneDocument], start: int, end: int) -> list[int]:
    """Starts of the boxes that repeat the first compute phase, when they come at even distances; else nothing."""
    lane = next((lane for lane in lanes if lane["lane"] == "compute"), lanes[0])
    boxes = [box for box in lane["boxes"] if start <= box["start_ns"] < end and box["phase"] is not None]
    busy_of: dict[str, int] = {}
    for box in boxes:
        busy_of[box["name"]] = busy_of.get(box["name"], 0) + box["busy_ns"]
    first = next((name for name, busy in busy_of.items() if busy >= _TELLING * sum(busy_of.values())), None)
    first_of_phase: dict[int | None, int] = {}  # a phase that something interrupted has several boxes
    for box in boxes:
        if box["name"] == first:
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


def _num_columns(start: int, end: int, scale: float) -> int:
    return max(1, round((end - start) / scale))


def _tracks(lane: LaneDocument, start: int, end: int, scale: float) -> tuple[tuple[tuple[Box, ...], ...], int, int]:
    """Boxes of a lane between two times, in as few tracks as keep them apart; and how many were narrow, or covered."""
    wide: list[list[Box]] = [[]]
    narrow: dict[int, dict[_Key, int]] = {}
    whole: list[tuple[int, _Key]] = []  # boxes of one column
    num_narrow = num_covered = 0
    for stretch in joined(lane["boxes"], start, end, scale):
        a, b = max(stretch.start_ns, start), min(stretch.end_ns, end)
        left, right = round((a - start) / scale), round((b - start) / scale)
        if right - left <= 1:
            num_narrow += right == left and stretch.start_ns >= start  # one cut by the row's start was counted before
            column = min(int((a - start) / scale), _num_columns(start, end, scale) - 1)
            shares = narrow.setdefault(column, {})
            shares[stretch.key] = shares.get(stretch.key, 0) + b - a
            if right > left:
                whole.append((column, stretch.key))
            continue
        placed = _place(wide, left, right)
        if placed is None:
            num_covered += 1
            continue
        track, left = placed
        track.append(_box(stretch, left, right, stretch.start_ns < start, stretch.end_ns > end))
    shown = _fill_in(wide[0], narrow)
    num_narrow += sum(column not in shown or shown[column] != key for column, key in whole)
    return tuple(tuple(track) for track in wide), num_narrow, num_covered


@dataclass(slots=True, kw_only=True)
class BoxRun:
    """Boxes of one phase that stand so near to each other that one is drawn for all. key: name, number, role."""

    key: _Key
    phase: int | None
    sms: int | None
    start_ns: int
    end_ns: int
    busy_ns: int


def joined(boxes: Sequence[BoxDocument], start: int, end: int, scale: float) -> list[BoxRun]:
    """Boxes between two times, in order, for a picture of `scale` ns a column. Neighbours of one phase (outside phases,
    of one name) less than `JOINED` columns apart are one, unless more than a trifle stands between them."""
    role_of = roles(boxes)
    found: list[BoxRun] = []
    going_on: dict[tuple[int | None, str], BoxRun] = {}  # by phase and name; nothing has parted them yet
    for box in sorted(boxes, key=lambda box: (box["start_ns"], -box["end_ns"])):
        a, b = box["start_ns"], box["end_ns"]
        if b <= start or a >= end:
            continue
        key = (clean(box["name"]), number_of(box), role_of(box))
        mine = (box["phase"], key[0])
        for other, stretch in list(going_on.items()):  # what runs beside it does not part it, what comes after it does
            parted = other != mine and a >= stretch.end_ns and b - a > _TRIFLE * stretch.busy_ns
            if parted or a - stretch.end_ns >= JOINED * scale:
                del going_on[other]
        last = going_on.get(mine)
        if last:
            last.key = key if key == last.key else (key[0], "", key[2])  # several runs have no number
            last.end_ns = max(last.end_ns, b)
            last.busy_ns += box["busy_ns"]
            continue
        found.append(BoxRun(key=key, phase=box["phase"], sms=box["sms"], start_ns=a, end_ns=b, busy_ns=box["busy_ns"]))
        going_on[mine] = found[-1]
    return found


def roles(boxes: Sequence[BoxDocument]) -> Callable[[BoxDocument], str | None]:
    """What the colour of each of the boxes tells: its direction; without one its micro-batch, where phases of two or a
    few take turns; else nothing."""
    batches = {box["micro_batch"] for box in boxes if box["phase"] is not None and box["direction"] is None}
    by_batch = len(batches) > 1 and {str(batch) for batch in batches} <= palette.BATCH_COLOURS.keys()
    return lambda box: box["direction"] or (str(box["micro_batch"]) if by_batch and box["phase"] is not None else None)


def role_word(role: str) -> str:
    """What a legend calls a role."""
    return DIRECTIONS.get(role) or f"micro-batch {role}"


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


def _fill_in(track: list[Box], narrow: Mapping[int, Mapping[_Key, int]]) -> dict[int, _Key]:
    """Put boxes of a column or less into the columns that are free; the longest of a column stands for all of it.

    Neighbours of one name make one box, without a duration: what else ran in its columns is not known here. Returns
    which box each of the columns shows.
    """
    shown: dict[int, _Key] = {}
    taken = {column for box in track for column in range(box.left, box.right)}
    runs: list[Box] = []
    for column in sorted(set(narrow) - taken):
        key = shown[column] = max(narrow[column], key=lambda key: narrow[column][key])
        last = runs[-1] if runs else None
        if last and last.right == column and (last.name, last.role) == (key[0], key[2]):
            runs[-1] = replace(last, number="", right=column + 1)
        else:
            name, number, role = key
            box = Box(name=name, number=number, role=role, left=column, right=column + 1,
                      duration_ns=0, busy_ns=0)  # fmt: skip
            runs.append(box)
    track.extend(runs)
    track.sort(key=lambda box: box.left)
    return shown


def _box(stretch: BoxRun, left: int, right: int, before: bool, after: bool) -> Box:
    name, number, role = stretch.key
    return Box(
        name=name,
        number=number,
        role=role,
        left=left,
        right=right,
        duration_ns=stretch.end_ns - stretch.start_ns,
        busy_ns=stretch.busy_ns,
        before=before,
        after=after,
    )


def coverage(busy: Sequence[Sequence[int]], start: int, num_columns: int, scale: float) -> npt.NDArray[np.float64]:
    """Which part of each column is busy, 0 to 1. busy: [start, end, busy] in order and apart; `BusyStretch`."""
    if not busy:
        return np.zeros(num_columns)
    stretches = np.asarray(busy, dtype=np.float64)
    times = stretches[:, :2].ravel()
    before = np.concatenate(([0.0], np.cumsum(stretches[:, 2])))
    so_far = np.column_stack((before[:-1], before[1:])).ravel()
    edges = start + scale * np.arange(num_columns + 1)
    parts: npt.NDArray[np.float64] = np.clip(np.diff(np.interp(edges, times, so_far)) / scale, 0.0, 1.0)
    return parts


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
