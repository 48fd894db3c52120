"""What the lane picture is drawn from: bands of boxes in time, and who they belong to. Plain JSON values.

A report's rank (`weftrace.report/1`) holds all of it; a schedule or a simulation may make it too, with any number of
bands: the name of a band is data.
"""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from weftrace.files.schemas import Count, Ns, Share

SmUnit = Annotated[Literal["SMs", "CUs"], Meta(description="What `sms` counts: compute units (CUs) on AMD.")]


BusyStretch = Annotated[
    list[int],
    Meta(
        min_length=3,
        max_length=3,
        description="[start, end, busy] in nanoseconds. Usually the whole interval is busy; if there "
        "were too many to list, neighbours are merged and busy is less than end - start.",
    ),
]


class BoxDocument(TypedDict):
    """One stretch of a phase, or of a kernel family outside phases. It spans no wait of 30 µs or more, but in a lane of
    thousands of boxes, where only the longest waits part them."""

    name: str
    index: Annotated[Count, Meta(description="Which occurrence of the name it is, from 0.")]
    phase: Annotated[int | None, Meta(description="Number of the phase in the trace; boxes of one phase share it.")]
    layer: Annotated[int | None, Meta(description="What a plan says about a simulated phase; null if it says nothing.")]
    micro_batch: Annotated[int | None, Meta(description="Micro-batch, in the form of layer.")]
    direction: Annotated[
        Literal["F", "B", "W"] | None, Meta(description="Forward, backward or weight gradient; null if unknown.")
    ]
    start_ns: int
    end_ns: int
    busy_ns: Ns
    sms: Count | None
    part: NotRequired[
        Annotated[
            Literal["issue", "transfer", "receive"],
            Meta(
                description="For a transfer that holds no SM: the kernel that issues it, the "
                "transfer, or the kernel that ends it."
            ),
        ]
    ]


class LaneDocument(TypedDict):
    """One band of the lane picture: compute, communication, or whatever its name says."""

    lane: str
    sms: Annotated[Count | None, Meta(description="SMs that it holds; null if no launch grid is recorded.")]
    sms_exact: Annotated[bool, Meta(description="False if sms is an upper bound.")]
    sm_unit: SmUnit
    busy_ns: Ns
    busy: Annotated[list[BusyStretch], Meta(description="When it ran, in order.")]
    streams: list[int]
    boxes: list[BoxDocument]


class ArrowDocument(TypedDict):
    """What waits for what: work of one lane for the end of another's. Lanes are named by their place in the picture."""

    from_lane: Count
    from_ns: int
    to_lane: Count
    to_ns: int
    held: Annotated[
        bool, Meta(description="Whether the waiting work started just then, because nothing else held it longer.")
    ]


class LanePicture(TypedDict):
    """Whose lanes they are, and the lanes. Starts and ends count from its first device event.

    busy: when the device ran anything, copies included; it was idle in between. exposed: when communication was
    exposed; num_exposed: in how many stretches.
    """

    rank: int | None
    name: str
    device: int | None
    device_name: str
    basis: Literal["device", "host", "ranges", "none"]
    simulated: bool
    span_ns: Ns
    communication_ns: Ns
    exposed_communication_ns: Ns
    hidden_fraction: Share | None
    busy: list[BusyStretch]
    lanes: list[LaneDocument]
    exposed: list[BusyStretch]
    num_exposed: Count


class PlannedPicture(LanePicture):
    """Lanes of a plan, which knows what waits for what across them. hidden: communication beside which some compute
    ran."""

    hidden: list[BusyStretch]
    arrows: list[ArrowDocument]


def sms_text(lane: LaneDocument) -> str:
    """The SMs of a lane: "20 SMs", "≤304 CUs", or nothing where they are not known."""
    return "" if lane["sms"] is None else f"{'' if lane['sms_exact'] else '≤'}{lane['sms']} {lane['sm_unit']}"


def number_of(box: BoxDocument) -> str:
    """A box's number: its layer and micro-batch where a plan has them, "2" or "2.1", else its occurrence."""
    summary = [str(value) for value in (box["layer"], box["micro_batch"]) if value is not None]
    return ".".join(summary) or str(box["index"])
