"""What is timed of large jobs: `python -m benchmarks.jobs made|layers|report …`."""

from __future__ import annotations

import gzip
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
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


def layers(num_ranks: str, num_events: str) -> dict[str, Any]:
    """A folder of ranks that train: layers, each a range around an operator that launches a kernel, and an all-reduce
    beside every second one. So many events a rank, with times of its own. Kept in the cache."""
    folder = CACHE / f"layers-{num_ranks}x{num_events}"
    if not folder.exists():
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for rank in range(int(num_ranks)):
            _write_layers(unfinished / f"rank{rank}.json.gz", rank, int(num_ranks), int(num_events))
        unfinished.rename(folder)
    num_bytes = max(path.stat().st_size for path in folder.iterdir())
    return {"inside_s": 0.0, "path": str(folder), "num_ranks": int(num_ranks), "most_bytes": num_bytes}


def _write_layers(path: Path, rank: int, num_ranks: int, num_events: int) -> None:
    from tests.tracefile import ALL_REDUCE, GEMM, TraceFile

    draw, file, at = random.Random(rank), TraceFile(rank=rank, world_size=num_ranks), 0.0
    everyone = str(list(range(num_ranks)))
    for number in range(num_events // 6):
        name, took = f"layer{number % 48}(F)", round(draw.uniform(20, 60), 3)
        file.host(name, at, 12).host("aten::mm", at + 1, 10, cat="cpu_op")
        file.kernel(f"{GEMM}_{number % 12}", at + 10, took, launch=at + 5, blocks=132)
        if number % 2:
            file.host(name, at + 13, 6).host("record_param_comms", at + 13, 5, cat="cpu_op")
            args: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": num_ranks,
                    "Process Group Ranks": everyone, "Seq": number, "dtype": "BFloat16", "In msg nelems": 1 << 20,
                    "Out msg nelems": 1 << 20}  # fmt: skip
            file.kernel(ALL_REDUCE, at + 20, took + 10, launch=at + 14, stream=20, **args)
        at += 72
    with gzip.open(path, "wt", compresslevel=1) as out:
        json.dump({**file.facts, "traceEvents": file.events}, out)


def report(path: str, kept: str = "") -> dict[str, Any]:
    """weftrace: the report as page and JSON, by the command that a person would use. kept: a folder for them."""
    from weftrace.cli.main import main

    with nullcontext(kept) if kept else tempfile.TemporaryDirectory() as folder:
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
        facts: dict[str, float] = {"page_bytes": page.stat().st_size, "json_bytes": document.stat().st_size}
        facts |= {"processor_s": sum(usage.ru_utime + usage.ru_stime for usage in used)}
    return {"inside_s": inside_s, "headline": told["headline"], **facts}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (made, layers, report)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*arguments)))
