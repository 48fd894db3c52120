"""Forward work that is done again in the backward: rule 33."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.kernels import device_kernels, place, taking, total_ns
from weftrace.analysis.efficiency.counted_calls import recomputed
from weftrace.analysis.findings import Number
from weftrace.trace.containment import open_at_launch
from weftrace.units import counted, percent

_ENGINE = "autograd::engine::evaluate_function"
_CALL = ("name", "input_shapes")
_MOST_OTHERS = 0.2  # of the calls: such that no forward made


def recomputation(evidence: Evidence) -> Iterator[Found | Missing]:
    """33: operators of the forward that run again inside autograd's backward, while memory is free."""
    if not evidence.is_training:
        return
    limits = rule_text("recomputation").thresholds
    kernels = device_kernels(evidence)
    if kernels.get_column("operator").null_count() == kernels.height:
        yield Missing(what="operators are not recorded")
        return
    events = evidence.trace.events
    again = recomputed(events, kernels.get_column("operator")) | _in_checkpoints(events, kernels)
    repeats = kernels.filter(again)
    cost = total_ns(repeats)
    if evidence.share(cost) < limits["least_share"] or not cost:
        return
    calls = events.select(_CALL)
    each = (rows.get_column("operator").drop_nulls().unique() for rows in (repeats, kernels.filter(~again)))
    made, first = (calls[rows] for rows in each)
    known = made.join(first.unique(), on=_CALL, how="semi", nulls_equal=True).height
    if known < (1 - _MOST_OTHERS) * made.height:  # a backward that is differentiated again
        return
    used = _memory_share(evidence)
    if used is not None and used >= limits["most_memory_share"]:
        return
    share = evidence.share(cost)
    free = "" if used is None else f", while at most {percent(used)} of the memory is used"
    shapes = made.get_column("input_shapes").null_count() < made.height
    yield Found(
        sentence=f"The backward runs {evidence.time(cost)} of the forward again, {percent(share)} of the time, in "
        f"{counted(evidence.per_step(repeats.height), 'kernel')}{free}.",
        cost_ns=cost,
        evidence=(
            Number(name="run again", value=cost, unit="ns"),
            Number(name="kernels", value=repeats.height, unit="count"),
            *(() if used is None else (Number(name="memory used at most", value=used, unit="share"),)),
        ),
        where=place(evidence, repeats),
        least=(taking(evidence, "half of the recomputation", repeats, repeats.get_column("dur_ns").to_numpy() / 2),),
        most=(taking(evidence, "no recomputation", repeats, 0.0, frees_launches=True),),
        confidence="high" if used is not None and shapes else "medium",
        reason="sequence numbers and shapes say so, and memory is recorded" if used is not None and shapes
        else "the trace does not show whether there is memory to keep the activations" if used is None
        else "shapes are not recorded",
    )  # fmt: skip


def _in_checkpoints(events: pl.DataFrame, kernels: pl.DataFrame) -> pl.Series:
    """Whether each kernel was launched by a checkpoint's own node of autograd, not by the nodes that it evaluates."""
    nodes = events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns")
    names = nodes.get_column("name").unique()
    engine = names.filter(names.cast(pl.String).str.starts_with(_ENGINE))
    around = open_at_launch(nodes, kernels, pl.col("name").is_in(engine.implode()))
    named = nodes.get_column("name").gather(around.cast(pl.UInt32)).cast(pl.String)
    return named.str.contains("Checkpoint").fill_null(False)


def _memory_share(evidence: Evidence) -> float | None:
    """Of the device's memory, the most that was reserved, else allocated; None where the trace does not tell."""
    whole = evidence.analysis.memory_bytes
    uses = [use for use in evidence.analysis.memory if not use.device.startswith("CPU") and not use.is_relative]
    if not whole or not uses:
        return None
    return max(use.most_reserved_bytes or use.peak_bytes for use in uses) / whole
