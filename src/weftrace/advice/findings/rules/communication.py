"""Communication that work waits for: rules 3 and 34."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from weftrace.advice.absent_ranks import absent_from
from weftrace.advice.critical_paths import CriticalPath
from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.exposed import communication_of, exposed_of, shorter
from weftrace.advice.findings.rules.launch_order import are_held_by_launch_order
from weftrace.advice.findings.rules.places import where_of
from weftrace.analysis.findings import Number
from weftrace.plan.inference.values import Inferred
from weftrace.trace.work import Work
from weftrace.units import duration, percent

#: Kinds that bring parameters, and kinds that take gradients away.
_GATHERS, _REDUCES = ("all_gather", "broadcast"), ("all_reduce", "reduce_scatter", "reduce")
_FEWEST = 3  # of a kind in a step: of fewer none is the last of several
_SMALL = 0.2  # of the longest of its kind: a norm's reduction after the gradients' is not the last of these
_OF_EXPERTS = "Check with `weftrace profile pays` at which batch sizes an overlap of two micro-batches hides this."
#: Between stages of a pipeline: its bubble is told apart.
SENDS = r"(?i)send|recv"


def exposed_collective(evidence: Evidence) -> Iterator[Found | Missing]:
    """3: work waits for communication that hides behind nothing."""
    yield from _exposed(evidence.inferred, evidence.path, evidence.span_ns, max(1, evidence.num_steps))


def exposed_collective_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    """3, by the ranks' joined plan: waiting for a late rank is no part of it."""
    if job.inferred is not None and job.path is not None:
        yield from _exposed(job.inferred, job.path, job.span_ns, max(1, job.num_steps))


def _exposed(inferred: Inferred, path: CriticalPath, span_ns: int, num_steps: int) -> Iterator[Found | Missing]:
    if not (inferred.measured.get_column("what") == "communication").any():
        yield Missing(what="no communication is recorded")
        return
    limits = rule_text("exposed-collective").thresholds
    if are_held_by_launch_order(inferred.works):
        return
    rows = exposed_of(path, inferred).filter(~pl.col("is_barrier"), ~pl.col("collective").str.contains(SENDS))
    rows = _of_transfers(rows.join(_edges(inferred, path), on="op", how="anti"), inferred)
    if rows.is_empty():
        return
    total, longest = int(rows.get_column("exposed_ns").sum()), int(rows.get_column("exposed_ns").max())  # type: ignore[arg-type]
    alone = limits["least_share_alone"] * span_ns
    if total < limits["least_share"] * span_ns and (longest < alone / num_steps or total < alone):
        return
    kinds = ("collective", "phase")
    first = rows.group_by(kinds).agg(pl.col("exposed_ns").sum()).sort("exposed_ns", *kinds, descending=True)
    top = first.row(0, named=True)
    of_top = rows.join(first.head(1), on=kinds, how="semi", nulls_equal=True)
    layer, layer_ns = _most_of(of_top, "layer")
    at = f" of layer {layer}" if layer is not None and 2 * layer_ns > top["exposed_ns"] else ""
    inside = f" in {top['phase']}{at}" if top["phase"] else at
    most = duration(top["exposed_ns"]) if top["exposed_ns"] < total else "all"
    waiter, _ = _most_of(of_top, "waiter")
    waits = f", for which {waiter} waits" if waiter else ", behind which nothing runs"
    yield Found(
        sentence=f"Communication is exposed for {duration(total)} ({percent(total / max(1, span_ns))} of the time): "
        f"{most} of it is {top['collective']}{inside}{waits}.",
        cost_ns=total,
        evidence=(
            Number(name="exposed on the critical path", value=total, unit="ns"),
            Number(name="exposed collectives", value=rows.height, unit="count"),
            Number(name=f"{top['collective']}{inside}", value=top["exposed_ns"], unit="ns"),
        ),
        where=where_of(inferred.works, of_top, by="exposed_ns", phase=top["phase"] or ""),
        least=(shorter("half of exposed communication hidden", inferred, _left(rows, inferred, 0.5)),),
        most=(shorter("all exposed communication hidden", inferred, _left(rows, inferred, 0.0)),),
        remedy=_OF_EXPERTS if top["collective"] in ("dispatch", "combine") else "",
        **_doubt_of(inferred.works),
    )


def _of_transfers(rows: pl.DataFrame, inferred: Inferred) -> pl.DataFrame:
    """Of communication that may have waited for ranks that the plan does not join it with, no more than its longest
    possible transfer is told; in a job no more than the shortest of its kind and size takes."""
    absent = absent_from(inferred.kernels or inferred)
    if not len(absent.ops) or inferred.kernels is not None:
        return rows
    most = pl.DataFrame({"op": absent.ops, "most_ns": absent.transfer_most_ns}, schema_overrides={"op": pl.UInt32})
    rows = rows.join(most, on="op", how="left", maintain_order="left")
    if len(inferred.works) > 1:
        kind = ("collective", "bytes", "group_size")
        shortest = (
            communication_of(inferred).drop_nulls("bytes").group_by(kind).agg(least_ns=pl.col("duration_ns").min())
        )
        rows = rows.join(shortest, on=kind, how="left", maintain_order="left")
        most_ns = pl.when(pl.col("most_ns").is_not_null()).then(pl.min_horizontal("most_ns", "least_ns"))
        rows = rows.with_columns(most_ns.alias("most_ns")).drop("least_ns")
    told = rows.with_columns(pl.min_horizontal("exposed_ns", "most_ns").alias("exposed_ns")).drop("most_ns")
    return told.filter(pl.col("exposed_ns") > 0)


def _doubt_of(works: Sequence[Work]) -> dict[str, Any]:
    world = max((work.trace.world_size or 1 for work in works), default=1)
    if len(works) >= world:
        return {}
    return {"confidence": "medium", "reason": "part of it may be waiting for ranks that have no file here"}


def _most_of(rows: pl.DataFrame, column: str) -> tuple[Any, int]:
    sums = rows.group_by(column).agg(pl.col("exposed_ns").sum()).sort("exposed_ns", descending=True)
    found: tuple[Any, int] = sums.row(0)
    return found


# --- the first gather and the last reduction of a step ---


def first_and_last_collective(evidence: Evidence) -> Iterator[Found | Missing]:
    """34: of communication that overlaps, the first and the last of a step cannot."""
    if not evidence.steps:
        yield Missing(what="no steps are recorded")
        return
    yield from _first_and_last(evidence.inferred, evidence.path, evidence.span_ns, evidence.num_steps)


def first_and_last_collective_of_job(job: JobEvidence) -> Iterator[Found | Missing]:
    """34, by the ranks' joined plan."""
    if job.inferred is not None and job.path is not None:
        yield from _first_and_last(job.inferred, job.path, job.span_ns, max(1, job.num_steps))


def _first_and_last(inferred: Inferred, path: CriticalPath, span_ns: int, num_steps: int) -> Iterator[Found]:
    rows = _edges(inferred, path)
    least = rule_text("first-and-last-collective").thresholds["least_share_each"] * span_ns
    total = int(rows.get_column("exposed_ns").sum())
    if not total or total < least:
        return
    parts = [
        (f"the {name} of a step ({mine.item(0, 'collective')})", int(mine.get_column("exposed_ns").sum()))
        for name, is_first in (("last reduction", False), ("first gather", True))
        if not (mine := rows.filter(is_first=is_first)).is_empty()
    ]
    parts = sorted((part for part in parts if part[1] >= least / 2), key=lambda part: -part[1])
    if not parts:
        return
    names = " and ".join(f"{name} for {duration(ns // num_steps)}" for name, ns in parts)
    yield Found(
        sentence=f"Communication is exposed at the ends of a step: {names} ({percent(total / span_ns)} of the time).",
        cost_ns=total,
        evidence=tuple(Number(name=name, value=ns, unit="ns") for name, ns in parts),
        where=where_of(inferred.works, rows, by="exposed_ns"),
        least=(shorter("half of the ends exposed", inferred, _left(rows, inferred, 0.5)),),
        most=(shorter("no ends exposed", inferred, _left(rows, inferred, 0.0)),),
        **_doubt_of(inferred.works),
    )


def _left(rows: pl.DataFrame, inferred: Inferred, part: float) -> pl.DataFrame:
    """What exposed ops take if this part of what is exposed is left."""
    took = inferred.plan.ops.get_column("duration_ns").gather(rows.get_column("op"))
    left = (took - (1 - part) * rows.get_column("exposed_ns")).clip(lower_bound=0)
    return rows.select("op", then_ns=left)


def _edges(inferred: Inferred, path: CriticalPath) -> pl.DataFrame:
    """Exposed communication that is the first gather or the last reduction of several in its step, where these are most
    of what is exposed; with `is_first`."""
    every = communication_of(inferred).filter(~pl.col("is_barrier"), pl.col("step").is_not_null())
    keys = ("at", "step", "is_first")
    every = every.filter(pl.col("collective").is_in((*_GATHERS, *_REDUCES)))
    every = every.with_columns(
        is_first=pl.col("collective").is_in(_GATHERS), took_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    every = every.with_columns(num=pl.len().over(keys))  # before what is small beside a huge end is left out
    every = every.filter(pl.col("took_ns") >= _SMALL * pl.col("took_ns").max().over(keys))
    place = pl.when("is_first").then(pl.col("start_ns").min().over(keys)).otherwise(pl.col("start_ns").max().over(keys))
    edges = every.filter(pl.col("num") >= _FEWEST, pl.col("start_ns") == place)
    exposed = exposed_of(path, inferred).filter(~pl.col("is_barrier"))
    found = exposed.join(edges.select("op", "is_first"), on="op")
    if 2 * found.get_column("exposed_ns").sum() < exposed.get_column("exposed_ns").sum():
        return found.clear()
    return found
