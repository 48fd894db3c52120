"""What is timed of inference: `python -m benchmarks.inference whole|path NUMBERS...`.

A measured run's plan: from its trace in memory (reading apart) to the plan, its replay and how far that is off.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import polars as pl

from benchmarks.plan import best_of, networkx_s


def whole(num_layers: int, num_runs: int) -> dict[str, Any]:
    """Layers of 100 kernels on two streams with their launches, and of waits between streams only the calls: classed,
    inferred and replayed."""
    from weftrace.plan import infer
    from weftrace.trace import work_of

    trace = run_of(num_layers)

    def inferred() -> Any:
        found = infer(work_of(trace))
        return found, found.replay

    took, (found, replay) = best_of(num_runs, inferred)
    counts = found.edges.get_column("source").cast(pl.String).value_counts().sort("source").rows()
    return took | {
        "num_events": len(trace),
        "num_ops": len(found.plan),
        "waits": ", ".join(f"{count:,} {source}" for source, count in counts),
        "error": replay.error,
    }


def path(num_layers: int) -> dict[str, Any]:
    """The same run's inferred plan: networkx's longest path alone, in a process of its own: it takes more memory."""
    from weftrace.plan import infer

    found = infer(run_of(num_layers))
    taken_s = networkx_s(found.plan, found.times.makespan_ns)
    return {"inside_s": taken_s or 0.0, "networkx_s": taken_s}


def run_of(num_layers: int) -> Any:
    """The run's trace, as weftrace simulates it."""
    from benchmarks.schedules import layers_of_launches
    from weftrace.plan import Plan, simulate

    ops, waits = layers_of_launches(num_layers)
    return simulate(Plan(name="layers", ops=ops, waits=waits, gap_ns=0))


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (whole, path)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*map(int, arguments))))
