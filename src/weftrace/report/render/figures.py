"""The report's charts as plotly figures, for notebooks: each is a function of the report document, and shows nothing.

plotly is an optional dependency (`pip install weftrace[notebook]`) and is imported when a figure is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weftrace.errors import WeftraceError
from weftrace.render import palette
from weftrace.render.console_text import clean, kernel_label, shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.lane_types import LaneDocument, sms_text
from weftrace.render.lanes_layout import JOINED, Stretch, joined, joined_stretches, role_word
from weftrace.report.document_types import KernelDocument, RankDocument, ReportDocument
from weftrace.report.render.parts import CAUSES, PARTS
from weftrace.units import MS, US, duration, of_whole, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FEW = 4  # boxes of a lane and a role that have room for their names side by side
_COLUMNS = 1500  # stretches of a phase that 2 of them hold apart are boxes of their own


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
    """The lane picture: the phases of each lane over time in ms, exposed time in red.

    A box is as high as it was dense: half as high as its lane where the lane ran for half of the box's time.
    rank: a member of `ranks` of a report; each of its `lanes` is a band, in their order. Raises WeftraceError without
    plotly.
    """
    go = plotly_objects()
    figure = go.Figure()
    lanes = [lane for lane in rank["lanes"] if lane["boxes"]]
    names = _lane_labels(lanes)
    colours = palette.lane_colours([lane["lane"] for lane in lanes])
    scale = rank["span_ns"] / _COLUMNS
    stretches = {
        name: joined(lane["boxes"], 0, rank["span_ns"], scale) for name, lane in zip(names, lanes, strict=True)
    }
    for role in (*palette.ROLE_COLOURS, None):
        for lane, name, colour in zip(lanes, names, colours, strict=True):
            boxes = [box for box in stretches[name] if box.key[2] == role]
            if not boxes:
                continue
            if role is None:
                _add_boxes(figure, name, boxes, label(lane["lane"]), colour, palette.PAPER)
            else:
                _add_boxes(figure, name, boxes, role_word(role), palette.ROLE_COLOURS[role], palette.ROLE_INKS[role])
            figure.data[-1].customdata = [_box_hover(box, lane["sm_unit"]) for box in boxes]
    exposed = joined_stretches(rank["exposed"], JOINED * scale)
    if exposed:
        figure.add_bar(
            name="exposed",
            y=["exposed"] * len(exposed),
            base=[start / MS for start, _, _ in exposed],
            x=[(end - start) / MS for start, end, _ in exposed],
            orientation="h",
            marker={"color": palette.EXPOSED, "line_width": 0},
            width=[0.5 * busy / (end - start) for start, end, busy in exposed],
            customdata=[label(of_whole(busy, end - start)) for start, end, busy in exposed],
            hovertemplate="exposed for %{customdata}, from %{base:.3f} ms<extra></extra>",
        )
    busy = ", ".join(f"{clean(lane['lane'])} {of_whole(lane['busy_ns'], rank['span_ns'])} busy" for lane in lanes[:2])
    hidden = "" if rank["hidden_fraction"] is None else f", {percent(rank['hidden_fraction'])} of it hidden"
    title = f"Lanes of {_rank_names([rank])[0]}: {label(busy)}{hidden}"
    order = names + ["exposed"] * bool(exposed)
    labels = {"mode": "hide", "minsize": 8}  # of one size, and none where it does not fit
    figure.update_layout(barmode="overlay", uniformtext=labels, **layout(title, height=220 + 100 * len(names) + 40))
    figure.update_xaxes(title="time (ms)", range=[0, rank["span_ns"] / MS])
    figure.update_yaxes(categoryorder="array", categoryarray=order[::-1], type="category")
    return figure


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
    """Why each stream was idle between its kernels, in ms by cause.

    rank: a member of `ranks` of a report. Raises WeftraceError without plotly.
    """
    go = plotly_objects()
    causes = rank["idle_causes"]
    streams = causes["by_stream"]
    names = [label(f"stream {stream['stream']}") for stream in streams]
    figure = go.Figure()
    for cause, name, colour in CAUSES:
        times = [stream[cause] / MS for stream in streams]
        if any(times):
            figure.add_bar(
                name=name,
                y=names,
                x=times,
                orientation="h",
                marker_color=colour,
                hovertemplate="%{y}: " + name + " %{x:.3f} ms<extra></extra>",
            )
    threshold = f", kernel gap under {duration(causes['threshold_ns'])}" if causes["threshold_ns"] else ""
    title = f"Why streams were idle (ms{threshold})"
    figure.update_layout(barmode="stack", **layout(title, height=180 + 28 * len(streams)))
    figure.update_xaxes(title="idle time (ms)")
    figure.update_yaxes(autorange="reversed", type="category")
    return figure


def ranks_figure(document: ReportDocument) -> go.Figure:
    """The ranks of a job side by side, the longest span first: the parts of each span in ms, and the hidden share in %.

    document: a report (schema weftrace.report/1); what is in no sum of the job is left out, and the title says so.
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
        **layout(f"Ranks, the longest span first (ms){f'; {left} in no sum left out' if left else ''}", height=420),
    )
    figure.update_xaxes(title="rank", type="category")
    return figure


# ---- small parts


def _add_boxes(figure: go.Figure, lane: str, boxes: Sequence[Stretch], legend: str, colour: str, ink: str) -> None:
    """One trace for the boxes of a lane and a role. legend: its name there, which the first of a name shows."""
    with_outline = colour in palette.ROLE_COLOURS.values()  # runs of kernels without phases are too many for outlines
    figure.add_bar(
        name=legend,
        legendgroup=legend,
        showlegend=not any(trace.name == legend for trace in figure.data),
        y=[lane] * len(boxes),
        base=[box.start_ns / MS for box in boxes],
        x=[(box.end_ns - box.start_ns) / MS for box in boxes],
        orientation="h",
        marker={"color": colour, "line": {"color": "#ffffff", "width": int(with_outline)}},
        width=[0.9 * min(1.0, box.busy_ns / (box.end_ns - box.start_ns)) for box in boxes],
        text=[label(shorten_middle(box.key[0], 24)) for box in boxes],
        textposition="inside",
        insidetextanchor="middle",
        constraintext="inside",
        textangle=-90 if len(boxes) > _FEW else 0,  # upright, a name fits where its box is narrow
        textfont={"color": ink},
        hovertemplate="%{customdata}<extra></extra>",
    )


def _box_hover(box: Stretch, sm_unit: str) -> str:
    name, number, _ = box.key
    sms = f"<br>{box.sms} {sm_unit}" if box.sms else ""
    busy = of_whole(box.busy_ns, box.end_ns - box.start_ns)
    return f"<b>{label(f'{name} {number}'.strip())}</b><br>from {duration(box.start_ns)}, {busy} busy{sms}"


def _kernel_hover(kernel: KernelDocument) -> str:
    name = "<br>".join(label(part) for part in _wrapped(clean(kernel["name"])[:600], 90))
    times = f"{duration(kernel['total_ns'])} in {kernel['num_events']:,} events, mean {kernel['mean_ns'] / US:,.1f} µs"
    return f"<b>{name}</b><br>{times}<br>{label(kernel['family'])}"


def _wrapped(text: str, width: int) -> list[str]:
    return [text[at : at + width] for at in range(0, len(text), width)]


def _lane_labels(lanes: Sequence[LaneDocument]) -> list[str]:
    """A label for each lane, unlike every other, for bands of one label would be drawn on one line."""
    labels: list[str] = []
    for lane in lanes:
        name, sms = label(lane["lane"]), sms_text(lane)
        found = name + (f"<br>{sms}" if sms else "")
        copies = sum(other.partition("\u200b")[0] == found for other in labels)
        labels.append(found + "\u200b" * copies)  # a blank without width, which no reader sees
    return labels


def _rank_names(ranks: Sequence[RankDocument]) -> list[str]:
    """A name for each rank, unlike every other: with its device where one process drives several."""
    names = [
        f"rank {rank['rank']}" if rank["rank"] is not None else clean(rank["path"] or "rank unknown") for rank in ranks
    ]
    several = len(set(names)) < len(names)
    return [
        label(f"{name}, device {rank['device']}" if several else name) for name, rank in zip(names, ranks, strict=True)
    ]
