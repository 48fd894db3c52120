"""Schedules run on gloo: losses, outputs and gradients are those of one process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fuzz import few
from tests.living import Ranks
from tests.pipeline.runtime.random_schedules import random_schedule
from weftrace.pipeline.generators.families import FAMILIES, generate
from weftrace.pipeline.notation import to_text
from weftrace.pipeline.schedule import Schedule

CASES = "tests.pipeline.runtime.cases:"
#: Families on 2 and 4 ranks, but for what needs more.
SIZES = [(name, size) for name in FAMILIES for size in (2, 4)]
KINDS = ("mlp", "transformer", "moe")
#: What a family trains on 4 ranks: one kind of model, in turn; those that run both ways and the plain one all three.
KINDS_OF = {name: (KINDS[at % 3],) for at, name in enumerate(FAMILIES)} | dict.fromkeys(("1f1b", "dualpipev"), KINDS)


def trained(ranks: Ranks, schedule: Schedule, kinds: tuple[str, ...] = KINDS) -> list[dict[str, Any]]:
    """What training told, by rank and model; checked for all that every schedule must do."""
    text = to_text(schedule)
    found = ranks.run(CASES + "trains", schedule.num_ranks, schedule=text, kinds=kinds)
    summary = [result for of_rank in found for result in of_rank.values()]
    for result in summary:
        assert result["as its order"], result
        assert result["apart"] < 1e-12, result
        assert result["received"][0] <= result["received"][1], result
    assert sum(result["losses"] for result in summary) == len(kinds) * schedule.num_micro_batches
    return summary


@pytest.mark.parametrize(("name", "size"), SIZES, ids=[f"{name}-{size}" for name, size in SIZES])
def test_every_schedule_trains_and_evaluates_as_one_process_does(ranks: Ranks, name: str, size: int) -> None:
    fewest = {"dualpipe": 2 * size, "dualpipev": 2 * size, "seq1f1b": 2}.get(name, 4)
    schedule = generate(name, num_ranks=size, num_micro_batches=fewest)
    summary = trained(ranks, schedule, KINDS_OF[name] if size > 2 else ("mlp",))
    if schedule.num_replicas == 1 and schedule.num_slices == 1:  # micro-batches in their order, as in a plain loop
        assert all(result["as one process"] for result in summary)


@pytest.mark.parametrize("seed", few(range(3), 1))
def test_a_random_schedule_does_too(ranks: Ranks, seed: int) -> None:
    trained(ranks, random_schedule(seed))
