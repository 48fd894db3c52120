"""When ops run, what decides it: plans that a pencil can check."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weftrace.errors import PlanError
from weftrace.plan import Op, Plan, Resource, Wait, critical_path, longest_chain, memory_peaks, slack_ns, timetable

C, N = Resource(stream=7), Resource(stream=27)


def op(id: str, ns: int, *after: str, on: Resource = C) -> Op:
    return Op(id=id, name=id, duration_ns=ns, resource=on, after=after)


def spans(plan: Plan) -> dict[str, tuple[int, int]]:
    times = timetable(plan)
    return {label: (start, end) for label, start, end in times.ops.select("id", "start_ns", "end_ns").rows()}


def chain_of(plan: Plan) -> tuple[list[str], int]:
    chain = longest_chain(plan)
    return chain.path["id"].to_list(), chain.length_ns


#      0    5   10   15   20
# C    aaaaa.....cccccccdd      c waits for b, d for its stream
# N    .....bbbbb.......eeee    b waits for a, e for c
TWO_LANES = Plan.of(
    (op("a", 5), op("b", 5, "a", on=N), op("c", 7, "b"), op("d", 2), op("e", 4, "c", on=N)), name="two lanes"
)


def test_two_lanes() -> None:
    assert spans(TWO_LANES) == {"a": (0, 5), "b": (5, 10), "c": (10, 17), "d": (17, 19), "e": (17, 21)}
    assert timetable(TWO_LANES).makespan_ns == 21


def test_issue_order_of_other_streams_does_not_matter() -> None:
    lane_by_lane = Plan.of(sorted(TWO_LANES.listed(), key=lambda o: o.resource.stream), name="two lanes")
    assert spans(lane_by_lane) == spans(TWO_LANES)


def test_a_stream_is_first_in_first_out() -> None:
    # C   aaa       b waits for y, and c, which waits for nothing, waits behind b
    # N   yyyyy
    # C   aaa..bbc
    plan = Plan.of((op("a", 3), op("y", 5, on=N), op("b", 2, "y"), op("c", 1)), name="fifo")
    assert spans(plan) == {"a": (0, 3), "y": (0, 5), "b": (5, 7), "c": (7, 8)}


def test_gap_between_ops_of_a_stream_and_between_kernels_of_an_op() -> None:
    # gap 2:  C   aaaa..bbb..bbb      a: 4, b: two kernels of 3; no gap before c, whose stream was free
    #         N   .............ccc    (c waits for b, which ends at 14)
    b = replace(op("b", 6), num_kernels=2)
    plan = Plan.of((op("a", 4), b, op("c", 3, "b", on=N)), name="gaps", gap_ns=2)
    assert spans(plan) == {"a": (0, 4), "b": (6, 14), "c": (14, 17)}


def test_kernels_and_gaps_beyond_32_bits() -> None:
    # 1,000,000 kernels of nothing, 2,500 ns apart: 999,999 gaps are 2.5 s, more than 2 ** 31 ns
    many = Plan.of((replace(op("a", 0), num_kernels=1_000_000), op("b", 1)), name="many", gap_ns=2_500)
    assert spans(many) == {"a": (0, 2_499_997_500), "b": (2_500_000_000, 2_500_000_001)}


def test_lags_of_dependencies_over_ranks() -> None:
    # rank 0  aaa bb         sending takes 4: rank 1 may start c at 3 + 4, and d (waits for b as well) at max(9, 5 + 4)
    # rank 1  .......cc dd
    there = Resource(rank=1)
    c = replace(op("c", 2, on=there), after=(Wait("a", lag_ns=4),))
    d = replace(op("d", 2, on=there), after=(Wait("b", lag_ns=4), "c"))
    plan = Plan.of((op("a", 3), op("b", 2), c, d), name="lags")
    assert spans(plan) == {"a": (0, 3), "b": (3, 5), "c": (7, 9), "d": (9, 11)}


def test_ops_that_take_no_time() -> None:
    barrier = op("barrier", 0, "a", "b", on=Resource(stream=1))
    plan = Plan.of((op("a", 3), op("b", 5, on=N), barrier, op("c", 1, "barrier")), name="barrier")
    assert spans(plan) == {"a": (0, 3), "b": (0, 5), "barrier": (5, 5), "c": (5, 6)}


def test_empty_plan() -> None:
    empty = Plan.of((), name="empty")
    assert timetable(empty).makespan_ns == 0
    assert memory_peaks(timetable(empty)).rows() == []
    assert len(slack_ns(timetable(empty))) == 0
    assert longest_chain(empty).length_ns == 0
    assert critical_path(timetable(empty)).is_empty()


def test_longest_chain_ignores_the_order_on_a_stream() -> None:
    # by dependencies alone: a -> b -> c -> e = 5 + 5 + 7 + 4
    assert chain_of(TWO_LANES) == (["a", "b", "c", "e"], 21)
    # four independent ops of one stream take 4 x 3 together, and are no chain
    serial = Plan.of((op(f"o{i}", 3) for i in range(4)), name="serial")
    assert longest_chain(serial).length_ns == 3
    assert timetable(serial).makespan_ns == 12


def test_longest_chain_counts_lags() -> None:
    late = replace(op("b", 1, on=N), after=(Wait("a", lag_ns=10),))
    assert chain_of(Plan.of((op("a", 1), late, op("c", 5, "a")), name="lag")) == (["a", "b"], 12)


def test_critical_path_says_why_each_op_started() -> None:
    # C   aaabbbb......ddd
    # N   ccc....eeeeee        e waits for b, d for e
    plan = Plan.of((op("a", 3), op("b", 4), op("c", 3, on=N), op("e", 6, "b", on=N), op("d", 3, "e")), name="why")
    path = critical_path(timetable(plan))
    assert path.select("id", "start_ns", "end_ns", "reason", "why", "cause").rows() == [
        ("a", 0, 3, "start", None, None),
        ("b", 3, 7, "resource", None, 0),
        ("e", 7, 13, "dependency", "data", 1),
        ("d", 13, 16, "dependency", "data", 3),
    ]


def test_long_and_wide_plans() -> None:
    # a chain of 50,000 ops over two streams, then one op that waits for all of them
    ops = [op(f"o{i}", 1, *[f"o{i - 1}"][: min(i, 1)], on=(C, N)[i % 2]) for i in range(50_000)]
    last = op("last", 1, *[str(o.id) for o in ops], on=Resource(stream=1))
    plan = Plan.of((last, *reversed(ops[1::2]), *ops[::2]), name="long")  # stream 27 in the wrong order
    with pytest.raises(PlanError, match="circle"):
        timetable(plan)
    plan = Plan.of((last, *ops[1::2], *ops[::2]), name="long")
    assert timetable(plan).makespan_ns == longest_chain(plan).length_ns == 50_001
    assert len(critical_path(timetable(plan))) == 50_001


def test_ids_and_ranks_of_a_plan() -> None:
    plan = Plan.of((op("a", 1, on=Resource(rank=2, stream=1)), op("b", 1), op("c", 1, on=N)), name="p")
    assert plan.ranks == (0, 2)
    assert plan.resources == (C, N, Resource(rank=2, stream=1))
    assert repr(plan) == "Plan('p', 3 ops, 2 ranks, 3 streams)"
