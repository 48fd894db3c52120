"""The parts of idle time against a count of its own: raw JSON, plain Python, integer nanoseconds, no code of ours."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from weftrace.analysis.intervals import sums_by_group
from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.analysis.waiting.idle_pieces import idle_pieces
from weftrace.trace import Trace, open_trace
from weftrace.trace.work import works_of

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver", "hip_runtime")
TURNAROUND_NS, MOST_LATENCY_NS = 30_000, 100_000


def ns(microseconds: object) -> int:
    return int((Decimal(str(microseconds)) * 1000).to_integral_value())


def counted(path: Path, device: int) -> dict[str, int]:
    """Parts of the idle time of a device, by looking at each gap."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as opened:
        events = json.load(opened, parse_float=Decimal, strict=False)["traceEvents"]
    calls: dict[int, tuple[int, int, str]] = {}
    work: list[tuple[int, int, int]] = []
    for event in events:
        if event.get("ph") != "X" or "dur" not in event:
            continue
        args, start = event.get("args", {}), ns(event["ts"])
        end = start + ns(event["dur"])
        if event.get("cat") in CALLS and args.get("correlation", 0) > 0:
            calls.setdefault(args["correlation"], (start, end, event["name"]))
        if event.get("cat") in DEVICE and args.get("device", device) == device:
            work.append((start, end, args.get("correlation", 0)))
    gaps: list[tuple[int, int, tuple[int, int, str] | None]] = []
    reach: int | None = None
    for start, end, correlation in sorted(work, key=lambda each: each[0]):
        if reach is not None and start > reach:
            gaps.append((reach, start, calls.get(correlation)))
        reach = end if reach is None else max(reach, end)
    late: dict[str, list[int]] = {}
    for begin, until, call in gaps:
        if call and call[0] >= begin:
            late.setdefault(call[2], []).append(max(0, until - call[1]))
    usual = {name: min(MOST_LATENCY_NS, _median(delays)) for name, delays in late.items()}
    parts = dict.fromkeys(PARTS, 0)
    for begin, until, call in gaps:
        if call is None:
            parts["unknown"] += until - begin
        elif call[1] <= begin:
            parts["turnaround" if until - begin <= TURNAROUND_NS else "held"] += until - begin
        else:
            called, returned = min(max(call[0], begin), until), min(max(call[1], begin), until)
            arrived = min(returned + usual.get(call[2], 0), until)
            parts["host"] += called - begin
            parts["call"] += returned - called
            parts["launch_latency"] += arrived - returned
            parts["held"] += until - arrived
    return parts


def _median(values: list[int]) -> int:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2


def test_parts_equal_a_count_from_the_raw_file(recorded_traces: list[Path]) -> None:
    checked = []
    for path in recorded_traces:
        if not path.name.endswith(".json.gz") or path.stat().st_size > 5_000_000:
            continue
        trace = open_trace(path)
        assert isinstance(trace, Trace)
        for work in works_of(trace):
            if work.basis != "device" or work.num_clipped or work.num_out_of_window or work.device is None:
                continue
            if not work.events.get_column("link").is_in(["correlation"]).all():
                continue
            pieces = idle_pieces(work)
            found = sums_by_group(pieces.part, pieces.length, len(PARTS))
            assert dict(zip(PARTS, found.tolist(), strict=True)) == counted(path, work.device), path.name
            checked.append(path.name)
    if not checked:
        pytest.skip("no recorded traces are here: WEFTRACE_DATA names their folder")
    assert np.unique(checked).size >= 5
