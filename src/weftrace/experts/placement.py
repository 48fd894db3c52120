"""The value in the middle: which expert stands in which slot, how much of its tokens each copy takes, and why so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats, Ints, frozen
from weftrace.experts.certificate import Certificate
from weftrace.experts.cluster import Cluster
from weftrace.experts.loads import as_loads
from weftrace.experts.slots import copies_of, even_shares, load_of_gpus, slots_of
from weftrace.files.schemas import Amount, Fraction
from weftrace.notebook import InNotebook
from weftrace.units import US, duration

Policy = Literal["global", "hierarchical", "semi-hierarchical"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Placement(InNotebook):
    """Where every expert of every layer lives.

    expert_of_slot_LP: int64 [L, P], the expert in each physical slot; -1 where a slot is empty.
    share_of_slot_LP: float64 [L, P], the part of its expert's tokens that a slot takes: 0 to 1, 1 in sum over an
        expert's copies, 0 in an empty slot.
    is_even: every copy takes 1 / copies, as engines that know no weights do.
    policy: "global" (any expert on any node), "hierarchical" (a group's experts stay on one node), "semi-hierarchical"
        (the same, but for a few foreign replicas a node).
    solver_of_layer: what found each layer's placement.
    certificate: how good it is for the loads it was made for; choice: why this policy. None where not asked for.
    """

    cluster: Cluster
    num_experts: int
    expert_of_slot_LP: Ints
    share_of_slot_LP: Floats
    is_even: bool
    policy: str = "global"
    solver_of_layer: tuple[str, ...] = ()
    certificate: Certificate | None = None
    choice: Choice | None = None

    @property
    def num_layers(self) -> int:
        return len(self.expert_of_slot_LP)

    @property
    def num_slots(self) -> int:
        return int(self.expert_of_slot_LP.shape[1])

    @property
    def phy2log(self) -> Ints:
        """int64 [L, P]: expert of each slot, under the name that DeepSeek, vLLM and SGLang use."""
        return self.expert_of_slot_LP

    @property
    def logcnt(self) -> Ints:
        """int64 [L, N]: copies of each expert."""
        return copies_of(self.expert_of_slot_LP, self.num_experts)

    @property
    def log2phy(self) -> Ints:
        """int64 [L, N, X]: slots of each expert in ascending order, -1 after the last; X is the largest copy count."""
        return slots_of(self.expert_of_slot_LP, self.num_experts)

    def gpu_load(self, loads: object) -> Floats:
        """[L, G] load of each GPU under `loads` [L, N] and this placement's shares; not divided by speed.

        Raises `LoadsError` where the loads are bad, `PlacementError` where they are of another shape.
        """
        return self._gpu_load(self.checked_loads(loads))

    def balancedness(self, loads: object) -> Floats:
        """[L] mean over maximum of GPU time, where a GPU's time is its load over its speed and the mean is what
        perfect balance would give every GPU in service: sum of loads / sum of speeds. 1 is perfect; so is a layer of
        zeros.
        """
        load_LN = self.checked_loads(loads)
        return self.cluster.balancedness(load_LN, self._gpu_load(load_LN))

    def _gpu_load(self, load_LN: Floats) -> Floats:
        return load_of_gpus(self.expert_of_slot_LP, self.share_of_slot_LP, load_LN, self.cluster.first_slot_G)

    def checked_loads(self, loads: object) -> Floats:
        """`as_loads`, of this placement's layers and experts; raises as `gpu_load` does."""
        load_LN = as_loads(loads)
        if load_LN.shape != (self.num_layers, self.num_experts):
            raise PlacementError(
                f"the placement is of {self.num_layers} layers and {self.num_experts} experts, "
                f"and the loads of {load_LN.shape[0]} and {load_LN.shape[1]}"
            )
        return load_LN

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "experts", f"{self.num_experts:,} in each of {self.num_layers:,} layers"
        yield from self.cluster._describe()
        yield "policy", f"{self.policy}; copies of an expert take {'equal' if self.is_even else 'unequal'} parts"
        for solver, number in Counter(self.solver_of_layer).most_common():
            yield f"found by {solver}", f"{number:,} layers"
        if self.certificate is not None:
            yield from self.certificate._describe()
        if self.choice is not None:
            yield "why this policy", self.choice.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCost(InNotebook):
    """What one policy would cost, by a model of the links and the experts' GEMMs: an estimate, never a measurement.

    balancedness: mean over layers of mean / maximum GPU time.
    compute_us, dispatch_us, combine_us: of an average layer and micro-batch; nothing hides anything.
    remote_nodes: distinct nodes other than its own that a token visits, on average.
    total_us: the sum of the three times, by which policies are compared.
    """

    policy: str
    balancedness: Fraction
    compute_us: Amount
    dispatch_us: Amount
    combine_us: Amount
    remote_nodes: Amount
    total_us: Amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(InNotebook):
    """The policies that were possible, cheapest first, and a sentence that says why the first was taken.

    assumptions: what the model took for granted (model shape, hardware, tokens), one "name: value" each.
    """

    costs: tuple[PolicyCost, ...]
    reason: str
    assumptions: tuple[str, ...] = ()
    ruled_out: Annotated[
        tuple[tuple[str, str], ...], Meta(description="[policy, why] of each policy that was not possible.")
    ] = ()

    def _describe(self) -> Iterable[tuple[str, str]]:
        for cost in self.costs:
            yield cost.policy, f"{duration(cost.total_us * US, 4)} a layer, balancedness {cost.balancedness:.4f}"
        yield "why", self.reason
        yield from self.ruled_out


def make_placement(
    expert_of_slot: object,
    cluster: Cluster,
    num_experts: int,
    *,
    shares: object = None,
    policy: str = "global",
    solver_of_layer: tuple[str, ...] = (),
) -> Placement:
    """A checked `Placement` of a map that comes from elsewhere (an engine, a file).

    expert_of_slot: [L, P] (or [P], one layer), -1 for an empty slot. shares: [L, P], or None for an even split.
    An expert may stand on dead or draining GPUs alone: that is `replan`'s to mend.
    Raises `PlacementError` where a table is none, where the map has another number of slots than the cluster, names an
    expert that does not exist or leaves one of some layer without a slot, or where shares are negative or do not sum to
    1.
    """
    try:
        expert_of_slot_LP = np.array(expert_of_slot)
        given_LP = None if shares is None else np.atleast_2d(np.array(shares, dtype=np.float64))
    except (ValueError, TypeError) as error:
        raise PlacementError(f"a placement and its shares are tables [layers, slots] of numbers: {error}") from error
    if expert_of_slot_LP.dtype.kind not in "iu":
        raise PlacementError(f"a placement is a table of whole numbers, not of {expert_of_slot_LP.dtype}")
    expert_of_slot_LP = np.atleast_2d(expert_of_slot_LP).astype(np.int64)
    if expert_of_slot_LP.ndim != 2 or expert_of_slot_LP.shape[1] != cluster.num_slots:
        raise PlacementError(
            f"a placement is [layers, slots] with {cluster.num_slots} slots; "
            f"this one is {list(expert_of_slot_LP.shape)}"
        )
    wrong_LP = (expert_of_slot_LP < -1) | (expert_of_slot_LP >= num_experts)
    if wrong_LP.any():
        layer, slot = (int(i) for i in np.argwhere(wrong_LP)[0])
        expert = expert_of_slot_LP[layer, slot]
        raise PlacementError(f"layer {layer}, slot {slot}: expert {expert} does not exist; there are {num_experts}")
    copies_LN = copies_of(expert_of_slot_LP, num_experts)
    if (copies_LN == 0).any():
        layer, expert = (int(i) for i in np.argwhere(copies_LN == 0)[0])
        raise PlacementError(f"layer {layer}: expert {expert} is in no slot")
    even_LP = even_shares(expert_of_slot_LP, num_experts)
    share_LP = even_LP if given_LP is None else given_LP
    if given_LP is not None:
        _check_shares(share_LP, expert_of_slot_LP, num_experts)
    return Placement(
        cluster=cluster,
        num_experts=num_experts,
        expert_of_slot_LP=frozen(expert_of_slot_LP),
        share_of_slot_LP=frozen(share_LP),
        is_even=given_LP is None or bool(np.array_equal(share_LP, even_LP)),
        policy=policy,
        solver_of_layer=solver_of_layer,
    )


def _check_shares(share_LP: Floats, expert_of_slot_LP: Ints, num_experts: int) -> None:
    if share_LP.shape != expert_of_slot_LP.shape:
        raise PlacementError(f"shares are {list(share_LP.shape)}, and the placement {list(expert_of_slot_LP.shape)}")
    bad_LP = ~np.isfinite(share_LP) | (share_LP < 0) | ((expert_of_slot_LP < 0) & (share_LP != 0))
    if bad_LP.any():
        layer, slot = (int(i) for i in np.argwhere(bad_LP)[0])
        raise PlacementError(f"layer {layer}, slot {slot}: a share of {share_LP[layer, slot]} cannot be taken")
    for layer, (experts_P, share_P) in enumerate(zip(expert_of_slot_LP, share_LP, strict=True)):
        used_P = experts_P >= 0
        sum_N = np.bincount(experts_P[used_P], weights=share_P[used_P], minlength=num_experts)
        if np.abs(sum_N - 1).max() > 1e-6:
            expert = int(np.abs(sum_N - 1).argmax())
            raise PlacementError(f"layer {layer}: the shares of expert {expert} sum to {sum_N[expert]}, not to 1")
