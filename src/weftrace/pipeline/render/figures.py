"""A simulated schedule as a plotly figure, for notebooks; it shows nothing by itself.

plotly is an optional dependency (`pip install weftrace[notebook]`) and is imported when a figure is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from weftrace.alphabet import DIRECTIONS
from weftrace.pipeline.render.colours import KINDS, colour, ink_on
from weftrace.pipeline.render.picture import Picture, picture_of
from weftrace.pipeline.render.words import action_told, headline, held_told, left_out, memory_told, time_told
from weftrace.pipeline.simulation import Simulation
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.units import MS, US

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_CELLS = 20_000  # what plotly still moves smoothly
_BAR = 0.86  # of a rank's row
_ROW_PX = 40  # so that a half has room for a number
_MEMORY_PX = 110


def figure_schedule(simulation: Simulation) -> go.Figure:
    """A row a rank, time to the right, a bar an action; an F&B is two halves in one frame. Below, what ranks hold.

    Of a schedule of more than `MAX_CELLS` actions some ranks, evenly chosen, which the title says. Raises
    WeftraceError without plotly.
    """
    go = plotly_objects()
    a_rank = max(1, len(simulation.schedule) // simulation.schedule.num_ranks)
    picture = picture_of(simulation, max(2, MAX_CELLS // a_rank))
    scale, unit = _unit(picture)
    figure = go.Figure()
    row_of = {rank: row for row, rank in enumerate(picture.ranks.get_column("rank"))}
    halves = _halves(picture)
    for (kind, shade), bars in sorted(halves.group_by("part", "part_shade"), key=lambda item: _order(*item[0])):
        figure.add_bar(**_bars(picture, bars, kind, shade, row_of, scale))
    if len(pairs := picture.cells.filter(kind="F&B")):
        figure.add_bar(
            name="F&B, overlapped", orientation="h", hoverinfo="skip", width=_BAR, offset=-_BAR / 2,
            base=(pairs["start_ns"] / scale).to_list(), x=((pairs["end_ns"] - pairs["start_ns"]) / scale).to_list(),
            y=[row_of[rank] for rank in pairs["rank"]],
            marker={"color": "rgba(0,0,0,0)", "line": {"color": palette.INK, "width": 1.4}},
        )  # fmt: skip
    _memory(figure, picture, scale)
    height = 270 + _ROW_PX * len(row_of) + _MEMORY_PX
    share = _MEMORY_PX / (height - 220)
    told = " ".join(filter(None, (headline(picture), left_out(picture))))
    ranks = list(row_of)
    figure.update_layout(
        barmode="overlay",
        bargap=0,
        xaxis={"title": f"time{unit}", "range": [0, picture.makespan_ns / scale], "anchor": "y2"},
        yaxis={
            "title": "rank", "autorange": "reversed", "domain": [share + 0.08, 1], "tickvals": list(range(len(ranks))),
            "ticktext": [str(rank) for rank in ranks], "zeroline": False, "showgrid": False,
        },
        yaxis2={"title": "held", "domain": [0, share], "anchor": "x", "rangemode": "tozero"},
        **layout(label(told), height=height),
    )  # fmt: skip
    legend = {"itemclick": False, "itemdoubleclick": False, "x": 0, "xanchor": "left", "y": -0.12, "yanchor": "top"}
    figure.update_layout(
        title={"font": {"size": 14}},
        legend=legend,
        margin={"l": 60, "r": 20, "t": 60, "b": 160},
        uniformtext={"minsize": 8, "mode": "hide"},
    )
    return figure


def _unit(picture: Picture) -> tuple[int, str]:
    """Nanoseconds in the axis's unit, and what that is called."""
    if picture.unit_ns:
        return picture.unit_ns, ", in units"
    return (MS, ", in ms") if picture.makespan_ns >= 10 * MS else (US, ", in µs")


def _halves(picture: Picture) -> pl.DataFrame:
    """The cells as they are filled: an F&B as an F and a B, with `part`, `part_shade`, `number`, and the `place` in its
    row: 0 all of it, 1 the upper half, 2 the lower."""
    cells = picture.cells.with_row_index("cell")
    single = cells.filter(pl.col("kind") != "F&B").with_columns(
        part="kind", part_shade="shade", number="micro_batch", place=pl.lit(0)
    )
    pairs = cells.filter(kind="F&B")
    upper = pairs.with_columns(part=pl.lit("F"), part_shade="shade", number="micro_batch", place=pl.lit(1))
    lower = pairs.with_columns(part=pl.lit("B"), part_shade="back_shade", number="back_micro_batch", place=pl.lit(2))
    return pl.concat([single, upper, lower])


def _order(kind: Any, shade: Any) -> tuple[int, int]:
    return list(KINDS).index(kind), int(shade)


def _bars(
    picture: Picture, bars: pl.DataFrame, kind: Any, shade: Any, row_of: dict[int, int], scale: int
) -> dict[str, Any]:
    fill = colour(kind, shade, len(picture.shades))
    name = f"{kind}, {DIRECTIONS[kind]}" + (f", {picture.shades[shade]}" if len(picture.shades) > 1 else "")
    return {
        "name": name,
        "orientation": "h",
        "base": (bars["start_ns"] / scale).to_list(),
        "x": ((bars["end_ns"] - bars["start_ns"]) / scale).to_list(),
        "y": [row_of[rank] for rank in bars["rank"]],
        "width": [_BAR / (2 if place else 1) for place in bars["place"]],
        "offset": [0.0 if place == 2 else -_BAR / 2 for place in bars["place"]],
        "text": [str(number) for number in bars["number"]],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "inside",
        "textfont": {"color": ink_on(fill), "size": 10},
        "marker": {"color": fill, "line": {"color": "rgba(0,0,0,0.3)", "width": 0.5}},
        "customdata": [_told(picture, cell) for cell in bars.iter_rows(named=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
    }


def _told(picture: Picture, cell: dict[str, Any]) -> str:
    start, end = (time_told(cell[at], picture.unit_ns) for at in ("start_ns", "end_ns"))
    return f"{action_told(cell)}<br>rank {cell['rank']}, {start} to {end}"


def _memory(figure: go.Figure, picture: Picture, scale: int) -> None:
    """The band of all ranks, and the line of the one that holds most."""
    times, low, high = picture.band()
    until = picture.makespan_ns / scale
    shape = {"mode": "lines", "yaxis": "y2", "hoverinfo": "skip", "line": {"shape": "hv", "width": 0}}
    x = [*(times / scale).tolist(), until]
    figure.add_scatter(x=x, y=[*low.tolist(), int(low[-1])], showlegend=False, **shape)
    figure.add_scatter(
        x=x,
        y=[*high.tolist(), int(high[-1])],
        fill="tonexty",
        fillcolor="rgba(20,153,168,0.3)",
        showlegend=False,
        **shape,
    )
    own = picture.memory.filter(rank=picture.peak_rank)
    held = own["held"].to_list()
    figure.add_scatter(
        name=memory_told(picture),
        x=[*(own["time_ns"] / scale).to_list(), until],
        y=[*held, held[-1]],
        text=[held_told(amount, picture.held_in) for amount in [*held, held[-1]]],
        mode="lines",
        yaxis="y2",
        line={"shape": "hv", "color": palette.MEMORY, "width": 1.6},
        hovertemplate="%{x:.4g}: %{text}<extra></extra>",
    )
