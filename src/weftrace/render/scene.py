"""A picture of rows in time, made once and drawn by several back ends: rectangles, texts, arrows, curves, a legend.

`render/lanes_scene.py` makes one of lanes, `pipeline/render/scene.py` one of a simulated schedule; `scene_svg.py` and
`scene_figure.py` draw either. Times are nanoseconds; heights are pixels of the SVG.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weftrace.units import tick

#: The look of a frame around other rectangles: an outline without a ground.
FRAME = "frame"
#: Of a stretch of time: start, end, and how much of it was filled.
Ran = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How rectangles are filled, in the light and in the dark, and what a figure's legend calls them."""

    fill: str
    word: str
    dark: str = ""
    opacity: float = 1.0


class Rect(NamedTuple):
    """A rectangle of a row. A scene has up to 60,000 of them.

    look: a key of `Scene.looks`. text: stands in it where it fits. title: what is said to whoever points at it.
    top, foot: which part of the row's height it takes. ran: when it is filled, from its foot, as high as it ran; all of
    it where that is not known. full: the part of its time in which it ran.
    """

    row: int
    start_ns: int
    end_ns: int
    look: str
    text: str = ""
    title: str = ""
    top: float = 0.0
    foot: float = 1.0
    ran: Ran | None = None
    full: float = 1.0


class Mark(NamedTuple):
    """A small triangle at the foot of a row, that points away from it or towards it."""

    row: int
    at_ns: int
    away: bool


class Arrow(NamedTuple):
    """What waits for what, from the end of one to the start of the other."""

    from_row: int
    from_ns: int
    to_row: int
    to_ns: int
    faint: bool


class Curve(NamedTuple):
    """Amounts that change in steps: a line, or the band between two of them. summary: each amount in words."""

    look: str
    times_ns: Sequence[int]
    high: Sequence[int]
    low: Sequence[int] | None = None
    summary: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A row of a scene: its labels at the left, what stands at its right, and its height with the gap below it.

    grounded: whether it has a ground of its own; other rows have a line below them. head: a text above it, for which
    there is room. curves: of amounts up to `most`.
    """

    label: str
    note: str = ""
    height: float
    gap: float
    sides: tuple[str, ...] = ()
    grounded: bool = False
    head: str = ""
    most: int = 1
    curves: tuple[Curve, ...] = ()

    @property
    def lead(self) -> float:
        """Room above it, for its head."""
        return 16.0 if self.head else 0.0


class Key(NamedTuple):
    """An entry of the legend: swatches of looks side by side, framed or not, and what they mean."""

    looks: tuple[str, ...]
    words: str
    framed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Rows in time, what lies in them, and what it means.

    name: its heading; title: a sentence that says what it shows; clock: what its axis tells. unit_ns: the unit in which
    times are told, where they are units and no measurement; else 0. left, right: room for labels, and for what stands
    at the right, under `side_heads`.
    """

    name: str
    title: str
    facts: str = ""
    clock: str = "time"
    start_ns: int
    end_ns: int
    unit_ns: int = 0
    left: float = 0.0
    right: float = 0.0
    side_heads: tuple[str, ...] = ()
    looks: Mapping[str, Look]
    rows: tuple[Row, ...]
    rects: Sequence[Rect]
    marks: Sequence[Mark] = ()
    arrows: Sequence[Arrow] = ()
    keys: tuple[Key, ...] = ()


def joined_stretches(busy: Ran, gap_ns: float) -> list[tuple[int, int, int]]:
    """[start, end, busy] of stretches in order, neighbours less than `gap_ns` apart as one."""
    found: list[tuple[int, int, int]] = []
    for start, end, ran in busy:
        if found and start - found[-1][1] < gap_ns:
            found[-1] = found[-1][0], end, found[-1][2] + ran
        else:
            found.append((start, end, ran))
    return found


def round_up(value: float, steps: Sequence[float] = (1, 2, 2.5, 5, 10)) -> int:
    """The next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(max(value, 1)))
    return int(next(step * power for step in steps if step * power >= value))


def ticks(start_ns: float, end_ns: float, least_ns: float, unit_ns: int) -> Iterator[tuple[int, str]]:
    """Round times of a stretch, at least so far apart, and their labels: in one unit, with the digits that tell them
    apart."""
    unit = unit_ns or 1
    step = unit * round_up(0.999 * least_ns / unit, (1, 2, 5, 10))
    for time in range(math.ceil(start_ns / step) * step, math.floor(end_ns) + 1, step):
        text = f"{time / unit_ns:,.0f}" if unit_ns else tick(time, step, end_ns - start_ns)
        yield time, text if time else "0"
