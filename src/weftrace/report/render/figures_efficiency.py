"""A roofline of a trace as a plotly figure: a point for each operator and its shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from weftrace.errors import WeftraceError
from weftrace.render import palette
from weftrace.render.figure_parts import add_roofs, label, layout, plotly_objects
from weftrace.report.document_types import RankDocument
from weftrace.report.render.terminal_efficiency import rate_text, reaches_text, shape_name
from weftrace.units import S, duration, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LARGEST = 36  # pixels, of the point of most time
_COLOURS = {
    "matmul": palette.WEIGHT, "conv": palette.BACKWARD, "attention": palette.COMMUNICATION, "vector": palette.FORWARD,
    "move": palette.MEMORY,
}  # fmt: skip


def efficiency_figure(rank: RankDocument) -> go.Figure:
    """FLOP/s over FLOP/byte, both logarithmic: a point a shape, its area the device time, under the chip's roofs.

    rank: a member of `ranks` of a report. Raises WeftraceError without plotly, and where no shape has arithmetic whose
    bytes are known.
    """
    go = plotly_objects()
    efficiency = rank.get("efficiency")
    rows = (
        [row for row in efficiency["shapes"] if _work(row) and row["intensity"] and row["busy_ns"]]
        if efficiency
        else []
    )
    if not efficiency or not rows:
        raise WeftraceError("no operator with arithmetic was recorded with shapes, so there is no roofline to draw")
    figure = go.Figure()
    longest = max(row["busy_ns"] for row in rows)
    for kind in dict.fromkeys(row["kind"] for row in rows):
        shown = [row for row in rows if row["kind"] == kind]
        figure.add_scatter(
            name=kind,
            x=[row["intensity"] for row in shown],
            y=[_work(row) * S / row["busy_ns"] for row in shown],
            mode="markers",
            marker={
                "color": _COLOURS.get(kind, palette.IDLE),
                "size": [4 + _LARGEST * (row["busy_ns"] / longest) ** 0.5 for row in shown],
            },
            customdata=[_hover(row) for row in shown],
            hovertemplate="%{customdata}<extra></extra>",
        )
    if efficiency["memory_bytes_per_s"]:
        add_roofs(figure, efficiency["peaks"], efficiency["memory_bytes_per_s"], [row["intensity"] for row in rows])
    figure.update_layout(**layout(f"Efficiency: {label(efficiency['headline'])}", height=520))
    figure.update_xaxes(type="log", title="FLOP per byte moved")
    figure.update_yaxes(type="log", title="FLOP per second")
    return figure


def _work(row: Mapping[str, Any]) -> int:
    return int(row["executed_flops"] + row["vector_flops"])


def _hover(row: Mapping[str, Any]) -> str:
    lines = [f"<b>{label(shape_name(row))}</b>", f"{duration(row['busy_ns'])}, {percent(row['share'])}"]
    lines += [label(text) for text in (rate_text(row), reaches_text(row), row["why"]) if text]
    return "<br>".join(lines)
