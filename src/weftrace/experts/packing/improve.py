"""Which few slots to change so that the fullest GPU gets emptier: a path of steps in each layer, for an even split.

A step is one of
- a swap of two slots, one of them on the fullest GPU: two slots change;
- another copy: a slot that holds one of several copies of an expert gets one of the fullest GPU's; one slot changes;
- one copy less: a copy on the fullest GPU gives its slot to a smaller expert; one slot changes.

Each step takes load off the GPU with the largest time and leaves no GPU as late as that one was. Among those the path
takes the one that lowers, for each slot that changes, the sum over GPUs of

    max(0, r - slack) + r^2 / 20,    r = time of the GPU / mean time - 1

the most. The first term is what has to go before every GPU is within `slack` of the mean: a greedy that looks at the
maximum alone spends slots on evening out GPUs that are not in its way. The path ends where no step is left; its caller
decides how far to follow it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weftrace.compiled import compiled_when_slow
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.packing.improve_kernels import Gpus, walk


class Paths(NamedTuple):
    """Steps in each layer, at most K of them with J slots in all, and what following them would come to.

    num_steps_L: length of each path.
    put_LJ2: slots and their new experts, in order; num_puts_LK: [L, K + 1] how many of them make the first k steps.
    changed_LK: [L, K + 1] slots changed after k steps: experts on a GPU that were not on it before.
    worst_LK: [L, K + 1] largest GPU time after k steps, over the mean time.
    """

    num_steps_L: Ints
    put_LJ2: Ints
    num_puts_LK: Ints
    changed_LK: Ints
    worst_LK: Floats


def improve(
    expert_of_slot_LP: Ints,
    before_LP: Ints,
    load_LN: Floats,
    cluster: Cluster,
    *,
    home_LN: Ints,
    locked_LP: Bools,
    slack: float,
    max_changed: int,
    seed: int = 0,
) -> Paths:
    """The path of each layer from `expert_of_slot_LP`.

    before_LP: the map that changed slots are counted from. Empty slots stay empty, and so do GPUs that have no others.
    home_LN: the only node that an expert may enter from another or get another copy on, -1 for
    any; an exchange inside a node is always allowed. locked_LP: slots that must keep their expert.
    slack: how far above the mean a GPU may stay, as a part of the mean. A path ends once `max_changed` slots changed on
    it; what differed from `before_LP` at its start does not count towards that.
    seed: 0 for the path as described; another number weighs each step's gain by a fixed random factor, 0.9 to 1.1, and
    gives another path that is as good on average: the best of several is better than each.
    """
    first_slot_G, speed_G = cluster.first_slot_G, cluster.speed_G
    takes_part_LG = np.zeros((len(load_LN), len(speed_G)), dtype=np.bool_)
    for gpu in range(len(speed_G)):
        takes_part_LG[:, gpu] = (expert_of_slot_LP[:, first_slot_G[gpu] : first_slot_G[gpu + 1]] >= 0).any(axis=1)
    mean_L = load_LN.sum(axis=1) / (takes_part_LG * speed_G).sum(axis=1)
    scale_L = np.divide(1.0, mean_L, out=np.zeros_like(mean_L), where=mean_L > 0)
    gpus = Gpus(cluster.gpu_of_slot_P, first_slot_G, 1.0 / speed_G, cluster.node_of_gpu_G)
    relative_LN = load_LN * scale_L[:, None]
    walked = []
    for at in range(len(load_LN)):  # one layer per call: the first few may be interpreted
        one = slice(at, at + 1)
        layer = expert_of_slot_LP[one], before_LP[one], relative_LN[one], gpus, home_LN[one], locked_LP[one]
        walked.append(walk(*layer, slack, max_changed, seed))
    return Paths(*(np.concatenate(parts) for parts in zip(*walked, strict=True)))


@compiled_when_slow
def follow(expert_of_slot_LP: Ints, put_LJ2: Ints, num_puts_L: Ints) -> Ints:
    """[L, P] the map after the first `num_puts_L` slots of each path."""
    map_LP = expert_of_slot_LP.copy()
    for layer in range(len(map_LP)):
        for at in range(num_puts_L[layer]):
            map_LP[layer, put_LJ2[layer, at, 0]] = put_LJ2[layer, at, 1]
    return map_LP
