"""Products of matrices that the device could do faster: rules 12 and 13."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.kernels import GEMMS, device_kernels, place, taking, total_ns, with_precision
from weftrace.advice.op_times import OpTimes
from weftrace.analysis.efficiency.precision import is_older
from weftrace.analysis.efficiency.values import ShapeRow
from weftrace.analysis.findings import Number
from weftrace.facts import Hardware
from weftrace.files.columns import frame_schema
from weftrace.units import S, duration, percent

#: Solvers and the like, which are in FP32 for a reason.
_EXACT = r"(?i)linalg|cholesky|_svd|eigh?\b|solve|inverse|_lu_|qr\b|det\b|cdist"
_LEAST_KERNEL_NS = 5_000  # of a product, however fast its units are
_UNMEASURED = 0.5  # of what the peaks say, where no product of the trace shows what is reached
_LEAST_SAVED = 0.1  # of the time of older kernels: less than that they are behind by chance
_LEAST_LEFT = 1 / 3  # of the time of an older kernel
_ALIKE = 4.0  # times the least time of a call: products of about the same size
NAME = 100  # characters of a kernel's name, of which the table of shapes has the first 119
#: The contiguous size of each matrix in a text of sizes.
_LAST = re.compile(r"x(\d+)\]")


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
    reason = "the chip's peaks are not known"
    if chip is not None:
        factors, reason = _factors(evidence, chip, faster)
        lasts = slow.get_column("dur_ns").to_numpy()
        changes = tuple(
            taking(evidence, f"FP32 products in {dtype.upper()}{how}", slow,
                   np.minimum(lasts, np.maximum(lasts * factor, _LEAST_KERNEL_NS)))
            for (dtype, how), factor in factors.items()
        )  # fmt: skip
    yield Found(
        sentence=f"Products in FP32, off the tensor cores, take {duration(cost)}: {percent(cost / of_all)} of the time "
        f"of all products, {percent(evidence.share(cost))} of the recording.",
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
        confidence="high" if chip is not None else "medium",
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


def _factors(evidence: Evidence, chip: Hardware, faster: tuple[str, ...]) -> tuple[dict[tuple[str, str], float], str]:
    """(dtype, which part of the gain, in words) -> what remains of the time, most first; and what that rests on."""
    ratios = {dtype: chip.peak_flops["fp32"] / chip.peak_flops[dtype] for dtype in faster}
    slow = _rated(evidence, (pl.col("computes_in") == "fp32") & ~pl.col("tensor_cores"))
    reached, own = reached_share(evidence), _usual(slow)
    if reached is None or own is None:
        first, last = faster[0], faster[-1]
        why = "no other product of this trace shows what its tensor cores reach: from half of the gain by peaks to all"
        half = 1 - (1 - ratios[first]) * _UNMEASURED
        return {(first, ", half of the gain by peaks"): half, (last, ""): ratios[last]}, why
    why = f"others of this trace reach {percent(reached)} of their peak, these {percent(own)} of FP32's"
    factors = {}
    busy = slow.get_column("busy_ns")
    for dtype, ratio in ratios.items():
        size = 1.0 if dtype == "tf32" else 0.5  # of its bytes
        memory_ns = slow.select((pl.col("read_bytes") + pl.col("written_bytes")) * size / chip.hbm_bytes_per_s * S)
        then = np.maximum(busy.to_numpy() * ratio * max(1.0, own / reached), memory_ns.to_series().to_numpy())
        factors[dtype, ""] = float(np.minimum(then, busy.to_numpy()).sum() / busy.sum())
    return factors, why


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
    words = ", ".join(sorted(set(old.get_column("architecture").drop_nulls()))[:2])
    odd = f" {percent(misaligned)} of that time has sizes that 8 does not divide." if misaligned else ""
    assert capability is not None
    yield Found(
        sentence=f"Products in kernels built for {words} take {duration(cost)} on a device of "
        f"{capability[0]}.{capability[1]}: {percent(cost / of_all)} of the time of products.{odd}",
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
