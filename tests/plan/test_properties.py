"""What holds for every plan, and an independent simulator that is slow and simple."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from weftrace.errors import PlanError
from weftrace.plan import (
    Op,
    Plan,
    Resource,
    Wait,
    check,
    critical_path,
    from_json,
    longest_chain,
    simulate_ranks,
    timetable,
    to_json,
)
from weftrace.plan.as_traces import LEAD_NS, SLOT_NS
from weftrace.trace.model import is_annotation, is_launch, on_device


@st.composite
def plans(draw: st.DrawFn, *, may_deadlock: bool = False) -> Plan:
    """Small plans on up to 2 ranks x 3 streams. Unless asked otherwise, ops depend on earlier ones: no deadlock."""
    num_ops = draw(st.integers(1, 12))
    ops = []
    for i in range(num_ops):
        others = st.integers(0, num_ops - 1 if may_deadlock else i - 1)
        after = draw(st.lists(others, max_size=3, unique=True)) if may_deadlock or i else []
        ops.append(
            Op(
                id=f"o{i}",
                name=draw(st.sampled_from(["attn(F)", "dispatch", "copy"])),
                duration_ns=draw(st.integers(0, 6)),
                resource=Resource(rank=draw(st.integers(0, 1)), stream=draw(st.sampled_from([7, 23, 27]))),
                kind=draw(st.sampled_from(["compute", "communication", "memory"])),
                after=tuple(Wait(f"o{j}", lag_ns=draw(st.integers(0, 3))) for j in after),
                num_sms=draw(st.sampled_from([None, 20, 112])),
                num_kernels=draw(st.integers(1, 3)),
                phase=draw(st.sampled_from([None, "attn(F)", "dispatch(F)"])),
                layer=draw(st.sampled_from([None, 0, 1])),
            )
        )
    if draw(st.booleans()):  # lane by lane: the order on each stream stays, so nothing else may change
        ops.sort(key=lambda op: op.resource)
    return Plan.of(ops, name="p", gap_ns=draw(st.integers(0, 2)), num_sms=132)


def waits(op: Op) -> list[Wait]:
    return [each if isinstance(each, Wait) else Wait(each) for each in op.after]


def stepped(plan: Plan) -> list[tuple[int, int]] | None:
    """(start, end) of every op by looking at every nanosecond in turn; None where the plan gets stuck."""
    queues: dict[Resource, list[Op]] = defaultdict(list)
    ops = plan.listed()
    for op in ops:
        queues[op.resource].append(op)
    start: dict[str | int | None, int] = {}
    end: dict[str | int | None, int] = {}
    free: dict[Resource, int] = {}
    horizon = sum(op.duration_ns + plan.gap_ns * op.num_kernels + sum(w.lag_ns for w in waits(op)) for op in ops)
    for now in range(horizon + 1):
        moved = True
        while moved:  # ops of no duration let others start at the same time
            moved = False
            for resource, queue in queues.items():
                if not queue or free.get(resource, 0) > now:
                    continue
                op = queue[0]
                if all(wait.on in end and end[wait.on] + wait.lag_ns <= now for wait in waits(op)):
                    queue.pop(0)
                    start[op.id] = now
                    end[op.id] = now + op.duration_ns + plan.gap_ns * (op.num_kernels - 1)
                    free[resource] = end[op.id] + plan.gap_ns
                    moved = True
    if len(end) < len(ops):
        return None
    return [(start[op.id], end[op.id]) for op in ops]


@given(plans())
def test_agrees_with_the_stepped_simulator(plan: Plan) -> None:
    times = timetable(plan)
    assert list(zip(times.start_ns.tolist(), times.end_ns.tolist(), strict=True)) == stepped(plan)


@given(plans(may_deadlock=True))
def test_gets_stuck_exactly_when_the_stepped_simulator_does(plan: Plan) -> None:
    expected = stepped(plan)
    if expected is None:
        try:
            check(plan)
        except PlanError as error:
            named = [op for op in plan.listed() if f"{op.id!r}" in str(error)]
            assert named and "circle" in str(error)
        else:
            raise AssertionError("check passed a plan that gets stuck")
    else:
        times = timetable(plan)
        assert list(zip(times.start_ns.tolist(), times.end_ns.tolist(), strict=True)) == expected


@given(plans())
def test_bounds_and_rules(plan: Plan) -> None:
    times = timetable(plan)
    ops = plan.listed()
    index: dict[str | int | None, int] = {op.id: i for i, op in enumerate(ops)}
    last: dict[Resource, int] = {}
    hold: dict[Resource, int] = defaultdict(int)
    for i, op in enumerate(ops):
        if op.resource in last:  # first in, first out, without overlap
            assert times.start_ns[i] >= times.end_ns[last[op.resource]] + plan.gap_ns
        last[op.resource] = i
        hold[op.resource] += int(times.end_ns[i] - times.start_ns[i])
        for wait in waits(op):
            assert times.start_ns[i] >= times.end_ns[index[wait.on]] + wait.lag_ns
    makespan = times.makespan_ns
    assert makespan >= longest_chain(plan).length_ns
    assert makespan >= max(hold.values())
    lags_ns = sum(wait.lag_ns for op in ops for wait in waits(op))
    assert makespan <= lags_ns + sum(op.duration_ns + plan.gap_ns * op.num_kernels for op in ops)
    again = timetable(plan)
    assert np.array_equal(times.start_ns, again.start_ns) and np.array_equal(times.end_ns, again.end_ns)


@given(plans())
def test_critical_path_adds_up_to_the_makespan(plan: Plan) -> None:
    times = timetable(plan)
    path = critical_path(times).rows(named=True)
    ops = plan.listed()
    assert path[0]["start_ns"] == 0 and path[0]["reason"] == "start"
    assert path[-1]["end_ns"] == times.makespan_ns
    for before, step in pairwise(path):
        assert step["cause"] == before["op"]
        lags = [wait.lag_ns for wait in waits(ops[step["op"]]) if wait.on == before["id"]]
        assert step["lag_ns"] in lags if step["reason"] == "dependency" else step["lag_ns"] == plan.gap_ns
        assert step["start_ns"] == before["end_ns"] + step["lag_ns"]
        if step["reason"] == "resource":
            assert ops[step["op"]].resource == ops[before["op"]].resource


@given(plans())
def test_chain_is_made_of_dependencies(plan: Plan) -> None:
    chain = longest_chain(plan)
    length = 0
    ops = [plan.op(row) for row in chain.path["op"]]
    for before, op in zip((None, *ops), ops, strict=False):
        if before is not None:
            length += max(wait.lag_ns for wait in waits(op) if wait.on == before.id)
        length += op.duration_ns + plan.gap_ns * (op.num_kernels - 1)
    assert length == chain.length_ns


@given(plans(may_deadlock=True))
def test_json_round_trip(plan: Plan) -> None:
    assert from_json(to_json(plan)) == plan


@given(plans())
def test_traces_show_the_timetable(plan: Plan) -> None:
    times = timetable(plan)
    traces = simulate_ranks(plan)
    ops = plan.listed()
    assert tuple(traces) == plan.ranks
    assert {rank: trace.events.rows() for rank, trace in traces.items()} == {
        rank: trace.events.rows() for rank, trace in simulate_ranks(plan).items()
    }
    for rank, trace in traces.items():
        rows = [i for i, op in enumerate(ops) if op.resource.rank == rank]
        origin = int(trace.info["origin_ns"])
        device = trace.events.filter(on_device()).sort("correlation")
        launches = trace.events.filter(is_launch()).sort("correlation")
        # one launch for each device event, in issue order, before the stream is free to run it
        count = sum(ops[i].num_kernels for i in rows)
        assert device["correlation"].to_list() == launches["correlation"].to_list() == list(range(1, count + 1))
        assert launches["ts_ns"].diff().drop_nulls().ge(SLOT_NS).all()
        assert launches["ts_ns"].min() >= 0  # type: ignore[operator]
        assert trace.events["ts_ns"].is_sorted()
        free: dict[int, int] = {}
        k = 0
        for i in rows:
            op = ops[i]
            mine = device[k : k + op.num_kernels]
            assert set(mine["stream"]) == {op.resource.stream}
            assert mine["dur_ns"].sum() == op.duration_ns
            assert mine["dur_ns"].max() - mine["dur_ns"].min() <= 1  # type: ignore[operator]
            assert mine["ts_ns"][0] - origin == times.start_ns[i]
            assert mine["ts_ns"][-1] + mine["dur_ns"][-1] - origin == times.end_ns[i]
            assert set(mine["name"]) == {f"weftrace::sim::{op.kind}::{op.name}"}
            for start, dur, launch in zip(mine["ts_ns"], mine["dur_ns"], launches["ts_ns"][k:], strict=False):
                assert launch + LEAD_NS <= free.get(op.resource.stream, origin)
                assert start >= free.get(op.resource.stream, origin)
                free[op.resource.stream] = start + dur
            k += op.num_kernels
        _check_ranges(trace.events, [ops[i] for i in rows])


def _check_ranges(events: pl.DataFrame, ops: list[Op]) -> None:
    """Each launch lies in one range of its phase's name, or in none but the step, as its op says."""
    ranges = events.filter(is_annotation()).select(
        pl.col("name").cast(pl.String), "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )
    step, *phases = ranges.rows()
    assert step[0] == "ProfilerStep#1"
    assert step[1] <= events["ts_ns"].min()
    assert step[2] >= (events["ts_ns"] + events["dur_ns"]).max()
    assert all(a[2] < b[1] for a, b in pairwise(phases))
    expected = [op.phase for op in ops for _ in range(op.num_kernels)]
    launches = events.filter(is_launch()).sort("correlation").select("ts_ns", "dur_ns").rows()
    for phase, (ts, dur) in zip(expected, launches, strict=True):
        inside = [name for name, start, end in phases if start <= ts and ts + dur <= end]
        assert inside == ([] if phase is None else [phase])


@given(plans(), st.integers(1, 5))
def test_longer_ops_never_end_sooner(plan: Plan, factor: int) -> None:
    slower = plan.with_ops(duration_ns=pl.col("duration_ns") * factor)
    assert (timetable(slower).end_ns >= timetable(plan).end_ns).all()
