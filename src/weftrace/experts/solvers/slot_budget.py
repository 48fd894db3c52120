"""How many slots should each layer get, when all layers share one budget?

The layers' loads are not equally skewed, so a redundant slot does not buy the same everywhere (the idea of CRAFT: spend
replicas where they gain most).
"""

from __future__ import annotations

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats, Ints, is_whole
from weftrace.experts.cluster import make_cluster
from weftrace.experts.constraints import make_problem
from weftrace.experts.loads import as_loads
from weftrace.experts.proof.bounds import bound_by_slots


def share_slots_among_layers(loads: object, total_slots: int, num_gpus: int, *, multiple_of: int | None = None) -> Ints:
    """int64 [L] slots of each layer: the sum over layers of the least possible maximum is made small.

    loads: [L, N]. total_slots: of all layers together; what is left after the last whole multiple, or beyond N slots a
    GPU in every layer, is not handed out. num_gpus: G, equal GPUs. multiple_of: what every layer's slots are a multiple
    of; G where not given, as most engines want the same number of experts on every GPU. Then a layer gains at most from
    one slot a GPU more than its experts fill (P >= N + G lets the bound reach the mean); finer shares need 1.
    Each layer starts with the fewest slots that hold its experts. Then the step (of one layer, by any number of slots)
    with the largest fall of the bound max(W / G, t*) a slot is taken, as long as one falls (`bounds.bound_by_slots`).
    What is left goes to the layers that have fewest, in turn: there it leaves the packing more freedom.
    `balance(..., slots_of_layer=...)` takes the answer.
    Raises `LoadsError` for bad loads, `PlacementError` where total_slots do not hold the experts of all layers.
    """
    load_LN = as_loads(loads)
    num_layers, num_experts = load_LN.shape
    num_gpus = _whole(num_gpus, "num_gpus", 1)
    multiple = num_gpus if multiple_of is None else _whole(multiple_of, "multiple_of", 1)
    fewest, most = -(-num_experts // multiple), num_experts * num_gpus // multiple
    if _whole(total_slots, "total_slots", 0) < num_layers * fewest * multiple or fewest > most:
        raise PlacementError(
            f"{total_slots} slots do not hold {num_layers} layers of {num_experts} experts: in multiples of {multiple} "
            f"each layer needs {fewest * multiple}, so {num_layers * fewest * multiple} in all"
        )
    problem = make_problem(load_LN, make_cluster(num_experts * num_gpus, num_gpus))
    bound_LS = bound_by_slots(problem, problem.mean_L, multiple)
    bound_LS[load_LN.sum(axis=1) == 0] = 0.0  # nothing can be gained in a layer of zeros
    taken_L = np.full(num_layers, fewest, dtype=np.int64)
    left = int(total_slots) // multiple - num_layers * fewest
    steps = [_best_step(bound_S, fewest, left) for bound_S in bound_LS]
    while left:
        layer = max(range(num_layers), key=lambda layer: steps[layer][0])
        gain, more = steps[layer]
        if gain <= 0:
            break
        if more <= left:
            taken_L[layer] += more
            left -= more
        steps[layer] = _best_step(bound_LS[layer], int(taken_L[layer]), left)
    while left and taken_L.min() < most:
        taken_L[np.argmin(taken_L)] += 1
        left -= 1
    return taken_L * multiple


def slots_for_budget(loads: object, total_slots: int, num_gpus: int, *, num_lost: int = 0) -> tuple[Ints, int]:
    """([L] slots of each layer, P slots a layer of a cluster that holds the largest of them).

    As `share_slots_among_layers`, which see, on the GPUs that are in service: num_gpus - num_lost, one at least. P
    counts the slots of all GPUs, as a cluster does; each has as many as one in service needs for the largest layer.
    """
    num_usable = max(num_gpus - num_lost, 1)
    slots_L = share_slots_among_layers(loads, total_slots, num_usable)
    return slots_L, int(slots_L.max()) // num_usable * num_gpus


def _best_step(bound_S: Floats, taken: int, left: int) -> tuple[float, int]:
    """(largest fall of the bound for each further multiple of slots, how many of them it takes), none above `left`."""
    fall_K = bound_S[taken] - bound_S[taken + 1 : taken + 1 + left]
    if not len(fall_K):
        return 0.0, 0
    gain_K = fall_K / np.arange(1, len(fall_K) + 1)
    best = int(np.argmax(gain_K))
    return float(gain_K[best]), best + 1


def _whole(value: object, name: str, least: int) -> int:
    if not is_whole(value, least=least):
        raise PlacementError(f"{name} must be a whole number, {least} or more, not {value!r}")
    return int(value)
