"""Runs of other frameworks: what was simulated and written with their names is read back, and nothing else."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.pipeline.measured.framework_traces import ENGINE, NAMES, P2P, SCHEDULES, write_devices
from tests.pipeline.measured.rank_traces import write_ranks
from tests.tracefile import GEMM, TraceFile
from weftrace.advice.swaps.schedules import measured_pipeline
from weftrace.errors import TraceError
from weftrace.pipeline import Costs, Simulation, generate, simulate
from weftrace.pipeline.measured.annotations import annotation_rules, of_frame, of_range
from weftrace.pipeline.measured.plain_runs import measured_run, on_stages_of
from weftrace.pipeline.measured.run_costs import costs_of_actions, costs_of_run, matched
from weftrace.pipeline.measured.runs import MeasuredRun, runs_of
from weftrace.pipeline.measured.sourced_costs import costs_of_trace, costs_summary, for_devices
from weftrace.pipeline.measured.told_schedules import told_schedule
from weftrace.pipeline.plan_vs_measured.planned_and_measured import slip
from weftrace.pipeline.simulation import at_times
from weftrace.plan import timetable
from weftrace.trace import open_trace

US = 1_000
#: Uneven stages of four ranks, in whole microseconds.
COSTS = Costs(forward_ns=(90 * US, 100 * US, 110 * US, 140 * US), input_ns=(100 * US,) * 4, weight_ns=(60 * US,) * 4,
              latency_ns=10 * US)  # fmt: skip


def opened(folder: Path) -> MeasuredRun:
    return measured_run(open_trace(folder, frames=True), workers=1)


def simulated(name: str = "1f1b", costs: Costs = COSTS, **options: int) -> Simulation:
    return simulate(generate(name, num_ranks=4, num_micro_batches=8, **options), costs)


def longer(step: Simulation, row: int, by_ns: int) -> Simulation:
    """The step with one action that takes longer, all others as they come."""
    costs = replace(step.costs, rank_factor=1.0)
    times = step.times.plan.ops.with_columns(
        duration_ns=pl.when(pl.int_range(pl.len()) == row).then(pl.col("duration_ns") + by_ns).otherwise("duration_ns")
    )
    return at_times(step.schedule, costs, timetable(replace(step.times.plan, ops=times)))


@pytest.mark.parametrize("framework", list(NAMES))
def test_costs_and_slip_of_a_run_on_devices(tmp_path: Path, framework: str) -> None:
    """Order, costs, latency and slip are exact; a 900 us longer forward is named, and is the slip."""
    name = "gpipe" if framework == "torch, GPipe" else "1f1b"
    usual = simulated(name)
    late = next(row for row, a in enumerate(usual.schedule.listed()) if (a.rank, a.kind, a.micro_batch) == (0, "F", 4))
    folder = write_devices(tmp_path / "run", [usual, longer(usual, late, 900 * US)], NAMES[framework])
    run = opened(folder)
    schedule = told_schedule(run)
    assert schedule == usual.schedule and (run.basis, run.has_waits, run.steps) == ("device", True, (0, 1))
    first = costs_of_run(on_stages_of(run, schedule).of_step(0), schedule)
    assert first.forward_ns == COSTS.forward_ns and first.backward_ns == (160 * US,) * 4
    assert first.latency_ns == 10 * US
    summary = slip(schedule, run)
    assert summary.own_ns - summary.slack_ns == summary.measured_ns - summary.planned_ns and summary.between_ns == 0
    assert (summary.p2p_ns, [each.sentence for each in summary.outliers]) == (
        0, ["0F4 on rank 0 took 900 µs longer than its 7 peers (90.0 µs)"],
    )  # fmt: skip
    assert slip(schedule, run, replace(COSTS), step=0).measured_ns == usual.makespan_ns
    assert (run.numbers == "order") == (framework not in ("torch", "weftrace"))


@pytest.mark.parametrize(
    ("name", "options"),
    [("interleaved", {"stages_per_rank": 2}), ("zbv", {}), ("dualpipev", {}), ("dualpipe", {}), ("interleaved-zb", {})],
)
def test_each_shape_is_told_from_torchs_names(tmp_path: Path, name: str, options: dict[str, int]) -> None:
    costs = Costs(forward_ns=90 * US, input_ns=100 * US, weight_ns=60 * US, overlapped_ns=180 * US, latency_ns=10 * US)
    step = simulated(name, costs, **options)
    run = opened(write_devices(tmp_path, [step], NAMES["torch"]))
    schedule = told_schedule(run)
    assert schedule == step.schedule
    summary = slip(schedule, run, costs)
    assert (summary.measured_ns, summary.own_ns, summary.between_ns) == (step.makespan_ns, 0, 0)


@pytest.mark.parametrize("chunks", [2, 4])
def test_chunks_of_a_rank_are_told_by_order(tmp_path: Path, chunks: int) -> None:
    """Megatron-LM's interleaved 1F1B names neither chunk nor micro-batch."""
    stages = 4 * chunks
    costs = replace(
        COSTS, forward_ns=tuple(50 * US + 10 * US * at for at in range(stages)), input_ns=50 * US, weight_ns=0
    )
    step = simulated("interleaved", costs, stages_per_rank=chunks)
    run = opened(write_devices(tmp_path, [step], NAMES["Megatron-LM"]))
    schedule = told_schedule(run)
    assert schedule == step.schedule
    assert costs_of_run(on_stages_of(run, schedule), schedule).forward_ns == costs.forward_ns
    # recommend and step take the costs of all stages too
    assert costs_of_trace(open_trace(tmp_path, frames=True), weight_share=0).costs.forward_ns == costs.forward_ns


def test_ranks_of_several_pipelines_are_kept_apart(tmp_path: Path) -> None:
    usual, slow = simulated(), simulated(costs=replace(COSTS, forward_ns=200 * US))
    write_devices(tmp_path, [usual], NAMES["torch"])
    write_devices(tmp_path, [slow], NAMES["torch"], numbers=range(4, 8))
    runs = runs_of(open_trace(tmp_path), workers=1)
    assert [run.notes[0] for run in runs] == ["ranks 0, 1, 2, 3", "ranks 4, 5, 6, 7"]
    assert [run.makespan_ns for run in runs] == [usual.makespan_ns, slow.makespan_ns]
    chosen = opened(tmp_path)
    assert chosen.makespan_ns == slow.makespan_ns and "replica 1 (ranks 4, 5, 6, 7)" in " ".join(chosen.notes)
    differ = (
        "the replicas differ by a factor of up to 2.22: F of stage 0 takes 90.0 µs in replica 0 (ranks 0, 1, 2, 3), "
        "200 µs in replica 1 (ranks 4, 5, 6, 7)"
    )
    both = costs_of_trace(open_trace(tmp_path), weight_share=0)
    assert all(any(note.startswith(differ) for note in notes) for notes in (chosen.notes, both.notes))
    (tmp_path / "rank6.json").unlink()
    with pytest.raises(TraceError, match=r"of stage 2 there is only 1 trace\. Give one trace of each stage"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("times", "factor", "sentence"),
    [
        ([5, 1], 1, "step 0 is left out as warm-up: its actions take 5.00 times as long as step 1, the later of two"),
        (
            [5, 1, 1],
            1,
            "step 0 is left out as warm-up: its actions take 5.00 times as long as the median of the 2 later",
        ),
        ([1, 2, 3], 2, "3 steps differ: the slowest's actions take 3.00 times the quickest's"),
        ([1, 1], 1, ""),
    ],
)
def test_a_slow_first_step_is_left_out_and_a_spread_is_said(
    tmp_path: Path, times: list[int], factor: int, sentence: str
) -> None:
    scaled = [
        Costs(forward_ns=tuple(by * each * US for each in (90, 100, 110, 140)), input_ns=by * 100 * US,
              weight_ns=by * 60 * US, latency_ns=10 * US) for by in times
    ]  # fmt: skip
    write_devices(tmp_path, [simulated(costs=costs) for costs in scaled], NAMES["torch"])
    costs = costs_of_trace(open_trace(tmp_path), weight_share=0)
    assert costs.costs.forward_ns == tuple(factor * each for each in (90 * US, 100 * US, 110 * US, 140 * US))
    found = [note for note in costs.notes if "warm-up" in note or "differ" in note]
    assert (found[0].startswith(sentence) and len(found) == 1) if sentence else not found
    assert costs.notes[0].startswith(f"medians over the actions of 4 ranks in {len(times) - (times[0] == 5)} step")


def test_stages_without_a_trace_have_the_mean_of_the_others(tmp_path: Path) -> None:
    run = opened(write_devices(tmp_path, [simulated()], NAMES["torch"], ranks=[0, 3]))
    assert costs_of_actions(run).forward_ns == (90 * US, 115 * US, 115 * US, 140 * US)
    for refused in (lambda: slip(simulated().schedule, run), lambda: told_schedule(run)):
        with pytest.raises(
            TraceError, match="ranks 1 and 2 of the job's 64 have no trace, but at least one takes part"
        ):
            refused()


def test_a_rank_without_a_trace_is_named_and_nothing_is_blamed_for_it(tmp_path: Path) -> None:
    """1F1B of ranks with F 90, 100, 110, 140 us: what is left tells which is missing, and each stage keeps its cost."""
    step = simulated()
    start, end = (step.actions[name].to_numpy() for name in ("start_ns", "end_ns"))
    rank = step.schedule.rank_N
    free = np.where(np.diff(rank, prepend=-1) != 0, 0, np.roll(end, 1))
    folder = write_ranks(tmp_path / "ranks", step.schedule, [(start, end)] * 2, [(free, start)] * 2)
    files = {at: (folder / f"rank{at}.json").read_text() for at in range(4)}
    cases: dict[tuple[int, ...], tuple[Any, str]] = {
        (0, 1, 2): ((90, 100, 110, 100), "rank 3 .* has no trace, but takes part .* stage 2, the highest seen, waits"),
        (0, 2, 3): ((90, 113.333, 110, 140), "rank 1 .*: no trace has stage 1"),
        (1,): ((100,) * 4, "ranks 0, 2 and 3 of the job's 4 have no trace, but at least one .*: no trace has stage 0"),
        (0,): (90, "ranks 1, 2 and 3 of the job's 4 .* stage 0, the highest seen, waits for a later stage"),
    }
    for kept, (forward, sentence) in cases.items():
        for at, text in files.items():
            (folder / f"rank{at}.json").unlink(missing_ok=True)
            if at in kept:
                (folder / f"rank{at}.json").write_text(text)
        source = open_trace(folder if len(kept) > 1 else folder / f"rank{kept[0]}.json")
        costs = for_devices(costs_of_trace(source, weight_share=0), 4)
        assert np.allclose(np.array(costs.costs.forward_ns), np.multiply(forward, US), atol=1), kept
        assert costs.costs.latency_ns == 0 and re.search(sentence, " ".join(costs_summary(costs).notes)), kept
        estimates = re.search(
            "stages? (.*), without a trace, with these means: an estimate", costs_summary(costs).notes[-1]
        )
        assert (estimates is None) == (kept == (0,)), kept
        for refused in (lambda: told_schedule(measured_run(source)), lambda: measured_pipeline(source)):  # noqa: B023
            with pytest.raises(TraceError, match="What it did would be taken for time of messages"):
                refused()


def test_ranges_without_stages_are_of_their_rank_where_another_has_no_trace(tmp_path: Path) -> None:
    write_devices(tmp_path, [simulated()], NAMES["DeepSpeed, instructions"], ranks=[1, 2, 3])
    costs = costs_of_trace(open_trace(tmp_path), weight_share=0)
    assert costs.costs.forward_ns == (round(350 / 3 * US), 100 * US, 110 * US, 140 * US) and costs.estimated == (0,)
    assert "each rank is taken as one stage" in costs.notes


def test_ranges_without_stages_in_an_unknown_order_need_a_schedule(tmp_path: Path) -> None:
    schedule = generate("1f1b", num_ranks=4, num_micro_batches=8)
    orders = [["F"] * 3 + ["B"] * 3 + ["F"] * 5 + ["B"] * 5 for _ in range(4)]
    for rank, kinds in enumerate(orders):
        file = TraceFile(rank=rank).host("ProfilerStep#1", 0, 10_000)
        for at, kind in enumerate(kinds):
            file.host({"F": "forward_step", "B": "backward_step"}[kind], 100 * at, 50)
            file.kernel(GEMM, 100 * at + 10, 50, launch=100 * at + 5)
        file.write(tmp_path / f"rank{rank}.json")
    run = opened(tmp_path)
    with pytest.raises(TraceError, match="name no stage, and their order on 4 ranks is that of no known schedule"):
        told_schedule(run)
    with pytest.raises(TraceError, match=r"action 4 of rank 0 in step 0 is 0B0; schedule '1F1B' has 0F3 there"):
        slip(schedule, run)


@pytest.mark.parametrize("framework", ["torch", "DeepSpeed"])
def test_steps_are_told_without_the_profilers(tmp_path: Path, framework: str) -> None:
    steps = [simulated(), simulated(costs=replace(COSTS, weight_ns=80 * US)), simulated()]
    run = opened(write_devices(tmp_path, steps, NAMES[framework], profiler_steps=False))
    assert [run.of_step(step).makespan_ns for step in run.steps] == [step.makespan_ns for step in steps]


def test_without_kernels_of_messages_time_before_an_input_is_the_messages(tmp_path: Path) -> None:
    step = simulated()
    run = opened(write_devices(tmp_path, [step], NAMES["torch"], messages=False))
    assert not run.has_waits
    summary = slip(step.schedule, run, replace(COSTS, latency_ns=0))
    assert summary.measured_ns == step.makespan_ns and summary.p2p_ns > 0 and summary.between_ns == 0


def test_a_collective_at_the_end_is_of_the_action_unless_backwards_alone_run_it(tmp_path: Path) -> None:
    """Host: 1F0 0-10, 1B0 10-20, 1F1 20-30. AllReduce is of tensor parallelism, in both; ReduceScatter of gradients.

    device  1F0 [GEMM 15-19][AllReduce -23]  1B0 [GEMM 30-60][AllReduce -64][ReduceScatter ........ -400]
                                                          1F1 [GEMM 70-74][AllReduce -78]
    """
    file = TraceFile().host("PP:1F0", 0, 10).host("PP:1B0", 10, 10).host("PP:1F1", 20, 10)
    group: dict[str, Any] = {"Collective name": "allreduce", "Process Group Ranks": "[0, 1]"}
    for launch, start, length in ((2, 15, 4), (12, 30, 30), (22, 70, 4)):
        file.kernel(GEMM, start, length, launch=launch)
        file.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start + length, 4, launch=launch + 1, stream=20,
                    **group)  # fmt: skip
    file.kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 64, 336, launch=14,
                stream=21)  # fmt: skip
    run = runs_of(file.trace(tmp_path))[0]
    assert (run.actions["end_ns"] - run.actions["start_ns"]).to_list() == [8 * US, 34 * US, 8 * US]
    assert any(note.startswith("reduce_scatter of backwards alone is taken as the reduction of gradients, apart from B "
                               "and W: up to 340 µs after") for note in run.notes)  # fmt: skip


def test_torchs_waits_on_processors_are_split_off(tmp_path: Path) -> None:
    """The second half of an F&B waits too: 100 of its 310 us.

    PP:1F0      0 [........ waits 60 |op 60-100|send 105-120] 120
    F&B       120 [op 120-200 .. waits till 300 .. |op 302-420|] 430
    """
    file = TraceFile(rank=1).host("PP:1F0", 0, 120).host("PP:(1F1;2B0)OVERLAP_F_B", 120, 310)
    file.host("gloo:recv", -20, 78, tid=9).host("gloo:recv", 150, 150, tid=9)
    for name, start, length in (("c10d::recv_", -25, 4), ("aten::linear", 60, 40), ("c10d::send", 105, 10),
                                ("aten::linear", 120, 80), ("aten::mm", 302, 118)):  # fmt: skip
        file.host(name, 1_000 + start, length, cat="cpu_op")
    for event in file.events:
        event["ts"] += 0 if event["cat"] == "cpu_op" else 1_000
    run = runs_of(file.trace(tmp_path))[0]
    assert run.basis == "host" and run.has_waits
    rows = run.actions.rows(named=True)
    first = rows[0]["start_ns"] - 58 * US
    assert [(r["start_ns"] - first, r["end_ns"] - first, r["waited_ns"], r["stalled_ns"]) for r in rows] == [
        (58 * US, 105 * US, 58 * US, 0), (120 * US, 430 * US, 0, 100 * US),
    ]  # fmt: skip


def test_names_of_the_table() -> None:
    for rule in annotation_rules():
        assert rule.source and rule.framework and (rule.kind or "kind" in rule.pattern.groupindex)
    said = of_range("PP:(10F4;13B2)OVERLAP_F_B")
    assert said is not None and (said.stage, said.micro_batch, said.back_stage, said.back_micro_batch) == (10, 4, 13, 2)
    expected = {"PP:3RECV_F1": None, "PP:3UNSHARD": None, "Forward pass": None, "forward-compute": "F", "wait": "wait",
                "RecvGrad(buffer_id=1)": "wait", "forward-send-backward-recv": "wait", "forward-send": None,
                "PP:99999999999F1": None, "Backward": None}  # fmt: skip
    for name, kind in expected.items():
        assert (range_.kind if (range_ := of_range(name)) else None) == kind, name
    frames = {
        f"{SCHEDULES}(9): forward_step_calc_loss": None,
        "pretrain_gpt.py(61): forward_step": None,
        f"{P2P}(5): recv_forward": "wait",
        f"{P2P}(5): send_forward": None,
        f"{ENGINE}(5): train_batch": "step",
        f"{P2P}(5): send_forward_recv_backward": "wait",
        "megatron/training/training.py(2): train_step": "step",
    }
    for name, kind in frames.items():
        assert (range_.kind if (range_ := of_frame(name)) else None) == kind, name


def test_a_stage_number_beyond_reason_is_refused(tmp_path: Path) -> None:
    file = TraceFile().host("PP:99999999F0", 0, 10).host("PP:99999999B0", 10, 10).kernel(GEMM, 15, 4, launch=2)
    with pytest.raises(TraceError, match="stage 99,999,999 has actions, but of all stages before it only 0 have"):
        costs_of_actions(runs_of(file.trace(tmp_path))[0])


def test_a_wrapped_action_counts_once(tmp_path: Path) -> None:
    """A range in another of the same kind, as a wrapped engine writes it."""
    file = TraceFile()
    for at, name in enumerate(("forward_step", "backward_step")):
        file.host(name, 100 * at, 50).host(name, 100 * at + 5, 40).kernel(GEMM, 100 * at + 60, 30, launch=100 * at + 10)
    run = runs_of(file.trace(tmp_path))[0]
    assert run.actions.height == 2 and np.all((run.actions["end_ns"] - run.actions["start_ns"]).to_numpy() == 30 * US)


@pytest.mark.parametrize("around", ["forward_step", "Forward 1"])
def test_a_users_range_around_a_step_hides_no_action(tmp_path: Path, around: str) -> None:
    """Its name is an action's too, without all numbers. A single numbered range among actions without is none."""
    file = TraceFile().host(around, 0, 100)
    for at, name in enumerate(("0F0", "0F1", "0B0", "0B1")):
        file.host(name, 20 * at, 10)
    run = runs_of(file.trace(tmp_path))[0]
    assert run.numbers == "named" and (run.actions["end_ns"] - run.actions["start_ns"]).to_list() == [10 * US] * 4
    rare = TraceFile().host("forward_step", 0, 30).host("0F0", 5, 10).host("backward_step", 40, 30)
    run = runs_of(rare.trace(tmp_path))[0]
    assert run.numbers == "order" and (run.actions["end_ns"] - run.actions["start_ns"]).to_list() == [30 * US] * 2


def test_pipelines_without_numbers_are_kept_apart_by_their_process_groups(tmp_path: Path) -> None:
    """Ranks 0, 2, 4, 6 and 1, 3, 5, 7: data-parallel neighbours, as Megatron-LM places them."""
    usual, slow = simulated(), simulated(costs=replace(COSTS, forward_ns=200 * US))
    for number, step in enumerate((usual, slow)):
        ranks = [number + 2 * stage for stage in range(4)]
        write_devices(tmp_path, [step], NAMES["Megatron-LM"], numbers=ranks)
    run = opened(tmp_path)
    assert run.makespan_ns == slow.makespan_ns and "replica 1 (ranks 1, 3, 5, 7)" in " ".join(run.notes)
    assert told_schedule(run) == usual.schedule
    costs = costs_of_trace(open_trace(tmp_path, frames=True), weight_share=0.5)
    assert costs.costs.forward_ns == (145 * US, 150 * US, 155 * US, 170 * US)  # between both replicas
    assert (
        costs.costs.latency_ns == 10 * US and "messages came 10.0 µs after the end of their senders" in costs.notes[0]
    )


def test_recordings_that_lack_something_are_refused_or_their_whole_steps_are_taken(tmp_path: Path) -> None:
    """Two ranks that recorded fewer steps, or other ones; ranks of two runs; an action that comes twice in a step."""
    usual, slow = simulated(), simulated(costs=replace(COSTS, forward_ns=200 * US))
    uneven = tmp_path / "uneven"
    write_devices(uneven, [usual, slow], NAMES["torch"], ranks=[0, 1])
    write_devices(uneven, [usual], NAMES["torch"], ranks=[2, 3])
    assert costs_of_trace(open_trace(uneven), weight_share=0.5).costs.forward_ns == COSTS.forward_ns
    run = opened(uneven)
    assert slip(usual.schedule, run).num_steps == 1
    assert run.notes[-1] == "1 step of 2 left out: not recorded on all ranks"
    short = replace(
        run, actions=run.actions.filter((pl.col("rank") != 2) | (pl.int_range(pl.len()) < run.actions.height // 2 + 8))
    )
    with pytest.raises(TraceError, match="rank 2 has 8 actions in step 0; schedule '1F1B' has 16"):
        matched(short, usual.schedule)
    late = tmp_path / "late"
    write_devices(late, [usual, slow, usual], NAMES["torch"], ranks=[0, 1])
    write_devices(late, [usual, slow, usual], NAMES["torch"], ranks=[2, 3], first=1)
    run = opened(late)
    assert [(at, run.of_step(at).makespan_ns) for at in run.steps] == [(1, slow.makespan_ns), (2, usual.makespan_ns)]
    write_devices(late, [usual, slow, usual], NAMES["weftrace"], ranks=[2, 3], first=1, profiler_steps=False)
    with pytest.raises(TraceError, match="rank 3 recorded 2 steps and rank 0 3, and nothing numbers them"):
        opened(late)
    mixed = tmp_path / "mixed"
    write_devices(mixed, [usual], NAMES["torch"], ranks=[0, 1])
    write_devices(mixed, [simulated("gpipe")], NAMES["torch"], ranks=[2, 3])
    with pytest.raises(TraceError, match=r"make no schedule \(.*wait for each other in a circle"):
        told_schedule(opened(mixed))
    file = TraceFile().host("ProfilerStep#0", 0, 100).host("PP:0B0", 70, 10).kernel(GEMM, 300, 5, launch=71)
    for at in range(2):
        file.host("PP:0F0", 20 * at, 10).kernel(GEMM, 200 + 20 * at, 5, launch=20 * at + 1)
    with pytest.raises(TraceError, match="the forward of micro-batch 0 on stage 0 is done 2 times"):
        told_schedule(runs_of(file.trace(tmp_path))[0])
