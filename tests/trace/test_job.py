"""Many ranks: found, read in processes, and none of them able to spoil the others."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pytest

from tests.analyses import analysed
from tests.fuzz import thorough_case
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import Breakdown, breakdown
from weftrace.errors import TraceError
from weftrace.trace import Job, Trace, find_traces, open_trace
from weftrace.trace.job import worthwhile_processes

T = TypeVar("T")
SPANS = {0: 10_000, 1: 20_000, 2: 30_000, 3: 40_000}  # ns, by rank


def write_rank(folder: Path, rank: int, name: str | None = None) -> Path:
    folder.mkdir(exist_ok=True)
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


@pytest.mark.parametrize("workers", [1, thorough_case(2)])
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


def process_of(trace: Trace) -> int:
    return os.getpid()


def test_small_files_are_read_by_this_process_unless_more_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To start a process takes longer than to read small files; long ones are shared out."""
    monkeypatch.setattr("weftrace.trace.job.usable_processors", lambda: 2)
    shared: list[int] = []

    def in_processes(call: Callable[[Any], Any], tasks: list[Any], count: int) -> Any:
        shared.append(count)
        return ((task, call(task)) for task in tasks)

    monkeypatch.setattr("weftrace.trace.job.in_processes", in_processes)
    for rank in range(12):
        write_rank(tmp_path, rank)
    few = job_of(tmp_path, ranks=[0, 1, 2, 3])
    assert {outcome.value for outcome in few.map(process_of)} == {os.getpid()} and shared == []
    few.map(process_of, workers=3)
    path = write_rank(tmp_path, 0)
    path.write_text(path.read_text() + " " * 70_000_000)  # as long as one that takes a second
    few.map(process_of)
    assert shared == [3, 2]


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
        assert len(pickle.dumps(rank)) < min(800_000, 2 * len(pickle.dumps(trace)) // 3)


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


# --- executors ----------------------------------------------------------------------------------------------------


class Unlucky(ThreadPoolExecutor):
    """Runs everything but what would read rank 1: that raises an error which is none of the work's own."""

    def __init__(self, error: BaseException | None) -> None:
        super().__init__(1)
        self.error, self.num_tried = error, 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        if not args[0].path.endswith("rank1.json"):
            return super().submit(fn, *args, **kwargs)
        self.num_tried += 1
        future: Future[T] = Future()
        if self.error is None:
            future.cancel()
        else:
            future.set_exception(self.error)
        return future


class WorkerCrashedError(Exception):
    """By the name of Ray's."""


@pytest.mark.parametrize(
    ("error", "summary", "num_tried"),
    [
        (RuntimeError("the node went away"), "its worker gave no result: RuntimeError: the node went away.", 1),
        (None, "it was cancelled before it was done, by", 1),
        (BrokenProcessPool("a process terminated abruptly"), "a worker of the executor died", 1),
        (WorkerCrashedError("the worker died unexpectedly"), "the worker that read it died, each time", 2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_whatever_a_future_raises_costs_its_rank_alone(
    tmp_path: Path, error: BaseException | None, summary: str, num_tried: int
) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    done: list[str] = []
    with Unlucky(error) as pool:
        outcomes = job_of(tmp_path).map(rank_and_span, executor=pool, on_done=done.append)
    assert [outcome.value for outcome in outcomes] == [(0, SPANS[0]), None, (2, SPANS[2])]
    failure = outcomes[1].failure
    assert failure is not None and failure.error.startswith(f"{tmp_path / 'rank1.json'}: {summary}"), failure
    assert pool.num_tried == num_tried  # one whose worker died is tried once more, alone
    assert sorted(done) == [str(tmp_path / f"rank{rank}.json") for rank in range(3)]


def test_who_does_not_try_again_by_itself_is_asked_to(tmp_path: Path) -> None:
    """As Ray's executor: with all others whose worker died, as after the loss of a node; then alone."""
    write_rank(tmp_path, 0)
    write_rank(tmp_path, 1)
    with Unlucky(WorkerCrashedError("the node went away")) as pool:
        pool.num_retries = 2  # type: ignore[attr-defined]
        _, outcome = job_of(tmp_path).map(rank_and_span, executor=pool)
    assert outcome.failure is not None and pool.num_tried == 1 + 2 + 1


def test_a_pool_of_processes_that_broke_keeps_what_was_done(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    job = job_of(tmp_path)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        outcomes = job.map(killed_on_rank_1, workers=1, executor=pool)
    assert [outcome.value for outcome in outcomes] == [0, None, None]
    for outcome in outcomes[1:]:  # of rank 2 nobody knows
        assert outcome.failure is not None and "a worker of the executor died" in outcome.failure.error


def test_an_executor_that_was_shut_down_is_told(four_ranks: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    outcomes = job_of(four_ranks).map(rank_and_span, executor=pool)
    assert len(outcomes) == 4
    assert all(o.failure and "cannot schedule new futures after shutdown" in o.failure.error for o in outcomes)


def test_an_executor_gets_as_many_files_at_once_as_asked_for(tmp_path: Path) -> None:
    for rank in range(6):
        write_rank(tmp_path, rank)
    at_once = Counter[str]()

    class Counting(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
            at_once["now"] += 1
            at_once["most"] = max(at_once["most"], at_once["now"])
            return super().submit(fn, *args, **kwargs)

    def on_done(path: str) -> None:
        at_once["now"] -= 1

    with Counting(6) as pool:
        job_of(tmp_path).map(rank_and_span, executor=pool, workers=2, on_done=on_done)
    assert at_once == {"now": 0, "most": 2}


def test_ctrl_c_is_heard_while_an_executor_is_waited_for() -> None:
    """Polars has the system restart what Ctrl-C interrupts: a wait without a time limit would go on for ever."""
    script = """
import os, signal, threading
from concurrent.futures import Executor, Future
import polars
from weftrace.workers.sharing import through
class Never(Executor):
    def submit(self, *given): return Future()
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts tests in the background ignores it
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
list(through(Never(), str, [1]))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGINT and done.stderr.endswith("KeyboardInterrupt\n"), done.stderr


def test_what_has_not_begun_is_cancelled_where_nobody_waits_any_more(tmp_path: Path) -> None:
    for rank in range(4):
        write_rank(tmp_path, rank)
    begun: list[str] = []
    seen = threading.Event()

    def slow(trace: Trace) -> None:
        begun.append(trace.path)
        if len(begun) == 2:
            seen.wait(60)

    def interrupted(path: str) -> None:  # Ctrl-C, after the first
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(KeyboardInterrupt):
            job_of(tmp_path).map(slow, executor=pool, on_done=interrupted)
        seen.set()
    assert len(begun) <= 2


def test_an_executor_reads_absolute_paths_and_the_job_keeps_its_names(
    four_ranks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(four_ranks.parent)
    job = job_of(four_ranks.name)

    class Elsewhere(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
            os.chdir("/")  # as on another machine
            return super().submit(fn, *args, **kwargs)

    here = job.map(rank_and_span, workers=1)
    with Elsewhere(1) as pool:
        there = job.map(rank_and_span, executor=pool)
    assert there == here and here[0].path == f"{four_ranks.name}/rank0.json"


def test_a_file_that_a_worker_cannot_see_is_told_with_its_host(four_ranks: Path) -> None:
    class Blind(ThreadPoolExecutor):
        def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
            if args[0].path.endswith("rank3.json"):
                os.remove(four_ranks / "rank3.json")  # as good as a disk that only the sender has
            return super().submit(fn, *args, **kwargs)

    with Blind(1) as pool:
        outcomes = job_of(four_ranks).map(rank_and_span, executor=pool)
    failure = outcomes[3].failure
    assert failure is not None and f"not on {socket.gethostname()}" in failure.error and "URL" in failure.error
    assert outcomes[0].value == (0, SPANS[0])


# --- functions that cannot travel ---------------------------------------------------------------------------------


def result_that_stays(trace: Trace) -> object:
    return threading.Lock() if trace.rank == 1 else trace.rank


def test_a_result_that_cannot_travel_costs_its_rank_alone(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    outcomes = job_of(tmp_path).map(result_that_stays, workers=2)
    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    failure = outcomes[1].failure
    assert failure is not None and "cannot be pickled" in failure.error


def test_a_function_that_cannot_travel_is_called_here_and_said(tmp_path: Path) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank)
    add = 10
    with pytest.warns(UserWarning, match="by this process alone: the function cannot be sent") as summary:
        outcomes = job_of(tmp_path).map(lambda trace: (trace.rank or 0) + add, workers=2)
    assert [outcome.value for outcome in outcomes] == [10, 11, 12]
    assert summary[0].filename == __file__


UNGUARDED = """import sys
import weftrace as wt
print("begun")
def rank(trace):
    return trace.rank
print([outcome.value for outcome in wt.open(sys.argv[1]).map(rank, workers=2)])
"""


def test_a_script_without_a_guard_is_run_once_and_told_what_to_change(tmp_path: Path) -> None:
    for rank in range(4):
        write_rank(tmp_path / "ranks", rank)
    script = tmp_path / "script.py"
    script.write_text(UNGUARDED)
    done = subprocess.run(
        [sys.executable, script, tmp_path / "ranks"], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.stdout, done.returncode) == ("begun\n[0, 1, 2, 3]\n", 0)
    assert 'if __name__ == "__main__":' in done.stderr and "line 6" in done.stderr and "script.py" in done.stderr
    assert len(done.stderr.splitlines()) <= 6 and "memory" not in done.stderr, done.stderr


def test_a_function_typed_at_a_prompt_is_called_here_and_said(four_ranks: Path) -> None:
    code = UNGUARDED.replace("sys.argv[1]", repr(str(four_ranks)))
    done = subprocess.run([sys.executable], input=code, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("begun\n[0, 1, None, 3]\n", 0)
    assert "notebook" in done.stderr and len(done.stderr.splitlines()) <= 4, done.stderr


def num_threads(trace: Trace) -> int:
    return pl.thread_pool_size()


def test_a_worker_computes_on_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in range(2):
        write_rank(tmp_path, rank)
    monkeypatch.delenv("POLARS_MAX_THREADS", raising=False)
    assert [outcome.value for outcome in job_of(tmp_path).map(num_threads, workers=2)] == [1, 1]
    assert "POLARS_MAX_THREADS" not in os.environ


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


def test_a_process_is_started_for_each_4_mb_that_there_are_to_read(tmp_path: Path) -> None:
    paths = []
    for rank in range(8):
        path = tmp_path / f"rank{rank}.json.gz"
        with path.open("wb") as file:
            file.truncate(600_000)
        paths.append(str(path))
    assert worthwhile_processes(paths[:4], processors=16) == 1
    assert worthwhile_processes(paths, processors=16) == 2
    assert worthwhile_processes(paths * 8, processors=16) == 16
    assert worthwhile_processes(paths * 8, processors=1) == 1
    assert worthwhile_processes(["s3://bucket/rank0.json.gz"], processors=16) == 16
