"""What a job on a cluster keeps to, whoever runs the cluster: work for its workers, and what has to come of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.conftest import ROOT
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.trace import Job, Trace, open_trace
from weftrace.workers import Spool, connect

NUM_RANKS = 20


def write_ranks(folder: Path, num: int = NUM_RANKS) -> Path:
    """Of 20, rank 7 cannot be read."""
    folder.mkdir(exist_ok=True)
    for rank in range(num):
        file = TraceFile(rank=rank, world_size=num).kernel(GEMM, 100, 50).kernel(ALL_REDUCE, 120, 40 + rank, stream=20)
        path = file.write(folder / f"rank{rank}.json")
        if rank == 7:
            path.write_text(path.read_text()[:40])
    return folder


def job_of(folder: Path) -> Job:
    job = open_trace(folder)
    assert isinstance(job, Job)
    return job


def die() -> None:
    """As the kernel ends a process that takes too much memory."""
    os.kill(os.getpid(), signal.SIGKILL)


def dies_once(trace: Trace, mark: Path) -> int | None:
    if trace.rank == 2 and not mark.exists():
        mark.touch()
        die()
    return trace.rank


def dies_always(trace: Trace) -> int | None:
    if trace.rank == 1:
        die()
    return trace.rank


def threads_of_polars(trace: Trace) -> int:
    return pl.thread_pool_size()


def a_document_is_the_local_one(address: str, folder: Path) -> None:
    """By the command, with relative paths and a broken rank. On standard output stands the document alone."""
    summary = {}
    report = [sys.executable, "-m", "weftrace.cli.main", "report", folder.name, "--json"]
    for where, by in (("local", ["--workers", "1"]), (address, ["--cluster", address])):
        done = subprocess.run(
            [*report, *by],
            cwd=folder.parent, env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        summary[where] = json.loads(done.stdout), done.stderr
    assert summary[address][0] == summary["local"][0] and summary[address][1] == summary["local"][1]
    assert len(summary[address][0]["ranks"]) == NUM_RANKS - 1 and len(summary[address][0]["failures"]) == 1


class Proxy:
    """A way to a cluster's head that can be cut, as if the head was lost."""

    def __init__(self, address: str) -> None:
        kind, _, to = address.partition("://")
        host, port = to.split(":")
        self._to = host, int(port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = [self._server]
        self.address = f"{kind}://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.create_connection(self._to)
                self._open += near, far
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._forward, args=ends, daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for end in self._open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def waits_from_rank_2_on(trace: Trace) -> int | None:
    if (trace.rank or 0) >= 2:
        time.sleep(60)
    return trace.rank


def a_lost_head_costs_what_is_not_done(address: str, few: Path, folder: Path) -> None:
    """And what is done is kept: a second call of the same reads the others only."""
    proxy, told, began = Proxy(address), list[str](), list[float]()

    def done(path: str) -> None:
        if path.endswith("rank1.json"):
            began.append(time.monotonic())
            proxy.cut()

    with Spool(folder) as spool, connect(proxy.address, on_lost=told.append) as executor:
        outcomes = job_of(few).map(waits_from_rank_2_on, executor=executor, workers=1, spool=spool, on_done=done)
        taken_s = time.monotonic() - began[0]
    assert [outcome.value for outcome in outcomes] == [0, 1, None, None] and taken_s < 10  # of 30 in Ray
    assert len(list(folder.glob("*.result"))) == 2
    assert all(outcome.failure and "lost" in outcome.failure.error for outcome in outcomes[2:])


def a_worker_killed_in_the_middle_is_tried_again(executor: Executor, folder: Path, mark: Path) -> None:
    outcomes = job_of(folder).map(partial(dies_once, mark=mark), executor=executor)
    assert [outcome.value for outcome in outcomes] == list(range(len(outcomes)))
    assert mark.exists()


def a_file_that_always_kills_its_worker_is_one_failure(executor: Executor, folder: Path) -> None:
    outcomes = job_of(folder).map(dies_always, executor=executor)
    assert [outcome.value for outcome in outcomes] == [0, None, *range(2, len(outcomes))]
    failure = outcomes[1].failure
    assert failure is not None and failure.error.startswith(f"{folder / 'rank1.json'}: the worker that read it died")


def functions_travel_by_value_and_polars_has_one_thread(executor: Executor, folder: Path) -> None:
    add = 10
    outcomes = job_of(folder).map(lambda trace: (trace.rank or 0) + add, executor=executor)
    assert [outcome.value for outcome in outcomes] == [10 + rank for rank in range(len(outcomes))]
    assert {outcome.value for outcome in job_of(folder).map(threads_of_polars, executor=executor)} == {1}


def a_call_of_ones_own_raises_what_it_raised(executor: Executor) -> None:
    """As any executor: the error itself, and what cannot be pickled does not wait for ever."""
    assert executor.submit(divmod, 7, 2).result(60) == (3, 1)
    assert isinstance(executor.submit(divmod, 7, 0).exception(60), ZeroDivisionError)
    error = executor.submit(threading.Lock).exception(60)
    assert error is not None and "pickle" in str(error)


def an_executor_is_sound(executor: Executor, few: Path, mark: Path, subtests: pytest.Subtests) -> None:
    """All of the above that need no more than an executor. mark: a file that is not there."""
    with subtests.test("a worker killed in the middle"):
        a_worker_killed_in_the_middle_is_tried_again(executor, few, mark)
    with subtests.test("a file that always kills its worker"):
        a_file_that_always_kills_its_worker_is_one_failure(executor, few)
    with subtests.test("functions and threads"):
        functions_travel_by_value_and_polars_has_one_thread(executor, few)
    with subtests.test("an executor like others"):
        a_call_of_ones_own_raises_what_it_raised(executor)
