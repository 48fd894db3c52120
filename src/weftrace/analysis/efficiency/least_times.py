"""What is the least time that one call of a shape takes on a chip? By its FLOPs, its bytes, or its way to the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weftrace.analysis.efficiency.costs_of_calls import Shape
from weftrace.analysis.efficiency.values import Bound
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.rates import limits, matrix_peak
from weftrace.facts import Hardware
from weftrace.units import S

_NO_COST = Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastTime:
    """A shape and the least ns of one call of it; all 0 where no chip is known.

    peak: the dtype whose peak its matrix FLOPs are held against. needed_ns, peak_ns: its needed and executed FLOPs at
    that peak. bound_ns: the longest of peak_ns, vector FLOPs at the FP32 peak and bytes at the memory's bandwidth; of
    copies between host and device bytes over that link. bound: which of them it is. note: what stands in for a peak.
    """

    shape: Shape
    cost: Cost
    peak: str | None = None
    needed_ns: float = 0.0
    peak_ns: float = 0.0
    bound_ns: float = 0.0
    bound: Bound | None = None
    note: str = ""


def least_time(shape: Shape, chip: Hardware | None, *, to_host: bool = False) -> LeastTime:
    """The least time of one call. to_host: it copies between host and device."""
    cost = shape.cost or _NO_COST
    if chip is None or shape.cost is None or cost.status is Status.UNKNOWN:
        return LeastTime(shape=shape, cost=cost)
    if to_host:
        rate = chip.pcie_bytes_per_s
        return LeastTime(
            shape=shape,
            cost=cost,
            bound_ns=max(cost.read_bytes, cost.written_bytes) * S / rate if rate else 0.0,
            bound="host link" if rate else None,
        )
    least = limits(cost, chip)
    has_bound = cost.kind is not Kind.COMM and least.bound_ns > 0
    bound: Bound = "compute" if least.is_compute else "memory"
    found = LeastTime(
        shape=shape, cost=cost, bound_ns=least.bound_ns if has_bound else 0.0, bound=bound if has_bound else None
    )
    if not (cost.flops or cost.executed_flops):
        return found
    peak = matrix_peak(chip, cost.dtype)
    rate = S / peak.flops_per_s
    return replace(
        found, peak=peak.dtype, needed_ns=cost.flops * rate, peak_ns=cost.executed_flops * rate, note=peak.note
    )
