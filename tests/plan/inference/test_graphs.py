"""Replays of graphs, and what was launched before the recording began. Times in µs unless told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.plan.inference.test_host import call, replayed_us, waits
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.plan.inference.inferring import infer
from weftrace.trace import Trace, open_trace
from weftrace.units import US


def replays(counts: Sequence[int], *, graph: bool = True) -> TraceFile:
    # every 1,000: [cudaGraphLaunch 0-50], kernels of 10, 2 apart, from 4 on: while the call still runs
    file = TraceFile()
    for i, count in enumerate(counts):
        call(file, "cudaGraphLaunch", 1000 * i, 50, correlation=100 + i)
        for node in range(count):
            numbers: dict[str, Any] = {"graph id": 3, "graph node id": node} if graph else {}
            file.kernel(GEMM, 1000 * i + 4 + 12 * node, 10, linked=False, correlation=100 + i, **numbers)
    return file


def test_a_graphs_kernels_wait_for_the_start_of_their_launch_and_for_each_other(tmp_path: Path) -> None:
    inferred = infer(replays([3, 3]).trace(tmp_path))
    assert inferred.kept.graph_latency_ns == 4 * US
    assert waits(inferred, "graph") == [(GEMM, "cudaGraphLaunch")] * 6
    assert inferred.plan.waits.get_column("since").unique().to_list() == ["start"]
    begins = (4, 16, 28, 1006, 1018, 1030)  # 2 apart, as measured; a call begins such a gap after the work before it
    assert replayed_us(inferred, GEMM) == [(begin, begin + 10) for begin in begins]
    assert inferred.notes == ()


def test_without_a_free_stream_a_graph_takes_as_long_as_another_launch(tmp_path: Path) -> None:
    # the graph is launched while a GEMM runs; launches take 1 and their kernels start 2 after
    file = TraceFile().kernel(GEMM, 13, 4, launch=10).kernel(GEMM, 23, 100, launch=20)
    call(file, "cudaGraphLaunch", 40, 50, correlation=77).kernel(ALL_REDUCE, 124, 10, linked=False, correlation=77)
    inferred = infer(file.trace(tmp_path))
    assert waits(inferred, "graph") == [(ALL_REDUCE, "cudaGraphLaunch")]
    assert inferred.kept.graph_latency_ns == 3 * US


@pytest.mark.parametrize("graph", [True, False])
def test_replays_with_fewer_kernels_than_others_of_the_same_graph_are_said(tmp_path: Path, graph: bool) -> None:
    notes = infer(replays([20, 20, 8], graph=graph).trace(tmp_path)).notes
    assert any("1 of 3 replays of graphs have fewer kernels" in note and "8 of 20" in note for note in notes)


def test_a_missing_node_is_told_by_its_number(tmp_path: Path) -> None:
    assert any("19 of 20" in note for note in infer(replays([20, 19]).trace(tmp_path)).notes)
    assert infer(replays([20, 19], graph=False).trace(tmp_path)).notes == ()  # may be a conditional, or a copy


def test_launches_of_graphs_without_kernels_are_said(tmp_path: Path) -> None:
    notes = infer(replays([5, 0, 5]).trace(tmp_path)).notes
    assert any("1 of 3 launches of graphs have no kernel" in note for note in notes)


def test_launches_without_kernels_are_said(tmp_path: Path) -> None:
    file = TraceFile()
    for i in range(20):
        call(
            file.kernel(GEMM, 100 * i + 12, 8, launch=100 * i + 10),
            "cudaLaunchKernel",
            100 * i + 40,
            2,
            correlation=900 + i,
        )
    assert any("20 of 40 launches of kernels have no kernel" in note for note in infer(file.trace(tmp_path)).notes)


def test_what_was_held_up_by_work_before_the_recording_is_pinned_and_said(tmp_path: Path) -> None:
    # launched from 10 on, but the stream was busy until 500 with what is not in the file
    file = (
        TraceFile().kernel(GEMM, 500, 20, launch=10).kernel(GEMM, 520, 20, launch=20).kernel(GEMM, 602, 8, launch=600)
    )
    inferred = infer(file.trace(tmp_path))
    assert inferred.kept.num_pinned == 1
    assert replayed_us(inferred, GEMM) == [(490, 510), (510, 530), (592, 600)]  # from the first launch
    assert any("1 stream begins with an op that was held up" in note for note in inferred.notes)


def test_a_stream_that_waits_for_another_is_not_pinned(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 12, 488, launch=10).kernel(ALL_REDUCE, 502, 20, stream=20, launch=14)
    assert infer(file.trace(tmp_path)).kept.num_pinned == 0


def test_ops_without_a_launch_follow_their_stream_and_its_first_is_pinned(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 12, 8, launch=10)
    file.kernel(ALL_REDUCE, 100, 20, stream=20, linked=False).kernel(ALL_REDUCE, 140, 20, stream=20, linked=False)
    inferred = infer(file.trace(tmp_path))
    assert replayed_us(inferred, ALL_REDUCE) == [(90, 110), (110, 130)]
    assert waits(inferred, "origin") == [(ALL_REDUCE, "cudaLaunchKernel")]
    assert any("2 of 3 device events have no launch" in note for note in inferred.notes)


def test_a_file_of_kernels_alone_is_a_plan_too(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 10, 10, linked=False).kernel(ALL_REDUCE, 30, 10, stream=20, linked=False)
    inferred = infer(file.trace(tmp_path))
    assert replayed_us(inferred, GEMM) == [(0, 10)]
    assert replayed_us(inferred, ALL_REDUCE) == [(20, 30)]
    assert inferred.plan.ops.filter(pl.col("kind") == "host").is_empty()


def test_a_recorded_replay_of_a_graph(shared_data: Path) -> None:
    trace = open_trace(shared_data / "tracelens-vllm-decode-graph.json.gz")
    assert isinstance(trace, Trace)
    inferred = infer(trace)
    assert len(waits(inferred, "graph")) == 421
    assert abs(inferred.replay.error) < 0.003
    assert inferred.kept.num_pinned == 1
