"""What communication and computation take from each other on one device: rules 10 and 11."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from weftrace.advice.contention import contention_of
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.places import where_of
from weftrace.analysis.findings import Number
from weftrace.units import percent


def contention(evidence: Evidence) -> Iterator[Found | Missing]:
    """10: the same kernels take longer while communication runs beside them."""
    inferred = evidence.inferred
    lost = contention_of(inferred)
    if lost.basis != "measured":
        yield Missing(what="no kernel runs beside communication in one place and away from it in another")
        return
    limits = rule_text("contention").thresholds
    ops = inferred.plan.ops.select("duration_ns").hstack(inferred.measured.select("at", "event", "family"))
    ops = ops.with_row_index("op").with_columns(
        factor=pl.Series(lost.factor_of), lost_ns=pl.col("duration_ns") * (1 - pl.Series(lost.alone_of))
    )
    ops = ops.filter(pl.col("lost_ns") > 0).drop_nulls("event")
    slowed = ops.filter(pl.col("factor") >= limits["least_ratio"])
    total, of_slowed = (int(each.get_column("lost_ns").sum()) for each in (ops, slowed))
    if evidence.share(total) < limits["least_share"] or evidence.share(of_slowed) < limits["least_slowed_share"]:
        return
    families = slowed.group_by(pl.col("family").cast(pl.String)).agg(
        pl.col("lost_ns").sum(), (pl.col("factor") * pl.col("lost_ns")).sum() / pl.col("lost_ns").sum()
    ).sort("lost_ns", descending=True)  # fmt: skip
    family, of_family, ratio = families.row(0)
    on_path = int(
        ops.filter(pl.col("op").is_in(evidence.path.path.get_column("op").implode())).get_column("lost_ns").sum()
    )
    events = slowed.get_column("event")
    rows = evidence.work.events.get_column("row").gather(events)
    operator = evidence.kernels.get_column("operator").gather(events).cast(pl.UInt32)
    sizes = evidence.trace.events.get_column("input_shapes").gather(operator)
    is_told = sizes.count() + evidence.work.events.get_column("num_blocks").gather(events).count() > 0
    yield Found(
        sentence=f"Computation loses {evidence.time(total)} ({percent(evidence.share(total))} of the time) to "
        f"communication beside it: {family or 'such'} kernels take {ratio:.2f} times as long as alone.",
        cost_ns=total,
        evidence=(
            Number(name="lost beside communication", value=total, unit="ns"),
            Number(name="of that on the critical path", value=on_path, unit="ns"),
            Number(name="lost by kernels slowed most", value=of_slowed, unit="ns"),
            Number(name=f"slowdown of {family or 'kernels'}", value=round(ratio, 3), unit="ratio"),
            Number(name=f"lost by {family or 'kernels'}", value=int(of_family), unit="ns"),
            Number(name="runs beside that have one away", value=lost.num_pairs, unit="count"),
        ),
        where=where_of([evidence.work], slowed.with_columns(row=rows), by="lost_ns"),
        saves_ns=(0, on_path),
        how="what kernels on the critical path take longer than alone",
        is_bound=True,
        confidence="high" if is_told else "medium",
        reason="" if is_told else "neither grids nor shapes are recorded: kernels beside it may have more to do",
    )


def sm_wait(evidence: Evidence) -> Iterator[Found]:
    """11: kernels are ready, and wait until others leave SMs free."""
    path, inferred = evidence.path, evidence.inferred
    parts = path.parts.filter(class_="SM wait")
    total = int((parts.get_column("until_ns") - parts.get_column("from_ns")).sum())
    if total < rule_text("sm-wait").thresholds["least_share"] * evidence.span_ns or not total:
        return
    known = inferred.plan.ops.select(pl.col("phase").cast(pl.String)).hstack(inferred.measured.select("at", "event"))
    names = inferred.measured.select(pl.col("family").cast(pl.String)).hstack(inferred.plan.ops.select("stream"))
    waits = inferred.sm_waits.sort("late_ns", descending=True)
    mine = waits.hstack(known[waits.get_column("op")]).hstack(names[waits.get_column("op")])
    mine = mine.with_columns(
        holder=names.get_column("family").gather(waits.get_column("on")),
        since=evidence.work.events.get_column("row").gather(mine.get_column("event")),
    ).rename({"since": "row"})
    waiter = mine.group_by("phase").agg(pl.col("late_ns").sum()).sort("late_ns", descending=True).row(0)[0]
    holder = mine.group_by("holder").agg(pl.col("late_ns").sum()).sort("late_ns", descending=True).row(0)[0]
    streams = mine.get_column("stream").n_unique()
    yield Found(
        sentence=f"Kernels wait {evidence.time(total)} on the critical path ({percent(evidence.share(total))} of the "
        f"time) for free SMs, {f'most in {waiter}, ' * bool(waiter)}while {holder or 'other'} kernels hold them.",
        cost_ns=total,
        evidence=(
            Number(name="waits for SMs on the critical path", value=total, unit="ns"),
            Number(name="waits for SMs in all", value=int(waits.get_column("late_ns").sum()), unit="ns"),
            Number(name="kernels that wait", value=waits.height, unit="count"),
            Number(name="streams that wait", value=streams, unit="count"),
        ),
        where=where_of([evidence.work], mine, by="late_ns", phase=waiter or ""),
        saves_ns=(0, total),
        how="the waits on the critical path",
        is_bound=True,
        confidence="medium",
        reason="what held the SMs has work of its own to do, so a split may only move the wait",
    )
