"""The report's charts as plotly figures, for notebooks: each is a function of the report document, and shows nothing.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weftrace.analysis.kernel_times import KernelRow
from weftrace.errors import DocumentError, WeftraceError
from weftrace.render import palette
from weftrace.render.console_text import clean, kernel_label
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.lanes_scene import drawn_lanes
from weftrace.report.document_types import RankDocument, ReportDocument
from weftrace.report.render.idle_words import cause_name
from weftrace.report.render.parts import IDLE_PARTS, PARTS
from weftrace.report.sentences.idle_sentence import plain_name
from weftrace.units import MS, duration, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TOP_CAUSES = 12


def breakdown_figure(document: ReportDocument) -> go.Figure:
    """Where each rank's span went, in per cent of it: compute, exposed communication, exposed memory, idle.

    document: a report (schema weftrace.report/1). One bar a rank that is in the job's sums, in the document's order.
    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    ranks = [rank for rank in document["ranks"] if rank["span_ns"] and rank["apart"] is None]
    names = _rank_names(ranks)
    figure = go.Figure()
    for key, name, colour in PARTS:
        shares = [100 * rank[key] / rank["span_ns"] for rank in ranks]
        figure.add_bar(
            name=name,
            y=names,
            x=shares,
            orientation="h",
            marker_color=colour,
            text=[f"{share:.1f} %" if share >= 3 else "" for share in shares],
            textangle=0,
            customdata=[label(duration(rank[key])) for rank in ranks],
            hovertemplate="%{y}: " + name + " %{x:.2f} %, %{customdata}<extra></extra>",
        )
    title = "Where the time went (% of the span)"
    if len(ranks) == 1:
        title = f"Where the time went: {percent(ranks[0]['compute_ns'] / ranks[0]['span_ns'])} of "
        title += f"{duration(ranks[0]['span_ns'])} computing"
    figure.update_layout(barmode="stack", **layout(title, height=180 + 24 * len(ranks)))
    figure.update_xaxes(title="% of the span", range=[0, 100])
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def lanes_figure(rank: RankDocument) -> go.Figure:
    """The lane picture of a member of `ranks` of a report: see `drawn_lanes`. Raises WeftraceError without plotly."""
    return drawn_lanes(rank, _rank_names([rank])[0])


def overlap_figure(rank: RankDocument) -> go.Figure:
    """Which communication phase (rows) ran behind which compute phase (columns), in ms, as a heat map.

    A last column, `exposed`, is communication that nothing hid. rank: a member of `ranks` of a report. Raises
    WeftraceError without plotly, and when the rank has no communication phases to show.
    """
    go = plotly_objects()
    matrix = rank["overlap_matrix"]
    all_rows = range(len(matrix["communication"]))
    rows = [r for r in all_rows if any(matrix["ns"][r]) or matrix["exposed_ns"][r]]
    if not rows:
        raise WeftraceError(f"{_rank_names([rank])[0]}: no communication phase ran, so there is no overlap to draw")
    columns = [c for c in range(len(matrix["compute"])) if any(matrix["ns"][r][c] for r in rows)]
    times = [[matrix["ns"][r][c] / MS for c in columns] + [matrix["exposed_ns"][r] / MS] for r in rows]
    figure = go.Figure(
        go.Heatmap(
            z=times,
            x=[*(label(matrix["compute"][c]) for c in columns), "exposed"],
            y=[label(matrix["communication"][r]) for r in rows],
            colorscale=[[0, "#ffffff"], [1, palette.COMPUTE]],
            zmin=0,
            text=[[f"{time:.2f}" if time >= 0.005 else "" for time in row] for row in times],
            texttemplate="%{text}",
            hovertemplate="%{y} behind %{x}: %{z:.3f} ms<extra></extra>",
            colorbar={"title": "ms"},
            xgap=1,
            ygap=1,
        )
    )
    figure.update_layout(**layout("What hides what (ms of communication)", height=220 + 36 * len(rows)))
    figure.update_xaxes(title="computation", type="category", side="bottom")
    figure.update_yaxes(title="communication", type="category", autorange="reversed")
    return figure


def kernels_figure(rank: RankDocument, top: int = 20) -> go.Figure:
    """The kernels that took most time, total in ms, coloured by class.

    rank: a member of `ranks` of a report. top: how many kernels. Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    kernels = rank["kernels"][:top]
    figure = go.Figure()
    # A bar is placed by its number: two kernels may shorten to one label.
    for kind in dict.fromkeys(kernel["kind"] for kernel in kernels):
        places = [place for place, kernel in enumerate(kernels) if kernel["kind"] == kind]
        chosen = [kernels[place] for place in places]
        figure.add_bar(
            name=label(kind),
            y=places,
            x=[kernel["total_ns"] / MS for kernel in chosen],
            orientation="h",
            marker_color=palette.KIND_COLOURS.get(kind, palette.IDLE),
            text=[percent(kernel["share"]) for kernel in chosen],
            customdata=[_kernel_hover(kernel) for kernel in chosen],
            hovertemplate="%{customdata}<extra></extra>",
        )
    labels = [label(kernel_label(kernel["name"], 44)) for kernel in kernels]
    title = f"The top {len(kernels)} of {len(rank['kernels'])} kernels (ms in all)"
    figure.update_layout(**layout(title, height=160 + 24 * len(kernels)))
    figure.update_xaxes(title="total time (ms)")
    figure.update_yaxes(tickmode="array", tickvals=list(range(len(labels))), ticktext=labels, autorange="reversed")
    return figure


def idle_figure(rank: RankDocument) -> go.Figure:
    """Why the device waited, in ms: a bar of the parts that add up to its idle time, and one of each cause.

    rank: a member of `ranks` of a report. Raises WeftraceError without plotly, and where the report is of a version
    that has no account of idle time.
    """
    go = plotly_objects()
    if "idle_account" not in rank:
        raise DocumentError("this report has no causes of idle time: make it again from its trace")
    account = rank["idle_account"]
    causes = account["causes"][:_TOP_CAUSES]
    figure = go.Figure()
    for key, name, colour in IDLE_PARTS:
        if account[key]:
            figure.add_bar(
                name=name,
                y=["by part"],
                x=[account[key] / MS],
                orientation="h",
                marker={"color": colour, "pattern": {"shape": "/" if key == "unrecorded_ns" else ""}},
                hovertemplate=name + " %{x:.3f} ms<extra></extra>",
            )
    figure.add_bar(
        name="by cause",
        y=[label(cause_name(row["cause"])) for row in causes],
        x=[row["ns"] / MS for row in causes],
        orientation="h",
        marker_color=palette.IDLE,
        text=[percent(row["share"]) for row in causes],
        customdata=[_cause_hover(row) for row in causes],
        hovertemplate="%{y}: %{x:.3f} ms%{customdata}<extra></extra>",
    )
    title = f"Why the device waited ({duration(account['idle_ns'])} in all)"
    figure.update_layout(barmode="stack", **layout(title, height=200 + 28 * len(causes)))
    figure.update_xaxes(title="idle time (ms)")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def ranks_figure(document: ReportDocument) -> go.Figure:
    """The ranks of a job side by side, the longest span first: the parts of each span in ms, and the hidden share in %.

    document: a report (schema weftrace.report/1); what is not counted in the job is left out, and the title says so.
    Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    counted = [rank for rank in document["ranks"] if rank["apart"] is None]
    ranks = sorted(counted, key=lambda rank: -rank["span_ns"])
    left = len(document["ranks"]) - len(counted)
    names = [name.removeprefix("rank ") for name in _rank_names(ranks)]
    figure = go.Figure()
    for key, name, colour in PARTS:
        figure.add_bar(
            name=name,
            x=names,
            y=[rank[key] / MS for rank in ranks],
            marker_color=colour,
            hovertemplate="rank %{x}: " + name + " %{y:.3f} ms<extra></extra>",
        )
    if any(rank["hidden_fraction"] is not None for rank in ranks):
        figure.add_scatter(
            name="hidden communication",
            x=names,
            y=[None if rank["hidden_fraction"] is None else 100 * rank["hidden_fraction"] for rank in ranks],
            yaxis="y2",
            mode="markers",
            marker={"color": "#222222", "symbol": "diamond", "size": 8, "line": {"color": "#ffffff", "width": 1}},
            hovertemplate="rank %{x}: %{y:.1f} % hidden<extra></extra>",
        )
    figure.update_layout(
        barmode="stack",
        yaxis={"title": "time (ms)"},
        yaxis2={
            "title": "communication hidden (%)",
            "overlaying": "y",
            "side": "right",
            "range": [0, 105],
            "dtick": 20,
            "showgrid": False,
        },
        **layout(
            f"Ranks, the longest span first (ms){f'; without {left} that do not count' if left else ''}", height=420
        ),
    )
    figure.update_xaxes(title="rank", type="category")
    return figure


# ---- small parts


def _kernel_hover(kernel: KernelRow) -> str:
    name = "<br>".join(label(part) for part in _wrapped(clean(kernel["name"])[:600], 90))
    times = f"{duration(kernel['total_ns'])} in {kernel['num_events']:,} events, mean {duration(kernel['mean_ns'])}"
    return f"<b>{name}</b><br>{times}<br>{label(kernel['family'])}"


def _cause_hover(row: Mapping[str, Any]) -> str:
    name = label(plain_name(row["name"] or row["child"], with_file=True))
    return f" in {row['num_gaps']:,} gaps" + (f"<br>{name}" if name else "")


def _wrapped(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def _rank_names(ranks: Sequence[RankDocument]) -> list[str]:
    """A name for each rank, unlike every other: with its device where one process drives several."""
    names = [
        f"rank {rank['rank']}" if rank["rank"] is not None else clean(rank["path"] or "rank unknown") for rank in ranks
    ]
    several = len(set(names)) < len(names)
    return [
        label(f"{name}, device {rank['device']}" if several else name) for name, rank in zip(names, ranks, strict=True)
    ]
