"""The lanes that `annotate` adds beside phases: why the device waited, and what an engine served."""

from __future__ import annotations

from pathlib import Path

from tests.tracefile import GEMM, TraceFile
from weftrace.report import overlay
from weftrace.trace import work_of


def test_gaps_are_named_by_their_cause_and_iterations_by_their_kind(tmp_path: Path) -> None:
    """Two decode steps of 4 requests; 2,000 µs of data loading lie between their kernels."""
    file = TraceFile()
    for start in (0, 2_200):
        file.host("execute_context_0(0)_generation_4(4)", start, 60)
        file.kernel(GEMM, start + 20, 80, launch=start + 10)
    file.host("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 110, 2_000)
    events = list(overlay([work_of(file.trace(tmp_path))]))
    lanes = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    boxes = [(lanes[e["tid"]], e["name"], float(e["ts"]), float(e["dur"])) for e in events if e["ph"] == "X"]
    assert [box for box in boxes if box[0] == "idle lane"] == [("idle lane", "the data loader", 100.0, 2_120.0)]
    assert [box for box in boxes if box[0] == "serving lane"] == [
        ("serving lane", "decode, 4 requests, 0 prompt tokens", 20.0, 80.0),
        ("serving lane", "decode, 4 requests, 0 prompt tokens", 2_220.0, 80.0),
    ]
