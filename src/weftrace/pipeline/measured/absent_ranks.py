"""Does each rank of a pipeline have a trace? The job's size, process groups, stage numbers and waits tell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from weftrace.units import listed

_A_WAIT: Final = 0.1  # of the median of such actions: a shorter one is a call that returns at once
MOST_NAMED: Final = 8  # of ranks or stages that have no trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What has no trace.

    sentence: which ranks, and how it is known. takes_part: whether one of them certainly is of this pipeline; else they
        may be copies of it. num_stages: of the whole pipeline; None where that is not known.
    """

    sentence: str
    takes_part: bool
    num_stages: int | None = None


def absence(
    actions: pl.DataFrame,
    ranks: Sequence[int | None],
    *,
    traced: Collection[int | None],
    world_size: int | None,
    group: Sequence[int],
) -> Absence | None:
    """The ranks of one pipeline that have no trace; None where all have, or nothing tells of others.

    actions: frame of `runs.RUN_SCHEMA`, stage null where ranges tell none. ranks: of its traces, as the job numbers
    them. traced: those of all traces. world_size: of the job. group: among which they send; empty where not known.
    """
    world = list(range(world_size or 0))
    if None in traced or not set(traced) <= set(world):
        world = []
    is_group = bool(group) and list(group) != world  # of the whole job: other parallelism may use it too
    expected = list(group) if is_group else world
    lacking = [rank for rank in expected if rank not in traced]
    if expected and not lacking:
        return None
    by_order = bool(actions.get_column("stage").null_count())
    first, last = _ends(actions)
    waits = (_waits_first(actions, first, ("F",)), _waits_first(actions, last, ("B", "I")))
    top = int(last[1]) if last[0] == "stage" else len(ranks) - 1
    unseen = [] if by_order else sorted(set(range(top + 1)) - _stages(actions))
    if is_group:
        why = f"it sends and receives among ranks {listed(group, most=MOST_NAMED)}"
    elif unseen:
        why = f"no trace has stage {listed(unseen, conjunction='or', most=MOST_NAMED)}"
    elif by_order and waits[0]:
        why = "the first forward of the first rank that has one waits for a stage before it"
    elif waits[1]:
        whose = "the last rank that has one" if by_order else f"stage {top}, the highest seen,"
        why = f"the first backward of {whose} waits for a later stage"
    elif world and len(world) % len(ranks):
        why = f"{len(ranks)} are no whole pipeline of such a job"
    else:
        return _others(lacking, world) if lacking else None
    of = f" of the job's {len(world)}" if world else ""
    who = (
        f"{_named(lacking)}{of} {'has' if len(lacking) == 1 else 'have'} no trace" if lacking else "a trace is missing"
    )
    held = 1 if by_order else _held(actions)
    sizes = [len(group)] if is_group else [
        size for size in range(len(ranks) + 1, len(world) + 1)
        if len(world) % size == 0 and size * held >= top + 1 + waits[1]
    ]  # fmt: skip
    part = "at least one takes part" if len(lacking) > 1 else "takes part" if lacking else "its rank takes part"
    return Absence(
        sentence=f"{who}, but {part} in the pipeline: {why}",
        takes_part=True,
        num_stages=sizes[0] * held if len(sizes) == 1 else None,
    )


def _others(lacking: Sequence[int], world: Sequence[int]) -> Absence:
    have, whose = ("have", "copies or parts") if len(lacking) > 1 else ("has", "a copy or part")
    who = f"{_named(lacking)} of the job's {len(world)} {have} no trace"
    return Absence(sentence=f"{who}: taken as {whose} of these", takes_part=False)


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {listed(ranks, most=MOST_NAMED)}"


def _stages(actions: pl.DataFrame) -> set[int]:
    both = pl.concat([actions.get_column("stage"), actions.get_column("back_stage")]).drop_nulls()
    return set(both.to_list())


def _held(actions: pl.DataFrame) -> int:
    """Stages of a rank; 1 where each is on two ranks, as in bidirectional schedules."""
    places = actions.select("rank", "stage").unique()
    if places.get_column("stage").is_duplicated().any():
        return 1
    return int(places.group_by("rank").len().get_column("len").max())  # type: ignore[arg-type]


def _ends(actions: pl.DataFrame) -> tuple[tuple[str, int], tuple[str, int]]:
    """(column, value) of the first and the last part of the pipeline that was seen: a stage, or else a rank."""
    column = "rank" if actions.get_column("stage").null_count() else "stage"
    values = actions.get_column(column)
    return (column, int(values.min())), (column, int(values.max()))  # type: ignore[arg-type]


def _waits_first(actions: pl.DataFrame, where: tuple[str, int], kinds: Sequence[str]) -> bool:
    """Whether in most steps the first such action of a stage or rank waited for a message."""
    own = actions.filter(pl.col(where[0]) == where[1], pl.col("kind").cast(pl.String).is_in(kinds))
    if own.is_empty():
        return False
    least = _A_WAIT * float((own.get_column("end_ns") - own.get_column("start_ns")).median())  # type: ignore[arg-type]
    firsts = own.sort("start_ns").group_by("step").first().get_column("waited_ns")
    return bool((firsts > least).mean() > 0.5)  # type: ignore[operator]
