"""Memory-bound kernels that one kernel could do: rules 14 and 15."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import Change
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.copies import copying
from weftrace.advice.findings.rules.gemms import reached_share
from weftrace.advice.findings.rules.kernels import COMPILED, device_kernels, of_optimizer, place, taking, total_ns
from weftrace.advice.findings.rules.softmaxes import attention_parts
from weftrace.advice.kernel_times import at_efficiency, fused
from weftrace.analysis.findings import Number
from weftrace.errors import AdviceError
from weftrace.units import counted, percent

#: Of kernels that read, compute little and write.
_GLUE = ("elementwise", "activation", "norm", "rope", "reduction", "rng", "copy", "memcpy_d2d", "quantize", "softmax")
#: Kernels of libraries that are fused already, by hand or in Triton.
_FUSED = r"fused|liger|^_?triton|^_\w*(?:fwd|bwd|forward|backward)\w*$"
#: Of kernels whose result is as large as the largest tensor that they read.
_PER_ELEMENT = ("elementwise", "activation")
#: Others that memory bounds, and that are not fused with what is beside them.
_BESIDE = ("moe_routing", "index", "sort")
#: Flash attention's backward computes the scores again: five products where there are four.
_RECOMPUTES = 1.25
#: Of what plain products would take for the FLOPs of attention, what a fused kernel takes under a causal mask, of
#: which it computes half.
_AT_BEST = 0.5
#: Of the peak of the memory, what kernels that only move data reach.
_OF_MEMORY = 0.8
_TENSOR = re.compile(r"\[(\d[\d, ]*)\]")
_MOST_FUSED = 32  # kernels of a chain in one: longer chains go from tensor to tensor


def unfused_attention(evidence: Evidence) -> Iterator[Found]:
    """14: attention as products with a softmax between them."""
    kernels = device_kernels(evidence)
    parts = attention_parts(evidence)
    softmaxes, products = parts.filter(pl.col("part") == "softmax"), parts.filter(pl.col("part") == "product")
    if softmaxes.height < 2:
        return
    apart = parts.filter(pl.col("part") != "product")
    then = _at_rate(evidence, products)
    longer = max(0, total_ns(products) - round(float(then.sum())))
    cost, of_all = total_ns(apart), total_ns(kernels)
    if cost + longer < rule_text("unfused-attention").thresholds["least_share_of_kernels"] * of_all:
        return
    known = parts.get_column("operator_name").is_not_null().any()
    yield Found(
        sentence=f"Attention's softmax and the kernels between its matrix products take {evidence.time(cost)}, "
        f"{percent(cost / of_all)} of kernel time: attention is not fused.",
        cost_ns=cost,
        evidence=(
            Number(name="softmax", value=total_ns(softmaxes), unit="ns"),
            Number(name="masks, scales, casts and dropout", value=total_ns(apart) - total_ns(softmaxes), unit="ns"),
            Number(name="its products", value=total_ns(products), unit="ns"),
            Number(name="of it, longer than their FLOPs need", value=longer, unit="ns"),
            Number(name="softmaxes", value=softmaxes.height, unit="count"),
        ),
        where=place(evidence, apart, operator=_first(softmaxes)),
        least=(_fused_attention(evidence, apart, products, None),),
        most=(_fused_attention(evidence, apart, products, _at_rate(evidence, products, _AT_BEST)),),
        confidence="high" if known else "medium",
        reason="each softmax runs between two batched products" if known
        else "each softmax runs between two products; operators are not recorded",
    )  # fmt: skip


def _fused_attention(
    evidence: Evidence, apart: pl.DataFrame, products: pl.DataFrame, then: NDArray[np.float64] | None
) -> Change:
    """No softmax and nothing between; products take their times then, or as now, those of the backward longer."""
    how = "as they are" if then is None else "at the rate of others"
    if then is None:
        longer = np.where(products.get_column("is_backward").to_numpy(), _RECOMPUTES, 1.0)
        then = products.get_column("dur_ns").to_numpy() * longer
    lasts = np.concatenate([np.zeros(apart.height), then])
    return taking(evidence, f"fused attention, its products {how}", pl.concat([apart, products]), lasts)


def _at_rate(evidence: Evidence, products: pl.DataFrame, takes: float = 1.0) -> NDArray[np.float64]:
    """Times of products in a fused kernel, which computes the scores again in the backward. takes: of what they would
    take at the rate of others in 16 bits. At most as they are, and so where rates are not known."""
    lasts = products.get_column("dur_ns").to_numpy().astype(np.float64)
    chip, reached = evidence.hardware, reached_share(evidence, but_batched=True)
    half = 0.0 if chip is None else max(chip.peak_flops.get(dtype, 0.0) for dtype in ("bf16", "fp16"))
    if not half or not reached:
        return lasts
    try:
        change = at_efficiency("", evidence.work, products.get_column("at"), half * reached / takes)
    except AdviceError:  # no shapes
        return lasts
    then = np.full(evidence.work.events.height, np.inf)
    then[change.times[0].event] = change.times[0].duration_ns
    longer = np.where(products.get_column("is_backward").to_numpy(), _RECOMPUTES, 1.0)
    at_most: NDArray[np.float64] = np.minimum(lasts, then[products.get_column("at").to_numpy()] * longer)
    return at_most


def unfused_elementwise(evidence: Evidence) -> Iterator[Found]:
    """15: memory-bound kernels, one after the other, each of which reads what the one before wrote."""
    kernels = device_kernels(evidence)
    limits = rule_text("unfused-elementwise").thresholds
    attention = attention_parts(evidence)
    copies, told_apart = copying(evidence)
    apart = [attention, copies] if told_apart else [attention]
    bound = kernels.filter(
        pl.col("family").is_in((*_GLUE, *_BESIDE)) & ~pl.col("name").str.contains(f"{COMPILED}|{_FUSED}"),
        ~pl.col("at").is_in(pl.concat([each.get_column("at") for each in apart]).implode()),
    )
    bound = bound.filter(~of_optimizer(evidence, bound))
    of_all = total_ns(kernels)
    chains = _chains(evidence, bound.filter(pl.col("family").is_in(_GLUE)))
    if chains.is_empty():
        return
    then = _fused(evidence, chains)
    long = (pl.len().over("chain") >= limits["least_kernels"]).alias("long")
    saved = float((chains.get_column("dur_ns") - then).filter(chains.select(long).to_series()).sum())
    least = limits["least_share_training" if evidence.is_training else "least_share_inference"]
    if total_ns(bound) < least * of_all and evidence.share(saved) < limits["least_saved"]:
        return
    cost, num = total_ns(chains), chains.get_column("chain").n_unique()
    left_out = [name for name, rows in (("attention's", attention), ("copies", copies)) if rows.height and (
        rows is attention or told_apart)]  # fmt: skip
    without = f" ({' and '.join(left_out)} left out)" if left_out else ""
    half = (chains.get_column("dur_ns") + then) / 2
    yield Found(
        sentence=f"Memory-bound kernels that follow each other take {evidence.time(cost)}{without}, "
        f"{percent(cost / of_all)} of kernel time: {counted(evidence.per_step(chains.height), 'kernel')} in "
        f"{counted(evidence.per_step(num), 'chain')}.",
        cost_ns=cost,
        evidence=(
            Number(name="kernels in chains", value=cost, unit="ns"),
            Number(name="all memory-bound kernels", value=total_ns(bound), unit="ns"),
            Number(name="of the time of kernels", value=total_ns(bound) / of_all, unit="share"),
            Number(name="saved where each chain is one kernel", value=cost - round(then.sum()), unit="ns"),
            Number(name="number of kernels in chains", value=chains.height, unit="count"),
            Number(name="chains", value=num, unit="count"),
        ),
        where=place(evidence, chains),
        least=(taking(evidence, "half of the time that fused chains save", chains, half),),
        most=(taking(evidence, "chains of memory-bound kernels as one kernel each", chains, then),),
        confidence="medium",
        reason="that kernels follow each other does not prove that one uses what the other wrote",
    )


def _chains(evidence: Evidence, glue: pl.DataFrame) -> pl.DataFrame:
    """Those of two and more that follow each other on a stream with nothing else between, none of which is known not to
    read what the one before wrote; with `chain`."""
    order = (
        evidence.work.events.with_row_index("at")
        .select("at", "stream")
        .with_columns(pl.int_range(pl.len()).over("stream").alias("place"))
    )
    placed = glue.join(order.select("at", "place"), on="at", maintain_order="left").sort("stream", "place")
    per_element = pl.col("family").is_in(_PER_ELEMENT)
    placed = placed.join(_counts(placed.get_column("sizes")), on="sizes", how="left", maintain_order="left")
    follows = pl.col("counts").list.contains(pl.col("counts").list.max().shift(1)).fill_null(True)
    begins = (pl.col("place").diff() != 1) | (pl.col("stream").diff() != 0)
    begins |= ~follows & per_element & per_element.shift(1)
    placed = placed.with_columns(begins.fill_null(True).cum_sum().alias("chain"))
    return placed.filter(pl.len().over("chain") > 1)


def _counts(sizes: pl.Series) -> pl.DataFrame:
    """Of texts of sizes how many elements each of the tensors has."""
    texts = sizes.drop_nulls().unique().sort()
    counts = [[prod(map(int, one.split(","))) for one in _TENSOR.findall(text)] or None for text in texts]
    return pl.DataFrame({"sizes": texts, "counts": counts}, schema={"sizes": pl.String, "counts": pl.List(pl.Int64)})


def _fused(evidence: Evidence, chains: pl.DataFrame) -> pl.Series:
    """Times of the kernels of chains where each few of a chain are one: as its bytes allow, or as long as the longest
    of them, whichever is less."""
    few = pl.int_range(pl.len()).over("chain") // _MOST_FUSED + pl.col("chain") * chains.height
    rate = None if evidence.hardware is None else _OF_MEMORY * evidence.hardware.hbm_bytes_per_s
    then = np.full(evidence.work.events.height, np.inf)
    for known in {rate, None}:
        number = chains.select(few).to_series()
        (times,) = fused("", evidence.work, chains.get_column("at"), number, bytes_per_s=known).times
        then[times.event] = np.minimum(then[times.event], times.duration_ns)
    return pl.Series(then[chains.get_column("at").to_numpy()])


def _first(kernels: pl.DataFrame) -> str:
    names = kernels.get_column("operator_name").drop_nulls()
    return str(names[0]) if len(names) else ""
