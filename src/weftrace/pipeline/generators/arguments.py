"""What a generator is given, looked at before it begins."""

from __future__ import annotations

from typing import Any

from weftrace.errors import ScheduleError
from weftrace.pipeline.schedule import needed_count
from weftrace.units import whole

#: Chunks of a schedule, at most: some 10 GB of actions. 1,024 ranks x 4,096 micro-batches x 2 stages are 8 million.
_MOST = 2**28


def need_counts(name: str, **counts: Any) -> None:
    """Raise `ScheduleError` where one of the counts is no whole number above 0, or where together they are too many.

    name: the schedule's, for the error.
    """
    chunks = 1
    for what, value in counts.items():
        chunks *= needed_count(name, what, value)
    if chunks > _MOST:
        summary = " x ".join(map(whole, counts.values()))
        raise ScheduleError(f"{name}: {summary} chunks are more than the {_MOST:,} that can be made.")


def need_several_stages(name: str, stages_per_rank: int, instead: str) -> None:
    """Raise `ScheduleError` where a rank would hold a single stage. instead: what that schedule is called."""
    if stages_per_rank < 2:
        raise ScheduleError(
            f"{name}: stages_per_rank = {stages_per_rank}; it goes through each rank twice or more often. "
            f"With one stage per rank it is {instead}."
        )
