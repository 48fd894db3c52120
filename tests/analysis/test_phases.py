"""What each phase did on the device."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings

from tests.analysis.random_traces import bits, device_events, of_kind, random_work, traces
from tests.fuzz import examples
from tests.tracefile import DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.analysis import phase_means, phases
from weftrace.analysis.phase_times import PHASE_COLUMNS
from weftrace.trace import Trace
from weftrace.units import US


def test_by_pencil(tmp_path: Path) -> None:
    # µs          100  110  120  130  140  150
    # stream 7    [mlp GEMM 100-120]
    # stream 20        [notify 110-115][dispatch 115-140]     hidden 110-120, exposed 120-140
    # stream 23              [cast of the dispatch 130-135]   hides 5 more
    file = TraceFile().host("mlp(F)", 0, 10).host("dispatch(F)", 20, 10).kernel(GEMM, 100, 20, launch=1, blocks=999)
    file.kernel(NOTIFY, 110, 5, stream=20, launch=21, blocks=1).kernel(
        DISPATCH, 115, 25, stream=20, launch=22, blocks=20
    )
    file.kernel("per_token_cast_to_fp8", 130, 5, stream=23, launch=23, blocks=132)
    table = phases(file.trace(tmp_path))
    assert dict(table.schema) == PHASE_COLUMNS
    mlp, dispatch = table.to_dicts()
    assert (mlp["name"], mlp["lane"], mlp["busy_ns"], mlp["compute_ns"]) == ("mlp(F)", "compute", 20 * US, 20 * US)
    assert mlp["communication_ns"] == mlp["hidden_ns"] == mlp["exposed_ns"] == 0
    assert dispatch["lane"] == "communication"
    assert dispatch["start_ns"] == 110 * US and dispatch["end_ns"] == 140 * US
    assert (dispatch["busy_ns"], dispatch["communication_ns"], dispatch["data_ns"]) == (30 * US, 30 * US, 25 * US)
    assert (dispatch["hidden_ns"], dispatch["exposed_ns"]) == (15 * US, 15 * US)
    assert (dispatch["sms"], dispatch["stream"], dispatch["num_events"]) == (20, 20, 3)


def test_a_compute_phase_does_not_show_the_sms_of_its_collective(tmp_path: Path) -> None:
    # [GEMM 100-200, grid of no fixed SMs] with a dispatch of 20 SMs beside it
    file = TraceFile().host("backward", 0, 10).kernel(GEMM, 100, 100, launch=1, blocks=999)
    row = phases(file.kernel(DISPATCH, 130, 60, stream=20, launch=2, blocks=20).trace(tmp_path)).row(0, named=True)
    assert (row["lane"], row["sms"]) == ("compute", None)


def test_a_phase_that_computes_longer_than_it_communicates_is_compute(tmp_path: Path) -> None:
    # A backward pass with its reduce-scatters beside it: both are most of its busy time.
    file = TraceFile().host("backward", 0, 10).kernel(GEMM, 100, 100, launch=1)
    file.kernel(DISPATCH, 130, 80, stream=20, launch=2, blocks=20)
    row = phases(file.trace(tmp_path)).row(0, named=True)
    assert (row["busy_ns"], row["compute_ns"], row["communication_ns"]) == (110 * US, 100 * US, 80 * US)
    assert row["lane"] == "compute"


def test_a_name_is_of_the_lane_in_which_most_of_its_time_is_not_most_of_its_ranges(tmp_path: Path) -> None:
    # issue [GEMM 100-105], the transfer [dispatch 110-150], receive [GEMM 160-165]: three ranges of one name
    file = TraceFile().host("COMBINE", 0, 5).host("COMBINE", 10, 5).host("COMBINE", 20, 5)
    file.kernel(GEMM, 100, 5, launch=1).kernel(DISPATCH, 110, 40, stream=20, launch=11, blocks=20)
    table = phases(file.kernel(GEMM, 160, 5, launch=21).trace(tmp_path))
    assert table["lane"].to_list() == ["compute", "communication", "compute"]
    assert phase_means(table).select("name", "lane", "count").rows() == [("COMBINE", "communication", 3)]


def test_device_order_not_launch_order(tmp_path: Path) -> None:
    file = TraceFile().host("first launched", 0, 10).host("first run", 20, 10)
    file.kernel(GEMM, 200, 5, launch=1, stream=7).kernel(GEMM, 100, 5, launch=21, stream=8)
    assert phases(file.trace(tmp_path))["name"].to_list() == ["first run", "first launched"]


def test_a_phase_with_nothing_on_the_device_has_no_row(tmp_path: Path) -> None:
    file = TraceFile().host("idle", 0, 10).host("busy", 20, 10).kernel(GEMM, 100, 5, launch=21)
    assert phases(file.trace(tmp_path))["name"].to_list() == ["busy"]
    assert phases(TraceFile().host("idle", 0, 10).kernel(GEMM, 100, 5, launch=50).trace(tmp_path)).is_empty()


def test_a_phase_of_no_length_is_no_communication(tmp_path: Path) -> None:
    row = phases(TraceFile().host("attn(F)", 0, 10).kernel(GEMM, 100, 0, launch=1).trace(tmp_path)).row(0, named=True)
    assert (row["lane"], row["busy_ns"]) == ("compute", 0)


def test_means_by_pencil(tmp_path: Path) -> None:
    # attn(F) twice, 10 and 15 µs: mean 12.5
    file = TraceFile().host("attn(F)", 0, 5).host("mlp(F)", 10, 5).host("attn(F)", 20, 5)
    file.kernel(GEMM, 100, 10, launch=1).kernel(GEMM, 120, 7, launch=11).kernel(GEMM, 130, 15, launch=21)
    table = phases(file.trace(tmp_path))
    assert table["index"].to_list() == [0, 0, 1]
    means = phase_means(table)
    assert means.select("name", "lane", "count", "mean_busy_ns").rows() == [
        ("attn(F)", "compute", 2, 12_500), ("mlp(F)", "compute", 1, 7 * US),
    ]  # fmt: skip
    assert phase_means(table.head(0)).is_empty()


@settings(max_examples=examples(30))
@given(traces())
def test_each_phase_agrees_with_a_bitmap(trace: Trace) -> None:
    work = random_work(trace)
    compute = of_kind(device_events(trace), "compute")
    table = phases(work)
    assert table["num_events"].sum() == work.events["phase"].count()
    assert table["start_ns"].is_sorted()
    for row in table.iter_rows(named=True):
        mine = work.events.filter(work.events["phase"] == row["phase"])
        communication = of_kind(mine, "communication")
        assert row["busy_ns"] == bits(mine).sum()
        assert row["compute_ns"] == of_kind(mine, "compute").sum()
        assert row["communication_ns"] == communication.sum()
        assert row["data_ns"] == bits(mine.filter(mine["role"] == "data")).sum()
        assert row["hidden_ns"] == (communication & compute).sum()
        assert row["exposed_ns"] == (communication & ~compute).sum()
        assert row["hidden_ns"] + row["exposed_ns"] == row["communication_ns"]
        assert (row["start_ns"], row["end_ns"]) == (mine["start_ns"].min(), mine["end_ns"].max())
