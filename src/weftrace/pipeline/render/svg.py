"""Simulated schedules as one SVG file, as DeepSeek draws DualPipe: a row a rank, time to the right, idle left blank.

Several pictures stand below each other on one scale of time. Light or dark follows the reader's system. A cell's place
and width are its start and duration, to the hundredth of a pixel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.alphabet import DIRECTIONS
from weftrace.errors import OutputError
from weftrace.pipeline.render.colours import KINDS, colour, ink_on
from weftrace.pipeline.render.picture import Picture, idle_share, picture_of
from weftrace.pipeline.render.words import (
    action_told,
    headline,
    held_told,
    left_out,
    memory_told,
    shape_told,
    tick_told,
    time_told,
)
from weftrace.pipeline.simulation import Simulation
from weftrace.render import palette
from weftrace.render.svg_parts import FONT, THEMES, px, svg_text
from weftrace.units import percent

MAX_CELLS = 60_000  # what a browser still draws in an instant, some 8 MB
MAX_RANKS = 256
_LEFT, _RIGHT = 62, 112  # room for the ranks' names, and for what they wait and hold
_ROW, _BAR = 24, 21  # a rank's row, and the cell in it
_HEAD, _AXIS, _MEMORY, _FOOT = 46, 18, 64, 18  # title, ticks, memory curve with the room above it
_MIN_WIDTH, _MAX_WIDTH = 960, 3_600
_CELL_PX = 13.5  # of the shortest cells, so that two small digits fit, where the width allows
_DIGIT, _SMALL_DIGIT = 6.1, 5.3  # pixels of a digit at 10.5 px, and at 9.2 px
_LEGEND = 30
_TICK_PX = 76  # between two ticks of the axis, at least
_LOOK = (
    "text{font-size:10.5px;font-variant-numeric:tabular-nums}.name{font-size:15px;font-weight:650}"
    ".small{font-size:11px;font-weight:400}.muted{font-size:12px}.rank,.side{text-anchor:end;font-size:11.5px}"
    ".tick{font-size:10.5px}.number{text-anchor:middle}.s{font-size:9.2px}.line{fill:none;stroke-width:1}"
    f".c{{stroke:rgb(0 0 0/.28);stroke-width:.6}}.pair{{fill:none;stroke-width:1.2}}.band{{fill:{palette.MEMORY};"
    f"opacity:.3}}.held{{fill:none;stroke:{palette.MEMORY};stroke-width:1.6}}"
)


def svg_of(simulations: Sequence[Simulation], *, tooltips: bool = True) -> str:
    """Simulated schedules, one below the other, as the text of an SVG file.

    tooltips: each cell says what it is and when, to whoever points at it; without, the file is half as large.
    Raises `OutputError` where there are too many actions to draw as single cells.
    """
    if (num_cells := sum(len(simulation.schedule) for simulation in simulations)) > MAX_CELLS:
        raise OutputError(
            f"{num_cells:,} actions are more than an SVG can hold as cells ({MAX_CELLS:,}). Write a page (.html), "
            "which zooms, or .json.gz for Perfetto."
        )
    pictures = [picture_of(simulation, MAX_RANKS) for simulation in simulations]
    longest = max((picture.makespan_ns for picture in pictures), default=0) or 1
    width = _plot_width(pictures, longest)
    scale = width / longest
    heights = [_height(picture) for picture in pictures]
    total_width, total_height = _LEFT + width + _RIGHT, sum(heights) + _LEGEND
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {px(total_width)} {px(total_height)}" '
        f'width="{px(total_width)}" height="{px(total_height)}" role="img" font-family="{FONT}">',
        f"<title>{svg_text(' '.join(headline(picture) for picture in pictures))}</title>",
        f"<style>{_style(pictures)}</style>",
        f'<rect class="panel" width="{px(total_width)}" height="{px(total_height)}"/>',
    ]
    top = 0.0
    for picture, height in zip(pictures, heights, strict=True):
        parts += [f'<g class="picture" transform="translate({_LEFT} {px(top)})">']
        parts += _picture(picture, scale, width, tooltips)
        parts += ["</g>"]
        top += height
    parts += [f'<g transform="translate({_LEFT} {px(top)})">', *_legend(pictures), "</g>", "</svg>"]
    return "\n".join(parts) + "\n"


def _plot_width(pictures: Sequence[Picture], longest: int) -> float:
    """So wide that most numbers fit their cells: pixels from 0 to the longest makespan."""
    lengths = [(picture.cells["end_ns"] - picture.cells["start_ns"]).to_numpy() for picture in pictures]
    positive = np.concatenate([length[length > 0] for length in lengths] or [np.zeros(0)])
    usual = float(np.quantile(positive, 0.1)) if len(positive) else 1.0
    return float(min(max(_CELL_PX * longest / usual, _MIN_WIDTH - _LEFT - _RIGHT), _MAX_WIDTH))


def _height(picture: Picture) -> float:
    return _HEAD + _AXIS + _ROW * picture.ranks.height + _MEMORY + _FOOT


def _picture(picture: Picture, scale: float, width: float, tooltips: bool) -> Iterator[str]:
    rows_end = _HEAD + _AXIS + _ROW * picture.ranks.height
    yield f'<text class="name" x="0" y="20">{svg_text(picture.name)}</text>'
    yield f'<text class="muted" x="0" y="37">{svg_text(_facts(picture))}</text>'
    yield from _axis(picture, scale, rows_end)
    for x, word in ((52, "idle"), (102, "peak")):
        yield f'<text class="side" x="{px(width + x)}" y="{_HEAD + 7}">{word}</text>'
    for at, rank in enumerate(picture.ranks.iter_rows(named=True)):
        yield from _row(picture, rank, scale, width, _HEAD + _AXIS + _ROW * at, tooltips)
    yield from _memory(picture, scale, width, rows_end)


def _facts(picture: Picture) -> str:
    """The line below the name. Short: it has the width of the picture."""
    unit = " units" if picture.unit_ns else ""
    bubble = time_told(picture.bubble_ns, picture.unit_ns)
    told = [
        shape_told(picture),
        f"{time_told(picture.makespan_ns, picture.unit_ns)}{unit}",
        f"bubble {bubble} ({percent(picture.bubble_share)}, boundary: {picture.boundary})",
        left_out(picture).rstrip("."),
    ]
    return " · ".join(filter(None, told))


def _axis(picture: Picture, scale: float, bottom: float) -> Iterator[str]:
    step = tick_step(_TICK_PX / scale, picture.unit_ns)
    for number, time_ns in enumerate(np.arange(0, picture.makespan_ns + 1, step)):
        x = px(time_ns * scale)
        label = tick_told(float(time_ns), step, picture.makespan_ns, picture.unit_ns) if number else "0"
        yield f'<path class="line" d="M{x} {_HEAD + 10}V{px(bottom)}"/>'
        yield f'<text class="tick" x="{x}" y="{_HEAD + 7}">{svg_text(label)}</text>'


def tick_step(least_ns: float, unit_ns: int) -> float:
    """The next of 1, 2, 5, 10, 20 … nanoseconds, or units, that is not shorter."""
    unit = unit_ns or 1
    power = 10.0 ** np.floor(np.log10(max(least_ns / unit, 1)))
    return float(unit * next(m * power for m in (1, 2, 5, 10) if m * power * unit >= least_ns * 0.999))


def _row(
    picture: Picture, rank: dict[str, int], scale: float, width: float, top: float, tooltips: bool
) -> Iterator[str]:
    yield f'<g class="row" data-rank="{rank["rank"]}" transform="translate(0 {px(top)})">'
    yield f'<path class="line" d="M0 {_ROW - 1}H{px(width)}"/>'
    yield f'<text class="rank" x="-8" y="15">rank {rank["rank"]}</text>'
    cells = picture.cells.filter(rank=rank["rank"])
    numbers: list[str] = []
    for cell in cells.iter_rows(named=True):
        x, wide = cell["start_ns"] * scale, (cell["end_ns"] - cell["start_ns"]) * scale
        if cell["kind"] == "F&B":
            yield from _pair(picture, cell, x, wide, numbers, tooltips)
            continue
        label = f"{cell['kind']}{cell['shade']}"
        yield _cell(label, x, 0, wide, _BAR, _title(picture, cell) if tooltips else "")
        if _fits(cell["micro_batch"], _DIGIT, wide):
            numbers.append(_number(label, x + wide / 2, 14.4, cell["micro_batch"]))
        elif _fits(cell["micro_batch"], _SMALL_DIGIT, wide):
            numbers.append(_number(f"{label} s", x + wide / 2, 14, cell["micro_batch"]))
    if numbers:
        yield f'<g class="number">{"".join(numbers)}</g>'
    yield f'<text class="side" x="{px(width + 52)}" y="15">{percent(idle_share(rank))}</text>'
    yield f'<text class="side" x="{px(width + 102)}" y="15">{held_told(rank["peak"], picture.held_in)}</text>'
    yield "</g>"


def _pair(
    picture: Picture, cell: dict[str, Any], x: float, wide: float, numbers: list[str], tooltips: bool
) -> Iterator[str]:
    """An F&B: its forward above, its backward below, one frame around both, as both take all of the time."""
    half = _BAR / 2
    title = _title(picture, cell) if tooltips else ""
    parts = (("F", cell["shade"], cell["micro_batch"], 8.7), ("B", cell["back_shade"], cell["back_micro_batch"], 19.0))
    for at, (kind, shade, micro_batch, base) in enumerate(parts):
        yield _cell(f"{kind}{shade}", x, at * half, wide, half, title)
        if _fits(micro_batch, _SMALL_DIGIT, wide):
            numbers.append(_number(f"{kind}{shade} s", x + wide / 2, base, micro_batch))
    if wide > 6:
        yield f'<rect class="pair" x="{px(x + 0.6)}" y="0.6" width="{px(wide - 1.2)}" height="{_BAR - 1.2}"/>'


def _cell(label: str, x: float, y: float, wide: float, high: float, title: str) -> str:
    at = f' y="{px(y)}"' if y else ""
    body = f"><title>{title}</title></rect>" if title else "/>"
    return f'<rect class="c {label}" x="{px(x)}"{at} width="{px(wide)}" height="{px(high)}"{body}'


def _number(label: str, x: float, y: float, number: int) -> str:
    return f'<text class="n{label}" x="{px(x)}" y="{y}">{number}</text>'


def _fits(number: int, digit: float, wide: float) -> bool:
    return len(str(number)) * digit + 2 <= wide


def _title(picture: Picture, cell: dict[str, Any]) -> str:
    start, end = (time_told(cell[at], picture.unit_ns) for at in ("start_ns", "end_ns"))
    return svg_text(f"{action_told(cell)}: {start} to {end}{waited(picture, cell)}")


def waited(picture: Picture, cell: dict[str, Any]) -> str:
    """What a cell stood waiting for, after a comma; nothing where its rank did not wait."""
    if cell["cause"] is None:
        return ""
    cause = picture.cells.row(cell["cause"], named=True)
    return f", waited for {action_told(cause)}, on rank {cause['rank']}"


def _memory(picture: Picture, scale: float, width: float, top: float) -> Iterator[str]:
    """The band from the rank that holds least to the one that holds most, and the line of the one with the peak."""
    base, ceiling = top + _MEMORY, top + 16.0
    high_px = (base - ceiling) / (picture.peak or 1)
    end = picture.makespan_ns * scale

    def points(time_ns: NDArray[np.int64], held: NDArray[np.int64]) -> list[tuple[str, str]]:
        return [(px(at * scale), px(base - amount * high_px)) for at, amount in zip(time_ns, held, strict=True)]

    times, low, high = picture.band()
    lower = points(times, low)
    ways = [f"H{x}V{y}" for x, y in points(times, high)]
    back = [f"V{y}H{x}" for x, y in reversed(lower)]
    yield f'<path class="band" d="M0 {px(base)}{"".join(ways)}H{px(end)}{"".join(back)}Z"/>'
    rank = picture.peak_rank
    own = picture.memory.filter(rank=rank)
    steps = "".join(f"H{x}V{y}" for x, y in points(own["time_ns"].to_numpy(), own["held"].to_numpy()))
    yield f'<path class="held" d="M0 {px(base)}{steps}H{px(end)}"/>'
    yield f'<path class="line" d="M0 {px(base)}H{px(width)}"/>'
    peak = held_told(picture.peak, picture.held_in)
    yield f'<text class="rank" x="-8" y="{px(ceiling + 4)}">{peak}</text>'
    yield f'<text class="rank" x="-8" y="{px(base)}">0</text>'
    yield f'<text class="name small" x="0" y="{px(top + 11)}">{svg_text(memory_told(picture))}</text>'


def _legend(pictures: Sequence[Picture]) -> Iterator[str]:
    """A swatch and a word for each colour that is drawn."""
    kinds = {kind for picture in pictures for kind in picture.cells.get_column("kind").unique()}
    shades = max((picture.shades for picture in pictures), key=len, default=("",))
    keys = [(kind, DIRECTIONS[kind]) for kind in KINDS if kind in kinds or ("F&B" in kinds and kind in "FB")]
    x = 0.0
    for kind, word in keys:
        for at in range(len(shades)):
            yield f'<rect class="c {kind}{at}" x="{px(x + 13 * at)}" y="4" width="13" height="13"/>'
        yield f'<text class="muted" x="{px(x + 13 * len(shades) + 6)}" y="15">{kind}  {word}</text>'
        x += 13 * len(shades) + 34 + 6.6 * len(word)
    if "F&B" in kinds:
        yield f'<rect class="c F0" x="{px(x)}" y="4" width="26" height="6.5"/>'
        yield f'<rect class="c B{len(shades) - 1}" x="{px(x)}" y="10.5" width="26" height="6.5"/>'
        yield f'<rect class="pair" x="{px(x + 0.6)}" y="4.6" width="24.8" height="11.8"/>'
        yield f'<text class="muted" x="{px(x + 32)}" y="15">F&amp;B  overlapped</text>'
        x += 140
    if len(shades) > 1:
        yield f'<text class="muted" x="{px(x)}" y="15">full colour: {shades[0]}; fainter: {shades[-1]}</text>'


def _style(pictures: Sequence[Picture]) -> str:
    """Colours by role, once for the light and once for the dark."""
    shades = max((len(picture.shades) for picture in pictures), default=1)
    light, dark = (_colours(theme, shades) for theme in ("light", "dark"))
    return f"{_LOOK}{light}@media (prefers-color-scheme:dark){{{dark}}}"


def _colours(theme: str, shades: int) -> str:
    roles = THEMES[theme]
    parts = [
        f".panel{{fill:{roles['panel']}}}.line{{stroke:{roles['line']}}}.pair{{stroke:{roles['text']}}}",
        f".name{{fill:{roles['text']}}}.muted,.tick,.rank,.side{{fill:{roles['muted']}}}",
    ]
    for kind in KINDS:
        for at in range(shades):
            fill = colour(kind, at, shades, roles["panel"])
            parts.append(f".{kind}{at}{{fill:{fill}}}.n{kind}{at}{{fill:{ink_on(fill)}}}")
    return "".join(parts)
