"""Many ranks: found, read in processes, and none of them able to spoil the others."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.analyses import analysed
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import Breakdown, breakdown
from weftrace.errors import TraceError
from weftrace.trace import Job, Trace, find_traces, open_trace

SPANS = {0: 10_000, 1: 20_000, 2: 30_000, 3: 40_000}  # ns, by rank


def write_rank(folder: Path, rank: int, name: str | None = None) -> Path:
    file = TraceFile(rank=rank, world_size=4).kernel(GEMM, 100, 5).kernel(ALL_REDUCE, 100, 10 * (rank + 1), stream=20)
    return file.write(folder / (name or f"rank{rank}.json"))


@pytest.fixture
def four_ranks(tmp_path: Path) -> Path:
    """Ranks 0 to 3, of which rank 2 is cut short before its first event ends."""
    for rank in range(4):
        write_rank(tmp_path, rank)
    text = (tmp_path / "rank2.json").read_text()
    (tmp_path / "rank2.json").write_text(text[: text.index('"traceEvents"') + 20])
    return tmp_path


def job_of(path: Path | str, *, ranks: list[int] | None = None) -> Job:
    job = open_trace(path, ranks=ranks)
    assert isinstance(job, Job)
    return job


def rank_and_span(trace: Trace) -> tuple[int | None, int]:
    return trace.rank, breakdown(trace).span_ns


def killed_on_rank_1(trace: Trace) -> int | None:
    if trace.rank == 1:
        os._exit(9)  # as the kernel does to a process that takes too much memory
    return trace.rank


def wrong_on_rank_1(trace: Trace) -> int | None:
    if trace.rank == 1:
        raise ValueError("a bug")
    return trace.rank


# --- one broken rank ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_rank_is_reported_and_the_rest_go_on(four_ranks: Path, workers: int) -> None:
    done: list[str] = []
    outcomes = job_of(four_ranks).map(rank_and_span, workers=workers, on_done=done.append)
    assert [outcome.value for outcome in outcomes] == [(0, SPANS[0]), (1, SPANS[1]), None, (3, SPANS[3])]
    assert [outcome.rank for outcome in outcomes] == [0, 1, None, 3]
    failure = outcomes[2].failure
    assert failure is not None and failure.path.endswith("rank2.json") and "rank2.json" in failure.error
    assert sorted(done) == [str(four_ranks / f"rank{rank}.json") for rank in range(4)]


def test_a_killed_worker_is_reported_and_the_rest_go_on(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    outcomes = job_of(tmp_path).map(killed_on_rank_1, workers=2)
    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    failure = outcomes[1].failure
    assert failure is not None and "was killed" in failure.error and "--workers" in failure.error


def test_a_bug_costs_one_rank_and_is_told(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    outcomes = job_of(tmp_path).map(wrong_on_rank_1, workers=1)
    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    failure = outcomes[1].failure
    assert failure is not None
    assert "rank1.json: unexpected ValueError: a bug (test_job.py, line" in failure.error


def test_all_broken(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text("{}")
    analysis = analysed(job_of(tmp_path), workers=1)
    assert analysis.ranks == () and len(analysis.failures) == 2


# --- processes ----------------------------------------------------------------------------------------------------


def test_two_workers_give_what_one_gives(four_ranks: Path) -> None:
    here, there = (analysed(job_of(four_ranks), workers=workers) for workers in (1, 2))
    assert [rank.rank for rank in there.ranks] == [rank.rank for rank in here.ranks] == [0, 1, 3]
    assert there.failures == here.failures and there.clocks == here.clocks and there.notes == here.notes
    for a, b in zip(here.ranks, there.ranks, strict=True):
        assert a.breakdown == b.breakdown and a.headroom == b.headroom and a.quality == b.quality
        assert a.overlap.matrix.ns == b.overlap.matrix.ns
        assert a.kernels.kernels.equals(b.kernels.kernels) and a.phases.equals(b.phases)
        assert all(x.boxes.equals(y.boxes) for x, y in zip(a.lanes, b.lanes, strict=True))


def test_results_come_back_in_the_order_of_paths(tmp_path: Path) -> None:
    for rank in range(12):
        write_rank(tmp_path, rank)
    job = job_of(tmp_path)
    with ThreadPoolExecutor(4) as pool:  # any executor will do: a cluster's, say
        outcomes = job.map(rank_and_span, executor=pool)
    assert [outcome.value[0] for outcome in outcomes if outcome.value] == list(range(12))  # 2 before 10


def test_what_travels_is_small(shared_data: Path) -> None:
    for path in ("hta-two-ranks/sampled_rank-0.json.gz", "deepseek-v3-train.json.gz"):
        trace = open_trace(shared_data / path)
        assert isinstance(trace, Trace)
        (rank,) = analysed(trace).ranks
        assert len(pickle.dumps(rank)) < min(400_000, len(pickle.dumps(trace)) // 3)


@pytest.mark.parametrize(
    "script",
    [
        "import weftrace as wt\nmade = wt.analyze(sys.argv[1], workers=2).document\n"
        "print(made['num_ranks'] + len(made['failures']))\n",
        "import weftrace as wt\ndef name(trace): return trace.rank\n"
        "if __name__ == '__main__': print(len(wt.open(sys.argv[1]).map(name, workers=2)))\n",
    ],
    ids=["without a guard", "a function of its own"],
)
def test_a_script_is_run_once(four_ranks: Path, tmp_path: Path, script: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(f"import sys\n{script}")
    done = subprocess.run([sys.executable, file, four_ranks], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("4\n", "", 0)


def test_a_job_is_only_paths(four_ranks: Path) -> None:
    job = job_of(four_ranks)
    assert len(pickle.dumps(job)) < 2000
    assert len(job) == 4 and "4 files" in repr(job)


def test_traces_one_after_another(four_ranks: Path) -> None:
    os.remove(four_ranks / "rank2.json")
    assert [trace.rank for trace in job_of(four_ranks).traces()] == [0, 1, 3]
    assert [trace.rank for trace in job_of(four_ranks, ranks=[3]).traces()] == [3]


# --- which ranks --------------------------------------------------------------------------------------------------


def test_ranks_are_selected_without_opening_the_others(four_ranks: Path) -> None:
    (four_ranks / "rank0.json").write_text("not even a trace")
    outcomes = job_of(four_ranks, ranks=[1, 3]).map(rank_and_span, workers=1)
    assert [outcome.value for outcome in outcomes] == [(1, SPANS[1]), (3, SPANS[3])]


def test_ranks_that_names_do_not_tell_are_selected_by_content(tmp_path: Path) -> None:
    for rank, name in enumerate(("b.json", "a.json", "c.json")):
        write_rank(tmp_path, rank, name)
    outcomes = job_of(tmp_path, ranks=[1]).map(rank_and_span, workers=1)
    assert [(Path(o.path).name, o.rank, o.value) for o in outcomes] == [
        ("a.json", 1, (1, SPANS[1])), ("b.json", 0, None), ("c.json", 2, None)
    ]  # fmt: skip
    assert all(outcome.failure is None for outcome in outcomes)


def test_a_rank_that_is_not_there_is_told(four_ranks: Path) -> None:
    *found, last = job_of(four_ranks, ranks=[1, 2, 7, 9]).map(rank_and_span, workers=1)
    assert [outcome.value for outcome in found] == [(1, SPANS[1]), None]  # rank 2 is there, and broken
    assert last.failure is not None and "no trace of rank 7, 9 among 4 files" in last.failure.error


def test_one_file_with_a_choice_of_ranks_is_a_job(tmp_path: Path) -> None:
    path = write_rank(tmp_path, 1, "one.json")
    assert isinstance(open_trace(path), Trace)
    assert [rank.rank for rank in analysed(job_of(path, ranks=[1]), workers=1).ranks] == [1]
    analysis = analysed(job_of(path, ranks=[5]), workers=1)
    assert analysis.ranks == () and "no trace of rank 5" in analysis.failures[0].error


def test_two_files_of_one_rank_are_both_read(tmp_path: Path) -> None:
    for name in ("first-rank1.json", "second-rank1.json"):
        write_rank(tmp_path, 1, name)
    outcomes = job_of(tmp_path, ranks=[1]).map(rank_and_span, workers=1)
    assert [outcome.value for outcome in outcomes] == [(1, SPANS[1])] * 2


# --- finding files ------------------------------------------------------------------------------------------------


def test_a_folder_in_order_of_rank(tmp_path: Path) -> None:
    for rank in (10, 2, 0):
        write_rank(tmp_path, rank)
    write_rank(tmp_path, 3, "nameless.json")
    (tmp_path / "notes.txt").write_text("not a trace")
    (tmp_path / "sub.json").mkdir()
    assert [Path(path).name for path in find_traces(tmp_path)] == [
        "rank0.json",
        "rank2.json",
        "rank10.json",
        "nameless.json",
    ]


def test_json_that_is_no_trace_is_reported_and_the_rest_go_on(four_ranks: Path) -> None:
    (four_ranks / "config.json").write_text('{"model": "deepseek", "layers": 61}')
    analysis = analysed(job_of(four_ranks), workers=1)
    assert [rank.rank for rank in analysis.ranks] == [0, 1, 3]
    assert [Path(failure.path).name for failure in analysis.failures] == ["rank2.json", "config.json"]
    assert "traceEvents" in analysis.failures[1].error


def test_a_link_to_nothing_is_named_and_the_rest_go_on(four_ranks: Path) -> None:
    os.remove(four_ranks / "rank2.json")
    (four_ranks / "rank2.json").symlink_to("moved/rank2.json")
    assert len(job_of(str(four_ranks / "*.json"))) == 4
    (failure,) = [outcome.failure for outcome in job_of(four_ranks).map(rank_and_span, workers=1) if outcome.failure]
    assert failure.error == f"{four_ranks / 'rank2.json'}: a link to moved/rank2.json, which is not there."


def test_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "rank0.json.gz").write_bytes(gzip.compress(write_rank(tmp_path, 0).read_bytes()))
    os.remove(tmp_path / "rank0.json")
    write_rank(tmp_path, 1)
    assert [o.value for o in job_of(tmp_path).map(rank_and_span, workers=1)] == [(0, SPANS[0]), (1, SPANS[1])]


def test_a_folder_with_one_trace_is_that_trace(tmp_path: Path) -> None:
    write_rank(tmp_path, 2)
    trace = open_trace(tmp_path)
    assert isinstance(trace, Trace) and trace.rank == 2


def test_a_glob(four_ranks: Path) -> None:
    outcomes = job_of(f"{four_ranks}/rank[01].json").map(rank_and_span, workers=1)
    assert [outcome.value for outcome in outcomes] == [(0, SPANS[0]), (1, SPANS[1])]
    (four_ranks / "node1").mkdir()
    shutil.move(four_ranks / "rank3.json", four_ranks / "node1")
    assert len(find_traces(f"{four_ranks}/**/rank*.json")) == 4


def test_a_file_whose_name_looks_like_a_glob_is_a_file(tmp_path: Path) -> None:
    trace = open_trace(write_rank(tmp_path, 1, "trace[1].json"))
    assert isinstance(trace, Trace)


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "a folder without traces: no file ends in .json"), ("*.json", "matches no file"), ("gone.json", "gone.json")],
)
def test_nothing_to_open(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(TraceError, match=message.replace(".", r"\.")):
        open_trace(tmp_path / name)


def test_two_real_ranks(shared_data: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analysis = analysed(shared_data / "hta-two-ranks", workers=1)
    assert [rank.rank for rank in analysis.ranks] == [0, 1]
    assert analysis.world_size == 128
    assert analysis.failures == ()
    accounts: list[Breakdown] = [rank.breakdown for rank in analysis.ranks]
    assert [account.communication_ns for account in accounts] == [396_199_000, 379_053_000]
    assert "126 of 128 ranks have no file" in analysis.notes[0]
    (_, other) = analysis.clocks
    assert other.rank == 1 and other.num_matched > 0
