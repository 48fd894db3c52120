"""What makes simulated jobs slow. Each changes the job, and notes whose fault it is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.jobs.simulate import COLLECTIVE, COMPUTE, HOST, RECV, SEND, Job, Op, Planted


def noisy(job: Job, part: float, seed: int) -> Job:
    draw = random.Random(seed)
    for op in job.ops:
        op.ns *= draw.lognormvariate(0, part)
    return job


def slow_worker(job: Job, rank: int, factor: float, *, since: int = 0, only: str = "") -> Job:
    """only: the computations with that in their name."""
    for op in job.ops:
        if op.kind == COMPUTE and op.rank == rank and op.step >= since and only in op.name:
            op.ns *= factor
    job.planted.append(Planted("slow compute", (rank,), since=since))
    return job


def slow_kernel(job: Job, rank: int, factor: float) -> Job:
    """One kind of kernel of a rank alone."""
    for op in job.ops:
        if op.kind == COMPUTE and op.rank == rank:
            first, second, *others = op.mix
            mix = (first, second * factor, *others)
            op.ns *= sum(mix) / sum(op.mix)
            op.mix = mix
    job.planted.append(Planted("slow compute", (rank,)))
    return job


def slow_stage(job: Job, stage: int, factor: float, *, is_even: bool = False) -> Job:
    """is_even: the same work, divided evenly over the stages."""
    for op in job.ops:
        if op.kind == COMPUTE and (op.stage == stage or is_even) and op.name != "optimizer":
            op.ns *= (factor + job.pp - 1) / job.pp if is_even else factor
    if is_even:
        return job
    job.planted.append(Planted("uneven stages", (), (stage,)))
    return job


def lengths(job: Job, spread: float, seed: int, *, is_even: bool = False) -> Job:
    """Sequences of a micro-batch are as long on all stages: half of the work grows with the square. is_even: the same
    work, divided evenly over the micro-batches."""
    draw = random.Random(seed)
    length: dict[tuple[int, int, int], float] = {}
    for op in job.ops:
        if op.kind == COMPUTE and op.name != "optimizer":
            key = (op.dp, op.step, op.micro_batch)
            part = length.setdefault(key, draw.lognormvariate(0, spread))
            op.ns *= (part + part * part) / 2
    if is_even:
        return lengths_evened(job, length)
    job.planted.append(Planted("uneven sequence lengths"))
    return job


def lengths_evened(job: Job, length: dict[tuple[int, int, int], float]) -> Job:
    works = [(part + part * part) / 2 for part in length.values()]
    for op in job.ops:
        if op.kind == COMPUTE and op.name != "optimizer":
            part = length[op.dp, op.step, op.micro_batch]
            op.ns *= sum(works) / len(works) / ((part + part * part) / 2)
    return job


def collections(job: Job, ns: float, share: float, seed: int) -> Job:
    """A share of the forwards, five at least, is longer: as ranges show that the host collects garbage."""
    draw = random.Random(seed)
    forwards = [op for op in job.ops if op.kind == COMPUTE and op.name == "forward-compute" and op.part_of < 0]
    for op in draw.sample(forwards, max(5, round(share * len(forwards)))):
        op.ns += ns * draw.uniform(0.7, 1.3)
    job.planted.append(Planted("garbage collection"))
    return job


def host_collections(job: Job, ns: float, share: float, seed: int) -> Job:
    """As kernels show it: hosts of changing ranks stop, and their devices starve."""
    draw = random.Random(seed)
    pauses = [op for op in job.ops if op.kind == HOST and op.name == "pause"]
    for op in draw.sample(pauses, max(5, round(share * len(pauses)))):
        op.ns += ns * draw.uniform(0.7, 1.3)
    job.planted.append(Planted("garbage collection"))
    return job


def slow_link(job: Job, of: Callable[[Op, set[int]], bool], factor: float) -> Job:
    """of: whether an op with the ranks of its meeting goes over the link."""
    ranks = set()
    for ops in job.members().values():
        members = {job.ops[at].rank for at in ops}
        for at in ops:
            if job.ops[at].kind in (SEND, RECV, COLLECTIVE) and of(job.ops[at], members):
                job.ops[at].ns *= factor
                ranks.add(job.ops[at].rank)
    job.planted.append(Planted("slow link", tuple(sorted(ranks))))
    return job


def slow_pair(job: Job, one: int, other: int, factor: float) -> Job:
    return slow_link(job, lambda op, members: op.kind in (SEND, RECV) and members == {one, other}, factor)


def slow_group(job: Job, rank: int, factor: float) -> Job:
    """The data-parallel collectives of a rank's group."""
    return slow_link(job, lambda op, members: op.lane == "dp" and rank in members and len(members) == job.dp, factor)


def slow_nic(job: Job, rank: int, factor: float) -> Job:
    """All that a rank has part in, but what all ranks have."""
    slow_link(job, lambda op, members: rank in members and len(members) < job.num_ranks, factor)
    job.planted[-1] = replace(job.planted[-1], kind="slow nic", ranks=(rank,))
    return job


def late_host(job: Job, rank: int, ns: float, *, since: int = 0, name: str = "load", every: int = 1) -> Job:
    """name: load, before the step, or pause, between its computations. Not before all that the rank records: nothing
    tells that it was to begin earlier."""
    number, has_begun, first = 0, False, 0
    for op in job.ops:
        if op.rank != rank:
            continue
        has_begun |= op.kind != HOST
        if has_begun and op.kind == HOST and op.step >= since and op.name == name:
            op.ns += ns if number % every == 0 else 0.0
            first = first if number else op.step
            number += 1
    job.planted.append(Planted("late host", (rank,), since=first))
    return job
