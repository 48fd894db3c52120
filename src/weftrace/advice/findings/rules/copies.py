"""Kernels that move data and compute nothing: rules 31 and 32."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.kernels import (
    COMPILED,
    COPIES,
    device_kernels,
    of_optimizer,
    place,
    taking,
    total_ns,
)
from weftrace.advice.findings.rules.softmaxes import attention_parts
from weftrace.analysis.findings import Number
from weftrace.units import counted, percent

_LAYOUTS = r"(?i)nchw_?(?:to|2)_?nhwc|nhwc_?(?:to|2)_?nchw|ncdhw_?(?:to|2)_?ndhwc|ndhwc_?(?:to|2)_?ncdhw"
_TRANSPOSES = r"(?i)transpose"
_CONVOLVES = r"(?i)conv"
#: Copies into and out of the buffers of FSDP and collectives, and of caches: not the model's own.
_OF_OTHERS = r"(?i)fsdp|c10d::|nccl:|split_with_sizes_copy|chunk_cat|reshape_and_cache|record_param_comms"
_TYPES = {"float": "FP32", "c10::BFloat16": "BF16", "c10::Half": "FP16", "double": "FP64"}


def copying(evidence: Evidence) -> tuple[pl.DataFrame, bool]:
    """(kernels that cast, copy or concatenate, those that other rules tell left out; whether rule 31 tells them)."""
    return evidence.once(_copying)


def _copying(evidence: Evidence) -> tuple[pl.DataFrame, bool]:
    kernels = device_kernels(evidence)
    copies = kernels.filter(
        pl.col("family").is_in(COPIES), ~pl.col("name").str.contains(COMPILED), ~_of_layouts(),
        ~pl.col("operator_name").str.contains(_OF_OTHERS).fill_null(False),
        ~pl.col("at").is_in(attention_parts(evidence).get_column("at").implode()),
    )  # fmt: skip
    copies = copies.filter(~of_optimizer(evidence, copies))
    least = rule_text("casts-and-copies").thresholds["least_share_of_kernels"]
    return copies, copies.height > 0 and total_ns(copies) >= least * total_ns(kernels)


def casts_and_copies(evidence: Evidence) -> Iterator[Found]:
    """31: kernels that only cast, copy, transpose or concatenate."""
    kernels = device_kernels(evidence)
    copies, is_told = copying(evidence)
    if not is_told:
        return
    copies = copies.with_columns(_what(evidence, copies))
    cost, of_all = total_ns(copies), total_ns(kernels)
    sums = copies.group_by("what").agg(pl.col("dur_ns").sum()).sort("dur_ns", "what", descending=[True, False])
    what, most = sums.row(0)
    casts = total_ns(copies.filter(pl.col("what").str.contains(" from .* to ")))
    yield Found(
        sentence=f"Casts and copies take {evidence.time(cost)}, {percent(cost / of_all)} of kernel time: most is "
        f"{what} ({percent(most / cost, 0)} of it).",
        cost_ns=cost,
        evidence=(
            Number(name="casts and copies", value=cost, unit="ns"),
            *(Number(name=name, value=ns, unit="ns") for name, ns in sums.head(3).iter_rows()),
            Number(name="of it, from one dtype to another", value=casts, unit="ns"),
            Number(name="kernels", value=copies.height, unit="count"),
        ),
        where=place(evidence, copies.filter(what=what), operator=what.split(" ")[0] if "::" in what else ""),
        most=(taking(evidence, "no casts and copies", copies, 0.0),),
        is_bound=True,
        confidence="medium",
        reason="some of them may be needed, which the trace does not tell",
    )


def layout_transforms(evidence: Evidence) -> Iterator[Found]:
    """32: layouts changed before and after convolutions."""
    kernels = device_kernels(evidence)
    layouts = kernels.filter(_of_layouts())
    cost, of_all = total_ns(layouts), total_ns(kernels)
    if not cost or cost < rule_text("layout-transforms").thresholds["least_share_of_kernels"] * of_all:
        return
    yield Found(
        sentence=f"Transforms of layout around convolutions take {evidence.time(cost)}, {percent(cost / of_all)} of "
        f"kernel time, in {counted(evidence.per_step(layouts.height), 'kernel')}.",
        cost_ns=cost,
        evidence=(
            Number(name="transforms of layout", value=cost, unit="ns"),
            Number(name="kernels", value=layouts.height, unit="count"),
        ),
        where=place(evidence, layouts),
        most=(taking(evidence, "no transforms of layout", layouts, 0.0),),
        is_bound=True,
    )


def _of_layouts() -> pl.Expr:
    """Whether a kernel changes the layout for a convolution."""
    around = pl.col("operator_name").str.contains(_CONVOLVES).fill_null(False)
    return pl.col("name").str.contains(_LAYOUTS) | (pl.col("name").str.contains(_TRANSPOSES) & around)


def _what(evidence: Evidence, copies: pl.DataFrame) -> pl.Series:
    """ "aten::copy_ from FP32 to BF16": the operator that copies, and its dtypes where they differ."""
    types = evidence.trace.events.get_column("input_types").gather(copies.get_column("operator").cast(pl.UInt32))
    named = copies.select("operator_name", types.cast(pl.String).alias("types"))
    words = {pair: _in_words(*pair) for pair in named.unique().iter_rows()}
    return pl.Series("what", [words[pair] for pair in named.iter_rows()], dtype=pl.String)


def _in_words(operator: str | None, types: str | None) -> str:
    if operator is None:
        return "copies without a recorded operator"
    try:
        listed = msgspec.json.decode(types or "[]", type=list[str])
    except msgspec.MsgspecError:
        listed = []
    if operator == "aten::copy_" and len(listed) > 1 and listed[0] and listed[1] and listed[0] != listed[1]:
        to, source = (_TYPES.get(name, name.removeprefix("c10::")) for name in listed[:2])
        return f"{operator} from {source} to {to}"
    return operator
