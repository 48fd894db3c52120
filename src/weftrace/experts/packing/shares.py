"""With which shares does a map of experts load the fullest GPU least?"""

from __future__ import annotations

import numpy as np

from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.packing.share_flow import level_gpus


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
