"""Random jobs of several ranks, and the changes that are tried on them."""

from __future__ import annotations

import random

from tests.trust.simulator import Change, Job

MAIN, SIDE = 7, 20
KINDS = ("data", "tensor", "grid", "pipeline")


def random_job(seed: str, *, kind: str | None = None, num_ranks: int = 4, contention: float = 1.0,
               noise: float = 0.02, steps: int = 3) -> Job:  # fmt: skip
    """data: gradients reduced beside the backward. tensor: collectives between kernels. grid: both, in groups of two.
    pipeline: stages that send to each other. One rank, or none, is slower than the others."""
    chance = random.Random(seed)
    kind = kind or chance.choice(KINDS)
    job = Job(seed, num_ranks, noise=noise, contention=contention)
    slow = chance.choice([None, *range(num_ranks)])
    if slow is not None:
        job.slow[slow, chance.choice(["compute", "compute", "host"])] = chance.uniform(1.15, 2.0)
    size = {what: chance.uniform(0.6, 1.6) for what in ("compute", "communication", "host")}
    for step in range(steps):
        for rank in range(num_ranks):
            job.host(rank, 60 * size["host"] * chance.uniform(0.5, 3.0))
        {"data": _data, "tensor": _tensor, "grid": _grid, "pipeline": _pipeline}[kind](job, size, step)
        for rank in range(num_ranks):
            job.kernel(rank, MAIN, 80 * size["compute"], name="elementwise", grid=1000)
            if chance.random() < 0.6 or step == steps - 1:
                job.sync(rank)
    return job


def _data(job: Job, size: dict[str, float], step: int) -> None:
    every = range(job.num_ranks)
    for layer in range(4):
        for rank in every:
            job.kernel(rank, MAIN, 120 * size["compute"], shapes=[[512, 512 + layer]])
    for layer in range(4):
        for rank in every:
            job.kernel(rank, MAIN, 240 * size["compute"], grid=264, shapes=[[512, 1024 + layer]])
            job.wait(rank, SIDE, MAIN)
        job.collective(every, SIDE, 200 * size["communication"])
    for rank in every:
        job.wait(rank, MAIN, SIDE)


def overlapping_job(seed: str, *, contention: float = 1.25, noise: float = 0.02, num_ranks: int = 2) -> Job:
    """Equal layers, forward and backward, with gradients reduced beside part of the backward, weights gathered beside
    part of the forward: of each kernel some repeats run beside communication, wholly or in part, and some alone."""
    chance = random.Random(seed)
    job = Job(seed, num_ranks, noise=noise, contention=contention)
    every, layers = range(num_ranks), chance.choice([4, 6, 8])
    size = {what: chance.uniform(0.6, 1.6) for what in ("compute", "forward", "gather", "reduce")}
    often = chance.choice([1, 2, 3])  # every how many layers ranks communicate
    if chance.random() < 0.5:
        job.slow[chance.choice(every), "compute"] = chance.uniform(1.05, 1.4)
    for step in range(4):
        for rank in every:
            job.host(rank, 80)
        for layer in range(layers):
            if layer % often == 0:
                job.collective(every, SIDE, 90 * often * size["gather"], kind="all_gather", elems=1 << 21)
            for rank in every:
                job.kernel(rank, MAIN, 110 * size["forward"], shapes=[[512, 512]])
                job.kernel(rank, MAIN, 60 * size["compute"], name="elementwise", grid=500, shapes=[[4096]])
        for rank in every:
            job.wait(rank, MAIN, SIDE)
        for layer in range(layers):
            for rank in every:
                job.kernel(rank, MAIN, 220 * size["compute"], grid=264, shapes=[[512, 1024]])
                job.kernel(rank, MAIN, 70 * size["compute"], name="elementwise", grid=800, shapes=[[8192]])
                if layer % often == 0:
                    job.wait(rank, SIDE, MAIN)
            if layer % often == 0:
                job.collective(every, SIDE, 110 * often * size["reduce"], kind="reduce_scatter", elems=1 << 21)
        for rank in every:
            job.wait(rank, MAIN, SIDE)
            job.kernel(rank, MAIN, 90 * size["compute"], name="elementwise", grid=1000, shapes=[[1 << 20]])
            if chance.random() < 0.5 or step == 3:
                job.sync(rank)
    return job


def _tensor(job: Job, size: dict[str, float], step: int) -> None:
    every = range(job.num_ranks)
    for layer in range(6):
        for rank in every:
            job.kernel(rank, MAIN, 150 * size["compute"], shapes=[[512, 512 + layer]])
            job.wait(rank, SIDE, MAIN)
        job.collective(every, SIDE, 90 * size["communication"], kind="all_reduce" if layer % 2 else "all_gather")
        for rank in every:
            if layer % 3 == 0:
                job.kernel(rank, MAIN, 60 * size["compute"], name="elementwise", grid=500)
            job.wait(rank, MAIN, SIDE)


def _grid(job: Job, size: dict[str, float], step: int) -> None:
    half = job.num_ranks // 2
    rows = [tuple(range(half)), tuple(range(half, job.num_ranks))]
    columns = [(at, at + half) for at in range(half)]
    for _ in range(4):
        for rank in range(job.num_ranks):
            job.kernel(rank, MAIN, 180 * size["compute"], shapes=[[512, 512]])
            job.wait(rank, SIDE, MAIN)
        for row in rows:
            job.collective(row, SIDE, 70 * size["communication"])
        for rank in range(job.num_ranks):
            job.wait(rank, MAIN, SIDE)
            job.kernel(rank, MAIN, 90 * size["compute"], name="elementwise", grid=500)
            job.wait(rank, SIDE + 4, MAIN)
        for column in columns:
            job.collective(column, SIDE + 4, 120 * size["communication"], kind="reduce_scatter", elems=1 << 21)
    for rank in range(job.num_ranks):
        job.wait(rank, MAIN, SIDE + 4)


def _pipeline(job: Job, size: dict[str, float], step: int) -> None:
    last, batches = job.num_ranks - 1, 4
    for rank in range(job.num_ranks):
        for batch in range(batches):
            if rank:
                _receive(job, rank, rank - 1, f"{step}F{batch}", size)
            job.kernel(rank, MAIN, 150 * size["compute"], shapes=[[512, 512]])
            if rank < last:
                _send(job, rank, rank + 1, f"{step}F{batch}", size)
        for batch in range(batches):
            if rank < last:
                _receive(job, rank, rank + 1, f"{step}B{batch}", size)
            job.kernel(rank, MAIN, 300 * size["compute"], grid=264, shapes=[[512, 1024]])
            if rank:
                _send(job, rank, rank - 1, f"{step}B{batch}", size)


def _stream(a: int, b: int, way: str) -> int:
    return SIDE + 10 * min(a, b) + (way == "B")


def _send(job: Job, rank: int, to: int, tag: str, size: dict[str, float]) -> None:
    stream = _stream(rank, to, tag[-2])
    job.wait(rank, stream, MAIN)
    job.half(rank, rank, to, stream, 40 * size["communication"], tag=f"{tag}/{rank}>{to}")


def _receive(job: Job, rank: int, source: int, tag: str, size: dict[str, float]) -> None:
    stream = _stream(rank, source, tag[-2])
    job.half(rank, source, rank, stream, 40 * size["communication"], tag=f"{tag}/{source}>{rank}")
    job.wait(rank, MAIN, stream)


def scaled(**factors: float) -> Change:
    """Factors by class, or by family."""
    return lambda what, family, rank: factors.get(what, 1.0) * (factors.get(family, 1.0) if family != what else 1.0)


#: What weftrace is asked -> the change in the simulation. latency: of a launch.
CHANGES: dict[str, Change] = {
    "compute=0.5": scaled(compute=0.5),
    "compute=1.3": scaled(compute=1.3),
    "communication=0.5": scaled(communication=0.5),
    "communication=0": scaled(communication=0.0),
    "communication=1.5": scaled(communication=1.5),
    "gemm=0.8": scaled(gemm=0.8),
    "elementwise=0.5": scaled(elementwise=0.5),
    "host=0.5": scaled(host=0.5),
    "no host gaps": scaled(host=0.0, launch=0.0, latency=0.0),
    "compute=0.8,communication=1.25": scaled(compute=0.8, communication=1.25),
    "elementwise=2": scaled(elementwise=2.0),
}
