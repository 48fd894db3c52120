"""When actions run and what they hold: pipelines that a pencil can check."""

from __future__ import annotations

import polars as pl
import pytest

import weftrace as wt
from weftrace import plan
from weftrace.errors import ScheduleError
from weftrace.pipeline import Costs, from_text, generate, simulate

#: 1F1B of two stages, F = 1, B = 2:
#:   rank 0  F0 F1 .  B0 B0 B1 ...      0F0 0-1, 0F1 1-2, 0B0 4-6, 0B1 7-9
#:   rank 1  .  F0 B0 B0 F1 B1 B1       1F0 1-2, 1B0 2-4, 1F1 4-5, 1B1 5-7
TWO_STAGES = """\
rank 0: 0F0 0F1 0B0 0B1
rank 1: 1F0 1B0 1F1 1B1
"""
SPLIT = """\
rank 0: 0F0 0F1 0I0 0I1 0W0 0W1
rank 1: 1F0 1I0 1F1 1I1 1W0 1W1
"""


def test_actions_start_when_their_input_is_there() -> None:
    found = simulate(from_text(TWO_STAGES), Costs.units())
    assert found.actions.select("rank", "start_ns", "end_ns").rows() == [
        (0, 0, 1_000), (0, 1_000, 2_000), (0, 4_000, 6_000), (0, 7_000, 9_000),
        (1, 1_000, 2_000), (1, 2_000, 4_000), (1, 4_000, 5_000), (1, 5_000, 7_000),
    ]  # fmt: skip
    assert found.makespan_ns == 9_000


def test_idle_time_has_three_parts_that_add_up() -> None:
    barrier = simulate(from_text(TWO_STAGES), Costs.units())
    columns = ("busy_ns", "idle_ns", "warm_up_ns", "steady_ns", "cool_down_ns")
    assert barrier.ranks.select(*columns).rows() == [(6_000, 3_000, 2_000, 0, 1_000), (6_000, 3_000, 1_000, 0, 2_000)]
    assert (barrier.bubble_ns, barrier.step_ns) == (3_000, 9_000)
    span = simulate(from_text(TWO_STAGES), Costs.units(), "span")
    assert span.ranks.select(*columns).rows() == [(6_000, 3_000, 2_000, 0, 1_000), (6_000, 0, 0, 0, 0)]
    assert (span.bubble_ns, span.step_ns, span.makespan_ns) == (3_000, 9_000, 9_000)


def test_memory_is_taken_at_F_and_freed_at_I_and_W() -> None:
    costs = Costs.units(activation_bytes=10, pending_bytes=4, weight_bytes=(100, 200))
    found = simulate(from_text(SPLIT), costs)
    # rank 1: F0 1-2, I0 2-3, F1 3-4, I1 4-5, W0 5-6, W1 6-7
    assert found.memory(1).rows() == [
        (0, 200), (1_000, 210), (3_000, 214), (5_000, 208), (6_000, 204), (7_000, 200),
    ]  # fmt: skip
    assert found.ranks.select("peak_bytes", "peak_activations", "weight_bytes").rows() == [
        (120, 2, 100),
        (214, 2, 200),
    ]
    at_I = simulate(from_text(SPLIT), Costs.units(pending_bytes=0))
    assert at_I.ranks["peak_activations"].to_list() == [2, 1]


def test_unlike_stages_count_their_chunks() -> None:
    found = simulate(from_text(SPLIT), Costs.units(activation_bytes=(3, 5), pending_bytes=(3, 0)))
    assert found.ranks.select("peak_bytes", "peak_activations").rows() == [(6, 2), (5, 1)]


def test_a_message_takes_its_latency_and_its_bytes() -> None:
    late = simulate(from_text(TWO_STAGES), Costs.units(latency=0.5))
    assert late.actions["start_ns"].to_list() == [0, 1_000, 5_000, 8_000, 1_500, 2_500, 4_500, 5_500]
    large = simulate(from_text(TWO_STAGES), Costs.units(latency=0.5, message_bytes=3_000, bytes_per_s=1e9))
    # each message holds its link for 3: 0F0's 1-4, 0F1's 4-7
    assert large.actions["start_ns"].to_list() == [0, 1_000, 11_000, 14_000, 4_500, 5_500, 7_500, 8_500]
    assert large.messages["arrived_ns"].to_list() == [4_500, 7_500, 11_000, 14_000]
    assert large.times.plan.ops["name"].to_list()[8:] == ["send(F)", "send(F)", "send(B)", "send(B)"]


def test_messages_that_block_hold_both_sides() -> None:
    """Rank 0 computes 0F0 until 1, sends until 2, computes 0F1 until 3, sends until 4; rank 1 takes 1F0's input from 1
    to 2, and 1F1's after 1B0, from 5 to 6, while it sends 1B0's gradient, which rank 0 takes at the same time."""
    found = simulate(from_text(TWO_STAGES), Costs.units(latency=1, blocking=True))
    assert found.actions.select("start_ns", "end_ns").rows() == [
        (0, 1_000), (2_000, 3_000), (6_000, 8_000), (10_000, 12_000),
        (2_000, 3_000), (3_000, 5_000), (6_000, 7_000), (7_000, 9_000),
    ]  # fmt: skip


def test_messages_that_block_stop_no_order_that_can_run() -> None:
    """Rank 0 sends 0F0 and then 0F1; rank 1 wants micro-batch 1 first."""
    crossed = from_text("rank 0: 0F0 0F1\nrank 1: 1F1 1F0")
    assert simulate(crossed, Costs.units(latency=1, blocking=True)).makespan_ns == 7_000  # 1F1 4-5, 1F0 6-7


def test_a_schedule_that_cannot_run_is_refused() -> None:
    with pytest.raises(ScheduleError, match="missing"):
        simulate(from_text("rank 0: 0F0\nrank 1: 1F0 1F1"), Costs.units())
    with pytest.raises(ScheduleError):
        simulate(from_text("rank 0: 1F0 0F0\nreplica 0: 0 0"), Costs.units())
    with pytest.raises(ScheduleError, match="boundary = 'none'"):
        simulate(from_text(TWO_STAGES), Costs.units(), "none")  # type: ignore[arg-type]


def test_the_critical_path_adds_up_to_the_makespan() -> None:
    found = simulate(from_text(TWO_STAGES), Costs.units(latency=0.5))
    path = found.critical_path()
    assert path["op"].to_list() == [0, 4, 5, 6, 7, 3]
    on_path = path.select((pl.col("until_ns") - pl.col("from_ns") + pl.col("lag_ns")).sum()).item()
    assert on_path == found.makespan_ns


def test_a_simulation_is_a_trace_whose_phases_are_named_as_a_run_names_them() -> None:
    merged = from_text("replica 0: 0 1\nreplica 1: 1 0\nrank 0: 0F0 1F1&0B0 1I1 1W1\nrank 1: 1F0 0F1&1B0 0B1")
    found = simulate(merged, Costs.units(message_bytes=500, bytes_per_s=1e9))
    assert found.times.plan.ops["phase"].to_list()[:7] == [
        "stage0(F)", "stage1(F)&stage0(B)", "stage1(I)", "stage1(W)", "stage1(F)", "stage0(F)&stage1(B)", "stage0(B)",
    ]  # fmt: skip
    traces = plan.simulate_ranks(found.times.plan)
    shares = {rank: wt.analysis.breakdown(trace).compute_ns for rank, trace in traces.items()}
    assert shares == dict(found.ranks.select("rank", "busy_ns").rows())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank 0: 0B0 0F0", "0B0 on rank 0 comes before 0F0 on rank 0"),
        ("rank 0: 0F0 0I0", "the weight gradient of micro-batch 0 on stage 0 is missing"),
        ("rank 0: 0F0 0F0 0B0", "the forward of micro-batch 0 on stage 0 is done 2 times"),
        ("rank 0: 0F0 0W0 0I0", "0W0 on rank 0 comes before 0I0 on rank 0"),
    ],
)
def test_work_that_is_missing_twice_or_out_of_order_is_not_simulated(text: str, said: str) -> None:
    """On one rank nothing waits for anything, so the engine would run them all."""
    with pytest.raises(ScheduleError, match=said):
        simulate(from_text(text), Costs.units())


def test_a_rank_that_does_nothing_holds_its_parameters() -> None:
    found = simulate(from_text("replica 0: 0\nreplica 1: 1\nrank 0: 0F0"), Costs.units(weight_bytes=7))
    assert found.memory(1).rows() == [(0, 7)]
    assert found.ranks.select("busy_ns", "idle_ns", "warm_up_ns", "peak_bytes").rows()[1] == (0, 1_000, 1_000, 7)
    with pytest.raises(ScheduleError, match="no rank 2"):
        found.memory(2)


@pytest.mark.parametrize("blocking", [False, True])
def test_large_schedules_are_simulated_as_small_ones(monkeypatch: pytest.MonkeyPatch, blocking: bool) -> None:
    """Their plan gets names and memory when it is asked for."""
    schedule, costs = generate("zbv", num_ranks=4, num_micro_batches=8), Costs.units(latency=1, blocking=blocking)
    small = simulate(schedule, costs)
    monkeypatch.setattr("weftrace.pipeline.simulation._LARGE", 0)
    large = simulate(schedule, costs)
    assert large.times.plan == small.times.plan
    assert large.ranks.equals(small.ranks)
    assert large.actions.equals(small.actions)
