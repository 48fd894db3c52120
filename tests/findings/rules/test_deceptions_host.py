"""What looks like a host that is too slow and is none, or whose remedy is another one; on traces of known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.findings.rules.test_host import evidence_of, fired, launch
from tests.findings.rules.test_serving import decoding
from tests.tracefile import TraceFile
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.rules.host import host_bound
from weftrace.advice.findings.rules.serving import decode_gap
from weftrace.trace import Trace, open_trace
from weftrace.trace.work import work_of


@pytest.mark.parametrize("gap_us", [50_000, 2_000])
def test_a_server_without_requests(tmp_path: Path, gap_us: float) -> None:
    """Between steps of 1 ms nothing of the host is recorded: long gaps may be those of a server without load."""
    file = decoding(dict.fromkeys(range(8), gap_us))
    file.events = [event for event in file.events if event["name"] != "schedule"]
    one = fired(list(decode_gap(evidence_of(file, tmp_path))))
    unloaded = gap_us > 20_000
    assert (one.confidence, one.is_bound) == (("low", True) if unloaded else ("high", False))
    assert ("no requests" in one.sentence) == unloaded


def stepping(*, sleeps: bool, steps: int = 4) -> TraceFile:
    """Steps of 20 operators of 40 µs with 10 µs of the device each; before each it may sleep, or log at the end."""
    file, at = TraceFile(), 0.0
    for step in range(steps):
        begin = at
        for _ in range(20):
            if sleeps:
                file.host("train.py(12): throttle", at + 2, 100, cat="python_function")
                file.host("<built-in function sleep>", at + 3, 98, cat="python_function")
                at += 100
            at += 42
            launch(file, at, at + 3, 10, op=38)
        at += 24
        if not sleeps:
            file.host("log.py(3): write_scalar", at - 20, 18, cat="python_function")
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    return file


def with_frames(file: TraceFile, folder: Path) -> Evidence:
    trace = open_trace(file.write(folder / "trace.json"), frames=True)
    assert isinstance(trace, Trace)
    return Evidence(work=work_of(trace))


def test_time_in_functions_of_python(tmp_path: Path) -> None:
    """CUDA graphs do not make the user's own sleep any shorter."""
    one = fired(list(host_bound(with_frames(stepping(sleeps=True), tmp_path))))
    assert "most in <built-in function sleep> (train.py(12): throttle)" in one.sentence
    assert one.where.operator == "" and one.where.code == "train.py(12): throttle"
    assert one.saves_ns == (0, one.cost_ns) and one.is_bound and one.confidence == "medium"


def test_a_function_around_other_work_is_not_named(tmp_path: Path) -> None:
    """The only frame is around a log at the end of a step, not around the operators that cost most."""
    one = fired(list(host_bound(with_frames(stepping(sleeps=False), tmp_path))))
    assert one.where.operator == "aten::mm" and one.where.code == ""
