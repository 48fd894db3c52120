"""What is timed of simulated profiles: `python -m benchmarks.profiles whole|sweep|pays ...`.

From names to numbers: experts drawn, operations priced, the plan made, timed, and what follows from it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.plan import best_of, networkx_s


def whole(kind: str, num_layers: int, num_ranks: int, num_runs: int) -> dict[str, Any]:
    """A profile with random routing and joint barriers. Against networkx, which finds its plan's makespan alone."""
    from weftrace.moe.derived.limits import bottleneck
    from weftrace.moe.derived.tokens_per_second import throughput
    from weftrace.moe.requested import profile_of
    from weftrace.moe.requests import Request

    asked: Any = {"kind": kind, "layers": num_layers, "ranks": num_ranks, "ep": num_ranks, "routing": "random"}

    def made() -> Any:
        profile = profile_of(Request(**asked))
        return profile, throughput(profile), bottleneck(profile)

    took, (profile, tokens, holds_up) = best_of(num_runs, made)
    return took | {
        "num_ops": len(profile.plan),
        "num_meets": profile.plan.ops.get_column("meet").drop_nulls().n_unique(),
        "layer_us": profile.layer_ns / 1e3,
        "tokens_per_gpu": tokens.per_gpu,
        "limit": holds_up.limit,
        "networkx_s": networkx_s(profile.plan, profile.times.makespan_ns),
    }


def sweep() -> dict[str, Any]:
    """50 settings: five groups of experts, five lists, two kinds of routing; each with its trace analysed."""
    from weftrace.moe.requests import Request
    from weftrace.moe.sweeps.many_settings import sweep as swept

    axes: dict[str, tuple[str | int, ...]] = {
        "ep": (8, 16, 32, 64, 128),
        "overlap": ("none", "two-micro-batches", "two-batch", "dual-batch", "chunked:4"),
        "routing": ("balanced", "random"),
    }
    wall, processor = time.perf_counter(), time.process_time()
    found = swept(Request(kind="prefill"), axes)
    return {
        "inside_s": time.perf_counter() - wall,
        "cpu_s": time.process_time() - processor,
        "num_rows": len(found.rows),
        "num_possible": len(found.ranked),
    }


def pays(first: int, last: int) -> dict[str, Any]:
    """Every batch of a range under five lists. Against a profile a batch, of which every 32nd is made."""
    from weftrace.moe.requested import profile_of
    from weftrace.moe.requests import Request
    from weftrace.moe.sweeps.break_even import pays as paying

    names = ("two-batch", "dual-batch", "chunked:2", "waves")
    batches = range(first, last + 1, 2)
    paying(Request(kind="decode"), batches[:2], overlaps=names)  # what is loaded once is loaded
    wall, processor = time.perf_counter(), time.process_time()
    found = paying(Request(kind="decode"), batches, overlaps=names)
    took = {"inside_s": time.perf_counter() - wall, "cpu_s": time.process_time() - processor}
    some = batches[::32]
    start = time.perf_counter()
    for batch in some:
        for name in ("none", *names):
            profile_of(Request(kind="decode", overlap=name, gpu_tokens=2 * batch))
    one_by_one_s = (time.perf_counter() - start) * len(batches) / len(some)
    return took | {
        "num_batches": len(batches), "one_by_one_s": one_by_one_s,
        "pays_from": {curve.overlap: curve.pays_from for curve in found.curves[1:]},
    }  # fmt: skip


TASKS: dict[str, Callable[..., dict[str, Any]]] = {task.__name__: task for task in (whole, sweep, pays)}

if __name__ == "__main__":
    name, *arguments = sys.argv[1:]
    given = [int(each) if each.isdecimal() else each for each in arguments]
    print("\n" + json.dumps(TASKS[name](*given)))
