"""The plans that are timed are what they say: every micro-batch once on every rank, every rank in every barrier."""

from __future__ import annotations

from itertools import pairwise

import polars as pl

from benchmarks.schedules import (
    COMPUTE_STREAM,
    HOST_STREAM,
    expert_layers,
    launched_kernels,
    layers_of_launches,
    pipeline,
)
from weftrace.plan import Plan, timetable


def test_a_pipeline_runs_as_zb_h1_does() -> None:
    # of 3 ranks and 4 micro-batches; the last rank has no message to wait for between F and I
    ops, waits = pipeline(3, 4)
    actions = (ops["name"].cast(pl.String) + ops["micro_batch"].cast(pl.String)).to_list()
    assert [" ".join(actions[rank * 12 : rank * 12 + 12]) for rank in range(3)] == [
        "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3",
        "F0 F1 I0 F2 I1 W0 F3 I2 W1 I3 W2 W3",
        "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3",
    ]
    ranks = ops["rank"].to_list()
    for op, on in waits.select("op", "on").iter_rows():
        assert actions[op] == actions[on]
        assert ranks[on] - ranks[op] == {"F": -1, "I": 1}[actions[op][0]]
    assert len(waits) == 2 * 4 * 2
    alone_ns = sum(ops["duration_ns"].to_list()) / 3
    assert alone_ns < timetable(Plan(name="p", ops=ops, waits=waits)).makespan_ns < 1.6 * alone_ns


def test_no_rank_of_a_pipeline_holds_more_micro_batches_than_there_are_ranks() -> None:
    ops, _ = pipeline(4, 16)
    for p in range(4):
        mine = ops.filter(pl.col("rank") == p)
        held = mine["start_bytes"].cum_sum() + mine["end_bytes"].cum_sum().shift(1, fill_value=0)
        assert held.max() == (4 - p + p * 0.5) * 64_000_000
        assert mine.select(pl.sum("start_bytes") + pl.sum("end_bytes")).item() == 0


def test_every_rank_takes_part_in_every_barrier_of_expert_layers() -> None:
    ops, waits = expert_layers(5, 8)
    meets = ops.drop_nulls("meet").group_by("meet").agg(pl.col("rank").sort(), "name", pl.col("layer").n_unique())
    assert len(meets) == 5 * 2 * 2
    assert meets["rank"].to_list() == [list(range(8))] * 20
    assert all(len(set(names)) == 1 for names in meets["name"].to_list())
    times = timetable(Plan(name="p", ops=ops, waits=waits))
    by_layer = (
        ops.with_columns(end_ns=pl.Series(times.end_ns)).group_by("layer", maintain_order=True).agg(pl.max("end_ns"))
    )
    assert all(a < b for a, b in pairwise(by_layer["end_ns"]))


def test_every_kernel_starts_after_its_launch_and_the_host_is_not_too_far_ahead() -> None:
    ops, waits = launched_kernels(5_000)
    times = timetable(Plan(name="p", ops=ops, waits=waits))
    host, kernels = ops["stream"] == HOST_STREAM, ops["stream"] != HOST_STREAM
    assert (host.sum(), kernels.sum()) == (5_000, 5_000)
    assert (ops["stream"] == COMPUTE_STREAM).sum() > 3_000
    start_ns, end_ns = times.start_ns, times.end_ns
    assert (start_ns[kernels.to_numpy()] >= end_ns[host.to_numpy()] + 1_500).all()
    assert (start_ns[host.to_numpy()][1_000:] >= start_ns[kernels.to_numpy()][:-1_000]).all()


def test_layers_wait_twice_each_and_the_host_every_twentieth() -> None:
    ops, waits = layers_of_launches(40)
    plan = Plan(name="layers", ops=ops, waits=waits)
    times = timetable(plan).ops
    assert plan.ops.filter(pl.col("kind") != "host").height == 40 * 100
    assert plan.waits.filter(why="data").height == 40 * 2
    assert plan.waits.filter(why="host").height == 2
    layer = times.filter(pl.col("layer") == 3, pl.col("kind") != "host")
    sends = layer.filter(kind="communication")
    assert sends["start_ns"][0] >= layer.filter(kind="compute")["end_ns"][39] + 1_500
    assert layer.filter(kind="compute")["start_ns"][50] >= sends["end_ns"][-1] + 1_500
