"""SQL run by Polars: in this process, or in one of its own, which is ended where it takes too long or too much memory.

Polars cannot be interrupted in the middle of a recursive SELECT or a join, and answers no signal there. The process
imports this module, so that it imports little.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import polars as pl

from weftrace.errors import QueryError
from weftrace.questions.columns import TABLES
from weftrace.questions.misread import explained
from weftrace.questions.sql_words import with_fractions, words_of
from weftrace.units import size
from weftrace.workers.processes import fresh_processes, starting

_Engine = Literal["auto", "streaming"]
#: What Polars raises for SQL that it cannot run.
SQL_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

DEFAULT_TIMEOUT_S = 600.0
_LOOK_S = 0.02  # a table that grows by 1 GB/s grows by 20 MB in between
_LESS = "Let it give fewer rows: a recursive SELECT ends by its own WHERE, a join gives fewer rows by its ON"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a question may take. memory_bytes: None for half of what the machine has free; only Linux tells it."""

    timeout_s: float = DEFAULT_TIMEOUT_S
    memory_bytes: int | None = None


def run(sql: str, frames: Mapping[str, pl.DataFrame | pl.LazyFrame], engine: _Engine = "auto") -> pl.DataFrame:
    """The rows; of SQL that names a table in passing, that table without rows."""
    every = {name: frames.get(name, pl.LazyFrame(schema=table.schema)).lazy() for name, table in TABLES.items()}
    try:
        frame = pl.SQLContext(every).execute(with_fractions(sql)).collect(engine=engine)
    except SQL_ERRORS as error:
        raise explained(error, sql, words_of(sql)) from error
    return frame.with_columns(pl.col(pl.Decimal).cast(pl.Float64))


def run_within(
    limits: Limits, sql: str, frames: Mapping[str, pl.DataFrame | pl.LazyFrame], engine: _Engine = "auto"
) -> pl.DataFrame:
    """The same, in a fresh process. Raises `QueryError` where that takes more than the limits.

    Ctrl-C and a termination end the process at once.
    """
    most = limits.memory_bytes or _free_bytes() // 2
    with fresh_processes(1) as pool:
        with starting(run, threads=os.cpu_count() or 1):
            future = pool.submit(run, sql, frames, engine)
        [process] = pool._processes.values()
        ends = time.monotonic() + limits.timeout_s
        while True:
            try:
                return future.result(timeout=_LOOK_S)
            except TimeoutError:
                if time.monotonic() > ends:
                    raise _stopped(f"{limits.timeout_s:g} s", "--timeout") from None
                if 0 < most < _resident_bytes(process.pid):
                    raise _stopped(f"{size(most)} of memory", "--max-memory") from None
            except BrokenExecutor:
                raise QueryError(
                    f"the process that ran the question was killed, most likely for lack of memory. {_LESS}."
                ) from None


def _stopped(what: str, option: str) -> QueryError:
    return QueryError(f"the question took more than {what}, and was stopped. {_LESS}; or allow more: {option}.")


def _resident_bytes(pid: int | None) -> int:
    """What a process holds in memory; 0 where the machine does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _free_bytes() -> int:
    """Of the machine, or of the control group that this process is in; 0 where neither is told."""
    summary = []
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            summary.append(int(line.split()[1]) << 10)
    limit, used = _read("/sys/fs/cgroup/memory.max").strip(), _read("/sys/fs/cgroup/memory.current").strip()
    if limit.isdigit() and used.isdigit():
        summary.append(max(int(limit) - int(used), 1))
    return min(summary, default=0)


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
