"""Rules of serving engines and of compiled regions, on small made traces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.findings.rules.test_host import US, evidence_of, fired, launch
from tests.tracefile import GEMM, TraceFile
from weftrace.advice.findings.advising import replays_of
from weftrace.advice.findings.found import Missing
from weftrace.advice.findings.rules.graphs import graph_breaks
from weftrace.advice.findings.rules.host import host_bound, sync_every_step
from weftrace.advice.findings.rules.serving import decode_gap, decode_outside_graphs, graph_launch


def decoding(
    gaps_us: Mapping[int, float],
    *,
    singly: tuple[int, ...] = (),
    launch_us: float = 1,
    graphs: bool = True,
    steps: int = 8,
) -> TraceFile:
    """Steps of an engine, each 1 ms of 130 kernels in a graph, or, in some, launched one by one each 15 µs with 8 µs on
    the device. After each the host waits, then schedules for a while."""
    file, at = TraceFile(), 10.0
    for step in range(steps):
        begin = at
        if step in singly or not graphs:
            for _ in range(130):
                launch(file, at + 12, at + 13, 8, op=10)
                at += 15
            end, requests = at, 64
        else:
            file._correlation += 1
            file.host("cudaGraphLaunch", at + 5, launch_us, cat="cuda_runtime", correlation=file._correlation)
            at += 6 + launch_us
            file.events += [
                {"ph": "X", "cat": "kernel", "name": GEMM, "pid": 0, "tid": 7, "ts": at + 7.5 * node, "dur": 7.5,
                 "args": {"device": 0, "stream": 7, "correlation": file._correlation}}
                for node in range(130)
            ]  # fmt: skip
            end, requests = at + 975, 32
        file.host(f"execute_context_0(0)_generation_{requests}({requests})", begin, at + 1 - begin)
        file.host("cudaStreamSynchronize", at + 2, end - at, cat="cuda_runtime")
        if gap := gaps_us.get(step, 0):
            file.host("schedule", end + 3, gap)
        at = end + gap + 5
    return file


def test_the_device_is_idle_between_steps(tmp_path: Path) -> None:
    evidence = evidence_of(decoding(dict.fromkeys(range(8), 300.0)), tmp_path)
    one = fired(list(decode_gap(evidence)))
    assert one.cost_ns == pytest.approx(7 * 311 * US, rel=0.01)  # and what the host does in the next step
    gain, _ = replays_of(evidence).gain_of(one)
    assert gain is not None and gain.method == "measured"
    assert gain.high_share == pytest.approx(one.cost_ns / evidence.span_ns)
    assert list(host_bound(evidence)) == list(sync_every_step(evidence)) == []
    assert list(decode_outside_graphs(evidence)) == list(graph_launch(evidence)) == []


@pytest.mark.parametrize("gaps", [dict.fromkeys(range(8), 40.0), {3: 3_000.0}])
def test_short_gaps_and_single_ones_are_not_told(tmp_path: Path, gaps: Mapping[int, float]) -> None:
    assert list(decode_gap(evidence_of(decoding(gaps), tmp_path))) == []


def test_without_an_engine_nothing_is_told(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(10):
        launch(file, 100.0 * at, 100.0 * at + 3, 10, op=2)
    evidence = evidence_of(file, tmp_path)
    for rule in (decode_gap, decode_outside_graphs):
        (one,) = rule(evidence)
        assert isinstance(one, Missing)


def test_steps_without_a_graph_beside_steps_with_one(tmp_path: Path) -> None:
    evidence = evidence_of(decoding({}, singly=(3, 5)), tmp_path)
    one = fired(list(decode_outside_graphs(evidence)))
    assert one.cost_ns == pytest.approx(2 * 129 * 7 * US, rel=0.01)
    assert one.sentence.startswith("2 of 8 steps decode of 64 requests outside of graphs, 130 launches each")
    assert list(host_bound(evidence)) == []


def test_an_engine_without_graphs_has_none_to_leave(tmp_path: Path) -> None:
    assert list(decode_outside_graphs(evidence_of(decoding({}, graphs=False), tmp_path))) == []


def test_launches_of_graphs_that_the_device_waits_for(tmp_path: Path) -> None:
    evidence = evidence_of(decoding({}, launch_us=400), tmp_path)
    one = fired(list(graph_launch(evidence)))
    assert one.cost_ns == pytest.approx(7 * 400 * US, rel=0.01)
    assert "takes the host 400 µs" in one.sentence
    assert list(graph_launch(evidence_of(decoding({}, launch_us=90), tmp_path))) == []


def test_a_long_launch_behind_other_work_costs_nothing(tmp_path: Path) -> None:
    file = decoding({}, launch_us=400)
    file.kernel(GEMM, 5, 12_000, stream=9, launch=1)
    assert list(graph_launch(evidence_of(file, tmp_path))) == []


def compiled(regions: int, host_us: float, kernel_us: float, *, names: int = 2) -> TraceFile:
    """Steps of so many compiled regions, each with a while of the host before its kernel, and Python between them."""
    file, at, free = TraceFile(), 10.0, 0.0
    for step in range(3):
        begin = at - 5
        for region in range(regions):
            file.host(f"Torch-Compiled Region: {region % names}/0", at, host_us + 5, cat="cpu_op")
            at += host_us
            free = max(at + 3, free) + kernel_us
            launch(file, at, free - kernel_us, kernel_us, op=4)
            at += 20
        file.host(f"ProfilerStep#{step}", begin, at - begin - 6)
    return file


def test_graph_breaks(tmp_path: Path) -> None:
    evidence = evidence_of(compiled(8, 60, 20), tmp_path)
    one = fired(list(graph_breaks(evidence)))
    assert one.cost_ns == 23 * 60 * US and "8 compiled regions per step" in one.sentence
    assert list(host_bound(evidence)) == []
    gain, why = replays_of(evidence).gain_of(one)
    assert gain is not None, why
    assert 0 < gain.low_ns < gain.high_ns * 3 <= one.cost_ns * 1.1


@pytest.mark.parametrize(
    ("regions", "host_us", "kernel_us", "names"),
    [(8, 60, 100, 2), (8, 60, 20, 1), (2, 60, 20, 2)],  # hidden; one region a layer; two models
)
def test_compiled_regions_that_are_well(
    tmp_path: Path, regions: int, host_us: float, kernel_us: float, names: int
) -> None:
    assert list(graph_breaks(evidence_of(compiled(regions, host_us, kernel_us, names=names), tmp_path))) == []
