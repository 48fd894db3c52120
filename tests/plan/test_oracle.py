"""The engine against the definition, on random plans with everything that a plan can hold.

The definition is that of docs/plan.md, as `bellman_ford` writes it down. Each run tries other plans: a failure names
its case, and WEFTRACE_FUZZ_SEED brings it again; WEFTRACE_FUZZ_CASES says how many (`make fuzz`).
"""

from __future__ import annotations

import polars as pl

from tests.plan.bellman_ford import constraints_of, has_circle, in_circles, relaxed
from tests.plan.random_plans import OPS_SCHEMA, WAITS_SCHEMA


def frames(ops: list[dict[str, object]], waits: list[tuple[object, ...]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    plain = {"stream": 7, "rank": 0, "num_kernels": 1, "duration_ns": 3}
    return (
        pl.DataFrame([plain | op for op in ops], schema=OPS_SCHEMA),
        pl.DataFrame([(*wait, "data") for wait in waits], schema=WAITS_SCHEMA, orient="row"),
    )


def test_oracle_on_a_plan_that_a_pencil_can_check() -> None:
    # gap 1     0    5    10   15   20
    # rank 0    aaaaa.bb.bb              b is two kernels, of 4 in all
    # rank 1    .c~~~~~~~~~~~~~~cc.ee    c starts 1 after a has, and meets d: it spins until d starts; e is behind it
    # rank 2    ................dddd     d starts 5 after b has ended
    ops, waits = frames(
        [
            {"duration_ns": 5},
            {"duration_ns": 4, "num_kernels": 2},
            {"duration_ns": 2, "rank": 1, "meet": 3},
            {"duration_ns": 4, "rank": 2, "meet": 3},
            {"duration_ns": 2, "rank": 1},
        ],
        [(2, 0, "start", 1), (3, 1, "end", 5), (3, 1, "end", 3), (3, 0, "end", -2)],
    )
    constraints = constraints_of(ops, waits, gap_ns=1)
    assert not has_circle(constraints)
    start_ns, end_ns = relaxed(constraints)
    assert start_ns == [0, 6, 1, 16, 19]
    assert end_ns == [5, 11, 18, 20, 21]
    assert relaxed(constraints, {1: 8})[1] == [5, 13, 20, 22, 23]
    # without streams nothing keeps b and e waiting: b ends at 5, d starts at 10
    assert relaxed(constraints_of(ops, waits, gap_ns=1, in_streams=False))[1] == [5, 5, 12, 14, 2]


def test_oracle_sees_a_circle_whatever_it_weighs() -> None:
    ops, waits = frames(
        [{}, {"stream": 8}, {"stream": 9}], [(0, 1, "start", -50), (1, 0, "start", 20), (2, 0, "end", 0)]
    )
    constraints = constraints_of(ops, waits, gap_ns=0)
    assert has_circle(constraints)
    assert in_circles(constraints, range(3)) == [0, 1]
    assert not has_circle(constraints_of(ops, waits[1:], gap_ns=0))
    # two members of a meet on one stream: the first's end waits for the second's start, which waits for that end
    ops, waits = frames([{"meet": 1}, {"meet": 1}], [])
    assert in_circles(constraints_of(ops, waits, gap_ns=0), range(2)) == [0, 1]
