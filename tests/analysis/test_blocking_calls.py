"""Calls that blocked the host, by pencil: each reason once, told by time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.waiting.blocking_calls import blocking_calls
from weftrace.trace import work_of
from weftrace.units import US


def rows(file: TraceFile, folder: Path) -> list[dict[str, Any]]:
    return blocking_calls(work_of(file.trace(folder))).to_dicts()


def steady() -> TraceFile:
    """Thirty launches of 1 µs, the device busy from 20 to 620."""
    file = TraceFile()
    for number in range(30):
        file.kernel(GEMM, 20 + 20 * number, 20, launch=5 + number)
    return file


def test_short_calls_do_not_block(tmp_path: Path) -> None:
    assert rows(steady(), tmp_path) == []


@pytest.mark.parametrize(
    ("call", "ts", "dur", "reason", "idle"),
    [
        ("cudaStreamSynchronize", 100, 500, "sync", 0),
        ("cudaMalloc", 600, 120, "allocation", 100),  # the device is idle from 620 to 720
        ("hipHostFree", 100, 300, "allocation", 0),
        ("cudaMemcpyAsync", 100, 15, None, 0),
    ],
)
def test_waits_and_allocations_count_with_what_the_device_idled_in_them(
    tmp_path: Path, call: str, ts: float, dur: float, reason: str | None, idle: int
) -> None:
    file = steady().host(call, ts, dur, cat="cuda_runtime").kernel(GEMM, 800, 10, launch=790)
    found = rows(file, tmp_path)
    assert [(row["reason"], row["total_ns"], row["idle_ns"]) for row in found] == (
        [(reason, int(dur) * US, idle * US)] if reason else []
    )


def test_a_copy_blocks_where_its_call_returns_after_it(tmp_path: Path) -> None:
    """A copy of 1,000 bytes runs from 700 to 900; one call lasts until 905, another returns at once."""
    for dur, blocks in ((210, True), (3, False)):
        file = steady()
        copy = "Memcpy HtoD (Pinned -> Device)"
        file.kernel(copy, 700, 200, launch=695, call="cudaMemcpyAsync", cat="gpu_memcpy", bytes=1_000)
        next(event for event in file.events if event["name"] == "cudaMemcpyAsync")["dur"] = dur
        found = rows(file, tmp_path)
        assert [(row["reason"], row["on"], row["moved_bytes"]) for row in found] == (
            [("copy", copy, 1_000)] if blocks else []
        )


def test_a_launch_many_times_as_long_as_others_is_first_use_or_just_long(tmp_path: Path) -> None:
    for kernel, reason in (("a_kernel_of_its_own", "first use"), (GEMM, "long launch")):
        file = steady().kernel(kernel, 3_700, 10, launch=700)
        next(event for event in file.events if event["ts"] == 700)["dur"] = 2_900
        (row,) = rows(file, tmp_path)
        assert (row["reason"], row["total_ns"], row["usual_ns"]) == (reason, 2_900 * US, 1 * US)


def test_a_full_queue_is_told_by_the_launches_ahead_of_the_device(tmp_path: Path) -> None:
    """1,100 launches are made at once; the 1,050th and all after take 40 µs each."""
    file = TraceFile()
    for number in range(1_100):
        slow = number >= 1_050
        ts = 5 + 2 * number + (50 * (number - 1_050) if slow else 0)
        file.kernel(GEMM, 100_000 + 20 * number, 20, launch=ts)
        file.events[-2]["dur"] = 40 if slow else 1
    (row,) = rows(file, tmp_path)
    assert (row["reason"], row["num_calls"], row["idle_ns"]) == ("full queue", 50, 0)
