"""Jobs of many ranks: which are compared with which, and what is said of the others."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.comparison.test_straggler_attribution import meets_of_plan, work_and_meet
from weftrace.comparison.diffs import diff
from weftrace.comparison.exact_changes import summed
from weftrace.comparison.runs import WAITING, run_of
from weftrace.errors import TraceError
from weftrace.plan import simulate_ranks
from weftrace.units import MS, US


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return work_and_meet(4).write(tmp_path_factory.mktemp("jobs") / "four")


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to))


def changed(path: Path, **fields: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_a_job_with_itself_is_empty(folder: Path) -> None:
    found = diff(folder, folder, workers=1)
    assert not found.changes["change_ns"].abs().sum()
    assert found.by_rank().select("rank", "change_ns").rows() == [(rank, 0) for rank in range(4)]
    assert found.notes == ()


def test_ranks_of_both_are_compared_and_the_others_told_with_their_time(folder: Path, tmp_path: Path) -> None:
    other = copied(folder, tmp_path / "other")
    (other / "rank1.json").unlink()
    found = diff(folder, other, workers=1)
    assert [rank.rank for rank in found.after.ranks] == [rank.rank for rank in found.before.ranks] == [0, 2, 3]
    assert "before alone has rank 1 (4.61 ms a step): compared with nothing" in found.notes
    assert not found.changes["change_ns"].abs().sum()  # nor did they wait for rank 1 in the one alone
    assert "after: 1 of 4 ranks have no file here: sums and means are over those that have" in found.notes


def test_files_that_count_in_no_sum_are_left_out_and_told(folder: Path, tmp_path: Path) -> None:
    """A second file of rank 1, one of another job, one without device work, one that is none."""
    other = copied(folder, tmp_path / "other")
    shutil.copy(other / "rank1.json", other / "rank1-again.json")
    document = json.loads((other / "rank3.json").read_text())
    changed(other / "rank3.json", distributedInfo=document["distributedInfo"] | {"world_size": 8})
    document["traceEvents"] = [e for e in document["traceEvents"] if e.get("cat") != "kernel"]
    (other / "rank2.json").write_text(json.dumps(document | {"distributedInfo": {"rank": 2, "world_size": 4}}))
    (other / "rank5.json").write_text("{")
    run = run_of(other, workers=1)
    assert [rank.rank for rank in run.ranks] == [0, 1]
    assert [Path(failure.path).name for failure in run.failures] == ["rank5.json"]
    assert run.notes[:3] == (
        "rank 2 (rank2.json) holds no device work: left out",
        "several files say that they are rank 1: rank1.json is left out, the first by name counts",
        "files of different jobs? they record world sizes 4, 8: rank 3 (rank3.json) is left out",
    )
    assert [rank.rank for rank in diff(folder, run, workers=1).before.ranks] == [0, 1]


def test_a_job_of_broken_files_is_refused(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text("{")
    with pytest.raises(TraceError, match="rank0"):
        run_of(tmp_path, workers=1)


def test_a_trace_of_one_rank_is_compared_with_that_rank_of_a_job(folder: Path) -> None:
    found = diff(folder / "rank2.json", folder, workers=1)
    assert [(rank.rank, Path(rank.path).name) for rank in found.after.ranks] == [(2, "rank2.json")]
    assert not found.changes["change_ns"].abs().sum()  # and what it waited for others is told of neither
    assert WAITING not in found.changes["part"]
    assert found.notes[0].startswith("after alone has rank 0 (")


def test_a_stage_of_a_pipeline_that_takes_longer_is_told_by_rank() -> None:
    from weftrace.pipeline import Costs, generate
    from weftrace.pipeline.as_plan import plan_of

    schedule = generate("1F1B", num_ranks=4, num_micro_batches=6)
    even, slow = (Costs(forward_ns=MS, input_ns=MS, weight_ns=MS, rank_factor=by) for by in (1.0, (1.0, 1.0, 1.5, 1.0)))
    found = diff(simulate_ranks(plan_of(schedule, even)), simulate_ranks(plan_of(schedule, slow)))
    by_rank = found.by_rank()
    assert by_rank.filter(rank=2).select("part").item() == "compute"
    assert set(by_rank.filter(by_rank["rank"] != 2)["part"]) == {"idle"}


def test_what_is_told_of_each_rank_is_what_its_changes_add_up_to(folder: Path, tmp_path: Path) -> None:
    after = work_and_meet(4, late=2, delay=300 * US).write(tmp_path / "after")
    found = diff(folder, after, workers=1)
    for at, row in enumerate(found.by_rank().iter_rows(named=True)):
        changes = found.of_rank(at)
        for name in ("before_ns", "after_ns", "change_ns"):
            assert abs(row[name] - changes[name].sum()) <= 5  # a part is rounded by itself
        most = summed(changes, ("part", "cause")).row(0, named=True)
        assert (row["part"], row["cause"]) == (most["part"], most["cause"])


def test_the_late_rank_of_one_run_alone_is_told_by_name(tmp_path: Path) -> None:
    before = simulate_ranks(meets_of_plan(3))
    after = simulate_ranks(meets_of_plan(4, late=3, delay=50 * US))
    found = diff(before, after)
    assert found.by("part", "cause").row(0, named=True)["cause"] == "rank 3"
