"""Can a schedule run, and does it do all the work once?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError, ScheduleError
from weftrace.pipeline.dependencies import chunk_rows, messages
from weftrace.pipeline.notation import written
from weftrace.pipeline.schedule import Schedule, need_schedule
from weftrace.plan import Plan
from weftrace.plan import check as check_plan

_LETTERS: Final[tuple[Literal["F", "I", "W"], ...]] = ("F", "I", "W")
_WORDS = {"F": "forward", "I": "backward (input gradient)", "W": "weight gradient"}


@dataclass(frozen=True, slots=True)
class _Part:
    """One part of the work, F, I or W: where each chunk of it is.

    row, count: row of the action that does it, and how many do, [stages x micro-batches].
    """

    letter: str
    row: NDArray[np.int64]
    count: NDArray[np.int64]


def check(schedule: Schedule) -> None:
    """Raise `ScheduleError`, saying which action, where a schedule is wrong.

    Checked: each micro-batch has on every stage one forward and one backward (B, or I and W; a schedule without any
    backward is a forward-only one), all in one replica; F comes before I, and I before W; slices of a sequence go
    forward in their order and backward against it, in one replica; and no ranks wait for each other in a circle, which
    is printed.
    """
    check_work(schedule)
    _check_circles(schedule)


def check_work(schedule: Schedule) -> None:
    """Everything that `check` looks at but circles, which the engine finds where the schedule is simulated next."""
    need_schedule(schedule)
    of = f"schedule {schedule.name!r}"
    has_backward = (schedule.actions.get_column("kind") != "F").any()
    parts = [_part(schedule, letter) for letter in _LETTERS[: 3 if has_backward else 1]]
    for part in parts:
        _check_once(schedule, part, of)
    _check_replicas(schedule, parts, of)
    for before, after in pairwise(parts):
        _check_order(schedule, before, after, of)
    if schedule.num_slices > 1:
        _check_slices(schedule, parts[:2], of)


def _part(schedule: Schedule, letter: Literal["F", "I", "W"]) -> _Part:
    row, count = chunk_rows(schedule, letter)
    return _Part(letter, row.reshape(-1), count.reshape(-1))


def _check_once(schedule: Schedule, part: _Part, of: str) -> None:
    wrong = np.flatnonzero(part.count != 1)
    if not len(wrong):
        return
    stage, micro_batch = divmod(int(wrong[0]), schedule.num_micro_batches)
    times = int(part.count[wrong[0]])
    state = "missing" if not times else f"done {times} times"
    more = f" So {'is' if len(wrong) == 2 else 'are'} {len(wrong) - 1:,} more." if len(wrong) > 1 else ""
    if more and len({int(count) for count in part.count[wrong]}) > 1:
        more = f" {len(wrong) - 1:,} more {'is' if len(wrong) == 2 else 'are'} missing, or done more than once."
    raise ScheduleError(
        f"{of}: the {_WORDS[part.letter]} of micro-batch {micro_batch} on stage {stage} is {state}.{more}"
    )


def _check_replicas(schedule: Schedule, parts: list[_Part], of: str) -> None:
    """A micro-batch stays in the replica in which stage 0 began it."""
    if schedule.num_replicas == 1:  # a schedule's actions are on ranks that hold their stages
        return
    replica_of = schedule.replica_of_rank_stage
    rank = schedule.rank_N
    num = schedule.num_micro_batches
    stage = np.repeat(np.arange(schedule.num_stages), num)
    home = replica_of[rank[parts[0].row[:num]], 0]
    for part in parts:
        replica = replica_of[rank[part.row], stage]
        if len(astray := np.flatnonzero(replica != np.tile(home, schedule.num_stages))):
            first = int(astray[0])
            raise ScheduleError(
                f"{of}: {_named(schedule, part.row[first])} is in replica {replica[first]}, but micro-batch "
                f"{first % num} began in replica {home[first % num]}; a micro-batch stays in one."
            )


def _check_order(schedule: Schedule, before: _Part, after: _Part, of: str) -> None:
    same = before.row == after.row  # a full backward is I and W at once
    if len(late := np.flatnonzero((before.row > after.row) | (same & (before.letter == "F")))):
        first, then = before.row[late[0]], after.row[late[0]]
        raise ScheduleError(f"{of}: {_named(schedule, then)} comes before {_named(schedule, first)}, which it needs.")


def _check_slices(schedule: Schedule, parts: list[_Part], of: str) -> None:
    rank = schedule.rank_N
    first_stage = parts[0].row[: schedule.num_micro_batches].reshape(-1, schedule.num_slices)
    if len(apart := np.argwhere(rank[first_stage] != rank[first_stage[:, :1]])):
        sequence, i = apart[0]
        raise ScheduleError(
            f"{of}: {_named(schedule, first_stage[sequence, i])} is in another replica than "
            f"{_named(schedule, first_stage[sequence, 0])}; the slices of a sequence stay in one."
        )
    for part in parts:
        of_sequence = part.row.reshape(-1, schedule.num_slices)
        steps = np.diff(of_sequence, axis=1) * (1 if part.letter == "F" else -1)
        if len(wrong := np.argwhere(steps <= 0)):
            sequence, i = wrong[0]
            pair = of_sequence[sequence, i : i + 2][:: -1 if part.letter == "F" else 1]
            raise ScheduleError(
                f"{of}: {_named(schedule, pair[0])} comes before {_named(schedule, pair[1])}; the slices of a sequence "
                f"go {'forward in their order' if part.letter == 'F' else 'backward from the last to the first'}."
            )


def _check_circles(schedule: Schedule) -> None:
    """Circles are searched by the engine of plans; labels, which cost memory, are made once there is one."""
    waits = messages(schedule).select("op", "on")
    ops = schedule.actions.select(name=pl.lit("action"), rank="rank")
    try:
        check_plan(Plan(name=schedule.name, ops=ops, waits=waits))
    except PlanError:
        named = ops.with_columns(id=pl.format("{} on rank {}", written(schedule.actions), "rank"))
        try:
            check_plan(Plan(name=schedule.name, ops=named, waits=waits))
        except PlanError as error:
            lines = [line.partition(" (rank")[0] for line in str(error).splitlines()[1:-1]]  # each names its rank
            raise ScheduleError(
                f"schedule {schedule.name!r} cannot run: actions wait for each other in a circle.\n" + "\n".join(lines)
            ) from None
        raise


def _named(schedule: Schedule, row: np.int64 | int) -> str:
    action = schedule.action(int(row))
    return f"{action} on rank {action.rank}"
