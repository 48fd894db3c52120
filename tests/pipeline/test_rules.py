"""What `check` accepts and refuses, each shown by a schedule small enough to see it."""

from __future__ import annotations

import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import check, from_text

ONE_F_ONE_B = "rank 0: 0F0 0F1 0B0 0F2 0B1 0B2\nrank 1: 1F0 1B0 1F1 1B1 1F2 1B2"
TWO_WAYS = "replica 0: 0 1\nreplica 1: 1 0\nrank 0: 0F0 1F1 1B1 0B0\nrank 1: 0F1 1F0 1I0 1W0 0B1"


@pytest.mark.parametrize(
    "text",
    [
        ONE_F_ONE_B,
        TWO_WAYS,
        "rank 0: 0F0 0F1\nrank 1: 1F0 1F1",  # forward only
        "rank 0: 0F0 1F0 1F1&1B0 0B0 1B1 0B1\n".replace("1F1&1B0", "0F1 1F1&1B0"),
        "slices: 2\nrank 0: 0F0 0F1 0I1 0I0 0W0 0W1",
    ],
)
def test_what_can_run_is_accepted(text: str) -> None:
    check(from_text(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rank 0: 0F0 0B0 0F1", "the backward (input gradient) of micro-batch 1 on stage 0 is missing."),
        ("rank 0: 0F0 0F0 0B0", "the forward of micro-batch 0 on stage 0 is done 2 times."),
        ("rank 0: 0F0 0I0", "the weight gradient of micro-batch 0 on stage 0 is missing."),
        ("rank 0: 0F0 0B0 0W0", "the weight gradient of micro-batch 0 on stage 0 is done 2 times."),
        (
            "micro-batches: 3\nrank 0: 0F0 0B0",
            "forward of micro-batch 1 on stage 0 is missing. So is 1 more.",
        ),
        ("rank 0: 0B0 0F0", "0B0 on rank 0 comes before 0F0 on rank 0, which it needs."),
        ("rank 0: 0F0 0W0 0I0", "0W0 on rank 0 comes before 0I0 on rank 0, which it needs."),
        ("rank 0: 0F0&0B0", "0F0&0B0 on rank 0 comes before 0F0&0B0 on rank 0, which it needs."),
        (
            TWO_WAYS.replace("1F1 1B1", "1F0 1B1").replace("1F0 1I0", "1F1 1I0"),
            "1F0 on rank 0 is in replica 1, but micro-batch 0 began in replica 0; a micro-batch stays in one.",
        ),
        (
            "slices: 2\nrank 0: 0F1 0F0 0B1 0B0",
            "0F1 on rank 0 comes before 0F0 on rank 0; the slices of a sequence go forward in their order.",
        ),
        (
            "slices: 2\nreplica 0: 0\nreplica 1: 1\nrank 0: 0F0\nrank 1: 0F1",
            "0F1 on rank 1 is in another replica than 0F0 on rank 0; the slices of a sequence stay in one.",
        ),
        ("slices: 2\nrank 0: 0F0 0F1 0B0 0B1", "0B0 on rank 0 comes before 0B1 on rank 0; the slices"),
    ],
)
def test_what_is_missing_twice_or_out_of_order_is_named(text: str, said: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        check(from_text(text))
    assert said in str(caught.value)


def test_a_deadlock_is_printed_as_the_circle_of_actions() -> None:
    crossed = "rank 0: 0F0 0B0 0F1 0B1\nrank 1: 1F0 1F1 1B0 1B1"
    with pytest.raises(ScheduleError) as caught:
        check(from_text(crossed))
    said = str(caught.value)
    assert "cannot run: actions wait for each other in a circle." in said
    for line in ("'0B0 on rank 0' waits for '1B0 on rank 1'", "'1F1 on rank 1' waits for '0F1 on rank 0'"):
        assert line in said
    assert "'0F1 on rank 0' is queued behind '0B0 on rank 0'" in said.splitlines()[-1]
    assert "stream" not in said  # a word of plans


def test_a_number_of_micro_batches_that_no_memory_could_hold_is_refused() -> None:
    with pytest.raises(ScheduleError, match="2 stages x 900,000,000 micro-batches need as many forwards"):
        check(from_text("micro-batches: 900000000\n" + ONE_F_ONE_B))
