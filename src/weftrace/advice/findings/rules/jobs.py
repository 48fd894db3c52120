"""Which rank or stage of a job holds up the others: rules 5, 24, 25, 26 and 37, by the replays of the job's S."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from weftrace.advice.bounds import tried
from weftrace.advice.findings.evidence import JobEvidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.exposed import shorter
from weftrace.analysis.findings import Number, Where
from weftrace.analysis.job_slowdown import Cause, CauseKind, JobSlowdown
from weftrace.errors import AdviceError
from weftrace.units import counted, duration, percent

#: How evidence of slow computation begins where no rank is slow in most steps, or where experts' rows are uneven.
_OTHERS = r"in steps? |another rank in each step|single ranks in single steps|gemm_grouped|.*grouped_gemm|fused_moe"
_ONE_STEP = r"in step \d+ alone"
_FEW_STEPS = 5
_ALIKE = "all operations alike"
_MORE = 1.05  # times the kernels of other ranks


def straggler(job: JobEvidence) -> Iterator[Found | Missing]:
    """5: in most steps the others wait for the same rank, whose computation or host takes longer."""
    steps = [{step.step for step in rank.steps} for rank in job.ranks]
    if job.slowdown is None or (len(steps) > 1 and all(steps) and not set.intersection(*steps)):
        yield from _late(job)
        return
    least = rule_text("straggler").thresholds["least_share"]
    for cause in _causes(job, "slow compute", "late host"):
        is_stage = cause.stages and _has_more_work(job, cause)
        is_other = re.match(_OTHERS, cause.evidence) or re.search(_ONE_STEP, cause.sentence)
        if cause.ranks and cause.share >= least and not is_stage and not is_other:
            few = job.slowdown.num_steps < _FEW_STEPS
            reason = f"only {counted(job.slowdown.num_steps, 'step')} are recorded" if few else ""
            yield _found(job, cause, confidence="medium" if few else "high", reason=reason)


def _late(job: JobEvidence) -> Iterator[Found | Missing]:
    """The same by who comes last, of ranks that were not replayed together."""
    late = job.analysis.lateness
    if late is None:
        yield Missing(what="no two ranks share a collective")
        return
    if late.late is None:
        return
    row = late.ranks.filter(at=late.late).row(0, named=True)
    cost = int(row["origin_ns"]) // max(1, len(job.ranks) - 1)
    if job.share(cost) < rule_text("straggler").thresholds["least_share"]:
        return
    rank = job.ranks[late.late]
    name = f"Rank {rank.rank}" if rank.rank is not None else rank.name or "One rank"
    yield Found(
        sentence=f"{name} comes last into {row['num_last']:,} of {row['num_matched']:,} collectives: each other rank "
        f"waits {duration(cost)} for it ({percent(job.share(cost))} of the time).",
        cost_ns=cost,
        evidence=(
            Number(name="waiting of a rank that began with it", value=cost, unit="ns"),
            Number(name="collectives it came last into", value=row["num_last"], unit="count"),
        ),
        where=Where(ranks=() if rank.rank is None else (rank.rank,), path=rank.path),
        saves_ns=(min(int(row["caused_ns"]), cost), cost),
        how="what others wait for this rank alone, and all waiting that began with it",
    )


def slow_clocks(job: JobEvidence) -> Iterator[Found | Missing]:
    """37: all operations of a rank are slower by one factor."""
    if job.slowdown is None:
        yield Missing(what="the ranks could not be replayed together")
        return
    least = rule_text("slow-clocks").thresholds["least_ratio"]
    ratio_of = dict(job.slowdown.workers.select("rank", "compute_ratio").iter_rows())
    for cause in _causes(job, "slow compute"):
        ratio = max((ratio_of.get(rank, 1.0) for rank in cause.ranks), default=1.0)
        if ratio >= least and _ALIKE in cause.evidence and len(cause.ranks) * 2 <= len(ratio_of):
            who = _named(job.slowdown, cause.ranks)
            yield _found(
                job, cause,
                sentence=f"All operations of {who} take {ratio:.2f} times as long as its peers', alike, as "
                f"with lower clocks: this costs {percent(cause.share)} of the time.",
                confidence="medium",
                reason="clocks are not recorded: the same would be seen of a rank with more of all work",
            )  # fmt: skip


def slow_stage(job: JobEvidence) -> Iterator[Found | Missing]:
    """24: a pipeline stage computes longer than the mean of the stages."""
    if job.slowdown is None or job.slowdown.stages.is_empty():
        yield Missing(what="no pipeline stages are known")
        return
    ratios = dict(job.slowdown.stages.select("stage", "ratio").iter_rows())
    for cause in _causes(job, "uneven stages", "slow compute"):
        ratio = max((ratios.get(stage, 1.0) for stage in cause.stages), default=1.0)
        if ratio < rule_text("slow-stage").thresholds["least_ratio"]:
            continue
        if cause.kind == "uneven stages" or _has_more_work(job, cause):
            number = Number(name="over the mean of the stages", value=round(ratio, 3), unit="ratio")
            found = _found(job, cause, number, sentence=_of_stage(cause, ratio))
            yield _with_even_stages(job, found, ratios)


def _of_stage(cause: Cause, ratio: float) -> str:
    """A sentence for a stage in the midst, which S takes for a slow rank."""
    if cause.kind == "uneven stages":
        return ""
    return (
        f"Stage {cause.stages[0]} computes {ratio:.2f} times the mean of the stages because it has more kernels: this "
        f"costs {percent(cause.share)} of the time."
    )


def _with_even_stages(job: JobEvidence, found: Found, ratios: Mapping[int, float]) -> Found:
    """With what the kernels' plan tells too: long stages at the mean of the stages."""
    inferred, slowdown = job.inferred, job.slowdown
    if inferred is None or slowdown is None or inferred.names or found.saves_ns is None:
        return found
    of_rank = {rank: ratios.get(stage, 1.0) for rank, stage in slowdown.workers.select("rank", "stage").iter_rows()}
    then = pl.col("duration_ns") / pl.col("rank").replace_strict(of_rank, default=1.0, return_dtype=pl.Float64)
    change = shorter("long stages at the mean of the stages", inferred, _computation(job).with_columns(then_ns=then))
    try:
        after, replayed = tried(inferred, (change,)), inferred.replay.replayed_ns
    except AdviceError:
        return found
    told = (*found.saves_ns, max(0, replayed - after.span_ns))
    return replace(
        found, saves_ns=(min(told), max(told)), how="replays of the job with long stages at the others' pace"
    )


def _computation(job: JobEvidence) -> pl.DataFrame:
    """Computation of the joined plan: op, rank, duration_ns."""
    assert job.inferred is not None
    ops = job.inferred.plan.ops.select("rank", "duration_ns").with_row_index("op")
    return ops.filter((job.inferred.measured.get_column("what") == "compute").fill_null(False))


def _has_more_work(job: JobEvidence, cause: Cause) -> bool:
    """Whether the ranks of a cause run more kernels than others do."""
    if job.inferred is None or job.inferred.names:
        return False
    counts = _computation(job).group_by("rank").len()
    is_own = pl.col("rank").is_in(list(cause.ranks))
    own, others = (counts.filter(mine).get_column("len").median() for mine in (is_own, ~is_own))
    return bool(own and others and own > _MORE * others)  # type: ignore[operator]


def sequence_imbalance(job: JobEvidence) -> Iterator[Found | Missing]:
    """25: micro-batches differ in length, and ranks wait for the one that has the longest."""
    if job.slowdown is None:
        yield Missing(what="the ranks could not be replayed together")
        return
    for cause in _causes(job, "uneven sequence lengths"):
        if cause.share >= rule_text("sequence-imbalance").thresholds["least_share"]:
            yield _found(job, cause)


def gc_pause(job: JobEvidence) -> Iterator[Found]:
    """26, of a job: single ranks stop at times, and the others wait."""
    for cause in _causes(job, "garbage collection"):
        is_named = "range" in cause.evidence
        most = _silent_share(job) if not is_named else 1.0
        if min(cause.share, most) >= _WORTH:
            yield _found(
                job, replace(cause, saved_ns=round(cause.saved_ns * min(1.0, most / cause.share))),
                confidence="high" if is_named else "medium",
                reason="" if is_named else "the stops have the pattern of garbage collection, but no range names them",
            )  # fmt: skip


_WORTH = 0.01
_SILENT = ("garbage_collection", "nothing_recorded", "annotation")


def _silent_share(job: JobEvidence) -> float:
    """Of a job's time, how long its devices waited for hosts that may have collected garbage, all ranks together."""
    if job.inferred is None or job.inferred.names:
        return 1.0
    causes = pl.concat([rank.idle_account.causes.select("cause", "ns") for rank in job.ranks])
    return job.share(float(causes.filter(pl.col("cause").is_in(_SILENT)).get_column("ns").sum()))


def _causes(job: JobEvidence, *kinds: CauseKind) -> Iterator[Cause]:
    if job.slowdown is not None:
        yield from (cause for cause in job.slowdown.causes if cause.kind in kinds)


def _found(job: JobEvidence, cause: Cause, *more: Number, sentence: str = "", **told: Any) -> Found:
    """A cause of the job's S as a finding: its cost is what the replay without it saves."""
    slowdown = job.slowdown
    assert slowdown is not None
    steps = job.num_steps or slowdown.num_steps
    saved = max(0, cause.saved_ns) * steps
    doubt = "" if slowdown.is_trusted else "the replay of the job is not to be trusted"
    if doubt:
        told |= {"confidence": "low", "reason": doubt}
    path = next((rank.path for rank in job.ranks if rank.rank in cause.ranks[:1]), "")
    return Found(
        sentence=sentence or cause.sentence,
        cost_ns=saved,
        evidence=(
            Number(name="lost per step", value=cause.saved_ns, unit="ns"),
            *more,
            Number(name="S of the job", value=round(slowdown.slowdown, 4), unit="ratio"),
        ),
        where=Where(ranks=cause.ranks, path=path),
        saves_ns=None if doubt else (saved, saved),
        how=f"replay of the job with {_repaired(cause)}",
        not_told=doubt,
        **told,
    )


def _repaired(cause: Cause) -> str:
    match cause.kind:
        case "uneven stages":
            return f"stage {cause.stages[0]} at the pace of the others" if cause.stages else "even stages"
        case "uneven sequence lengths":
            return "micro-batches of equal length"
        case "garbage collection":
            return "no stops"
        case _:
            ranks = ", ".join(map(str, cause.ranks[:3])) + (" …" if len(cause.ranks) > 3 else "")
            return f"rank {ranks} at its peers' pace"


def _named(slowdown: JobSlowdown, ranks: Sequence[int]) -> str:
    names = dict(slowdown.workers.select("rank", "name").iter_rows())
    return " and ".join(
        [", ".join(names[rank] for rank in ranks[:2]), *([f"{len(ranks) - 2} more"] if len(ranks) > 2 else [])]
    )
