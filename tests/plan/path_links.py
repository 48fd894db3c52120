"""Is a critical path made of a plan's own constraints, link by link, and does it add up?"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import polars as pl

from tests.plan.random_plans import Frames
from weftrace.plan import Timetable


def check_path(frames: Frames, times: Timetable, path: pl.DataFrame) -> None:
    """Of the plan's own waits, meets and streams, each of them tight; and the parts and lags are the makespan."""
    steps = path.to_dicts()
    lasted = sum(step["until_ns"] - step["from_ns"] for step in steps)
    assert lasted + sum(step["lag_ns"] for step in steps) == times.makespan_ns
    assert steps[-1]["until_ns"] == times.end_ns[steps[-1]["op"]] == times.makespan_ns
    first = steps[0]
    assert (first["reason"], first["cause"], first["from_ns"], first["lag_ns"]) == ("start", None, 0, 0)
    for step in steps:
        row = step["op"]
        assert (step["start_ns"], step["end_ns"]) == (times.start_ns[row], times.end_ns[row])
        assert step["reason"] == "meet" or step["from_ns"] == step["start_ns"]
        for column in ("id", "name", "kind", "phase", "rank", "stream"):
            assert step[column] == frames.ops[column][row]
    for before, step in pairwise(steps):
        assert step["cause"] == before["op"]
        assert any(
            is_link(frames, times, before, step, since, lag_ns) for since, lag_ns in constraints_between(frames, step)
        ), (before, step)


def constraints_between(frames: Frames, step: dict[str, Any]) -> list[tuple[str, int]]:
    """What the plan says about a step and its cause, of the kind that the step names: (since its start or end, lag)."""
    row, on = step["op"], step["cause"]
    if step["reason"] == "dependency":
        waits = [wait for wait in frames.waits.iter_rows() if wait[:2] == (row, on)]
        return [(since, lag_ns) for *_, since, lag_ns, why in waits if why == step["why"]]
    if step["reason"] == "resource":
        lanes = frames.ops.select("rank", "stream").rows()
        is_next = on == max(i for i in range(row) if lanes[i] == lanes[row])
        return [("end", frames.gap_ns)] if is_next else []
    meets = frames.ops["meet"]
    met = step["reason"] == "meet" and row != on and None is not meets[row] == meets[on]
    return [("start", 0)] if met else []


def is_link(
    frames: Frames, times: Timetable, before: dict[str, Any], step: dict[str, Any], since: str, lag_ns: int
) -> bool:
    """Whether a constraint is tight, and the parts of both steps are what it makes of them.

    A negative lag takes away from the part of the step before. A step that met others has their last start, and its
    own end; another that is left at its end has all its time on the path.
    """
    on = before["op"]
    moment_ns = before["start_ns"] if since == "start" else before["end_ns"]
    reaches = step["from_ns"] == moment_ns + lag_ns
    if step["reason"] == "meet":
        reaches &= step["end_ns"] == moment_ns + hold_ns(frames, step["op"])
    if since == "start":
        is_left = before["reason"] != "meet"
    else:
        is_left = before["from_ns"] + hold_ns(frames, on) == times.end_ns[on]
    parts = (before["until_ns"], step["lag_ns"]) == (moment_ns + min(lag_ns, 0), max(lag_ns, 0))
    return bool(reaches and is_left and parts)


def hold_ns(frames: Frames, row: int) -> int:
    op = frames.ops.row(row, named=True)
    return int(op["duration_ns"] + (op["num_kernels"] - 1) * frames.gap_ns)
