"""The shape that chrome://tracing and Perfetto expect, checked event by event.

Source: Trace Event Format, https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
"""

from __future__ import annotations

from collections import Counter
from typing import Any

METADATA = {
    "process_name": ("name", str),
    "process_labels": ("labels", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check(file: Any) -> Counter[str]:
    """Assert the shape of a parsed file; how many events of each `ph` it has."""
    assert isinstance(file, dict), type(file)
    assert file["displayTimeUnit"] in ("ms", "ns")
    events = file["traceEvents"]
    assert isinstance(events, list)
    for event in events:
        check_event(event)
    check_flows([event for event in events if event["ph"] in "stf"])
    return Counter(event["ph"] for event in events)


def check_event(event: Any) -> None:
    assert isinstance(event["ph"], str) and len(event["ph"]) == 1, event
    assert isinstance(event["name"], str), event
    assert isinstance(event["pid"], int | str) and isinstance(event["tid"], int | str), event
    assert is_number(event["ts"]), event
    assert isinstance(event.get("cat", ""), str), event
    assert isinstance(event.get("args", {}), dict), event
    match event["ph"]:
        case "X":
            assert is_number(event["dur"]) and event["dur"] >= 0, event
        case "M":
            key, kind = METADATA[event["name"]]
            assert isinstance(event["args"][key], kind), event
        case "i":
            assert event["s"] in "gpt", event
        case "C":
            assert event["args"] and all(is_number(value) for value in event["args"].values()), event
        case "s" | "f":
            assert isinstance(event["id"], int), event
            assert event["ph"] == "s" or event["bp"] == "e", event
        case other:
            raise AssertionError(f"ph {other!r}: {event}")


def check_flows(flows: list[Any]) -> None:
    """Each id has a start and an end."""
    starts = {event["id"] for event in flows if event["ph"] == "s"}
    ends = {event["id"] for event in flows if event["ph"] == "f"}
    assert starts == ends, starts ^ ends
