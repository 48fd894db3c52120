"""Processes that stay alive for all tests of runtimes: to start a set takes longer than any case on it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SIZE = 4


@pytest.fixture(scope="session")
def ranks(warm: Path) -> Iterator[Ranks]:
    """Four processes on gloo; a case may use the first two, three or all."""
    found = Ranks(warm / "python")
    yield found
    found.end()


class RankFailed(AssertionError):
    """A rank raised: errors holds the traceback of each that did, by rank."""

    def __init__(self, errors: dict[int, str]) -> None:
        super().__init__("\n".join(f"--- rank {rank}\n{error}" for rank, error in errors.items()))
        self.errors = errors


class Ranks:
    """A living set of processes that know each other by gloo. After a failure, the next run begins with a new set."""

    def __init__(self, python: Path) -> None:
        """python: of `tests.warm`, which has imported torch."""
        self._python = python
        self._processes: list[subprocess.Popen[str]] = []

    def run(self, case: str, size: int = SIZE, **facts: Any) -> list[Any]:
        """What the case's function returns on each of the first `size` ranks. Raises `RankFailed`."""
        self.begin(case, size, **facts)
        return self.answers(range(size))

    def begin(self, case: str, size: int = SIZE, **facts: Any) -> None:
        if not self._processes:
            self._processes = _started(self._python)
        line = json.dumps({"case": case, "size": size, "facts": facts})
        for process in self._processes[:size]:
            assert process.stdin is not None
            process.stdin.write(line + "\n")
            process.stdin.flush()

    def answers(self, ranks: Sequence[int]) -> list[Any]:
        found = {rank: _answer_of(self._processes[rank]) for rank in ranks}
        if errors := {rank: answer["error"] for rank, answer in found.items() if "error" in answer}:
            self.end()
            raise RankFailed(errors)
        return [answer["value"] for answer in found.values()]

    def end(self) -> None:
        for process in self._processes:
            with suppress(BrokenPipeError):
                process.stdin.close()  # type: ignore[union-attr]
        for process in self._processes:
            process.wait(timeout=60)
        self._processes = []


def _started(python: Path) -> list[subprocess.Popen[str]]:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    script = str(Path(__file__).with_name("rank_process.py"))
    processes: list[subprocess.Popen[str]] = []
    port = 0
    for rank in range(SIZE):
        command = [str(python), script, str(rank), str(SIZE), str(port)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT
        )
        processes.append(process)
        if rank == 0:
            port = _answer_of(process)["port"]
    for process in processes:
        assert _answer_of(process) == {}
    return processes


def _answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    line = process.stdout.readline()
    found: dict[str, Any] = json.loads(line) if line else {"error": "the process ended"}
    return found
