"""A call that ended early is gone on from, and what is kept for that deceives nobody."""

from __future__ import annotations

import os
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz import is_thorough
from tests.tracefile import GEMM, TraceFile
from weftrace.report import analyze
from weftrace.trace import Job, Trace, open_trace
from weftrace.trace import job as job_module
from weftrace.workers import spool as spool_module
from weftrace.workers.losses import Lost
from weftrace.workers.spool import Spool

TASKS = "abcd"
OPENED: list[bool] = []


class Call:
    """One call: what it computes and is told. The result of "a" is "A"; the worker of d is lost, unless `ends_well`.

    stopped: raised once b is done. worth: whose results are kept. tag: of the call's keys; d has none.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        ends_well: bool = False,
        stopped: BaseException | None = None,
        worth: str = "abcd",
        tag: str = "",
    ) -> None:
        self.computed, self.told = "", list[str]()
        self.results: dict[str, str | Lost] = {}
        self._ends_well = ends_well
        keys = [None if task == "d" else f"{task}{tag}".encode() for task in TASKS]
        with Spool(folder, self.told.append) as spool:
            of_call = spool.resumed(
                TASKS, keys, self._share_out, named=str, is_kept=lambda result: result.lower() in worth
            )
            for task, result in of_call:
                self.results[task] = result
                if stopped is not None and task == "b":
                    raise stopped
        assert [self.results[task] for task in "abc"] == ["A", "B", "C"]

    def _share_out(self, tasks: Sequence[str]) -> Iterator[tuple[str, str | Lost]]:
        for task in tasks:
            self.computed += task
            yield task, task.upper() if task != "d" or self._ends_well else Lost("killed")


def kept(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a call that lost a worker: the results of a, b and c; d has no key."""
    folder = tmp_path / "cache" / "spool"
    call = Call(folder)
    assert call.computed == "abcd" and len(kept(folder)) == 3
    assert call.told == [f"3 results kept in {folder}: the same command continues from there"]
    return folder


def test_a_second_call_goes_on_and_cleans_up(folder: Path) -> None:
    call = Call(folder, ends_well=True)
    assert call.computed == "d" and call.results["d"] == "D"
    assert call.told == ["3 of 4 results kept by an earlier call that did not end"]
    assert not kept(folder)
    assert Call(folder, ends_well=True).computed == "abcd" and not kept(folder)


@pytest.mark.parametrize(("error", "num"), [(KeyboardInterrupt(), 2), (OSError(), 2), (BrokenPipeError(), 0)])
def test_what_ends_a_call_early_keeps_its_results(tmp_path: Path, error: BaseException, num: int) -> None:
    with pytest.raises(type(error)):
        Call(tmp_path / "spool", stopped=error)
    assert len(kept(tmp_path / "spool")) == num


def test_another_key_or_a_result_not_worth_keeping_is_computed(folder: Path) -> None:
    assert Call(folder, tag="2", worth="ab").computed == "abcd" and len(kept(folder)) == 5
    assert Call(folder, tag="2", ends_well=True).computed == "cd" and len(kept(folder)) == 3


def damaged_at(at: float) -> Callable[[Path], object]:
    def flip(path: Path) -> None:
        text = bytearray(path.read_bytes())
        bit = int(at * len(text) * 8)
        text[bit // 8] ^= 1 << bit % 8
        path.write_bytes(text)

    return flip


def opened() -> None:
    OPENED.append(True)


class Evil:
    def __reduce__(self) -> Any:
        return opened, ()


def replaced_by(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(path: Path) -> None:
        path.unlink()
        make(path)

    return replace


def linked(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to("elsewhere")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "a pickle of somebody's": lambda path: path.write_bytes(pickle.dumps(Evil())),
    "under another key": lambda path: os.replace(kept(path.parent)[1], path),
    "open to others": lambda path: path.chmod(0o666),
    "a link": linked,
    "a pipe": replaced_by(os.mkfifo),
    "a folder": replaced_by(Path.mkdir),
    "without end": replaced_by(lambda path: path.symlink_to("/dev/zero")),
}


@pytest.mark.parametrize("how", DAMAGES)
def test_damage_is_told_and_computed_again(folder: Path, how: str) -> None:
    DAMAGES[how](kept(folder)[0])
    call = Call(folder)
    assert call.told[0] == f"1 result in {folder} damaged: computed again" and not OPENED


def test_each_flipped_bit_is_told(folder: Path) -> None:
    whole = {path: path.read_bytes() for path in kept(folder)}
    chance = random.Random(1)
    for _ in range(1_000 if is_thorough() else 60):
        path = chance.choice(sorted(whole))
        damaged_at(chance.random())(path)
        assert "damaged: computed again" in Call(folder).told[0]
        for other, text in whole.items():
            other.write_bytes(text)


def test_only_a_folder_that_nobody_else_writes_to_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.chmod(0o750)
    call = Call(folder)
    assert call.computed == "abcd" and len(kept(folder)) == 3
    assert call.told == [f"no results are kept, because {folder} is open to other users: chmod go= would close it"]
    folder.chmod(0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    call = Call(folder)
    assert call.computed == "abcd" and "belongs to another user" in call.told[0]


@pytest.mark.parametrize("kind", ["none", "a file", "below a file", "a link", "NUL"])
def test_without_a_folder_a_call_works(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = {
        "none": None, "a file": tmp_path / "file", "below a file": tmp_path / "file" / "spool",
        "a link": tmp_path / "link", "NUL": tmp_path / "a\0b",
    }[kind]  # fmt: skip
    call = Call(folder)
    assert call.computed == "abcd" and len(call.told) == 1 and call.told[0].startswith("no results are kept, because ")


def test_room_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, *others = kept(folder)
    os.utime(old, (0, 0))
    size = others[0].stat().st_size
    assert len(Call(folder).computed) == 2 and len(kept(folder)) == 3  # the old one, and d
    monkeypatch.setattr(spool_module, "MOST_BYTES", 2 * size)
    call = Call(folder, tag="2")  # whose own first two drive out the others
    assert len(kept(folder)) == 2 and "no more of them, because" in call.told[-1]
    monkeypatch.setattr(spool_module, "_LEAST_FREE", 1 << 62)
    assert "almost full" in Call(folder, tag="3").told[-1]


# --- of a job -----------------------------------------------------------------------------------------------------


class Losing(ThreadPoolExecutor):
    """An executor that is broken after two tasks."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.left: int = getattr(self, "left", 2) - 1
        if self.left < 0:
            raise BrokenExecutor
        return super().submit(fn, *args, **kwargs)


READ: list[int | None] = []


def rank_of(trace: Trace) -> int | None:
    READ.append(trace.rank)
    return trace.rank


def ranks(folder: Path, number: int = 4) -> Job:
    for rank in range(number):
        TraceFile(rank=rank, world_size=number).kernel(GEMM, 100, 50).write(folder / f"rank{rank}.json")
    job = open_trace(folder)
    assert isinstance(job, Job)
    return job


def read_by(job: Job, executor: ThreadPoolExecutor, spool: Path, function: Callable[[Trace], Any] = rank_of) -> Any:
    READ.clear()
    with executor, Spool(spool) as kept:
        outcomes = job.map(function, executor=executor, spool=kept)
    return [outcome.value for outcome in outcomes], sorted(rank for rank in READ if rank is not None)


def test_a_job_goes_on_where_its_executor_was_lost(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    job, spool = ranks(tmp_path / "ranks"), tmp_path / "spool"
    broken = Path(job.paths[3])
    broken.write_text(broken.read_text()[:40])
    assert read_by(job, Losing(1), spool) == ([0, 1, None, None], [0, 1])
    os.utime(job.paths[1])  # a file that has changed is read again
    assert read_by(job, ThreadPoolExecutor(1), spool) == ([0, 1, 2, None], [1, 2])
    assert len(kept(spool)) == 1  # of the file as it was
    assert read_by(job, Losing(1), spool, lambda trace: trace.rank)[0] == [0, 1, None, None]
    assert len(kept(spool)) == 1  # nothing tells whether a lambda is the same


def test_a_report_that_was_stopped_is_the_same_when_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "_SPOOLED_BYTES", 0)
    (tmp_path / "ranks").mkdir()
    job, told = ranks(tmp_path / "ranks"), list[str]()
    with pytest.raises(KeyboardInterrupt), Spool(tmp_path / "spool", told.append) as spool:
        analyze(job, workers=1, spool=spool, on_done=lambda path: stop() if "rank2" in path else None)
    assert "3 results kept" in told[-1]
    with Spool(tmp_path / "spool", told.append) as spool:
        again = analyze(job, workers=1, spool=spool)
    assert "3 of 4 results" in told[-1] and again.document == analyze(job, workers=1).document


def stop() -> None:
    raise KeyboardInterrupt
