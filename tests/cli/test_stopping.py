"""Ctrl-C, a termination: every process ends at once, and nothing is left half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.fuzz import few, thorough_case
from tests.tracefile import GEMM, TraceFile

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

WAIT_S = 60  # for what takes a second; a machine may be busy
COMMAND = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + (
    "from weftrace.cli.main import main; main()"
)
#: `weftrace convert`, whose writing stands still once a file is half written.
STANDS_STILL = "import weftrace.report.cli.convert as convert; from tests.trace.slow_ranks import save_for_ever\n" + (
    f"convert.save = save_for_ever\n{COMMAND}"
)


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start `weftrace ARGS` as the leader of a group of processes of its own."""
    running: list[subprocess.Popen[str]] = []

    def start(*args: object, program: str = STANDS_STILL) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *map(str, args)], cwd=ROOT, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        running.append(process)
        return process

    yield start
    for process in running:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ranks(folder: Path, num: int) -> Path:
    folder.mkdir()
    for rank in range(num):
        TraceFile(rank=rank, world_size=num).kernel(GEMM, 100, 100).write(folder / f"rank{rank}.json")
    return folder


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.02)


def parts(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".part"))


def in_group(group: int) -> list[int]:
    """The processes of a group that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            state, _, member_of = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(member_of) == group and state != "Z":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("number", "to_all", "code", "summary", "workers"),
    [
        (signal.SIGINT, True, 130, "interrupted", 3),  # Ctrl-C: the terminal sends it to every process of the group
        thorough_case(signal.SIGINT, False, 130, "interrupted", 3),
        thorough_case(signal.SIGTERM, False, 143, "terminated", 3),  # kill, a scheduler
        thorough_case(signal.SIGTERM, True, 143, "terminated", 3),
        thorough_case(signal.SIGINT, True, 130, "interrupted", 1),
        (signal.SIGTERM, False, 143, "terminated", 1),
    ],
)
def test_a_signal_ends_all_processes_and_leaves_nothing_half_written(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path,
    number: signal.Signals, to_all: bool, code: int, summary: str, workers: int,
) -> None:  # fmt: skip
    out = tmp_path / "out"
    process = started("convert", ranks(tmp_path / "ranks", 8), "-o", out, "--workers", workers)
    until(lambda: out.is_dir() and len(parts(out)) == workers, f"{workers} files half written")
    (os.killpg if to_all else os.kill)(process.pid, number)
    stdout, stderr = process.communicate(timeout=WAIT_S)
    assert (process.returncode, os.listdir(out)) == (code, []), stderr
    assert (stdout, stderr) == ("", f"weftrace: {summary}; nothing was left half written.\n")
    until(lambda: not in_group(process.pid), "the end of the workers")


def test_workers_do_not_outlive_a_program_that_was_killed(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = started("convert", ranks(tmp_path / "ranks", 4), "-o", out, "--workers", 2)
    until(lambda: out.is_dir() and len(parts(out)) == 2, "two files half written")
    process.kill()
    until(lambda: not parts(out), "the end of what is half written")
    until(lambda: not in_group(process.pid), "the end of the workers")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_one_file_is_written(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    TraceFile().kernel(GEMM, 100, 100).write(tmp_path / "t.json")
    process = started("convert", tmp_path / "t.json", "-o", tmp_path / "t.parquet")
    until(lambda: bool(parts(tmp_path)), "a file half written")
    process.send_signal(number)
    _, stderr = process.communicate(timeout=WAIT_S)
    assert (process.returncode, os.listdir(tmp_path)) == (128 + number, ["t.json"])
    assert "Traceback" not in stderr


@pytest.mark.parametrize("number", few([signal.SIGTERM, signal.SIGINT], 1))
def test_a_signal_while_a_question_without_end_is_asked(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path, number: signal.Signals
) -> None:
    TraceFile().kernel(GEMM, 100, 100).write(tmp_path / "t.json")
    endless = "with recursive t as (select 1 as n union all select n + 1 from t) select max(n) from t"
    process = started("query", tmp_path / "t.json", endless, program=COMMAND)
    until(lambda: len(in_group(process.pid)) > 2, "the process that runs the question")  # and one that tracks resources
    time.sleep(1)
    process.send_signal(number)
    stdout, _ = process.communicate(timeout=WAIT_S)
    assert (process.returncode, stdout) == (128 + number, "")
    until(lambda: not in_group(process.pid), "the end of the question")


def test_a_termination_that_is_lost_on_its_way_ends_the_program_all_the_same(
    started: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    """Python drops an exception that a signal raises while an object is freed, say."""
    TraceFile().kernel(GEMM, 100, 100).write(tmp_path / "t.json")
    program = STANDS_STILL.replace("save_for_ever", "save_whatever_comes")
    program = f"import weftrace.cli.main as cli; cli.PATIENCE_S = 0.2\n{program}"
    process = started("convert", tmp_path / "t.json", "-o", tmp_path / "t.parquet", program=program)
    until(lambda: bool(parts(tmp_path)), "a file half written")
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=WAIT_S)
    assert (process.returncode, os.listdir(tmp_path)) == (128 + signal.SIGTERM, ["t.json"])
    assert stderr == "weftrace: terminated; nothing was left half written.\n"
