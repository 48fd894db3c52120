"""What does a step cost with and without the profiler, and how many steps may be recorded before it is stopped?"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from weftrace.capture.captured import Overhead

_REMEMBERED = 64  # steps of each kind


def _few() -> deque[int]:
    return deque(maxlen=_REMEMBERED)


@dataclass(slots=True)
class Pace:
    """Durations as the run goes, ns. longest_pause: how long the run may stand still at once, in steps.

    plain, recorded: steps that were left alone, and recorded. tried_ns: of a warm-up step that was recorded for trial.
    stop_ns: what a stop takes for each step of its session, the longest yet. pause_ns: the longest pause yet.
    """

    longest_pause: float = 1.0
    plain: deque[int] = field(default_factory=_few)
    recorded: deque[int] = field(default_factory=_few)
    tried_ns: int | None = None
    stop_ns: float | None = None
    pause_ns: int = 0

    @property
    def plain_step_ns(self) -> int | None:
        """Median of the later half of the steps that were left alone: the first ones are the program's own start."""
        return int(median([*self.plain][len(self.plain) // 2 :])) if self.plain else None

    @property
    def recorded_step_ns(self) -> int | None:
        return int(median(self.recorded)) if self.recorded else None

    @property
    def step_ns(self) -> int:
        """The best that is known of a step's length; 0 where nothing is."""
        return self.plain_step_ns or self.recorded_step_ns or self.tried_ns or 0

    @property
    def num_steps_at_once(self) -> float:
        """How many steps a session may hold so that its stop takes no longer than the run may stand still; at least
        one, and one while nothing is known."""
        if self.longest_pause == float("inf"):
            return self.longest_pause
        return 1 if self.stop_ns is None else max(1.0, self.longest_pause * self.step_ns // max(self.stop_ns, 1))

    def stopped(self, took_ns: int, num_steps: int) -> None:
        self.stop_ns = max(took_ns / max(num_steps, 1), self.stop_ns or 0)

    def paused(self, took_ns: int) -> None:
        self.pause_ns = max(self.pause_ns, took_ns)

    def overhead(self, held_ns: int, write_ns: int) -> Overhead:
        """held_ns, write_ns: of the thread that writes."""
        return Overhead(
            step_ns=self.plain_step_ns, recorded_step_ns=self.recorded_step_ns, pause_ns=self.pause_ns,
            held_ns=held_ns, write_ns=write_ns,
        )  # fmt: skip
