"""Jobs that look like something else: what only one rank has, what is slow in single steps, and more work for one."""

from __future__ import annotations

import json
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


def test_what_a_rank_has_once(tmp_path: Path) -> None:
    found = _answer(_with_range("save_checkpoint", 40e6, [(0, 2)]), tmp_path)
    assert found.causes[0].ranks == (0,), found.headline
    assert found.causes[0].first_step is None
    assert "in step 2 alone (save_checkpoint, which its peers do not have)" in found.headline


def test_what_all_ranks_of_a_replica_have_once(tmp_path: Path) -> None:
    found = _answer(_with_range("save_checkpoint", 40e6, [(rank, 2) for rank in (0, 2, 4, 6)]), tmp_path)
    assert found.headline.startswith("All ranks of DP 0 compute "), found.headline
    assert found.slowdown > 1.1


def test_what_all_ranks_have_slows_none_of_them(tmp_path: Path) -> None:
    found = _answer(_with_range("save_checkpoint", 40e6, [(rank, 2) for rank in range(8)]), tmp_path)
    assert not found.causes, found.headline


def _slow_in(job: Job, rank: int, steps: Iterable[int], factor: float) -> None:
    for op in job.ops:
        if op.kind == COMPUTE and op.rank == rank and op.step in steps:
            op.ns *= factor


def test_slow_in_single_steps(tmp_path: Path) -> None:
    for steps, words in (((2,), "in step 2 alone"), ((0, 1, 2), "in steps 0 to 2"), ((0, 2, 5), "in steps 0, 2 and 5")):
        job = _job()
        _slow_in(job, 2, steps, 1.5)
        found = _answer(job, tmp_path)
        assert found.causes[0].ranks == (2,), found.headline
        assert found.causes[0].first_step is None
        assert f"as long as its peers {words} (all operations alike)" in found.headline, found.headline


def test_another_rank_in_each_step(tmp_path: Path) -> None:
    job = _job()
    _slow_in(job, 2, (0, 2, 4), 1.4)
    _slow_in(job, 3, (1, 3, 5), 1.4)
    found = _answer(job, tmp_path)
    assert found.headline.startswith("Another rank is slow in each step: DP 0 PP 1 in steps 0, 2 and 4"), found.headline


def test_ranges_that_collect_garbage_are_named_so(tmp_path: Path) -> None:
    found = _answer(_with_range("gc.collect", 9e6, [(step * 3 % 8, step) for step in range(6)]), tmp_path)
    assert found.causes[0].kind == "garbage collection", found.headline
    assert "gc.collect" in found.headline


def test_single_long_backwards_blame_nobody(tmp_path: Path) -> None:
    job = _job()
    for at, op in enumerate(one for one in job.ops if one.name == "backward-compute"):
        op.ns += 8e6 * (at % 25 == 3)
    found = _answer(job, tmp_path)
    assert found.causes[0].kind == "garbage collection", found.headline
    assert not found.causes[0].ranks
    assert found.headline.startswith("Single backwards take long at changing ranks")


def test_a_host_that_stops_once(tmp_path: Path) -> None:
    job = plants.noisy(recipes.ddp(4), 0.005, 3)
    next(op for op in job.ops if op.name == "load" and op.rank == 1 and op.step == 3).ns = 30e6
    job = sim.with_hosts(job)
    folder = write.kineto(job, sim.run(job), tmp_path / "k", facts=write.Facts())
    found = slowdown_of(infer_lanes_of(wt.open(str(folder)), workers=1))
    assert found.causes[0].kind == "late host", found.headline
    assert found.causes[0].ranks == (1,)
    assert found.causes[0].first_step is None
    assert " alone by " in found.headline, found.headline


def _range(name: str, ts: float, dur: float, args: dict[str, int]) -> dict[str, object]:
    return {"ph": "X", "name": name, "pid": args["rank"], "tid": 0, "ts": ts, "dur": dur, "args": args}


def test_more_work_is_not_slower_work(tmp_path: Path) -> None:
    """Two ranks with 12 and 8 forwards of 1 ms a step, which meet after them."""
    events, now = [], 0.0
    for step in range(4):
        for rank, number in enumerate((8, 12)):
            place = {"rank": rank, "dp_rank": rank, "step": step}
            for at in range(number):
                args = {**place, "mb": at}
                events.append(_range("forward", now + at * 1e3, 1e3, args))
            start = now + number * 1e3
            events.append(_range("allreduce", start, now + 13e3 - start, place))
        now += 13e3
    path = tmp_path / "t.json"
    path.write_text(json.dumps(events))
    found = slowdown_of(infer_lanes_of(wt.open(str(path)), workers=1))
    assert found.causes[0].evidence == "more of them, not slower: 12 × forward a step, peers 8", found.headline
