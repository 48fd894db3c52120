"""Bandwidth of collectives over their size as a plotly figure: with waiting inside, and of the transfer alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.analysis.transfer_bandwidth import AT_LEAST
from weftrace.errors import WeftraceError
from weftrace.render import palette
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.report.document_types import Block, ReportDocument
from weftrace.report.render.terminal_bandwidth import rate_text, share_text
from weftrace.units import duration, size

if TYPE_CHECKING:
    import plotly.graph_objects as go

_WHOLE, _TRANSFER = ("whole_busbw_GBps", "whole_ns"), ("busbw_GBps", "transfer_ns")


def bandwidth_figure(document: ReportDocument) -> go.Figure:
    """busbw in GB/s over size, both logarithmic: a mark a kind, group and size, of the whole and of the transfer.

    A triangle is a lower bound. document: a report. Raises WeftraceError without plotly, and where no collective's size
    and group are recorded.
    """
    go = plotly_objects()
    found = document.get("bandwidth")
    rows = [row for row in found["rows"] if row["whole_busbw_GBps"]] if found else []
    if not rows:
        raise WeftraceError("no collective has a recorded size and group, so there is no bandwidth to draw")
    figure = go.Figure()
    series = (
        ("whole duration, including waiting", palette.WAITING, _WHOLE),
        ("transfer, after the last rank started", palette.COMMUNICATION, _TRANSFER),
    )
    for name, colour, (rate, time) in series:
        shown = [row for row in rows if row[rate]]
        bound = [row["basis"] in AT_LEAST and rate == "busbw_GBps" for row in shown]
        figure.add_scatter(
            name=name,
            x=[row["payload_bytes"] for row in shown],
            y=[row[rate] for row in shown],
            mode="markers",
            marker={"color": colour, "size": 10, "symbol": ["triangle-up" if each else "circle" for each in bound]},
            customdata=[_hover(row, rate, time) for row in shown],
            hovertemplate="%{customdata}<extra></extra>",
        )
    figure.update_layout(**layout("Bandwidth of collectives (busbw, GB/s)", height=420))
    figure.update_xaxes(title="size (bytes)", type="log")
    figure.update_yaxes(title="busbw (GB/s)", type="log")
    return figure


def _hover(row: Block, rate: str, time: str) -> str:
    head = f"<b>{label(row['collective'])}, {size(row['payload_bytes'])}</b>"
    times = f"{duration(row[time])}, {rate_text(row, rate)} GB/s, by {row['basis']}"
    peak = (
        []
        if row.get("peak_share") is None
        else [f"{share_text(row)} of the {row['bound']}'s {row['peak_GBps']:,.0f} GB/s"]
    )
    return "<br>".join([head, *[label(row["group"])] * bool(row["group"]), times, *peak])
