"""Copies of recorded traces, written by other rules than a profiler's: kernels slower, and what follows them later."""

from __future__ import annotations

import gzip
import json
from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
Event = dict[str, Any]


def read(path: Path) -> dict[str, Any]:
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    summary = json.loads(text, parse_float=str)  # 19 digits: exact
    document = summary if isinstance(summary, dict) else {"traceEvents": summary}
    for event in document["traceEvents"]:
        for key in {"ts", "dur"} & event.keys():
            event[key] = _ns(event[key])
    return document


def _ns(summary: Any) -> int:
    whole, _, part = str(summary).partition(".")
    return 1000 * int(whole) + int((part + "000")[:3])


def write(document: dict[str, Any], path: Path) -> Path:
    """Times are whole ns; they are written as Kineto does, in us with three decimals."""
    events = []
    for event in document["traceEvents"]:
        summary = dict(event)
        for key in {"ts", "dur"} & event.keys():
            summary[key] = f"@{event[key] // 1000}.{event[key] % 1000:03}@"
        events.append(summary)
    text = json.dumps({**document, "traceEvents": events})
    path.write_text(text.replace('"@', "").replace('@"', ""))
    return path


def on_device(event: Event) -> bool:
    return event.get("ph") == "X" and event.get("cat", "").lower() in DEVICE


def slower(document: dict[str, Any], is_chosen: Callable[[str], bool], times: float, *, moves: str) -> dict[str, Any]:
    """The chosen kernels take so many times as long.

    moves: "nothing": no start changes, kernels may overlap the next of their stream. "device": what starts after a
    chosen kernel's end is later by what that takes more. "all": on the host too. What runs beside one does not change.
    """
    chosen = sorted(
        (event["ts"] + event["dur"], round(event["dur"] * times) - event["dur"])
        for event in document["traceEvents"]
        if on_device(event) and is_chosen(event["name"])
    )
    ends, sums = [end for end, _ in chosen], [0, *accumulate(more for _, more in chosen)]

    def moved(event: Event) -> Event:
        if "ts" not in event:
            return event
        summary = dict(event)
        if moves == "all" or (moves == "device" and on_device(event)):
            summary["ts"] += sums[bisect_right(ends, event["ts"])]
            if "dur" in event and not on_device(event):
                summary["dur"] = (
                    event["ts"] + event["dur"] + sums[bisect_right(ends, event["ts"] + event["dur"])] - summary["ts"]
                )
        if on_device(event) and is_chosen(event["name"]):
            summary["dur"] = round(event["dur"] * times)
        return summary

    return {**document, "traceEvents": [moved(event) for event in document["traceEvents"]]}
