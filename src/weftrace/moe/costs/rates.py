"""How long does a part of a layer take on an accelerator? By its peaks, or by published rates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weftrace.facts import Hardware, efficiency, gemm_rate, hardware, sustained_flops_per_s
from weftrace.moe.shapes.parts import Part

Floats = NDArray[np.float64]

#: roofline: nothing is faster than the peaks of the SMs and the memory. published: what published kernels reach.
Level = Literal["roofline", "published"]


@cache
def measured_on() -> Hardware:
    """What all published rates are of, with all of its SMs."""
    return hardware("H800 SXM")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOfDevice:
    """An accelerator of which a kernel has some of the SMs, and all of the memory's bandwidth."""

    hardware: Hardware
    num_sms: int

    @property
    def share(self) -> float:
        """Of its SMs."""
        return self.num_sms / self.hardware.num_sms

    def peak(self, dtype: str) -> float:
        """FLOP/s of those SMs; where the chip has no FP8, its BF16."""
        return self.share * self.hardware.peak("bf16" if dtype not in self.hardware.peak_flops else dtype)

    def ratio(self, dtype: str, measured: str) -> float:
        """How much faster in dtype than all SMs of an H800 in the dtype that a rate was measured in."""
        return self.peak(dtype) / measured_on().peak(measured)

    @property
    def memory_ratio(self) -> float:
        """How much faster than the memory of an H800."""
        return self.hardware.hbm_bytes_per_s / measured_on().hbm_bytes_per_s

    @property
    def summary(self) -> str:
        """What a rate was scaled by, "" for an H800's."""
        return "" if self.hardware.name == measured_on().name else f", scaled to {self.hardware.name}"


def roofline_seconds(part: Part, device: PartOfDevice) -> Floats:
    """The larger of FLOPs over the peak of its SMs and bytes over the memory's bandwidth."""
    return np.maximum(part.flops / device.peak(part.dtype), part.moved_bytes / device.hardware.hbm_bytes_per_s)


def published_seconds(part: Part, device: PartOfDevice, *, decode: bool, sparse: bool) -> tuple[Floats, str]:
    """The time, and whose rate it is by. decode: attention cores run over caches. sparse: over chosen keys."""
    if part.sort == "product" and part.name != "gate":
        return _product(part, device)
    if part.sort in ("memory", "casts"):
        return _memory(part.moved_bytes, "bandwidth", device), "published: 0.6 of the memory's bandwidth"
    if part.sort == "core":
        return _core(part, device, decode=decode, sparse=sparse)
    if part.sort == "scores":
        fast = efficiency("attention") * device.peak("fp8")
        summary = "assumed: the indexer at attention's share of the FP8 peak"
        return np.maximum(part.flops / fast, _memory(part.moved_bytes, "cache read", device)), summary
    fast = efficiency("matrix") * device.peak("bf16")
    summary = "assumed: BF16 products at 0.6 of their peak, or matrices read at 0.73 of the memory's bandwidth"
    return np.maximum(part.flops / fast, _memory(part.moved_bytes, "weights read", device)), summary


def _product(part: Part, device: PartOfDevice) -> tuple[Floats, str]:
    """DeepGEMM's rate, scaled by what bounds the product there: SMs and their peak, or the memory's bandwidth."""
    rate = gemm_rate(part.inner, part.columns, grouped=part.grouped)
    groups = part.groups if part.grouped else 1
    on_h800 = rate.seconds(np.asarray(part.rows) / groups, part.inner, part.columns, groups)
    computing = np.asarray(part.flops / rate.best_flops_per_s)
    reading = np.asarray(part.bytes_in_fp8 / _bandwidth("weights read", 1.0))  # as the rates were measured
    here = _memory(part.moved_bytes - part.gradient_bytes, "weights read", device)
    bound = np.maximum(computing / device.ratio(part.dtype, "fp8"), here) / np.maximum(computing, reading)
    seconds = np.where(computing > 0, on_h800 * bound, 0.0) + _memory(part.gradient_bytes, "bandwidth", device)
    exact = (part.inner, part.columns) == (rate.inner, rate.columns) or part.name in ("q_a", "kv_a")
    summary = f"published: DeepGEMM's rates{'' if exact else ', of the nearest product'}"
    if part.dtype != "fp8":
        summary += f", assumed as large a part of the peak in {part.dtype.upper()}"
    if part.backward:
        summary += ", assumed as in the forward"
    if part.backward == "wgrad":
        summary += "; gradients added at 0.6 of the memory's bandwidth"
    return seconds, summary


def _core(part: Part, device: PartOfDevice, *, decode: bool, sparse: bool) -> tuple[Floats, str]:
    work = ("sparse " if sparse else "") + ("decode core" if decode else "core" if sparse else "attention core")
    if part.backward:
        work = "attention core backward"
    fast = sustained_flops_per_s(work) * device.ratio("bf16", "bf16")
    read = _memory(part.moved_bytes, "cache read", device) if decode else 0.0
    summary = f"published: {work} at {sustained_flops_per_s(work) / 1e12:.0f} TFLOP/s"
    summary += ", assumed for a sparse one too" if part.backward and sparse else ""
    summary += ", or the cache at 0.9 of the memory's bandwidth" if decode else ""
    return np.maximum(part.flops / fast, read), summary


def _memory(moved_bytes: float | int | Floats, work: str, device: PartOfDevice) -> Floats:
    return np.asarray(moved_bytes / _bandwidth(work, device.memory_ratio))


def _bandwidth(work: str, ratio: float) -> float:
    """Bytes a second that this kind of work reaches; ratio: of the memory's bandwidth, to an H800's."""
    return efficiency(work) * measured_on().hbm_bytes_per_s * ratio
