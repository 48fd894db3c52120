"""From what a user asks (loads, a cluster, pins, budgets) to a checked `Problem`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Ints, is_whole
from weftrace.experts.cluster import Cluster
from weftrace.experts.loads import as_loads
from weftrace.experts.problem import Problem

SPLITS = ("even", "uneven")

Pins = Iterable[Sequence[int]]


def make_problem(
    loads: object,
    cluster: Cluster,
    *,
    num_groups: int = 1,
    split: str = "even",
    pins: Pins = (),
    slots_of_layer: Sequence[int] | None = None,
    max_foreign: int = 4,
) -> Problem:
    """A checked `Problem`: there are enough slots in every layer, and the pins can be kept.

    A layer of zeros becomes a layer of ones. pins: (expert, gpu) for every layer, or (layer, expert, gpu).
    slots_of_layer: [L] slots to fill in each layer, as evenly as the GPUs' slots allow; the GPUs that take one more
    rotate from layer to layer, so that memory stays even. A GPU never takes more slots than there are experts.
    Raises `LoadsError` for bad loads, `PlacementError` for the rest.
    """
    load_LN = as_loads(loads)
    load_LN[load_LN.sum(axis=1) == 0] = 1.0
    num_layers, num_experts = load_LN.shape
    if split not in SPLITS:
        raise PlacementError(f"no split {split!r}; choose from {', '.join(SPLITS)}")
    if not is_whole(num_groups, least=1) or num_experts % num_groups:
        raise PlacementError(f"{num_experts} experts cannot form num_groups={num_groups!r} groups of the same size")
    if not is_whole(max_foreign, least=0):
        raise PlacementError(f"max_foreign must be a whole number of replicas, not {max_foreign!r}")
    capacity_LG = _capacity(cluster, num_layers, num_experts, slots_of_layer)
    return Problem(
        load_LN=load_LN,
        cluster=cluster,
        capacity_LG=capacity_LG,
        num_groups=int(num_groups),
        pins_K3=_pins(pins, capacity_LG, num_experts, cluster),
        is_even=split == "even",
        max_foreign=int(max_foreign),
    )


def _capacity(cluster: Cluster, num_layers: int, num_experts: int, slots_of_layer: Sequence[int] | None) -> Ints:
    most_G = np.minimum(cluster.capacity_G, num_experts)
    in_service = int(cluster.capacity_G.sum())
    if in_service < num_experts:
        lost = cluster.num_slots - in_service
        where = f"{in_service} slots in service ({lost} on dead or draining GPUs)" if lost else f"{in_service} slots"
        raise PlacementError(f"{num_experts} experts do not fit into {where}; an expert needs a slot of its own")
    if most_G.sum() < num_experts:
        raise PlacementError(
            f"{num_experts} experts do not fit: GPUs take {int(most_G.sum())} slots, none more than one of each expert"
        )
    if slots_of_layer is None:
        return np.tile(most_G, (num_layers, 1))
    budgets = list(slots_of_layer)
    if len(budgets) != num_layers:
        raise PlacementError(f"slots_of_layer names {len(budgets)} layers, and the loads have {num_layers}")
    capacity_LG = np.empty((num_layers, len(most_G)), dtype=np.int64)
    turn = 0
    for layer, budget in enumerate(budgets):
        if not is_whole(budget):
            raise PlacementError(f"slots_of_layer: layer {layer} must have a whole number of slots, not {budget!r}")
        if not num_experts <= budget <= in_service:
            bound = f"its {num_experts} experts" if budget < num_experts else f"the {in_service} slots in service"
            raise PlacementError(f"slots_of_layer: layer {layer} has {budget} slots; they must fit {bound}")
        capacity_LG[layer], turn = _spread(min(int(budget), int(most_G.sum())), most_G, turn)
    return capacity_LG


def _spread(budget: int, most_G: Ints, turn: int) -> tuple[Ints, int]:
    """As level as most_G allows; the GPUs that take one more are counted from `turn` on, which moves past them."""
    level = int(
        np.searchsorted([np.minimum(most_G, level).sum() for level in range(most_G.max() + 1)], budget, "right")
    )
    capacity_G = np.minimum(most_G, level - 1)
    left = budget - int(capacity_G.sum())
    room_K = np.flatnonzero(most_G > capacity_G)
    if left:
        start = int(np.searchsorted(room_K, turn % len(most_G)))
        chosen_K = room_K[(start + np.arange(left)) % len(room_K)]
        capacity_G[chosen_K] += 1
        turn = int(chosen_K[-1]) + 1
    return capacity_G, turn


def _pins(pins: Pins, capacity_LG: Ints, num_experts: int, cluster: Cluster) -> Ints:
    """[K, 3] layer, expert, gpu: sorted, each once."""
    num_layers, num_gpus = capacity_LG.shape
    rows: set[tuple[int, int, int]] = set()
    for pin in pins:
        numbers = _numbers(pin)
        layers = range(num_layers) if len(numbers) == 2 else numbers[:1]
        expert, gpu = numbers[-2:]
        if not 0 <= expert < num_experts:
            raise PlacementError(f"pins: expert {expert} does not exist; they are numbered 0 to {num_experts - 1}")
        if not 0 <= gpu < num_gpus:
            raise PlacementError(f"pins: GPU {gpu} does not exist; they are numbered 0 to {num_gpus - 1}")
        if gpu in cluster.dead or gpu in cluster.draining:
            raise PlacementError(f"pins: expert {expert} is pinned to GPU {gpu}, which is out of service")
        for layer in layers:
            if not 0 <= layer < num_layers:
                raise PlacementError(f"pins: layer {layer} does not exist; they are numbered 0 to {num_layers - 1}")
            rows.add((layer, expert, gpu))
    pins_K3 = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3)
    for layer in np.unique(pins_K3[:, 0]):
        _check_pins(pins_K3[pins_K3[:, 0] == layer], capacity_LG[layer], num_experts)
    return pins_K3


def _check_pins(pins_K3: Ints, capacity_G: Ints, num_experts: int) -> None:
    """Each GPU has room for its pinned experts, and the layer for those and one slot for each of the others."""
    layer = int(pins_K3[0, 0])
    pinned_G = np.bincount(pins_K3[:, 2], minlength=len(capacity_G))
    if (pinned_G > capacity_G).any():
        gpu = int(np.argmax(pinned_G > capacity_G))
        raise PlacementError(
            f"pins: loads row {layer} pins {pinned_G[gpu]} experts to GPU {gpu}, which has {capacity_G[gpu]} slots"
        )
    free = num_experts - len(np.unique(pins_K3[:, 1]))
    room = int(capacity_G.sum()) - len(pins_K3)
    if room < free:
        raise PlacementError(f"pins: loads row {layer} has {free} experts without a pin and {room} slots left for them")


def _numbers(pin: Any) -> list[int]:
    numbers = list(pin) if isinstance(pin, Iterable) else [pin]
    if len(numbers) not in (2, 3) or not all(is_whole(number) for number in numbers):
        raise PlacementError(f"pins: {pin!r} must be (expert, gpu) or (layer, expert, gpu)")
    return [int(number) for number in numbers]
