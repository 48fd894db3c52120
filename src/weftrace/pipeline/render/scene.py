"""A simulated schedule as a scene, as DeepSeek draws DualPipe: a row a rank, time to the right, idle left blank; below
the ranks what they hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weftrace.alphabet import DIRECTIONS
from weftrace.errors import OutputError
from weftrace.pipeline.render.colours import KINDS, colour
from weftrace.pipeline.render.picture import Picture, idle_share, picture_of
from weftrace.pipeline.render.words import (
    action_text,
    headline,
    held_text,
    left_out,
    memory_text,
    shape_text,
    time_text,
)
from weftrace.pipeline.simulation import Simulation
from weftrace.render import palette
from weftrace.render.scene import FRAME, Curve, Key, Look, Rect, Row, Scene
from weftrace.render.scene_figure import scene_figure
from weftrace.render.scene_svg import DARK, scene_svg
from weftrace.units import percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_CELLS = 60_000  # what a browser still draws in an instant, some 8 MB
MAX_BARS = 20_000  # what plotly still moves smoothly
MAX_RANKS = 256
_LEFT, _RIGHT = 62, 112  # room for the ranks' names, and for what they wait and hold
_BAR, _GAP, _MEMORY = 21, 3, 48
_CELL_PX = 13.5  # of the shortest cells, so that two small digits fit, where the width allows


def svg_of(simulations: Sequence[Simulation], *, tooltips: bool = True) -> str:
    """Simulated schedules, one below the other on one scale of time, as the text of an SVG file.

    tooltips: each cell says what it is and when, to whoever points at it; without, the file is half as large.
    Raises `OutputError` where there are too many actions to draw as single cells.
    """
    if (num_cells := sum(len(simulation.schedule) for simulation in simulations)) > MAX_CELLS:
        raise OutputError(
            f"{num_cells:,} actions are more than an SVG can hold as cells ({MAX_CELLS:,}). Write a page (.html), "
            "which zooms, or .json.gz for Perfetto."
        )
    scenes = [schedule_scene(picture_of(simulation, MAX_RANKS), tooltips=tooltips) for simulation in simulations]
    lengths = [rect.end_ns - rect.start_ns for scene in scenes for rect in scene.rects if rect.end_ns > rect.start_ns]
    usual = float(np.quantile(lengths, 0.1)) if lengths else 1.0
    longest = max((scene.end_ns for scene in scenes), default=1)
    return scene_svg(scenes, min(max(_CELL_PX * longest / usual, 960 - _LEFT - _RIGHT), 3_600))


def figure_schedule(simulation: Simulation) -> go.Figure:
    """A row a rank, time to the right, a bar an action; an F&B is two halves in one frame. Below, what ranks hold.

    Of a schedule of more than `MAX_BARS` actions some ranks, evenly chosen, which the title says. Raises
    WeftraceError without plotly.
    """
    a_rank = max(1, len(simulation.schedule) // simulation.schedule.num_ranks)
    return scene_figure(schedule_scene(picture_of(simulation, max(2, MAX_BARS // a_rank))))


def schedule_scene(picture: Picture, *, tooltips: bool = True) -> Scene:
    """tooltips: each cell says what it is and when; without, an SVG is half as large."""
    ranks = picture.ranks.rows(named=True)
    row_of = {rank["rank"]: row for row, rank in enumerate(ranks)}
    rects = []
    for cell in picture.cells.iter_rows(named=True):
        title = _title(picture, cell) if tooltips else ""
        place = row_of[cell["rank"]], cell["start_ns"], cell["end_ns"]
        if cell["kind"] != "F&B":
            rects.append(Rect(*place, f"{cell['kind']}{cell['shade']}", str(cell["micro_batch"]), title))
            continue
        rects.append(Rect(*place, f"F{cell['shade']}", str(cell["micro_batch"]), title, foot=0.5))
        rects.append(Rect(*place, f"B{cell['back_shade']}", str(cell["back_micro_batch"]), title, top=0.5))
        rects.append(Rect(*place, FRAME))
    sides = ((percent(idle_share(rank)), held_text(rank["peak"], picture.held_in)) for rank in ranks)
    rows = (Row(label=f"rank {at}", height=_BAR, gap=_GAP, sides=side) for at, side in zip(row_of, sides, strict=True))
    return Scene(
        name=picture.name,
        title=" ".join(filter(None, (headline(picture), left_out(picture)))),
        facts=_facts(picture),
        start_ns=0,
        end_ns=picture.makespan_ns,
        unit_ns=picture.unit_ns,
        left=_LEFT,
        right=_RIGHT,
        side_heads=("idle", "peak"),
        looks=_looks(picture.shades),
        rows=(*rows, _memory(picture)),
        rects=rects,
        keys=tuple(_keys(picture)),
    )


def _looks(shades: tuple[str, ...]) -> dict[str, Look]:
    looks = {}
    for kind in KINDS:
        for at, shade in enumerate(shades):
            word = f"{kind}, {DIRECTIONS[kind]}" + (f", {shade}" if len(shades) > 1 else "")
            fill, dark = (colour(kind, at, len(shades), ground) for ground in (palette.PAPER, DARK))
            looks[f"{kind}{at}"] = Look(fill=fill, dark=dark, word=word)
    return {**looks, FRAME: Look(fill=palette.PAPER, word="F&B, overlapped")}


def _facts(picture: Picture) -> str:
    """The line below the name. Short: it has the width of the picture."""
    unit = " units" if picture.unit_ns else ""
    bubble = time_text(picture.bubble_ns, picture.unit_ns)
    parts = [
        shape_text(picture),
        f"{time_text(picture.makespan_ns, picture.unit_ns)}{unit}",
        f"bubble {bubble} ({percent(picture.bubble_share)}, boundary: {picture.boundary})",
        left_out(picture).rstrip("."),
    ]
    return " · ".join(filter(None, parts))


def _title(picture: Picture, cell: dict[str, Any]) -> str:
    start, end = (time_text(cell[at], picture.unit_ns) for at in ("start_ns", "end_ns"))
    if cell["cause"] is None:
        return f"{action_text(cell)}: {start} to {end}"
    cause = picture.cells.row(cell["cause"], named=True)
    return f"{action_text(cell)}: {start} to {end}, waited for {action_text(cause)}, on rank {cause['rank']}"


def _memory(picture: Picture) -> Row:
    """The band from the rank that holds least to the one that holds most, and the line of the one with the peak."""
    times, low, high = (amounts.tolist() for amounts in picture.band())
    own = picture.memory.filter(rank=picture.peak_rank)
    held = own["held"].to_list()
    return Row(
        label=held_text(picture.peak, picture.held_in),
        height=_MEMORY,
        gap=1,
        head=memory_text(picture),
        most=picture.peak,
        curves=(
            Curve("band", times, high, low),
            Curve("held", own["time_ns"].to_list(), held, summary=[held_text(one, picture.held_in) for one in held]),
        ),
    )


def _keys(picture: Picture) -> Iterator[Key]:
    """A swatch and a word for each colour that is drawn."""
    kinds, shades = set(picture.cells.get_column("kind").unique()), picture.shades
    for kind in KINDS:
        if kind in kinds or ("F&B" in kinds and kind in "FB"):
            yield Key(tuple(f"{kind}{at}" for at in range(len(shades))), f"{kind}  {DIRECTIONS[kind]}")
    if "F&B" in kinds:
        yield Key(("F0", f"B{len(shades) - 1}"), "F&B  overlapped", framed=True)
    if len(shades) > 1:
        yield Key((), f"full colour: {shades[0]}; fainter: {shades[-1]}")
