"""How are the layers of a model dealt out to stages, and what does a chunk of a stage then cost?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weftrace.pipeline.costs import Costs
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Boundary, simulate

#: Places evenly along the stages where those with one layer more may begin.
_NUM_STARTS = 16


def quickest_split(
    schedule: Schedule, costs: Costs, num_layers: int, num_parts: int, boundary: Boundary
) -> tuple[int, ...]:
    """Layers of each stage, of the ways that are tried the fastest; empty where all have as many, or costs differ.

    Some stages in a row have one more, going on at the first after the last: from each device's first turn on, up to
    the last stage, from one of others evenly between, and then one stage earlier or later as long as that is faster.
    So whole turns round the devices have more layers where that is best: in F&B, a stage of two layers overlaps with
    one of one layer for half of its time. num_parts: as in `chunk_costs`.
    """
    num_stages = schedule.num_stages
    names = ("forward_ns", "input_ns", "weight_ns", "overlapped_ns")
    by_stage = any(isinstance(getattr(costs, name), tuple) for name in names)
    if by_stage or not num_layers % num_stages:
        return ()
    each, more = divmod(num_layers, num_stages)
    known: dict[int, int] = {}

    def layers(start: int) -> tuple[int, ...]:
        return tuple(each + ((stage - start) % num_stages < more) for stage in range(num_stages))

    def step_ns(start: int) -> int:
        if start not in known:
            of_chunk = chunk_costs(costs, schedule, layers(start), num_parts)
            known[start] = simulate(schedule, of_chunk, boundary).step_ns
        return known[start]

    turns = range(0, num_stages, schedule.num_ranks)
    starts = {num_stages - more, *turns, *(num_stages * at // _NUM_STARTS for at in range(_NUM_STARTS))}
    best = min(sorted(starts), key=step_ns)
    while step_ns(near := min(((best + by) % num_stages for by in (-1, 1)), key=step_ns)) < step_ns(best):
        best = near
    return layers(best)


def chunk_costs(costs: Costs, schedule: Schedule, layers: tuple[int, ...], num_parts: int) -> Costs:
    """Costs of a chunk of the schedule, from those of a share: so many equal parts of it, or by layers of each stage;
    and of that a slice. layers: of each stage; empty where all have as many."""
    if layers:
        costs = _by_layers(costs, np.array(layers) * (len(layers) / num_parts / sum(layers)))
    elif num_parts > 1:
        costs = costs.split(num_parts)
    return costs.sliced(schedule.num_slices) if schedule.num_slices > 1 else costs


def _by_layers(costs: Costs, share_S: NDArray[np.float64]) -> Costs:
    """Costs of a share of the model as those of stages that are such parts of it."""

    def times(value: Any, parts: NDArray[np.float64]) -> Any:
        return None if value is None else np.rint(value * parts).astype(np.int64)

    names = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "activation_bytes", "pending_bytes", "weight_bytes")
    changed = {name: times(getattr(costs, name), share_S) for name in names}
    if costs.overlapped_ns is not None:  # as much as both have overlaps, the rest of the larger runs alone
        both = np.minimum(share_S[:, None], share_S)
        backward: Any = np.add(costs.input_ns, costs.weight_ns) if costs.backward_ns is None else costs.backward_ns
        alone = (share_S[:, None] - both) * costs.forward_ns + (share_S - both) * backward
        changed["overlapped_ns"] = np.rint(both * costs.overlapped_ns + alone).astype(np.int64)
    return replace(costs, **changed)
