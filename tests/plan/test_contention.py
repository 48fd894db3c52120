"""What ops cost each other that run at the same time: by hand, and by a simulation in small ticks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

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


def test_gaps_between_kernels_lose_nothing() -> None:
    # ten kernels of 1,000 and the gaps between them: as one op or as ten, each kernel takes 1,250 beside n
    many = [op(f"c{i}", 1_000) for i in range(10)]
    one = Op(id="c", name="c", duration_ns=10_000, num_kernels=10, resource=C)
    for ops in (many, [one]):
        found = with_contention(Plan.of((*ops, op("n", 99_000, on=N)), name="p", gap_ns=2_000), [BESIDE])
        assert found.settled
        assert found.times.end_ns[-2] == 10 * 1_250 + 9 * 2_000
    # n ends in the middle: up to 14,000 half of the kernels, 5,000 of 28,000 ns, had their turn
    found = with_contention(Plan.of((one, op("n", 14_000, on=N)), name="p", gap_ns=2_000), [BESIDE], tolerance=0)
    taken = int(found.times.plan.ops["duration_ns"][0])
    assert taken - 14_000 * taken / (taken + 18_000) * 0.2 == pytest.approx(10_000, abs=1)


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


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"of": "kind"}, "of = 'kind'; it is an expression over columns of ops"),
        ({"beside": True}, "beside = True; it is an expression"),
        ({"of": pl.col("speed") > 1}, 'of: unable to find column "speed"'),
        ({"beside": pl.col("duration_ns")}, "beside is Int64; it must be true or false of each op"),
        ({"of": (pl.col("id") == "c").filter(pl.col("id") == "c")}, "of: "),
        ({"factor": float("nan")}, "its factor is nan; it is a number, or None for SMs"),
        ({"factor": float("inf")}, "its factor is inf"),
        ({"factor": "2"}, "its factor is '2'"),
    ],
)
def test_rows_that_say_nothing_are_refused(wrong: dict[str, Any], expected: str) -> None:
    plan = Plan.of((op("c", 1_000), op("n", 1_000, on=N)), name="p")
    with pytest.raises(PlanError) as caught:
        with_contention(plan, [replace(BESIDE, **wrong)])
    assert caught.value.args[0].startswith("slowdown 'beside the network'")
    assert expected in str(caught.value)


def test_rounds_and_tolerance_are_numbers_that_make_sense() -> None:
    plan = Plan.of((op("c", 1_000), op("n", 1_000, on=N)), name="p")
    with pytest.raises(PlanError, match="max_rounds = 1: a first round sees what overlaps, a second what it costs"):
        with_contention(plan, [BESIDE], max_rounds=1)
    with pytest.raises(PlanError, match="tolerance = nan; it is a share of the makespan"):
        with_contention(plan, [BESIDE], tolerance=float("nan"))
    with pytest.raises(PlanError, match="a list of Slowdowns is wanted here"):
        with_contention(plan, BESIDE)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="a Plan is wanted here, not a Timetable"):
        with_contention(timetable(plan), [BESIDE])  # type: ignore[arg-type]


def test_the_note_says_no_more_than_what_was_done() -> None:
    plan = Plan.of((op("c", 1_000), op("n", 1_000, on=N)), name="p")
    assert with_contention(plan, ()).times.plan.notes == ("ops slow each other: no slowdowns given (1 round, settled)",)
    cut = with_contention(plan, [BESIDE], max_rounds=2)
    assert not cut.settled
    assert cut.times.plan.notes[0].endswith("(2 rounds, not settled, the last changed a duration by 250 ns)")
    unknown = replace(BESIDE, of=pl.col("layer") == 3)  # no op has a layer: null selects nothing
    assert with_contention(plan, [unknown]).times.plan.ops["duration_ns"].to_list() == [1_000, 1_000]


def ticked(alone: list[tuple[int, int]], factors: dict[int, tuple[int, float]]) -> list[float]:
    """End of each op of three queues, in ticks of 1 ns. factors: lane -> the lane that slows it, and how much."""
    left: list[list[tuple[int, float]]] = [[], [], []]
    end = [0.0] * len(alone)
    for number, (lane, ns) in enumerate(alone):
        left[lane].append((number, float(ns)))
    now = 0
    while any(left):
        busy = [bool(queue) for queue in left]
        for lane, queue in enumerate(left):
            done = 1.0
            if lane in factors and busy[factors[lane][0]]:
                done /= factors[lane][1]
            while queue:
                number, rest = queue.pop(0)
                if rest > done + 1e-9:
                    queue.insert(0, (number, rest - done))
                    break
                done -= rest
                end[number] = now + 1
        now += 1
    return end


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_a_simulation_in_ticks(seed: int) -> None:
    """Three lanes and two rules; some ops take no time."""
    rng = np.random.default_rng(seed)
    lanes = (C, N, Resource(stream=31))
    alone = [(int(rng.integers(3)), int(rng.choice([0, int(rng.integers(200, 900))], p=[0.2, 0.8]))) for _ in range(12)]
    ops = [op(f"o{i}", ns, on=lanes[lane]) for i, (lane, ns) in enumerate(alone)]
    beside = {name: pl.col("stream") == lane.stream for name, lane in zip("CNM", lanes, strict=True)}
    rows = [
        Slowdown(name="x", of=beside["C"], beside=beside["N"], factor=1.3, source="a pencil"),
        Slowdown(name="y", of=beside["N"], beside=beside["M"], factor=1.6, source="a pencil"),
    ]
    found = with_contention(Plan.of(ops, name="p"), rows, tolerance=0, max_rounds=100)
    assert found.settled
    expected = np.array(ticked(alone, {0: (1, 1.3), 1: (2, 1.6)}))
    # a tick a kernel on both sides
    assert np.abs(found.times.end_ns - expected).max() <= len(alone)
