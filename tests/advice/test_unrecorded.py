"""A replay keeps a hole in which work ran that the file does not hold."""

from __future__ import annotations

from pathlib import Path

from tests.tracefile import GEMM, TraceFile
from weftrace.advice.jobs import infer_job
from weftrace.advice.waterfalls import waterfall
from weftrace.plan import infer


def test_a_hole_is_as_long_in_the_replay_and_nothing_is_promised_for_it(tmp_path: Path) -> None:
    """Twenty kernels of 100 µs end at 2,100; the next was launched at 410 and starts at 7,100."""
    file = TraceFile()
    for number in range(20):
        file.host("aten::mm", 20 * number, 15, cat="cpu_op")
        file.kernel(GEMM, 100 + 100 * number, 100, launch=20 * number + 5)
    trace = file.kernel(GEMM, 7_100, 50, launch=410).trace(tmp_path)
    found = infer_job(trace)
    assert found.replay.error == 0.0 and found.replay.is_trustworthy
    assert infer(trace).replay.error < -0.6  # without the hole it is lost
    bars = {row["name"]: row for row in waterfall(found).bars.iter_rows(named=True)}
    assert bars["unrecorded"]["time_ns"] == 5_000_000 and bars["unrecorded"]["alone_ns"] is None
