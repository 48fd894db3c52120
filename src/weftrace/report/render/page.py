"""HTML: the report of a trace as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from weftrace.render.page import render_page
from weftrace.report.render.words import TERMS

#: The package that holds the page's template and static files, and its first module.
HOME, ENTRY = "weftrace.report.render", "main"


class PackedColumn(TypedDict):
    """Little-endian numbers in base64."""

    type: Literal["u1", "u2", "u4", "f8"]
    data: str


#: A number for each event. start, dur: in ns; name, class: positions in `names` and `classes`; launch: 1 + the position
#: of the call that launched a device event, or 0.
TimelineColumns = TypedDict(
    "TimelineColumns",
    {"start": PackedColumn, "dur": PackedColumn, "name": PackedColumn, "class": PackedColumn, "launch": PackedColumn},
)


class TimelineGroup(TypedDict):
    label: str
    kind: Literal["device", "host"]


class TimelineTrack(TypedDict):
    """A stream, what is noted beside one, or a host thread. rows: (first event, how many) of each depth of nesting."""

    group: int
    label: str
    kind: Literal["stream", "notes", "thread"]
    device: NotRequired[int]
    stream: NotRequired[int]
    rows: list[tuple[int, int]]


class TimelineBlock(TypedDict):
    """A rank's timeline as the page holds it: `timeline_payload`, and how far its start is from the rank's."""

    format: str
    rank: int | None
    start_ns: int
    first_ns: int
    end_ns: int
    num_events: int
    num_device: int
    columns: TimelineColumns
    names: list[str]
    classes: list[str]
    groups: list[TimelineGroup]
    tracks: list[TimelineTrack]
    left_out: dict[str, int]
    shortened_names: int
    shift_ns: int


def render_html(document: Mapping[str, Any], timelines: Sequence[Mapping[str, Any] | None]) -> str:
    """One self-contained page for a report document, as text.

    document: the JSON report (`schema.json`).
    timelines: `timelines[i]` is the payload of `timeline_payload` for `document["ranks"][i]`; None, or a sequence that
        ends early, leaves a rank without its timeline, and the page says so.
    Raises ValueError where the document holds a NaN or an infinity, which JSON cannot.
    """
    blocks: list[tuple[str, Mapping[str, Any]]] = [("weftrace-report", document)]
    for number, (timeline, rank) in enumerate(zip(timelines, document["ranks"], strict=False)):
        if timeline is not None:
            # Times in the page count from the rank's start. Absolute nanoseconds do not fit a float64: joined here.
            shift_ns = timeline["start_ns"] - rank["start_ns"] if rank["start_ns"] is not None else 0
            blocks.append((f"weftrace-timeline-{number}", {**timeline, "shift_ns": shift_ns}))
    return render_page(
        "page.html",
        home=HOME,
        entry=ENTRY,
        styles=["render/page.css"],
        blocks=blocks,
        terms=TERMS,
        title=document["source"],
        headline=document["headline"],
        version=document["weftrace"],
    )
