"""When ops run, what decides it: plans that a pencil can check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weftrace.errors import PlanError
from weftrace.plan import Op, Plan, Resource, critical_path, longest_chain, timetable

C, N = Resource(stream=7), Resource(stream=27)


def op(id: str, ns: int, *after: str, on: Resource = C) -> Op:
    return Op(id=id, name=id, duration_ns=ns, resource=on, after=after)


def spans(plan: Plan) -> dict[str, tuple[int, int]]:
    times = timetable(plan)
    return {o.id: (s, e) for o, s, e in zip(plan.ops, times.start_ns.tolist(), times.end_ns.tolist(), strict=True)}


#      0    5   10   15   20
# C    aaaaa.....cccccccdd      c waits for b, d for its stream
# N    .....bbbbb.......eeee    b waits for a, e for c
TWO_LANES = Plan(
    name="two lanes",
    ops=(op("a", 5), op("b", 5, "a", on=N), op("c", 7, "b"), op("d", 2), op("e", 4, "c", on=N)),
)


def test_two_lanes() -> None:
    assert spans(TWO_LANES) == {"a": (0, 5), "b": (5, 10), "c": (10, 17), "d": (17, 19), "e": (17, 21)}
    assert timetable(TWO_LANES).makespan_ns == 21


def test_issue_order_of_other_streams_does_not_matter() -> None:
    lane_by_lane = replace(TWO_LANES, ops=tuple(sorted(TWO_LANES.ops, key=lambda o: o.resource.stream)))
    assert spans(lane_by_lane) == spans(TWO_LANES)


def test_a_stream_is_first_in_first_out() -> None:
    # C   aaa       b waits for y, and c, which waits for nothing, waits behind b
    # N   yyyyy
    # C   aaa..bbc
    plan = Plan(name="fifo", ops=(op("a", 3), op("y", 5, on=N), op("b", 2, "y"), op("c", 1)))
    assert spans(plan) == {"a": (0, 3), "y": (0, 5), "b": (5, 7), "c": (7, 8)}


def test_gap_between_ops_of_a_stream_and_between_kernels_of_an_op() -> None:
    # gap 2:  C   aaaa..bbb..bbb      a: 4, b: two kernels of 3; no gap before c, whose stream was free
    #         N   .............ccc    (c waits for b, which ends at 14)
    b = replace(op("b", 6), num_kernels=2)
    plan = Plan(name="gaps", ops=(op("a", 4), b, op("c", 3, "b", on=N)), gap_ns=2)
    assert spans(plan) == {"a": (0, 4), "b": (6, 14), "c": (14, 17)}


def test_lags_of_dependencies_over_ranks() -> None:
    # rank 0  aaa bb         sending takes 4: rank 1 may start c at 3 + 4, and d (waits for b as well) at max(9, 5 + 4)
    # rank 1  .......cc dd
    there = Resource(rank=1)
    c = replace(op("c", 2, "a", on=there), lags_ns=(4,))
    d = replace(op("d", 2, "b", "c", on=there), lags_ns=(4, 0))
    plan = Plan(name="lags", ops=(op("a", 3), op("b", 2), c, d))
    assert spans(plan) == {"a": (0, 3), "b": (3, 5), "c": (7, 9), "d": (9, 11)}


def test_ops_that_take_no_time() -> None:
    barrier = op("barrier", 0, "a", "b", on=Resource(stream=1))
    plan = Plan(name="barrier", ops=(op("a", 3), op("b", 5, on=N), barrier, op("c", 1, "barrier")))
    assert spans(plan) == {"a": (0, 3), "b": (0, 5), "barrier": (5, 5), "c": (5, 6)}


def test_empty_plan() -> None:
    empty = Plan(name="empty", ops=())
    assert timetable(empty).makespan_ns == 0
    assert longest_chain(empty).length_ns == 0
    assert critical_path(empty) == ()


def test_longest_chain_ignores_the_order_on_a_stream() -> None:
    # by dependencies alone: a -> b -> c -> e = 5 + 5 + 7 + 4
    chain = longest_chain(TWO_LANES)
    assert ([o.id for o in chain.ops], chain.length_ns) == (["a", "b", "c", "e"], 21)
    # four independent ops of one stream take 4 x 3 together, and are no chain
    serial = Plan(name="serial", ops=tuple(op(f"o{i}", 3) for i in range(4)))
    assert longest_chain(serial).length_ns == 3
    assert timetable(serial).makespan_ns == 12


def test_longest_chain_counts_lags() -> None:
    late = replace(op("b", 1, "a", on=N), lags_ns=(10,))
    chain = longest_chain(Plan(name="lag", ops=(op("a", 1), late, op("c", 5, "a"))))
    assert ([o.id for o in chain.ops], chain.length_ns) == (["a", "b"], 12)


def test_critical_path_says_why_each_op_started() -> None:
    # C   aaabbbb......ddd
    # N   ccc....eeeeee        e waits for b, d for e
    plan = Plan(name="why", ops=(op("a", 3), op("b", 4), op("c", 3, on=N), op("e", 6, "b", on=N), op("d", 3, "e")))
    assert [(s.op.id, s.start_ns, s.end_ns, s.reason, s.cause) for s in critical_path(plan)] == [
        ("a", 0, 3, "start", None),
        ("b", 3, 7, "resource", "a"),
        ("e", 7, 13, "dependency", "b"),
        ("d", 13, 16, "dependency", "e"),
    ]


def test_long_and_wide_plans() -> None:
    # a chain of 50,000 ops over two streams, then one op that waits for all of them
    ops = [op(f"o{i}", 1, *[f"o{i - 1}"][: min(i, 1)], on=(C, N)[i % 2]) for i in range(50_000)]
    last = op("last", 1, *[o.id for o in ops], on=Resource(stream=1))
    plan = Plan(name="long", ops=(last, *reversed(ops[1::2]), *ops[::2]))  # stream 27 in the wrong order
    with pytest.raises(PlanError, match="circle"):
        timetable(plan)
    plan = replace(plan, ops=(last, *ops[1::2], *ops[::2]))
    assert timetable(plan).makespan_ns == longest_chain(plan).length_ns == 50_001
    assert len(critical_path(plan)) == 50_001


def test_ids_and_ranks_of_a_plan() -> None:
    plan = Plan(name="p", ops=(op("a", 1, on=Resource(rank=2, stream=1)), op("b", 1), op("c", 1, on=N)))
    assert plan.ranks == (0, 2)
    assert plan.resources == (C, N, Resource(rank=2, stream=1))
    assert repr(plan) == "Plan('p', 3 ops, 2 ranks, 3 streams)"
