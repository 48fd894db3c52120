"""What is timed of a large job of plain timelines: `python -m benchmarks.jobs made|report PATH`."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.inputs import CACHE

DP, PP, MICRO_BATCHES, STEPS = 16, 8, 8, 50
SLOW, FACTOR = 37, 1.3


def made() -> dict[str, Any]:
    """A file of pipelines whose ranks log forwards, backwards, sends, receives and collectives; one rank is slow. Kept
    in the cache."""
    start = time.perf_counter()
    path = CACHE / f"job-{DP}x{PP}-{MICRO_BATCHES}-{STEPS}.json"
    told = path.with_suffix(".told")
    if not told.exists():
        from tests.jobs import plants, recipes, simulate, write

        job = plants.noisy(recipes.pipeline(DP, PP, num_mb=MICRO_BATCHES, steps=STEPS), 0.01, 1)
        job = plants.slow_worker(job, SLOW, FACTOR)
        CACHE.mkdir(parents=True, exist_ok=True)
        write.one_file(job, simulate.run(job), path)
        facts = {"num_ranks": job.num_ranks, "num_steps": STEPS, "num_ranges": path.read_text().count('"ph": "X"')}
        told.write_text(json.dumps(facts))
    return {"inside_s": time.perf_counter() - start, "path": str(path), **json.loads(told.read_text())}


def report(path: str) -> dict[str, Any]:
    """weftrace: the report as page and JSON, by the command that a person would use."""
    from weftrace.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        page, document = Path(folder) / "job.html", Path(folder) / "job.json"
        sys.argv = ["weftrace", "report", path, "-o", str(page), "-o", str(document), "--quiet"]
        start = time.perf_counter()
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, stop
        inside_s = time.perf_counter() - start
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        told = json.loads(document.read_text())
        assert told["slowdown"], "the job was not replayed"
        facts: dict[str, float] = {"page_bytes": page.stat().st_size, "json_bytes": document.stat().st_size}
        facts |= {"processor_s": sum(usage.ru_utime + usage.ru_stime for usage in used)}
    return {"inside_s": inside_s, "headline": told["headline"], "slowdown": told["slowdown"]["slowdown"], **facts}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (made, report)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*arguments)))
