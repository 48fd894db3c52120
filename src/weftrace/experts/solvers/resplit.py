"""How should the copies of each expert share its tokens, when no expert may move?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import frozen
from weftrace.experts.packing.shares import best_shares
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
