"""Critical paths and changes on random plans, against the definition of when ops run (`tests.plan.bellman_ford`)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import polars as pl
import pytest

from tests.advice.made import random_inferred
from tests.fuzz import for_each_case
from tests.plan.bellman_ford import Constraints, constraints_of, relaxed
from tests.plan.random_plans import Frames
from weftrace.advice.changed_plans import changed, draft_of, plan_of
from weftrace.advice.changes import NoHostGaps, PerfectOverlap, Scale
from weftrace.advice.critical_paths import CriticalPath, critical_path_of, path_of
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatifs import what_if
from weftrace.errors import AdviceError
from weftrace.plan import timetable

PLANS, PATHS = 200 / 1_200, 100 / 1_200
SOME = 30 / 1_200


def constraints(frames: Frames) -> Constraints:
    return constraints_of(frames.ops, frames.waits, frames.gap_ns)


def on_device(frames: Frames) -> np.ndarray:
    return (frames.ops.get_column("kind") != "host").to_numpy()


def test_the_parts_of_a_path_lie_end_to_end_over_the_span_of_the_longest_path() -> None:
    def case(seed: str) -> None:
        frames, inferred = random_inferred(seed)
        start, end = (np.array(times)[on_device(frames)] for times in relaxed(constraints(frames)))
        path = critical_path_of(inferred)
        assert path.span_ns == end.max() - start.min()
        check_parts(path)

    for_each_case(case, share=PATHS)


def check_parts(path: CriticalPath) -> None:
    parts = path.parts.select("from_ns", "until_ns").rows()
    assert all(one[1] == other[0] for one, other in pairwise(parts))
    assert sum(until - begin for begin, until in parts) == path.span_ns
    assert all(until > begin for begin, until in parts)
    for each in (path.by_class, path.by_phase, path.by_family, path.by_kernel, path.by_cause, path.by_rank):
        assert each.get_column("time_ns").sum() == path.span_ns
        assert each.get_column("share").sum() == pytest.approx(1 if path.span_ns else 0)


def test_an_op_can_start_later_by_its_slack_and_not_a_moment_more() -> None:
    def case(seed: str) -> None:
        frames, inferred = random_inferred(seed, 12)
        rules, device, chance = constraints(frames), on_device(frames), Random(seed)
        start, end = (np.array(times) for times in relaxed(rules))
        slack = critical_path_of(inferred).slack_ns
        last, makespan = end[device].max(), end.max()
        for op in chance.sample(range(len(frames.ops)), min(6, len(frames.ops))):
            for more in (0, 1):
                later = np.array(relaxed(rules, {op: int(start[op] + slack[op]) + more})[1])
                is_later = later[device].max() > last or later.max() > makespan
                assert is_later == bool(more), (op, more)

    for_each_case(case, share=SOME)


def test_a_scaled_plan_is_the_plan_with_its_durations_scaled() -> None:
    def case(seed: str) -> None:
        _, inferred = random_inferred(seed)
        kind = Random(seed).choice(["compute", "communication", "memory"])
        if not (inferred.plan.ops.get_column("kind") == kind).any():
            return
        factor = Random(seed).choice([0, 0.5, 0.9, 1.25, 3])
        duration = pl.col("duration_ns")
        own = inferred.plan.with_ops(duration_ns=pl.when(kind=kind).then(duration * factor).otherwise(duration))
        given = timetable(changed(inferred, [Scale(selector=kind, factor=factor)]).plan)
        assert given.start_ns.tolist() == timetable(own).start_ns.tolist()
        assert given.end_ns.tolist() == timetable(own).end_ns.tolist()

    for_each_case(case, share=PLANS)


def test_threads_held_by_waits_run_as_they_did_on_their_streams() -> None:
    def case(seed: str) -> None:
        _, inferred = random_inferred(seed)
        if not inferred.measured.get_column("what").is_in(("host", "launch")).any():
            return
        change = Scale(selector="host" if (inferred.measured["what"] == "host").any() else "launch", factor=1)
        after = changed(inferred, [change])
        times = timetable(after.plan)
        assert times.start_ns.tolist() == inferred.times.start_ns.tolist()
        assert times.end_ns.tolist() == inferred.times.end_ns.tolist()
        check_parts(path_of(times, after.measured, after.edges))

    for_each_case(case, share=SOME)


def test_no_change_changes_nothing() -> None:
    _, inferred = random_inferred("nothing")
    assert plan_of(draft_of(inferred), "").plan == inferred.plan


def test_what_only_takes_away_never_makes_a_plan_longer_and_overlap_ends_no_sooner_than_its_longest_stream() -> None:
    def case(seed: str) -> None:
        frames, inferred = random_inferred(seed)
        _, end = (np.array(times)[on_device(frames)] for times in relaxed(constraints(frames)))
        for change in (PerfectOverlap(), NoHostGaps()):
            try:
                after = changed(inferred, [change])
            except AdviceError:  # no host thread, or nothing to overlap
                continue
            times = timetable(after.plan)
            assert times.end_ns[on_device(frames)].max() <= end.max()
            busy = frames.ops.filter(pl.col("kind") != "host").group_by(
                "rank", "stream", pl.col("kind") == "communication"
            ).agg(pl.col("duration_ns").sum())  # fmt: skip
            assert times.end_ns[on_device(frames)].max() >= busy.get_column("duration_ns").max()

    for_each_case(case, share=SOME)


def test_a_waterfall_adds_up_to_the_measured_span() -> None:
    def case(seed: str) -> None:
        _, inferred = random_inferred(seed)
        found = waterfall(inferred)
        assert found.bars.get_column("time_ns").sum() == inferred.replay.span_ns
        alone = found.bars.filter(pl.col("name") != "replay error").get_column("alone_ns")
        assert alone.null_count() == 0

    for_each_case(case, share=SOME)


def test_what_a_what_if_saves_is_what_its_two_paths_differ_by() -> None:
    def case(seed: str) -> None:
        _, inferred = random_inferred(seed)
        if not (inferred.plan.ops.get_column("kind") == "compute").any():
            return
        answer = what_if(inferred, [Scale(selector="compute", factor=0.5)])
        assert answer.saved_ns == answer.before.span_ns - answer.after.span_ns
        assert answer.replayed_ns == answer.before.span_ns
        check_parts(answer.after)

    for_each_case(case, share=SOME)
