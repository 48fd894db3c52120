"""When each module ran: the exclusive time of every module and phase, step by step.

Each time the program moves from one module to another, the clock appends a mark to a list: the time (or a CUDA event)
and where the program is from then on. The time between two marks belongs to the first. So the times of a step add up to
the step, exactly, and what no module claims lies in "(outside)". Nothing waits for a device until the step ends.

Forward, recomputation and optimizer: the tracker says when the module changes. Backward: see `backward.py`.

Weftrace's own time. Finding the modules of a backward's nodes takes a while at its start; that while is in no module
and not in `step_ns`. What the marks themselves take cannot be cut out; `own_ns` holds both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import median_low
from time import perf_counter_ns
from typing import Any, Protocol

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from weftrace.costs.cost import Phase
from weftrace.flops.runtime.count.backward import BackwardMarks
from weftrace.flops.runtime.count.frames import Frame
from weftrace.flops.runtime.count.tracker import Tracker

Now = Callable[[], int]
_CALLS, _ROUNDS = 50, 3  # of the dummy that `mark_ns` times; the quickest round counts


class Ticks(Protocol):
    """Where times come from.

    take: cheap, and waits for nothing. read: of what was taken, in order, nanoseconds after some instant, which never
        decrease; what was taken may be used again.
    """

    source: str

    def take(self) -> Any: ...

    def read(self, taken: Sequence[Any]) -> list[int]: ...


class CpuTicks:
    """The host's clock. On a device that works behind the host's back these are times of launching."""

    source = "cpu clock"

    def __init__(self, now: Now = perf_counter_ns) -> None:
        self.take = now

    def read(self, taken: Sequence[int]) -> list[int]:
        return list(taken)


class Event(Protocol):
    """The part of `torch.cuda.Event` that is used. elapsed_time: milliseconds."""

    def record(self, stream: Any) -> Any: ...

    def elapsed_time(self, other: Any) -> float: ...


class EventTicks:
    """Events in a device's stream: times at which the device got there. Events are used again."""

    source = "cuda events"

    def __init__(self, make: Callable[[], Event], stream: Callable[[], Any], wait: Callable[[], None]) -> None:
        """stream: the one that the caller works on now. wait: until the device has done all that it was given."""
        self._make, self._stream, self._wait = make, stream, wait
        self._free: list[Event] = []

    def take(self) -> Event:
        event = self._free.pop() if self._free else self._make()
        event.record(self._stream())
        return event

    def read(self, taken: Sequence[Event]) -> list[int]:
        self._wait()
        here = latest = 0
        positions = [0] if taken else []
        for index in range(1, len(taken)):  # neighbours: milliseconds in a float are coarse over a long step
            here += round(taken[index - 1].elapsed_time(taken[index]) * 1e6)
            latest = max(latest, here)  # an event of another stream may be the earlier one
            positions.append(latest)
        self._free.extend(taken)
        return positions


def ticks_for(device: torch.device, now: Now) -> Ticks:
    """Events on a CUDA device (the first, where a model is spread over several), the host's clock on any other."""
    if device.type == "cuda":
        return EventTicks(
            make=lambda: torch.cuda.Event(enable_timing=True),
            stream=lambda: torch.cuda.current_stream(device),
            wait=lambda: torch.cuda.synchronize(device),
        )
    return CpuTicks(now)


class StepClock:
    """Exclusive times of modules, step by step. Between `start_step` and `end_step` a step is timed.

    step_ns: wall time of each step, without the installation of hooks in its backwards. samples: of each module and
        phase, one a step, 0 where it did not run; their sum over modules and phases is step_ns, exactly.
    own_ns: weftrace's own time in one step (the median of them): marks x the cost of one, which are part of samples and
        of step_ns, plus the installation of hooks, which is part of neither. What the engine does around a hook is not
        in it. counted_ns: wall time of the step set aside.
    On CUDA, times are the device's, from event to event; the host waits for it once, at the end of a step.
    """

    def __init__(
        self, tracker: Tracker, device: torch.device, *, now: Now = perf_counter_ns, ticks: Ticks | None = None
    ) -> None:
        """now: the host's clock. ticks: what to time with; chosen by the device where None."""
        self.tracker = tracker
        self.device = device
        self.step_ns: list[int] = []
        self.samples: dict[tuple[Frame, Phase], list[int]] = {}
        self.own_ns = 0
        self.counted_ns: int | None = None
        self.ticks = ticks or ticks_for(device, now)
        self.source = self.ticks.source
        self._take = self.ticks.take
        self._log: list[tuple[Any, Frame | None, Phase]] = []
        self._own: list[int] = []
        self._mark_ns = mark_ns(self.ticks, now)
        self._backward = BackwardMarks(tracker, self._log, self._take, now)
        self._leaving: Any = None

    # -- steps

    def start_step(self) -> None:
        self._leaving = register_module_forward_hook(self._backward.left)
        self._backward.start()
        self.tracker.moved = self._moved
        self._moved(self.tracker.frame, self.tracker.phase)

    def end_step(self) -> None:
        if self._leaving is None:
            return
        self._moved(self.tracker.frame, self.tracker.phase)
        self._stop()
        log, installed_ns = self._log.copy(), self._backward.installed_ns
        self._log.clear()
        positions = self.ticks.read([mark[0] for mark in log])
        spent: dict[tuple[Frame, Phase], int] = {}
        step_ns = 0
        for index in range(len(log) - 1):
            _, frame, phase = log[index]
            if frame is not None:
                took = positions[index + 1] - positions[index]
                step_ns += took
                spent[frame, phase] = spent.get((frame, phase), 0) + took
        for key in spent:
            self.samples.setdefault(key, [0] * len(self.step_ns))
        for key, samples in self.samples.items():
            samples.append(spent.get(key, 0))
        self.step_ns.append(step_ns)
        self._own.append(round(len(log) * self._mark_ns) + installed_ns)
        self.own_ns = median_low(self._own)

    def set_aside(self) -> None:
        """Keep the steps timed so far as the counted ones: their times hold the cost of counting."""
        self.counted_ns = self.step_ns[-1]
        self.step_ns.clear()
        self.samples.clear()
        self._own.clear()
        self.own_ns = 0

    def close(self) -> None:
        """Leave nothing behind; safe to call at any time."""
        self._stop()
        self._log.clear()

    def _stop(self) -> None:
        self.tracker.moved = None
        self._backward.stop()
        if self._leaving is not None:
            self._leaving.remove()
            self._leaving = None

    def _moved(self, frame: Frame, phase: Phase) -> None:
        self._log.append((self._take(), frame, phase))


def mark_ns(ticks: Ticks, now: Now) -> float:
    """Nanoseconds of one mark: half of what entering and leaving a module costs, torch's path to its hooks included."""
    return _calibrated(ticks, now) if now is not perf_counter_ns else _calibrated_once(ticks.source)


@cache
def _calibrated_once(source: str) -> float:
    ticks: Ticks = CpuTicks() if source == CpuTicks.source else ticks_for(torch.device("cuda"), perf_counter_ns)
    return _calibrated(ticks, perf_counter_ns)


def _calibrated(ticks: Ticks, now: Now) -> float:
    return min(_one_mark_ns(ticks, now) for _ in range(_ROUNDS))


def _one_mark_ns(ticks: Ticks, now: Now) -> float:
    dummy = nn.Identity()
    probe = Tracker(dummy)
    log: list[Any] = []
    start = now()
    for _ in range(_CALLS):
        dummy(None)
    plain_ns = now() - start
    probe.moved = lambda frame, phase: log.append((ticks.take(), frame, phase))
    with probe.watch():
        start = now()
        for _ in range(_CALLS):
            dummy(None)
        hooked_ns = now() - start
    probe.moved = None
    ticks.read([mark[0] for mark in log])
    return max(0.0, (hooked_ns - plain_ns) / len(log))
