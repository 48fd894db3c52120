"""What is timed of MoE profiles: `python -m benchmarks.moe layers|sweep LAYERS RANKS NUMBER`.

All that a profile needs: random routing of each rank, prices of every operation, the plan with joint barriers, its
times.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.plan import best_of


def profile(num_layers: int, num_ranks: int, seed: int = 0, kind: str = "train") -> Any:
    """A profile at published rates, of ranks whose experts are not equally popular."""
    from weftrace.moe import Setting, drawn, load_overlap, simulated
    from weftrace.moe.costs import communication, compute
    from weftrace.moe.profiles import PUBLISHED_OVERLAP

    setting = Setting.of(kind, num_layers=num_layers, ep=num_ranks)  # type: ignore[arg-type]
    overlap = load_overlap(PUBLISHED_OVERLAP[setting.kind])
    load = drawn(setting, seed=seed, spread=0.2, num_micro_batches=2)
    prices = {
        each.name: (communication if each.moves_tokens else compute).pieces_of(each, setting, load)
        for each in overlap.operations
    }
    return simulated(setting, overlap, prices, level="published", num_ranks=num_ranks)


def layers(num_layers: int, num_ranks: int, num_runs: int) -> dict[str, Any]:
    """One profile of all ranks, warm."""
    took, found = best_of(num_runs, lambda: profile(num_layers, num_ranks))
    return took | {"num_ops": len(found.times.plan.ops), "layer_us": found.layer_ns / 1000}


def sweep(num_layers: int, num_ranks: int, num_settings: int) -> dict[str, Any]:
    """As many profiles, of all three kinds and routings of their own."""
    wall, processor = time.perf_counter(), time.process_time()
    layers_us = [
        profile(num_layers, num_ranks, seed, ("train", "prefill", "decode")[seed % 3]).layer_ns / 1000
        for seed in range(num_settings)
    ]
    return {
        "inside_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - processor,
        "least_us": min(layers_us),
        "most_us": max(layers_us),
    }


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (layers, sweep)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    print("\n" + json.dumps(TASKS[name](*map(int, arguments))))
