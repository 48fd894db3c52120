"""Device events joined to the host calls that launched them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown
from weftrace.trace import Trace, Work, open_trace, work_of
from weftrace.units import US


def linked(file: TraceFile, folder: Path) -> list[tuple[str | None, float | None]]:
    """How each device event was joined, and when it was launched (µs), in order of start."""
    work = work_of(file.trace(folder))
    return [
        (link, None if ts is None else ts / US) for link, ts in work.events.select("link", "launch_ts_ns").iter_rows()
    ]


def call(file: TraceFile, name: str, ts: float, **args: Any) -> TraceFile:
    return file.host(name, ts, 1, cat="cuda_runtime", **args)


def arrow(file: TraceFile, number: int, start: float, end: float, *, stream: int = 7) -> TraceFile:
    """A flow from the host thread to the stream, as Kineto draws it from launch to kernel."""
    common = {"id": number, "cat": "ac2g", "name": "ac2g"}
    file.events.append({**common, "ph": "s", "pid": 1, "tid": 1, "ts": start})
    file.events.append({**common, "ph": "f", "pid": 0, "tid": stream, "ts": end, "bp": "e"})
    return file


def test_by_correlation(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 5, launch=10).kernel(GEMM, 110, 5, launch=20)
    assert linked(file, tmp_path) == [("correlation", 10), ("correlation", 20)]


@pytest.mark.parametrize("category", ["cuda_runtime", "cuda_driver"])
def test_runtime_and_driver_calls_launch(tmp_path: Path, category: str) -> None:
    file = TraceFile().host("cuLaunchKernelEx", 10, 1, cat=category, correlation=5)
    assert linked(file.kernel(GEMM, 100, 5, linked=False, correlation=5), tmp_path) == [("correlation", 10)]


def test_two_calls_of_one_correlation_launch_once(tmp_path: Path) -> None:
    file = TraceFile().host("cudaLaunchKernel", 10, 3, cat="cuda_runtime", correlation=5)
    file.host("cuLaunchKernel", 11, 1, cat="cuda_driver", correlation=5)
    assert linked(file.kernel(GEMM, 100, 5, linked=False, correlation=5), tmp_path) == [("correlation", 10)]


def test_kernels_of_one_graph_launch_share_it(tmp_path: Path) -> None:
    file = call(TraceFile(), "cudaGraphLaunch", 10, correlation=5)
    for start in (100, 110, 120):
        file.kernel(GEMM, start, 5, linked=False, correlation=5)
    assert linked(file, tmp_path) == [("correlation", 10)] * 3


def test_correlation_0_joins_nothing(tmp_path: Path) -> None:
    # ROCm 6.1 wrote 0 on every communication kernel
    file = call(TraceFile(), "hipLaunchKernel", 10, correlation=0).kernel(
        ALL_REDUCE, 100, 5, linked=False, correlation=0
    )
    assert linked(file, tmp_path) == [(None, None)]


def test_unlinked_events_stay_in_every_time_account(tmp_path: Path) -> None:
    trace = TraceFile().kernel(GEMM, 100, 5).kernel(GEMM, 110, 7, linked=False).trace(tmp_path)
    work = work_of(trace)
    assert work.num_unlinked == 1
    assert breakdown(work).compute_ns == 12 * US


def test_by_external_id_where_the_operator_made_one_launch(tmp_path: Path) -> None:
    one: dict[str, Any] = {"External id": 77}
    file = call(call(TraceFile(), "cudaLaunchKernel", 10, **one), "cudaStreamIsCapturing", 9, **one)
    assert linked(file.kernel(GEMM, 100, 5, linked=False, **one), tmp_path) == [("external id", 10)]
    call(file, "cudaLaunchKernel", 12, **one)  # which of the two?
    assert linked(file, tmp_path) == [(None, None)]


def test_by_flow(tmp_path: Path) -> None:
    file = call(call(TraceFile(), "hipLaunchKernel", 10), "hipLaunchKernel", 20)
    file.kernel(ALL_REDUCE, 100, 5, linked=False).kernel(ALL_REDUCE, 110, 5, linked=False)
    arrow(arrow(file, 1, 10, 110), 2, 20, 100)  # crossing
    assert linked(file, tmp_path) == [("flow", 20), ("flow", 10)]


def test_flows_that_dangle_are_no_harm(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 5, launch=10).kernel(GEMM, 110, 5, linked=False)
    assert linked(arrow(arrow(file, 1, 3, 999), 2, 3, 110), tmp_path) == [("correlation", 10), (None, None)]


def test_by_graph_with_a_sibling(tmp_path: Path) -> None:
    # launches of graph 1 at 10 and at 200; one node of each launch joins by correlation, the other has lost its own
    file = call(call(TraceFile(), "cudaGraphLaunch", 10, correlation=5), "cudaGraphLaunch", 200, correlation=6)
    graph: dict[str, Any] = {"linked": False, "graph id": 1, "graph node id": 3}
    file.kernel(GEMM, 100, 5, correlation=5, **graph).kernel(GEMM, 110, 5, **graph)
    file.kernel(GEMM, 300, 5, correlation=6, **graph).kernel(GEMM, 310, 5, **graph)
    assert linked(file, tmp_path) == [("correlation", 10), ("graph", 10), ("correlation", 200), ("graph", 200)]


def test_by_graph_without_a_sibling_the_last_graph_launch(tmp_path: Path) -> None:
    # graph 1 has a sibling and graph 2 has none: both are joined
    file = call(call(TraceFile(), "cudaGraphLaunch", 10, correlation=5), "cudaGraphLaunch", 200, correlation=999)
    call(file, "cudaLaunchKernel", 250)
    one: dict[str, Any] = {"linked": False, "graph id": 1}
    file.kernel(GEMM, 100, 5, correlation=5, **one).kernel(GEMM, 110, 5, **one)
    file.kernel(GEMM, 300, 5, **{**one, "graph id": 2}).kernel(GEMM, 5, 1, **{**one, "graph id": 2})
    assert linked(file, tmp_path) == [(None, None), ("correlation", 10), ("graph", 10), ("graph", 200)]


def test_a_launch_without_graph_ids_is_no_graph(tmp_path: Path) -> None:
    file = call(TraceFile(), "cudaGraphLaunch", 10, correlation=5).kernel(GEMM, 100, 5, linked=False)
    assert linked(file, tmp_path) == [(None, None)]


def test_no_launches_no_device_events(tmp_path: Path) -> None:
    assert linked(TraceFile().kernel(GEMM, 100, 5, linked=False), tmp_path) == [(None, None)]
    assert linked(call(TraceFile(), "cudaLaunchKernel", 10, correlation=5), tmp_path) == []


@pytest.mark.parametrize(
    ("file", "number"),
    [("deepseek-v3-train", 983), ("tracelens-h100-bert-small", 61), ("tracelens-mi300-bert-small", 61),
     ("tracelens-vllm-decode-graph", 434), ("hta-mi250-minitoy", 16), ("hta-two-ranks/sampled_rank-0", 1204),
     ("hta-triton-example", 1)],
)  # fmt: skip
def test_real_files_link_wholly(shared_data: Path, file: str, number: int) -> None:
    trace = open_trace(shared_data / f"{file}.json.gz")
    assert isinstance(trace, Trace)
    work: Work = work_of(trace)
    assert work.events.height == number
    assert work.num_unlinked == 0
    assert (work.events["launch_ts_ns"] <= work.events["start_ns"]).all()


def test_424_kernels_of_one_graph_launch(shared_data: Path) -> None:
    trace = open_trace(shared_data / "tracelens-vllm-decode-graph.json.gz")
    assert isinstance(trace, Trace)
    calls = work_of(trace).events["launch_ts_ns"].value_counts().sort("count")
    assert calls["count"][-1] > 400
