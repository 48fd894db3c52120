"""A rank's timeline as a type: what `timeline_payload` packs, and the page draws."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from weftrace.render.packed import PackedColumn

#: A number for each event. start, dur: in ns; name, class: positions in `names` and `classes`; facts: 1 + a position in
#: `facts.rows`, or 0. Of device events: launch: 1 + the position of the call that launched it, or 0; correlation: its
#: distance from `first_correlation`, plus 1, or 0.
TimelineColumns = TypedDict(
    "TimelineColumns",
    {
        "start": PackedColumn,
        "dur": PackedColumn,
        "name": PackedColumn,
        "class": PackedColumn,
        "launch": PackedColumn,
        "correlation": PackedColumn,
        "facts": PackedColumn,
    },
)


class FactsRow(TypedDict, total=False):
    """What events say beside name and times; a text is its position in `texts`. bytes: what a copy or a collective
    moved. sms: what a kernel holds, at most, or exactly with sms_exact. operator: where its launch is not drawn."""

    grid: int
    block: int
    registers: int
    shared_bytes: int
    occupancy: int
    sms: int
    sms_exact: int
    operator: int
    shapes: int
    types: int
    stack: int
    bytes: int
    collective: int
    dtype: int
    in_elems: int
    out_elems: int
    group: int
    group_size: int
    ranks: int
    graph: int


class TimelineFacts(TypedDict):
    """Each different row once; `timeline_facts` says which events they are of."""

    texts: list[str]
    rows: list[FactsRow]


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


class TimelineGaps(TypedDict):
    """The longest gaps of a device.

    start (from first_ns), dur: of each, in ns. before, after, call: the work around it, and what launched the second:
    1 + a position in `names`, or 0. rows: how many rows of part, cause, ns and name are its own. part, cause: positions
    in `parts` and `causes`; name: what was innermost on the launching thread, as before. unrecorded_start,
    unrecorded_dur: stretches in which work ran that the file lacks. left_out: shorter gaps.
    """

    first_ns: int
    start: PackedColumn
    dur: PackedColumn
    before: PackedColumn
    after: PackedColumn
    call: PackedColumn
    rows: PackedColumn
    part: PackedColumn
    cause: PackedColumn
    ns: PackedColumn
    name: PackedColumn
    parts: list[str]
    causes: list[str]
    names: list[str]
    unrecorded_start: PackedColumn
    unrecorded_dur: PackedColumn
    left_out: int


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
    first_correlation: int
    facts: TimelineFacts
    names: list[str]
    classes: list[str]
    groups: list[TimelineGroup]
    tracks: list[TimelineTrack]
    left_out: dict[str, int]
    shortened_names: int
    gaps: NotRequired[TimelineGaps]
