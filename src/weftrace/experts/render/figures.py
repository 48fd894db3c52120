"""The charts about experts as plotly figures, for notebooks: each is a function of a document, and shows nothing.

plotly is an optional dependency (`pip install weftrace[notebook]`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weftrace.errors import WeftraceError
from weftrace.experts.document import PlacementDocument
from weftrace.experts.render.words import fit_words, gpu_ratios, loads_summary, mean_of, row_words
from weftrace.experts.replays.document import ReplayDocument
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.units import si

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW_PX = 11  # of a heat map, a layer
_REACH = (0.0, 2.0)  # multiples of the mean that the colours span


def figure_gpu_load(document: PlacementDocument) -> go.Figure:
    """Load of every GPU in every layer as a multiple of the layer's mean, before and after side by side on one scale.

    A GPU's time is its load over its speed; 1 is the mean, what perfect balance would give every GPU in service.
    document: a placement (schema weftrace.placement/1). Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    maps = loads_summary(document)
    figure = go.Figure()
    for number, (which, summary) in enumerate(maps.items()):
        axis = "" if number == 0 else str(number + 1)
        figure.add_heatmap(
            z=gpu_ratios(document, summary["load"]),
            y=_layer_names(document),
            name=which,
            xaxis=f"x{axis}",
            yaxis=f"y{axis}",
            coloraxis="coloraxis",
            xgap=1 if len(document["cluster"]["slots_of_gpu"]) <= 64 else 0,
            ygap=1,
            hovertemplate=which + ", layer %{y}, GPU %{x}: %{z:.3f} of the mean<extra></extra>",
        )
        left = number * (1 / len(maps) + 0.02 if len(maps) > 1 else 0)
        domain = [left, min(1.0, left + 1 / len(maps) - (0.02 if len(maps) > 1 else 0))]
        share = mean_of(summary["balancedness"])
        title = f"GPU ({which}, {label(summary['label'])}: balancedness {share:.4f})"
        if summary["label"] == which:
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
        _node_lines(figure, document, axis)
    figure.update_layout(
        coloraxis={
            "colorscale": [[0, palette.UNDER], [0.5, palette.LEVEL], [1, palette.OVER]],
            "cmin": _REACH[0],
            "cmax": _REACH[1],
            "colorbar": {"title": "load / mean"},
        },
        **layout(
            f"Load of every GPU in every layer, {fit_words(document)}", height=220 + _ROW_PX * document["num_layers"]
        ),
    )
    return figure


def figure_balancedness(document: PlacementDocument) -> go.Figure:
    """Balancedness of each layer, mean / largest GPU time: before, after, and the bound that no placement can pass.

    document: a placement (schema weftrace.placement/1). Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    layers = _layer_names(document)
    for which, summary in loads_summary(document).items():
        figure.add_bar(
            name=which,
            x=layers,
            y=summary["balancedness"],
            marker_color=palette.BEFORE if which == "before" else palette.AFTER,
            hovertemplate="layer %{x}, " + which + ": %{y:.4f}<extra></extra>",
        )
    certificate = document["certificate"]
    if certificate is not None:
        pairs = zip(certificate["mean"], certificate["bound"], strict=True)
        figure.add_scatter(
            name="bound",
            x=layers,
            y=[mean / bound if bound > 0 else 1.0 for mean, bound in pairs],
            mode="markers",
            marker={"symbol": "line-ew-open", "size": 12, "color": palette.INK, "line_width": 2},
            customdata=[label(binding) for binding in certificate["binding"]],
            hovertemplate="layer %{x}, bound: %{y:.4f}, held back by %{customdata}<extra></extra>",
        )
    mean = mean_of(document["gpu_load"]["after"]["balancedness"])
    title = f"Balancedness by layer, {fit_words(document)} ({mean:.4f} on average)"
    figure.update_layout(barmode="group", **layout(title, height=420))
    figure.update_xaxes(title="layer", type="category")
    figure.update_yaxes(title="mean / largest GPU time", range=[0, 1.02])
    return figure


def figure_moves(document: PlacementDocument) -> go.Figure:
    """Expert weights that each GPU receives (up) and sends (down) on the way to this placement.

    document: a placement (schema weftrace.placement/1). Raises WeftraceError without plotly, and where it tells of no
    moves.
    """
    go = plotly_objects()
    moves = document["moves"]
    if moves is None:
        raise WeftraceError("this placement was made without one before it, so there are no moves to draw")
    gpus = list(range(len(document["cluster"]["slots_of_gpu"])))
    received = Counter(move["to_gpu"] for move in moves["list"])
    sent = Counter(move["from_gpu"] for move in moves["list"] if move["from_slot"] >= 0)
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
    gigabytes = "" if moves["bytes"] is None else f", {si(moves['bytes'], 'B')}"
    title = f"Moves: {moves['num_moves']:,} of {moves['num_slots']:,} slots{gigabytes}"
    figure.update_layout(barmode="relative", **layout(title, height=380))
    figure.update_xaxes(title="GPU")
    figure.update_yaxes(title="expert weights: received up, sent down")
    return figure


def figure_replay(document: ReplayDocument, rows: Sequence[int] | None = None) -> go.Figure:
    """Balancedness window by window, each scored with a plan made before it.

    document: a replay (schema weftrace.replay/1). rows: numbers in `rows` to draw; by default the recommended, the
    cheaper and the baseline. Raises WeftraceError without plotly, and for a row that the document does not hold.
    """
    go = plotly_objects()
    summary = document["recommendation"]
    parts: dict[int, str] = {}
    for row, part in (
        (summary["row"], "recommended"),
        (summary["cheaper_row"], "cheaper"),
        (summary["baseline_row"], "baseline"),
    ):
        if row is not None:
            parts.setdefault(row, part)
    chosen = list(parts) if rows is None else list(rows)
    series = {entry["row"]: entry for entry in document["series"]}
    colours = {"recommended": palette.AFTER, "cheaper": palette.COPIED, "baseline": palette.BEFORE}
    figure = go.Figure()
    for row in chosen:
        if row not in series:
            raise WeftraceError(f"the replay holds no row {row}; it has rows {min(series)} to {max(series)}")
        known = parts.get(row)
        words = row_words(document["rows"][row])
        name = label(f"{known}: {words}" if known else words)
        figure.add_scatter(
            name=name,
            y=series[row]["balancedness"],
            mode="lines",
            line={"color": colours[known]} if known else None,
            hovertemplate="window %{x}: %{y:.4f}<extra>" + name + "</extra>",
        )
    figure.update_layout(**layout("Balancedness over time, on loads not seen when planning", height=420))
    figure.update_layout(legend={"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"})
    figure.update_xaxes(title="window")
    figure.update_yaxes(title="balancedness")
    return figure


def _layer_names(document: PlacementDocument) -> list[str]:
    """The layers' numbers in the model, as names: where they leave some out, a picture leaves no gap."""
    return [str(layer) for layer in document["layers"]]


def _node_lines(figure: go.Figure, document: PlacementDocument, axis: str) -> None:
    cluster = document["cluster"]
    per_node = len(cluster["slots_of_gpu"]) // cluster["num_nodes"]
    for node in range(1, cluster["num_nodes"]):
        figure.add_shape(
            type="line",
            x0=node * per_node - 0.5,
            x1=node * per_node - 0.5,
            y0=-0.5,
            y1=document["num_layers"] - 0.5,
            xref=f"x{axis}",
            yref=f"y{axis}",
            line={"color": palette.INK, "width": 1.5},
        )
