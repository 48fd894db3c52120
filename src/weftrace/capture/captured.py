"""What a recording left behind on a rank, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weftrace.notebook import InNotebook
from weftrace.units import counted, duration, signed, size


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead(InNotebook):
    """What recording cost the run, as its own thread saw it; medians, ns, None where there was no such step.

    step_ns: of the later half of the steps that were left alone. recorded_step_ns: of those that were recorded; a step
    lasts from one call of `step` to the next, without what the profiler took in between. pause_ns: the longest time
    that one call of `step` stopped the run to start or stop the profiler. held_ns: the longest time that the writing
    thread held the run up: torch writes a stretch's JSON under Python's lock. write_ns: what that thread took for
    everything, beside the run.
    """

    step_ns: int | None = None
    recorded_step_ns: int | None = None
    pause_ns: int = 0
    held_ns: int = 0
    write_ns: int = 0

    @property
    def in_steps(self) -> float | None:
        """The longest stop, of either kind, in steps that were left alone."""
        return max(self.pause_ns, self.held_ns) / self.step_ns if self.step_ns else None

    def summary(self) -> str:
        """ "a step took 25.1 ms before and 40.2 ms (+60 %) recorded; the run was held up for 31 ms at most" """
        parts = []
        if self.recorded_step_ns:
            recorded = f"{duration(self.recorded_step_ns)} while it was recorded"
            if self.step_ns:
                more = signed(self.recorded_step_ns / self.step_ns - 1, 0)
                recorded = f"{duration(self.step_ns)} before and {duration(self.recorded_step_ns)} ({more}) recorded"
            parts.append(f"a step took {recorded}")
        held = f"the run was held up for {duration(max(self.pause_ns, self.held_ns))} at most"
        return "; ".join([*parts, held + (f", {_few(self.in_steps)} steps" if self.in_steps is not None else "")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured(InNotebook):
    """A rank's files and what is not in them.

    files: paths, in order of time. steps: numbers of the steps in them. dropped_steps: recorded, and given up so that
    the files stay within max_bytes. num_bytes: of the files. problems: what went wrong, in the order in which it did:
    empty where all is well.
    """

    rank: int
    world_size: int
    max_bytes: int
    files: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    dropped_steps: tuple[int, ...] = ()
    num_bytes: int = 0
    overhead: Overhead = Overhead()
    problems: tuple[str, ...] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rank", f"{self.rank} of {self.world_size}"
        yield from (("file", path) for path in self.files)
        yield "steps", listed(self.steps) or "none"
        if self.dropped_steps:
            yield "dropped", dropped_in_words(self.dropped_steps, self.max_bytes)
        yield "size", f"{size(self.num_bytes)} of at most {size(self.max_bytes)}"
        yield "overhead", self.overhead.summary()
        yield from (("problem", problem) for problem in self.problems)


def _few(steps: float) -> str:
    return f"{steps:,.0f}" if steps >= 10 else f"{steps:.2g}"


def listed(steps: Sequence[int]) -> str:
    """Numbers in order, runs of them short: "7-9, 20"."""
    runs: list[list[int]] = []
    for step in sorted(steps):
        if runs and step == runs[-1][1] + 1:
            runs[-1][1] = step
        else:
            runs.append([step, step])
    return ", ".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def dropped_in_words(steps: Sequence[int], max_bytes: int) -> str:
    """ "2 steps: 7-8, to stay within 1.0 MiB a rank" """
    return f"{counted(len(steps), 'step')}: {listed(steps)}, to stay within {size(max_bytes)} a rank"
