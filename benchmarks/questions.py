"""What is timed of questions: `python -m benchmarks.questions made|reading|asked|job ARGUMENTS...`.

A file of about 100 MB of JSON: questions to it against reading it alone, and to a job of eight of it against one.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.inputs import repeat, source_trace, write_gzip

SIZE_BYTES = 100_000_000  # at least
NUM_RANKS = 8
#: The questions, from one that needs no class of a kernel to one that needs all that is known of each.
QUESTIONS = {
    "of events": "select cat, count(*) as num, sum(dur_ns) as ns from events group by cat",
    "of classes": "select family, sum(dur_ns) / 1e6 as ms from work group by family order by ms desc",
    "of everything": "select phase, operator, gap_cause, sum(own_ns), sum(exposed_ns), max(launch_delay_ns) from work "
    "group by phase, operator, gap_cause",
}


def made(folder: str) -> dict[str, Any]:
    """The file: the recorded trace repeated until there is 100 MB of it; and eight links to it, a rank each."""
    start = time.perf_counter()
    source, recorded = source_trace()
    text = gzip.decompress(source.read_bytes()).decode()
    path, ranks = Path(folder) / "one.json.gz", Path(folder) / "ranks"
    num_bytes = write_gzip(path, repeat(text, -(-SIZE_BYTES // len(text))))
    ranks.mkdir()
    for rank in range(NUM_RANKS):
        os.link(path, ranks / f"rank{rank}.json.gz")
    summary = {"recorded": recorded, "num_bytes": num_bytes, "path": str(path), "ranks": str(ranks)}
    return {"inside_s": time.perf_counter() - start, **summary}


def reading(path: str) -> dict[str, Any]:
    """Reading the file, and nothing more."""
    from weftrace.trace import Trace, open_trace

    start = time.perf_counter()
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    return {"inside_s": time.perf_counter() - start, "num_events": len(trace)}


def asked(path: str, name: str) -> dict[str, Any]:
    """Reading the file and answering a question."""
    from weftrace.questions import query

    start = time.perf_counter()
    frame = query(path, QUESTIONS[name])
    return {"inside_s": time.perf_counter() - start, "num_rows": frame.height}


def job(folder: str, num_ranks: str) -> dict[str, Any]:
    """The question that needs most, to so many ranks, read one after another in this process."""
    from weftrace.questions import query
    from weftrace.trace import Job

    paths = tuple(str(Path(folder) / f"rank{rank}.json.gz") for rank in range(int(num_ranks)))
    start = time.perf_counter()
    frame = query(Job(source=folder, paths=paths), QUESTIONS["of everything"], workers=1)
    return {"inside_s": time.perf_counter() - start, "num_rows": frame.height}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (made, reading, asked, job)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*arguments)))
