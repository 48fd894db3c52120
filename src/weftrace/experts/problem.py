"""What a solver is asked, and what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weftrace.experts.arrays import Bools, Floats, Ints
from weftrace.experts.cluster import Cluster
from weftrace.experts.slots import even_shares, load_of_gpus


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """Loads to place on a cluster, checked: P >= N in every layer, pins possible, budgets respected.

    load_LN: as `as_loads` gives them. A layer of zeros arrives as a layer of ones.
    capacity_LG: slots that may be filled on each GPU in each layer, at most N; less than the cluster's where GPUs are
        out of service or a layer has a budget. The leading slots of a GPU are the ones filled.
    num_groups: experts n * num_groups // N form group g; 1 where routing knows no groups.
    pins_K3: rows (layer, expert, gpu): the expert must have a copy on that GPU. Sorted.
    is_even: copies of an expert take equal parts; else a solver chooses the parts.
    max_foreign: replicas a node that may be of groups at home elsewhere (semi-hierarchical).
    patience_s: about how long a single search may take; one whose time grows fast with the shape is cut off there or
        left out. No clock is read: the seconds are turned into steps by the shape.
    """

    load_LN: Floats
    cluster: Cluster
    capacity_LG: Ints
    num_groups: int
    pins_K3: Ints
    is_even: bool
    max_foreign: int = 4
    patience_s: float = math.inf

    def steps(self, step_s: float, most: int) -> int:
        """How many steps of about `step_s` seconds a search may take in each layer: 1 to `most`."""
        return max(1, int(min(most, self.patience_s / (step_s * self.num_layers))))

    @property
    def num_layers(self) -> int:
        return int(self.load_LN.shape[0])

    @property
    def num_experts(self) -> int:
        return int(self.load_LN.shape[1])

    @property
    def mean_L(self) -> Floats:
        """[L] what perfect balance gives every GPU in service: sum of loads / sum of speeds."""
        return self.cluster.mean_time(self.load_LN)

    def worst_time(self, solution: Solution) -> Floats:
        """[L] maximum over the GPUs of load / speed."""
        first_slot_G = self.cluster.first_slot_G
        load_LG = load_of_gpus(solution.expert_of_slot_LP, solution.share_LP, self.load_LN, first_slot_G)
        return self.cluster.worst_time(load_LG)

    @property
    def pinned_LN(self) -> Ints:
        """[L, N] copies of each expert that pins ask for."""
        pinned_LN = np.zeros(self.load_LN.shape, dtype=np.int64)
        np.add.at(pinned_LN, (self.pins_K3[:, 0], self.pins_K3[:, 1]), 1)
        return pinned_LN

    @property
    def replicas_L(self) -> Ints:
        """[L] slots to fill."""
        replicas_L: Ints = self.capacity_LG.sum(axis=1)
        return replicas_L

    def evenly(self, expert_of_slot_LP: Ints) -> Solution:
        """A map whose copies take equal parts."""
        share_LP = even_shares(expert_of_slot_LP, self.num_experts)
        return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP)

    @property
    def is_plain(self) -> bool:
        """Equal GPUs, no pins, no budgets: what the published balancers can solve."""
        return (
            self.cluster.is_uniform and not len(self.pins_K3) and bool((self.capacity_LG == self.cluster.slots_G).all())
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """A solver's answer for all layers: int64 [L, P] experts (-1 empty) and float64 [L, P] shares."""

    expert_of_slot_LP: Ints
    share_LP: Floats

    def or_other(self, takes_L: Bools, other: Solution) -> Solution:
        """Layer by layer this, or the other where it is to be taken."""
        return Solution(
            expert_of_slot_LP=np.where(takes_L[:, None], other.expert_of_slot_LP, self.expert_of_slot_LP),
            share_LP=np.where(takes_L[:, None], other.share_LP, self.share_LP),
        )

    def of_layers(self, layers_K: Ints) -> Solution:
        """Of some layers alone."""
        return Solution(expert_of_slot_LP=self.expert_of_slot_LP[layers_K], share_LP=self.share_LP[layers_K])

    def with_layers(self, layers_K: Ints, rows: Solution) -> Solution:
        """With some layers as `rows`, which has those alone."""
        expert_of_slot_LP, share_LP = self.expert_of_slot_LP.copy(), self.share_LP.copy()
        expert_of_slot_LP[layers_K], share_LP[layers_K] = rows.expert_of_slot_LP, rows.share_LP
        return Solution(expert_of_slot_LP=expert_of_slot_LP, share_LP=share_LP)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """A solver's refusal, and why: "needs P >= N + G - 1 = 287, and P is 256"."""

    reason: str


Solver = Callable[[Problem], Solution | NotApplicable]
