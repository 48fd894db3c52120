"""How far is each module from what the device could do? Roofline bounds, and the time above them.

The bound of a module is the sum over its operator calls of the largest of three times: executed matrix FLOPs at the
dtype's dense peak, vector FLOPs at the FP32 peak, bytes at the memory's bandwidth (Williams, Waterman, Patterson:
Roofline, CACM 2009, for each call). The largest is taken of each call, not of the sums: one operator cannot use the
memory while another waits. A cache that keeps a tensor between two operators can beat the bound of memory; nothing
beats that of arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypedDict

import numpy as np
from msgspec import Meta

from weftrace.costs.cost import PHASES, Kind, Phase, Status
from weftrace.costs.rates import limits, rate_notes
from weftrace.facts import Hardware
from weftrace.files.schemas import Count
from weftrace.files.values import As, to_document
from weftrace.flops.derived.columns import Array, Columns, add_up, columns
from weftrace.flops.derived.module_time import Spread, Times, times_of
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook
from weftrace.units import duration, si

TOLERANCE = 0.001  # a rate this much above the peak is a clock's rounding; more is an error

BoundName = Literal["compute", "memory"]
COMPUTE: Final[BoundName] = "compute"
MEMORY: Final[BoundName] = "memory"


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRow(InNotebook):
    """A module in a phase, on one GPU (of merged ranks: their mean).

    module: index into `FlopsReport.modules`. path: its path.
    bound_ns: compute_ns + memory_ns: the bounds of calls that arithmetic limits, and of those that memory does.
    bound: "compute" or "memory", whichever is more of bound_ns. matrix_ns: executed matrix FLOPs at their peaks.
    executed_flops, moved_bytes: floats, for drawing; the exact ones are in `tally`. moved_bytes are those of the
        memory. comm_bytes: bytes of collectives, in no bound.
    unknown_calls: calls of operators without a formula; of these the bytes alone are in the bound, which is then too
        low.
    measured: time of the phase in the module; None where nothing was timed. above_ns: its typical - bound_ns.
    """

    module: int
    path: str
    phase: Phase
    bound_ns: float
    compute_ns: float
    memory_ns: float
    matrix_ns: float
    executed_flops: float
    vector_flops: float
    moved_bytes: float
    comm_bytes: float
    unknown_calls: int
    measured: Spread | None

    @property
    def bound(self) -> BoundName:
        return COMPUTE if self.compute_ns >= self.memory_ns else MEMORY

    @property
    def measured_ns(self) -> int | None:
        return None if self.measured is None else self.measured.typical

    @property
    def above_ns(self) -> float | None:
        return None if self.measured is None else self.measured.typical - self.bound_ns

    @property
    def flops_per_s(self) -> float | None:
        """Executed matrix FLOPs a second of measured time; None where there is no time."""
        return 1e9 * self.executed_flops / self.measured.typical if self.measured and self.measured.typical else None

    @property
    def intensity(self) -> float | None:
        """Executed matrix and vector FLOPs for each byte of memory traffic; None where there is none."""
        return (self.executed_flops + self.vector_flops) / self.moved_bytes if self.moved_bytes else None


class RoofColumns(TypedDict):
    """Rows of a roofline, as columns; bound_ns = compute_ns + memory_ns. measured_ns: in the step of median length."""

    module: Annotated[list[Count], Meta(description="Indices into modules.")]
    bound_ns: list[float]
    compute_ns: Annotated[list[float], Meta(description="Bounds of calls that arithmetic limits.")]
    memory_ns: Annotated[list[float], Meta(description="Bounds of calls that memory limits.")]
    matrix_ns: Annotated[list[float], Meta(description="Executed matrix FLOPs at their dtypes' peaks.")]
    executed_flops: list[float]
    vector_flops: list[float]
    moved_bytes: list[float]
    comm_bytes: Annotated[list[float], Meta(description="Bytes of collectives; in no bound.")]
    unknown_calls: list[Count]
    phase: list[Phase]
    bound: list[BoundName]
    measured_ns: Annotated[list[Count | None], Meta(description="Median.")]
    above_ns: Annotated[list[float | None], Meta(description="measured_ns - bound_ns.")]
    flops_per_s: list[float | None]


def _columns_of(rows: Sequence[RooflineRow]) -> dict[str, list[Any]]:
    return {name: [to_document(getattr(row, name)) for row in rows] for name in RoofColumns.__annotations__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline(InNotebook):
    """Bounds of a model, module by module.

    exclusive: modules without their children. inclusive: with them. Modules in order, phases in order; rows where any
    operator ran. by_phase, bound_ns: of the whole model, ns. flags: rates above the peak. notes: what was assumed.
    """

    hardware: str
    exclusive: Annotated[tuple[RooflineRow, ...], As(RoofColumns, save=_columns_of)]
    inclusive: Annotated[tuple[RooflineRow, ...], As(RoofColumns, save=_columns_of)]
    by_phase: Mapping[Phase, float]
    bound_ns: float
    flags: Annotated[tuple[str, ...], Meta(description="Rates above the peak, in sentences.")]
    notes: tuple[str, ...]

    def worst(self, k: int = 10) -> tuple[RooflineRow, ...]:
        """The k modules and phases with most time above their own roofline, children left out. Empty if not timed."""
        timed = [(row.above_ns, row) for row in self.exclusive if row.above_ns is not None and row.above_ns > 0]
        timed.sort(key=lambda pair: -pair[0])
        return tuple(row for _, row in timed[:k])


def roofline(report: FlopsReport, hardware: Hardware) -> Roofline:
    """Bounds of a report's local operators on a device.

    Of merged ranks the mean work of one is compared with the times, which are the slowest's.
    """
    return roofline_of(report, hardware, columns(report.ops), times_of(report))


def roofline_of(report: FlopsReport, hardware: Hardware, cols: Columns, times: Times) -> Roofline:
    """The same, from the local operators as arrays."""
    own, there = _sums(report, hardware, cols)
    whole, there_below = own.copy(), there.copy()
    add_up(report, whole)
    add_up(report, there_below)
    rows = _rows(report, own, there, times.exclusive)
    by_phase = {phase: float(own[:, n, :2].sum()) for n, phase in enumerate(PHASES) if there[:, n].any()}
    notes = list(rate_notes(cols.costs, hardware, tf32=report.tf32))
    num_unknown = sum(row.unknown_calls for row in rows)
    if num_unknown:
        notes.append(f"{num_unknown:,} calls of operators without a formula are in the bounds with their bytes alone.")
    if report.ranks > 1:
        notes.append(f"Bounds are of the mean work of {report.ranks} merged ranks; times are of the slowest.")
    return Roofline(
        hardware=hardware.name,
        exclusive=rows,
        inclusive=_rows(report, whole, there_below, times.inclusive),
        by_phase=by_phase,
        bound_ns=sum(by_phase.values()),
        flags=_flags(rows, times, hardware),
        notes=tuple(notes),
    )


_FIELDS = 8  # compute_ns, memory_ns, matrix_ns, executed, vector, bytes, comm bytes, unknown calls


def _sums(report: FlopsReport, hardware: Hardware, cols: Columns) -> tuple[Array, Array]:
    """[M, P, fields] of floats, and [M, P] of where anything ran."""
    table = np.zeros((len(cols.costs), _FIELDS))
    for index, cost in enumerate(cols.costs):
        if cost.kind is Kind.FREE:
            continue
        least = limits(cost, hardware, tf32=report.tf32)
        is_comm = cost.kind is Kind.COMM
        table[index] = (
            least.bound_ns if least.is_compute else 0,
            0 if least.is_compute else least.bound_ns,
            least.matrix_ns,
            cost.executed_flops,
            cost.vector_flops,
            0 if is_comm else cost.moved_bytes,
            cost.moved_bytes if is_comm else 0,
            cost.status is Status.UNKNOWN,
        )
    num_keys = len(report.modules) * len(PHASES)
    calls_K = cols.calls_K.astype(float) / report.ranks
    result = np.empty((num_keys, _FIELDS))
    for field in range(_FIELDS):
        column_C = table[:, field]
        result[:, field] = np.bincount(cols.key_K, column_C[cols.cost_K] * calls_K, num_keys) if column_C.any() else 0
    there = np.bincount(cols.key_K, minlength=num_keys) > 0
    return result.reshape(-1, len(PHASES), _FIELDS), there.reshape(-1, len(PHASES))


def _rows(
    report: FlopsReport, values_MPF: Array, there_MP: Array, times: Mapping[tuple[int, Phase], Spread]
) -> tuple[RooflineRow, ...]:
    modules, phases = (each.tolist() for each in np.nonzero(there_MP))
    return tuple(
        RooflineRow(
            module=module,
            path=report.modules[module].path,
            phase=PHASES[phase],
            bound_ns=row[0] + row[1],
            compute_ns=row[0],
            memory_ns=row[1],
            matrix_ns=row[2],
            executed_flops=row[3],
            vector_flops=row[4],
            moved_bytes=row[5],
            comm_bytes=row[6],
            unknown_calls=round(row[7] * report.ranks),
            measured=times.get((module, PHASES[phase])),
        )
        for module, phase, row in zip(modules, phases, values_MPF[there_MP].tolist(), strict=True)
    )


def _flags(rows: tuple[RooflineRow, ...], times: Times, hardware: Hardware) -> tuple[str, ...]:
    """Every place, phase and step whose executed matrix FLOPs would need more than the peak."""
    flags = []
    for row in rows:
        if row.measured is not None:
            name = f"{row.path or 'the model itself'}, {row.phase}"
            flags.append(_flag(name, row.matrix_ns, row.executed_flops, row.measured.typical, hardware))
    for phase, took in times.by_phase.items():
        least = sum(row.matrix_ns for row in rows if row.phase is phase)
        flops = sum(row.executed_flops for row in rows if row.phase is phase)
        flags.append(_flag(f"the whole {phase}", least, flops, took.typical, hardware))
    if times.step is not None:
        least, flops = sum(row.matrix_ns for row in rows), sum(row.executed_flops for row in rows)
        flags.append(_flag("the whole step", least, flops, times.step.typical, hardware))
    return tuple(flag for flag in flags if flag)


def _flag(name: str, least_ns: float, flops: float, took_ns: int, hardware: Hardware) -> str:
    if least_ns <= took_ns * (1 + TOLERANCE):
        return ""
    peak = si(1e9 * flops / least_ns, "FLOP/s", 4)
    rate = si(1e9 * flops / took_ns, "FLOP/s") if took_ns else "no finite rate"
    return (
        f"{name}: {flops:.4g} executed FLOPs in {duration(took_ns)} are {rate}, above the peak of {peak} that "
        f"{hardware.name} has for their dtypes: the clock, the count or the hardware's name is wrong."
    )
