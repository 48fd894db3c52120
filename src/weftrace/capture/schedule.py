"""Which steps are recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from weftrace.errors import CaptureError
from weftrace.notebook import InNotebook

#: What is done with a step: nothing; the profiler is tried out, and what it records thrown away; it is recorded; it is
#: recorded, and is the last one of its file.
Action = Literal["wait", "warm up", "record", "save"]


@dataclass(frozen=True, slots=True)
class Schedule(InNotebook):
    """Steps in the order of the fields, `repeat` times; then nothing more. Called with a step's number, from 0.

    wait: steps that are left alone: the program's own start, compilation, first allocations; what a step costs without
    the profiler is measured on them. warmup: steps in which the profiler starts. active: steps that are recorded, for
    one file. repeat: how often; 0 for ever (the oldest files make room for new ones).
    """

    wait: int = 5
    warmup: int = 2
    active: int = 3
    repeat: int = 1

    def __post_init__(self) -> None:
        for field, least in zip(fields(self), (0, 0, 1, 0), strict=True):
            value = getattr(self, field.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise CaptureError(f"schedule: {field.name}={value!r}; it is a whole number of at least {least}")

    def __call__(self, step: int) -> Action:
        rounds, at = divmod(step, self.wait + self.warmup + self.active)
        if at < self.wait or (self.repeat and rounds >= self.repeat):
            return "wait"
        if at < self.wait + self.warmup:
            return "warm up"
        return "record" if at < self.wait + self.warmup + self.active - 1 else "save"

    def __str__(self) -> str:
        often = f"{self.repeat} times" if self.repeat > 1 else "once" if self.repeat else "for ever"
        return f"wait {self.wait}, warm-up {self.warmup}, active {self.active}, {often}"

    @property
    def has_one_file(self) -> bool:
        return self.repeat == 1


_TORCH: dict[str, Action] = {"NONE": "wait", "WARMUP": "warm up", "RECORD": "record", "RECORD_AND_SAVE": "save"}


def as_schedule(schedule: Any) -> Callable[[int], Action]:
    """A `Schedule` as it is; the function that `torch.profiler.schedule` makes, in our words.

    Raises `CaptureError` for anything else.
    """
    if isinstance(schedule, Schedule):
        return schedule
    name = getattr(schedule(0), "name", None) if callable(schedule) else None
    if name not in _TORCH:
        raise CaptureError(
            f"schedule={schedule!r}: give weftrace.capture.Schedule(wait=5, warmup=2, active=3), or torch's"
        )

    def action(step: int) -> Action:
        return _TORCH[schedule(step).name]

    return action
