"""What a report costs grows with what a file asks for as with its text, in each dimension: threads, streams, names …

Counted are calls of Python functions, not time. An operation on a frame is about a hundred calls, so that a loop over
the threads of a file costs as many for each of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.trace.chrome.files import encoded, read_text, text_of
from weftrace.report import analyze

Events = list[dict[str, Any]]

#: Calls for each more thread, stream, name …: two operations on frames.
MOST_CALLS = 250
FEW, MANY = 300, 900


def op(ts: int, tid: int = 1, pid: int = 100, name: str = "aten::add", **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": 3, "args": args}


def launch(ts: int, number: int, tid: int = 1) -> dict[str, Any]:
    args = {"correlation": number}
    return op(ts, tid, name="cudaLaunchKernel") | {"cat": "cuda_runtime", "dur": 1, "args": args}


def kernel(ts: int, number: int, name: str = "k", stream: int = 7, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": stream, "correlation": number, **args}
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": ts, "dur": 2, "args": args}


def pairs(count: int, **more: Callable[[int], Any]) -> Events:
    """Launches and their kernels; more: how an argument of the kernel follows from its number."""
    return [
        event
        for n in range(count)
        for event in (launch(10 * n, n + 1), kernel(10 * n + 3, n + 1, **{k: of(n) for k, of in more.items()}))
    ]


def annotated(count: int, name: Callable[[int], str]) -> Events:
    around = [op(10 * n, name=name(n)) | {"cat": "user_annotation", "dur": 9} for n in range(count)]
    return [*around, *pairs(count)]


def nested(count: int) -> Events:
    frames = [
        op(n, name=f"nn.Module: M_{n}") | {"cat": "python_function", "dur": 20 * count - 2 * n} for n in range(count)
    ]
    later = [event | {"ts": event["ts"] + count} for event in pairs(count)]
    return [*frames, *later]


def communicating(n: int) -> dict[str, Any]:
    return {"Collective name": f"c{n}", "Process Group Name": f"g{n}", "Process Group Ranks": f"[{n}, {n + 1}]"}


DIMENSIONS: dict[str, Callable[[int], Events]] = {
    "threads": lambda n: [*pairs(9), *(op(i, tid=i) for i in range(n))],
    "launching threads": lambda n: [e for i in range(n) for e in (launch(3 * i, i + 1, i), kernel(3 * i + 1, i + 1))],
    "processes": lambda n: [*pairs(9), *(op(i, pid=i) for i in range(n))],
    "threads without a device": lambda n: [op(i, tid=i) for i in range(n)],
    "streams": lambda n: pairs(n, stream=lambda i: i),
    "kernels": lambda n: pairs(n, name=lambda i: f"kernel{i}"),
    "operators": lambda n: [*pairs(9), *(op(10 * i, name=f"op{i}") for i in range(n))],
    "groups": lambda n: [kernel(10 * i, i + 1, "ncclDevKernel_AllReduce", **communicating(i)) for i in range(n)],
    "steps": lambda n: annotated(n, lambda i: f"ProfilerStep#{i}"),
    "phases": lambda n: annotated(n, lambda i: f"phase{i}"),
    "modules in each other": nested,
    "threads of a plain trace": lambda n: [op(i, tid=i, name="all_reduce") | {"cat": "x"} for i in range(n)],
}
QUICK = ("threads", "launching threads", "streams", "groups", "threads of a plain trace")


def calls(events: Events) -> int:
    """Of Python functions, to read a file of these events and to report on it."""
    text, number = text_of(*map(encoded, events)), 0

    def note(frame: object, event: str, arg: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        analyze(read_text(text, frames=True))
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough) for name in DIMENSIONS]
)
def test_a_report_costs_no_more_than_its_text(name: str) -> None:
    few, many = (calls(DIMENSIONS[name](count)) for count in (FEW, MANY))
    assert (many - few) / (MANY - FEW) < MOST_CALLS, (few, many)
