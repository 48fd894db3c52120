"""Time by module and by function as plotly figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weftrace.errors import WeftraceError
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.report.document_types import CodeDocument, RankDocument
from weftrace.units import duration

if TYPE_CHECKING:
    import plotly.graph_objects as go


def modules_figure(rank: RankDocument) -> go.Figure:
    """Device time by module as an icicle, widths as long as what a module and all below it launched.

    rank: a member of `ranks` of a report made with by="module". Raises WeftraceError without that, or without plotly.
    """
    if "modules" not in rank:
        raise WeftraceError('this report has no time by module; make it with analyze(…, by="module")')
    return _icicle(rank["modules"], "Time by module")


def functions_figure(rank: RankDocument) -> go.Figure:
    """Device time by Python function as an icicle, by who called whom. As `modules_figure`, of by="line"."""
    if "lines" not in rank:
        raise WeftraceError('this report has no time by function; make it with analyze(…, by="line")')
    return _icicle(rank["lines"], "Time by Python function")


def _icicle(code: CodeDocument, title: str) -> go.Figure:
    nodes = [*code["nodes"], code["outside"]]
    nodes = nodes if nodes[-1]["total_ns"] else nodes[:-1]
    figure = plotly_objects().Figure()
    figure.add_icicle(
        ids=[str(at) for at in range(len(nodes))],
        labels=[label(node["name"]) for node in nodes],
        parents=["" if node["parent"] is None else str(node["parent"]) for node in nodes],
        values=[node["total_ns"] for node in nodes],
        branchvalues="total",
        tiling={"orientation": "v"},
        customdata=[
            [duration(node[key]) for key in ("total_ns", "self_ns", "backward_ns", "exposed_ns", "idle_ns")]
            for node in nodes
        ],
        hovertemplate=(
            "%{label}<br>%{customdata[0]}, %{percentRoot:.1%}; own %{customdata[1]}<br>backward %{customdata[2]}, "
            "exposed %{customdata[3]}<br>idle in it %{customdata[4]}<extra></extra>"
        ),
    )
    figure.update_layout(**layout(title, height=560))
    return figure
