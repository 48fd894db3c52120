"""What ops cost each other that run at the same time: by hand, and by a simulation in small ticks."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from weftrace.errors import PlanError
from weftrace.plan import Op, Plan, Resource, Slowdown, load_slowdowns, timetable, with_contention

C, N = Resource(stream=7), Resource(stream=27)
BESIDE = Slowdown(
    name="beside the network",
    of=pl.col("kind") == "compute",
    beside=pl.col("kind") == "communication",
    factor=1.25,
    source="a pencil",
)
FEWER = Slowdown(
    name="fewer SMs",
    of=pl.col("kind") == "compute",
    beside=pl.col("kind") == "communication",
    factor=None,
    source="a pencil",
)


def op(id: str, ns: int, *after: str, on: Resource = C, sms: int | None = None, meet: int | None = None) -> Op:
    kind = "compute" if on.stream == 7 else "communication"
    return Op(id=id, name=id, duration_ns=ns, resource=on, after=after, kind=kind, num_sms=sms, meet=meet)  # type: ignore[arg-type]


def ends(plan: Plan, *rows: Slowdown) -> dict[str, int]:
    found = with_contention(plan, rows, tolerance=0, max_rounds=100)
    assert found.settled
    return dict(found.times.ops.select("id", "end_ns").rows())


def test_an_op_is_slowed_for_as_long_as_the_other_runs() -> None:
    # N  nnnnn          5,000 long: in it c does 5,000 / 1.25 = 4,000 of its 10,000, then 6,000 alone
    # C  ccccccccccc
    plan = Plan.of((op("c", 10_000), op("n", 5_000, on=N)), name="p")
    assert ends(plan, BESIDE) == {"c": 11_000, "n": 5_000}


def test_what_follows_moves_and_is_slowed_where_it_then_runs() -> None:
    # n begins after a; b does 8,000 / 1.25 = 6,400 of its 7,000 beside it, and 600 alone
    plan = Plan.of((op("a", 4_000), op("b", 7_000), op("n", 8_000, "a", on=N)), name="p")
    assert ends(plan, BESIDE) == {"a": 4_000, "b": 12_600, "n": 12_000}


def test_a_kernel_on_fewer_sms_takes_longer_in_proportion() -> None:
    # of 132 SMs n holds 32: c, which asks for 132, runs on 100; d, which asks for 100, is not slowed
    one = Plan.of((op("c", 10_000, sms=132), op("n", 99_000, on=N, sms=32)), name="p", num_sms=132)
    assert ends(one, FEWER)["c"] == 13_200
    two = Plan.of((op("d", 10_000, sms=100), op("n", 99_000, on=N, sms=32)), name="p", num_sms=132)
    assert ends(two, FEWER)["d"] == 10_000


def test_who_waits_in_a_meet_holds_sms_but_takes_no_bandwidth() -> None:
    # n0 waits for n1 from 0 to 8,000, then moves data until 10,000; c runs from 0
    there = Resource(rank=1, stream=27)
    plan = Plan.of(
        (
            op("c", 5_000, sms=132),
            op("n0", 2_000, on=N, sms=32, meet=0),
            op("b", 8_000, on=Resource(rank=1, stream=7)),
            op("n1", 2_000, "b", on=there, meet=0),
        ),
        name="p",
        num_sms=132,
    )
    assert ends(plan, BESIDE)["c"] == 5_000
    assert ends(plan, FEWER)["c"] == 6_600


def test_no_op_slows_itself_and_other_ranks_do_not_matter() -> None:
    row = Slowdown(name="all", of=pl.lit(True), beside=pl.lit(True), factor=2.0, source="a pencil")
    apart = Plan.of((op("a", 1_000), op("b", 1_000, on=Resource(rank=1, stream=7))), name="p")
    assert ends(apart, row) == {"a": 1_000, "b": 1_000}
    beside = Plan.of((op("a", 1_000), op("b", 1_000, on=N)), name="p")
    assert ends(beside, row) == {"a": 2_000, "b": 2_000}


def test_the_first_row_that_selects_an_op_is_its_row() -> None:
    first = Slowdown(name="c only", of=pl.col("id") == "c", beside=BESIDE.beside, factor=2.0, source="a pencil")
    plan = Plan.of((op("c", 1_000), op("d", 1_000), op("n", 99_000, on=N)), name="p")
    assert ends(plan, first, BESIDE) == {"c": 2_000, "d": 3_250, "n": 99_000}


def test_deepseeks_table_tells_kernels_by_their_names() -> None:
    gemm, glue = "sm90_xmma_gemm_bf16bf16_bf16f32", "void at::native::vectorized_elementwise_kernel<4>"
    ops = (
        Op(id="g", name=gemm, duration_ns=10_000, resource=C),
        Op(id="e", name=glue, duration_ns=10_000, resource=C),
        Op(id="n", name="dispatch", duration_ns=99_000, resource=N, kind="communication"),
    )
    found = with_contention(Plan.of(ops, name="p"), load_slowdowns())
    assert found.times.plan.ops["duration_ns"].to_list() == [10_200, 11_700, 99_000]
    assert (found.rounds, found.settled) == (2, True)
    assert "memory-bound kernels beside communication (2 rounds, settled)" in found.times.plan.notes[-1]
    assert found.alone_ns.tolist() == [10_000, 10_000, 99_000]


def test_nothing_is_slowed_unless_asked_for() -> None:
    plan = Plan.of((op("c", 1_000), op("n", 99_000, on=N)), name="p")
    assert with_contention(plan, ()).times.end_ns.tolist() == timetable(plan).end_ns.tolist()
    assert with_contention(Plan.of((), name="p"), (BESIDE,)).settled


def test_impossible_tables_are_refused() -> None:
    plan = Plan.of((op("c", 1_000),), name="p")
    with pytest.raises(PlanError, match="makes nothing faster"):
        with_contention(plan, [Slowdown(name="x", of=pl.lit(True), beside=pl.lit(True), factor=0.5, source="")])
    with pytest.raises(PlanError, match="does not know its device's"):
        with_contention(plan, [FEWER])
    with pytest.raises(PlanError, match="there are deepseek_training"):
        load_slowdowns("x")


def ticked(alone: list[tuple[int, int]], factor: float) -> list[float]:
    """End of each op of two queues, compute (0) and network (1), worked off in ticks of 1 ns."""
    left: list[list[tuple[int, float]]] = [[], []]
    for number, (lane, ns) in enumerate(alone):
        left[lane].append((number, float(ns)))
    end = [0.0] * len(alone)
    now = 0
    while left[0] or left[1]:
        speed = 1 / factor if left[0] and left[1] else 1.0
        for lane, done in ((0, speed), (1, 1.0)):
            if left[lane]:
                number, rest = left[lane][0]
                left[lane][0] = (number, rest - done)
                if rest - done <= 1e-9:
                    left[lane].pop(0)
                    end[number] = now + 1
        now += 1
    return end


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_a_simulation_in_ticks(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alone = [(int(rng.integers(2)), int(rng.integers(200, 900))) for _ in range(8)]
    ops = [op(f"o{i}", ns, on=(C, N)[lane]) for i, (lane, ns) in enumerate(alone)]
    row = Slowdown(name="x", of=BESIDE.of, beside=BESIDE.beside, factor=1.3, source="a pencil")
    found = with_contention(Plan.of(ops, name="p"), [row], tolerance=0, max_rounds=100)
    assert found.settled
    # a tick a kernel on both sides
    assert np.abs(found.times.end_ns - np.array(ticked(alone, 1.3))).max() <= len(alone)
