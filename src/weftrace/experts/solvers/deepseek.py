"""DeepSeek's expert balancer (EPLB) to the last bit, compiled: the drop-in `rebalance_experts`.

The published algorithm: pack groups on nodes (heaviest first, on the least loaded node that has room), give the extra
slots of a node one by one to the expert with the largest load a copy, and pack the replicas on the node's GPUs like
the groups on nodes. It is greedy, so it is a baseline here: `balance` keeps its answer where no solver has a better.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from weftrace.errors import LoadsError, PlacementError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.loads import as_loads
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.problem import NotApplicable, Problem, Solution
from weftrace.experts.runtime import order as torch_order
from weftrace.experts.solvers.deepseek_kernels import Float32s, pack_on_gpus, part_copies, replicate, slots_by_creation

ORDERS = ("torch", "stable")

DIFFERENCES = (
    "NaN, infinite and negative loads, and layers that sum to more than half of float32's range (1.7e38), are errors; "
    "the published code balances by them without a warning.",
    "Numbers that disagree (fewer slots than experts, slots that GPUs cannot share, zero nodes or groups, no layer) "
    "raise LoadsError or PlacementError with the numbers; the published code asserts without a text, or divides by 0.",
    "Lists and NumPy arrays are taken, and answered with NumPy arrays; the published code takes tensors alone.",
    'order="stable" keeps equal loads in the order of their numbers and adds groups in float64, so that the answer is '
    "the same on every processor and needs no torch; layers with ties can then differ from the published answer.",
)
"""Where `rebalance_experts` differs from the published code. All else is the same, bit for bit: loads become float32
(2^24 and 2^24 + 1 are equal), a layer of zeros gives every extra slot to expert 0 of each node, an expert can have more
copies than there are GPUs and stand twice on one, S = 1 packs nothing, and the last dimension of log2phy is as wide
as the largest count of copies."""


def rebalance_experts(
    weight: Any, num_replicas: int, num_groups: int, num_nodes: int, num_gpus: int, *, order: str = "torch"
) -> tuple[Any, Any, Any]:
    """The placement that DeepSeek's `rebalance_experts` gives, bit for bit, ties included; `DIFFERENCES`: where not.

    weight: [L, N] load of each expert, a tensor, an array or lists. num_replicas: P, the slots of all GPUs.
    Returns int64 (phy2log [L, P], log2phy [L, N, X], logcnt [L, N]): the expert of each slot; the slots of each expert
    in the order in which the copies were made, -1 after the last, X the largest count; and the count of copies. They
    are tensors on the CPU if `weight` is a tensor, else NumPy arrays.
    Where num_nodes divides num_groups, groups stay whole on nodes (hierarchical). Where it does not, the answer is
    global, as published: groups and nodes are then ignored without a word, and need not divide anything.
    order: "torch" sorts and adds as the published code does, by torch. "stable" needs no torch and leaves equal loads
    in the order of their numbers.
    Raises `LoadsError` for bad loads, `PlacementError` for numbers that disagree or where torch is missing.
    """
    if order not in ORDERS:
        raise PlacementError(f"no order {order!r}; choose from {', '.join(ORDERS)}")
    load_LN = as_loads(weight, what="weight")
    array = None if hasattr(weight, "detach") else np.asarray(weight)
    num_dimensions = weight.ndim if array is None else array.ndim
    if num_dimensions != 2:
        raise LoadsError(f"weight has {num_dimensions} dimensions; it must be [layers, experts], even for one layer")
    if too_large := _beyond_float32(load_LN):
        raise LoadsError(f"weight: {too_large}")
    named = {"num_replicas": num_replicas, "num_groups": num_groups, "num_nodes": num_nodes, "num_gpus": num_gpus}
    num_slots, num_groups, num_nodes, num_gpus = (_whole(value, name) for name, value in named.items())
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    if disagreement := _disagreement(load_LN.shape[1], num_slots, num_groups, num_nodes, num_gpus):
        raise PlacementError(disagreement)

    # The caller's numbers become float32 at once: by way of float64, whole numbers above 2^53 would be rounded twice.
    if order == "torch" or array is None:
        torch_order.require_torch()
        tensor = torch_order.as_float32(weight if array is None else _as_float32(array, load_LN))
        load32_LN = tensor.contiguous().numpy()
    else:
        load32_LN = _as_float32(array, load_LN)
    groups = None
    if order == "torch":
        if num_groups > num_nodes:
            groups = torch_order.group_loads(tensor, num_groups)
        placed = _place(load32_LN, groups, num_slots, num_nodes, num_gpus, torch_order.descending)
    else:
        if num_groups > num_nodes:
            groups = _group_loads(load32_LN, num_groups)
        placed = _place(load32_LN, groups, num_slots, num_nodes, num_gpus, stable_descending)
    phy2log_LP, creation_LP, logcnt_LN = placed
    log2phy_LNX = slots_by_creation(phy2log_LP, creation_LP, load_LN.shape[1], int(logcnt_LN.max()))
    if array is None:
        return torch_order.as_tensor(phy2log_LP), torch_order.as_tensor(log2phy_LNX), torch_order.as_tensor(logcnt_LN)
    return phy2log_LP, log2phy_LNX, logcnt_LN


def solve_deepseek(problem: Problem) -> Solution | NotApplicable:
    """The published algorithm's map with an even split, ties in the order of the experts' numbers (never by torch).

    Unlike the published code it has at most one copy of an expert a GPU where that can be had: excess copies go to
    the expert with the largest load a copy, and repeats are swapped away (`part_copies`). Hierarchical where num_nodes
    divides num_groups, else global, as `rebalance_experts`.
    """
    if not problem.is_plain:
        return NotApplicable(reason="needs equal GPUs, all in service, every slot filled and no pins")
    cluster, num_experts = problem.cluster, problem.num_experts
    num_groups, num_nodes = problem.num_groups, cluster.num_nodes
    if num_groups % num_nodes:
        num_groups = num_nodes = 1
    reason = _beyond_float32(problem.load_LN) or _disagreement(
        num_experts, cluster.num_slots, num_groups, num_nodes, cluster.num_gpus
    )
    if reason:
        return NotApplicable(reason=reason)
    load32_LN = problem.load_LN.astype(np.float32)
    groups = _group_loads(load32_LN, num_groups) if num_groups > num_nodes else None
    placed = _place(load32_LN, groups, cluster.num_slots, num_nodes, cluster.num_gpus, stable_descending)
    expert_of_slot_LP = placed[0]
    part_copies(expert_of_slot_LP, problem.load_LN, num_nodes, cluster.num_gpus)
    return problem.evenly(expert_of_slot_LP)


def published_placement(loads: object, cluster: Cluster, num_groups: int = 1) -> Placement | NotApplicable:
    """The published algorithm's placement as a service would run it, repeats on a GPU included: what others are
    compared with. By node where the nodes can share the groups, else global; ties in the order of the experts' numbers.
    """
    load_LN = as_loads(loads)
    if not cluster.is_uniform:
        return NotApplicable(reason="the published EPLB knows equal GPUs alone, all in service")
    by_node = cluster.num_nodes > 1 and num_groups % cluster.num_nodes == 0
    groups, nodes = (num_groups, cluster.num_nodes) if by_node else (1, 1)
    slots, gpus, experts = cluster.num_slots, cluster.num_gpus, load_LN.shape[1]
    if reason := _beyond_float32(load_LN) or _disagreement(experts, slots, groups, nodes, gpus):
        return NotApplicable(reason=reason)
    phy2log_LP, _, _ = rebalance_experts(load_LN, slots, groups, nodes, gpus, order="stable")
    policy = "hierarchical" if by_node else "global"
    return make_placement(phy2log_LP, cluster, experts, policy=policy, solver_of_layer=("published",) * len(load_LN))


def stable_descending(load_RK: Float32s) -> Ints:
    """int64 [R, K] positions of each row's values from the largest down, equal ones in the order of their positions.

    The bits of a float32 that is not negative grow with it. Below them stands the position, so keys never are equal
    and any sort of them is stable.
    """
    bits_RK = (load_RK + np.float32(0)).view(np.uint32).astype(np.int64)  # + 0 turns -0 into 0
    keys_RK = ((np.int64(0xFFFFFFFF) - bits_RK) << 32) | np.arange(load_RK.shape[1])
    keys_RK.sort(axis=1)
    order_RK: Ints = keys_RK & 0xFFFFFFFF
    return order_RK


def _group_loads(load32_LN: Float32s, num_groups: int) -> tuple[Float32s, Ints]:
    """Load of each group and the groups from the heaviest down, as `runtime.order.group_loads`, without torch."""
    load_LKM = load32_LN.reshape(len(load32_LN), num_groups, -1)
    load_LK = load_LKM.sum(axis=2, dtype=np.float64).astype(np.float32)
    return load_LK, stable_descending(load_LK)


def _place(
    load32_LN: Float32s,
    groups: tuple[Float32s, Ints] | None,
    num_slots: int,
    num_nodes: int,
    num_gpus: int,
    descending: Callable[[Float32s], Ints],
) -> tuple[Ints, Ints, Ints]:
    """Expert of each slot [L, P], which of its expert's copies a slot is in order of creation [L, P], counts [L, N].

    groups: loads and descending order of the groups; None where each node has one, in order.
    """
    num_layers = len(load32_LN)
    if groups is None:
        load_LK, order_LK = np.zeros((num_layers, num_nodes), np.float32), np.zeros((num_layers, 0), np.int64)
    else:
        load_LK, order_LK = groups
    expert_LR, creation_LR, value_LR, logcnt_LN = replicate(load32_LN, load_LK, order_LK, num_nodes, num_slots)
    if num_slots > num_gpus:
        order_LR = descending(value_LR.reshape(num_layers * num_nodes, -1)).reshape(num_layers, -1)
    else:
        order_LR = np.zeros((num_layers, 0), np.int64)  # one slot a GPU: replicas stay where they are
    phy2log_LP, creation_LP = pack_on_gpus(expert_LR, creation_LR, value_LR, order_LR, num_nodes, num_gpus)
    return phy2log_LP, creation_LP, logcnt_LN


def _as_float32(array: NDArray[Any], load_LN: Floats) -> Float32s:
    """A copy of the caller's array (where it holds Python's own numbers, of what `as_loads` made of it) in float32."""
    return np.array(load_LN if array.dtype == object else array, dtype=np.float32, order="C")


def _whole(value: SupportsIndex, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise PlacementError(f"{name} must be a whole number, not {value!r}") from None
    if number < 1:
        raise PlacementError(f"{name} must be at least 1, not {number}")
    return number


def _beyond_float32(load_LN: Floats) -> str | None:
    """Why loads would overflow in float32, sums included; None where they would not."""
    total_L = load_LN.sum(axis=1)
    most = float(np.finfo(np.float32).max) / 2
    if total_L.max() <= most:
        return None
    layer = int(total_L.argmax())
    return f"layer {layer} sums to {total_L[layer]:.3g}, above {most:.3g}, too large for float32; divide the loads"


def _disagreement(num_experts: int, num_slots: int, num_groups: int, num_nodes: int, num_gpus: int) -> str | None:
    """Which two numbers the algorithm cannot take together; None where it can take them all."""
    if num_slots < num_experts:
        return f"{num_experts} experts need as many slots at least, and num_replicas is {num_slots}"
    if num_slots % num_gpus:
        return f"{num_slots} slots cannot be shared evenly by {num_gpus} GPUs"
    if num_gpus % num_nodes:
        return f"{num_gpus} GPUs cannot be shared evenly by {num_nodes} nodes"
    if num_experts % num_groups:
        return f"{num_experts} experts cannot be shared evenly by {num_groups} groups"
    return None
