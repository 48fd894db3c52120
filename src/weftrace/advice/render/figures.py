"""Critical paths, what-ifs and sensitivities as plotly figures, for notebooks; they show nothing by themselves.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.render.colours import CLASS_COLOURS, ERROR_COLOUR
from weftrace.advice.render.overlay import stream_name
from weftrace.advice.render.words import range_words
from weftrace.advice.sensitivities import Curve, Sensitivity
from weftrace.advice.waterfalls import Waterfall
from weftrace.analysis.findings import AdviceReport
from weftrace.render import palette
from weftrace.render.console_text import shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.scene import Look, Rect, Row, Scene
from weftrace.render.scene_figure import scene_figure
from weftrace.units import MS, duration, percent, signed

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FEW = 150  # parts of a row that can be told apart
_COLUMNS = 1000  # of more, each of so many columns is as high as it was full
_MOST_BARS = 24  # of a sensitivity: those that save most
_PATH = "critical path"


def path_figure(path: CriticalPath, title: str | None = None) -> go.Figure:
    """The critical path by class over time in ms, as replayed, and under it its ops on their streams and threads.

    Where a row has more parts than can be told apart, a column is as full of a class as the row was. title: the path's
    sentence, where None is given.
    Raises WeftraceError without plotly.
    """
    begin = path.parts.item(0, "from_ns") if len(path.parts) else 0
    ops = path.path.select("stream", "rank", "class_", "from_ns", pl.col("until_ns").clip(begin)).with_columns(
        pl.col("from_ns").clip(begin)
    )
    several = ops.get_column("rank").n_unique() > 1
    rows = {_PATH: path.parts} | {
        _track(rank, stream, several): ops.filter(rank=rank, stream=stream)
        for rank, stream in ops.select("rank", "stream").unique().sort("rank", "stream").rows()
    }
    scene = Scene(
        name=_PATH,
        title="\n".join(wrap(title or path.sentence, 110)),
        clock="time, replayed",
        start_ns=0,
        end_ns=path.span_ns,
        looks={name: Look(fill=colour, word=name) for name, colour in CLASS_COLOURS.items()},
        rows=tuple(Row(label=name, height=24, gap=4) for name in rows),
        rects=[rect for row, frame in enumerate(rows.values()) for rect in _rects(row, frame, begin, path.span_ns)],
    )
    return scene_figure(scene)


def waterfall_figure(found: Waterfall) -> go.Figure:
    """Bars that add up to the measured span, one after the other; beside each what it would save alone, where known.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    names = found.bars.get_column("name").to_list()
    lengths = found.bars.get_column("time_ns").to_numpy()
    begins = np.cumsum(lengths) - lengths
    alone = found.bars.select("least_ns", "most_ns").rows()
    saved = ["" if low is None else f", alone saves {range_words(low, high, duration)}" for low, high in alone]
    figure.add_bar(
        orientation="h",
        y=[label(name) for name in names],
        base=(begins / MS).tolist(),
        x=(lengths / MS).tolist(),
        marker_color=[CLASS_COLOURS.get(name, ERROR_COLOUR) for name in names],
        text=[
            f"{percent(n / max(found.span_ns, 1))}{summary}" for n, summary in zip(lengths.tolist(), saved, strict=True)
        ],
        textposition="auto",
        cliponaxis=False,
        customdata=[duration(n) for n in lengths.tolist()],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
    )
    title = f"Where the {duration(found.span_ns)} go, by class on the critical path"
    figure.update_layout(**layout(title, height=200 + 36 * len(names)), showlegend=False)
    figure.update_xaxes(title="ms, one after the other", range=[min(0, *begins / MS), 1.3 * found.span_ns / MS])
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
            customdata=[
                f"{range_words(low, high, duration)} of {duration(time)}"
                for low, high, time in rows.select("least_ns", "most_ns", "time_ns").rows()
            ],
            hovertemplate="%{y}: %{x:.3f} % (%{customdata} of its own time)<extra></extra>",
        )  # fmt: skip
    title = f"{100 * found.by:g} % faster: how much of the step is saved (replay {signed(found.error)} off)"
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
    factors, changes = (found.points.get_column(name).to_list() for name in ("factor", "change"))
    figure.add_scatter(
        name=label(found.selector), mode="lines+markers", x=factors, y=[100 * change for change in changes],
        line_color=palette.COMMUNICATION,
        customdata=[range_words(low, high, duration) for low, high in found.points.select("low_ns", "high_ns").rows()],
        hovertemplate="×%{x:g}: %{y:+.2f} %, %{customdata}<extra></extra>",
    )  # fmt: skip
    if (knee := found.flat_until) > factors[0]:
        figure.add_scatter(
            name="knee", mode="markers", x=[knee], y=[100 * changes[factors.index(knee)]], hoverinfo="skip",
            marker={"symbol": "circle-open", "size": 16, "color": palette.INK},
        )  # fmt: skip
    figure.add_hline(y=0, line_color=palette.INK, line_width=1)
    figure.update_layout(**layout(_titled(found.sentence), height=460), title_font_size=14, showlegend=False)
    figure.update_xaxes(title=f"time of {label(found.selector)}, as a factor")
    figure.update_yaxes(title="change of the span, %")
    return figure


def gains_figure(report: AdviceReport) -> go.Figure:
    """What the remedy of each finding saves of a step, at least and at most, the most first."""
    go = plotly_objects()
    losses = [each for each in report.losses if each.gain is not None][:_MOST_BARS]
    names = [shorten_middle(each.title, 48) for each in losses]
    low = [max(0.0, each.gain_low_share or 0.0) for each in losses]
    more = [max(0.0, each.gain_high_share or 0.0) - least for each, least in zip(losses, low, strict=True)]
    figure = go.Figure()
    for name, values, colour in (("at least", low, palette.AFTER), ("at most", more, palette.IDLE)):
        figure.add_bar(x=values, y=names, name=name, orientation="h", marker={"color": colour})
    figure.update_layout(**layout(_titled(report.headline), height=160 + 32 * len(losses)), barmode="stack")
    figure.update_xaxes(title="of a step", tickformat=".1%")
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


def _rects(row: int, frame: pl.DataFrame, begin: int, span: int) -> Iterator[Rect]:
    """The intervals of a row, or where they are many, columns that are as full of each class as the row was."""
    frame = frame.filter(pl.col("until_ns") > pl.col("from_ns"))
    if len(frame) <= _FEW:
        for name, start, end in frame.select("class_", "from_ns", "until_ns").rows():
            yield Rect(row, start - begin, end - begin, name, title=f"{name}: {duration(end - start)}")
        return
    edges = np.unique(np.linspace(0, span, _COLUMNS + 1).round().astype(np.int64))
    below = np.zeros(len(edges) - 1)
    for name in CLASS_COLOURS:
        start, end = (frame.filter(class_=name).get_column(each).to_numpy() - begin for each in ("from_ns", "until_ns"))
        busy = np.cumsum(end - start)
        times, so_far = np.column_stack([start, end]).ravel(), np.column_stack([busy - (end - start), busy]).ravel()
        ran = np.diff(np.interp(edges, times, so_far)) if len(start) else np.zeros(len(below))
        top = below + ran / np.diff(edges)
        for at in np.flatnonzero(ran > 0):
            summary = f"{name}: {duration(round(ran[at]))}"
            yield Rect(row, edges[at], edges[at + 1], name, title=summary, top=1 - top[at], foot=1 - below[at])
        below = top


def _titled(sentence: str) -> str:
    return "<br>".join(label(line) for line in wrap(sentence, 110))


def _track(rank: int, stream: int, several: bool) -> str:
    return f"rank {rank}, {stream_name(stream)}" if several else stream_name(stream)
