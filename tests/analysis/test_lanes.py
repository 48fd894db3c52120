"""The lane picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import bits, of_kind, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, DISPATCH, GEMM, NOTIFY, TraceFile
from weftrace.analysis import Lane, lanes
from weftrace.analysis.activity import stretches_of
from weftrace.analysis.intervals import Intervals, covered_before
from weftrace.analysis.lane_boxes import BOX_COLUMNS
from weftrace.trace import Trace, events_frame
from weftrace.units import US

PERSISTENT = "void deep_gemm::sm90_fp8_gemm_1d2d_impl<128, 128>(float*)"
ADD = "void at::native::vectorized_elementwise_kernel<4, add>(int)"


def names(lane: Lane) -> list[str]:
    return lane.boxes["name"].to_list()


def spans(lane: Lane) -> list[tuple[int, int, int]]:
    """Start, end and busy time of each box in µs."""
    return [tuple(ns // US for ns in row) for row in lane.boxes.select("start_ns", "end_ns", "busy_ns").iter_rows()]


def test_two_lanes_by_pencil(tmp_path: Path) -> None:
    # stream 7   [attn 100-110][attn 112-120]  [mlp 120-140]
    # stream 20  [notify 105-108][dispatch 108-130]
    file = TraceFile().host("attn(F)", 0, 10).host("dispatch(B)", 10, 10).host("mlp(W)", 20, 10)
    file.kernel(PERSISTENT, 100, 10, launch=1, blocks=112).kernel(ADD, 112, 8, launch=2, blocks=9999)
    file.kernel(PERSISTENT, 120, 20, launch=21, blocks=112)
    file.kernel(NOTIFY, 105, 3, stream=20, launch=11, blocks=1).kernel(
        DISPATCH, 108, 22, stream=20, launch=12, blocks=20
    )
    compute, communication = lanes(file.trace(tmp_path))
    assert (compute.lane, communication.lane) == ("compute", "communication")
    assert (compute.sms, compute.sms_exact, compute.streams) == (112, True, (7,))
    assert (communication.sms, communication.sms_exact, communication.streams) == (20, True, (20,))
    assert (compute.busy_ns, communication.busy_ns) == (38 * US, 25 * US)
    assert dict(compute.boxes.schema) == BOX_COLUMNS
    assert names(compute) == ["attn(F)", "mlp(W)"] and names(communication) == ["dispatch(B)"]
    assert spans(compute) == [(100, 120, 18), (120, 140, 20)]
    assert spans(communication) == [(105, 130, 25)]
    assert compute.boxes["direction"].to_list() == ["F", "W"]
    assert communication.boxes["sms"].to_list() == [20]


def test_a_phase_on_two_streams_is_one_box(tmp_path: Path) -> None:
    # stream 7   [mlp 100-120]
    # stream 23        [mlp 110-130]       one box 100-130, busy 30
    file = TraceFile().host("mlp(W)", 0, 10).kernel(GEMM, 100, 20, launch=1).kernel(GEMM, 110, 20, launch=2, stream=23)
    assert spans(lanes(file.trace(tmp_path))[0]) == [(100, 130, 30)]


def test_a_phase_that_another_interrupts_is_two_boxes(tmp_path: Path) -> None:
    # stream 7   [attn 100-110][mlp 110-120][attn 120-130]
    file = TraceFile().host("attn(F)", 0, 10).host("mlp(F)", 3, 2)
    file.kernel(GEMM, 100, 10, launch=1).kernel(GEMM, 110, 10, launch=4).kernel(GEMM, 120, 10, launch=6)
    lane = lanes(file.trace(tmp_path))[0]
    assert names(lane) == ["attn(F)", "mlp(F)", "attn(F)"]
    assert lane.boxes["index"].to_list() == [0, 0, 0]


def test_a_trifle_of_a_phase_is_drawn_where_it_ran(tmp_path: Path) -> None:
    file = TraceFile().host("combine(B)", 0, 10).kernel(DISPATCH, 100, 100, launch=1, stream=20)
    file.kernel("per_token_cast_to_fp8", 200, 10, launch=2, stream=20)
    compute, communication = lanes(file.trace(tmp_path))
    assert names(compute) == names(communication) == ["combine(B)"]
    assert spans(compute) == [(200, 210, 10)] and spans(communication) == [(100, 200, 100)]


def test_without_phases_a_box_is_a_run_of_a_family(tmp_path: Path) -> None:
    # stream 7   [gemm][gemm]  [add]  [gemm]
    file = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 112, 8).kernel(ADD, 120, 5).kernel(GEMM, 130, 10)
    lane = lanes(file.kernel(ALL_REDUCE, 100, 30, stream=20, blocks=16).trace(tmp_path))[0]
    assert names(lane) == ["gemm", "elementwise", "gemm"]
    assert spans(lane) == [(100, 120, 18), (120, 125, 5), (130, 140, 10)]
    assert lane.boxes["index"].to_list() == [0, 0, 1]
    assert lane.boxes["phase"].null_count() == 3


def test_work_outside_phases_is_drawn(tmp_path: Path) -> None:
    # PyTorch annotates optimizers by itself: [gemm 100-190, no phase][Optimizer.step 190-200]
    file = TraceFile().host("Optimizer.step#AdamW.step", 50, 10)
    file.kernel(GEMM, 100, 90, launch=1).kernel(ADD, 190, 10, launch=51)
    assert names(lanes(file.trace(tmp_path))[0]) == ["gemm", "Optimizer.step#AdamW.step"]
    # [attn 100-190][no phase 190-195][attn 195-200]: however little it is
    file = TraceFile().host("attn(F)", 50, 10).kernel(GEMM, 100, 90, launch=51).kernel(ADD, 190, 5, launch=1)
    lane = lanes(file.kernel(GEMM, 195, 5, launch=52).trace(tmp_path))[0]
    assert names(lane) == ["attn(F)", "elementwise", "attn(F)"]
    assert spans(lane) == [(100, 190, 90), (190, 195, 5), (195, 200, 5)]


def test_what_waits_is_two_boxes_a_run_of_kernels_and_a_phase(tmp_path: Path) -> None:
    # [gemm 100-110]   40 µs   [gemm 150-160]
    file = TraceFile().kernel(GEMM, 100, 10, launch=1).kernel(GEMM, 150, 10, launch=2)
    assert spans(lanes(file.trace(tmp_path))[0]) == [(100, 110, 10), (150, 160, 10)]
    lane = lanes(file.host("mlp(F)", 0, 10).trace(tmp_path))[0]
    assert spans(lane) == [(100, 110, 10), (150, 160, 10)]
    assert names(lane) == ["mlp(F)", "mlp(F)"] and lane.boxes["index"].to_list() == [0, 0]


def test_a_phase_that_works_8_us_of_522_ms_is_not_drawn_across_them(tmp_path: Path) -> None:
    file = TraceFile().host("optimizer", 0, 10).kernel(ADD, 100, 4, launch=1).kernel(ADD, 522_096, 4, launch=2)
    lane = lanes(file.kernel(GEMM, 200_000, 100).trace(tmp_path))[0]
    assert spans(lane) == [(100, 104, 4), (200_000, 200_100, 100), (522_096, 522_100, 4)]
    assert lane.busy.total_ns == lane.busy_ns == lane.boxes["busy_ns"].sum() == 108 * US


def test_a_gap_shorter_than_a_wait_stays_in_the_box_and_is_told_by_busy(tmp_path: Path) -> None:
    # [gemm 100-110] 29 µs [gemm 139-149]   30 µs   [gemm 179-180]
    file = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 139, 10).kernel(GEMM, 179, 1)
    lane = lanes(file.trace(tmp_path))[0]
    assert spans(lane) == [(100, 149, 20), (179, 180, 1)]
    assert (lane.busy.starts // US).tolist() == [100, 139, 179]


def test_stretches_stay_few_and_keep_what_ran_where_it_ran() -> None:
    starts = np.arange(100_000, dtype=np.int64) * 10
    many = Intervals(starts, starts + 1 + starts // 10 % 7)
    long = Intervals(np.append(starts, 2_000_000), np.append(starts + 5, 3_000_000))
    for intervals in (many, long):
        few = stretches_of(intervals)
        assert len(few.starts) <= 2 * 20_000 and few.total_ns == intervals.total_ns
        assert (few.starts[1:] >= few.ends[:-1]).all() and (few.busy_ns <= few.ends - few.starts).all()
        at = np.linspace(0, 3_000_000, 301).astype(np.int64)
        knots = np.column_stack((few.starts, few.ends)).ravel()
        so_far = np.column_stack((np.cumsum(few.busy_ns) - few.busy_ns, np.cumsum(few.busy_ns))).ravel()
        assert np.interp(at, knots, so_far) == pytest.approx(covered_before(intervals, at), abs=150)  # a cell of time


def test_one_range_around_everything_is_drawn_inside(tmp_path: Path) -> None:
    file = TraceFile().host("model", 0, 10)
    for number in range(60):
        file.kernel((GEMM, ADD)[number % 2], 100 + 10 * number, 10, launch=1)
    assert names(lanes(file.trace(tmp_path))[0]) == ["gemm", "elementwise"] * 30


def test_sms_without_persistent_kernels_are_an_upper_bound(tmp_path: Path) -> None:
    lane = lanes(TraceFile().kernel(ADD, 100, 10, blocks=64).kernel(ADD, 120, 1, blocks=5000).trace(tmp_path))[0]
    assert (lane.sms, lane.sms_exact) == (132, False)
    lane = lanes(TraceFile().kernel(ADD, 100, 10).trace(tmp_path))[0]
    assert (lane.sms, lane.sms_exact) == (None, False)


def test_sms_of_a_lane_are_the_value_that_held_longest(tmp_path: Path) -> None:
    file = TraceFile().kernel(PERSISTENT, 100, 10, blocks=132).kernel(PERSISTENT, 120, 30, blocks=112)
    assert lanes(file.trace(tmp_path))[0].sms == 112
    assert lanes(TraceFile(num_sms=100).kernel(PERSISTENT, 100, 10, blocks=132).trace(tmp_path))[0].sms == 100


def test_sms_of_a_lane_are_those_of_most_of_its_time(tmp_path: Path) -> None:
    # [persistent, 112 SMs, 100-110][add 110-200, 64 blocks]: 112 SMs are a tenth of the lane, and no fact about it
    file = TraceFile().kernel(PERSISTENT, 100, 10, blocks=112).kernel(ADD, 110, 90, blocks=64)
    lane = lanes(file.trace(tmp_path))[0]
    assert (lane.sms, lane.sms_exact) == (112, False)  # the largest grid: no more than 112
    # the same with grids that the file does not tell: no bound either
    file = TraceFile().kernel(PERSISTENT, 100, 10, blocks=112).kernel(ADD, 110, 90)
    lane = lanes(file.trace(tmp_path))[0]
    assert (lane.sms, lane.sms_exact) == (None, False)


def test_an_amd_device_has_compute_units(tmp_path: Path) -> None:
    # Kineto leaves the device's name empty on some ROCm hosts; the calls of HIP tell it too.
    file = TraceFile(num_sms=304).kernel(ADD, 100, 10, blocks=999, call="hipLaunchKernel")
    assert {lane.sm_unit for lane in lanes(file.trace(tmp_path))} == {"CUs"}
    assert {lane.sm_unit for lane in lanes(TraceFile().kernel(ADD, 100, 10, blocks=9).trace(tmp_path))} == {"SMs"}


def test_many_boxes_are_coarsened() -> None:
    rows = 5000
    columns = {
        "name": [(GEMM, ADD)[number % 2] for number in range(rows)], "cat": ["kernel"] * rows, "pid": ["0"] * rows,
        "tid": ["7"] * rows, "ts_ns": [10 * number for number in range(rows)], "device": [0] * rows,
        "dur_ns": [8 - number % 2 for number in range(rows)], "stream": [7] * rows,
    }  # fmt: skip
    lane = lanes(Trace(events=events_frame(columns, rows)))[0]
    assert 1000 < lane.boxes.height <= 1501
    assert lane.boxes["busy_ns"].sum() == lane.busy_ns == rows * 15 // 2
    assert set(names(lane)) == {"gemm and others"}  # the name that took most of each box, and that it is not all


def test_nothing_at_all() -> None:
    for lane in lanes(Trace(events=events_frame({}, 0))):
        assert (lane.sms, lane.sms_exact, lane.busy_ns, lane.streams) == (None, False, 0, ())
        assert dict(lane.boxes.schema) == BOX_COLUMNS


@settings(max_examples=examples(30))
@given(traces())
def test_boxes_hold_the_lane(trace: Trace) -> None:
    work = random_work(trace)
    for lane in lanes(work):
        mine = work.events.filter(pl.col("kind") == lane.lane)
        assert lane.busy_ns == of_kind(work.events, lane.lane).sum()
        assert lane.boxes["start_ns"].is_sorted()
        assert (lane.boxes["busy_ns"] <= lane.boxes["end_ns"] - lane.boxes["start_ns"]).all()
        ran = bits(mine)
        for row in lane.boxes.iter_rows(named=True):
            assert row["busy_ns"] <= ran[row["start_ns"] : row["end_ns"]].sum()
            assert (row["start_ns"] in mine["start_ns"]) and (row["end_ns"] in mine["end_ns"])
        assert (bits(lane.boxes) | ran).sum() == bits(lane.boxes).sum()  # nothing is left out
        assert lane.boxes["busy_ns"].sum() >= lane.busy_ns
