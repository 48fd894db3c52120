"""Plans that cannot run say why, in words for a tired person."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weftrace.errors import PlanError, WeftraceError
from weftrace.plan import Op, Plan, Resource, Wait, check, simulate, simulate_ranks, timetable

C, N = Resource(stream=7), Resource(stream=27)


def op(id: str, *after: str, on: Resource = C, ns: int = 10) -> Op:
    return Op(id=id, name=id, duration_ns=ns, resource=on, after=after)


def plan(*ops: Op, **facts: int) -> Plan:
    return Plan.of(ops, name="p", **facts)


def message(*ops: Op, **facts: int) -> str:
    """What is said of a plan that cannot be made, or cannot run."""
    with pytest.raises(PlanError) as caught:
        check(plan(*ops, **facts))
    assert isinstance(caught.value, WeftraceError)
    with pytest.raises(PlanError):
        timetable(plan(*ops, **facts))
    return str(caught.value)


def test_a_good_plan_passes() -> None:
    check(plan(op("a"), op("b", "a", on=N), op("c", "b", "a")))
    check(plan())


def test_unknown_dependency_names_both_ops_and_the_nearest_id() -> None:
    text = message(op("dispatch(F)/0"), op("mlp(F)/0", "dispach(F)/0"), op("x", "y"))
    assert "'mlp(F)/0' waits for 'dispach(F)/0'" in text
    assert "Did you mean 'dispatch(F)/0'?" in text
    assert "(1 more like it.)" in text


def test_duplicate_id() -> None:
    assert "2 ops share the id 'a'" in message(op("a"), op("a"), op("b"))


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (op("a", ns=-5), "duration_ns = -5"),
        (replace(op("a"), duration_ns=1.5), "not an int"),  # type: ignore[arg-type]
        (replace(op("a"), num_kernels=0), "num_kernels = 0"),
        (replace(op("a"), num_sms=200), "holds 200 SMs, but the plan's device has 132"),
        (replace(op("a"), num_sms=-1), "num_sms = -1"),
        (replace(op("a"), kind="compile"), "kind 'compile'"),  # type: ignore[arg-type]
        (replace(op("a"), resource=Resource(rank=4)), "rank 4, but world_size is 4"),
        (replace(op("a"), resource=Resource(rank=-1)), "ranks count from 0"),
        (replace(op("a"), after=(Wait("a0", lag_ns=1.5),)), "lag of 1.5"),  # type: ignore[arg-type]
        (replace(op("a"), after=(Wait("a0", since="begin"),)), "since = 'begin'"),  # type: ignore[arg-type]
        (replace(op("a"), after=(Wait(7),)), "waits for 7, which is not among its 2 ops"),
        (replace(op("a"), meet=1 << 40), "meet = 1,099,511,627,776, which does not fit Int32"),
        (replace(op("a"), kind="host"), "stream 7 of rank 0 has host ops and others"),
        (replace(op("a"), after="a0"), "a string. Give a tuple of ids: ('a0',)"),  # type: ignore[arg-type]
        (op("a", ns=1 << 62), "add up to"),
    ],
)
def test_wrong_values(bad: Op, expected: str) -> None:
    text = message(op("a0"), bad, num_sms=132, world_size=4)
    assert "'a'" in text or "rank" in text or "add up" in text
    assert expected in text


def test_negative_gap() -> None:
    assert "gap_ns = -1" in message(op("a"), gap_ns=-1)


def test_circle_of_dependencies_names_its_ops_only() -> None:
    #  a -> b -> c -> a on three streams; d waits for a, e is free
    text = message(
        op("e", on=Resource(stream=5)),
        op("a", "c", on=Resource(stream=1)),
        op("b", "a", on=Resource(stream=2)),
        op("c", "b", on=Resource(stream=3)),
        op("d", "a", on=Resource(stream=4)),
    )
    assert "3 ops wait for each other" in text
    for line in ("'a' waits for 'c' to end", "'b' waits for 'a' to end", "'c' waits for 'b' to end"):
        assert line in text
    assert "deadlock" not in text
    assert "'d'" not in text and "'e'" not in text


def test_op_that_waits_for_itself() -> None:
    assert "'a' waits for 'a' to end" in message(op("a", "a"))


def test_dependency_on_a_later_op_of_the_same_stream() -> None:
    text = message(op("a", "b"), op("b"))
    assert "'a' waits for 'b' to end" in text
    assert "'b' is queued behind 'a' (rank 0, stream 7)" in text


def test_deadlock_between_stream_order_and_dependencies() -> None:
    # stream 7   x  a(waits for q)  b
    # stream 27  p(waits for b)  q      the dependencies alone have no circle: b -> p, q -> a
    text = message(op("x"), op("a", "q"), op("b"), op("p", "b", on=N), op("q", on=N))
    assert "4 ops wait for each other in a circle (a deadlock between stream order and dependencies)" in text
    assert "'a' waits for 'q' to end" in text
    assert "'q' is queued behind 'p' (rank 0, stream 27)" in text
    assert "'p' waits for 'b' to end" in text
    assert "'b' is queued behind 'a' (rank 0, stream 7)" in text
    assert "'x'" not in text
    check(plan(op("x"), op("b"), op("a", "q"), op("p", "b", on=N), op("q", on=N)))  # the remedy that the text gives


def test_a_long_circle_is_shortened() -> None:
    ops = [op(f"o{i}", f"o{(i + 1) % 500}", on=Resource(rank=i)) for i in range(500)]
    text = message(*ops)
    assert "500 ops wait" in text
    assert len(text.splitlines()) < 30


def test_one_trace_shows_one_rank() -> None:
    two = plan(op("a"), op("b", on=Resource(rank=1)))
    with pytest.raises(PlanError, match="has 2 ranks, and a trace shows one"):
        simulate(two)
    assert sorted(simulate_ranks(two)) == [0, 1]


def test_nothing_to_simulate() -> None:
    with pytest.raises(PlanError, match="no ops"):
        simulate(plan())


def test_too_many_kernels_for_a_trace() -> None:
    huge = plan(replace(op("a"), num_kernels=10**9))
    assert timetable(huge).makespan_ns == 10
    with pytest.raises(PlanError, match="1,000,000,000 kernels"):
        simulate(huge)
