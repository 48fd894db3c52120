"""A new placement that changes few slots of the old one: what to do when loads drift or GPUs come and go."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Bools, Floats, Ints, frozen, is_whole
from weftrace.experts.cluster import Cluster
from weftrace.experts.constraints import Pins, make_problem
from weftrace.experts.loads import as_loads
from weftrace.experts.moves.evacuate import empty_slots_to_fill, evacuate, slots_to_keep_filled
from weftrace.experts.moves.few_moves import few_moves
from weftrace.experts.moves.relabel import check_same_slots, kept_slots
from weftrace.experts.packing.shares import best_shares
from weftrace.experts.placement import Placement
from weftrace.experts.problem import Problem
from weftrace.experts.slots import even_shares
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas, homes
from weftrace.notebook import InNotebook
from weftrace.units import percent

MAX_MOVES = 0.06  # of all slots: under slow drift 1.5 points short of a full re-plan, 0.5 with an uneven split
MIN_GAIN = 1e-4  # of a layer's balancedness for a changed slot: below, a weight's way over the network buys nothing
NUM_PATHS = 8  # gain 0.15 points of balancedness on one path; 16 gain 0.05 more


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replan(InNotebook):
    """An old placement, the new one, and what lies between them.

    num_forced: slots that changed before any search: an expert without a copy in service had to go somewhere, a pin was
        not kept, or a GPU that joined had slots to fill. num_moves: slots that hold another expert than before, those
        included. An expert that its GPU held before is in its old slot, so each of them is a weight to fetch.
    before_L, after_L: balancedness of each layer under the loads planned for: of the old placement as it was, on its
        own cluster with its own shares, and of the new one.
    moved_fraction: num_moves over all slots that the new placement fills.
    """

    old: Placement
    placement: Placement
    num_moves: int
    num_forced: int
    before_L: Floats
    after_L: Floats

    @property
    def before(self) -> float:
        return float(self.before_L.mean())

    @property
    def after(self) -> float:
        return float(self.after_L.mean())

    @property
    def moved_fraction(self) -> float:
        return self.num_moves / int((self.placement.expert_of_slot_LP >= 0).sum())

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "balancedness", f"{self.before:.4f} before, {self.after:.4f} after"
        yield (
            "slots changed",
            f"{self.num_moves:,} ({percent(self.moved_fraction)}), including {self.num_forced:,} forced",
        )
        yield from self.placement._describe()


def replan(
    placement: Placement,
    loads: object,
    *,
    max_moves: float | None = MAX_MOVES,
    cluster: Cluster | None = None,
    pins: Pins = (),
    num_groups: int = 1,
    min_gain: float = MIN_GAIN,
    num_paths: int = NUM_PATHS,
) -> Replan:
    """A placement near the old one that is balanced for other loads, or on what is left of the cluster.

    loads: [L, N], to plan for. max_moves: changed slots as a part of all slots, all layers together, on top of forced
    ones; None: no limit. cluster: what it is now, if it changed (dead, draining, speeds; the same slots); None: the
    placement's own. pins: (expert, gpu) or (layer, expert, gpu), kept or made true. num_groups: routing groups of the
    experts; with a policy other than "global" a group's experts get copies only on the node that holds most of them
    now, and without it (1) an expert only on the node that holds most of its own. min_gain: balancedness of a layer
    that a changed slot has to bring. num_paths: searches, of which each layer takes the best; they are what takes time.

    A placement does not remember its pins: give them again. Where a lost GPU leaves a group no room on its node, the
    policy of the result is the one that it still keeps to.
    An even split stays even; an uneven one is solved again for these loads. Layers without load stay as they are.
    Raises `LoadsError` for bad loads; `PlacementError` where shapes disagree, where experts or pins do not fit on the
    GPUs in service, or where an option is out of range.
    """
    problem = _problem(placement, loads, placement.cluster if cluster is None else cluster, pins, num_groups)
    budget = _budget(placement, max_moves, min_gain, num_paths)
    cluster = problem.cluster
    old_LP = np.where(cluster.usable_G[cluster.gpu_of_slot_P], placement.expert_of_slot_LP, -1)
    home_LN = _homes(placement, num_groups)
    forced_LP = evacuate(
        old_LP,
        empty_slots_to_fill(old_LP, problem.capacity_LG, cluster),
        problem.load_LN,
        cluster,
        pins_K3=problem.pins_K3,
        home_LN=home_LN,
    )
    new_LP = forced_LP
    if budget:
        new_LP = few_moves(
            problem,
            forced_LP,
            old_LP,
            home_LN=home_LN,
            locked_LP=_locked(forced_LP, problem),
            budget=budget,
            min_gain=min_gain,
            num_paths=num_paths,
        )
    order_LP = kept_slots(old_LP, new_LP, cluster.first_slot_G)
    new_LP = np.take_along_axis(new_LP, order_LP, axis=1)
    after = _placement(placement, problem, new_LP)
    load_LN = as_loads(loads)
    return Replan(
        old=placement,
        placement=after,
        num_moves=int((new_LP != old_LP).sum()),
        num_forced=int((forced_LP != old_LP).sum()),
        before_L=placement.balancedness(load_LN),
        after_L=after.balancedness(load_LN),
    )


def _problem(placement: Placement, loads: object, cluster: Cluster, pins: Pins, num_groups: int) -> Problem:
    """What is to be placed, with as many slots filled on each GPU as now."""
    load_LN = placement.checked_loads(loads)
    check_same_slots(placement.cluster, cluster)
    split = "even" if placement.is_even else "uneven"
    problem = make_problem(load_LN, cluster, num_groups=num_groups, split=split, pins=pins)
    problem.load_LN[load_LN.sum(axis=1) == 0] = 0.0  # such a layer gives no reason to move anything
    return replace(problem, capacity_LG=slots_to_keep_filled(placement, cluster, problem.capacity_LG))


def _homes(placement: Placement, num_groups: int) -> Ints:
    """[L, N] the node with most replicas of an expert's group, or of the expert where there are no groups; -1: any."""
    if placement.policy == "global" or placement.cluster.num_nodes == 1:
        return np.full((placement.num_layers, placement.num_experts), -1, dtype=np.int64)
    groups = num_groups if num_groups > 1 else placement.num_experts
    return homes(placement.expert_of_slot_LP, placement.cluster, groups)


def _locked(map_LP: Ints, problem: Problem) -> Bools:
    """[L, P] one slot for each pin, which keeps its expert."""
    locked_LP = np.zeros(map_LP.shape, dtype=np.bool_)
    first_slot_G = problem.cluster.first_slot_G
    for layer, expert, gpu in problem.pins_K3:
        on_gpu_S = map_LP[layer, first_slot_G[gpu] : first_slot_G[gpu + 1]]
        locked_LP[layer, first_slot_G[gpu] + int(np.argmax(on_gpu_S == expert))] = True
    return locked_LP


def _placement(old: Placement, problem: Problem, new_LP: Ints) -> Placement:
    if old.is_even:
        share_LP = even_shares(new_LP, old.num_experts)
    else:
        share_LP = best_shares(new_LP, problem.load_LN, problem.cluster.first_slot_G, problem.cluster.speed_G)
    return Placement(
        cluster=problem.cluster,
        num_experts=old.num_experts,
        expert_of_slot_LP=frozen(new_LP),
        share_of_slot_LP=frozen(share_LP),
        is_even=old.is_even,
        policy=_policy(old.policy, new_LP, problem),
        solver_of_layer=("replan",) * problem.num_layers,
    )


def _policy(old: str, new_LP: Ints, problem: Problem) -> str:
    """The old policy if the new map still keeps to it: on what is left of a cluster a group may not fit its node."""
    if old == "global" or problem.num_groups == 1:
        return old
    most = int(foreign_replicas(new_LP, problem.cluster, problem.num_groups).max())
    kept = old == "semi-hierarchical" or most == 0
    return (
        old
        if kept and most <= problem.max_foreign
        else "semi-hierarchical"
        if most <= problem.max_foreign
        else "global"
    )


def _budget(placement: Placement, max_moves: float | None, min_gain: float, num_paths: int) -> int:
    """Slots that may change, all layers together."""
    if not (math.isfinite(min_gain) and min_gain >= 0):
        raise PlacementError(f"min_gain must be a number of at least 0, not {min_gain!r}")
    if not is_whole(num_paths, least=1):
        raise PlacementError(f"num_paths must be a whole number of at least 1, not {num_paths!r}")
    slots = int((placement.expert_of_slot_LP >= 0).sum())
    if max_moves is None:
        return slots
    if not 0 <= max_moves <= 1:
        raise PlacementError(f"max_moves is a part of all slots, 0 to 1, or None; not {max_moves!r}")
    return int(max_moves * slots)
