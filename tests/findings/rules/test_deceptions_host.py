"""What looks like a host that is too slow and is none, or whose remedy is another one; on traces of known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.findings.rules.test_host import evidence_of, fired, launch
from tests.findings.rules.test_serving import decoding
from tests.tracefile import TraceFile
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.rules.host import host_bound
from weftrace.advice.findings.rules.loading import data_loading
from weftrace.advice.findings.rules.optimizer import ddp_overhead, optimizer_step
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


def waiting_in(name: str, waits_us: list[float], *, ddp: bool = False) -> TraceFile:
    """Steps of ten operators whose kernels keep the device busy; a range of the host's own before each step."""
    file, at = TraceFile(), 0.0
    for step, wait in enumerate(waits_us):
        begin = at
        file.host(name, at, wait, cat="user_annotation")
        at += wait + 2
        for _ in range(10):
            launch(file, at, at + 3, 40, op=38)
            at += 42
        file.host(f"ProfilerStep#{step}", begin, at - begin)
    if ddp:
        file.host("DistributedDataParallel.forward", 0, at, cat="user_annotation")
    return file


def test_a_range_called_like_ddps_search_is_none_without_ddp(tmp_path: Path) -> None:
    name = "prune: search_unused_parameters"
    assert not list(ddp_overhead(evidence_of(waiting_in(name, [200.0] * 5), tmp_path)))
    assert fired(list(ddp_overhead(evidence_of(waiting_in(name, [200.0] * 5, ddp=True), tmp_path)))).key == "unused"


def test_one_late_batch_is_told_as_one(tmp_path: Path) -> None:
    late = fired(list(data_loading(evidence_of(waiting_in("data_loader", [1.0, 1.0, 1.0, 9_000.0, 1.0]), tmp_path))))
    assert late.where.step == 3 and "in step 3 alone" in late.sentence
    always = fired(list(data_loading(evidence_of(waiting_in("data_loader", [300.0] * 5), tmp_path))))
    assert always.where.step is None and "alone" not in always.sentence


@pytest.mark.parametrize("name", ["[pl][profile][_TrainingEpochLoop].train_dataloader_next", "data_loader\nof #1"])
def test_names_of_loaders(tmp_path: Path, name: str) -> None:
    assert fired(list(data_loading(evidence_of(waiting_in(name, [300.0] * 5), tmp_path)))).cost_ns > 0


def test_an_optimizer_that_runs_on_the_host(tmp_path: Path) -> None:
    """It launches nothing, and the device waits for it all the same."""
    one = fired(list(optimizer_step(evidence_of(waiting_in("Optimizer.step#CPUAdam.step", [400.0] * 5), tmp_path))))
    assert "runs on the host" in one.sentence and one.is_bound and one.saves_ns == (0, one.cost_ns)
