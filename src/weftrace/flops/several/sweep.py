"""How do FLOPs, intensity and time change with batch, sequence and context? One run a point, one row a run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any

from msgspec import Meta

from weftrace.errors import SpecError
from weftrace.facts import Hardware
from weftrace.files.schemas import Count
from weftrace.files.values import filled
from weftrace.flops.derived.account import account_of
from weftrace.flops.derived.roofline import COMPUTE, MEMORY, BoundName
from weftrace.flops.run_spec import RunSpec
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook
from weftrace.units import duration, si

AXES = ("batch", "seq", "context")
Axis = Annotated[str, Meta(pattern="^(batch|seq|context)$")]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint(InNotebook):
    """One run. at: "batch", "seq", "context" -> its value here. FLOPs and bytes: as `Totals` has them, of one step.

    intensity: executed matrix and vector FLOPs for each byte of the step. param_bytes: of this rank's parameters.
    step_ns: measured, the median; None where nothing was timed. bound_ns, predicted_ns: as `Prediction` has them.
    bound: "compute" or "memory", whichever is more of bound_ns. These three are None without an accelerator.
    tokens: of the step on this rank. tokens_per_s: over the measured time, else over the predicted one.
    """

    at: Annotated[Mapping[Axis, Count], Meta(description="Axis -> its value here.")]
    flops: Count
    full_flops: Count
    executed_flops: Count
    vector_flops: Count
    moved_bytes: Count
    intensity: Annotated[float | None, Meta(description="Executed matrix and vector FLOPs a byte.")]
    param_bytes: Annotated[Count, Meta(description="Of this rank's parameters.")]
    tokens: Count | None
    step_ns: Annotated[Count | None, Meta(description="Measured, the median; null if nothing was timed.")]
    bound_ns: Annotated[float | None, Meta(description="This and the next two: null without an accelerator.")]
    predicted_ns: float | None
    bound: Annotated[BoundName | None, Meta(description="Whichever is more of bound_ns.")]
    tokens_per_s: Annotated[float | None, Meta(description="Over the measured time, else over the predicted one.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep(InNotebook):
    """Points in the order of the axes, the last one turning fastest. assumptions: of the predicted times. notes: of the
    runs, each once."""

    model: str
    axes: Mapping[Axis, tuple[Count, ...]]
    hardware: Annotated[str, Meta(description='"" without an accelerator.')]
    points: Annotated[tuple[SweepPoint, ...], Meta(min_length=1, description="The last axis turns fastest.")]
    assumptions: Annotated[tuple[str, ...], Meta(description="Of the predicted times.")]
    notes: Annotated[tuple[str, ...], Meta(description="Of the runs, each once.")]

    def __post_init__(self) -> None:
        for number, point in enumerate(self.points):
            if set(point.at) != set(self.axes):
                raise ValueError(f"points[{number}].at has {', '.join(point.at)}; the axes are {', '.join(self.axes)}")

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "model", f"{self.model}{f' on {self.hardware}' if self.hardware else ''}"
        for point in self.points:
            took = point.step_ns or point.predicted_ns
            at = ", ".join(f"{axis} {value:,}" for axis, value in point.at.items())
            yield at, f"{si(point.flops, 'FLOP')}{'' if took is None else f', {duration(took)}'}"


def parse_axis(text: str) -> tuple[str, tuple[int, ...]]:
    """ "batch=1,8,64" -> ("batch", (1, 8, 64)). Raises `SpecError`."""
    name, _, values = (part.strip() for part in text.partition("="))
    if name not in AXES or not re.fullmatch(r"\d{1,9}(\s*,\s*\d{1,9})*", values):
        raise SpecError(f"{text!r} is no sweep; write batch=1,8,64, seq=512,2048 or context=1024,4096")
    return name, tuple(int(value) for value in values.split(","))


def sweep(
    spec: RunSpec,
    axes: Mapping[str, Sequence[int]],
    measure: Callable[[RunSpec], FlopsReport],
    *,
    hardware: Hardware | None = None,
    on_point: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Run `spec` at every combination of the axes' values.

    axes: of `AXES`, values of each. measure: what runs a spec, `weftrace.flops.runtime.run.run_model.run_model`.
    on_point: called with the number of points that are done, and of how many. Raises `SpecError` for another axis, and
    what measure raises.
    """
    if strange := [name for name in axes if name not in AXES]:
        raise SpecError(f"no axis {strange[0]!r} to sweep over; choose from {', '.join(AXES)}")
    combinations = list(product(*axes.values()))
    points: list[SweepPoint] = []
    assumptions: dict[str, None] = {}
    notes: dict[str, None] = {}
    for number, values in enumerate(combinations, 1):
        at: dict[str, Any] = dict(zip(axes, values, strict=True))
        report = measure(replace(spec, **at))
        point, assumed = point_of(report, at, hardware)
        points.append(point)
        assumptions |= dict.fromkeys(assumed)
        notes |= dict.fromkeys(report.notes)
        if on_point is not None:
            on_point(number, len(combinations))
    return Sweep(
        model=spec.model,
        axes={name: tuple(values) for name, values in axes.items()},
        hardware="" if hardware is None else hardware.name,
        points=tuple(points),
        assumptions=tuple(assumptions),
        notes=tuple(notes),
    )


def point_of(
    report: FlopsReport, at: Mapping[str, int], hardware: Hardware | None
) -> tuple[SweepPoint, tuple[str, ...]]:
    """(the row of a report, the assumptions of its predicted time)."""
    account = account_of(report, hardware)
    step, timed = account.totals, account.step
    predicted = None if hardware is None else account.prediction  # without one, also not those of the report's own
    bound = None
    if hardware is not None and account.roofline is not None:
        rows = account.roofline.exclusive
        bound = COMPUTE if sum(r.compute_ns for r in rows) >= sum(r.memory_ns for r in rows) else MEMORY
    step_ns = None if timed is None else timed.typical
    took = step_ns or (None if predicted is None else predicted.predicted_ns)
    point = filled(
        SweepPoint,
        step,
        at=dict(at),
        intensity=step.step.intensity,
        param_bytes=account.params.bytes,
        tokens=report.tokens,
        step_ns=step_ns,
        bound_ns=None if predicted is None else predicted.bound_ns,
        predicted_ns=None if predicted is None else predicted.predicted_ns,
        bound=bound,
        tokens_per_s=1e9 * report.tokens / took if report.tokens and took else None,
    )
    return point, () if predicted is None else predicted.assumptions
