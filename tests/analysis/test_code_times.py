"""Time by module and by Python function."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings

from tests.analysis.captured import inclusive, record, times_by_module
from tests.analysis.random_traces import random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import CodeTimes, breakdown, code_times
from weftrace.errors import TraceError, WeftraceError
from weftrace.report import analyze
from weftrace.trace import Trace, Work, open_trace, save_parquet, work_of
from weftrace.units import US


def opened(path: Path) -> Trace:
    trace = open_trace(path, frames=True)
    assert isinstance(trace, Trace)
    return trace


def written(file: TraceFile, folder: Path) -> Trace:
    path = folder / "trace.json"
    path.write_text(json.dumps({**file.facts, "traceEvents": file.events}))
    return opened(path)


def by_path(times: CodeTimes, column: str) -> dict[tuple[str, ...], Any]:
    """Path -> value of each node."""
    paths: list[tuple[str, ...]] = []
    for name, parent in times.nodes.select("name", "parent").iter_rows():
        paths.append((*paths[parent], name) if parent >= 0 else (name,))
    assert len(set(paths)) == len(paths)
    return dict(zip(paths, times.nodes.get_column(column).to_list(), strict=True))


def assert_adds_up(times: CodeTimes, work: Work) -> None:
    whole = breakdown(work)
    roots = pl.concat([times.nodes.filter(pl.col("parent") < 0), times.outside])
    every = pl.concat([times.nodes, times.outside])
    assert every.get_column("self_ns").sum() == roots.get_column("total_ns").sum() == whole.serial_ns
    assert roots.get_column("idle_ns").sum() == whole.idle_ns
    assert roots.get_column("idle_before_ns").sum() == whole.idle_ns
    assert every.select((pl.col("busy_ns") <= pl.col("total_ns")).all()).item()
    assert every.select((pl.col("backward_ns") <= pl.col("total_ns")).all()).item()
    folded = times.folded
    if times.by == "module":
        assert folded.get_column("self_ns").sum() == times.nodes.get_column("self_ns").sum()
        assert folded.get_column("num_members").sum() == times.nodes.height


def module(file: TraceFile, name: str, ts: float, dur: float, tid: int = 1) -> None:
    file.host(f"nn.Module: {name}", ts, dur, cat="python_function", tid=tid)


def trained(tmp_path: Path) -> Trace:
    # thread 1   Net_0 ├───────────────────────────────────────────────┤ 0-100
    #              Linear_0 ├─────────┤ 10-40     Linear_1 ├────────┤ 50-80
    #   ops           mm #7 ├──┤ 12-20           mm #8 ├──┤ 52-60
    # thread 2 (autograd)       MmBackward #8 ├───┤ 200-220  AccumulateGrad ├─┤ 222-226  MmBackward #7 ├─┤ 230-240
    file = TraceFile()
    module(file, "Net_0", 0, 100)
    module(file, "Linear_0", 10, 30)
    module(file, "Linear_1", 50, 30)
    for number, ts in ((7, 12), (8, 52)):
        file.host("aten::mm", ts, 8, cat="cpu_op", **{"Sequence number": number, "Fwd thread id": 0})
    for number, ts, dur in ((8, 200, 20), (7, 230, 10)):
        args = {"Sequence number": number, "Fwd thread id": 1}
        file.host("MmBackward0", ts, dur, cat="cpu_op", tid=2, **args)
    file.host("torch::autograd::AccumulateGrad", 222, 4, cat="cpu_op", tid=2)
    file.kernel(GEMM, 100, 10, launch=13).kernel(GEMM, 110, 20, launch=53).kernel(GEMM, 130, 5, launch=90)
    file.kernel(GEMM, 205, 30, launch=201, launch_tid=2).kernel(ALL_REDUCE, 225, 40, launch=223, launch_tid=2)
    file.kernel(GEMM, 300, 8, launch=231, launch_tid=2).kernel(GEMM, 310, 2, launch=305)
    return written(file, tmp_path)


def test_modules_by_pencil_the_backward_belongs_to_its_forwards_module(tmp_path: Path) -> None:
    work = work_of(trained(tmp_path))
    times = code_times(work)
    assert_adds_up(times, work)
    assert times.told_by == "frames"
    net, first, second = ("Net_0",), ("Net_0", "Linear_0"), ("Net_0", "Linear_1")
    us = {path: time_ns // US for path, time_ns in by_path(times, "self_ns").items()}
    assert us == {net: 5, first: 10 + 8, second: 20 + 30 + 40}
    assert by_path(times, "total_ns")[net] == 113 * US
    assert by_path(times, "backward_ns") == {net: 78 * US, first: 8 * US, second: 70 * US}
    assert by_path(times, "busy_ns") == {net: 103 * US, first: 18 * US, second: 80 * US}  # 225-235 is busy twice
    assert by_path(times, "exposed_ns") == {net: 30 * US, first: 0, second: 30 * US}  # 235-265
    assert by_path(times, "idle_before_ns") == {net: 105 * US, first: 35 * US, second: 70 * US}  # 265-300, 135-205
    # Of 135-205 autograd's thread was in no module until 200; from then on, and on the way, in Linear_1's.
    assert by_path(times, "idle_ns") == {net: 40 * US, first: 35 * US, second: 5 * US}
    assert by_path(times, "num_calls") == {net: 1, first: 1, second: 1}
    assert times.outside.select("self_ns", "idle_before_ns", "num_events").row(0) == (2 * US, 2 * US, 1)


def test_siblings_of_one_class_fold_into_one_row(tmp_path: Path) -> None:
    folded = code_times(work_of(trained(tmp_path))).folded
    rows = folded.select("name", "parent", "num_members", "num_calls", "total_ns", "busy_ns").rows()
    assert rows == [("Net", -1, 1, 1, 113 * US, 103 * US), ("Linear", 0, 2, 2, 108 * US, 98 * US)]


def test_what_a_checkpoint_runs_again_belongs_to_the_same_modules(tmp_path: Path) -> None:
    # thread 1   Net_0 ├────────────────┤ 0-100, in it operator CheckpointFunction #3 10-40 with Layer_0 and Linear_0
    # thread 2   CheckpointFunctionBackward #3 ├───────────────────────────────┤ 200-300
    #              Layer_0 ├── Linear_0 ├─mm #0─┤ ──┤ 210-240   MmBackward #0 of thread 2 ├──┤ 250-260
    file = TraceFile()
    module(file, "Net_0", 0, 100)
    number = {"Sequence number": 3, "Fwd thread id": 0}
    file.host("CheckpointFunction", 10, 30, cat="cpu_op", **number)
    for ts, tid in ((12, 1), (210, 2)):
        module(file, "Layer_0", ts, 20, tid)
        module(file, "Linear_0", ts + 2, 10, tid)
    file.host("CheckpointFunctionBackward", 200, 100, cat="cpu_op", tid=2, **number | {"Fwd thread id": 1})
    file.host("aten::mm", 213, 5, cat="cpu_op", tid=2, **{"Sequence number": 0, "Fwd thread id": 0})
    file.host("MmBackward0", 250, 10, cat="cpu_op", tid=2, **{"Sequence number": 0, "Fwd thread id": 2})
    file.kernel(GEMM, 400, 1, launch=15).kernel(GEMM, 410, 2, launch=214, launch_tid=2)
    file.kernel(GEMM, 420, 4, launch=252, launch_tid=2).kernel(GEMM, 430, 8, launch=290, launch_tid=2)
    work = work_of(written(file, tmp_path))
    times = code_times(work)
    assert_adds_up(times, work)
    net, layer, linear = ("Net_0",), ("Net_0", "Layer_0"), ("Net_0", "Layer_0", "Linear_0")
    assert by_path(times, "self_ns") == {net: 8 * US, layer: 0, linear: 7 * US}
    assert by_path(times, "num_calls") == {net: 1, layer: 1, linear: 1}


def test_neighbours_whose_rounded_times_overlap_do_not_hold_each_other(tmp_path: Path) -> None:
    file = TraceFile()
    module(file, "Net_0", 0, 100)
    module(file, "Linear_0", 10, 31)  # until 41, the next one has begun at 40
    module(file, "Linear_1", 40, 61)  # until 101, after its own parent's end
    file.kernel(GEMM, 200, 1, launch=20).kernel(GEMM, 201, 2, launch=40).kernel(GEMM, 203, 4, launch=90)
    times = code_times(work_of(written(file, tmp_path)))
    assert by_path(times, "self_ns") == {("Net_0",): 0, ("Net_0", "Linear_0"): US, ("Net_0", "Linear_1"): 6 * US}


def test_functions_by_pencil_torch_and_the_library_are_passed_over(tmp_path: Path) -> None:
    file = TraceFile()
    for name, ts, dur in (
        ("threading.py(1032): _bootstrap", 0, 1000), ("train.py(5): main", 10, 900),
        ("torch/nn/modules/module.py(1773): _call_impl", 20, 100), ("nn.Module: Net_0", 20, 100),
        ("model.py(7): forward", 30, 80), ("<built-in function linear>", 40, 20),
        ("torch/optim/sgd.py(80): step", 200, 100), ("contextlib.py(1): inner", 210, 50),
    ):  # fmt: skip
        file.host(name, ts, dur, cat="python_function")
    file.host("torch/utils/data/_utils/pin_memory.py(18): _pin_memory_loop", 0, 500, cat="python_function", tid=3)
    file.kernel(GEMM, 1000, 1, launch=45).kernel(GEMM, 1001, 2, launch=220).kernel(GEMM, 1003, 4, launch=300)
    file.kernel(GEMM, 1007, 8, launch=300, launch_tid=3).kernel(GEMM, 1015, 16, launch=5)
    work = work_of(written(file, tmp_path))
    times = code_times(work, "line")
    assert_adds_up(times, work)
    main, forward = ("train.py(5): main",), ("train.py(5): main", "model.py(7): forward")
    pins = ("torch/utils/data/_utils/pin_memory.py(18): _pin_memory_loop",)
    boots = ("threading.py(1032): _bootstrap",)
    assert by_path(times, "self_ns") == {boots: 16 * US, main: 6 * US, forward: 1 * US, pins: 8 * US}
    assert times.folded.select("name", "total_ns", "busy_ns").rows() == [
        (boots[0], 16 * US, 16 * US), (pins[0], 8 * US, 8 * US), (main[0], 7 * US, 7 * US), (forward[1], US, US),
    ]  # fmt: skip


def test_ranges_that_are_named_like_modules_serve_where_there_are_no_frames(tmp_path: Path) -> None:
    file = TraceFile()
    for name, ts, dur in (
        ("model.layers.0", 0, 100), ("model.layers.0.mlp", 10, 50), ("model.layers.1.mlp", 110, 50),
        ("Optimizer.step#SGD.step", 200, 50), ("Trainer.fit", 0, 1000),
    ):  # fmt: skip
        file.host(name, ts, dur)
    file.kernel(GEMM, 1000, 1, launch=20).kernel(GEMM, 1001, 2, launch=70).kernel(GEMM, 1003, 4, launch=120)
    file.kernel(GEMM, 1007, 8, launch=210)
    times = code_times(work_of(written(file, tmp_path)))
    assert times.told_by == "ranges"
    assert by_path(times, "self_ns") == {
        ("model",): 0, ("model", "layers"): 0, ("model", "layers", "0"): 2 * US,
        ("model", "layers", "0", "mlp"): 1 * US, ("model", "layers", "1"): 0, ("model", "layers", "1", "mlp"): 4 * US,
    }  # fmt: skip
    assert times.folded.select("name", "num_members", "self_ns").rows() == [
        ("model", 1, 0), ("layers", 1, 0), ("*", 2, 2 * US), ("mlp", 2, 5 * US),
    ]  # fmt: skip
    assert times.outside.get_column("total_ns").item() == 8 * US


def test_a_file_that_tells_no_modules_has_all_time_outside(tmp_path: Path) -> None:
    work = work_of(written(TraceFile().kernel(GEMM, 0, 5).kernel(GEMM, 10, 5), tmp_path))
    for by in ("module", "line"):
        times = code_times(work, by)
        assert_adds_up(times, work)
        assert (times.told_by, times.nodes.height, times.outside.get_column("total_ns").item()) == (
            "nothing",
            0,
            10 * US,
        )


def test_frames_that_were_not_read_are_asked_for(tmp_path: Path) -> None:
    trained(tmp_path)
    trace = open_trace(tmp_path / "trace.json")
    assert isinstance(trace, Trace)
    assert trace.frames is None
    with pytest.raises(TraceError, match=r"its 3 Python frames were not read.*frames=True"):
        code_times(trace)


def test_a_step_has_its_part_and_adds_up_too(tmp_path: Path) -> None:
    trace = trained(tmp_path)
    file = TraceFile()
    file.host("ProfilerStep#1", 0, 60).host("ProfilerStep#2", 60, 400)
    steps = written(file.kernel(GEMM, 1, 1, linked=False), tmp_path).events.filter(pl.col("cat") == "user_annotation")
    work = work_of(replace(trace, events=pl.concat([trace.events, steps])))
    parts = [work.of_step(step) for step in work.steps]
    assert len(parts) == 2
    for part in parts:
        assert_adds_up(code_times(part), part)


@pytest.mark.parametrize("checkpoint", [False, True])
def test_with_stack_on_a_cpu_equals_plain_loops_over_the_json(tmp_path: Path, checkpoint: bool) -> None:
    path = record(tmp_path / "stack.json", with_stack=True, checkpoint=checkpoint)
    work = work_of(opened(path))
    times = code_times(work)
    assert_adds_up(times, work)
    own, outside = times_by_module(path)
    assert by_path(times, "total_ns") == inclusive(own)
    assert times.outside.get_column("total_ns").item() == outside
    assert max(len(path) for path in own) == 4
    assert set(by_path(times, "num_calls").values()) == {2}
    assert all(time_ns > 0 for time_ns in by_path(times, "backward_ns").values())


def test_with_modules_on_a_cpu_tells_modules_of_torchscript_alone(tmp_path: Path) -> None:
    path = record(tmp_path / "scripted.json", with_modules=True, scripted=True)
    work = work_of(opened(path))
    times = code_times(work)
    assert_adds_up(times, work)
    own, outside = times_by_module(path)
    assert times.told_by == "hierarchy"
    assert by_path(times, "total_ns") == inclusive(own)
    assert times.outside.get_column("total_ns").item() == outside
    assert ("TOP", "0: Layer", "mlp: Mlp", "up: Linear") in own
    path = record(tmp_path / "eager.json", with_modules=True)
    assert code_times(work_of(opened(path))).told_by == "nothing"  # torch writes nothing of eager modules then


def test_recorded_traces(shared_data: Path) -> None:
    for name, told_by, root in (
        ("tracelens-h100-bert-small", "frames", "BertLMHeadModel_0"),
        ("tracelens-mi300-bert-small", "frames", "BertLMHeadModel_0"),
        ("tracelens-vllm-decode-graph", "frames", "LogitsProcessor_0"),
    ):
        work = work_of(opened(shared_data / f"{name}.json.gz"))
        for by in ("module", "line"):
            times = code_times(work, by)
            assert_adds_up(times, work)
            if by == "module":
                assert (times.told_by, times.nodes.get_column("name")[0]) == (told_by, root)


def test_operators_of_old_files_tell_functions_by_their_call_stacks(tmp_path: Path) -> None:
    file = TraceFile()
    stack = "torch/nn/functional.py(9): linear;model.py(7): forward;train.py(3): main"
    file.host("aten::mm", 10, 20, cat="cpu_op", **{"Call stack": stack})
    file.kernel(GEMM, 100, 5, launch=15).kernel(GEMM, 110, 5, launch=50)
    times = code_times(work_of(written(file, tmp_path)), "line")
    assert times.told_by == "stacks"
    main, forward = ("train.py(3): main",), ("train.py(3): main", "model.py(7): forward")
    assert by_path(times, "self_ns") == {main: 0, forward: 5 * US}
    assert times.outside.get_column("self_ns").item() == 5 * US


def test_graphs_that_no_module_launched_are_told(tmp_path: Path) -> None:
    file = TraceFile()
    module(file, "Net_0", 0, 10)
    for at, launch in enumerate((5, 20, 20, 20, 30)):
        file.kernel(GEMM, 100 + 10 * at, 1 + at, linked=False, correlation=launch)
    for launch in (5, 20, 30):
        file.host("cudaGraphLaunch", launch, 1, cat="cuda_runtime", correlation=launch)
    times = code_times(work_of(written(file, tmp_path)))
    assert times.graph_ns == (2 + 3 + 4 + 5) * US  # also of the graph that has one kernel
    assert times.outside.get_column("total_ns").item() == (2 + 3 + 4 + 5) * US


@settings(max_examples=examples(25))
@given(traces())
def test_agrees_with_looking_at_every_frame_and_adds_up(trace: Trace) -> None:
    ranges = trace.events.filter(pl.col("cat") == "user_annotation")
    frames = ranges.select(
        ("nn.Module: " + pl.col("name").cast(pl.String)).cast(pl.Categorical()).alias("name"),
        pl.lit("python_function").cast(pl.Categorical()).alias("cat"),
        *("pid", "tid", "ts_ns", "dur_ns"),
    )
    work = random_work(replace(trace, frames=frames))
    for part in (work, *(work.of_step(step, by=by) for step in work.steps for by in ("window", "launch"))):
        times = code_times(part)
        assert_adds_up(times, part)
    every, outside = frames.to_dicts(), 0
    for event in work.events.to_dicts():
        thread, at = (event["launch_pid"], event["launch_tid"]), event["launch_ts_ns"]
        mine = [frame for frame in every if (frame["pid"], frame["tid"]) == thread]
        if not any(frame["ts_ns"] <= at < frame["ts_ns"] + frame["dur_ns"] for frame in mine):
            outside += event["end_ns"] - event["start_ns"]
    assert code_times(work).outside.get_column("total_ns").item() == outside


def test_begin_and_end_pairs_are_frames_too(tmp_path: Path) -> None:
    trained(tmp_path)
    text = json.loads((tmp_path / "trace.json").read_text())
    pairs = []
    for event in text["traceEvents"]:
        if event["cat"] == "python_function":
            end = {**event, "ph": "E", "ts": event["ts"] + event["dur"]}
            pairs += [{**event, "ph": "B"}, {key: end[key] for key in ("ph", "pid", "tid", "ts")}]
        else:
            pairs.append(event)
    order = {"E": 0, "X": 1, "B": 2}
    text["traceEvents"] = sorted(pairs, key=lambda event: (event["ts"], order[event["ph"]]))
    paired = tmp_path / "pairs.json"
    paired.write_text(json.dumps(text))
    for by in ("module", "line"):
        one, other = (code_times(opened(path), by) for path in (paired, tmp_path / "trace.json"))
        assert one.told_by == other.told_by
        assert one.nodes.equals(other.nodes)
        assert one.outside.equals(other.outside)
    unread = open_trace(paired)
    assert isinstance(unread, Trace)
    assert unread.quality.skipped["python_function"] == 3
    assert "python_function" not in unread.events.get_column("cat").unique().to_list()


def test_the_longest_own_time_is_told_however_deep_it_lies(tmp_path: Path) -> None:
    file = TraceFile()
    for at in range(400):
        file.host(f"deep.py({at + 1}): f{at}", at, 2000 - 2 * at, cat="python_function")
    file.kernel(GEMM, 1100, 50, launch=1000)
    folded = code_times(work_of(written(file, tmp_path)), "line").folded
    assert folded.height == 300
    assert folded.filter(pl.col("self_ns") > 0).select("name", "self_ns").rows() == [("deep.py(400): f399", 50 * US)]


def test_events_that_share_a_launch_without_a_graph_are_no_graph(tmp_path: Path) -> None:
    # ROCm 6.1: kernels of an operator without a correlation are joined to its launch by External id
    file = TraceFile()
    file.host("hipLaunchKernel", 5, 1, cat="hip_runtime", **{"External id": 3})
    numbers: dict[str, Any] = {"External id": 3, "correlation": 0}
    for at in range(2):
        file.kernel(GEMM, 100 + 10 * at, 1 + at, linked=False, **numbers)
    work = work_of(written(file, tmp_path))
    assert work.events.get_column("launch_ts_ns").n_unique() == 1
    assert work.events.get_column("link").to_list() == ["external id"] * 2
    assert code_times(work).graph_ns == 0


def test_time_by_another_word_is_refused(tmp_path: Path) -> None:
    trace = trained(tmp_path)
    for by in ("modules", ("module", "function")):
        with pytest.raises(WeftraceError, match=r'choose "module", "line", or'):
            analyze(trace, by=by)  # type: ignore[arg-type]
    assert len(analyze(trace, by=("line", "line"), timelines=False).analysis.ranks[0].code) == 1  # type: ignore[union-attr]


def test_a_parquet_file_says_that_its_source_had_the_frames(tmp_path: Path) -> None:
    trained(tmp_path)
    trace = open_trace(tmp_path / "trace.json")
    assert isinstance(trace, Trace)
    save_parquet(trace, tmp_path / "trace.parquet")
    with pytest.raises(TraceError, match=r"Parquet keeps no Python frames. Its source had 3"):
        analyze(tmp_path / "trace.parquet", by="module")
