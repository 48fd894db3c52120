"""How many samples and tokens a second does the job get through, and at how many FLOPs of each GPU?"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated

from msgspec import Meta

from weftrace.errors import FlopsError
from weftrace.files.schemas import Count
from weftrace.flops.derived.module_time import step_time
from weftrace.flops.derived.tally import Totals, totals
from weftrace.flops.values import FlopsReport, Parallel
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(InNotebook):
    """Rates of a whole job and of one GPU of it.

    step_ns: wall time of a step, the median. world: GPUs, data x tensor x pipeline x context (expert lies inside data).
    samples, tokens: of one step, of all data-parallel replicas; None where not known. Ranks that share a replica
        (tensor, pipeline, context) work on the same samples, which count once; so does each micro-batch of an
        accumulated step.
    samples_per_s, tokens_per_s: of the job. ..._per_gpu: that over the world.
    flops_per_gpu, executed_flops_per_gpu: model and executed matrix FLOPs of one GPU in one step (merged ranks: the
        mean). ..._per_s_per_gpu: a second.
    """

    step_ns: float
    world: Annotated[Count, Meta(description="GPUs.")]
    replicas: Count
    samples: Annotated[int | None, Meta(description="Of the job's step.")]
    tokens: int | None
    samples_per_s: float | None
    tokens_per_s: float | None
    samples_per_s_per_gpu: float | None
    tokens_per_s_per_gpu: float | None
    flops_per_gpu: float
    executed_flops_per_gpu: float
    flops_per_s_per_gpu: float
    executed_flops_per_s_per_gpu: float


def throughput(
    report: FlopsReport,
    *,
    samples: int | None = None,
    tokens: int | None = None,
    parallel: Parallel | None = None,
    accumulation: int | None = None,
    step_ns: float | None = None,
    step: Totals | None = None,
) -> Throughput:
    """Throughput of a report's step.

    samples, tokens: of one replica in one step, or, with `accumulation`, in one micro-batch; None: the report's, which
        are of the whole step. Where the sequence is split over context ranks, tokens are those of the whole sequence.
    parallel: how ranks share the work; None: as the report has it. accumulation: micro-batches in the timed step.
    step_ns: wall time of a step, where another clock knows better. step: the report's local totals, where they are
    known already.
    Raises `FlopsError` where no step was timed, a number is not above 0, the expert ranks do not divide the
    data-parallel ones, more ranks were merged than there are, or the accumulation is not that of the counted step.
    """
    step = totals(report) if step is None else step
    parallel = report.parallel if parallel is None else parallel
    _check(report, parallel, samples, tokens, accumulation)
    step_ns = step_time(report, step_ns, "throughput")
    micro_batches = accumulation or 1
    all_samples = _of_job(report.samples if samples is None else samples * micro_batches, parallel)
    all_tokens = _of_job(report.tokens if tokens is None else tokens * micro_batches, parallel)
    flops, executed = step.flops / report.ranks, step.executed_flops / report.ranks
    samples_per_s = None if all_samples is None else 1e9 * all_samples / step_ns
    tokens_per_s = None if all_tokens is None else 1e9 * all_tokens / step_ns
    return Throughput(
        step_ns=step_ns,
        world=parallel.world,
        replicas=parallel.data,
        samples=all_samples,
        tokens=all_tokens,
        samples_per_s=samples_per_s,
        tokens_per_s=tokens_per_s,
        samples_per_s_per_gpu=None if samples_per_s is None else samples_per_s / parallel.world,
        tokens_per_s_per_gpu=None if tokens_per_s is None else tokens_per_s / parallel.world,
        flops_per_gpu=flops,
        executed_flops_per_gpu=executed,
        flops_per_s_per_gpu=1e9 * flops / step_ns,
        executed_flops_per_s_per_gpu=1e9 * executed / step_ns,
    )


def _of_job(of_replica: int | None, parallel: Parallel) -> int | None:
    return None if of_replica is None else of_replica * parallel.data


def _check(
    report: FlopsReport, parallel: Parallel, samples: int | None, tokens: int | None, accumulation: int | None
) -> None:
    for field in fields(parallel):
        ranks = getattr(parallel, field.name)
        if ranks < 1:
            raise FlopsError(f"{report.name}: {field.name} parallel over {ranks} ranks; it must be at least 1")
    if parallel.data % parallel.expert:
        raise FlopsError(
            f"{report.name}: {parallel.expert} expert-parallel ranks do not divide the {parallel.data} "
            "data-parallel ones that they lie inside"
        )
    if parallel.world < report.ranks and report.ranks > 1:
        raise FlopsError(
            f"{report.name}: {report.ranks} ranks were merged, and the job has {parallel.world} (data "
            f"{parallel.data} x tensor {parallel.tensor} x pipeline {parallel.pipeline} x context "
            f"{parallel.context}); give `parallel`"
        )
    for name, value in (("samples", samples), ("tokens", tokens), ("accumulation", accumulation)):
        if value is not None and value < 1:
            raise FlopsError(f"{report.name}: {name} is {value}; it must be at least 1")
    if accumulation is not None and accumulation != report.micro_batches:
        raise FlopsError(
            f"{report.name}: accumulation over {accumulation} micro-batches, but the counted step has "
            f"{report.micro_batches}; count and time a step as long as an update of the weights"
        )
