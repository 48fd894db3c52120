"""Profiles, sweeps, what pays and validations as plotly figures, for notebooks; they show nothing by themselves.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from weftrace.moe.profiles import Profile
from weftrace.moe.render.picture import profile_picture
from weftrace.moe.sweeps.break_even import Pays
from weftrace.moe.sweeps.many_settings import Sweep
from weftrace.moe.validation.comparison import Validation
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.lanes_scene import drawn_lanes
from weftrace.units import MS

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = (*palette.ROLE_COLOURS.values(), palette.COMMUNICATION, palette.MEMORY)


def lanes_figure(profile: Profile) -> go.Figure:
    """The lanes of the rank that ends last, all layers. Raises WeftraceError without plotly."""
    return drawn_lanes(profile_picture(profile), profile.plan.name)


def sweep_figure(sweep: Sweep) -> go.Figure:
    """Tokens per second of one GPU, along the axis with most numbers, a line per combination of the others; without
    numbers a bar for each combination. What is impossible is left out. Raises WeftraceError without plotly."""
    go = plotly_objects()
    figure = go.Figure()
    axis, is_number = _along(sweep.axes)
    lines: dict[str, list[tuple[str | int | float, float]]] = {}
    for row in sweep.rows:
        others = ", ".join(f"{name} {value}" for name, value in row.values.items() if name != axis)
        if row.summary is not None:
            lines.setdefault(others, []).append((row.values[axis], row.summary.tokens_per_gpu))
    for at, (name, points) in enumerate(lines.items()):
        ordered = sorted(points, key=lambda point: float(point[0])) if is_number else points
        x, y = [value for value, _ in ordered], [rate for _, rate in ordered]
        colour = _COLOURS[at % len(_COLOURS)]
        hover = f"{label(axis)} %{{x}}: %{{y:,.0f}} tokens/s<extra>{label(name)}</extra>"
        if is_number:
            figure.add_scatter(name=label(name), x=x, y=y, mode="lines+markers", line_color=colour, hovertemplate=hover)
        else:
            figure.add_bar(name=label(name), x=x, y=y, marker_color=colour, hovertemplate=hover)
    figure.update_layout(**layout(label(sweep.headline), height=460), showlegend=len(lines) > 1)
    figure.update_xaxes(title=label(axis), type="linear" if is_number else "category")
    figure.update_yaxes(title="tokens/s a GPU", rangemode="tozero")
    return figure


def _along(axes: Mapping[str, Sequence[str | int | float]]) -> tuple[str, bool]:
    """The axis of numbers with most values, and that it has numbers; without one the first."""
    numbers = [name for name, values in axes.items() if all(isinstance(value, int | float) for value in values)]
    return (max(numbers, key=lambda name: len(axes[name])), True) if numbers else (next(iter(axes)), False)


def pays_figure(pays: Pays) -> go.Figure:
    """Tokens a second more than no overlap, by batch, a line for each list. Raises WeftraceError without plotly."""
    go = plotly_objects()
    figure = go.Figure()
    base, *others = pays.curves
    for at, curve in enumerate(each for each in others if not each.reason):
        rates = zip(curve.tokens_per_gpu, base.tokens_per_gpu, strict=True)
        gain = [None if rate is None or not held else 100 * (rate / held - 1) for rate, held in rates]
        figure.add_scatter(
            name=label(curve.overlap), x=list(pays.batches), y=gain, mode="lines",
            line_color=_COLOURS[at % len(_COLOURS)], hovertemplate="%{x:,}: %{y:+.1f} %",
        )  # fmt: skip
    figure.add_hline(y=0, line_color=palette.INK, line_width=1)
    figure.update_layout(**layout(label(pays.headline), height=460), title_font_size=14, hovermode="x unified")
    figure.update_xaxes(
        title=f"{label(pays.unit)} a GPU", type="log" if pays.batches[-1] > 8 * pays.batches[0] else None
    )
    figure.update_yaxes(title="% more tokens/s than no overlap", zeroline=False)
    return figure


def validation_figure(found: Validation) -> go.Figure:
    """A bar as long as each phase was measured, its spread, and a mark where it was predicted. Raises WeftraceError
    without plotly."""
    go = plotly_objects()
    figure = go.Figure()
    names = [label(row.name) for row in found.phases]
    measured = [row.measured for row in found.phases]
    spread = {
        "type": "data", "symmetric": False, "array": [(each.high_ns - each.median_ns) / MS for each in measured],
        "arrayminus": [(each.median_ns - each.low_ns) / MS for each in measured],
    }  # fmt: skip
    figure.add_bar(
        name="measured", orientation="h", y=names, x=[each.median_ns / MS for each in measured], error_x=spread,
        marker_color=[palette.KIND_COLOURS.get(row.lane, palette.COMPUTE) for row in found.phases],
    )  # fmt: skip
    figure.add_scatter(
        name="predicted", mode="markers", y=names, x=[row.predicted.median_ns / MS for row in found.phases],
        marker={"symbol": "line-ns", "size": 18, "line": {"width": 3, "color": palette.EXPOSED}},
        customdata=["–" if row.ratio is None else f"{row.ratio:.3f}" for row in found.phases],
        hovertemplate="%{y}: predicted %{x:.3f} ms, ratio %{customdata}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(**layout(label(found.headline), height=200 + 34 * max(1, len(names))))
    figure.update_xaxes(title="ms, median of a layer")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure
