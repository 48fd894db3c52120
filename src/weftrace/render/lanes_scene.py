"""The lane picture as a scene: bands with their SMs, boxes, what became of communication, arrows.

A lane is filled where it ran and nowhere else: boxes say who, the lane's stretches when.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, cast

from weftrace.render import palette
from weftrace.render.lane_types import LaneDocument, LanePicture, PlannedPicture, sms_text
from weftrace.render.lanes_layout import BoxRun, joined, role_word
from weftrace.render.scene import Arrow, Key, Look, Mark, Ran, Rect, Row, Scene
from weftrace.render.scene_figure import scene_figure
from weftrace.render.scene_svg import scene_svg
from weftrace.units import duration, of_whole, percent

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BAND, _STRIP, _GAP = 64, 14, 6
_COLUMNS = 1500  # stretches of a phase that 2 of them hold apart are boxes of their own
_FATES = {
    "hidden": Look(fill=palette.COMMUNICATION, word="hidden", opacity=0.45),
    "exposed": Look(fill=palette.EXPOSED, word="exposed"),
    "idle": Look(fill=palette.IDLE, word="idle"),
    "still": Look(fill=palette.EXPOSED, word="exposed", opacity=0.3),
}


def lanes_svg(
    picture: LanePicture | PlannedPicture, *, title: str, start_ns: int = 0, end_ns: int | None = None, width: int = 960
) -> str:
    """The lanes of a picture between two times, as the text of an SVG file."""
    scene = lanes_scene(picture, title=title, start_ns=start_ns, end_ns=end_ns)
    return scene_svg([scene], width - scene.left - scene.right)


def drawn_lanes(picture: LanePicture | PlannedPicture, of: str) -> go.Figure:
    """The lanes of a picture, whose they are, as a figure. Raises WeftraceError without plotly."""
    lanes = [lane for lane in picture["lanes"] if lane["boxes"]]
    busy = ", ".join(f"{lane['lane']} {of_whole(lane['busy_ns'], picture['span_ns'])} busy" for lane in lanes[:2])
    hidden = "" if picture["hidden_fraction"] is None else f", {percent(picture['hidden_fraction'])} of it hidden"
    return scene_figure(lanes_scene(picture, title=f"Lanes of {of}: {busy}{hidden}"))


def lanes_scene(
    picture: LanePicture | PlannedPicture, *, title: str, start_ns: int = 0, end_ns: int | None = None
) -> Scene:
    """The lanes of a picture between two times."""
    end = max(min(picture["span_ns"], picture["span_ns"] if end_ns is None else end_ns), start_ns + 1)
    lanes = [lane for lane in picture["lanes"] if lane["boxes"]]
    computing = [at for at, lane in enumerate(lanes) if lane["lane"].startswith("compute")]
    strip = max(computing, default=0) + 1
    row_of = [at + (at >= strip) for at in range(len(lanes))]
    rows = [Row(label=lane["lane"], note=sms_text(lane), height=_BAND, gap=_GAP, grounded=True) for lane in lanes]
    rects, marks = [], []
    for at, (lane, row) in enumerate(zip(lanes, row_of, strict=True)):
        last_ns = 0
        for box in joined(lane["boxes"], start_ns, end, (end - start_ns) / _COLUMNS):
            look = f"r{box.key[2]}" if box.key[2] in palette.ROLE_COLOURS else f"lane{at}"
            rects.append(_rect(lane, box, row, look, apart_ns=box.start_ns - last_ns))
            last_ns = box.start_ns
        parts = [(box, box.get("part")) for box in lane["boxes"] if start_ns < box["end_ns"] and box["start_ns"] < end]
        middles = [((box["start_ns"] + box["end_ns"]) // 2, part) for box, part in parts]
        marks += [Mark(row, middle, part == "issue") for middle, part in middles if part in ("issue", "receive")]
    fates: list[tuple[str, int, Ran]] = [("still", row_of[at], picture["exposed"]) for at in computing]
    if len(lanes) > 1 or picture["exposed"]:
        rows.insert(strip, Row(label="communication is", height=_STRIP, gap=_GAP))
        fates += [(fate, strip, ran) for fate, ran in _fates(picture).items()]
    rects += [Rect(row, start_ns, end, fate, ran=ran) for fate, row, ran in fates if ran]
    colours = palette.lane_colours([lane["lane"] for lane in lanes])
    own = {f"lane{at}": Look(fill=colour, word=lanes[at]["lane"]) for at, colour in enumerate(colours)}
    by_role = {f"r{role}": Look(fill=fill, word=role_word(role)) for role, fill in palette.ROLE_COLOURS.items()}
    return Scene(
        name=title,
        title=title,
        start_ns=start_ns,
        end_ns=end,
        left=118,
        right=12,
        looks={**by_role, **own, **_FATES},
        rows=tuple(rows),
        rects=rects,
        marks=marks,
        arrows=[
            Arrow(row_of[a["from_lane"]], a["from_ns"], row_of[a["to_lane"]], a["to_ns"], not a["held"])
            for a in cast("PlannedPicture", picture).get("arrows") or []
        ],
        keys=tuple(_keys(picture, lanes, {rect.look for rect in rects})),
    )


def _rect(lane: LaneDocument, box: BoxRun, row: int, look: str, *, apart_ns: int) -> Rect:
    """A phase's stretch, filled with what its lane ran of its time. apart_ns: from the start of the one before it, so
    that the two starts are told apart."""
    name, number, _ = box.key
    start, end, busy = box.start_ns, box.end_ns, lane["busy"]
    first = bisect_right(busy, start, key=lambda stretch: stretch[1])
    within = takewhile(lambda stretch: stretch[0] < end, islice(busy, first, None))
    cut = ((a, b, max(a, start), min(b, end), ran) for a, b, ran in within)
    sms = f", {box.sms} {lane['sm_unit']}" if box.sms else ""
    least_ns = max(1, min(end - start, apart_ns))
    digits = len(str(abs(start))) - len(str(least_ns)) + 2
    summary = f"from {duration(start, max(3, digits))}, {of_whole(box.busy_ns, end - start)} busy{sms}"
    return Rect(
        row,
        start,
        end,
        look,
        text=name,
        title=f"{f'{name} {number}'.strip()}: {summary}",
        ran=[(x, y, round(ran * (y - x) / (b - a))) for a, b, x, y, ran in cut],
        full=min(1.0, box.busy_ns / (end - start)),
    )


def _fates(picture: LanePicture | PlannedPicture) -> dict[str, Ran]:
    times = [0, *(time for start, end, _ in picture["busy"] for time in (start, end)), picture["span_ns"]]
    idle = [(start, end, end - start) for start, end in zip(times[::2], times[1::2], strict=True) if end > start]
    return {"hidden": cast("PlannedPicture", picture).get("hidden") or [], "exposed": picture["exposed"], "idle": idle}


def _keys(picture: LanePicture | PlannedPicture, lanes: Sequence[LaneDocument], drawn: set[str]) -> Iterator[Key]:
    for role in palette.ROLE_COLOURS:
        if f"r{role}" in drawn:
            yield Key((f"r{role}",), role_word(role))
    yield from (Key((fate,), fate) for fate in ("hidden", "exposed", "idle") if fate != "hidden" or fate in picture)
    if any(box.get("part") == "issue" for lane in lanes for box in lane["boxes"]):
        yield Key((), "▾ issued  ▴ received")
