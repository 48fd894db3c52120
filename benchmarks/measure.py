"""Run one task in a process of its own: how long did it take, and how much memory at its peak?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage counts bytes on macOS, KiB on Linux


class TaskFailed(Exception):
    """A task ended with an error; the text holds the end of what it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a task.

    whole_s: wall time of the process, from its start to its end, imports included.
    inside_s: wall time of the work as the task itself took it, imports excluded.
    peak_bytes: highest resident set of the process, or of one of its children if that was higher.
    facts: what the task found, so that a reader can see that the work was done.
    """

    whole_s: float
    inside_s: float
    peak_bytes: int
    facts: dict[str, Any]


def run(task: Sequence[str], python: str = sys.executable) -> Run:
    """Run `python -m task...`, whose last line on stdout is JSON with "inside_s" and the facts. Raises TaskFailed.

    A Linux process starts with the resident set of the process that made it as its peak, so this one has to stay
    small: it imports nothing but the standard library.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        process = subprocess.Popen([python, "-m", *task], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        whole_s = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        lines = out.read().splitlines()
        if process.returncode or not lines:
            raise TaskFailed(f"{' '.join(task)} ended with {process.returncode}:\n{err.read()[-2000:]}")
    facts = json.loads(lines[-1])
    return Run(
        whole_s=whole_s,
        inside_s=facts.pop("inside_s"),
        peak_bytes=usage.ru_maxrss * RSS_UNIT,
        facts=facts,
    )


def best(task: Sequence[str], num_runs: int, python: str = sys.executable) -> Run:
    """The fastest of some runs, with the highest peak of all of them: the machine disturbs only upwards."""
    runs = [run(task, python) for _ in range(num_runs)]
    fastest = min(runs, key=lambda r: r.inside_s)
    return Run(
        whole_s=min(r.whole_s for r in runs),
        inside_s=fastest.inside_s,
        peak_bytes=max(r.peak_bytes for r in runs),
        facts=fastest.facts,
    )
