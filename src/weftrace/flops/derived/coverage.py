"""How much of the work has a formula, and which operators have none?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from msgspec import Meta

from weftrace.costs.cost import PHASES, Kind, Status
from weftrace.files.schemas import Count
from weftrace.flops.derived.columns import Columns, columns
from weftrace.flops.derived.module_time import Times, times_of
from weftrace.flops.derived.tally import MODEL_PHASES
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownOp(InNotebook):
    """An operator without a formula: its calls, the bytes of its tensors, and why it has none."""

    op: str
    calls: Count
    moved_bytes: Count
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage(InNotebook):
    """What part of the local work has a formula. Views (kind FREE) do nothing and count nowhere here.

    calls, moved_bytes, time: fractions of operator calls, of bytes, and of time with a formula; None where there is
        nothing to take a part of (time: nothing was timed).
        time is an ESTIMATE: the clock knows modules, not operators; the exclusive time of each module and phase
        is shared among its operators by their bytes, by calls where no byte moves.
    calls_of_status: calls with an exact formula, with an estimate, an upper bound, and with none. flops_of_status: the
        model FLOPs (forward and backward) of each.
    unattributed_ns: time of modules and phases in which no operator was counted; in neither part of `time`.
    unknown: the operators without a formula, most bytes first.
    """

    calls: float | None
    moved_bytes: float | None
    time: Annotated[float | None, Meta(description="An estimate: modules' times shared among operators by bytes.")]
    calls_of_status: Mapping[Status, int]
    flops_of_status: Annotated[
        Mapping[Status, int],
        Meta(description="Model FLOPs of each: with any 'upper bound', totals are at most that."),
    ]
    unattributed_ns: Annotated[Count, Meta(description="Time in which no operator was counted.")]
    unknown: tuple[UnknownOp, ...]

    @property
    def is_complete(self) -> bool:
        return not self.unknown

    def flops_share(self, status: Status) -> float:
        """The part of the model FLOPs that has a status; 0 where there are none."""
        whole = sum(self.flops_of_status.values())
        return self.flops_of_status[status] / whole if whole else 0.0


def coverage(report: FlopsReport) -> Coverage:
    """The coverage of a report's local operators."""
    return coverage_of(report, columns(report.ops), times_of(report))


def coverage_of(report: FlopsReport, cols: Columns, times: Times) -> Coverage:
    """The same, from the local operators as arrays."""
    calls_of_status = dict.fromkeys(Status, 0)
    known_bytes = unknown_bytes = 0
    for cost, calls in zip(cols.costs, cols.calls_C(), strict=True):
        if cost.kind is not Kind.FREE:
            calls_of_status[cost.status] += calls
            if cost.status is Status.UNKNOWN:
                unknown_bytes += calls * cost.moved_bytes
            else:
                known_bytes += calls * cost.moved_bytes
    num_calls = sum(calls_of_status.values())
    time, unattributed = _time(report, cols, times)
    return Coverage(
        calls=(num_calls - calls_of_status[Status.UNKNOWN]) / num_calls if num_calls else None,
        moved_bytes=known_bytes / (known_bytes + unknown_bytes) if known_bytes + unknown_bytes else None,
        time=time,
        calls_of_status=calls_of_status,
        flops_of_status=_flops_of_status(cols),
        unattributed_ns=unattributed,
        unknown=_unknown(report, cols),
    )


def _flops_of_status(cols: Columns) -> dict[Status, int]:
    found = dict.fromkeys(Status, 0)
    is_model_K = np.isin(cols.key_K % len(PHASES), [PHASES.index(phase) for phase in MODEL_PHASES])
    model = replace(cols, calls_K=np.where(is_model_K, cols.calls_K, 0))
    for cost, calls in zip(model.costs, model.calls_C(), strict=True):
        found[cost.status] += calls * cost.flops
    return found


def _unknown(report: FlopsReport, cols: Columns) -> tuple[UnknownOp, ...]:
    is_unknown_C = np.array([cost.status is Status.UNKNOWN and cost.kind is not Kind.FREE for cost in cols.costs], bool)
    found: dict[str, tuple[int, int, str]] = {}
    for index in np.flatnonzero(is_unknown_C[cols.cost_K]).tolist():
        op = report.ops[index]
        calls, num_bytes, note = found.get(op.op, (0, 0, op.cost.note))
        found[op.op] = (calls + op.calls, num_bytes + op.calls * op.cost.moved_bytes, note)
    return tuple(
        UnknownOp(op=name, calls=calls, moved_bytes=num_bytes, note=note)
        for name, (calls, num_bytes, note) in sorted(found.items(), key=lambda item: (-item[1][1], item[0]))
    )


def _time(report: FlopsReport, cols: Columns, times: Times) -> tuple[float | None, int]:
    """(part of the time that is spent in operators with a formula, ns that belong to no operator). Estimates."""
    num_keys = len(report.modules) * len(PHASES)
    calls_K = cols.calls_K.astype(float)
    size_K = calls_K * np.array([float(cost.moved_bytes) for cost in cols.costs])[cols.cost_K]
    counts_K = np.array([cost.kind is not Kind.FREE for cost in cols.costs], bool)[cols.cost_K]
    known_K = counts_K & np.array([cost.status is not Status.UNKNOWN for cost in cols.costs], bool)[cols.cost_K]
    sums = [
        np.bincount(cols.key_K[chosen], weights[chosen], num_keys)
        for weights in (size_K, calls_K)
        for chosen in (known_K, counts_K)
    ]
    known_bytes, all_bytes, known_calls, all_calls = (each.tolist() for each in sums)
    known = whole = 0.0
    unattributed = 0
    for (module, phase), spread in times.exclusive.items():
        took = spread.typical
        key = module * len(PHASES) + PHASES.index(phase)
        if not all_calls[key]:
            unattributed += took
            continue
        share = known_bytes[key] / all_bytes[key] if all_bytes[key] else known_calls[key] / all_calls[key]
        known += took * share
        whole += took
    return (known / whole if whole else None), unattributed
