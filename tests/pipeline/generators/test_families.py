"""`generate`: every schedule by its name, and what is said where one is impossible."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import check
from weftrace.pipeline.generators.families import FAMILIES, generate


def test_every_family_says_what_it_is() -> None:
    for name, family in FAMILIES.items():
        assert family.name == name
        assert family.title and family.description and family.source
        schedule = generate(name, num_ranks=4, num_micro_batches=8)
        check(schedule)
        assert schedule.num_ranks == 4
        assert schedule.num_stages == 4 * family.stages_per_rank
        assert schedule.num_replicas == family.replicas
        kinds = set(schedule.actions["kind"])
        assert ("F&B" in kinds) == family.overlaps
        assert {"I", "W"} <= kinds if family.splits else not {"I", "W"} & kinds


def test_ranks_or_stages_say_the_same() -> None:
    one = generate("interleaved", num_ranks=4, num_micro_batches=8, stages_per_rank=3)
    assert one == generate("Interleaved", num_stages=12, num_micro_batches=8, stages_per_rank=3)
    assert one == generate("interleaved", num_stages=12, num_ranks=4, num_micro_batches=8, stages_per_rank=3)
    assert generate("zbv", num_stages=8, num_micro_batches=8) == generate("zbv", num_ranks=4, num_micro_batches=8)
    assert generate("seq1f1b", num_ranks=4, num_micro_batches=6, num_slices=3).num_micro_batches == 18


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("Interleaved1F1B", {}, "there is no schedule 'Interleaved1F1B'. Is 'interleaved' meant?"),
        ("zbv", {"num_ranks": 50_000}, "ZBV: 50,000 x 99,999 chunks are more than"),
        ("zb3p", {}, "there is no schedule 'zb3p'. Is 'zb2p' meant? There are gpipe, 1f1b,"),
        (3, {}, "there is no schedule 3."),
        ("1f1b", {"num_ranks": None}, "1F1B: say on how many ranks (num_ranks), or into how many stages (num_stages)."),
        ("1f1b", {"num_ranks": 0}, "1F1B: num_ranks = 0; it must be a whole number above 0."),
        ("1f1b", {"num_micro_batches": 0}, "1F1B: num_micro_batches = 0; it must be a whole number above 0."),
        ("1f1b", {"num_micro_batches": 2.0}, "num_micro_batches = 2.0"),
        ("1f1b", {"num_micro_batches": True}, "num_micro_batches = True"),
        (
            "1f1b",
            {"num_micro_batches": 10**9},
            "1F1B: 4 x 1,000,000,000 chunks are more than the 268,435,456 that can be",
        ),
        ("dualpipe", {"num_micro_batches": 10**9}, "DualPipe: 4 x 1,000,000,000 chunks are more than"),
        ("1f1b", {"num_stages": 5}, "1F1B: 5 stages are on 5 ranks, 1 on each, not on 4. One of the two numbers"),
        ("zbv", {"num_ranks": None, "num_stages": 7}, "ZBV: 7 stages cannot be dealt out, 2 to each rank; 6 can."),
        ("zbv", {"num_ranks": None, "num_stages": 1}, "1 stage cannot be dealt out, 2 to each rank; 2 can."),
        ("zbv", {"stages_per_rank": 3}, "ZBV has no option 'stages_per_rank'; it has none."),
        ("interleaved", {"num_slices": 3}, "no option 'num_slices'; its options are stages_per_rank, group_size."),
        ("interleaved", {"stages_per_rank": 1}, "With one stage per rank it is 1F1B."),
        ("interleaved-zb", {"stages_per_rank": 1}, "With one stage per rank it is ZB1P."),
        ("interleaved", {"stages_per_rank": 0}, "stages_per_rank = 0; it must be a whole number above 0."),
        ("interleaved", {"group_size": 3}, "group_size = 3; a round takes as many micro-batches as there are ranks, 4"),
        ("seq1f1b", {"num_slices": 0}, "Seq1F1B: num_slices = 0; it must be a whole number above 0."),
    ],
)
def test_impossible_arguments_are_refused_with_the_reason(name: Any, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        generate(name, **{"num_ranks": 4, "num_micro_batches": 8} | arguments)
    assert said in str(caught.value)
