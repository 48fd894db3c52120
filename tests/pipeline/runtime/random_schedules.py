"""Schedules in which every order that dependencies allow may come up."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from weftrace.errors import ScheduleError
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Action, Schedule

PLACEMENTS: dict[str, Callable[[int], Any]] = {
    "a stage a rank": lambda ranks: [range(ranks)],
    "two stages a rank": lambda ranks: [[*range(ranks), *range(ranks)]],
    "V": lambda ranks: [[*range(ranks), *reversed(range(ranks))]],
    "two directions": lambda ranks: [range(ranks), [*reversed(range(ranks))]],
}


def random_schedule(seed: int) -> Schedule:
    """Chunks in a random order in which each comes after what it needs; here and there, B is split, or F&B merged."""
    draw = random.Random(seed)
    placement = draw.choice([*PLACEMENTS])
    rank_of = [list(stages) for stages in PLACEMENTS[placement](draw.randint(1, 2) * 2)]
    num_micro_batches = draw.randint(1, 4) * len(rank_of)
    needs: dict[tuple[str, int, int], list[tuple[str, int, int]]] = {}
    rank: dict[tuple[str, int, int], int] = {}
    last = len(rank_of[0]) - 1
    for micro_batch in range(num_micro_batches):
        ranks = rank_of[micro_batch * len(rank_of) // num_micro_batches]
        for stage in range(last + 1):
            split = draw.random() < 0.5
            needs["F", stage, micro_batch] = [("F", stage - 1, micro_batch)] if stage else []
            back = "I" if split else "B"
            needs[back, stage, micro_batch] = [("F", stage, micro_batch)]
            if split:
                needs["W", stage, micro_batch] = [("I", stage, micro_batch)]
            for kind in "FIWB":
                rank[kind, stage, micro_batch] = ranks[stage]
        for stage in range(last):
            after = "I" if ("I", stage + 1, micro_batch) in needs else "B"
            needs["I" if ("I", stage, micro_batch) in needs else "B", stage, micro_batch].append(
                (after, stage + 1, micro_batch)
            )
    order: list[tuple[str, int, int]] = []
    while needs:
        ready = sorted(chunk for chunk, before in needs.items() if not any(other in needs for other in before))
        order.append(draw.choice(ready))
        del needs[order[-1]]
    actions = [Action(rank=rank[c], kind=c[0], stage=c[1], micro_batch=c[2]) for c in order]  # type: ignore[arg-type]
    facts: dict[str, Any] = {
        "name": f"{placement}, seed {seed}",
        "rank_of": rank_of,
        "num_micro_batches": num_micro_batches,
    }
    for _ in range(6):
        with suppress(ScheduleError):
            merged = _with_a_merged_pair(actions, draw)
            check(Schedule.of(merged, **facts))
            actions = merged
    schedule = Schedule.of(actions, **facts)
    check(schedule)
    return schedule


def _with_a_merged_pair(actions: list[Action], draw: random.Random) -> list[Action]:
    """An F and the B that follows it on its rank, made one, where they are found."""
    i = draw.randrange(len(actions))
    first = actions[i]
    then = next((other for other in actions[i + 1 :] if other.rank == first.rank), None)
    if first.kind != "F" or then is None or then.kind != "B":
        return actions
    both = Action(
        rank=first.rank, kind="F&B", stage=first.stage, micro_batch=first.micro_batch,
        back_stage=then.stage, back_micro_batch=then.micro_batch,
    )  # fmt: skip
    return [both if other is first else other for other in actions if other is not then]
