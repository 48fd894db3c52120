"""What is the least time that one call of a shape takes on a chip? By its FLOPs, its bytes, or its way to the host."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weftrace.analysis.efficiency.costs_of_calls import Shape
from weftrace.analysis.efficiency.peaks import peak_of
from weftrace.analysis.efficiency.shape_kernels import NO_KERNEL, ShapeKernel
from weftrace.analysis.efficiency.values import Bound
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.rates import Peak, limits, matrix_peak
from weftrace.facts import Hardware
from weftrace.units import S

_NO_COST = Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastTime:
    """A shape and the least ns of one call of it; all 0 where no chip is known.

    kernel: what does most of its work. peak: whose rate its matrix FLOPs are held against: that of the dtype that the
    kernel's name says it computes in, on the units that it says. peak_ns: its executed FLOPs at that rate. needed_ns,
    executed_ns: needed and executed FLOPs at the dense peak of that dtype, whatever the units, as MFU has it.
    bound_ns: the longest of peak_ns, vector FLOPs at the FP32 peak and bytes at the memory's bandwidth; of copies
    between host and device bytes over that link. bound: which of them it is.
    """

    shape: Shape
    cost: Cost
    kernel: ShapeKernel = NO_KERNEL
    peak: Peak | None = None
    needed_ns: float = 0.0
    executed_ns: float = 0.0
    peak_ns: float = 0.0
    bound_ns: float = 0.0
    bound: Bound | None = None


def least_time(shape: Shape, kernel: ShapeKernel, chip: Hardware | None) -> LeastTime:
    """The least time of one call on a chip."""
    cost = shape.cost or _NO_COST
    nothing = LeastTime(shape=shape, cost=cost, kernel=kernel)
    if chip is None or shape.cost is None or cost.status is Status.UNKNOWN:
        return nothing
    if kernel.to_host:
        rate = chip.pcie_bytes_per_s
        moved = max(cost.read_bytes, cost.written_bytes)
        return replace(nothing, bound_ns=moved * S / rate, bound="host link") if rate and moved else nothing
    peak, needed_ns, executed_ns, peak_ns = None, 0.0, 0.0, 0.0
    if cost.flops or cost.executed_flops:
        peak = peak_of(cost.dtype, kernel.dtype, kernel.tensor_cores, chip, sparse=kernel.sparse)
        peak_ns = cost.executed_flops * S / peak.flops_per_s
        fastest = matrix_peak(chip, kernel.dtype or cost.dtype).flops_per_s
        needed_ns, executed_ns = (flops * S / fastest for flops in (cost.flops, cost.executed_flops))
    least = limits(cost, chip)
    arithmetic = max(peak_ns, least.vector_ns)
    bound_ns = max(arithmetic, least.memory_ns)
    has_bound = cost.kind is not Kind.COMM and bound_ns > 0
    return replace(
        nothing,
        peak=peak,
        needed_ns=needed_ns,
        executed_ns=executed_ns,
        peak_ns=peak_ns,
        bound_ns=bound_ns if has_bound else 0.0,
        bound=("compute" if arithmetic >= least.memory_ns else "memory") if has_bound else None,
    )
