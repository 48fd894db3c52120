"""Memory-bound kernels that one kernel could do: rules 14 and 15."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import Change
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.copies import copying
from weftrace.advice.findings.rules.gemms import NAME, reached_share
from weftrace.advice.findings.rules.kernels import COMPILED, device_kernels, of_optimizer, place, taking, total_ns
from weftrace.advice.findings.rules.softmaxes import attention_parts
from weftrace.analysis.findings import Number
from weftrace.units import S, counted, duration, percent

#: Of kernels that read, compute little and write.
_GLUE = ("elementwise", "activation", "norm", "rope", "reduction", "rng", "copy", "memcpy_d2d", "quantize", "softmax")
#: Others that memory bounds, and that are not fused with what is beside them.
_BESIDE = ("moe_routing", "index", "sort", "embedding", "kv_cache", "pool")
#: Flash attention's backward computes the scores again: five products where there are four.
_RECOMPUTES = 1.25
#: Of the saving that a chain as one kernel would bring: what a compiler, which stops at reductions and views, does.
_REALISTIC = 0.5
_MOST_FUSED = 8  # kernels of a chain in one: longer chains go from tensor to tensor


def unfused_attention(evidence: Evidence) -> Iterator[Found]:
    """14: attention as products with a softmax between them."""
    kernels = device_kernels(evidence)
    parts = attention_parts(kernels)
    apart = parts.filter(pl.col("part") != "product")
    cost, of_all = total_ns(apart), total_ns(kernels)
    softmaxes = parts.filter(pl.col("part") == "softmax")
    if softmaxes.height < 2 or cost < rule_text("unfused-attention").thresholds["least_share_of_kernels"] * of_all:
        return
    products = parts.filter(pl.col("part") == "product")
    known = parts.get_column("operator_name").is_not_null().any()
    yield Found(
        sentence=f"Attention's softmax and what stands between its products take {duration(cost)}, "
        f"{percent(cost / of_all)} of the time of kernels, in {counted(softmaxes.height, 'call')}: it is not fused.",
        cost_ns=cost,
        evidence=(
            Number(name="softmax", value=total_ns(softmaxes), unit="ns"),
            Number(name="masks, scales, casts and dropout", value=cost - total_ns(softmaxes), unit="ns"),
            Number(name="its products", value=total_ns(products), unit="ns"),
            Number(name="softmaxes", value=softmaxes.height, unit="count"),
        ),
        where=place(evidence, apart, operator=_first(softmaxes)),
        least=(_fused_attention(evidence, apart, products, at_rate=False),),
        most=(_fused_attention(evidence, apart, products, at_rate=True),),
        confidence="high" if known else "medium",
        reason="each softmax stands between two batched products" if known
        else "each softmax stands between two products; operators are not recorded",
    )  # fmt: skip


def _fused_attention(evidence: Evidence, apart: pl.DataFrame, products: pl.DataFrame, *, at_rate: bool) -> Change:
    """No softmax and nothing between; products as they are, those of the backward longer, or all at most as long as
    other products of this trace would take for their FLOPs."""
    lasts = products.get_column("dur_ns").to_numpy().astype(np.float64)
    if at_rate:
        lasts = lasts * _at_rate(evidence, products)
    lasts = lasts * np.where(products.get_column("is_backward").to_numpy(), _RECOMPUTES, 1.0)
    how = "at the rate of others" if at_rate else "as they are"
    both = pl.concat([apart, products])
    then = np.concatenate([np.zeros(apart.height), lasts])
    return taking(evidence, f"fused attention, its products {how}", both, then, frees_launches=at_rate)


def _at_rate(evidence: Evidence, products: pl.DataFrame) -> NDArray[np.float64]:
    """What remains of the time of each product where it reaches what others do of the peak in 16 bits."""
    chip, reached = evidence.hardware, reached_share(evidence, without=products.get_column("name"))
    half = 0.0 if chip is None else max(chip.peak_flops.get(dtype, 0.0) for dtype in ("bf16", "fp16"))
    if evidence.efficiency is None or not half or not reached:
        return np.ones(len(products))
    shapes = evidence.efficiency.shapes.filter(pl.col("executed_flops") > 0, pl.col("kind") == "matmul")
    rates = shapes.group_by(pl.col("kernel").str.slice(0, NAME).alias("kernel")).agg(
        pl.col("executed_flops").sum() / pl.col("busy_ns").sum() * S
    )
    own = products.select(pl.col("name").str.slice(0, NAME).alias("kernel"))
    own = own.join(rates, on="kernel", how="left", maintain_order="left")
    remains = own.get_column("executed_flops").fill_null(half * reached) / (half * reached)
    at_most: NDArray[np.float64] = np.minimum(remains.to_numpy(), 1.0)
    return at_most


def unfused_elementwise(evidence: Evidence) -> Iterator[Found]:
    """15: memory-bound kernels, one after the other, each of which reads what the one before wrote."""
    kernels = device_kernels(evidence)
    limits = rule_text("unfused-elementwise").thresholds
    attention = attention_parts(kernels)
    bound = kernels.filter(
        pl.col("family").is_in((*_GLUE, *_BESIDE)) & ~pl.col("name").str.contains(COMPILED),
        ~pl.col("at").is_in(attention.get_column("at").implode()),
    )
    bound = bound.filter(~of_optimizer(evidence, bound))
    of_all = total_ns(kernels)
    least = limits["least_share_training" if evidence.is_training else "least_share_inference"]
    if bound.is_empty() or total_ns(bound) < least * of_all:
        return
    glue = bound.filter(pl.col("family").is_in(_GLUE))
    copies, told_apart = copying(evidence, kernels)
    left_out = ["attention's"] if attention.height else []
    if told_apart:
        glue = glue.filter(~pl.col("at").is_in(copies.get_column("at").implode()))
        left_out.append("copies")
    chains = _chains(evidence, glue)
    cost = total_ns(chains)
    if not cost:
        return
    apart = f" ({' and '.join(left_out)} left out)" if left_out else ""
    num = chains.get_column("chain").n_unique()
    yield Found(
        sentence=f"Memory-bound kernels that follow each other take {duration(cost)}{apart}: {chains.height:,} kernels "
        f"in {counted(num, 'chain')}, {percent(cost / of_all)} of the time of kernels.",
        cost_ns=cost,
        evidence=(
            Number(name="kernels in chains", value=cost, unit="ns"),
            Number(name="all memory-bound kernels", value=total_ns(bound), unit="ns"),
            Number(name="of the time of kernels", value=total_ns(bound) / of_all, unit="share"),
            Number(name="kernels in chains", value=chains.height, unit="count"),
            Number(name="chains", value=num, unit="count"),
        ),
        where=place(evidence, chains),
        least=(_fused(evidence, chains, _REALISTIC),),
        most=(_fused(evidence, chains, 1.0),),
        confidence="medium",
        reason="that kernels follow each other does not prove that one uses what the other wrote",
    )


def _chains(evidence: Evidence, glue: pl.DataFrame) -> pl.DataFrame:
    """Those of two and more that follow each other on a stream with nothing else between; with `chain`."""
    order = (
        evidence.work.events.with_row_index("at")
        .select("at", "stream")
        .with_columns(pl.int_range(pl.len()).over("stream").alias("place"))
    )
    placed = glue.join(order.select("at", "place"), on="at", maintain_order="left").sort("stream", "place")
    begins = (pl.col("place").diff() != 1) | (pl.col("stream").diff() != 0)
    placed = placed.with_columns(begins.fill_null(True).cum_sum().alias("chain"))
    return placed.filter(pl.len().over("chain") > 1)


def _fused(evidence: Evidence, chains: pl.DataFrame, part: float) -> Change:
    """Each few of a chain as one kernel, which takes as long as the longest of them; or a part of the way there."""
    parts = chains.with_columns((pl.int_range(pl.len()).over("chain") // _MOST_FUSED).alias("part"))
    longest = pl.col("dur_ns") == pl.col("dur_ns").max().over("chain", "part")
    first = longest & (longest.cum_sum().over("chain", "part") == 1)
    then = parts.select(pl.when(first).then(pl.col("dur_ns")).otherwise(pl.col("dur_ns") * (1.0 - part))).to_series()
    label = "chains of memory-bound kernels as one kernel each" if part == 1 else "half of what fused chains would save"
    return taking(evidence, label, chains, then.to_numpy())


def _first(kernels: pl.DataFrame) -> str:
    names = kernels.get_column("operator_name").drop_nulls()
    return str(names[0]) if len(names) else ""
