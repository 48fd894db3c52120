"""Scenes as plotly figures, for notebooks; they show nothing by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from weftrace.render import palette
from weftrace.render.console_text import shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.scene import FRAME, Rect, Scene, joined_stretches
from weftrace.units import of_whole, unit_for

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FEW = 4  # rectangles of one look that have room for their names side by side
_OUTLINED = 5_000  # more of one look are too many for outlines
_COLUMNS = 1_000  # stretches that one of them holds apart are bars of their own
_SCALE = 1.8  # pixels of a figure for each of a scene
_CURVES_PX = 110


def scene_figure(scene: Scene) -> go.Figure:
    """Rows of bars over time, each as high as it was full; below them curves. Raises WeftraceError without plotly."""
    figure = plotly_objects().Figure()
    rows = [row for row in scene.rows if not row.curves]
    tops = [0.0, *accumulate(row.height + row.gap for row in rows)]
    curves = _CURVES_PX * (len(rows) < len(scene.rows))
    unit = unit_for(scene.end_ns)
    unit_ns, clocked = (scene.unit_ns, "units") if scene.unit_ns else (unit.ns, unit.name)
    bars: dict[str, list[tuple[float, float, float, int, int, str, str]]] = {name: [] for name in scene.looks}
    for rect in scene.rects:
        bars[rect.look] += _bars(rect, scene, tops[rect.row])
    for name, look in scene.looks.items():
        if not bars[name]:
            continue
        y, offset, width, start, end, text, summary = zip(*bars[name], strict=True)
        framed, word = name == FRAME, label(look.word)
        upright = len(text) > _FEW and any(len(each) > _FEW for each in text)  # so a name fits where its bar is narrow
        line = {"color": palette.INK, "width": 1.4} if framed else {"color": "rgba(0,0,0,0.3)"}
        figure.add_bar(
            name=word,
            legendgroup=word,
            showlegend=not any(trace.name == word for trace in figure.data),
            orientation="h",
            y=y,
            offset=offset,
            width=width,
            base=[time / unit_ns for time in start],
            x=[(b - a) / unit_ns for a, b in zip(start, end, strict=True)],
            marker_color="rgba(0,0,0,0)" if framed else look.fill,
            marker_opacity=look.opacity,
            marker_line={"width": 0.5 * (any(text) and len(text) <= _OUTLINED), **line},
            text=text if any(text) else None,
            textposition="inside",
            insidetextanchor="middle",
            constraintext="inside",
            textangle=-90 if upright else 0,
            textfont={"color": palette.INK if framed else palette.ink_on(look.fill), "size": 10},
            customdata=summary,
            hovertemplate=None if framed else "%{customdata}<extra></extra>",
            hoverinfo="skip" if framed else None,
        )
    _add_curves(figure, scene, unit_ns)
    share = curves / (curves + _SCALE * tops[-1] or 1)
    figure.update_layout(
        **layout("<br>".join(map(label, scene.title.split("\n"))), height=round(270 + _SCALE * tops[-1] + curves)),
        barmode="overlay",
        bargap=0,
        uniformtext={"minsize": 8, "mode": "hide"},
    )
    figure.update_layout(
        title_font_size=14,
        legend={"x": 0, "xanchor": "left", "y": -60 / (50 + _SCALE * tops[-1] + curves), "yanchor": "top"},
        margin={"l": 60, "t": 60, "b": 160},
    )
    figure.update_xaxes(title=f"{scene.clock} ({clocked})", range=[scene.start_ns / unit_ns, scene.end_ns / unit_ns])
    figure.update_yaxes(
        range=[tops[-1], 0],
        domain=[share + 0.08 * bool(share), 1],
        zeroline=False,
        showgrid=False,
        tickvals=[top + row.height / 2 for top, row in zip(tops, rows, strict=False)],
        ticktext=["<br>".join(label(text) for text in (row.label, row.note) if text) for row in rows],
    )
    if share:
        below = {"title": "held", "domain": [0, share], "anchor": "x", "rangemode": "tozero"}
        figure.update_layout(xaxis_anchor="y2", yaxis2=below)
    return figure


def _bars(rect: Rect, scene: Scene, top: float) -> Iterator[tuple[float, float, float, int, int, str, str]]:
    """Place and height in the figure, start, end, text and what is told: one for a rectangle that says what it is, one
    for each stretch of others."""
    height, word = scene.rows[rect.row].height, scene.looks[rect.look].word
    middle, high, foot = top + height / 2, height * (rect.foot - rect.top), height * (rect.foot - 0.5)
    if rect.ran is None or rect.text:
        text, summary = label(shorten_middle(rect.text, 24)), label(rect.title)
        yield middle, foot - high * rect.full, high * rect.full, rect.start_ns, rect.end_ns, text, summary
        return
    for start, end, ran in joined_stretches(rect.ran, (scene.end_ns - scene.start_ns) / _COLUMNS):
        full = high * min(1.0, ran / (end - start))
        yield middle, foot - full, full, start, end, "", label(f"{rect.title or word}: {of_whole(ran, end - start)}")


def _add_curves(figure: go.Figure, scene: Scene, unit_ns: int) -> None:
    for row in scene.rows:
        for curve in row.curves:
            for amounts in (curve.low, curve.high):
                if amounts is not None:
                    figure.add_scatter(
                        name=label(row.head),
                        showlegend=curve.low is None,
                        mode="lines",
                        yaxis="y2",
                        x=[time / unit_ns for time in (*curve.times_ns, scene.end_ns)],
                        y=[*amounts, amounts[-1]],
                        text=[*curve.summary, *curve.summary[-1:]],
                        line={"shape": "hv", "width": 1.6 if curve.low is None else 0, "color": palette.MEMORY},
                        fill="tonexty" if curve.low is not None and amounts is curve.high else None,
                        fillcolor="rgba(20,153,168,0.3)",
                        hoverinfo="text" if curve.summary else "skip",
                    )
