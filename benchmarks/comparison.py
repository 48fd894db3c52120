"""What is timed of a comparison: `python -m benchmarks.comparison made|both|compared|page FILES...`.

Two runs of about 100 MB of JSON each, of which the one has a step more; comparing them against reading both alone.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.inputs import repeat, source_trace, write_gzip

SIZE_BYTES = 100_000_000  # at least, of either file


def made(folder: str) -> dict[str, Any]:
    """The two files: the recorded trace repeated until there is 100 MB of it, and once more."""
    start = time.perf_counter()
    source, recorded = source_trace()
    text = gzip.decompress(source.read_bytes()).decode()
    num_repeats = -(-SIZE_BYTES // len(text))
    paths = [Path(folder) / f"{name}.json.gz" for name in ("before", "after")]
    sizes = [write_gzip(path, repeat(text, num_repeats + more)) for more, path in enumerate(paths)]
    paths_summary = {"before": str(paths[0]), "after": str(paths[1])}
    return {"inside_s": time.perf_counter() - start, "recorded": recorded, "num_bytes": sizes, **paths_summary}


def both(before: str, after: str) -> dict[str, Any]:
    """Reading both files, one after the other, and nothing more."""
    from weftrace.trace import Trace, open_trace

    start = time.perf_counter()
    num_events = []
    for path in (before, after):
        trace = open_trace(path)
        assert isinstance(trace, Trace)
        num_events.append(len(trace))
    return {"inside_s": time.perf_counter() - start, "num_events": num_events}


def compared(before: str, after: str) -> dict[str, Any]:
    """Reading both and comparing them, down to the document that the command prints."""
    from weftrace.comparison import diff
    from weftrace.comparison.document import diff_report

    start = time.perf_counter()
    found = diff(before, after)
    document = diff_report(found)
    inside_s = time.perf_counter() - start
    steps = [found.before.num_steps, found.after.num_steps]
    return {
        "inside_s": inside_s,
        "headline": document.headline,
        "num_steps": steps,
        "num_rows": found.changes.height,
    }


def page(before: str, after: str, folder: str) -> dict[str, Any]:
    """Reading both, comparing them and writing the page."""
    import weftrace as wt

    start = time.perf_counter()
    output = Path(folder) / "diff.html"
    wt.save(wt.diff(before, after), output)
    return {"inside_s": time.perf_counter() - start, "num_bytes": output.stat().st_size}


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (made, both, compared, page)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*arguments)))
