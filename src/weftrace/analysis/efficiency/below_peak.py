"""Why is a shape below its peak? What the numbers hold of it, in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from weftrace.analysis.efficiency.precision import KernelPrecision, is_older
from weftrace.facts import Hardware, gemm_rates
from weftrace.units import counted, duration, grouped, percent, si

_HIGH_SHARE = 0.7  # of the peak: what published products reach; nothing is sought above it
_FEW = 10  # FLOP/byte: below, a decimal counts
_EXPLAINED = 0.5  # of what the measured reasons leave: below, they do not explain where it is
_LEAST_SHARED = 0.1  # of its time: less beside other kernels explains little
_LEAST_LOSS = 0.05  # of places or time: less explains little


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeFacts:
    """What is known of the calls of one shape; None, or 0, where it is not known.

    call_ns: device time of one call. peak_share: of the peak of `peak_dtype`, that of what computes (`peak_of`).
    stored_dtype: of its factors. intensity: executed FLOPs for each byte. memory_share: the least time of its bytes
    over its time, where memory bounds it by the roofline. launch_ns: the host's time in the call that launched it.
    kernel: what the name of its longest kernel tells. capability: of the device. num_blocks, num_waves,
    last_wave_empty_share: of that kernel (`waves_of`). split_k: whether any of its kernels adds parts of the depth.
    copies_ns: of call_ns, kernels of it that only copy or transpose. beside_share: of its time, in which kernels of
    other streams ran, which took part of the device. best_share: of the peak, the fastest of its calls.
    published_flops_per_s: what others publish for this shape (`published_flops_per_s`).
    """

    call_ns: float
    peak_share: float
    peak_dtype: str
    stored_dtype: str
    chip: Hardware
    intensity: float | None = None
    memory_share: float | None = None
    launch_ns: float | None = None
    kernel: KernelPrecision = field(default_factory=KernelPrecision)
    capability: tuple[int, int] | None = None
    num_blocks: int | None = None
    num_waves: int | None = None
    last_wave_empty_share: float | None = None
    split_k: bool = False
    copies_ns: float = 0.0
    beside_share: float = 0.0
    best_share: float | None = None
    published_flops_per_s: float | None = None


def why_below(facts: ShapeFacts) -> str:
    """One sentence on what the numbers hold of a shape below its peak, then what it reaches at best; "" where they hold
    nothing, or where it is at 70 % of its peak and computes as fast as its chip can in what is stored.

    These are facts, and together they need not explain all that is missing: where the measured ones leave twice of what
    is reached, and nothing else is named, the sentence says so.
    """
    slower = list(_slower_units(facts))
    below = facts.peak_share < _HIGH_SHARE
    measured = list(_measured(facts)) if below else []
    reasons = [*slower, *(sentence for sentence, _ in measured), *(_named(facts) if below else ())]
    if not reasons:
        return ""
    head = f"{percent(facts.peak_share)} of the {facts.peak_dtype.upper()} peak"
    left = math.prod(share for _, share in measured)
    rest = ""
    if len(reasons) == len(measured) and facts.peak_share < _EXPLAINED * left:
        rest = f"That leaves {percent(left)} possible: the file does not show what takes the rest."
    return " ".join(filter(None, (f"{head}: {'; '.join(reasons)}.", rest, *_at_best(facts))))


def published_flops_per_s(rows: int, inner: int, columns: int, dtype: str, chip: Hardware) -> float | None:
    """The rate that DeepGEMM publishes for just this product [rows, inner] x [inner, columns] in FP8 on an H800.

    Between published numbers of rows it is interpolated; None of other widths, fewer or more rows, dtypes and chips.
    """
    if dtype != "fp8" or chip.name != "H800 SXM":
        return None
    for rate in gemm_rates():
        is_it = (rate.inner, rate.columns, rate.grouped) == (inner, columns, False)
        if is_it and rate.rows[0] <= rows <= rate.rows[-1]:
            return 2.0 * rows * inner * columns / float(rate.seconds(rows, inner, columns))
    return None


def _slower_units(facts: ShapeFacts) -> Iterator[str]:
    """It computes where, or in what, its chip is slower than it need be."""
    if facts.kernel.tensor_cores is not False:
        return
    peaks, stored = facts.chip.peak_flops, facts.stored_dtype
    faster = "tf32" if stored == "fp32" else stored
    if stored in ("fp32", "bf16", "fp16") and faster in peaks and "fp32" in peaks and peaks[faster] > peaks["fp32"]:
        times = grouped(peaks[faster] / peaks["fp32"], 1)
        what = "computes in FP32, not on" if stored == "fp32" else "does not run on"
        yield f"it {what} tensor cores; their {faster.upper()} peak is {times} times that of FP32"


def _measured(facts: ShapeFacts) -> Iterator[tuple[str, float]]:
    """Reasons whose part is known: (reason, the share of the peak that it leaves)."""
    chip, peak = facts.chip, facts.chip.peak_flops.get(facts.peak_dtype)
    if facts.memory_share is not None and facts.intensity is not None and peak:
        ridge = peak / chip.hbm_bytes_per_s
        if facts.intensity < (1 - _LEAST_LOSS) * ridge:
            does = grouped(facts.intensity, 0 if facts.intensity >= _FEW else 1)
            yield (
                f"its shape allows {percent(facts.intensity / ridge)} at most, because memory bounds it ({does} FLOP "
                f"for each byte where {grouped(ridge)} are needed)",
                facts.intensity / ridge,
            )
    yield from _waves(facts)
    if facts.copies_ns >= _LEAST_LOSS * facts.call_ns > 0:
        share = facts.copies_ns / facts.call_ns
        yield f"copies of layouts take {percent(share)} of its time", 1 - share


def _named(facts: ShapeFacts) -> Iterator[str]:
    """Reasons of which it is not known how much they take."""
    if facts.launch_ns is not None and facts.call_ns < facts.launch_ns:
        yield f"it is small: a call takes {duration(facts.call_ns)}, its launch {duration(facts.launch_ns)} of the host"
    if facts.beside_share >= _LEAST_SHARED:
        yield f"kernels of other streams ran beside it for {percent(facts.beside_share)} of its time"
    if facts.split_k or facts.kernel.split_k:
        yield "its depth is split among blocks (split-K), and their parts must be added"
    if is_older(facts.kernel.architecture, facts.capability) and facts.capability is not None:
        major, minor = facts.capability
        yield f"its kernel was built for {facts.kernel.architecture}, the device is of {major}.{minor}"


def _waves(facts: ShapeFacts) -> Iterator[tuple[str, float]]:
    waves, empty = facts.num_waves, facts.last_wave_empty_share
    if waves is None or empty is None or empty / waves < _LEAST_LOSS:
        return
    if waves == 1:
        blocks = "" if facts.num_blocks is None else f" {counted(facts.num_blocks, 'block')}"
        yield f"its{blocks or ' blocks'} leave {percent(empty)} of the places of one wave empty", 1 - empty
    else:
        lost = empty / waves
        yield f"the last of {waves} waves is {percent(empty)} empty, {percent(lost)} of all places", 1 - lost


def _at_best(facts: ShapeFacts) -> Iterator[str]:
    if facts.best_share is not None and facts.best_share >= facts.peak_share + _LEAST_LOSS:
        yield f"The fastest of its calls reaches {percent(facts.best_share)}."
    if facts.published_flops_per_s is not None and (peak := facts.chip.peak_flops.get(facts.peak_dtype)):
        rate, share = si(facts.published_flops_per_s, "FLOP/s"), percent(facts.published_flops_per_s / peak)
        yield f"DeepGEMM publishes {rate} for this product, {share}."
