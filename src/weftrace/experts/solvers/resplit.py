"""How should the copies of each expert share its tokens, when no expert may move?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints, frozen
from weftrace.experts.packing.share_flow import level_gpus
from weftrace.experts.placement import Placement
from weftrace.experts.slots import copies_of


def resplit(placement: Placement, loads: object) -> Placement:
    """The same map with the best shares for `loads` [L, N]: what can be done between re-plans, as no weight moves.

    Copies on dead and draining GPUs get nothing. The certificate is left out, for it was made for other loads.
    Raises `LoadsError` where the loads are bad, `PlacementError` where they are of another shape or where an expert has
    no copy on a GPU in service.
    """
    load_LN = placement.checked_loads(loads)
    cluster = placement.cluster
    in_service_P = cluster.usable_G[cluster.gpu_of_slot_P]
    expert_of_slot_LP = np.where(in_service_P, placement.expert_of_slot_LP, -1)
    copies_LN = copies_of(expert_of_slot_LP, placement.num_experts)
    if (copies_LN == 0).any():
        layer, expert = (int(i) for i in np.argwhere(copies_LN == 0)[0])
        raise PlacementError(
            f"layer {layer}: expert {expert} has no copy on a GPU in service; a new split cannot help, replan can"
        )
    share_LP = best_shares(expert_of_slot_LP, load_LN, cluster.first_slot_G, cluster.speed_G)
    return replace(placement, share_of_slot_LP=frozen(share_LP), is_even=False, certificate=None)


def best_shares(expert_of_slot_LP: Ints, load_LN: Floats, first_slot_G: Ints, speed_G: Floats) -> Floats:
    """[L, P] shares with the least maximum of GPU load / speed that this map allows; a linear program, solved exactly.

    Among the shares that reach it, those that also minimise the second largest GPU, the third, and so on. Where even
    that leaves a choice, the shares are those found on the way from even ones. Experts without load are shared evenly,
    and 0 stands in empty slots (-1).

    first_slot_G: int64 [G + 1], first slot of each GPU, then P. speed_G: float64 [G], above 0.
    """
    return _solved(expert_of_slot_LP, load_LN, first_slot_G, speed_G)[0]


def tightest_gpus(expert_of_slot_LP: Ints, load_LN: Floats, first_slot_G: Ints, speed_G: Floats) -> Bools:
    """[L, G] the GPUs that prove `best_shares` the best; none in a layer without load.

    The load of the experts that have every copy among them, over the sum of these GPUs' speeds, is the maximum that
    `best_shares` reaches: that load can go nowhere else, so no shares do better (the minimum cut of the flow).
    """
    return _solved(expert_of_slot_LP, load_LN, first_slot_G, speed_G)[1]


def _solved(expert_of_slot_LP: Ints, load_LN: Floats, first_slot_G: Ints, speed_G: Floats) -> tuple[Floats, Bools]:
    # Numba compiles once more for read-only arrays, as a Placement's are: to copy them costs less than that.
    return level_gpus(
        np.require(expert_of_slot_LP, np.int64, ["C", "W"]),
        np.require(load_LN, np.float64, ["C", "W"]),
        np.require(first_slot_G, np.int64, ["C", "W"]),
        np.require(speed_G, np.float64, ["C", "W"]),
    )
