"""Self time on the host, by pencil and by a walk over every microsecond; and who is said to be launch-bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tests.tracefile import GEMM, TraceFile
from weftrace.analysis import host_self_times
from weftrace.analysis.host_self_times import HostTimes, host_times, launch_bound_sentence
from weftrace.trace import containment, open_trace, work_of
from weftrace.units import US


def op(file: TraceFile, name: str, ts: float, dur: float, tid: int = 1) -> TraceFile:
    return file.host(name, ts, dur, cat="cpu_op", tid=tid)


def times_of(file: TraceFile, folder: Path, **options: Any) -> HostTimes:
    trace = open_trace(file.write(folder / "trace.json"), frames=True)
    return host_times(work_of(trace, **options))


def rows(frame: pl.DataFrame, *columns: str) -> dict[str, tuple[Any, ...]]:
    """Name -> values; times in µs."""
    shown = [pl.col(c) // US if c.endswith("_ns") else pl.col(c) for c in columns]
    return {row[0]: row[1:] for row in frame.select("name", *shown).iter_rows()}


def eager() -> TraceFile:
    """linear 0-30: [addmm 10-25: [launch 20-24]]; copy 40-60: [launch 45-47, launch 50-55]; kernels of 4, 3 and 2.

    device                              ████ 26-30                    ███ 48-51  ██ 56-58
    """
    file = op(op(op(TraceFile(), "aten::linear", 0, 30), "aten::addmm", 10, 15), "aten::copy_", 40, 20)
    file.kernel(GEMM, 26, 4, launch=20).kernel(GEMM, 48, 3, launch=45).kernel(GEMM, 56, 2, launch=50)
    for event, dur in zip([e for e in file.events if e["cat"] == "cuda_runtime"], (4, 2, 5), strict=True):
        event["dur"] = dur
    return file


def test_own_time_is_less_what_is_directly_inside_and_device_time_is_of_what_was_launched_meanwhile(
    tmp_path: Path,
) -> None:
    found = times_of(eager(), tmp_path)
    wanted = ("num_calls", "self_ns", "calls_ns", "total_ns", "launched_ns", "device_ns", "host_per_device")
    assert rows(found.operators, *wanted) == {
        "aten::linear": (1, 15, 0, 30, 0, 4, 15 / 4),
        "aten::copy_": (1, 13, 7, 20, 5, 5, 20 / 5),
        "aten::addmm": (1, 11, 4, 15, 4, 4, 15 / 4),
    }
    assert found.threads.select("span_ns", "self_ns", "calls_ns", "outside_ns").rows() == [
        (60 * US, 39 * US, 11 * US, 10 * US)
    ]


def test_a_recursion_counts_once_in_total_and_threads_count_alone(tmp_path: Path) -> None:
    """f 0-20: [f 5-15: [launch 6-7]]; on thread 2 f 0-8, g 8-10, at the same time."""
    file = op(op(op(op(TraceFile(), "f", 0, 20), "f", 5, 10), "f", 0, 8, tid=2), "g", 8, 2, tid=2)
    file.kernel(GEMM, 30, 5, launch=6).kernel(GEMM, 40, 7, launch=9, launch_tid=2)
    found = times_of(file, tmp_path)
    columns = ("num_calls", "self_ns", "calls_ns", "total_ns", "launched_ns", "device_ns")
    assert rows(found.operators, *columns) == {"f": (3, 27, 1, 28, 5, 5), "g": (1, 1, 1, 2, 7, 7)}


def test_python_functions_lie_between_operators_and_annotations_are_passed_over(tmp_path: Path) -> None:
    """step 0-100: [forward 10-60: [mm 20-50: [hook 30-40]]], in an annotation; calls outside of all count as calls."""
    file = (
        op(TraceFile(), "aten::mm", 20, 30)
        .host("train", 0, 100)
        .host("train.py(1): step", 0, 100, cat="python_function")
    )
    file.host("m.py(2): forward", 10, 50, cat="python_function").host("m.py(9): hook", 30, 10, cat="python_function")
    file.host("cudaFree", 110, 5, cat="cuda_runtime").kernel(GEMM, 60, 5, launch=25)
    found = times_of(file, tmp_path)
    assert rows(found.functions, "self_ns", "total_ns", "device_ns", "launched_ns") == {
        "train.py(1): step": (50, 100, 5, 0), "m.py(2): forward": (20, 50, 5, 0), "m.py(9): hook": (10, 10, 0, 0)
    }  # fmt: skip
    assert rows(found.operators, "self_ns", "calls_ns", "total_ns") == {"aten::mm": (19, 1, 30)}
    assert found.threads.select(pl.col("span_ns", "self_ns", "calls_ns", "outside_ns") // US).rows() == [
        (115, 99, 6, 10)
    ]
    unread = host_times(work_of(file.trace(tmp_path)))
    assert unread.functions.is_empty()
    assert rows(unread.operators, "self_ns") == {"aten::mm": (29,)}  # what no function interrupts


@pytest.mark.parametrize("seed", range(6))
def test_all_adds_up_to_the_span_of_each_thread_and_agrees_with_a_walk(seed: int, tmp_path: Path) -> None:
    """Random ranges that nest, touch, start together, have no length, or cross; launches anywhere."""
    random = np.random.default_rng(seed)
    file, kinds = TraceFile(), ("cpu_op", "python_function", "cuda_runtime", "user_annotation")
    for thread in (1, 2):

        def fill(low: int, high: int, depth: int, thread: int = thread) -> None:
            at = low
            while at < high and depth < 6:
                start = at + int(random.integers(0, 6))
                end = min(high, start + int(random.integers(0, 40)))
                if start >= high:
                    return
                kind = str(random.choice(kinds, p=(0.5, 0.3, 0.1, 0.1)))
                file.host(f"{kind} {random.integers(0, 4)}", start, end - start, cat=kind, tid=thread)
                if kind != "cuda_runtime":
                    fill(start, end, depth + 1)
                at = end + int(random.integers(0, 3))

        fill(0, 300, 0)
    for _ in range(20):
        launch = int(random.integers(0, 300))
        file.kernel(GEMM, launch + 500, 3, launch=launch, launch_tid=int(random.integers(1, 3)))
    found = times_of(file, tmp_path)
    table = pl.concat([found.operators, found.functions])
    threads = found.threads.sum()
    assert (
        threads["span_ns"].item()
        == threads["self_ns"].item() + threads["calls_ns"].item() + threads["outside_ns"].item()
    )
    assert (found.threads["outside_ns"] >= 0).all()
    assert table["self_ns"].sum() == threads["self_ns"].item()
    assert (table["self_ns"] + table["calls_ns"] <= table["total_ns"]).all()
    own, device = walked(file)
    assert {k: v for k, (v,) in rows(table, "self_ns").items() if v} == {k: v for k, v in own.items() if v}
    assert {k: v for k, (v,) in rows(table, "device_ns").items() if v} == {k: v for k, v in device.items() if v}


def walked(file: TraceFile) -> tuple[dict[str, int], dict[str, int]]:
    """µs in which each name is the innermost, and µs of kernels (3 each) launched while each name was open."""
    own, device = dict[str, int](), dict[str, int]()
    host = [e for e in file.events if e["cat"] in ("cpu_op", "python_function", "cuda_runtime")]
    order = {"cpu_op": 0, "python_function": 1, "cuda_runtime": 2}
    for tid in (1, 2):
        mine = sorted((e for e in host if e["tid"] == tid), key=lambda e: (e["ts"], -e["dur"], order[e["cat"]]))
        for at in range(400):
            inside = [e for e in mine if e["ts"] <= at < e["ts"] + e["dur"]]
            if inside and inside[-1]["cat"] != "cuda_runtime":
                own[inside[-1]["name"]] = own.get(inside[-1]["name"], 0) + 1
            num = sum("correlation" in e.get("args", {}) and e["ts"] == at for e in mine)
            for name in {e["name"] for e in inside if e["cat"] != "cuda_runtime"}:
                device[name] = device.get(name, 0) + 3 * num
    return own, device


def test_many_ranges_are_added_up_piece_by_piece(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TraceFile()
    for at in range(40):
        tid = 1 + at % 2
        op(op(op(file, f"aten::{at % 3}", 100 * at, 60, tid), "aten::inner", 100 * at + 10, 30, tid), "aten::0",
           100 * at + 20, 10, tid)  # fmt: skip
        file.kernel(GEMM, 100 * at + 80, 30, launch=100 * at + 50, launch_tid=tid)
    whole = times_of(file, tmp_path)
    monkeypatch.setattr(host_self_times, "_AT_ONCE", 7)
    monkeypatch.setattr(host_self_times, "_MANY", 7)
    assert_frame_equal(times_of(file, tmp_path).operators, whole.operators)
    assert sorted(times_of(file, tmp_path).threads.rows()) == sorted(whole.threads.rows())
    monkeypatch.setattr(host_self_times, "FEW_THREADS", 1)
    monkeypatch.setattr(containment, "FEW_THREADS", 1)
    at_once = times_of(file, tmp_path)
    assert_frame_equal(at_once.operators, whole.operators)
    assert sorted(at_once.threads.rows()) == sorted(whole.threads.rows())
    monkeypatch.setattr(containment, "_LONGEST", 200 * US)  # no two threads are that short together
    assert_frame_equal(times_of(file, tmp_path).operators, whole.operators)


def test_ranges_that_cross_one_after_another_are_cut_and_add_up(tmp_path: Path) -> None:
    """A staircase of 40 ranges, each 50 µs later than the one before and as long: what begins from 1,900 on is outside
    of the first."""
    file = TraceFile()
    for number in range(40):
        op(file, f"op{number}", 50 * number, 1_900)
    found = times_of(file.kernel(GEMM, 5_000, 5, launch=10), tmp_path)
    assert found.threads.select("span_ns", "outside_ns").row(0) == (3_800 * US, 0)
    assert (found.operators["self_ns"] >= 0).all()


def small_ops(*, busy: bool, thread: int = 1, sync: bool = False) -> TraceFile:
    """Ten muls of 100 µs with a kernel of 5 µs each, launched by each at its end. The device is idle between, or, where
    busy, runs another kernel meanwhile, launched from elsewhere."""
    file = TraceFile()
    for number in range(10):
        at = 200 + 100 * number
        op(file, "aten::mul", at, 95, tid=thread).kernel(GEMM, at + 95, 5, launch=at + 90)
        if sync:
            file.host("cudaStreamSynchronize", at + 1, 85, cat="cuda_runtime")
    if busy:
        file.kernel(GEMM, 205, 995, stream=9, launch=100, launch_tid=3)
    return file


@pytest.mark.parametrize(
    ("options", "is_bound"),
    [
        ({"busy": False}, True),
        ({"busy": True}, False),  # the device does other work meanwhile
        ({"busy": False, "thread": 2}, False),  # the operators stand on a thread that launches nothing
        ({"busy": False, "sync": True}, False),  # the host waits for the device, and not the other way round
    ],
)
def test_an_operator_is_launch_bound_only_where_the_device_idled_for_it(
    options: dict[str, Any], is_bound: bool, tmp_path: Path
) -> None:
    found = times_of(small_ops(**options), tmp_path)
    (row,) = found.operators.to_dicts()
    assert (row["bound"] == "launch") == is_bound
    sentence = launch_bound_sentence([row], 1_000 * US)
    if not is_bound:
        assert sentence == ""
        return
    assert row["idle_ns"] == 9 * 91 * US  # until each launch call ends; before the first kernel nothing is idle
    assert sentence == (
        "Launch-bound: the device waited 819 µs (81.9 % of its span) for aten::mul (10 calls, 95.0 µs of the host "
        "each for 5.00 µs of device work)."
    )
    assert launch_bound_sentence([row], 100_000 * US) == ""  # too little to tell


def test_a_step_has_what_of_its_ranges_lies_in_it(tmp_path: Path) -> None:
    """Two steps of 100 µs; mul 10-40 and 110-140, add over their border 90-120, which is cut at either side."""
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100)
    op(op(op(file, "mul", 10, 30), "add", 90, 30, tid=2), "mul", 110, 30)
    file.kernel(GEMM, 20, 10, launch=15).kernel(GEMM, 120, 20, launch=115)
    whole = times_of(file, tmp_path)
    assert rows(whole.operators, "num_calls", "total_ns") == {"mul": (2, 60), "add": (1, 30)}
    first = times_of(file, tmp_path, step=1, step_by="launch")
    assert rows(first.operators, "num_calls", "total_ns", "device_ns") == {"mul": (1, 30, 10), "add": (1, 10, 0)}
    second = times_of(file, tmp_path, step=2)  # the device's window: from 120 on
    assert rows(second.operators, "num_calls", "total_ns") == {"mul": (1, 20)}


def test_a_run_on_cpus_has_own_times_and_no_device(tmp_path: Path) -> None:
    found = times_of(op(op(TraceFile(), "aten::mm", 0, 10), "aten::empty", 2, 3), tmp_path)
    assert rows(found.operators, "self_ns", "device_ns", "idle_ns", "bound") == {
        "aten::mm": (7, None, None, ""), "aten::empty": (3, None, None, "")
    }  # fmt: skip


@pytest.mark.thorough
def test_self_and_total_times_are_those_of_torch_s_own_table(tmp_path: Path) -> None:
    """`key_averages` of the same recording: equal for each operator, to the rounding of its microseconds."""
    torch = pytest.importorskip("torch")
    layer, given = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), torch.randn(2, 8, 32)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            layer(given).sum().backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = open_trace(tmp_path / "trace.json")
    found = {row["name"]: row for row in host_times(work_of(trace)).operators.to_dicts()}
    table = {row.key: row for row in profiler.key_averages()}
    assert len(found) > 50 and found.keys() == table.keys()
    for name, row in table.items():
        assert found[name]["self_ns"] / US == pytest.approx(row.self_cpu_time_total, abs=0.01 * row.count)
        assert found[name]["total_ns"] / US == pytest.approx(row.cpu_time_total, abs=0.01 * row.count)
