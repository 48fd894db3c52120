"""The lane picture as a plotly figure, for notebooks; it shows nothing by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weftrace.render import palette
from weftrace.render.console_text import clean, shorten_middle
from weftrace.render.figure_parts import label, layout, plotly_objects
from weftrace.render.lane_types import LaneDocument, LanePicture, sms_text
from weftrace.render.lanes_layout import JOINED, Stretch, joined, joined_stretches, role_word
from weftrace.units import MS, duration, of_whole, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FEW = 4  # boxes of a lane and a role that have room for their names side by side
_COLUMNS = 1500  # stretches of a phase that 2 of them hold apart are boxes of their own


def drawn_lanes(rank: LanePicture, of: str) -> go.Figure:
    """The lane picture: the phases of each lane over time in ms, exposed time in red.

    A box is as high as it was dense: half as high as its lane where the lane ran for half of the box's time.
    rank: each of its `lanes` is a band, in their order. of: whose they are. Raises WeftraceError without plotly.
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
    title = f"Lanes of {of}: {label(busy)}{hidden}"
    order = names + ["exposed"] * bool(exposed)
    labels = {"mode": "hide", "minsize": 8}  # of one size, and none where it does not fit
    figure.update_layout(barmode="overlay", uniformtext=labels, **layout(title, height=220 + 100 * len(names) + 40))
    figure.update_xaxes(title="time (ms)", range=[0, rank["span_ns"] / MS])
    figure.update_yaxes(categoryorder="array", categoryarray=order[::-1], type="category")
    return figure


def _lane_labels(lanes: Sequence[LaneDocument]) -> list[str]:
    """A label for each lane, unlike every other, for bands of one label would be drawn on one line."""
    labels: list[str] = []
    for lane in lanes:
        name, sms = label(lane["lane"]), sms_text(lane)
        found = name + (f"<br>{sms}" if sms else "")
        copies = sum(other.partition("\u200b")[0] == found for other in labels)
        labels.append(found + "\u200b" * copies)  # a blank without width, which no reader sees
    return labels


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
