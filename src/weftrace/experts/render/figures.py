"""The charts about experts as plotly figures, for notebooks: each is a function of a report, and shows nothing.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from weftrace.errors import WeftraceError
from weftrace.experts.document import PlacementReport
from weftrace.experts.render.words import fit_words, gpu_ratios, mean_of, row_words
from weftrace.experts.replays.document import ReplayReport
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.units import si

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW_PX = 11  # of a heat map, a layer
_REACH = (0.0, 2.0)  # multiples of the mean that the colours span


def figure_gpu_load(report: PlacementReport) -> go.Figure:
    """Load of every GPU in every layer as a multiple of the layer's mean, before and after side by side on one scale.

    A GPU's time is its load over its speed; 1 is the mean, what perfect balance would give every GPU in service.
    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    maps = report.gpu_load.sides
    figure = go.Figure()
    for number, (which, loads) in enumerate(maps.items()):
        axis = "" if number == 0 else str(number + 1)
        figure.add_heatmap(
            z=gpu_ratios(report, loads.load_LG),
            y=_layer_names(report),
            name=which,
            xaxis=f"x{axis}",
            yaxis=f"y{axis}",
            coloraxis="coloraxis",
            xgap=1 if report.cluster.num_gpus <= 64 else 0,
            ygap=1,
            hovertemplate=which + ", layer %{y}, GPU %{x}: %{z:.3f} of the mean<extra></extra>",
        )
        left = number * (1 / len(maps) + 0.02 if len(maps) > 1 else 0)
        domain = [left, min(1.0, left + 1 / len(maps) - (0.02 if len(maps) > 1 else 0))]
        share = mean_of(loads.balancedness_L)
        title = f"GPU ({which}, {label(loads.label)}: balancedness {share:.4f})"
        if loads.label == which:
            title = f"GPU ({which}: balancedness {share:.4f})"
        figure.update_layout(
            {
                f"xaxis{axis}": {"domain": domain, "anchor": f"y{axis}", "title": title},
                f"yaxis{axis}": {
                    "autorange": "reversed",
                    "anchor": f"x{axis}",
                    "type": "category",
                    "title": "layer" if number == 0 else "",
                },
            }
        )
        _node_lines(figure, report, axis)
    figure.update_layout(
        coloraxis={
            "colorscale": [[0, palette.UNDER], [0.5, palette.LEVEL], [1, palette.OVER]],
            "cmin": _REACH[0],
            "cmax": _REACH[1],
            "colorbar": {"title": "load / mean"},
        },
        **layout(f"Load of every GPU in every layer, {fit_words(report)}", height=220 + _ROW_PX * report.num_layers),
    )
    return figure


def figure_balancedness(report: PlacementReport) -> go.Figure:
    """Balancedness of each layer, mean / largest GPU time: before, after, and the bound that no placement can pass.

    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    layers = _layer_names(report)
    for which, loads in report.gpu_load.sides.items():
        figure.add_bar(
            name=which,
            x=layers,
            y=loads.balancedness_L,
            marker_color=palette.BEFORE if which == "before" else palette.AFTER,
            hovertemplate="layer %{x}, " + which + ": %{y:.4f}<extra></extra>",
        )
    certificate = report.certificate
    if certificate is not None:
        pairs = zip(certificate.mean_L.tolist(), certificate.bound_L.tolist(), strict=True)
        figure.add_scatter(
            name="bound",
            x=layers,
            y=[mean / bound if bound > 0 else 1.0 for mean, bound in pairs],
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 12, "color": palette.INK, "line_width": 2},
            customdata=[label(binding) for binding in certificate.binding_L],
            hovertemplate="layer %{x}, bound: %{y:.4f}, held back by %{customdata}<extra></extra>",
        )
    mean = mean_of(report.gpu_load.after.balancedness_L)
    title = f"Balancedness by layer, {fit_words(report)} ({mean:.4f} on average)"
    figure.update_layout(barmode="group", **layout(title, height=420))
    figure.update_xaxes(title="layer", type="category")
    figure.update_yaxes(title="mean / largest GPU time", range=[0, 1.02])
    return figure


def figure_moves(report: PlacementReport) -> go.Figure:
    """Expert weights that each GPU receives (up) and sends (down) on the way to this placement.

    Raises WeftraceError without plotly, and for a placement that replaced none.
    """
    go = plotly_objects()
    moves = report.moves
    if moves is None:
        raise WeftraceError("this placement was made without one before it, so there are no moves to draw")
    gpus = list(range(report.cluster.num_gpus))
    received = Counter(moves.table["to_gpu"])
    sent = Counter(moves.table.filter(pl.col("from_slot") >= 0)["from_gpu"])
    figure = go.Figure()
    for name, counts, sign, colour in (("receives", received, 1, palette.RECEIVED), ("sends", sent, -1, palette.SENT)):
        figure.add_bar(
            name=name,
            x=gpus,
            y=[sign * counts[gpu] for gpu in gpus],
            marker_color=colour,
            customdata=[counts[gpu] for gpu in gpus],
            hovertemplate="GPU %{x} " + name + " %{customdata}<extra></extra>",
        )
    gigabytes = "" if moves.num_bytes is None else f", {si(moves.num_bytes, 'B')}"
    title = f"Moves: {moves.num_moves:,} of {moves.num_slots:,} slots{gigabytes}"
    figure.update_layout(barmode="relative", **layout(title, height=380))
    figure.update_xaxes(title="GPU")
    figure.update_yaxes(title="expert weights: received up, sent down")
    return figure


def figure_replay(report: ReplayReport, rows: Sequence[int] | None = None) -> go.Figure:
    """Balancedness window by window, each scored with a plan made before it.

    rows: numbers of the rows to draw; by default the recommended, the cheaper and the baseline. Raises WeftraceError
    without plotly, and for a row that the replay does not hold.
    """
    go = plotly_objects()
    best = report.recommendation
    parts: dict[int, str] = {best.row: "recommended"}
    for row, part in ((best.cheaper_row, "cheaper"), (best.baseline_row, "baseline")):
        if row is not None:
            parts.setdefault(row, part)
    chosen = list(parts) if rows is None else list(rows)
    series = {entry.row: entry for entry in report.series}
    colours = {"recommended": palette.AFTER, "cheaper": palette.COPIED, "baseline": palette.BEFORE}
    figure = go.Figure()
    for row in chosen:
        if row not in series:
            raise WeftraceError(f"the replay holds no row {row}; it has rows {min(series)} to {max(series)}")
        known = parts.get(row)
        words = row_words(report.rows[row])
        name = label(f"{known}: {words}" if known else words)
        figure.add_scatter(
            name=name,
            y=series[row].balancedness,
            mode="lines",
            line={"color": colours[known]} if known else None,
            hovertemplate="window %{x}: %{y:.4f}<extra>" + name + "</extra>",
        )
    figure.update_layout(**layout("Balancedness over time, on loads not seen when planning", height=420))
    figure.update_layout(legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"})
    figure.update_xaxes(title="window")
    figure.update_yaxes(title="balancedness")
    return figure


def _layer_names(report: PlacementReport) -> list[str]:
    """The layers' numbers in the model, as names: where they leave some out, a picture leaves no gap."""
    return [str(layer) for layer in report.layers]


def _node_lines(figure: go.Figure, report: PlacementReport, axis: str) -> None:
    per_node = report.cluster.gpus_per_node
    for node in range(1, report.cluster.num_nodes):
        figure.add_shape(
            type="line",
            x0=node * per_node - 0.5,
            x1=node * per_node - 0.5,
            y0=-0.5,
            y1=report.num_layers - 0.5,
            xref=f"x{axis}",
            yref=f"y{axis}",
            line={"color": palette.INK, "width": 1.5},
        )
