"""What a generator is given, looked at before it begins."""

from __future__ import annotations

from weftrace.errors import ScheduleError

#: What a frame of actions can number.
_LIMIT = 2**31


def need_counts(name: str, **counts: object) -> None:
    """Raise `ScheduleError` where one of the counts is no whole number above 0. name: the schedule's, for the error."""
    for what, value in counts.items():
        if type(value) is not int or not 0 < value < _LIMIT:
            raise ScheduleError(f"{name}: {what} = {value!r}; it must be a whole number above 0.")


def need_several_stages(name: str, stages_per_rank: int, instead: str) -> None:
    """Raise `ScheduleError` where a rank would hold a single stage. instead: what that schedule is called."""
    if stages_per_rank < 2:
        raise ScheduleError(
            f"{name}: stages_per_rank = {stages_per_rank}; it goes through each rank twice or more often. "
            f"With one stage a rank it is {instead}."
        )
