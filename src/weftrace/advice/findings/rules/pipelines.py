"""Stages of a pipeline that wait for each other: rule 23."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from weftrace.advice.findings.evidence import JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.communication import SENDS
from weftrace.advice.findings.rules.exposed import communication_of
from weftrace.advice.findings.rules.places import where_of
from weftrace.advice.swaps.schedules import swap_schedule
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import covered, union
from weftrace.errors import WeftraceError
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent

#: Schedules that are tried with this run's costs.
_TRIED = ("zb1p", "1f1b", "dualpipe")
#: What other schedules leave of 1F1B's bubble: ZB1P's is (F + B - 2W) / (F + B), about a third.
_LEAST, _MOST = 0.5, 1.0


def pipeline_bubble(job: JobEvidence) -> Iterator[Found | Missing]:
    """23: stages wait in sends and receives while they compute nothing."""
    inferred = job.inferred
    if inferred is None:
        yield Missing(what="the ranks could not be replayed together")
        return
    rows = communication_of(inferred).filter(pl.col("collective").str.contains(SENDS))
    if rows.is_empty():
        yield Missing(what="no sends and receives between stages are recorded")
        return
    waits = _waits(inferred, rows)
    mean = int(waits.get_column("wait_ns").sum()) // len(inferred.works)
    share = job.share(mean)
    if share < rule_text("pipeline-bubble").thresholds["least_share"]:
        return
    name, saved = _best(inferred)
    steps = max(1, job.num_steps)
    saves = (saved * steps, saved * steps) if name else (round(_LEAST * mean), round(_MOST * mean))
    yield Found(
        sentence=f"Pipeline stages wait {duration(mean // steps)} per step for each other ({percent(share)} of the "
        "time), in sends and receives that overlap no computation.",
        cost_ns=mean,
        evidence=(
            Number(name="bubble, mean of the ranks", value=mean, unit="ns"),
            Number(name="sends and receives", value=rows.height, unit="count"),
        ),
        where=where_of(inferred.works, waits.filter(pl.col("wait_ns") > 0), by="wait_ns"),
        saves_ns=saves,
        how=f"simulation of {name} with this run's costs" if name else "half of the bubble, and all of it",
        is_bound=not name,
        confidence="high" if name else "medium",
        reason="" if name else "no phases name the chunks, so no other schedule could be simulated",
    )


def _waits(inferred: Inferred, rows: pl.DataFrame) -> pl.DataFrame:
    """Of each send and receive the time in which its device computes nothing, each moment counted once: wait_ns."""
    measured = inferred.measured
    computes = measured.get_column("what").is_in(("compute", "fused")).to_numpy()
    at_of = measured.get_column("at").to_numpy()
    start, end = (measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    parts = []
    for (at,), mine in rows.group_by("at", maintain_order=True):
        ops = mine.get_column("op").to_numpy()
        begins, ends = start[ops], end[ops]
        of_rank = computes & (at_of == at)
        busy = union(start[of_rank], end[of_rank])
        once = mine.with_columns(begin=pl.Series(begins), until=pl.Series(ends)).sort("begin").with_columns(
            begin=pl.max_horizontal("begin", pl.col("until").cum_max().shift(1))
        ).filter(pl.col("until") > pl.col("begin"))  # fmt: skip
        low, high = (once.get_column(name).to_numpy() for name in ("begin", "until"))
        parts.append(once.with_columns(wait_ns=pl.Series(high - low - covered(busy, low, high))))
    return pl.concat(parts)


def _best(inferred: Inferred) -> tuple[str, int]:
    """The schedule that takes least with this run's costs, and what it saves of a step; none where the phases do not
    tell them."""
    best = ("", 0)
    for name in _TRIED:
        try:
            swap = swap_schedule(inferred, name, weight_share=0.5)
        except WeftraceError:
            continue
        saved = round((swap.simulated_ns - swap.after_ns) / max(1, swap.simulated_ns) * swap.measured_ns)
        if saved > best[1]:
            best = (swap.schedule, saved)
    return best
