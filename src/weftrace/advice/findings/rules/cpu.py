"""Do ranks on CPUs wait for each other only to read a number? Rule 2, of hosts without a device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import Place, of_step, place_where, short
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import covered, of_events
from weftrace.trace.work import Work


def waits_to_read(evidence: Evidence, reads: str) -> Iterator[Found]:
    """In each step a rank waits in a collective whose result it reads at once, or that only waits, and computes nothing
    meanwhile. reads: finds the operators that read."""
    limits = rule_text("sync-every-step").thresholds
    waits = _waits(evidence.work, reads)
    ns = int(waits.get_column("ns").sum())
    if evidence.share(ns) < limits["least_share"] or waits.height < max(2, evidence.num_steps):
        return
    rows = waits.sort("ns", "row", descending=[True, False])
    name = str(rows.get_column("name")[0])
    yield Found(
        sentence=f"The host waits for other ranks to read the result of {short(name)}: {of_step(evidence, ns, '')}.",
        cost_ns=ns,
        evidence=(
            Number(name="waiting in collectives that are read at once", value=ns, unit="ns"),
            Number(name="such collectives per step", value=waits.height / max(1, evidence.num_steps), unit="count"),
        ),
        where=place_where(evidence, Place(name, name), rows.get_column("row").to_numpy().astype(np.int64)),
        saves_ns=(0, ns),
        how="all of this waiting, where every rank is as fast as the others over some steps",
        is_bound=True,
        confidence="medium",
        reason="behind a rank that is always slow the others wait elsewhere",
        key=name,
    )


def _waits(work: Work, reads: str) -> pl.DataFrame:
    """Collectives whose result the thread that began them reads next, and those that only wait: row, name, and ns,
    their time with no operator beside them."""
    kind, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    operators = work.trace.events.filter(pl.col("cat").cast(pl.String) == "cpu_op", ~name.str.starts_with("c10d::"))
    after = operators.select(
        pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid"), pl.col("ts_ns").alias("end_ns"),
        name.str.contains(reads).alias("reads"),
    ).sort("end_ns")  # fmt: skip
    collectives = work.events.filter(kind == "communication").sort("end_ns")
    found = collectives.join_asof(
        after, on="end_ns", by=("launch_pid", "launch_tid"), strategy="forward", check_sortedness=False
    ).filter(pl.col("reads").fill_null(False) | (pl.col("role").cast(pl.String) == "barrier"))
    start, end = (found.get_column(at).to_numpy() for at in ("start_ns", "end_ns"))
    beside = covered(of_events(work.events.filter(kind == "compute")), start, end)
    return found.select("row", "name").with_columns(ns=pl.Series(end - start - beside, dtype=pl.Int64))
