"""How many steps fit into a session, by pencil."""

from __future__ import annotations

import pytest

from weftrace.capture.pace import Pace


@pytest.mark.parametrize(
    ("longest_pause", "stop_ns", "steps"),
    [(1.0, 10, 10), (1.0, 33, 3), (1.0, 100, 1), (1.0, 250, 1), (0.5, 10, 5), (3.0, 100, 3), (1.0, None, 1),
     (float("inf"), 250, float("inf"))],
)  # fmt: skip
def test_a_stop_of_so_many_steps_takes_at_most_so_long(
    longest_pause: float, stop_ns: int | None, steps: float
) -> None:  # fmt: skip
    pace = Pace(longest_pause)
    pace.plain.extend([100, 100])
    if stop_ns is not None:
        pace.stopped(stop_ns, 1)
    assert pace.num_steps_at_once == steps


def test_the_longest_stop_a_step_counts() -> None:
    pace = Pace()
    pace.plain.append(100)
    for took, steps in ((20, 1), (120, 4), (10, 1)):  # 20, 30, 10 a step
        pace.stopped(took, steps)
    assert pace.num_steps_at_once == 3


def test_a_steps_length_is_that_of_the_later_ones_that_were_left_alone() -> None:
    pace = Pace()
    assert pace.step_ns == 0
    pace.tried_ns = 300
    assert pace.step_ns == 300
    pace.recorded.extend([180, 200, 220])
    assert pace.step_ns == 200
    pace.plain.extend([9000, 500, 90, 110, 100])
    assert pace.step_ns == 100


def test_the_overhead_in_words() -> None:
    pace = Pace()
    assert pace.overhead(0, 0).summary() == "the run was held up for 0 ns at most"
    pace.plain.extend([10_000_000] * 3)
    pace.recorded.extend([12_000_000] * 3)
    pace.paused(5_000_000)
    pace.paused(3_000_000)
    assert pace.overhead(8_000_000, 9_000_000).summary() == (
        "a step took 10.0 ms before and 12.0 ms (+20 %) recorded; the run was held up for 8.00 ms at most, 0.8 steps"
    )
