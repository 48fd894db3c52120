"""The engine against the definition, on random plans with everything that a plan can hold.

The definition is that of docs/plan.md, as `bellman_ford` writes it down. Each run tries other plans: a failure names
its case, and WEFTRACE_FUZZ_SEED brings it again; WEFTRACE_FUZZ_CASES says how many (`make fuzz`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import polars as pl
import pytest

from tests.fuzz import for_each_case
from tests.plan.bellman_ford import Constraints, constraints_of, has_circle, in_circles, relaxed
from tests.plan.path_links import check_path
from tests.plan.random_plans import NUM_SMS, OPS_SCHEMA, WAITS_SCHEMA, Frames, random_plan, reordered
from weftrace.errors import PlanError
from weftrace.plan import (
    Plan,
    Timetable,
    critical_path,
    from_json,
    load_parquet,
    longest_chain,
    memory_curve,
    memory_peaks,
    save_parquet,
    slack_ns,
    timetable,
    to_json,
    trace_of,
)
from weftrace.plan.graph import graph_of, latest_start_ns, run
from weftrace.trace.model import on_device as is_on_device

# Shares of the cases of a run, `tests.fuzz.fuzz_cases`.
PLANS, PATHS, SMALL, SOME = 1_000 / 1_200, 150 / 1_200, 150 / 1_200, 60 / 1_200


def written(ops: list[dict[str, object]], waits: list[tuple[object, ...]]) -> tuple[pl.DataFrame, pl.DataFrame]:
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
    ops, waits = written(
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
    ops, waits = written(
        [{}, {"stream": 8}, {"stream": 9}], [(0, 1, "start", -50), (1, 0, "start", 20), (2, 0, "end", 0)]
    )
    constraints = constraints_of(ops, waits, gap_ns=0)
    assert has_circle(constraints)
    assert in_circles(constraints, range(3)) == [0, 1]
    assert not has_circle(constraints_of(ops, waits[1:], gap_ns=0))
    # two members of a meet on one stream: the first's end waits for the second's start, which waits for that end
    ops, waits = written([{"meet": 1}, {"meet": 1}], [])
    assert in_circles(constraints_of(ops, waits, gap_ns=0), range(2)) == [0, 1]


def as_plan(frames: Frames) -> Plan:
    return Plan(name="p", ops=frames.ops, waits=frames.waits, gap_ns=frames.gap_ns, num_sms=NUM_SMS)


def constraints(frames: Frames, *, in_streams: bool = True) -> Constraints:
    return constraints_of(frames.ops, frames.waits, frames.gap_ns, in_streams=in_streams)


def able_plan(seed: str, most_moments: int = 30) -> Frames:
    """The plan of a seed, or of the first seed made of it whose plan can run."""
    number = 0
    while has_circle(constraints(frames := random_plan(f"{seed}/{number}", most_moments))):
        number += 1
    return frames


def as_lists(times: Timetable) -> tuple[list[int], list[int]]:
    return times.start_ns.tolist(), times.end_ns.tolist()


@pytest.mark.parametrize("block", range(2))
def test_times_and_deadlocks_are_those_of_the_constraints(block: int) -> None:
    def case(seed: str) -> None:
        check_times(random_plan(seed))

    for_each_case(case, share=PLANS, block=block, num_blocks=2)


def test_times_and_deadlocks_of_large_plans() -> None:
    for_each_case(lambda seed: check_times(random_plan(seed, 3_000)), share=4 / 1_200)


def check_times(frames: Frames) -> None:
    """The engine's times are the oracle's; or neither has any, and each op that the error names is in a circle."""
    plan, expected = as_plan(frames), constraints(frames)
    graph = graph_of(plan)
    if not has_circle(expected):
        times = relaxed(expected)
        for compiled in (False, True):
            result = run(graph, compiled=compiled)
            assert (result.start_ns.tolist(), result.end_ns.tolist()) == times, f"compiled={compiled}"
        return
    for compiled in (False, True):
        with pytest.raises(PlanError, match="circle") as summary:
            run(graph, compiled=compiled)
        named = [row for row in range(len(plan)) if plan.label(row) in str(summary.value)]
        assert named, str(summary.value)
        assert in_circles(expected, named) == named, str(summary.value)


def test_rows_may_stand_in_any_order_that_keeps_the_streams() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed)
        times = timetable(as_plan(frames))
        others, old_of_new = reordered(frames, Random(seed))
        again = timetable(as_plan(others))
        assert again.start_ns.tolist() == times.start_ns[old_of_new].tolist()
        assert again.end_ns.tolist() == times.end_ns[old_of_new].tolist()

    for_each_case(case, share=SOME)


def test_what_takes_longer_or_is_needed_earlier_never_ends_sooner() -> None:
    def case(seed: str) -> None:
        frames, chance = able_plan(seed), Random(seed)
        times = timetable(as_plan(frames))
        longer = pl.Series([chance.choice((0, 0, 1, 7)) for _ in range(len(frames.ops))])
        later = pl.Series([chance.choice((0, 0, 1, 7)) for _ in range(len(frames.waits))], dtype=pl.Int64)
        slower = as_plan(
            Frames(
                ops=frames.ops.with_columns(pl.col("duration_ns") + longer),
                waits=frames.waits.with_columns(pl.col("lag_ns") + later),
                gap_ns=frames.gap_ns + chance.choice((0, 1)),
                spoilt="",
            )
        )
        assert (timetable(slower).start_ns >= times.start_ns).all()
        assert (timetable(slower).end_ns >= times.end_ns).all()

    for_each_case(case, share=SOME)


def test_critical_path_is_made_of_constraints_that_hold_exactly_and_adds_up() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed)
        times = timetable(as_plan(frames))
        check_path(frames, times, critical_path(times))

    for_each_case(case, share=PATHS)


def test_slack_is_the_longest_delay_that_does_not_move_the_end() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed, most_moments=6)
        times, expected = timetable(as_plan(frames)), constraints(frames)
        slack = slack_ns(times).tolist()
        for row, start_ns in enumerate(times.start_ns.tolist()):
            assert max(relaxed(expected, {row: start_ns + slack[row]})[1]) == times.makespan_ns
            assert max(relaxed(expected, {row: start_ns + slack[row] + 1})[1]) > times.makespan_ns

    for_each_case(case, share=SMALL)


def test_compiled_code_groups_and_goes_back_as_interpreted_code_does() -> None:
    def case(seed: str) -> None:
        graph = graph_of(as_plan(able_plan(seed)))
        slow, fast = (latest_start_ns(graph, run(graph, recorded=True, compiled=c), compiled=c) for c in (False, True))
        assert slow.tolist() == fast.tolist()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("weftrace.plan.graph.INTERPRETED", -1)
            again = graph_of(graph.plan)
        for name in ("queue_first", "queue_ops", "meet_first", "meet_ops"):
            assert getattr(again, name).tolist() == getattr(graph, name).tolist()

    for_each_case(case, share=SOME)


def test_longest_chain_is_the_plan_with_a_stream_for_every_op() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed)
        plan, ends_ns = as_plan(frames), relaxed(constraints(frames, in_streams=False))[1]
        chain = longest_chain(plan)
        assert chain.length_ns == max(ends_ns) <= timetable(plan).makespan_ns
        assert "resource" not in chain.path["reason"]
        assert chain.path.select(pl.sum("until_ns") - pl.sum("from_ns") + pl.sum("lag_ns")).item() == chain.length_ns

    for_each_case(case, share=SOME)


def held_bytes(frames: Frames, times: Timetable, rank: int) -> dict[int, int]:
    """What a rank holds after everything that happens at each time at which its ops start or end, op by op."""
    columns = [frames.ops[name].to_list() for name in ("rank", "start_bytes", "end_bytes")]
    ops = [(start, end, a, b) for start, end, of, a, b in zip(*as_lists(times), *columns, strict=True) if of == rank]
    moments = sorted({op[0] for op in ops} | {op[1] for op in ops})
    return {
        now: sum(a for start, _, a, _ in ops if start <= now) + sum(b for _, end, _, b in ops if end <= now)
        for now in moments
    }


def test_memory_is_the_sum_of_what_has_started_and_ended() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed, most_moments=12)
        times = timetable(as_plan(frames))
        peaks = {rank: (peak, at_ns) for rank, peak, at_ns in memory_peaks(times).iter_rows()}
        assert list(peaks) == sorted(set(frames.ops["rank"]))
        for rank, (peak, at_ns) in peaks.items():
            expected = held_bytes(frames, times, rank)
            curve = list(memory_curve(times, rank).iter_rows())
            assert [ns for ns, _ in curve] == sorted({ns for ns, _ in curve})
            for now, num_bytes in expected.items():
                assert [0, *(after for ns, after in curve if ns <= now)][-1] == num_bytes
            assert all(num_bytes == expected[ns] for ns, num_bytes in curve)
            assert peak == max(0, *expected.values())
            assert at_ns == min([0] * (peak == 0) + [ns for ns, num_bytes in expected.items() if num_bytes == peak])

    for_each_case(case, share=SOME)


def test_traces_show_the_times() -> None:
    def case(seed: str) -> None:
        frames = able_plan(seed, most_moments=8)
        times = timetable(as_plan(replace(frames, ops=frames.ops.with_columns(num_kernels=1))))
        on_device = times.ops.filter(pl.col("kind") != "host").select("rank", "stream", "start_ns", "end_ns")
        shown: list[tuple[int, ...]] = []
        for rank in times.plan.ranks:
            trace = trace_of(times, rank)
            events = trace.events.filter(is_on_device()).select(
                "stream", start_ns=pl.col("ts_ns") - int(trace.info["origin_ns"]), dur_ns="dur_ns"
            )
            shown += [(rank, stream, start, start + dur) for stream, start, dur in events.iter_rows()]
        assert sorted(shown) == sorted(on_device.rows())

    for_each_case(case, share=SOME)


def test_documents_bring_a_plan_back(tmp_path: Path) -> None:
    def case(seed: str) -> None:
        plan = as_plan(random_plan(seed))
        assert from_json(to_json(plan)) == plan
        save_parquet(plan, tmp_path / "plan.parquet")
        assert load_parquet(tmp_path / "plan.parquet") == plan

    for_each_case(case, share=SOME)
