"""A simulated schedule in a terminal: a line a rank, a letter an action, the micro-batch's number where it fits.

    F0F1F2F3      B0--F4B1--F5B2--     F forward, B backward, I and W its parts, blank: idle
    F2f12F&b-----                      lower case: the other direction, or a later chunk of the rank

Time is to scale. Where a column is longer than actions are, the kind that fills most of it is drawn, blank where more
than half of it is idle; and that is said.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, RenderableType
from rich.style import Style
from rich.text import Text

from weftrace.alphabet import DIRECTIONS
from weftrace.pipeline.render.colours import KINDS, colour
from weftrace.pipeline.render.picture import Picture, idle_share, picture_of
from weftrace.pipeline.render.words import headline, held_text, held_words, left_out, length_text, shape_text
from weftrace.pipeline.simulation import Simulation
from weftrace.render import palette
from weftrace.render.console_parts import DIM, opening, print_blocks
from weftrace.render.console_text import clean
from weftrace.render.scene import ticks

MAX_WIDTH = 200
MAX_RANKS = 32
_IDLE = 6  # columns of a rank's idle share
_TICK_COLUMNS = 12
_BARS = " ▁▂▃▄▅▆▇█"


def print_simulation(simulation: Simulation, console: Console) -> None:
    """Print a simulated schedule: how long it takes and what it holds in a sentence, then the picture."""
    picture = picture_of(simulation, MAX_RANKS)
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        *opening("pipeline show", [shape_text(picture)], headline(picture)),
        drawn(picture, width),
    ]
    if notes := [note for note in (left_out(picture), *simulation.schedule.notes) if note]:
        blocks.append(Text("\n".join(map(clean, notes)), style=DIM))
    print_blocks(blocks, console, width)


def drawn(picture: Picture, width: int = 80) -> Text:
    """The picture as text, no line longer than `width`: an axis, a line a rank, what is held, what letters mean."""
    ranks = picture.ranks.rows(named=True)
    names = [f"{rank['rank']}" for rank in ranks]
    idle = [f"{100 * idle_share(rank):.1f}" for rank in ranks]
    peaks = [held_text(rank["peak"], picture.held_in) for rank in ranks]
    margin, side = max(4, *(len(name) + 1 for name in names)), max(4, *(len(peak) + 1 for peak in peaks))
    columns, column_ns = _scale(picture, max(width - margin - _IDLE - side, 10))
    axis = _axis(picture, columns, column_ns)
    lines = [Text(f"{'rank':>{margin}}{axis}{'idle%':>{_IDLE}}{'peak':>{side}}", style=DIM)]
    for rank, name, share, peak in zip(ranks, names, idle, peaks, strict=True):
        line = _line(picture, rank["rank"], columns, column_ns)
        lines.append(Text.assemble((f"{name + ' ':>{margin}}", DIM), line, f"{share:>{_IDLE}}{peak:>{side}}"))
    lines += [Text(f"{'mem ':>{margin}}", style=DIM) + _held(picture, columns, column_ns)]
    return Text("\n").join([*lines, *_legend(picture, column_ns, margin)])


def _scale(picture: Picture, room: int) -> tuple[int, float]:
    """How many columns, and how long each is: a whole number of columns for what all times are multiples of, if any."""
    times = picture.cells.get_column("start_ns").to_numpy(), picture.cells.get_column("end_ns").to_numpy()
    common = int(np.gcd.reduce(np.concatenate(times))) if picture.cells.height else 0
    if common and (steps := picture.makespan_ns // common) <= room:
        return room // steps * steps, common / (room // steps)
    return room, (picture.makespan_ns or 1) / room


def _line(picture: Picture, rank: int, columns: int, column_ns: float) -> Text:
    """A rank's row: runs of columns that show the same cell, each with as much of its label as fits."""
    cells = picture.cells.filter(rank=rank).rows(named=True)
    spans = [(cell["start_ns"], cell["end_ns"], f"{cell['kind']} {cell['shade']}") for cell in cells]
    fills = most_of_column(spans, columns, column_ns)
    line = Text()
    begins = np.flatnonzero(np.diff(fills, prepend=-2))
    for begin, end in zip(begins, [*begins[1:], columns], strict=True):
        if fills[begin] < 0:
            line.append(" " * int(end - begin))
        else:
            line.append_text(_cell(picture, cells[fills[begin]], int(end - begin)))
    return line


def most_of_column(spans: list[tuple[int, int, str]], columns: int, column_ns: float) -> NDArray[np.int64]:
    """What is drawn in each column: -1, idle, where that fills more than half of it; else a span of the kind that fills
    most of it, the longest there. spans: start, end, kind; in order."""
    busy = [0.0] * columns
    of_kind: list[dict[str, float]] = [{} for _ in range(columns)]
    longest: list[dict[str, tuple[float, int]]] = [{} for _ in range(columns)]
    for number, (start, end, kind) in enumerate(spans):
        for column in range(int(start / column_ns), min(columns, math.ceil(end / column_ns))):
            part = min(end, (column + 1) * column_ns) - max(start, column * column_ns)
            busy[column] += part
            of_kind[column][kind] = of_kind[column].get(kind, 0.0) + part
            if part > longest[column].get(kind, (0.0, 0))[0] * (1 + 1e-9):
                longest[column][kind] = part, number
    drawn = np.full(columns, -1, np.int64)
    for column in range(columns):
        if longest[column] and busy[column] >= 0.5 * column_ns * (1 - 1e-9):
            kind = max(longest[column], key=lambda one: round(of_kind[column][one], 6))
            drawn[column] = longest[column][kind][1]
    return drawn


def _cell(picture: Picture, cell: dict[str, Any], wide: int) -> Text:
    forward, backward = _labels(cell, wide)
    num_shades = len(picture.shades)
    kind = "F" if cell["kind"] == "F&B" else cell["kind"]
    text = Text(forward, style=_style(kind, cell["shade"], num_shades))
    return text.append(backward, style=_style("B", cell["back_shade"], num_shades)) if backward else text


def _labels(cell: dict[str, Any], wide: int) -> tuple[str, str]:
    """What stands in the columns of a cell: of an F&B its forward's part and its backward's; else all and nothing."""
    letter = _letter(cell["kind"][0], cell["shade"])
    if cell["kind"] != "F&B":
        return _padded([f"{letter}{cell['micro_batch']}", letter], wide), ""
    back = _letter("B", cell["back_shade"])
    if wide == 1:
        return "&", ""
    numbers = f"{letter}{cell['micro_batch']}&", f"{back}{cell['back_micro_batch']}"
    if sum(map(len, numbers)) <= wide:
        return numbers[0], _padded([numbers[1]], wide - len(numbers[0]))
    return (letter, back) if wide == 2 else (f"{letter}&", _padded([back], wide - 2))


def _letter(kind: str, shade: int) -> str:
    return kind.lower() if shade else kind


def _padded(labels: list[str], wide: int) -> str:
    label = next(label for label in labels if len(label) <= wide)
    return label + "-" * (wide - len(label))


def _style(kind: str, shade: int, num_shades: int) -> Style:
    ground = colour(kind, shade, num_shades)
    return Style(color=palette.ink_on(ground), bgcolor=ground)


def _axis(picture: Picture, columns: int, column_ns: float) -> str:
    line = [" "] * columns
    for time, text in ticks(0, picture.makespan_ns, _TICK_COLUMNS * column_ns, picture.unit_ns):
        at, label = round(time / column_ns), f"|{text}"
        if at + len(label) <= columns:
            line[at : at + len(label)] = label
    return "".join(line)


def _held(picture: Picture, columns: int, column_ns: float) -> Text:
    """The most that any rank holds in each column."""
    times, _, high = picture.band()
    bars = []
    for column in range(columns):
        first, last = np.searchsorted(times, [column * column_ns, (column + 1) * column_ns - 1e-6], side="right")
        most = int(high[max(first - 1, 0) : max(last, first, 1)].max())
        bars.append(_BARS[math.ceil((len(_BARS) - 1) * most / (picture.peak or 1))])
    return Text("".join(bars), style=Style(color=palette.MEMORY))


def _legend(picture: Picture, column_ns: float, margin: int) -> list[Text]:
    kinds = set(picture.cells.get_column("kind").unique())
    kinds_line = Text(" " * margin)
    for kind in (kind for kind in DIRECTIONS if kind in kinds or (kind in "FB" and "F&B" in kinds)):
        style = _style(kind, 0, 1) if kind in KINDS else Style()
        kinds_line.append(kind, style=style).append(f" {'overlapped' if kind == 'F&B' else DIRECTIONS[kind]}  ")
    remarks = [f"mem: {held_words(picture)}, the most of any rank"]
    if len(picture.shades) > 1:
        remarks.insert(0, f"lower case: {', '.join(picture.shades[1:])}")
    lengths = picture.cells["end_ns"] - picture.cells["start_ns"]
    if column_ns > (lengths.filter(lengths > 0).min() or 0):  # type: ignore[operator]
        column = length_text(float(f"{column_ns:.3g}"), picture.unit_ns)
        remarks.append(
            f"a column is {column}, longer than some actions: the kind that fills most is drawn; -o FILE.html zooms"
        )
    return [kinds_line, *(Text(" " * margin + remark, style=DIM) for remark in remarks)]
