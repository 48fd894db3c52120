"""Does a serving engine keep the device busy while it decodes? Rules 7, 8 and 30."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import (
    OF_HOST,
    Mask,
    calls_of,
    charged,
    of_step,
    place_of,
    place_where,
    time_of,
    where_of,
)
from weftrace.advice.findings.rules.pauses import SILENT
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import Array, covered, sums_by_group, union
from weftrace.trace.containment import open_at_launch
from weftrace.trace.engine_steps import find_engine_steps
from weftrace.units import MS, counted, duration, percent

#: Kinds of engine steps that make tokens; what has no kind may.
_DECODES = ("decode", "verify", "mixed")
_NO_STEPS = Missing(what="no steps of a serving engine are recorded")
#: Of the idle time between steps, what half of them must have at least of an equal share.
_USUAL = 0.5
#: A silent gap between steps that is so long, so many times a step, or the usual gap: requests may have been absent.
_LONG_NS, _LONG_STEPS, _LONG_GAPS = 20 * MS, 3, 5
NO_REQUESTS = "nothing of the host is recorded then: the server may have had no requests"


# 7: between steps ---------------------------------------------------------------------------------------------------


def decode_gap(evidence: Evidence) -> Iterator[Found | Missing]:
    """7: the device has nothing to do from the end of a step until the host has made the next one ready."""
    if not _has_steps(evidence):
        yield _NO_STEPS
        return
    chosen = between_steps(evidence)
    ns = time_of(evidence, chosen)
    if not ns:
        return
    place = place_of(evidence, chosen)
    steps = evidence.tables["engine_steps"].height
    unloaded = may_lack_requests(evidence, chosen)
    yield Found(
        sentence=f"The device is idle between steps of the engine"
        f"{f', most{place.words}' * bool(place.words and not unloaded)}: {of_step(evidence, ns)}"
        f"{'; it may have had no requests then' * unloaded}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time between steps", value=ns, unit="ns"),
            Number(name="steps", value=steps, unit="count"),
        ),
        where=where_of(evidence, chosen, place),
        saves_ns=(0 if unloaded else ns // 2, ns),
        how="all of the idle time between steps" if unloaded else "half to all of the idle time between steps",
        is_bound=unloaded,
        confidence="low" if unloaded else "high",
        reason=NO_REQUESTS if unloaded else "",
    )


def may_lack_requests(evidence: Evidence, chosen: Mask) -> bool:
    """Whether most of this idle time of an engine is silent, in gaps too long or uneven for work of the host."""
    if not _has_steps(evidence):
        return False
    pieces, silent = evidence.idle_pieces, chosen & charged(evidence, SILENT)
    gaps = sums_by_group(pieces.gap[silent], pieces.length[silent], pieces.gaps.events.height)
    steps = evidence.tables["engine_steps"].drop_nulls("start_ns")
    busy_ns = (evidence.span_ns - evidence.idle.idle_ns) / steps.height
    usual_step = max(float(np.median(steps.get_column("window_ns").to_numpy())), busy_ns)
    usual_gap = float(steps.get_column("gap_ns").quantile(0.25) or np.inf)
    long = gaps >= min(_LONG_NS, _LONG_STEPS * usual_step, max(_LONG_GAPS * usual_gap, MS))
    return 2 * int(gaps[long].sum()) > time_of(evidence, chosen)


def between_steps(evidence: Evidence) -> Mask:
    """Idle time that the host leaves from the end of an engine's step to the first kernel of the next that makes
    tokens; none where that is less than the rule's share, or only in a few of the steps."""
    length = evidence.idle_pieces.length
    if not _has_steps(evidence):
        return np.zeros(len(length), np.bool_)
    steps = evidence.tables["engine_steps"].drop_nulls("start_ns")
    begins = steps.get_column("start_ns").to_numpy() + evidence.work.start_ns
    ends = np.maximum.accumulate(begins + steps.get_column("window_ns").to_numpy())
    first = np.maximum(_first_kernels(evidence, steps.get_column("number").to_numpy()), begins)
    makes = steps.get_column("kind").is_in(_DECODES).fill_null(True).to_numpy()[1:]
    start, until = ends[:-1][makes], np.maximum(first[1:], ends[:-1])[makes]
    pieces = evidence.idle_pieces
    between = covered(union(start, until), pieces.start, pieces.end) * 2 > length
    chosen: Mask = between & charged(evidence, OF_HOST) & ~charged(evidence, ("graph_launch",))
    per_gap = covered(union(pieces.start[chosen], pieces.end[chosen]), start, until)
    least = rule_text("decode-gap").thresholds["least_share"]
    usual = float(np.median(per_gap)) * len(per_gap) if len(per_gap) else 0.0
    if evidence.share(time_of(evidence, chosen)) < least or evidence.share(usual) < _USUAL * least:
        return np.zeros(len(length), np.bool_)
    return chosen


def _first_kernels(evidence: Evidence, numbers: Array) -> Array:
    """Start of the first kernel of each step, copies and fills left out; of one without any 0."""
    work = evidence.work.events
    at = open_at_launch(find_engine_steps(evidence.trace.events), work).cast(pl.Int64)
    mine = work.select("kind", "start_ns", at).filter(pl.col("kind") != "memory").rename({at.name: "step"})
    firsts = mine.drop_nulls().group_by("step").agg(pl.col("start_ns").min())
    found = pl.DataFrame({"step": numbers}).join(firsts, on="step", how="left", maintain_order="left")
    return found.get_column("start_ns").fill_null(0).to_numpy()


def _has_steps(evidence: Evidence) -> bool:
    steps = evidence.tables.get("engine_steps")
    return steps is not None and steps.get_column("start_ns").count() > 0


# 8: steps without a graph -------------------------------------------------------------------------------------------


def decode_outside_graphs(evidence: Evidence) -> Iterator[Found | Missing]:
    """8: decode steps of some batch sizes launch kernels one by one, those of others replay a graph."""
    if not _has_steps(evidence):
        yield _NO_STEPS
        return
    chosen, steps = outside_graphs(evidence)
    ns = time_of(evidence, chosen)
    if not ns:
        return
    own_ns = time_of(evidence, chosen & charged(evidence, OF_HOST))
    single = int(steps.get_column("num_launches").median() or 0)  # type: ignore[arg-type]
    requests = steps.get_column("requests").drop_nulls()
    sizes = f" of {_range(requests)}" if len(requests) else ""
    place = place_of(evidence, chosen)
    number = f"{steps.height} of {counted(evidence.tables['engine_steps'].height, 'step')}"
    yield Found(
        sentence=f"{number} decode{sizes} outside of graphs, {single:,} launches each, "
        f"with {duration(ns)} of idle time, {percent(evidence.share(ns))} of the time.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in these steps", value=ns, unit="ns"),
            Number(name="steps", value=steps.height, unit="count"),
            Number(name="launches in each", value=single, unit="count"),
        ),
        where=where_of(evidence, chosen, place),
        saves_ns=(own_ns, ns),
        how="the idle time in these steps, that of the host at least",
    )


def outside_graphs(evidence: Evidence) -> tuple[Mask, pl.DataFrame]:
    """Idle time in decode steps that launch kernels singly while others launch a graph, and these steps."""
    limits, pieces = rule_text("decode-outside-graphs").thresholds, evidence.idle_pieces
    none = np.zeros(len(pieces.length), np.bool_)
    if not _has_steps(evidence):
        return none, pl.DataFrame()
    steps = evidence.tables["engine_steps"].drop_nulls("start_ns")
    decodes = steps.filter(pl.col("kind").is_in(("decode", "verify")))
    singly = (pl.col("num_graphs") == 0) & (pl.col("num_launches") > limits["least_launches"])
    found = decodes.filter(singly)
    if found.is_empty() or not (decodes.get_column("num_graphs") > 0).any():
        return none, found
    start = found.get_column("start_ns").to_numpy() + evidence.work.start_ns
    inside = covered(union(start, start + found.get_column("window_ns").to_numpy()), pieces.start, pieces.end)
    chosen: Mask = (inside * 2 > pieces.length) & ~charged(evidence, ("unrecorded", "file_cut", "unknown", "held"))
    return (chosen if evidence.share(time_of(evidence, chosen)) >= limits["least_share"] else none), found


def _range(requests: pl.Series) -> str:
    """ "64 requests", "48 to 64 requests"."""
    low, high = int(requests.min()), int(requests.max())  # type: ignore[arg-type]
    return counted(high, "request") if low == high else f"{low:,} to {counted(high, 'request')}"


# 30: launches of graphs ---------------------------------------------------------------------------------------------


def graph_launch(evidence: Evidence) -> Iterator[Found]:
    """30: a call that launches a graph takes so long that the device runs dry meanwhile."""
    chosen = charged(evidence, ("graph_launch",))
    ns = time_of(evidence, chosen)
    if not ns or evidence.share(ns) < rule_text("graph-launch").thresholds["least_share"]:
        return
    calls = calls_of(evidence, chosen)
    took = evidence.trace.events.get_column("dur_ns").gather(calls).to_numpy()
    usual = int(np.median(took)) if len(took) else 0
    yield Found(
        sentence=f"Launching a graph takes the host {duration(usual)}, and the device waits for it: "
        f"{of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in launches of graphs", value=ns, unit="ns"),
            Number(name="launches", value=len(calls), unit="count"),
            Number(name="median of these calls", value=usual, unit="ns"),
        ),
        where=place_where(evidence, place_of(evidence, chosen), calls),
        saves_ns=(ns, ns),
        how="the idle time in these calls",
    )
