"""What is the least time that a device needs for one call of an operator? Three limits, and what they assume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weftrace.costs.cost import Cost, Kind
from weftrace.facts import Hardware

VECTOR_NOTE = (
    "Vector work is taken to run at the chip's listed FP32 peak: an assumption, because only dense matrix and "
    "FP32 peaks are published, and packed 16-bit arithmetic can be faster."
)

# What else to use where a chip lists no peak for a dtype, the nearest first: weftrace's choice, told in a note wherever
# it matters. What a chip cannot multiply it converts.
_INSTEAD = {
    "fp4": ("fp8", "bf16", "fp16"),
    "fp8": ("bf16", "fp16"),
    "int8": ("bf16", "fp16"),
    "bf16": ("fp16", "tf32", "fp32"),
    "fp16": ("bf16", "tf32", "fp32"),
    "tf32": ("fp32",),
    "fp32": ("tf32", "bf16", "fp16"),
    "fp64": ("fp32",),
    "complex32": ("fp16", "fp32"),
    "complex64": ("fp32",),
    "complex128": ("fp64", "fp32"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A dense peak in FLOP/s, the dtype it is of, and "" or why it is not the one that was asked for."""

    flops_per_s: float
    dtype: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """Least ns of one call: executed matrix FLOPs at the dtype's peak; vector FLOPs at the FP32 peak; bytes at the
    bandwidth of the memory (0 for collectives, whose bytes cross the network). The call takes no less than the largest.
    """

    matrix_ns: float
    vector_ns: float
    memory_ns: float

    @property
    def bound_ns(self) -> float:
        return max(self.matrix_ns, self.vector_ns, self.memory_ns)

    @property
    def is_compute(self) -> bool:
        """Whether arithmetic, not memory, sets the bound; ties go to arithmetic."""
        return max(self.matrix_ns, self.vector_ns) >= self.memory_ns


def matrix_peak(hardware: Hardware, dtype: str, *, tf32: bool = False) -> Peak:
    """The peak that matrix work of a dtype runs at: FP32 at the TF32 peak where `tf32` allows it and the chip has one;
    where the chip lists none for the dtype, that of the nearest dtype it has (FP8 on A100: BF16), which the note says.
    """
    wanted = "tf32" if dtype == "fp32" and tf32 and "tf32" in hardware.peak_flops else dtype
    if wanted in hardware.peak_flops:
        return Peak(flops_per_s=hardware.peak(wanted), dtype=wanted)
    summary = dtype or "matrix work of no known dtype"
    for other in (*_INSTEAD.get(dtype, ("fp32",)), *hardware.peak_flops):
        if other in hardware.peak_flops:
            note = f"{hardware.name} lists no peak for {summary}: the peak of {other} is used instead."
            return Peak(flops_per_s=hardware.peak(other), dtype=other, note=note)
    raise AssertionError(f"{hardware.name} lists no peak at all")  # weftrace.facts refuses such an entry


def vector_rate(hardware: Hardware) -> float | None:
    """FLOP/s of vector work: the listed FP32 peak (see `VECTOR_NOTE`); None where the chip lists none."""
    return hardware.peak_flops.get("fp32")


def limits(cost: Cost, hardware: Hardware, *, tf32: bool = False) -> CallLimits:
    """Least ns of one call on this hardware."""
    matrix_ns = vector_ns = 0.0
    if cost.executed_flops:
        matrix_ns = 1e9 * cost.executed_flops / matrix_peak(hardware, cost.dtype, tf32=tf32).flops_per_s
    rate = vector_rate(hardware)
    if cost.vector_flops and rate is not None:
        vector_ns = 1e9 * cost.vector_flops / rate
    in_memory = cost.kind not in (Kind.FREE, Kind.COMM)
    memory_ns = 1e9 * cost.moved_bytes / hardware.hbm_bytes_per_s if in_memory else 0.0
    return CallLimits(matrix_ns=matrix_ns, vector_ns=vector_ns, memory_ns=memory_ns)


def used_peaks(costs: Iterable[Cost], hardware: Hardware, *, tf32: bool = False) -> list[Peak]:
    """The peaks that the matrix work of these costs runs at, one for each dtype that was asked for, in its order."""
    dtypes = sorted({cost.dtype for cost in costs if cost.executed_flops})
    return [matrix_peak(hardware, dtype, tf32=tf32) for dtype in dtypes]


def rate_notes(costs: tuple[Cost, ...], hardware: Hardware, *, tf32: bool = False) -> tuple[str, ...]:
    """What the rates of these costs assume."""
    return (*peak_notes(costs, hardware, tf32=tf32), *vector_notes(costs, hardware))


def peak_notes(costs: tuple[Cost, ...], hardware: Hardware, *, tf32: bool = False) -> tuple[str, ...]:
    """Which peaks stand in for those that the chip does not list."""
    return tuple(peak.note for peak in used_peaks(costs, hardware, tf32=tf32) if peak.note)


def vector_notes(costs: tuple[Cost, ...], hardware: Hardware) -> tuple[str, ...]:
    """What the rate of vector work is taken to be, where there is any."""
    if not any(cost.vector_flops for cost in costs):
        return ()
    if vector_rate(hardware) is None:
        return (f"{hardware.name} lists no FP32 peak: vector work is bounded by its bytes alone.",)
    return (VECTOR_NOTE,)
