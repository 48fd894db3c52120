"""What is timed of plans: `python -m benchmarks.plan small|large|experts|sweep|replay|first NUMBERS...`.

Each task says wall and processor time; the latter is what is left on a busy machine. Making a plan's frames counts
only where it says so.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any


def best_of(num_runs: int, work: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of the first call, and of the fastest of some more by wall and by processor; with the last result."""
    took: list[tuple[float, float]] = []
    for _ in range(1 + num_runs):
        wall, processor = time.perf_counter(), time.process_time()
        result = work()
        took.append((time.perf_counter() - wall, time.process_time() - processor))
    fastest = min(took[1:])
    first = {"first_inside_s": took[0][0], "first_cpu_s": took[0][1]}
    return first | {"inside_s": fastest[0], "cpu_s": fastest[1]}, result


def small(num_ranks: int, num_micro_batches: int, num_runs: int) -> dict[str, Any]:
    """A pipeline of few ranks: built of its frames, timed, and a trace of each rank. Against networkx."""
    from benchmarks.schedules import pipeline
    from weftrace.plan import Plan, simulate_ranks, timetable

    ops, waits = pipeline(num_ranks, num_micro_batches)
    took, traces = best_of(num_runs, lambda: simulate_ranks(Plan(name="pipeline", ops=ops, waits=waits)))
    plan = Plan(name="pipeline", ops=ops, waits=waits)
    timed, times = best_of(num_runs, lambda: timetable(Plan(name="pipeline", ops=ops, waits=waits)))
    assert len(traces) == num_ranks
    return took | {
        "num_ops": len(ops),
        "num_events": sum(len(trace) for trace in traces.values()),
        "timed_s": timed["inside_s"],
        "makespan_ms": times.makespan_ns / 1e6,
        "networkx_s": networkx_s(plan, times.makespan_ns),
    }


def large(num_ranks: int, num_micro_batches: int) -> dict[str, Any]:
    """A pipeline of a whole cluster, once: generated, timed, and the memory of every rank over time."""
    import polars as pl

    from benchmarks.schedules import pipeline
    from weftrace.plan import Plan, memory_curve, memory_peaks, timetable

    stages_s: dict[str, float] = {}
    wall, processor = time.perf_counter(), time.process_time()

    def stage(name: str) -> None:
        stages_s[name] = time.perf_counter() - wall - sum(stages_s.values())

    ops, waits = pipeline(num_ranks, num_micro_batches)
    stage("generated")
    plan = Plan(name="pipeline", ops=ops, waits=waits)
    del ops, waits
    stage("built")
    times = timetable(plan)
    stage("timed")
    peaks = memory_peaks(times)
    stage("peaks")
    num_points = sum(len(memory_curve(times, rank)) for rank in range(num_ranks))
    stage("curves")
    return {
        "inside_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - processor,
        "stages_s": stages_s,
        "num_ops": len(plan.ops),
        "num_points": num_points,
        "peak_gb": peaks.select(pl.max("peak_bytes")).item() / 1e9,
        "makespan_s": times.makespan_ns / 1e9,
    }


def experts(num_layers: int, num_ranks: int, num_runs: int) -> dict[str, Any]:
    """Layers of experts with random routing and joint barriers: generated, built, timed. Against networkx."""
    from benchmarks.schedules import expert_layers
    from weftrace.plan import Plan, timetable

    def whole() -> Any:
        ops, waits = expert_layers(num_layers, num_ranks)
        return timetable(Plan(name="experts", ops=ops, waits=waits))

    took, times = best_of(num_runs, whole)
    return took | {
        "num_ops": len(times.plan.ops),
        "makespan_ms": times.makespan_ns / 1e6,
        "networkx_s": networkx_s(times.plan, times.makespan_ns),
    }


def sweep(num_layers: int, num_ranks: int, num_settings: int) -> dict[str, Any]:
    """As many models of experts, each with a routing of its own: generated, built, timed, with its critical path."""
    from benchmarks.schedules import expert_layers
    from weftrace.plan import Plan, critical_path, timetable

    wall, processor = time.perf_counter(), time.process_time()
    spans_ms: list[float] = []
    waited = 0
    for seed in range(num_settings):
        ops, waits = expert_layers(num_layers, num_ranks, seed)
        times = timetable(Plan(name=f"experts {seed}", ops=ops, waits=waits))
        spans_ms.append(times.makespan_ns / 1e6)
        waited += len(critical_path(times))
    return {
        "inside_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - processor,
        "least_ms": min(spans_ms),
        "most_ms": max(spans_ms),
        "num_steps": waited,
    }


def replay(num_kernels: int, num_runs: int) -> dict[str, Any]:
    """Kernels with their launches, built of frames and timed; then what decides the end."""
    from benchmarks.schedules import launched_kernels
    from weftrace.plan import Plan, critical_path, timetable

    ops, waits = launched_kernels(num_kernels)
    took, times = best_of(num_runs, lambda: timetable(Plan(name="replay", ops=ops, waits=waits)))
    explained, path = best_of(1, lambda: critical_path(times))
    return took | {
        "num_ops": len(ops),
        "num_waits": len(waits),
        "makespan_ms": times.makespan_ns / 1e6,
        "path_s": explained["inside_s"],
        "num_steps": len(path),
    }


def first(num_kernels: int, folder: str) -> dict[str, Any]:
    """The first timetable of a process, less what a later one takes: to compile, or to load what was compiled.

    What is compiled is kept in `folder` alone: empty at first, and a second process finds there what the first left.
    """
    os.environ["NUMBA_CACHE_DIR"] = folder
    from benchmarks.schedules import launched_kernels
    from weftrace.plan import Plan
    from weftrace.plan.graph import graph_of, run

    ops, waits = launched_kernels(num_kernels)
    plan = Plan(name="replay", ops=ops, waits=waits)
    took, _ = best_of(3, lambda: run(graph_of(plan), compiled=True))
    return {name: took[f"first_{name}"] - took[name] for name in ("inside_s", "cpu_s")}


def networkx_s(plan: Any, makespan_ns: int) -> float | None:
    """Seconds of networkx for the plan's longest path alone, graph made before; None where it is not installed.

    Its graph has two events an op and one more a meet, which its members' ends follow. The makespans must agree.
    """
    try:
        import networkx
    except ImportError:
        return None
    ops, waits = plan.ops, plan.waits
    graph = networkx.DiGraph()
    last: dict[tuple[int, int], int] = {}
    columns = ("rank", "stream", "duration_ns", "num_kernels", "meet")
    for i, (rank, stream, duration_ns, num_kernels, meet) in enumerate(ops.select(columns).iter_rows()):
        hold_ns = duration_ns + (num_kernels - 1) * plan.gap_ns
        graph.add_edge(("start", i), ("end", i), weight=hold_ns)
        if meet is not None:
            graph.add_edge(("start", i), ("meet", meet), weight=0)
            graph.add_edge(("meet", meet), ("end", i), weight=hold_ns)
        if (rank, stream) in last:
            graph.add_edge(("end", last[rank, stream]), ("start", i), weight=plan.gap_ns)
        last[rank, stream] = i
    for op, on, since, lag_ns in waits.select("op", "on", "since", "lag_ns").iter_rows():
        known = graph.get_edge_data((since, on), ("start", op), {"weight": lag_ns})  # one it also follows on its stream
        graph.add_edge((since, on), ("start", op), weight=max(lag_ns, known["weight"]))
    start = time.perf_counter()
    length_ns = networkx.dag_longest_path_length(graph)
    took_s = time.perf_counter() - start
    assert length_ns == makespan_ns, (length_ns, makespan_ns)
    return took_s


TASKS: dict[str, Callable[..., dict[str, Any]]] = {
    task.__name__: task for task in (small, large, experts, sweep, replay, first)
}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    result = TASKS[name](*(int(argument) if argument.isdigit() else argument for argument in arguments))
    print("\n" + json.dumps(result))
