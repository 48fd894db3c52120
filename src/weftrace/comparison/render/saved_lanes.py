"""The lanes of a step of a saved report: those of its rank, cut at the step's ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from weftrace.analysis.activity import stretches_of
from weftrace.analysis.intervals import Intervals, union
from weftrace.render.lane_types import BoxDocument, LaneDocument, PlannedPicture


def saved_lanes(rank: Mapping[str, Any], start_ns: int, end_ns: int) -> PlannedPicture:
    """The lanes between two times (absolute ns). rank: of a `weftrace.report/1`.

    What crosses an end is cut there; where a report merged neighbours, with as much busy time as is its share.
    """
    start, end = start_ns - rank["start_ns"], end_ns - rank["start_ns"]
    lanes = [_lane(lane, start, end) for lane in rank["lanes"]]
    exposed = _stretches(rank["exposed"], start, end)
    communicating = [row for lane in lanes if lane["lane"] == "communication" for row in lane["busy"]]
    hidden = stretches_of(_intervals(communicating) - _intervals(exposed))
    total, exposed_ns = (sum(busy for _, _, busy in rows) for rows in (communicating, exposed))
    return {
        "rank": rank["rank"],
        "name": rank["name"],
        "device": rank["device"],
        "device_name": rank["device_name"],
        "basis": rank["basis"],
        "simulated": rank["simulated"],
        "span_ns": end - start,
        "communication_ns": total,
        "exposed_communication_ns": exposed_ns,
        "hidden_fraction": 1 - exposed_ns / total if total else None,
        "busy": _stretches(rank["busy"], start, end),
        "lanes": lanes,
        "exposed": exposed,
        "num_exposed": len(exposed),
        "hidden": [list(row) for row in zip(*(column.tolist() for column in hidden), strict=True)],
        "arrows": [],
    }


def _lane(lane: Mapping[str, Any], start: int, end: int) -> LaneDocument:
    busy = _stretches(lane["busy"], start, end)
    boxes: list[BoxDocument] = []
    for box in lane["boxes"]:
        if (row := _cut([box["start_ns"], box["end_ns"], box["busy_ns"]], start, end)) is not None:
            boxes.append(cast(BoxDocument, {**box, "start_ns": row[0], "end_ns": row[1], "busy_ns": row[2]}))
    summary = {**lane, "busy": busy, "busy_ns": sum(row[2] for row in busy), "boxes": boxes}
    return cast(LaneDocument, summary)


def _stretches(rows: Sequence[Sequence[int]], start: int, end: int) -> list[list[int]]:
    return [cut for row in rows if (cut := _cut(row, start, end)) is not None]


def _cut(row: Sequence[int], start: int, end: int) -> list[int] | None:
    """[start, end, busy] within two times, from the first of them on; None of what lies outside."""
    first, last = max(row[0], start), min(row[1], end)
    if first >= last:
        return None
    return [first - start, last - start, round(row[2] * (last - first) / (row[1] - row[0]))]


def _intervals(rows: Sequence[Sequence[int]]) -> Intervals:
    return union(np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], np.int64))
