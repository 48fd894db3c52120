"""Jobs that look like something else: what only one rank has, what is slow in single steps, and more work for one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import weftrace as wt
from tests.jobs import plants, recipes, write
from tests.jobs import simulate as sim
from tests.jobs.simulate import COMPUTE, HOST, Job
from weftrace.advice import infer_lanes_of, slowdown_of
from weftrace.analysis.job_slowdown import JobSlowdown


def _job(steps: int = 6) -> Job:
    return plants.noisy(recipes.pipeline(2, 4, steps=steps), 0.005, 7)


def _answer(job: Job, folder: Path) -> JobSlowdown:
    return slowdown_of(infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), folder / "t.json"))), workers=1))


def _with_range(name: str, ns: float, of: Iterable[tuple[int, int]], steps: int = 6) -> Job:
    """of: rank and step that have such a range, in the beginning."""
    job, wanted = _job(steps), set(of)
    for op in job.ops:
        if op.kind == HOST and op.name == "load" and (op.rank, op.step) in wanted:
            op.kind, op.name, op.ns = COMPUTE, name, ns
    return job


def test_what_a_rank_has_and_its_peers_do_not(tmp_path: Path) -> None:
    found = _answer(_with_range("data-load", 9e6, ((1, step) for step in range(6))), tmp_path)
    assert found.causes[0].ranks == (1,), found.headline
    assert found.headline.startswith("DP 1 PP 0 computes ")
    assert "(data-load, which its peers do not have)" in found.headline
    assert found.slowdown > 1.2
