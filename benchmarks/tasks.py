"""What is timed. Each task imports first, then takes the time of the work, and prints it as JSON: see measure.py."""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import RSS_UNIT

CHUNK = 1 << 20
PAINT_LIMIT_S = 60
CHROMIUM_OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def account(path: str) -> dict[str, Any]:
    """weftrace: read the file, then break the time down and measure the overlap."""
    from weftrace.analysis import breakdown, overlap
    from weftrace.trace import Trace, open_trace, work_of

    start = time.perf_counter()
    trace = open_trace(path)
    assert isinstance(trace, Trace)
    read_s = time.perf_counter() - start
    work = work_of(trace)
    parts, hidden = breakdown(work), overlap(work)
    inside_s = time.perf_counter() - start
    return {
        "inside_s": inside_s,
        "read_s": read_s,
        "num_events": len(trace),
        "breakdown": asdict(parts),
        "overlap": {"communication_ns": hidden.communication_ns, "hidden_ns": hidden.hidden_ns},
    }


def reading(path: str, workers: str) -> dict[str, Any]:
    """weftrace: the file as a Trace, read by a number of processes.

    sum_bytes: their peaks added up, where what they share counts in each.
    """
    from weftrace.trace import Trace, open_trace

    start = time.perf_counter()
    trace = open_trace(path, workers=int(workers))
    inside_s = time.perf_counter() - start
    assert isinstance(trace, Trace)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own_s, helpers_s = (usage.ru_utime + usage.ru_stime for usage in used)
    peaks = [usage.ru_maxrss * RSS_UNIT for usage in used]
    summary = {"num_events": len(trace), "own_s": own_s, "helpers_s": helpers_s}
    return {"inside_s": inside_s, **summary, "sum_bytes": peaks[0] + (int(workers) - 1) * peaks[1]}


def near(paths: str, num_runs: str) -> dict[str, Any]:
    """weftrace and plain isal in turns on each of some files, decompressed in memory: the quickest of some runs."""
    from isal import igzip

    from weftrace.trace.chrome.reader import read_chrome

    start = time.perf_counter()
    found = {}
    for path in paths.split(os.pathsep):
        best_s = {"isal": math.inf, "weftrace": math.inf}
        for _ in range(int(num_runs)):
            for name in best_s:
                begin = time.perf_counter()
                if name == "isal":
                    num_bytes = len(igzip.decompress(Path(path).read_bytes()))  # type: ignore[no-untyped-call]
                else:
                    read_chrome(path)
                best_s[name] = min(best_s[name], time.perf_counter() - begin)
        found[Path(path).name] = {"num_bytes": num_bytes, **best_s}
    return {"inside_s": time.perf_counter() - start, "files": found}


def report(path: str, workers: str) -> dict[str, Any]:
    """weftrace: the report of a file in the terminal, by the command that a person would use."""
    from weftrace.cli.main import main

    sys.argv = ["weftrace", "report", path, "--workers", workers]
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as stop:
            assert not stop.code, stop
    return {"inside_s": time.perf_counter() - start}


def modules(num_bytes: str, folder: str) -> dict[str, Any]:
    """weftrace: time by module and by function of a file with stacks of so many bytes, made where it is absent."""
    from weftrace.report import analyze

    path = _with_stacks(num_bytes, folder)
    start = time.perf_counter()
    (rank,) = analyze(str(path), by=("module", "line"), timelines=False).document["ranks"]
    return {
        "inside_s": time.perf_counter() - start,
        "num_bytes": path.stat().st_size,
        "num_nodes": rank["modules"]["num_nodes"] + rank["lines"]["num_nodes"],
    }


def waits(num_bytes: str, folder: str) -> dict[str, Any]:
    """weftrace: the account of idle time of the same file, reading and classing apart; the best of three."""
    from weftrace.analysis import idle_account
    from weftrace.trace import Trace, open_trace, work_of

    path = _with_stacks(num_bytes, folder)
    start = time.perf_counter()
    trace = open_trace(str(path), frames=True)
    read_s = time.perf_counter() - start
    assert isinstance(trace, Trace) and trace.frames is not None
    work = work_of(trace)
    took = []
    for _ in range(3):
        start = time.perf_counter()
        idle_account(work)
        took.append(time.perf_counter() - start)
    numbers = {"num_kernels": work.events.height, "num_frames": trace.frames.height}
    return {"inside_s": min(took), "read_s": read_s, **numbers}


def efficiency(num_operators: str, folder: str) -> dict[str, Any]:
    """weftrace: efficiency by shape of a file of so many operators with shapes, beside all else that a report tells of
    it; processor time, the best of three.
    """
    from weftrace.analysis.efficiency import efficiency_of
    from weftrace.analysis.rank import analyze_rank
    from weftrace.trace import Trace, open_trace, work_of

    path = Path(folder) / f"shapes-{num_operators}.json"
    if not path.is_file():
        from benchmarks.shapes import shapes

        with path.open("w") as file:
            file.writelines(shapes(int(num_operators)))
    trace = open_trace(str(path))
    assert isinstance(trace, Trace)
    took_s, whole_s = math.inf, math.inf
    for _ in range(3):
        work = work_of(trace)  # of which analyses keep what they find
        start = time.process_time()
        found = efficiency_of(work)
        took_s = min(took_s, time.process_time() - start)
        start = time.process_time()
        analyze_rank(work)
        whole_s = min(whole_s, time.process_time() - start)
    assert found.num_rated, "nothing was rated"
    return {"inside_s": took_s, "others_s": whole_s - took_s, "num_shapes": found.num_shapes, "num_events": len(trace)}


def advice(path: str) -> dict[str, Any]:
    """weftrace: what to do about a run, with the gains, beside all else that a report tells of it; processor time."""
    from weftrace.advice.findings.advising import advice_of, advise_work
    from weftrace.analysis.rank import analyze_rank, collect
    from weftrace.trace import Trace, open_trace, work_of

    trace = open_trace(path, frames=True)
    assert isinstance(trace, Trace)
    work = work_of(trace)
    start = time.process_time()
    analysis = analyze_rank(work)
    others_s = time.process_time() - start
    start = time.process_time()
    found = advice_of(collect(path, [analysis], []), [advise_work(work, given=analysis)], replays_job=False)
    inside_s = time.process_time() - start
    numbers = {"num_kernels": work.events.height, "num_findings": len(found.findings)}
    return {"inside_s": inside_s, "others_s": others_s, **numbers}


def _with_stacks(num_bytes: str, folder: str) -> Path:
    """A file with stacks of so many bytes, made where it is absent."""
    from benchmarks.stacks import stacks

    path = Path(folder) / f"stacks-{num_bytes}.json"
    if not path.is_file():
        with path.open("w") as file:
            file.writelines(stacks(int(num_bytes)))
    return path


def hta(path: str) -> dict[str, Any]:
    """HolisticTraceAnalysis doing the same; run by the Python of its own environment."""
    from hta.trace_analysis import TraceAnalysis

    start = time.perf_counter()
    analysis = TraceAnalysis(trace_files={0: path}, trace_dir=str(Path(path).parent))
    read_s = time.perf_counter() - start
    parts = analysis.get_temporal_breakdown(visualize=False)
    hidden = analysis.get_comm_comp_overlap(visualize=False)
    inside_s = time.perf_counter() - start
    return {
        "inside_s": inside_s,
        "read_s": read_s,
        "num_events": len(analysis.t.get_trace(0)),
        "breakdown": parts.to_dict("records"),
        "overlap": hidden.to_dict("records"),
    }


def gunzip(path: str, how: str) -> dict[str, Any]:
    """Decompress and throw away: no reader of the file can be faster than its decompressor."""
    import gzip

    from isal import igzip

    with (igzip.open if how == "isal" else gzip.open)(path, "rb") as file:
        start = time.perf_counter()
        num_bytes = 0
        while chunk := file.read(CHUNK):
            num_bytes += len(chunk)
        return {"inside_s": time.perf_counter() - start, "num_bytes": num_bytes}


def ranks(folder: str, workers: str) -> dict[str, Any]:
    """weftrace: the report of a folder of ranks, by a number of processes."""
    import weftrace

    report = weftrace.analyze  # loads what it needs
    start = time.perf_counter()
    document = report(weftrace.open(folder), workers=int(workers), timelines=False).document
    inside_s = time.perf_counter() - start
    assert not document["failures"], document["failures"]
    return {"inside_s": inside_s, "num_ranks": document["num_ranks"], "headline": document["headline"]}


def cluster(folder: str, kind: str, num_workers: str) -> dict[str, Any]:
    """weftrace: the report of a folder of ranks by a cluster here, once its workers have imported weftrace."""
    import weftrace
    from tests.workers.cluster import cluster as started
    from weftrace.trace import Job
    from weftrace.workers import connect

    job = weftrace.open(folder)
    assert isinstance(job, Job)
    with started(kind, int(num_workers)) as addresses:
        os.environ.update({"RAY_ADDRESS": addresses.get("ray", ""), "RAY_AUTH_MODE": "disabled"})
        with connect(addresses.get("dask", "ray")) as executor:
            weftrace.analyze(replace(job, paths=job.paths[: 2 * int(num_workers)]), executor=executor, timelines=False)
            start = time.perf_counter()
            document = weftrace.analyze(job, executor=executor, timelines=False).document
            inside_s = time.perf_counter() - start
    assert not document["failures"], document["failures"]
    return {"inside_s": inside_s, "num_ranks": document["num_ranks"]}


def html(path: str, output: str) -> dict[str, Any]:
    """weftrace: the page of a trace, by the command that a person would use."""
    from weftrace.cli.main import main

    sys.argv = ["weftrace", "report", path, "-o", output]
    start = time.perf_counter()
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, stop
    return {"inside_s": time.perf_counter() - start, "num_bytes": Path(output).stat().st_size}


def chromium() -> str | None:
    """Chromium or a relative of it on this machine; $WEFTRACE_CHROMIUM names another."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
    return os.environ.get("WEFTRACE_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


def paint(page: str) -> dict[str, Any]:
    """Open a page in a fresh headless Chromium, and ask it when weftrace's first picture stood on the screen.

    The page sets the mark `weftrace-first-paint`; its time counts from the start of the navigation.
    """
    from playwright.sync_api import sync_playwright

    errors: list[str] = []
    ask = {"expression": "performance.getEntriesByName('weftrace-first-paint')[0]?.startTime", "returnByValue": True}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(CHROMIUM_OPTIONS))
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.on("pageerror", lambda error: errors.append(str(error)))
        tab.goto(Path(page).resolve().as_uri(), wait_until="commit", timeout=60_000)
        debugger = tab.context.new_cdp_session(tab)  # playwright's own evaluation is refused by the page's policy
        deadline = time.monotonic() + PAINT_LIMIT_S
        while (painted_ms := debugger.send("Runtime.evaluate", ask)["result"].get("value")) is None:
            assert time.monotonic() < deadline, f"no weftrace-first-paint within {PAINT_LIMIT_S} s; {errors}"
            tab.wait_for_timeout(20)
        version = browser.version
        browser.close()
    assert not errors, errors
    return {"inside_s": painted_ms / 1000, "chromium": version}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task
    for task in (
        account,
        reading,
        near,
        report,
        modules,
        waits,
        efficiency,
        advice,
        hta,
        gunzip,
        ranks,
        cluster,
        html,
        paint,
    )
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    result = TASKS[name](*arguments)
    print("\n" + json.dumps(result, default=str))
