"""Critical paths, what-ifs and sensitivities as plotly figures, for notebooks; they show nothing by themselves.

plotly is an optional dependency (`pip install weftrace[notebook]`) and is imported when a figure is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.render.colours import CLASS_COLOURS, ERROR_COLOUR
from weftrace.advice.render.overlay import stream_name
from weftrace.advice.sensitivities import Curve, Sensitivity
from weftrace.advice.waterfalls import Waterfall
from weftrace.render import palette
from weftrace.render.console_text import shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.units import MS, duration, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLUMNS = 1500  # of more intervals in a row, each of so many columns is as high as it was full
_MOST_BARS = 24  # of a sensitivity: those that save most
_PATH = "critical path"


def path_figure(path: CriticalPath) -> go.Figure:
    """The critical path by class over time in ms, as replayed, and under it its ops on their streams and threads.

    Where a row has more intervals than a screen has columns, a column is as high as it was full.
    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    begin = path.parts.item(0, "from_ns")
    ops = path.path.select("stream", "rank", "class_", "from_ns", "until_ns")
    several = ops.get_column("rank").n_unique() > 1
    tracks = ops.select("rank", "stream").unique().sort("rank", "stream").rows()
    rows = [_PATH, *(_track(rank, stream, several) for rank, stream in tracks)]
    for name, colour in CLASS_COLOURS.items():
        drawn = [(_PATH, path.parts.filter(class_=name))]
        of_class = ops.filter(class_=name, until_ns=pl.col("until_ns").clip(begin)).with_columns(
            pl.col("from_ns").clip(begin)
        )
        drawn += [(_track(rank, stream, several), of_class.filter(rank=rank, stream=stream)) for rank, stream in tracks]
        bars = [(row, *_stretches(frame, begin, path.span_ns)) for row, frame in drawn]
        if not any(len(start) for _, start, _, _ in bars):
            continue
        _add_bars(figure, name, colour, bars)
    figure.update_layout(barmode="overlay", **layout(label(path.sentence), height=190 + 46 * len(rows)))
    figure.update_layout(title_font_size=14)
    figure.update_xaxes(title="time (ms), replayed", range=[0, path.span_ns / MS])
    figure.update_yaxes(categoryorder="array", categoryarray=rows[::-1], type="category")
    return figure


def waterfall_figure(found: Waterfall) -> go.Figure:
    """Bars that add up to the measured span, one after the other; beside each what it would save alone, where known.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    names = found.bars.get_column("name").to_list()
    lengths = found.bars.get_column("time_ns").to_numpy()
    begins = np.cumsum(lengths) - lengths
    alone = found.bars.get_column("alone_ns").to_list()
    saved = ["" if each is None else f", alone saves {duration(each)}" for each in alone]
    figure.add_bar(
        orientation="h",
        y=[label(name) for name in names],
        base=(begins / MS).tolist(),
        x=(lengths / MS).tolist(),
        marker_color=[CLASS_COLOURS.get(name, ERROR_COLOUR) for name in names],
        text=[f"{percent(n / max(found.span_ns, 1))}{told}" for n, told in zip(lengths.tolist(), saved, strict=True)],
        textposition="auto",
        customdata=[duration(n) for n in lengths.tolist()],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
    )
    title = f"Where the {duration(found.span_ns)} go, by class on the critical path"
    figure.update_layout(**layout(title, height=200 + 36 * len(names)), showlegend=False)
    figure.update_xaxes(title="ms, one after the other")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def sensitivity_figure(found: Sensitivity) -> go.Figure:
    """What of the span is saved with each class, family and phase faster, most first. Raises WeftraceError without
    plotly."""
    go = plotly_objects()
    figure = go.Figure()
    table = found.table.sort("saved_ns", descending=True, maintain_order=True).head(_MOST_BARS)
    names = [label(shorten_middle(name, 40)) for name in table.get_column("selector")]
    colours = dict(zip(("class", "family", "phase", "rank"), palette.BANDS, strict=False))
    for kind in table.get_column("kind").cast(pl.String).unique(maintain_order=True):
        rows = table.filter(pl.col("kind") == kind)
        figure.add_bar(
            name=kind, orientation="h", y=[label(shorten_middle(name, 40)) for name in rows["selector"]],
            x=(100 * rows["share"]).to_list(), marker_color=colours.get(kind, palette.COMPUTE),
            customdata=[f"{duration(a)} of {duration(b)}" for a, b in rows.select("saved_ns", "time_ns").rows()],
            hovertemplate="%{y}: %{x:.3f} % (%{customdata} of its own time)<extra></extra>",
        )  # fmt: skip
    title = f"{100 * found.by:g} % faster: how much of the step is saved (replay {100 * found.error:+.1f} % off)"
    figure.update_layout(**layout(title, height=200 + 24 * max(1, len(names))), barmode="overlay")
    figure.update_xaxes(title="% of the span", zeroline=True)
    figure.update_yaxes(categoryorder="array", categoryarray=names[::-1], type="category")
    return figure


def curve_figure(found: Curve) -> go.Figure:
    """The change of the span by the factor that durations of one selection are multiplied by; the knee is marked.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    factors, spans, changes = (found.points.get_column(name).to_list() for name in ("factor", "span_ns", "change"))
    figure.add_scatter(
        name=label(found.selector), mode="lines+markers", x=factors, y=[100 * change for change in changes],
        line_color=palette.COMMUNICATION, customdata=[duration(span) for span in spans],
        hovertemplate="×%{x:g}: %{y:+.2f} %, %{customdata}<extra></extra>",
    )  # fmt: skip
    figure.add_hline(y=0, line_color=palette.INK, line_width=1)
    title = f"{label(found.selector)}: {label(found.sentence)} (replay {100 * found.error:+.1f} % off)"
    figure.update_layout(**layout(title, height=460), title_font_size=14, showlegend=False)
    figure.update_xaxes(title=f"time of {label(found.selector)}, as a factor")
    figure.update_yaxes(title="change of the span, %")
    return figure


_Bars = tuple[str, NDArray[Any], NDArray[Any], NDArray[Any]]


def _add_bars(figure: go.Figure, name: str, colour: str, bars: list[_Bars]) -> None:
    """Bars of one class in several rows: (row, starts, lengths and heights), in ns from the span's begin."""
    starts, lengths, heights = (np.concatenate([each[at] for each in bars]) for at in (1, 2, 3))
    figure.add_bar(
        name=name,
        orientation="h",
        y=[row for row, start, _, _ in bars for _ in range(len(start))],
        base=(starts / MS).tolist(),
        x=(lengths / MS).tolist(),
        width=(0.9 * heights).tolist(),
        marker={"color": colour, "line_width": 0},
        hovertemplate=f"{label(name)}, from %{{base:.3f}} ms: %{{x:.3f}} ms<extra></extra>",
    )


def _stretches(frame: pl.DataFrame, begin: int, span: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Starts, lengths and heights: the intervals, or where they are too many, columns as high as they are full."""
    start, end = (frame.get_column(name).to_numpy() - begin for name in ("from_ns", "until_ns"))
    start, end = start[end > start], end[end > start]
    if len(start) <= _COLUMNS:
        return start, end - start, np.ones(len(start))
    edges = np.linspace(0, span, _COLUMNS + 1)
    times = np.column_stack([start, end]).ravel()
    busy = np.column_stack([np.append(0, np.cumsum(end - start)[:-1]), np.cumsum(end - start)]).ravel()
    full = np.diff(np.interp(edges, times, busy)) / np.diff(edges)
    some = full > 0
    return edges[:-1][some], np.diff(edges)[some], full[some]


def _track(rank: int, stream: int, several: bool) -> str:
    return f"rank {rank}, {stream_name(stream)}" if several else stream_name(stream)
