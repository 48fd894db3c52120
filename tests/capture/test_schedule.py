"""Which steps are recorded, and that torch's own schedules mean the same."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.capture import CaptureError, Schedule
from weftrace.capture.schedule import as_schedule

SHORT = {"wait": ".", "warm up": "w", "record": "r", "save": "S"}


def drawn(schedule: Any, steps: int = 16) -> str:
    action = as_schedule(schedule)
    return "".join(SHORT[action(step)] for step in range(steps))


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [(Schedule(), ".....wwrrS......"), (Schedule(1, 1, 2, 2), ".wrS.wrS........"), (Schedule(0, 0, 1, 0), "S" * 16),
     (Schedule(0, 1, 3, 0), "wrrSwrrSwrrSwrrS"), (Schedule(2, 0, 1), "..S.............")],
)  # fmt: skip
def test_the_action_of_each_step(schedule: Schedule, steps: str) -> None:
    assert drawn(schedule) == steps


def test_a_schedule_of_torch_means_the_same() -> None:
    torch_schedule = pytest.importorskip("torch.profiler").schedule
    for wait, warmup, active, repeat in ((5, 2, 3, 1), (1, 1, 2, 2), (0, 1, 3, 0)):
        ours = Schedule(wait, warmup, active, repeat)
        assert drawn(torch_schedule(wait=wait, warmup=warmup, active=active, repeat=repeat)) == drawn(ours)


@pytest.mark.parametrize("wrong", [{"wait": -1}, {"active": 0}, {"warmup": 1.5}, {"repeat": True}])
def test_a_schedule_that_means_nothing_is_refused(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(CaptureError, match=f"{name}={value}"):
        Schedule(**wrong)


def test_what_is_no_schedule_is_refused() -> None:
    for wrong in (3, "wait", lambda step: step):
        with pytest.raises(CaptureError, match="Schedule"):
            as_schedule(wrong)
