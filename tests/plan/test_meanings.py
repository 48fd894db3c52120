"""The four meanings of a plan beside an end: a start, a negative lag, a meeting of ranks, a host thread. And memory.

Each plan is one that a pencil can check; the drawing above it is what must come out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from weftrace.analysis import analyze_rank
from weftrace.errors import PlanError
from weftrace.plan import (
    Op,
    Plan,
    Resource,
    Wait,
    check,
    critical_path,
    drawn,
    longest_chain,
    memory_curve,
    memory_peaks,
    simulate,
    slack_ns,
    timetable,
    trace_of,
)
from weftrace.plan.graph import graph_of, run
from weftrace.trace import work_of
from weftrace.trace.model import is_annotation, is_launch, on_device

C, N, HOST = Resource(stream=7), Resource(stream=27), Resource(stream=100)


def op(id: str, ns: int, *after: str | Wait, on: Resource = C, **more: Any) -> Op:
    return Op(id=id, name=id, duration_ns=ns, resource=on, after=after, **more)


def spans(plan: Plan) -> dict[str, tuple[int, int]]:
    times = timetable(plan)
    compiled = run(graph_of(plan), compiled=True)
    assert (compiled.start_ns == times.start_ns).all() and (compiled.end_ns == times.end_ns).all()
    return {label: (start, end) for label, start, end in times.ops.select("id", "start_ns", "end_ns").rows()}


def path(plan: Plan) -> list[tuple[object, ...]]:
    times = timetable(plan)
    found = critical_path(times)
    parts = found.select((pl.col("until_ns") - pl.col("from_ns") + pl.col("lag_ns")).sum()).item()
    assert parts == times.makespan_ns
    return found.select("id", "from_ns", "until_ns", "lag_ns", "reason").rows()


# --- a meeting of ranks -----------------------------------------------------------------------------------------------


def meeting() -> Plan:
    """Rank 0 comes 4 early into an all-reduce, and waits in it.

        0    5   10   15
    r0  aaa~~~~xxxxxee       x of rank 0 takes 5, that of rank 1 takes 6
    r1  bbbbbbbxxxxxxf
    """
    there = Resource(rank=1, stream=7)
    return Plan.of(
        (
            op("a", 3), op("x0", 5, meet=0, kind="communication"), op("e", 2),
            op("b", 7, on=there), op("x1", 6, meet=0, kind="communication", on=there), op("f", 1, on=there),
        ),
        name="meeting",
    )  # fmt: skip


def test_members_of_a_meet_end_at_the_last_start_plus_their_own_duration() -> None:
    assert spans(meeting()) == {"a": (0, 3), "x0": (3, 12), "e": (12, 14), "b": (0, 7), "x1": (7, 13), "f": (13, 14)}


def test_the_path_leaves_a_meet_through_who_came_last() -> None:
    assert path(meeting().with_ops(duration_ns=pl.when(id="e").then(9).otherwise("duration_ns"))) == [
        ("b", 0, 7, 0, "start"),
        ("x1", 7, 7, 0, "resource"),
        ("x0", 7, 12, 0, "meet"),
        ("e", 12, 21, 0, "resource"),
    ]


def test_slack_of_who_comes_early_is_what_it_waits() -> None:
    plan = meeting()
    # e may end at 14 as f does; a and x0 may come 4 later; nothing of rank 1 may be later
    assert dict(zip(plan.ops["id"], slack_ns(timetable(plan)).tolist(), strict=True)) == {
        "a": 4, "x0": 4, "e": 0, "b": 0, "x1": 0, "f": 0,
    }  # fmt: skip


def test_a_trace_shows_the_wait_inside_the_first_kernel() -> None:
    plan = meeting().with_ops(num_kernels=pl.when(id="x0").then(2).otherwise(1))
    trace = trace_of(timetable(plan), 0)
    rows = trace.events.filter(on_device()).with_columns(pl.col("ts_ns") - int(trace.info["origin_ns"]))
    assert rows.select("ts_ns", "dur_ns").rows() == [(0, 3), (3, 6), (9, 3), (12, 2)]


def test_meets_in_contrary_order_are_a_deadlock() -> None:
    # rank 0 enters meet 0 first, rank 1 meet 1: neither can start
    there = Resource(rank=1, stream=7)
    ops = (op("x0", 1, meet=0), op("y0", 1, meet=1), op("y1", 1, meet=1, on=there), op("x1", 1, meet=0, on=there))
    with pytest.raises(PlanError) as caught:
        check(Plan.of(ops, name="p"))
    text = str(caught.value)
    assert "4 ops wait for each other" in text
    assert "'x0' meets 'x1', which cannot start" in text
    assert "'x1' is queued behind 'y1' (rank 1, stream 7)" in text
    check(Plan.of((*ops[:2], *ops[:1:-1]), name="the remedy"))


def test_a_meet_of_two_ops_of_one_stream_is_a_deadlock() -> None:
    with pytest.raises(PlanError, match="'a' meets 'b', which cannot start"):
        check(Plan.of((op("a", 1, meet=3), op("b", 1, meet=3)), name="p"))


def test_a_meet_of_one_is_an_op() -> None:
    assert spans(Plan.of((op("a", 3), op("b", 2, meet=9)), name="p")) == {"a": (0, 3), "b": (3, 5)}


# --- since a start, and negative lags -----------------------------------------------------------------------------


def test_a_message_leaves_before_its_op_ends() -> None:
    # C  aaaaaaaaaa           a sends what it has after 4
    # N  ....sss
    plan = Plan.of((op("a", 10), op("s", 3, Wait("a", since="start", lag_ns=4), on=N)), name="p")
    assert spans(plan) == {"a": (0, 10), "s": (4, 7)}


def test_an_input_that_is_needed_late() -> None:
    # N  sssssss
    # C  ....aaaaaa           a reads s's result 3 after it began
    plan = Plan.of((op("s", 7, on=N), op("a", 6, Wait("s", lag_ns=-3))), name="p")
    assert spans(plan) == {"s": (0, 7), "a": (4, 10)}
    assert path(plan) == [("s", 0, 4, 0, "start"), ("a", 4, 10, 0, "dependency")]


def test_nothing_starts_before_the_plan_does() -> None:
    plan = Plan.of((op("s", 2, on=N), op("a", 6, Wait("s", lag_ns=-30))), name="p")
    assert spans(plan) == {"s": (0, 2), "a": (0, 6)}


def test_waits_for_a_start_are_met_while_a_meet_goes_on() -> None:
    # r0  mmmmmmmm     m0 starts at 0 and waits for m1; k waits for its start only
    # k   .kk
    # r1  bbbbbbmm
    there = Resource(rank=1, stream=7)
    plan = Plan.of(
        (
            op("m0", 2, meet=0),
            op("k", 2, Wait("m0", since="start", lag_ns=1), on=N),
            op("b", 6, on=there),
            op("m1", 2, meet=0, on=there),
        ),
        name="p",
    )
    assert spans(plan) == {"m0": (0, 8), "k": (1, 3), "b": (0, 6), "m1": (6, 8)}


def test_a_circle_of_starts_is_told_as_one() -> None:
    ops = (op("a", 1, Wait("b", since="start")), op("b", 1, Wait("a", since="start", lag_ns=-9), on=N))
    with pytest.raises(PlanError, match="'a' waits for 'b' to start"):
        check(Plan.of(ops, name="p"))


# --- a host thread ------------------------------------------------------------------------------------------------


def with_host() -> Plan:
    """Two launches, a call that waits for the first kernel, a third launch.

              0    5   10   15   20
    host      lll.lll|sssssssss|lll       s: cudaStreamSynchronize, 1 ns once k1 has ended at 13
    stream 7  ....kkkkkkkkk......
    """
    phase: dict[str, Any] = {"phase": "attn(F)", "layer": 0, "micro_batch": 1}
    return Plan.of(
        (
            op("l1", 3, on=HOST, kind="host"),
            op("l2", 3, on=HOST, kind="host"),
            replace(op("s", 1, Wait("k1", why="host"), on=HOST, kind="host"), name="cudaStreamSynchronize"),
            op("l3", 3, on=HOST, kind="host", phase="mlp(F)"),
            op("k1", 9, Wait("l1", lag_ns=1, why="launch"), **phase),
            op("k2", 2, Wait("l2", lag_ns=1, why="launch"), **phase),
            op("k3", 4, Wait("l3", lag_ns=1, why="launch"), layer=1),
        ),
        name="host",
    )


def test_kernels_wait_for_their_launch_and_calls_for_their_kernel() -> None:
    assert spans(with_host()) == {
        "l1": (0, 3), "l2": (3, 6), "s": (13, 14), "l3": (14, 17), "k1": (4, 13), "k2": (13, 15), "k3": (18, 22),
    }  # fmt: skip


def test_a_run_ahead_limit_is_a_wait_of_the_host_for_a_start() -> None:
    # at most 2 launches ahead: the third begins when the first kernel has
    ops = [op(f"l{i}", 1, on=HOST, kind="host") for i in range(4)]
    for i in (2, 3):
        ops[i] = replace(ops[i], after=(Wait(f"k{i - 2}", since="start", why="host"),))
    kernels = [op(f"k{i}", 10, Wait(f"l{i}", why="launch")) for i in range(4)]
    times = spans(Plan.of((*ops, *kernels), name="p"))
    assert [times[f"l{i}"][0] for i in range(4)] == [0, 1, 2, 11]


def test_the_trace_holds_the_plans_host_and_no_other() -> None:
    trace = simulate(with_host())
    assert trace.info["origin_ns"] == "0"  # no invented host runs ahead
    calls = trace.events.filter(is_launch()).sort("ts_ns")
    assert calls.select("name", "ts_ns", "dur_ns", "correlation").rows() == [
        ("l1", 0, 3, 1), ("l2", 3, 3, 2), ("cudaStreamSynchronize", 6, 8, None), ("l3", 14, 3, 4),
    ]  # fmt: skip
    assert set(calls["tid"]) == {"100"}
    kernels = trace.events.filter(on_device()).sort("ts_ns")
    assert kernels.select("ts_ns", "dur_ns", "correlation").rows() == [(4, 9, 1), (13, 2, 2), (18, 4, 4)]
    ranges = trace.events.filter(is_annotation())
    assert ranges.select("name", "ts_ns", "dur_ns", "layer", "micro_batch").rows() == [
        ("ProfilerStep#1", 0, 22, None, None), ("attn(F)", 0, 6, 0, 1), ("mlp(F)", 14, 3, None, None),
    ]  # fmt: skip


def test_a_thread_that_thinks_before_a_call_is_not_blocked_in_it() -> None:
    """What a thread does between two calls is a lag; only what comes after it is waiting.

              0    5   10   15
    host      lll....~~~~~s                s is reached at 7, 4 after l, and waits for k
    stream 7  ...kkkkkkkkk
    """
    think = Wait("l", lag_ns=4)
    plan = Plan.of(
        (
            op("l", 3, on=HOST, kind="host"),
            op("s", 1, think, Wait("k", why="host"), on=HOST, kind="host"),
            op("k", 9, Wait("l", why="launch")),
        ),
        name="p",
    )
    assert spans(plan)["s"] == (12, 13)
    calls = simulate(plan).events.filter(pl.col("name").cast(pl.String) == "s")
    assert calls.select("ts_ns", "dur_ns").rows() == [(7, 6)]
    assert drawn(timetable(plan)).splitlines()[-1] == "rank 0, host 100  |l-    |s~~~-"
    late = Plan.of((*plan.listed()[:1], replace(plan.op("s"), after=(Wait("l", lag_ns=40), Wait("k", why="host"))),
                    plan.op("k")), name="late")  # fmt: skip
    calls = simulate(late).events.filter(pl.col("name").cast(pl.String) == "s")
    assert calls.select("ts_ns", "dur_ns").rows() == [(43, 1)]  # k has long ended: it does not block at all


def test_analyses_find_the_host_wait_that_the_plan_has() -> None:
    slow = with_host().with_ops(duration_ns=pl.when(id="k2").then(50_000).otherwise(pl.col("duration_ns") * 100_000))
    rank = analyze_rank(work_of(simulate(slow)))
    # from k2's end, 50 us after k1's, to k3: the host left its call 100 us after k1, launched for 300 us, 1 ns of lag
    assert rank.breakdown.idle_ns == rank.idle.host_wait_ns == 350_001


def test_steps_are_ranges_of_the_host() -> None:
    plan = Plan.of((op(f"k{i}", 5, step=i // 2 + 3) for i in range(6)), name="p")
    ranges = simulate(plan).events.filter(is_annotation())
    assert ranges["name"].to_list() == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    ends = (ranges["ts_ns"] + ranges["dur_ns"]).to_list()
    assert ends[0] <= ranges["ts_ns"][1] and ends[1] <= ranges["ts_ns"][2]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_memory_held_over_time() -> None:
    # F takes 8 at its start; I frees 5 and W 3 at their end
    #        0    4    8    12   16
    # 7      F1   F2   I1   W1   I2   W2
    # bytes  8    16   16   11   8    3    0
    ops = [
        op(f"{kind}{n}", 4, start_bytes=8 if kind == "F" else 0, end_bytes={"F": 0, "I": -5, "W": -3}[kind])
        for kind, n in (("F", 1), ("F", 2), ("I", 1), ("W", 1), ("I", 2), ("W", 2))
    ]
    times = timetable(Plan.of(ops, name="p"))
    assert memory_curve(times, 0).rows() == [(0, 8), (4, 16), (12, 11), (16, 8), (20, 3), (24, 0)]
    assert memory_peaks(times).rows() == [(0, 16, 4)]
    with pytest.raises(PlanError, match="no op on rank 3"):
        memory_curve(times, 3)


def test_what_is_freed_and_taken_at_one_time_is_no_peak() -> None:
    ops = (op("a", 4, start_bytes=8, end_bytes=-8), op("b", 4, start_bytes=8, end_bytes=-8))
    assert memory_peaks(timetable(Plan.of(ops, name="p"))).rows() == [(0, 8, 0)]


def test_peaks_of_very_many_ranks_are_those_of_each_curve() -> None:
    num_ranks, num_ops = 3_000, 20_000
    rng = np.random.default_rng(7)
    rank = rng.integers(num_ranks, size=num_ops) * 3  # some ranks have one op, some many
    columns = {name: rng.integers(-5, 9, num_ops) for name in ("start_bytes", "end_bytes")}
    ops = pl.DataFrame({"name": ["a"] * num_ops, "rank": rank, "duration_ns": rng.integers(3, size=num_ops), **columns})
    times = timetable(Plan(name="p", ops=ops))
    peaks = memory_peaks(times)
    assert peaks["rank"].to_list() == sorted(set(rank.tolist()))
    for at, peak, when in peaks.sample(100, seed=1).select("rank", "peak_bytes", "at_ns").rows():
        curve = memory_curve(times, at)
        held = curve["bytes"].to_list()
        assert peak == max([0, *held])
        assert when == (curve["time_ns"][held.index(peak)] if peak > 0 else 0)


def test_memory_that_no_integer_holds_is_refused() -> None:
    times = timetable(Plan(name="p", ops=pl.DataFrame({"name": ["a"] * 3, "start_bytes": [1 << 62] * 3})))
    with pytest.raises(PlanError, match="too large to be added up"):
        memory_curve(times, 0)
    with pytest.raises(PlanError, match="too large to be added up"):
        memory_peaks(times)


# --- drawn ------------------------------------------------------------------------------------------------------------


def test_a_timetable_is_drawn_to_the_cell() -> None:
    assert drawn(timetable(meeting())).splitlines() == [
        "time       0         10 ns",
        "rank 0, 7  |a-|x0~-----|e",
        "rank 1, 7  |b-----|x1---|",
    ]
    assert drawn(timetable(with_host())).splitlines() == [
        "time              0         10 ns     20 ns",
        "rank 0, 7             |k1------|k   |k3-",
        "rank 0, host 100  |l1|l2|s~~~~~-|l3",
    ]


def test_names_that_are_wide_or_break_lines_keep_the_lanes_in_line() -> None:
    times = timetable(Plan.of((op("注意力", 9), op("注意", 4), op("a\nb\x1b[1m", 9)), name="p"))
    assert drawn(times).splitlines()[1:] == ["rank 0, 7  |注意力--|注-|a?b?[1m-"]


def test_a_drawing_keeps_to_its_width() -> None:
    times = timetable(meeting().with_ops(duration_ns=pl.col("duration_ns") * 1_000_003))
    for width in (30, 80, 200):
        assert 0.4 * width < max(map(len, drawn(times, width).splitlines())) <= width
    with pytest.raises(PlanError, match="a drawing needs 21 columns, and has 20"):
        drawn(times, 20)
    many = Plan.of((op(f"a{i}", 1, on=Resource(stream=i)) for i in range(201)), name="many")
    with pytest.raises(PlanError, match="201 streams"):
        drawn(timetable(many))


# --- a plan as columns ------------------------------------------------------------------------------------------------


def test_a_what_if_is_one_expression() -> None:
    faster = meeting().with_ops(
        duration_ns=pl.when(kind="communication").then(pl.col("duration_ns") * 0.7).otherwise("duration_ns")
    )
    assert faster.ops["duration_ns"].to_list() == [3, 4, 2, 7, 4, 1]  # 3.5 and 4.2 are rounded to whole nanoseconds
    assert meeting().ops["duration_ns"].to_list() == [3, 5, 2, 7, 6, 1]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"duration_ns": pl.col("duration_ns") / 0}, "duration_ns"),
        ({"duration_ns": pl.col("duration")}, 'unable to find column "duration"'),
        ({"duration_ns": pl.Series([1, 2])}, "length 2"),
        ({"dur_ns": 1.5}, "unknown column 'dur_ns'"),
    ],
)
def test_a_what_if_that_cannot_be_says_why(columns: dict[str, Any], expected: str) -> None:
    with pytest.raises(PlanError) as summary:
        meeting().with_ops(**columns)
    assert expected in str(summary.value)


def test_ops_by_row_and_by_id() -> None:
    plan = with_host()
    assert plan.op("k1") == plan.op(4) == plan.listed()[4]
    assert Plan.of(plan.listed(), name="host") == plan
    with pytest.raises(PlanError, match="Did you mean 'k1'"):
        plan.op("k1x")
    with pytest.raises(PlanError, match="no op number 7"):
        plan.op(7)


def test_a_plan_from_frames_needs_no_more_than_it_says() -> None:
    plan = Plan(
        name="p",
        ops=pl.DataFrame({"name": ["a", "b"], "duration_ns": [3, 4], "stream": [0, 1]}),
        waits=pl.DataFrame({"op": [1], "on": [0]}),
    )
    assert timetable(plan).end_ns.tolist() == [3, 7]
    assert plan.label(1) == "'b' (rank 0, row 1)"
    assert longest_chain(plan).path["name"].to_list() == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"name": ["a"], "duration": [3]}, "unknown column 'duration'; the columns are id, name"),
        ({"name": ["a"], "duration_ns": [3.5]}, r"column 'duration_ns' is Float64, and should be Int64. Round it"),
        ({"duration_ns": [3]}, "column 'name' is missing"),
        ({"name": ["a"], "kind": ["compile"]}, "compile"),
        ({"name": [None]}, "1 row has no name"),
        ({"name": ["a"], "rank": [1 << 40]}, "rank = 1099511627776 in row 0; it must be a number that fits Int32"),
    ],
)
def test_frames_that_are_no_plan(columns: dict[str, list[object]], expected: str) -> None:
    with pytest.raises(PlanError) as caught:
        Plan(name="p", ops=pl.DataFrame(columns))
    assert expected in str(caught.value)


def test_waits_for_rows_that_are_not_there() -> None:
    with pytest.raises(PlanError, match="a wait has on = 1, but its ops are numbered 0 to 0"):
        Plan(name="p", ops=pl.DataFrame({"name": ["a"]}), waits=pl.DataFrame({"op": [0], "on": [1]}))
    with pytest.raises(PlanError, match="a wait has op = 0, but it has no ops"):
        Plan(name="p", ops=pl.DataFrame(), waits=pl.DataFrame({"op": [0], "on": [0]}))
    shorter = with_host().ops.head(4)
    with pytest.raises(PlanError, match="a wait has op = 6"):
        replace(with_host(), ops=shorter)
