"""How long did each module and each phase take? Medians and spreads over the timed steps, in integer nanoseconds.

Sums are taken sample by sample before the median is, so that in each step children and self make up the parent exactly.
Medians of parts need not add up to the median of the whole: what is shown is the time in one step, the typical one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from weftrace.costs.cost import PHASES, Phase
from weftrace.errors import FlopsError
from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook

Key = tuple[int, Phase]
Samples = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(InNotebook):
    """Some samples of a time, one a timed step, in ns: their median (of an even number, the mean of the middle two,
    rounded down), the lowest and the highest, how many there are, and the typical one.

    typical: the sample of one step, the same for all times of a report: the one of median length (of an even number,
        the lower of the middle two). What is shown as time and share is this, so that parts add up to the whole.
    """

    typical: Annotated[int, UNSAVED]
    median: Count
    lowest: Count
    highest: Count
    samples: Count

    @property
    def relative(self) -> float | None:
        """(highest - lowest) / median; None where the median is 0 or there is one sample."""
        return (self.highest - self.lowest) / self.median if self.median and self.samples > 1 else None


def spread(samples: Sequence[int], typical: int | None = None) -> Spread:
    """The spread of at least one sample. typical: the place of the typical one, by default of that of median length."""
    at = middle(samples) if typical is None else typical
    return Spread(
        typical=samples[at], median=median(samples), lowest=min(samples), highest=max(samples), samples=len(samples)
    )


def middle(samples: Sequence[int]) -> int:
    """The place of the median, of an even number the lower of the middle two, among at least one sample."""
    return sorted(range(len(samples)), key=samples.__getitem__)[(len(samples) - 1) // 2]


def median(samples: Sequence[int]) -> int:
    """The median as in `Spread`, of at least one sample."""
    ordered = sorted(samples)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Times(InNotebook):
    """How long each module and phase took, in ns; everything is empty where nothing was timed.

    exclusive_samples, inclusive_samples: (module, phase) -> time in each timed step, outside the module's children, and
        in it with all below it. exclusive, inclusive: their spreads.
    phase_samples: phase -> time of all modules and of "(outside)" in each timed step. by_phase: their spreads.
    step: wall time of a step, None where no step was timed.
    """

    exclusive_samples: Mapping[Key, Samples]
    inclusive_samples: Mapping[Key, Samples]
    phase_samples: Mapping[Phase, Samples]
    exclusive: Mapping[Key, Spread]
    inclusive: Mapping[Key, Spread]
    by_phase: Mapping[Phase, Spread]
    step: Spread | None


def times_of(report: FlopsReport) -> Times:
    """The times of a report.

    Raises `FlopsError` where modules have different numbers of samples: their times could not be added.
    """
    own = _exclusive(report)
    whole, phases = _inclusive(report, own), _by_phase(own)
    at = typical_step(report, phases)
    return Times(
        exclusive_samples=own,
        inclusive_samples=whole,
        phase_samples=phases,
        exclusive={key: spread(samples, at) for key, samples in own.items()},
        inclusive={key: spread(samples, at) for key, samples in whole.items()},
        by_phase={phase: spread(samples, at) for phase, samples in phases.items()},
        step=step_spread(report),
    )


def step_spread(report: FlopsReport) -> Spread | None:
    """Wall time of a step; None where no step was timed."""
    return spread(report.clock.step_ns) if report.clock.step_ns else None


def typical_step(report: FlopsReport, phase_samples: Mapping[Phase, Samples]) -> int | None:
    """The place of the step of median length among the samples; None where nothing was timed. By the sums of the
    samples where the clock has not as many steps."""
    sums = [sum(samples) for samples in zip(*phase_samples.values(), strict=True)]
    steps = report.clock.step_ns
    return middle(steps if len(steps) == len(sums) else sums) if sums else None


def step_time(report: FlopsReport, given: float | None, what: str) -> float:
    """Wall time of a step, ns: the one that is given, else the median of the timed ones.

    what: what it is for ("utilization"). Raises `FlopsError` where there is none, or it is not above 0.
    """
    timed = step_spread(report)
    if given is None and timed is None:
        raise FlopsError(f"{report.name}: no step was timed, so there is no {what}; time steps, or give step_ns")
    step_ns = given if timed is None or given is not None else timed.typical
    if step_ns is None or step_ns <= 0:
        raise FlopsError(f"{report.name}: a step of {step_ns} ns cannot be used; step_ns must be above 0")
    return step_ns


def _exclusive(report: FlopsReport) -> dict[Key, Samples]:
    result: dict[Key, Samples] = {}
    expected = len(report.times[0].samples_ns) if report.times else 0
    for timing in report.times:
        samples = timing.samples_ns
        if len(samples) != expected or not samples:
            path, first = report.modules[timing.module].path, report.modules[report.times[0].module].path
            raise FlopsError(
                f"{report.name}: {path or 'the root'} has {len(samples)} samples of its {timing.phase} time and "
                f"{first or 'the root'} {expected}; a report has one for each timed step"
            )
        key = (timing.module, timing.phase)
        result[key] = _plus(result[key], samples) if key in result else samples
    return result


def _inclusive(report: FlopsReport, own: Mapping[Key, Samples]) -> dict[Key, Samples]:
    result = dict(own)
    phases = [phase for phase in PHASES if any(other is phase for _, other in result)]
    for index in range(len(report.modules) - 1, -1, -1):  # children come after their parents
        parent = report.modules[index].parent
        if parent is None:
            continue
        for phase in phases:
            samples = result.get((index, phase))
            if samples is not None:
                above = result.get((parent, phase))
                result[parent, phase] = samples if above is None else _plus(above, samples)
    return result


def _by_phase(own: Mapping[Key, Samples]) -> dict[Phase, Samples]:
    of_phase: dict[Phase, list[Samples]] = {}
    for (_, phase), samples in own.items():
        of_phase.setdefault(phase, []).append(samples)
    return {phase: tuple(map(sum, zip(*of_phase[phase], strict=True))) for phase in PHASES if phase in of_phase}


def _plus(a: Samples, b: Samples) -> Samples:
    return tuple(x + y for x, y in zip(a, b, strict=True))
