"""Schedules run on gloo: losses, outputs and gradients are those of one process."""

from __future__ import annotations

import pytest

from tests.pipeline.runtime.living import Ranks
from tests.pipeline.runtime.random_schedules import random_schedule
from weftrace.pipeline.notation import to_text

CASES = "tests.pipeline.runtime.cases:"


@pytest.mark.parametrize("seed", range(4))
def test_a_random_schedule_trains_as_one_process_does(ranks: Ranks, seed: int) -> None:
    schedule = random_schedule(seed)
    found = ranks.run(
        CASES + "trains", schedule.num_ranks, schedule=to_text(schedule), kinds=["mlp", "transformer", "moe"]
    )
    for told in found:
        for kind, result in told.items():
            assert result["as its order"], (kind, result)
            assert result["apart"] < 1e-12
            assert result["received"][0] <= result["received"][1]
