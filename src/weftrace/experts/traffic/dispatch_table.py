"""To which copy does each source send its tokens? For engines that route by a fixed table rather than by weights.

A source is a rank that sends tokens. All of a source's tokens for an expert go to one copy, so with R sending sources
the shares come in steps of 1 / R: `realised` says how far from the wanted ones they end.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weftrace.compiled import compiled, compiled_part
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.placement import Placement
from weftrace.notebook import InNotebook

_TIE = 1e-9  # remainders nearer than this are equal: shares such as 2/3 are not exact


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RealisedShares(InNotebook):
    """What a dispatch table makes of a placement's shares, if every sending source has equally many tokens.

    share_LP: float64 [L, P], the part of the sending sources that send their tokens for the slot's expert to this slot.
    largest_error: the largest difference of such a part from the wanted share.
    mean_error: the mean over layers and experts of half the sum of the differences of an expert's copies: the part of
        its tokens that goes to another copy than wanted.
    same_gpu, same_node: the part of all pairs (sending source, expert) whose slot is on the source's own GPU, node.
    """

    share_LP: Floats
    largest_error: float
    mean_error: float
    same_gpu: float
    same_node: float


def dispatch_table(placement: Placement, num_sources: int | None = None) -> Ints:
    """int64 [L, N, R], the slot to which source r sends its tokens for expert n of layer l.

    num_sources: R, one a GPU unless told otherwise. They are spread evenly: source r stands on GPU r * G // R.
    A copy with share x gets x * R sources rounded down, and the sources left over go one each to the copies with the
    largest remainders (Hamilton's method), equal ones first to the GPU that came off worst so far in the layer. Then as
    many sources as can are given a copy on their own GPU, and of the others as many as can one on their own node.
    Sources on dead GPUs send nothing, so they are not counted; their row names the copy with the largest share.
    Raises `PlacementError` where there is no source, or a share is in a slot of a GPU out of service.
    """
    num_sources = placement.cluster.num_gpus if num_sources is None else num_sources
    gpu_of_source_R, sends_R = _sources(placement, num_sources)
    cluster = placement.cluster
    lost_P = ~cluster.usable_G[cluster.gpu_of_slot_P]
    if (placement.share_of_slot_LP[:, lost_P] > 0).any():
        layer, slot = (int(i) for i in np.argwhere(lost_P & (placement.share_of_slot_LP > 0))[0])
        raise PlacementError(
            f"layer {layer}: slot {slot} has a share of {placement.share_of_slot_LP[layer, slot]:.3g} and is on "
            f"GPU {cluster.gpu_of_slot_P[slot]}, which is out of service; resplit or replan first"
        )
    return _dispatch_table(
        placement.log2phy,
        np.require(placement.share_of_slot_LP, np.float64, ["C", "W"]),
        cluster.gpu_of_slot_P,
        cluster.node_of_gpu_G,
        gpu_of_source_R,
        sends_R,
    )


def realised(placement: Placement, table_LNR: Ints) -> RealisedShares:
    """How well a `dispatch_table` of this placement keeps its shares, and how much of it stays near.

    Raises `PlacementError` where the table is not one of this placement: another shape, or a slot without the expert.
    """
    shape_LN = (placement.num_layers, placement.num_experts)
    table_LNR = np.asarray(table_LNR)
    if table_LNR.ndim != 3 or table_LNR.shape[:2] != shape_LN:
        raise PlacementError(
            f"a dispatch table is [layers, experts, sources], {[*shape_LN, 'R']}, not {list(table_LNR.shape)}"
        )
    cluster = placement.cluster
    gpu_of_source_R, sends_R = _sources(placement, table_LNR.shape[2])
    layers_L11 = np.arange(placement.num_layers)[:, None, None]
    experts_1N1 = np.arange(placement.num_experts)[None, :, None]
    inside_LNR = (table_LNR >= 0) & (table_LNR < placement.num_slots)
    found_LNR = placement.expert_of_slot_LP[layers_L11, np.where(inside_LNR, table_LNR, 0)]
    if not (inside_LNR & (found_LNR == experts_1N1)).all():
        layer, expert, source = (int(i) for i in np.argwhere(~inside_LNR | (found_LNR != experts_1N1))[0])
        slot = table_LNR[layer, expert, source]
        raise PlacementError(f"layer {layer}, source {source}: slot {slot} does not hold expert {expert}")
    sent_LNR, sender_R = table_LNR[:, :, sends_R], gpu_of_source_R[sends_R]
    share_LP = np.zeros((placement.num_layers, placement.num_slots))
    np.add.at(share_LP, (np.broadcast_to(layers_L11, sent_LNR.shape), sent_LNR), 1 / len(sender_R))
    error_LP = np.abs(share_LP - placement.share_of_slot_LP)
    to_gpu_LNR = cluster.gpu_of_slot_P[sent_LNR]
    return RealisedShares(
        share_LP=share_LP,
        largest_error=float(error_LP.max()),
        mean_error=float(error_LP.sum() / 2 / (placement.num_layers * placement.num_experts)),
        same_gpu=float((to_gpu_LNR == sender_R).mean()),
        same_node=float((cluster.node_of_gpu_G[to_gpu_LNR] == cluster.node_of_gpu_G[sender_R]).mean()),
    )


def _sources(placement: Placement, num_sources: int) -> tuple[Ints, Bools]:
    """[R] each source's GPU, and whether it sends anything."""
    if num_sources < 1:
        raise PlacementError(f"a dispatch table needs a source of tokens, and num_sources is {num_sources}")
    cluster = placement.cluster
    gpu_of_source_R = np.arange(num_sources) * cluster.num_gpus // num_sources
    sends_R = ~np.isin(gpu_of_source_R, sorted(cluster.dead))
    if not sends_R.any():
        raise PlacementError(f"all of the {num_sources} sources are on dead GPUs")
    return gpu_of_source_R, sends_R


@compiled
def _dispatch_table(
    slots_LNX: Ints, share_LP: Floats, gpu_P: Ints, node_G: Ints, gpu_of_source_R: Ints, sends_R: Bools
) -> Ints:
    num_layers, num_experts, most = slots_LNX.shape
    table_LNR = np.full((num_layers, num_experts, len(sends_R)), -1, np.int64)
    surplus_G = np.zeros(len(node_G), np.float64)
    for layer in range(num_layers):
        surplus_G[:] = 0.0
        for expert in range(num_experts):
            num_copies = 0
            while num_copies < most and slots_LNX[layer, expert, num_copies] >= 0:
                num_copies += 1
            slots_X = slots_LNX[layer, expert, :num_copies]
            seats_X = _seats(share_LP[layer], slots_X, gpu_P, surplus_G, sends_R.sum())
            _seat(slots_X, seats_X, gpu_P, node_G, gpu_of_source_R, sends_R, table_LNR[layer, expert])
            largest = slots_X[np.argmax(share_LP[layer][slots_X])]
            for source in range(len(sends_R)):
                if not sends_R[source]:
                    table_LNR[layer, expert, source] = largest
    return table_LNR


@compiled_part
def _seats(share_P: Floats, slots_X: Ints, gpu_P: Ints, surplus_G: Floats, num_senders: int) -> Ints:
    """How many sources each copy gets; adds what its GPU gets above its due to `surplus_G`."""
    seats_X = np.zeros(len(slots_X), np.int64)
    remainder_X = np.zeros(len(slots_X), np.float64)
    for copy in range(len(slots_X)):
        due = share_P[slots_X[copy]] * num_senders
        seats_X[copy] = int(np.floor(due + _TIE))
        remainder_X[copy] = due - seats_X[copy]
    for _ in range(num_senders - seats_X.sum()):
        best = 0
        for copy in range(1, len(slots_X)):
            lead = remainder_X[copy] - remainder_X[best]
            if lead > _TIE or (
                lead > -_TIE and surplus_G[gpu_P[slots_X[copy]]] < surplus_G[gpu_P[slots_X[best]]] - _TIE
            ):
                best = copy
        seats_X[best] += 1
        remainder_X[best] -= 1
    for copy in range(len(slots_X)):
        surplus_G[gpu_P[slots_X[copy]]] -= remainder_X[copy]
    return seats_X


@compiled_part
def _seat(
    slots_X: Ints, seats_X: Ints, gpu_P: Ints, node_G: Ints, gpu_of_source_R: Ints, sends_R: Bools, table_R: Ints
) -> None:
    """Give every sending source a copy: its own GPU's, else its own node's, else the one with most seats left."""
    for distance in range(3):
        for source in range(len(table_R)):
            if not sends_R[source] or table_R[source] >= 0:
                continue
            gpu = gpu_of_source_R[source]
            best = -1
            for copy in range(len(slots_X)):
                host = gpu_P[slots_X[copy]]
                near = distance == 2 or (node_G[host] == node_G[gpu] if distance == 1 else host == gpu)
                if near and seats_X[copy] > 0 and (best < 0 or seats_X[copy] > seats_X[best]):
                    best = copy
            if best >= 0:
                table_R[source] = slots_X[best]
                seats_X[best] -= 1
