"""Products of matrices that the device could do faster: rules 12 and 13."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.kernels import GEMMS, device_kernels, place, taking, total_ns, with_precision
from weftrace.advice.kernel_times import costs_of_kernels
from weftrace.advice.op_times import OpTimes
from weftrace.analysis.efficiency.precision import is_older
from weftrace.analysis.efficiency.values import ShapeRow
from weftrace.analysis.findings import Number
from weftrace.facts import Hardware
from weftrace.files.columns import frame_schema
from weftrace.units import S, percent

#: Solvers and the like, which are in FP32 for a reason.
_EXACT = r"(?i)linalg|cholesky|_svd|eigh?\b|solve|inverse|_lu_|qr\b|det\b|cdist"
_LEAST_KERNEL_NS = 5_000  # of a product, however fast its units are
_LATENCY_NS = 1_000  # what arithmetic and memory need of a product that neither of them bounds
_OF_MEMORY = 0.9  # of the peak of the memory, what a product reaches
_POSSIBLE = 1.05  # of a peak: more is none
_UNMEASURED = 0.5  # of what the peaks say, where no product of the trace shows what is reached
_LEAST_SAVED = 0.1  # of the time of older kernels: less than that they are behind by chance
_LEAST_LEFT = 1 / 3  # of the time of an older kernel
_ALIKE = 4.0  # times the least time of a call: products of about the same size
NAME = 100  # characters of a kernel's name, of which the table of shapes has the first 119
#: The contiguous size of each matrix in a text of sizes.
_LAST = re.compile(r"x(\d+)\]")

_Floats = NDArray[np.float64]


def fp32_gemm(evidence: Evidence) -> Iterator[Found]:
    """12: products in FP32 beside the tensor cores that the device has."""
    products = with_precision(device_kernels(evidence).filter(pl.col("family").is_in((*GEMMS, "conv"))))
    slow = products.filter(
        pl.col("computes_in") == "fp32", ~pl.col("tensor_cores"),
        ~pl.col("operator_name").str.contains(_EXACT).fill_null(False),
    )  # fmt: skip
    cost, of_all = total_ns(slow), total_ns(products)
    faster, chip = _faster(evidence, products), evidence.hardware
    if not faster or not _matters(evidence, "fp32-gemm", cost, of_all):
        return
    changes: tuple[OpTimes, ...] = ()
    reason, is_by_shapes = "the chip's peaks are not known", False
    if chip is not None:
        takes, reason, is_by_shapes = _takes(evidence, chip, faster, slow)
        changes = tuple(taking(evidence, f"FP32 products in {what}", slow, lasts) for what, lasts in takes.items())
        saved = max((cost - float(lasts.sum()) for lasts in takes.values()), default=cost)
        if evidence.share(saved) < rule_text("fp32-gemm").thresholds["least_share"]:
            return
    yield Found(
        sentence=f"Matrix products in FP32 without tensor cores take {evidence.time(cost)}, "
        f"{percent(evidence.share(cost))} of the {'step' if evidence.num_steps else 'recording'}, "
        f"{percent(cost / of_all)} of the time of all products.",
        cost_ns=cost,
        evidence=(
            Number(name="time of products in FP32", value=cost, unit="ns"),
            Number(name="of the time of all products", value=cost / of_all, unit="share"),
            Number(name="kernels", value=slow.height, unit="count"),
        ),
        where=place(evidence, slow),
        least=changes[:1],
        most=changes[1:],
        not_told="" if changes else reason,
        confidence="high" if is_by_shapes else "medium",
        reason=f"the kernels' names say so; {reason}",
    )


def _matters(evidence: Evidence, rule: str, cost: int, of_all: int) -> bool:
    """Whether some products take enough of the time of products, and of the recording."""
    limits = rule_text(rule).thresholds
    enough = cost >= limits["least_share_of_gemms"] * of_all and evidence.share(cost) >= limits["least_share"]
    return cost > 0 and enough


def _faster(evidence: Evidence, products: pl.DataFrame) -> tuple[str, ...]:
    """What the device multiplies faster than FP32 on units of its own, the slowest first. A file that names no device
    may have products that ran on such units."""
    chip = evidence.hardware
    if chip is None:
        device = evidence.work.device
        capability = None if device is None else evidence.trace.device(device).capability
        least = rule_text("fp32-gemm").thresholds["least_capability"]
        shown = bool(products.get_column("tensor_cores").any())
        has_them = shown if capability is None else capability[0] >= least and not evidence.trace.on_rocm
        return ("tf32", "bf16") if has_them else ()
    peaks = chip.peak_flops
    half = "bf16" if "bf16" in peaks else "fp16"
    return tuple(d for d in ("tf32", half) if d in peaks and "fp32" in peaks and peaks[d] > peaks["fp32"])


def _takes(
    evidence: Evidence, chip: Hardware, faster: tuple[str, ...], slow: pl.DataFrame
) -> tuple[dict[str, _Floats], str, bool]:
    """What products take in faster dtypes, the slowest first, in words; what that rests on; and whether shapes bound
    it. A product takes no less than its bytes need, and as long as now where neither arithmetic nor memory is its
    limit; none where recorded shapes cannot be right."""
    lasts = slow.get_column("dur_ns").to_numpy().astype(np.float64)
    costs = costs_of_kernels(evidence.work, slow.get_column("at").to_numpy(), "FP32 products")
    flops, moved = (costs.get_column(name).to_numpy() for name in ("executed_flops", "moved_bytes"))
    peak, part = chip.peak_flops["fp32"], lasts / np.maximum(costs.get_column("call_ns").to_numpy(), 1)
    least_ns, stored = flops * part / peak * S, _bytes_of_fp32(evidence, costs)
    memory_ns = moved * stored * part / (chip.hbm_bytes_per_s * _OF_MEMORY) * S
    known = ~np.isnan(least_ns) & ~np.isnan(memory_ns)
    is_by_shapes = bool(lasts[known].sum() >= lasts.sum() / 2)
    own = float(np.median(least_ns[known] / lasts[known])) if known.any() else 0.0
    reached = reached_share(evidence)
    if max(own, reached or 0.0) > _POSSIBLE:
        return {}, "the recorded shapes cannot be right: products would be faster than the peak", False
    tiny = known & (np.fmax(least_ns, memory_ns) < _LATENCY_NS)
    at_least = np.where(tiny, lasts, np.full_like(lasts, _LEAST_KERNEL_NS))
    takes = {}
    for dtype in faster:
        slower = np.where(known, np.fmax(1.0, least_ns / lasts / reached), 1.0) if reached else 1.0
        size = 1.0 if dtype == "tf32" else 0.5  # of its bytes
        then = np.fmax(lasts * peak / chip.peak_flops[dtype] * slower, np.where(known, memory_ns * size, 0))
        takes[dtype.upper()] = np.minimum(lasts, np.maximum(then, at_least))
    if reached is not None and is_by_shapes:
        why = f"others of this trace reach {percent(reached)} of their peak, these {percent(own)} of FP32's"
        return takes, why, True
    first, last = (takes[dtype.upper()] for dtype in (faster[0], faster[-1]))
    half = {f"{faster[0].upper()}, half of the gain by peaks": lasts - (lasts - first) * _UNMEASURED}
    why = "no other product of this trace shows what its tensor cores reach: from half of the gain by peaks to all"
    return half | {faster[-1].upper(): last}, why, is_by_shapes


def _bytes_of_fp32(evidence: Evidence, costs: pl.DataFrame) -> _Floats:
    """Bytes that a kernel of FP32 moves, over those of the recorded dtypes: 2 where these are of 16 bits."""
    types = evidence.trace.events.get_column("input_types").gather(costs.get_column("call").cast(pl.UInt32))
    is_half = types.cast(pl.String).str.contains(r"(?i)half|bfloat16").fill_null(False)
    return np.where(is_half.to_numpy(), 2.0, 1.0)


def reached_share(evidence: Evidence, *, but_batched: bool = False) -> float | None:
    """Of the peak, what products on tensor cores reach for half of their time; None where there are none. but_batched:
    without those of batches of matrices."""
    others = pl.col("shapes").str.contains(r"\[\d+x\d+\]") if but_batched else pl.lit(True)
    return _usual(_rated(evidence, pl.col("tensor_cores") & others))


def _begins(names: pl.Series) -> pl.Expr:
    """Whether the longest kernel of a shape is one of these."""
    return pl.col("kernel").str.slice(0, NAME).is_in(names.str.slice(0, NAME).unique().implode())


def _rated(evidence: Evidence, which: pl.Expr) -> pl.DataFrame:
    """Shapes of products, those that are held against a peak."""
    if evidence.efficiency is None:
        return pl.DataFrame(schema=frame_schema(ShapeRow))
    of_products = pl.col("kind").is_in(("matmul", "conv")) & pl.col("peak_share").is_not_null()
    return evidence.efficiency.shapes.filter(of_products, which)


def _usual(shapes: pl.DataFrame, column: str = "peak_share") -> float | None:
    """Median of a column by time; None of no time."""
    rows = shapes.sort(column)
    busy = np.cumsum(rows.get_column("busy_ns").to_numpy())
    return float(rows.get_column(column)[int(np.searchsorted(busy, busy[-1] / 2))]) if len(busy) and busy[-1] else None


def old_gemm_kernels(evidence: Evidence) -> Iterator[Found]:
    """13: products in kernels that were built for an older device, slower than others of this trace."""
    device = evidence.work.device
    capability = None if device is None else evidence.trace.device(device).capability
    products = with_precision(device_kernels(evidence).filter(pl.col("family").is_in(GEMMS)))
    told = {each: is_older(each, capability) for each in products.get_column("architecture").unique()}
    is_old = pl.col("architecture").replace_strict(told, default=False, return_dtype=pl.Boolean).fill_null(False)
    off_cores = ((pl.col("computes_in") == "fp32") & ~pl.col("tensor_cores")).fill_null(False)  # of rule 12
    old = products.filter(is_old & ~off_cores)
    cost, of_all = total_ns(old), total_ns(products)
    if not _matters(evidence, "old-gemm-kernels", cost, of_all):
        return
    factor, misaligned = _as_native(evidence, old)
    if factor is not None and 1 - factor < _LEAST_SAVED:
        return
    lasts = old.get_column("dur_ns").to_numpy()
    changes = () if factor is None else (
        taking(evidence, "older products half of the way to the rate of native ones", old, lasts * (1 + factor) / 2),
        taking(evidence, "older products at the rate of native ones", old, lasts * factor),
    )  # fmt: skip
    words = " and ".join(sorted(set(old.get_column("architecture").drop_nulls()))[:2])
    odd = f", {percent(misaligned)} of it with sizes that 8 does not divide" if misaligned else ""
    assert capability is not None
    yield Found(
        sentence=f"Matrix products in kernels built for {words} take {evidence.time(cost)} on a GPU of "
        f"sm{capability[0]}{capability[1]}: {percent(cost / of_all)} of the time of all products{odd}.",
        cost_ns=cost,
        evidence=(
            Number(name="time in older kernels", value=cost, unit="ns"),
            Number(name="of the time of products", value=cost / of_all, unit="share"),
            Number(name="of it, sizes that 8 does not divide", value=misaligned, unit="share"),
        ),
        where=place(evidence, old),
        least=changes[:1],
        most=changes[1:],
        not_told="" if changes else "no native kernel of this trace shows what is reached at such sizes",
        confidence="high" if misaligned > 0.5 else "medium" if changes else "low",
        reason="sizes that do not fit the native kernels' alignment" if misaligned > 0.5
        else "the library may have chosen these for their shapes",
    )  # fmt: skip


def _alike(shapes: pl.DataFrame, least_ns: float | None) -> pl.DataFrame:
    """Shapes of about that least time of a call; else the largest of those below, which larger ones do not fall short
    of."""
    if least_ns is None:
        return shapes.clear()
    size = pl.col("least_ns")
    alike = shapes.filter(size.is_between(least_ns / _ALIKE, least_ns * _ALIKE))
    return shapes.filter(size < least_ns).filter(size >= size.max() / _ALIKE) if alike.is_empty() else alike


def _as_native(evidence: Evidence, old: pl.DataFrame) -> tuple[float | None, float]:
    """(what remains of the time of older kernels where they reach what native ones do of the roofline at like sizes,
    None where none shows it; share of their time with sizes that 8 does not divide)."""
    if evidence.efficiency is None:
        return None, 0.0
    least_ns = (pl.col("roofline_share") * pl.col("busy_ns") / pl.col("num_calls")).alias("least_ns")
    shapes = evidence.efficiency.shapes.filter(pl.col("kind") == "matmul").with_columns(least_ns)
    is_mine = _begins(old.get_column("name"))
    others = shapes.filter(~is_mine & pl.col("tensor_cores")).drop_nulls("least_ns")
    total = known = 0
    odd = then = 0.0
    for row in shapes.filter(is_mine).iter_rows(named=True):
        busy, least = row["busy_ns"], row["least_ns"]
        total += busy
        odd += busy * any(int(size) % 8 for size in _LAST.findall(row["shapes"]))
        alike = _alike(others, least)
        if reached := _usual(alike, "roofline_share"):
            known, then = known + busy, then + busy * float(np.clip(row["roofline_share"] / reached, _LEAST_LEFT, 1))
    return then / known if total and known >= total / 2 else None, odd / max(total, 1)
