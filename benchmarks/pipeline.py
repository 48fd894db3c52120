"""What is timed of pipelines: `python -m benchmarks.pipeline small|large RANKS MICRO_BATCHES [RUNS]`.

A schedule is generated, given times by costs, and the memory of each rank followed through the step.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.plan import best_of, networkx_s


def measured_costs() -> Any:
    """Of the right order for a large model on H100s: a chunk leaves 64 MB, half of which stays until its W."""
    from weftrace.pipeline import Costs

    return Costs(
        forward_ns=1_000_000,
        input_ns=1_100_000,
        weight_ns=800_000,
        latency_ns=20_000,
        activation_bytes=64_000_000,
        pending_bytes=32_000_000,
    )


def simulated(num_ranks: int, num_micro_batches: int, stage: Callable[[str], None] = lambda name: None) -> Any:
    """The simulation of ZB1P, and how many points its memory curves have."""
    from weftrace.pipeline import simulate
    from weftrace.pipeline.generators.families import generate

    schedule = generate("zb1p", num_ranks=num_ranks, num_micro_batches=num_micro_batches)
    stage("generated")
    simulation = simulate(schedule, measured_costs())
    stage("simulated")
    num_points = sum(len(simulation.memory(rank)) for rank in range(num_ranks))
    stage("curves")
    return simulation, num_points


def small(num_ranks: int, num_micro_batches: int, num_runs: int) -> dict[str, Any]:
    """A pipeline of few ranks, warm. Against networkx, which gets the plan as a graph and finds its makespan alone."""
    took, (simulation, num_points) = best_of(num_runs, lambda: simulated(num_ranks, num_micro_batches))
    return took | {
        "num_actions": len(simulation.schedule),
        "num_points": num_points,
        "makespan_ms": simulation.makespan_ns / 1e6,
        "networkx_s": networkx_s(simulation.times.plan, simulation.makespan_ns),
    }


def large(num_ranks: int, num_micro_batches: int) -> dict[str, Any]:
    """A pipeline of a whole cluster, once."""
    stages_s: dict[str, float] = {}
    wall, processor = time.perf_counter(), time.process_time()

    def stage(name: str) -> None:
        stages_s[name] = time.perf_counter() - wall - sum(stages_s.values())

    simulation, num_points = simulated(num_ranks, num_micro_batches, stage)
    return {
        "inside_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - processor,
        "stages_s": stages_s,
        "num_actions": len(simulation.schedule),
        "num_points": num_points,
        "peak_gb": max(simulation.ranks["peak_bytes"]) / 1e9,
        "bubble": simulation.bubble_ns / simulation.makespan_ns,
    }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (small, large)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*map(int, arguments))))
