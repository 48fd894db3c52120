"""A comparison as plotly figures, for notebooks; they show nothing by themselves.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING

from weftrace.comparison.document import DiffReport
from weftrace.comparison.render.page import EFFECTS, BarSummary, axis_begin, bars_of
from weftrace.comparison.render.words import part_label
from weftrace.render import palette
from weftrace.render.console_text import shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.units import MS, duration, signed_duration

if TYPE_CHECKING:
    import plotly.graph_objects as go

#: Bars of movers at most, those that changed most.
MAX_MOVERS = 20

_COLOURS: Mapping[str, str] = {
    "compute": palette.COMPUTE, "exposed": palette.EXPOSED, "memory": palette.MEMORY, "idle": palette.IDLE,
    "waiting": palette.WAITING, "error": palette.PAPER,
}  # fmt: skip
_EFFECT_COLOURS = dict(
    zip(EFFECTS, (palette.BEFORE, palette.COMPUTE, palette.COMMUNICATION, palette.AFTER), strict=True)
)
_EFFECT_WORDS = dict(zip(EFFECTS, ("by number", "by duration", "by overlap", "by other kernels"), strict=True))


def waterfall_figure(report: DiffReport) -> go.Figure:
    """From the median step before to the one after: the change of each part, mean over steps and ranks, one after the
    other, then the remainder. All bars add up exactly; hatched is what is within the noise.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    bars = bars_of(report)
    begin = axis_begin(report.before.median_ns, bars)
    ends = [report.before.median_ns]
    for bar in bars:
        ends.append(ends[-1] + bar["change_ns"])
    figure = go.Figure()
    figure.add_bar(
        orientation="h",
        y=["before", *(label(bar["name"]) for bar in bars), "after"],
        base=[begin / MS, *(end / MS for end in ends[:-1]), begin / MS],
        x=[(ends[0] - begin) / MS, *(bar["change_ns"] / MS for bar in bars), (ends[-1] - begin) / MS],
        marker_color=[palette.LEVEL, *(_COLOURS.get(bar["role"], palette.LEVEL) for bar in bars), palette.LEVEL],
        marker_line={"color": palette.INK, "width": [0, *(int(bar["role"] == "error") for bar in bars), 0]},
        marker_pattern_shape=["", *("/" if bar["is_noise"] else "" for bar in bars), ""],
        text=[duration(ends[0]), *(signed_duration(bar["change_ns"]) for bar in bars), duration(ends[-1])],
        textposition="auto",
        cliponaxis=False,
        customdata=["", *(_describe(bar) for bar in bars), ""],
        hovertemplate="%{y}: %{text}%{customdata}<extra></extra>",
    )
    figure.update_layout(**layout(_titled(report), height=220 + 36 * len(bars)), showlegend=False)
    figure.update_layout(title_font_size=14)
    words = f", from {duration(begin)} on" if begin else ""
    figure.update_xaxes(title=f"ms of a step{words}", range=[begin / MS, (max(ends) + 0.1 * (max(ends) - begin)) / MS])
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def movers_figure(report: DiffReport) -> go.Figure:
    """The kernels that changed most, and by what: effects either way of 0, and what they add up to.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    changed = [row for row in report.movers["kernel"] if row["change_ns"]][:MAX_MOVERS]
    twice = {name for name, num in Counter(row["name"] for row in changed).items() if num > 1}
    short = [shorten_middle(row["name"], 48) for row in changed]
    names = [
        label(f"{name}, {part_label(row['part'], row['cause'])}" if row["name"] in twice else name)
        for name, row in zip(short, changed, strict=True)
    ]
    figure = go.Figure()
    for key in EFFECTS:
        figure.add_bar(
            name=_EFFECT_WORDS[key], orientation="h", y=names, x=[row[key] / MS for row in changed],
            marker_color=_EFFECT_COLOURS[key], customdata=[signed_duration(row[key]) for row in changed],
            hovertemplate=f"%{{y}}, {_EFFECT_WORDS[key]}: %{{customdata}}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(
        name="change", mode="markers", y=names, x=[row["change_ns"] / MS for row in changed],
        marker={"color": palette.INK, "symbol": "diamond", "size": 8},
        customdata=[
            signed_duration(row["change_ns"]) + ", within the noise" * bool(row["is_noise"]) for row in changed
        ],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(**layout(_titled(report), height=220 + 26 * max(1, len(names))), barmode="relative")
    figure.update_layout(title_font_size=14)
    figure.update_xaxes(title="change of own time, ms of a step", zeroline=True)
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def steps_figure(report: DiffReport) -> go.Figure:
    """The length of each step that counts, before and after, with quartiles and median.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    for word, side, colour in (
        ("before", report.before, palette.BEFORE),
        ("after", report.after, palette.AFTER),
    ):
        figure.add_box(
            name=word,
            x=[word],
            q1=[side.low_ns / MS],
            median=[side.median_ns / MS],
            q3=[side.high_ns / MS],
            lowerfence=[min((step["span_ns"] for step in side.steps), default=0) / MS],
            upperfence=[max((step["span_ns"] for step in side.steps), default=0) / MS],
            marker_color=colour,
        )
        figure.add_scatter(
            name=f"steps {word}", mode="markers", x=[word] * len(side.steps),
            y=[step["span_ns"] / MS for step in side.steps], marker={"color": colour, "symbol": "circle-open"},
            customdata=[_step_words(step["step"]) for step in side.steps],
            hovertemplate="%{customdata}: %{y:.4f} ms<extra></extra>",
        )  # fmt: skip
    figure.update_layout(**layout(_titled(report), height=460), title_font_size=14, showlegend=False)
    figure.update_yaxes(title="ms of a step")
    return figure


def _describe(bar: BarSummary) -> str:
    summary = [f"{_EFFECT_WORDS[key]} {signed_duration(bar[key])}" for key in EFFECTS if bar[key]]
    return f"<br>{'<br>'.join(summary)}" if summary else ""


def _step_words(step: int | None) -> str:
    return "the whole recording" if step is None else f"step {step}"


def _titled(report: DiffReport) -> str:
    return "<br>".join(label(line) for line in wrap(report.headline, 110))
