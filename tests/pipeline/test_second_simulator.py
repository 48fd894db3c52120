"""`simulate` against a simulator of another make: random schedules that can run, random costs."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from tests.pipeline.event_loop import EventLoop, halves, held, random_costs, random_schedule
from weftrace.pipeline import check, simulate


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 1 << 48))
def test_both_simulators_agree(seed: int) -> None:
    chance = random.Random(seed)
    schedule = random_schedule(chance)
    costs = random_costs(chance, schedule)
    check(schedule)
    ran = EventLoop(schedule, costs).run()
    found = simulate(schedule, costs)
    assert found.actions.select("start_ns", "end_ns").rows() == ran.times
    arrived = found.messages.group_by("op").agg(pl.col("arrived_ns").max()).sort("op")
    for row, when in arrived.iter_rows():
        assert ran.times[row][0] >= when
    ops = found.times.ops[len(schedule) :]
    for name, copies in (("offload(F)", ran.to_host), ("reload(B)", ran.from_host)):
        copied = ops.filter(name=name).select("start_ns", "end_ns").rows()
        assert sorted(copied) == sorted(copies.values())
    assert found.makespan_ns == max(end for _, end in ran.times)
    for rank in range(schedule.num_ranks):
        row = found.ranks.row(rank, named=True)
        bytes_held, num_held = held(schedule, costs, ran, rank)
        assert (row["peak_bytes"] - row["weight_bytes"], row["peak_activations"]) == (bytes_held, num_held)
        assert found.memory(rank)["bytes"].max() == row["peak_bytes"]


@settings(max_examples=examples(80), deadline=None)
@given(st.integers(0, 1 << 48), st.sampled_from(["barrier", "span"]))
def test_idle_time_is_what_no_action_fills(seed: int, boundary: str) -> None:
    """Nanosecond by nanosecond: idle in warm-up before the first backward, in cool-down after the last forward."""
    chance = random.Random(seed)
    schedule = random_schedule(chance)
    found = simulate(schedule, random_costs(chance, schedule), boundary)  # type: ignore[arg-type]
    for rank in range(schedule.num_ranks):
        own = found.actions.filter(pl.col("rank") == rank)
        times = own.select("start_ns", "end_ns").rows()
        begin, until = (times[0][0], times[-1][1]) if boundary == "span" else (0, found.makespan_ns)
        kinds = [[kind for kind, _, _ in halves(action)] for action in schedule.listed() if action.rank == rank]
        backward = [i for i, kind in enumerate(kinds) if "B" in kind or "I" in kind]
        forward = [i for i, kind in enumerate(kinds) if "F" in kind]
        warm = times[backward[0]][0] if backward else times[0][0]
        cool = max(warm, times[forward[-1]][1] if forward else times[-1][1])
        idle = [now for now in range(begin, until) if not any(start <= now < end for start, end in times)]
        row = found.ranks.row(rank, named=True)
        assert row["idle_ns"] == len(idle)
        assert row["busy_ns"] == until - begin - len(idle)
        assert row["warm_up_ns"] == sum(now < warm for now in idle)
        assert row["steady_ns"] == sum(warm <= now < cool for now in idle)
        assert row["cool_down_ns"] == sum(now >= cool for now in idle)
    if boundary == "barrier":
        assert found.step_ns == found.makespan_ns
    assert found.bubble_ns == found.ranks["idle_ns"].max()
