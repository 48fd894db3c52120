"""Which peak bounds a product? That of the dtype that computes, not of the one that is stored."""

from __future__ import annotations

from dataclasses import replace

from weftrace.costs.rates import Peak, matrix_peak
from weftrace.facts import Hardware
from weftrace.units import grouped, si

# Dtypes that CUDA cores multiply no faster than FP32, as far as `facts` knows: it holds the fastest units' peaks.
_NARROW = ("tf32", "bf16", "fp16", "fp8", "fp4")
_SPARSE = 2  # 2:4 sparsity: two of four values of a row are 0, and are skipped


def peak_of(
    stored_dtype: str,
    kernel_dtype: str | None,
    tensor_cores: bool | None,
    chip: Hardware,
    *,
    sparse: bool = False,
) -> Peak:
    """The dense peak of what computes, in FLOP/s, with its dtype and a note where another stands in for it.

    stored_dtype: of the operator's factors, "" where it is not recorded. kernel_dtype, tensor_cores, sparse: what the
    kernel's name tells (`kernel_precision`). FP32 products count at TF32's peak where their kernel's name says so, and
    at FP32's where it says nothing: a rate above that is then told by `over_peak_sentence`. Without tensor cores the
    FP32 peak counts for all that is no wider. 2:4 sparsity doubles the peak.
    """
    dtype = kernel_dtype or stored_dtype
    if tensor_cores is False and dtype in _NARROW:
        dtype = "fp32"
    peak = matrix_peak(chip, dtype)
    if not sparse:
        return peak
    note = f"{peak.note} " if peak.note else ""
    return replace(peak, flops_per_s=_SPARSE * peak.flops_per_s, note=f"{note}Twice the dense peak, for 2:4 sparsity.")


def over_peak_sentence(
    flops_per_s: float, peak: Peak, chip: Hardware, *, stored_dtype: str = "", kernel_dtype: str | None = None
) -> str:
    """What must stand beside a rate above its peak, and "" beside every other.

    No device computes faster than its peak, so that a dtype, the clock, the accelerator or the count is wrong; FP32
    products whose kernel's name tells nothing, and whose rate TF32's peak holds, may have run as TF32.
    """
    if not flops_per_s > peak.flops_per_s:
        return ""
    ratio = flops_per_s / peak.flops_per_s
    times = f"at {grouped(ratio, 1)} times" if ratio >= 1.05 else "above"
    what = f"{(stored_dtype or peak.dtype).upper()} products {times} the {peak.dtype.upper()} peak of {chip.name}"
    told = f"{what} ({si(peak.flops_per_s, 'FLOP/s')})"
    if kernel_dtype is None and peak.dtype == "fp32" and chip.peak_flops.get("tf32", 0) >= flops_per_s:
        return f"{told}: they ran as TF32, though no kernel's name says so, or the accelerator is another."
    return f"{told}: no device does that, so the dtype, the clock or the accelerator is wrong, or fewer were computed."
