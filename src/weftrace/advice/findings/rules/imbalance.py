"""Ranks that have more to do than others, of experts' rows or of sequences' lengths: rules 9 and 25."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from weftrace.advice.changes import NoBarrierWait
from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules import jobs
from weftrace.advice.findings.rules.exposed import communication_of, shorter
from weftrace.advice.findings.rules.places import where_of
from weftrace.analysis.findings import Number
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent

_GROUPED = r"(?i)grouped|group_gemm|fused_moe|moe_gemm|gemm_grouped"
_GEMMS_DIFFER = 0.05  # by which GEMMs may differ over ranks and be as long
_ONE_RANK = 0.7  # of the steps: then it is a straggler


def expert_imbalance(evidence: Evidence) -> Iterator[Found | Missing]:
    """9, of one rank: kernels of dispatch and combine that only wait for other ranks."""
    every = communication_of(evidence.inferred).filter("is_barrier")
    if every.is_empty():
        yield Missing(what="no kernels of experts wait for other ranks here, and one rank does not show imbalance")
        return
    least = rule_text("expert-imbalance").thresholds["least_share"] * evidence.span_ns
    total = int(every.get_column("duration_ns").sum())
    parts = evidence.path.parts.filter(class_="communication").join(every.select("op", "layer"), on="op")
    cost = int((parts.get_column("until_ns") - parts.get_column("from_ns")).sum())
    if total < least or cost < least:
        return
    layers = every.drop_nulls("layer").group_by("layer").agg(pl.col("duration_ns").sum()).sort("layer")
    grows = ""
    if layers.height > 1:
        first, last = (layers.row(at) for at in (0, -1))
        grows = f", {duration(first[1])} in layer {first[0]} and {duration(last[1])} in layer {last[0]}"
    yield Found(
        sentence=f"Dispatch and combine wait {duration(total)} for other ranks ({percent(evidence.share(total))} of "
        f"the time){grows}: {duration(cost)} of it is on the critical path.",
        cost_ns=cost,
        evidence=(
            Number(name="waiting on the critical path", value=cost, unit="ns"),
            Number(name="waiting in all", value=total, unit="ns"),
            *(Number(name=f"waiting in layer {layer}", value=ns, unit="ns") for layer, ns in layers.iter_rows()),
        ),
        where=where_of([evidence.work], every, by="duration_ns"),
        least=(NoBarrierWait(),),
        is_bound=True,
        confidence="medium",
        reason="with the other ranks' files it would be known whether experts' rows are uneven, or a rank is late",
    )


def expert_imbalance_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    """9: grouped GEMMs take longer on some ranks, and the others wait."""
    inferred = job.inferred
    if inferred is None:
        yield Missing(what="the ranks could not be replayed together")
        return
    rows = _kernels(inferred, _GROUPED)
    if rows.get_column("at").n_unique() < 2:
        yield Missing(what="no grouped GEMMs of experts are recorded on two ranks")
        return
    rows = rows.with_columns(place=pl.int_range(pl.len()).over("at", "step"))
    if rows.group_by("at", "step").len().group_by("step").agg(pl.col("len").n_unique()).get_column("len").max() != 1:
        rows = rows.with_columns(place=pl.lit(0))
    limits = rule_text("expert-imbalance").thresholds
    found = _levelled(rows, ("step", "place"))
    cost, ratio = _cost(found, ("step", "place"))
    cost = min(cost, _waited_ns(job))
    if ratio < limits["least_ratio"] or cost < limits["least_share"] * job.span_ns:
        return
    worst = found.group_by("at").agg(pl.col("duration_ns").sum()).sort("duration_ns", descending=True).item(0, "at")
    rank = inferred.works[worst].trace.rank
    yield Found(
        sentence=f"Experts' GEMMs take {ratio:.2f} times the ranks' mean on the rank with the most rows (most on rank "
        f"{rank}): the others wait {duration(cost)} ({percent(job.share(cost))} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="longest rank over the mean", value=round(ratio, 3), unit="ratio"),
            Number(name="waiting for it", value=cost, unit="ns"),
        ),
        where=where_of(inferred.works, found, by="duration_ns"),
        least=(shorter("experts' GEMMs at the ranks' mean", inferred, found, longer=True),),
    )


def sequence_imbalance(job: JobEvidence) -> Iterator[Found | Missing]:
    """25: attention differs over ranks and steps, and GEMMs do not."""
    inferred = job.inferred
    if inferred is None or inferred.kernels is not None or len(inferred.works) < 2:
        yield from jobs.sequence_imbalance(job)
        return
    attention, gemms = _kernels(inferred, r"(?i)^attention|^flash|fmha"), _kernels(inferred, r"^gemm")
    if attention.get_column("at").n_unique() < len(inferred.works):
        yield from jobs.sequence_imbalance(job)
        return
    found = _levelled(attention, ("step",))
    cost, _ = _cost(found, ("step",))
    sums = attention.group_by("at", "step").agg(pl.col("duration_ns").sum())
    longest = sums.sort("duration_ns").group_by("step").agg(pl.col("at").last()).get_column("at")
    same = float(longest.value_counts().get_column("count").max() or 0) / max(1, longest.len())  # type: ignore[arg-type]
    _, of_gemms = _cost(_levelled(gemms, ("step",)), ("step",))
    least = rule_text("sequence-imbalance").thresholds["least_share"]
    if cost < least * job.span_ns or of_gemms - 1 > _GEMMS_DIFFER or (same >= _ONE_RANK and longest.len() > 1):
        yield from jobs.sequence_imbalance(job)
        return
    spread = _spread(sums)
    yield Found(
        sentence=f"Attention differs by {percent(spread)} over ranks in a step while GEMMs take the same time, as with "
        f"sequences of different lengths: this costs {duration(cost)} ({percent(job.share(cost))} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="longest attention of a step over the mean", value=cost, unit="ns"),
            Number(name="attention: (longest - shortest) / mean", value=spread, unit="share"),
            Number(name="GEMMs: longest over the mean", value=round(of_gemms, 3), unit="ratio"),
        ),
        where=where_of(inferred.works, found, by="duration_ns"),
        least=(shorter("attention at the ranks' mean", inferred, found, longer=True),),
    )


def _waited_ns(job: JobEvidence) -> int:
    """How long a rank waits for others in collectives, at most; the whole span where that is not known."""
    late = job.analysis.lateness
    return job.span_ns if late is None else int(late.ranks.get_column("suffered_ns").max() or 0)  # type: ignore[arg-type]


def _kernels(inferred: Inferred, pattern: str) -> pl.DataFrame:
    """Kernels of computation whose family, or name, the pattern finds: op, at, event, row, step, duration_ns."""
    ops = inferred.plan.ops.select(pl.col("name").cast(pl.String), "duration_ns").with_row_index("op")
    ops = ops.hstack(inferred.measured.select("at", "event", "what", pl.col("family").cast(pl.String), "start_ns"))
    is_found = pl.col("family").fill_null("").str.contains(pattern) | pl.col("name").str.contains(pattern)
    ops = ops.filter(is_found, what="compute").drop_nulls("event").sort("at", "start_ns")
    parts: list[pl.DataFrame] = []
    for at, work in enumerate(inferred.works):
        mine = ops.filter(at=at)
        parts.append(mine.hstack(work.events.select("row", "step")[mine.get_column("event")]))
    return pl.concat(parts)


def _levelled(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """With then_ns: as long as the ranks' mean in the same place."""
    of_rank = pl.col("duration_ns").sum().over("at", *keys)
    mean = pl.col("duration_ns").sum().over(keys) / pl.col("at").n_unique().over(keys)
    part = pl.when(of_rank > 0).then(pl.col("duration_ns") / of_rank).otherwise(1 / pl.len().over("at", *keys))
    return rows.with_columns(then_ns=part * mean)  # a rank without any rows gets some


def _cost(rows: pl.DataFrame, keys: Sequence[str]) -> tuple[int, float]:
    """What the longest rank of each place takes more than the mean, and how many times it."""
    sums = rows.group_by("at", *keys).agg(pl.col("duration_ns").sum()).group_by(keys).agg(
        most=pl.col("duration_ns").max(), mean=pl.col("duration_ns").mean()
    )  # fmt: skip
    most, mean = float(sums.get_column("most").sum()), float(sums.get_column("mean").sum())
    return round(most - mean), most / mean if mean else 1.0


def _spread(sums: pl.DataFrame) -> float:
    spread = sums.group_by("step").agg(
        (pl.col("duration_ns").max() - pl.col("duration_ns").min()) / pl.col("duration_ns").mean()
    )
    return float(np.median(spread.get_column("duration_ns").to_numpy()))
