"""A rank's timeline as a type: what `timeline_payload` packs, and the page draws."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


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


class TimelinePayload(TypedDict):
    """A rank's events as the page's timeline draws them; `timeline_payload` says what each field is."""

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
