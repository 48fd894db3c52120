"""Do the same kernels become slower from step to step, all alike? Rule 37, of one device."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.places import where_of
from weftrace.advice.op_times import op_times
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import covered, of_events
from weftrace.units import duration, percent

_FEWEST = 3  # steps
_ALIKE = 0.4  # of the slowdown, by which families may differ from all together
_MORE_BESIDE = 0.2  # of the time of kernels beside communication: more explains that they are slower
_SHARE = 0.05  # of the time of computation: smaller families tell nothing


def slow_clocks(evidence: Evidence) -> Iterator[Found | Missing]:
    """37: from some step on all families of kernels take longer by one factor."""
    kernels = evidence.kernels.filter(~pl.col("kind").is_in(("communication", "memory"))).drop_nulls("step")
    steps = kernels.get_column("step").unique().sort().to_list()
    if len(steps) < _FEWEST:
        yield Missing(what="fewer than three steps are recorded")
        return
    operator = kernels.get_column("operator").cast(pl.UInt32)
    kernels = kernels.with_columns(sizes=evidence.trace.events.get_column("input_shapes").gather(operator))
    same = ["family", "name", "num_blocks", "sizes"]
    number = pl.col("step").n_unique().over(same) == len(steps)
    counts = kernels.filter(number).group_by(*same, "step", maintain_order=True).agg(pl.len(), pl.col("dur_ns").sum())
    counts = counts.filter(pl.col("len").n_unique().over(same) == 1)
    if counts.is_empty():
        return
    table = counts.group_by(pl.col("family").cast(pl.String), "step").agg(pl.col("dur_ns").sum())
    wide = table.pivot(on="step", index="family", values="dur_ns", sort_columns=False)
    wide = wide.select("family", *map(str, steps)).drop_nulls()
    if wide.is_empty():
        return
    times = wide.drop("family").to_numpy().astype(np.float64)
    whole = times.sum(axis=0)
    ratios = np.array([whole[at:].mean() / whole[:at].mean() for at in range(1, len(steps) - 1)])
    first = 1 + int(ratios.argmax())
    ratio = float(ratios.max())
    large = times[times.sum(axis=1) >= _SHARE * times.sum()]
    each = large[:, first:].mean(axis=1) / large[:, :first].mean(axis=1)
    alike = len(large) > 1 and bool((np.abs(each - ratio) <= _ALIKE * (ratio - 1) + 0.005).all())
    if (
        ratio < rule_text("slow-clocks").thresholds["least_ratio"]
        or not alike
        or whole[first:].min() <= whole[:first].max()
    ):
        return
    later = kernels.filter(pl.col("step") >= steps[first])
    earlier = kernels.filter(pl.col("step") < steps[first])
    if _beside_communication(evidence, later) > _beside_communication(evidence, earlier) + _MORE_BESIDE:
        return
    rises = np.diff(whole)
    is_drift = len(steps) > _FEWEST and rises.min() > 0 and rises.max() < (whole[-1] - whole[0]) / 2
    took = later.get_column("dur_ns").to_numpy()
    cost = int(took.sum() * (1 - 1 / ratio))
    rank = "" if evidence.trace.rank is None else f" on rank {evidence.trace.rank}"
    yield Found(
        sentence=(
            f"All kernels take longer from step to step, alike, {whole[-1] / whole[0]:.2f} times as long in the last "
            "as in the first"
            if is_drift
            else f"From step {steps[first]} on all kernels take {ratio:.2f} times as long as before, alike, as with "
            "lower clocks"
        )
        + f": this costs {duration(cost)} ({percent(evidence.share(cost))} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="over the steps before", value=round(ratio, 3), unit="ratio"),
            Number(name="families that are slower alike", value=len(large), unit="count"),
        ),
        where=where_of([evidence.work], later.with_columns(at=pl.lit(0, pl.Int32)), by="dur_ns"),
        least=(op_times(f"clocks of the first steps{rank}", evidence.work, later.get_column("at"), took / ratio),),
        confidence="low" if is_drift else "medium",
        reason="it grows from step to step, as with larger inputs; clocks are not recorded" if is_drift
        else "clocks are not recorded",
    )  # fmt: skip


def _beside_communication(evidence: Evidence, kernels: pl.DataFrame) -> float:
    """Share of the time of kernels in which communication runs beside them."""
    events = evidence.work.events.filter(pl.col("kind") == "communication")
    start, end = kernels.get_column("start_ns").to_numpy(), kernels.get_column("end_ns").to_numpy()
    beside = covered(of_events(events), start, end).sum()
    return float(beside / max(1, (end - start).sum()))
