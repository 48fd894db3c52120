"""How often S of a simulated job, and the first cause, are told right: `python -m tests.jobs.confusion`.

Right is the kind with its owner: the rank that was made slow, the stage, the link's ranks. Of two causes either may
come first, and both must be told.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import weftrace as wt
from tests.jobs import simulate as sim
from tests.jobs import write
from tests.jobs.simulate import Job, Op
from weftrace.advice import infer_lanes_of, slowdown_of
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.errors import WeftraceError

NOTHING = "nothing"
_WITHIN = 0.01


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    make: Callable[[], Job]
    form: str  # plain, transfers, ranks, kineto


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    planted: tuple[str, ...]
    told: str
    is_right: bool
    error: float
    truth: float
    sentence: str


def told(job: Job, form: str, folder: Path) -> JobSlowdown:
    times = sim.run(job)
    if form == "kineto":
        source = write.kineto(job, times, folder / "k", ahead={rank: 7e5 * rank for rank in range(job.dp * job.pp)})
    elif form == "ranks":
        source = write.file_a_rank(job, times, folder / "r")
    elif form == "table":
        source = write.table(job, times, folder / "t.parquet")
    else:
        source = write.one_file(job, times, folder / "t.json", transfer_only=form == "transfers")
    return slowdown_of(infer_lanes_of(wt.open(str(source)), workers=1))


def outcome(case: Case) -> Outcome:
    job = case.make()
    truth = sim.slowdown(job)
    planted = tuple(kind for kind, _, _ in job.planted) or (NOTHING,)
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = told(job, case.form, Path(folder))
        except WeftraceError as error:
            return Outcome(case, planted, "refused", False, 9.0, truth, str(error))
    causes = [
        cause
        for cause in found.causes
        if cause.kind != "spread" and max(cause.share, cause.alone_ns / found.replayed_ns) >= 0.01
    ]
    first = causes[0].kind if causes else NOTHING
    return Outcome(
        case,
        planted,
        first,
        is_right(job, causes),
        found.slowdown / truth - 1,
        truth,
        f"S={found.slowdown:.4f} {found.headline}",
    )


def is_right(job: Job, causes: list[object]) -> bool:
    if not job.planted:
        return not causes
    if not causes:
        return False

    def fits(cause: object, planted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> bool:
        kind, ranks, stages = planted
        if cause.kind != kind:  # type: ignore[attr-defined]
            return (
                job.dp == 1
                and {cause.kind, kind} == {"slow compute", "uneven stages"}
                and _same_place(job, cause, planted)
            )  # type: ignore[attr-defined]
        if kind == "uneven stages":
            return cause.stages[0] in stages  # type: ignore[attr-defined]
        if kind == "slow link":
            return set(cause.ranks) <= set(ranks)  # type: ignore[attr-defined]
        return not ranks or set(ranks) <= set(cause.ranks)  # type: ignore[attr-defined]

    first = any(fits(causes[0], each) for each in job.planted)
    return first and all(any(fits(cause, each) for cause in causes) for each in job.planted)


def _same_place(job: Job, cause: object, planted: tuple[str, tuple[int, ...], tuple[int, ...]]) -> bool:
    """One rank a stage: whether it is slow, or its stage too long, cannot be told."""
    return set(cause.ranks or cause.stages) == set(planted[1] or planted[2])  # type: ignore[attr-defined]


def _first_pair(op: Op) -> bool:
    return (
        op.meet is not None and op.meet[0] == "p2p" and op.dp == 0 and {op.meet[3], op.meet[5]} in ({"F", 0}, {"B", 1})
    )


def cases() -> Iterator[Case]:
    """The grid: shapes of jobs x causes x forms x noise."""
    shapes: dict[str, Callable[[], Job]] = {
        "1f1b 2x4": lambda: sim.pipeline(2, 4),
        "1f1b 4x2": lambda: sim.pipeline(4, 2),
        "1f1b 1x4": lambda: sim.pipeline(1, 4),
        "gpipe 2x2": lambda: sim.pipeline(2, 2, gpipe=True),
        "interleaved 2x2": lambda: sim.pipeline(2, 2, chunks=2),
        "async 2x4": lambda: sim.pipeline(2, 4, sends_wait=False),
        "ddp 4": lambda: sim.ddp(4),
        "ddp 8": lambda: sim.ddp(8),
        "fsdp 4": lambda: sim.fsdp(4),
    }
    plants: dict[str, Callable[[Job, int], Job]] = {
        NOTHING: lambda job, seed: job,
        "slow": lambda job, seed: sim.slow_worker(job, seed % (job.dp * job.pp), 1.15 + 0.1 * (seed % 3)),
        "slow since 2": lambda job, seed: sim.slow_worker(job, (seed + 1) % (job.dp * job.pp), 1.4, since=2),
        "two slow": lambda job, seed: sim.slow_worker(sim.slow_worker(job, 0, 1.3), job.dp * job.pp - 1, 1.3),
        "last stage": lambda job, seed: sim.slow_stage(job, job.pp - 1, 1.4),
        "first stage": lambda job, seed: sim.slow_stage(job, 0, 1.3),
        "lengths": lambda job, seed: sim.lengths(job, 0.25, seed),
        "collections": lambda job, seed: sim.collections(job, 3e6, 0.08, seed),
        "host": lambda job, seed: sim.late_host(job, seed % job.dp, 4e6),
        "link": lambda job, seed: sim.slow_link(job, _first_pair, 20.0),
        "slow and last stage": lambda job, seed: sim.slow_stage(sim.slow_worker(job, 0, 1.5), job.pp - 1, 1.3),
    }
    for shape, make in shapes.items():
        for plant, put in plants.items():
            has_stages, has_peers = shape[-1] != "1" and "x" in shape, "1x" not in shape
            if ("stage" in plant or plant == "link") and not has_stages:
                continue
            if plant in ("link", "slow and last stage", "two slow", "host") and not has_peers:
                continue
            if plant == "link" and shape.startswith(("async", "inter")):
                continue
            if plant in ("collections", "lengths") and shape.startswith(("fsdp", "1f1b 1x4")):
                continue
            for at, form in enumerate(("plain", "transfers", "ranks", "table", "kineto")):
                if form == "kineto" and (shape.startswith("async") or plant in ("lengths", "collections")):
                    continue
                noise = (0.0, 0.01, 0.02)[at % 3] or 0.003

                def made(make: Callable[[], Job] = make, put: Callable[[Job, int], Job] = put, at: int = at,
                         noise: float = noise) -> Job:  # fmt: skip
                    return put(sim.noisy(make(), noise, 7 + at), 3 + at)

                yield Case(f"{shape} · {plant} · {form}", made, form)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--only", default="")
    given = parser.parse_args(argv)
    chosen = [case for case in cases() if given.only in case.name][given.offset :: given.every]
    found = [outcome(case) for case in chosen]
    table: Counter[tuple[str, str]] = Counter()
    for each in found:
        table[" and ".join(each.planted), each.told] += 1
        if not each.is_right or abs(each.error) > _WITHIN:
            mark = "" if each.is_right else "WRONG CAUSE "
            print(
                f"{mark}{each.case.name}: S {each.truth:.4f}, off {each.error:+.2%}: told {each.told}: {each.sentence}"
            )
    for (planted, first), number in sorted(table.items()):
        print(f"{planted:40} told as {first:26} {number:4}")
    right, near = sum(each.is_right for each in found), sum(abs(each.error) <= _WITHIN for each in found)
    worst = max((abs(each.error) for each in found), default=0.0)
    print(f"{len(found)} jobs: owner and kind right in {right}, S within 1 % in {near}, worst {worst:.2%}")
    return 0 if right >= 0.98 * len(found) and near == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
