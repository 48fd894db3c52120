"""Annotations projected on the device."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.trace import Trace, events_frame, find_phases, find_steps, work_of
from weftrace.trace.containment import innermost
from weftrace.trace.phases import PHASE_SCHEMA, step_at
from weftrace.units import US

ENGINE = "autograd::engine::evaluate_function: MmBackward0"


def claimed(file: TraceFile, folder: Path) -> list[str | None]:
    """The phase of each device event, in order of start."""
    work = work_of(file.trace(folder))
    joined = work.events.select("phase").join(
        work.phases.select("phase", "name"), on="phase", how="left", maintain_order="left"
    )
    return joined["name"].to_list()


def with_autograd(*, main: int = 1, engine: int = 2) -> TraceFile:
    """A trace in which thread `engine` runs autograd and thread `main` steps the profiler."""
    return TraceFile().host("ProfilerStep#1", 0, 1000, tid=main).host(ENGINE, 0, 1000, cat="cpu_op", tid=engine)


def test_the_innermost_annotation_wins(tmp_path: Path) -> None:
    # [model 0-100        ]
    #    [layer 10-50 ]
    #       [attn 20-30]
    # launches 5, 15, 20, 29, 30, 49, 50, 99, 100: a range holds its start and not its end
    file = TraceFile().host("model", 0, 100).host("layer", 10, 40).host("attn", 20, 10)
    for number, launch in enumerate((5, 15, 20, 29, 30, 49, 50, 99, 100)):
        file.kernel(GEMM, 200 + 10 * number, 5, launch=launch)
    assert claimed(file, tmp_path) == ["model", "layer", "attn", "attn", "layer", "layer", "model", "model", None]


def test_of_ranges_that_start_together_the_shorter_is_the_inner(tmp_path: Path) -> None:
    for order in (1, -1):
        file = TraceFile().kernel(GEMM, 200, 5, launch=5).kernel(GEMM, 210, 5, launch=50)
        for name, dur in (("outer", 100), ("inner", 10))[::order]:
            file.host(name, 0, dur)
        assert claimed(file, tmp_path) == ["inner", "outer"]


def test_a_range_of_no_length_claims_nothing(tmp_path: Path) -> None:
    assert claimed(TraceFile().host("mark", 5, 0).kernel(GEMM, 200, 5, launch=5), tmp_path) == [None]


def test_the_same_name_on_two_threads(tmp_path: Path) -> None:
    # thread 1  [attn 0-50]            thread 2  [attn 20-70]: each claims the launches of its own thread
    file = TraceFile().host("attn", 0, 50, tid=1).host("attn", 20, 50, tid=2)
    file.kernel(GEMM, 100, 5, launch=30, launch_tid=1).kernel(GEMM, 110, 5, launch=31, launch_tid=2)
    file.kernel(GEMM, 120, 5, launch=60, launch_tid=1)
    work = work_of(file.trace(tmp_path))
    assert work.events["phase"].to_list() == [0, 1, None]
    assert work.phases.select("tid", "index").rows() == [("1", 0), ("2", 1)]


def test_threads_of_the_same_number_in_two_processes_differ(tmp_path: Path) -> None:
    file = TraceFile().host("attn", 0, 50, pid=4).host("aten::mm", 29, 5, cat="cpu_op").kernel(GEMM, 100, 5, launch=30)
    assert claimed(file, tmp_path) == [None]


def test_backward_kernels_go_to_the_range_that_is_open(tmp_path: Path) -> None:
    # main      [forward 0-100]         [backward 200-400]
    # autograd                             launches 250, 390      and 450, after all
    file = with_autograd().host("forward", 0, 100).host("backward", 200, 200)
    for number, launch in enumerate((250, 390, 450)):
        file.kernel(GEMM, 500 + 10 * number, 5, launch=launch, launch_tid=2)
    assert claimed(file, tmp_path) == ["backward", "backward", None]


def test_a_forward_annotation_claims_autograd_launches_that_lie_inside_it_in_time(tmp_path: Path) -> None:
    # DualPipe: a backward chunk runs beside the forward of another micro-batch
    file = with_autograd().host("forward", 0, 100).kernel(GEMM, 500, 5, launch=50, launch_tid=2)
    assert claimed(file, tmp_path) == ["forward"]


def test_an_annotation_of_autograds_own_thread_wins(tmp_path: Path) -> None:
    # main      [backward 0-100      ]
    # autograd     [fsdp 20-40]             launches 30, 60
    file = with_autograd().host("backward", 0, 100).host("fsdp", 20, 20, tid=2)
    file.kernel(GEMM, 500, 5, launch=30, launch_tid=2).kernel(GEMM, 510, 5, launch=60, launch_tid=2)
    assert claimed(file, tmp_path) == ["fsdp", "backward"]


def test_threads_besides_autograd_are_not_claimed(tmp_path: Path) -> None:
    file = with_autograd().host("forward", 0, 100).host("aten::copy_", 10, 5, cat="cpu_op", tid=3)
    assert claimed(file.kernel(GEMM, 500, 5, launch=11, launch_tid=3), tmp_path) == [None]


def test_the_users_thread_is_not_autograds_though_it_runs_some_of_it(tmp_path: Path) -> None:
    # main runs AccumulateGrad of a CPU tensor; a loader thread is in "prefetch" meanwhile
    file = with_autograd().host(ENGINE, 5, 5, cat="cpu_op", tid=1).host("prefetch", 0, 900, tid=3)
    assert claimed(file.kernel(GEMM, 950, 5, launch=50, launch_tid=1), tmp_path) == [None]


def test_old_profilers_tell_autograd_by_the_forward_thread(tmp_path: Path) -> None:
    file = TraceFile().host("backward", 0, 100)
    file.host("AddmmBackward", 10, 5, cat="cpu_op", tid=2, **{"Fwd thread id": 1, "Sequence number": 4})
    assert claimed(file.kernel(GEMM, 500, 5, launch=11, launch_tid=2), tmp_path) == ["backward"]


def test_without_operators_any_thread_may_be_autograds(tmp_path: Path) -> None:
    file = TraceFile().host("backward", 0, 100).kernel(GEMM, 500, 5, launch=11, launch_tid=2)
    assert claimed(file, tmp_path) == ["backward"]


def test_communication_ranges_and_steps_are_no_phases(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#3", 0, 100).host("nccl:all_reduce", 10, 10).host("c10d::allreduce_", 30, 10)
    file.kernel(ALL_REDUCE, 200, 5, launch=11).kernel(GEMM, 210, 5, launch=31)
    trace = file.trace(tmp_path)
    assert find_phases(trace.events).is_empty()
    assert claimed(TraceFile().host("dispatch(F)", 0, 50).host("nccl:all_reduce", 10, 10)
                   .kernel(ALL_REDUCE, 200, 5, launch=11), tmp_path) == ["dispatch(F)"]  # fmt: skip


def test_index_counts_within_a_step(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#1", 0, 100).host("ProfilerStep#2", 100, 100).kernel(GEMM, 500, 5)
    for start in (10, 20, 110, 150, 300):
        file.host("attn(F)", start, 5)
    file.host("mlp(F)", 30, 5)
    phases = find_phases(file.trace(tmp_path).events)
    assert dict(phases.schema) == PHASE_SCHEMA
    assert phases.select("phase", "name", "index", "step").rows() == [
        (0, "attn(F)", 0, 1), (1, "attn(F)", 1, 1), (2, "mlp(F)", 0, 1), (3, "attn(F)", 0, 2), (4, "attn(F)", 1, 2),
        (5, "attn(F)", 0, None),
    ]  # fmt: skip


def test_steps_with_a_gap_and_the_last_one(tmp_path: Path) -> None:
    file = TraceFile().host("ProfilerStep#9", 200, 100).host("ProfilerStep#8", 0, 100).kernel(GEMM, 400, 5)
    file.host("ProfilerStep#99999999999999999999999", 500, 5).host("ProfilerStep#x", 600, 5)  # no numbers of a step
    steps = find_steps(file.trace(tmp_path).events)
    assert steps["step"].to_list() == [8, 9]
    times = pl.Series([-1, 0, 99, 100, 150, 200, 299, 300, None]) * US
    assert step_at(times, steps).to_list() == [None, 8, 8, None, None, 9, 9, None, None]
    assert step_at(times, steps.head(0)).to_list() == [None] * 9


def test_no_annotations_at_all(tmp_path: Path) -> None:
    assert claimed(TraceFile().kernel(GEMM, 500, 5), tmp_path) == [None]
    assert find_phases(Trace(events=events_frame({}, 0)).events).is_empty()


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=12), st.lists(st.integers(-1, 50), max_size=20)
)
def test_innermost_agrees_with_trying_all(ranges: list[tuple[int, int]], points: list[int]) -> None:
    ranges = sorted(ranges, key=lambda r: (r[0], -r[1]))
    starts, ends = (np.array(x, np.int64) for x in ([r[0] for r in ranges], [r[0] + r[1] for r in ranges]))
    expected = [max((i for i in range(len(ranges)) if starts[i] <= p < ends[i]), default=-1) for p in points]
    assert innermost(starts, ends, np.array(points, np.int64)).tolist() == expected


def test_ranges_may_lie_in_each_other_however_deep() -> None:
    """300 ranges, each in the one before: at moment p the last of them that has not ended is number 299 - (p - 300)."""
    starts, ends = np.arange(300), 600 - np.arange(300)
    points = np.array([-1, 0, 7, 299, 300, 301, 400, 599, 600])
    assert innermost(starts, ends, points).tolist() == [-1, 0, 7, 299, 299, 298, 199, 0, -1]


def test_a_ranges_name_tells_layer_and_micro_batch_as_a_plans_arguments_do(tmp_path: Path) -> None:
    # a run has only names, a simulation has arguments: both are told alike
    run, plan = TraceFile(), TraceFile()
    for start, layer, batch in ((0, 0, 1), (100, 3, 0), (200, 3, 1)):
        run.host(f"attn(F) {{layer={layer}, micro_batch={batch}}}", start, 50)
        plan.host("attn(F)", start, 50, weftrace={"layer": layer, "micro_batch": batch})
    run.host("MLP {layer=7}", 300, 10).host("run {batch=32}", 400, 10).host("plain", 500, 10)
    plan.host("MLP", 300, 10, weftrace={"layer": 7}).host("run {batch=32}", 400, 10).host("plain", 500, 10)
    summary = [find_phases(file.trace(tmp_path).events) for file in (run, plan)]
    assert summary[0].equals(summary[1])
    assert summary[0].select("name", "index", "layer", "micro_batch").rows() == [
        ("attn(F)", 0, 0, 1), ("attn(F)", 1, 3, 0), ("attn(F)", 2, 3, 1), ("MLP", 0, 7, None),
        ("run {batch=32}", 0, None, None), ("plain", 0, None, None),
    ]  # fmt: skip


def test_arguments_beat_the_name(tmp_path: Path) -> None:
    file = TraceFile().host("attn(F) {layer=3, micro_batch=1}", 0, 50, weftrace={"layer": 5})
    assert find_phases(file.trace(tmp_path).events).select("name", "layer", "micro_batch").rows() == [("attn(F)", 5, 1)]
