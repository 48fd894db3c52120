"""What limits an answer, and what is not worth doing: rules 28, 38, 39 and 40."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.absent_ranks import absent_from
from weftrace.advice.bounds import span_between, spans_of
from weftrace.advice.changed_plans import changed
from weftrace.advice.changes import Scale
from weftrace.advice.findings.evidence import Evidence, JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.kernels import device_kernels
from weftrace.analysis.findings import Number, Where
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent


def unrecorded_work(evidence: Evidence) -> Iterator[Found]:
    """38: gaps in which work ran that the file does not hold."""
    ns = evidence.idle.unrecorded_ns
    share = evidence.share(ns)
    if share < rule_text("unrecorded-work").thresholds["least_share"]:
        return
    yield Found(
        sentence=f"Device work of {duration(ns)} ({percent(share)} of the time) is not in the file, and looks idle.",
        cost_ns=ns,
        evidence=(Number(name="time in which unrecorded work ran", value=ns, unit="ns"),),
        where=_where(evidence),
        not_told="work that is not recorded cannot be replayed",
    )


def ranks_missing(evidence: Evidence) -> Iterator[Found]:
    """39: one rank of many, and communication matters."""
    world, breakdown = evidence.trace.world_size or 1, evidence.analysis.breakdown
    share = evidence.share(breakdown.communication_ns)
    if world < 2 or share < rule_text("ranks-missing").thresholds["least_share"]:
        return
    absent = absent_from(evidence.inferred)
    if not len(absent.ops):
        return
    yield _missing(1, world, breakdown.communication_ns, share, _where(evidence))


def ranks_missing_of_job(job: JobEvidence) -> Iterator[Found]:
    """39, of a job of which not all ranks have a file."""
    present, world = len({rank.rank for rank in job.ranks}), job.analysis.world_size or 0
    communication = max((rank.breakdown.communication_ns for rank in job.ranks), default=0)
    share = job.share(communication)
    if present >= world or share < rule_text("ranks-missing").thresholds["least_share"]:
        return
    yield _missing(present, world, communication, share, Where())


def _missing(present: int, world: int, communication_ns: int, share: float, where: Where) -> Found:
    here = "One rank" if present == 1 else f"{present} ranks"
    are = "is" if present == 1 else "are"
    return Found(
        sentence=f"{here} of {world} {are} here: how much of {duration(communication_ns)} of communication "
        f"({percent(share)} of the time) is waiting for the others is not known.",
        cost_ns=communication_ns,
        evidence=(
            Number(name="ranks here", value=present, unit="count"),
            Number(name="ranks of the job", value=world, unit="count"),
            Number(name="communication", value=communication_ns, unit="ns"),
        ),
        where=where,
        not_told="with the other ranks' files it would be known",
    )


def warm_up_in_sample(evidence: Evidence) -> Iterator[Found | Missing]:
    """28: the first step is much longer than the others, for no more work."""
    if len(evidence.steps) < 3:
        yield Missing(what="fewer than three steps are recorded")
        return
    spans = np.array([step.breakdown.span_ns for step in evidence.steps])
    usual = float(np.median(spans[1:]))
    ratio = spans[0] / usual if usual else 1.0
    if ratio < rule_text("warm-up-in-sample").thresholds["least_ratio"]:
        return
    first = evidence.steps[0].step
    if _more_work_ns(evidence, first) >= (spans[0] - usual) / 2:
        return
    yield Found(
        sentence=f"Step {first} takes {ratio:.1f} times as long as the others ({duration(int(spans[0]))} against "
        f"{duration(int(usual))}): means over all steps are too high.",
        cost_ns=int(spans[0] - usual),
        evidence=(
            Number(name=f"step {first}", value=float(spans[0]), unit="ns"),
            Number(name="median of the others", value=usual, unit="ns"),
        ),
        where=Where(ranks=_ranks(evidence), step=first),
        not_told="it is part of the recording, not of the run",
    )


def _more_work_ns(evidence: Evidence, first: int) -> float:
    """Device time of a step that is for more runs of the others' kernels, or for runs on other sizes."""
    kernels = device_kernels(evidence).drop_nulls("step").filter(pl.col("kind") != "communication")
    others = kernels.filter(pl.col("step") != first)
    num = max(1, others.get_column("step").n_unique())
    mine = kernels.filter(pl.col("step") == first, pl.col("name").is_in(others.get_column("name").unique().implode()))
    took = pl.col("dur_ns").sum()
    runs, usual = (each.group_by("name", "sizes").agg(pl.len().cast(pl.Float64), took) for each in (mine, others))
    beyond = runs.join(usual, on=["name", "sizes"], how="left", nulls_equal=True, suffix="_usual")
    more = (1 - pl.col("len_usual").fill_null(0) / num / pl.col("len")).clip(lower_bound=0) * pl.col("dur_ns")
    left_out = usual.join(runs, on=["name", "sizes"], how="anti", nulls_equal=True)
    return float(beyond.select(more.sum()).item()) - int(left_out.get_column("dur_ns").sum()) / num


def leave_it(evidence: Evidence) -> Iterator[Found]:
    """40: a class that fills much of the time, and saves next to nothing when it is twice as fast."""
    limits = rule_text("leave-it").thresholds
    inferred = evidence.inferred
    if not inferred.replay.is_trustworthy:
        return
    what = inferred.measured.get_column("what").cast(str).to_numpy()
    took = inferred.plan.ops.get_column("duration_ns").to_numpy()
    found: list[tuple[int, str]] = []
    for name in ("communication", "memory", "compute"):
        total = int(took[what == name].sum())
        if evidence.share(total) >= limits["least_share"]:
            found.append((total, name))
    for total, name in sorted(found, reverse=True):
        change = Scale(selector=name, factor=0.5)
        try:
            without = _span_without_contention(inferred, change)
            replayed = inferred.replay.replayed_ns
            saved = max(replayed - without, 0)
            if saved > limits["most_saved"] * replayed:
                continue
            more = without - spans_of(inferred, [change]).span_ns
        except AdviceError:
            continue
        beside = f", and {percent(more / replayed)} more where kernels lose less beside it" if more > 0 else ""
        yield Found(
            sentence=f"Leave {name} as it is: it takes {duration(total)} ({percent(evidence.share(total))} of the "
            f"time), but twice as fast it would save {percent(saved / replayed)}{beside}.",
            cost_ns=0,
            evidence=(Number(name=f"time of {name}", value=total, unit="ns"),),
            where=Where(ranks=_ranks(evidence)),
            least=(change,),
        )
        return


def _span_without_contention(inferred: Inferred, change: Scale) -> int:
    """Of the changed plan, with what kernels lose beside communication as it was."""
    after = changed(inferred, [change])
    span = span_between(after.plan, after.measured)
    return span.last_ns - span.first_ns


def _ranks(evidence: Evidence) -> tuple[int, ...]:
    return () if evidence.trace.rank is None else (evidence.trace.rank,)


def _where(evidence: Evidence) -> Where:
    return Where(ranks=_ranks(evidence), device=evidence.work.device, path=evidence.trace.path)
