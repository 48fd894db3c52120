"""What holds for every placement, whatever is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.errors import PlacementError
from weftrace.experts.arrays import Floats
from weftrace.experts.placement import Placement, make_placement
from weftrace.experts.slots import num_repeats
from weftrace.experts.solvers.balance import balance
from weftrace.experts.solvers.deepseek import rebalance_experts
from weftrace.experts.solvers.semi_hierarchical import foreign_replicas

SETTINGS = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass(frozen=True)
class Asked:
    """Arguments of `balance`."""

    load_LN: Floats
    num_slots: int
    num_gpus: int
    num_nodes: int
    num_groups: int
    options: dict[str, Any] = field(default_factory=dict)

    def placement(self) -> Placement:
        numbers = (self.num_slots, self.num_gpus, self.num_nodes, self.num_groups)
        return balance(self.load_LN, *numbers, time_budget_s=0.01, **self.options)


def loads(draw: st.DrawFn, num_layers: int, num_experts: int) -> Floats:
    kind = draw(st.sampled_from(["lognormal", "ties", "zeros", "one hot", "skewed"]), label="kind")
    random = np.random.default_rng(draw(st.integers(0, 10**6), label="seed"))
    load_LN = random.lognormal(0, 2.5 if kind == "skewed" else 0.7, (num_layers, num_experts))
    if kind == "ties":
        load_LN = random.integers(0, 4, (num_layers, num_experts)).astype(np.float64)
    elif kind == "zeros":
        load_LN[random.random(load_LN.shape) < 0.6] = 0
    elif kind == "one hot":
        load_LN = np.zeros((num_layers, num_experts))
        load_LN[:, 0] = 1
    return load_LN


@st.composite
def plain(draw: st.DrawFn) -> Asked:
    """Equal GPUs, any policy."""
    num_nodes = draw(st.sampled_from([1, 1, 2, 3, 4]), label="nodes")
    num_gpus = num_nodes * draw(st.integers(1, 4), label="GPUs a node")
    num_groups = num_nodes * draw(st.integers(1, 2), label="groups a node")
    num_experts = num_groups * draw(st.integers(1, 6), label="experts a group")
    fewest = -(-num_experts // num_gpus)
    slots = draw(st.integers(fewest, fewest + 3), label="slots a GPU")
    policies = ["auto", "global", "hierarchical", "semi-hierarchical"]
    options = {"policy": draw(st.sampled_from(policies)), "split": draw(st.sampled_from(["even", "even", "uneven"]))}
    load_LN = loads(draw, draw(st.integers(1, 3), label="layers"), num_experts)
    return Asked(load_LN, slots * num_gpus, num_gpus, num_nodes, num_groups, options)


@st.composite
def constrained(draw: st.DrawFn) -> Asked:
    """Lost GPUs, speeds, pins, budgets."""
    asked = draw(plain())
    options, num_gpus = dict(asked.options), asked.num_gpus
    if draw(st.booleans(), label="lost"):
        options["dead"] = draw(st.lists(st.integers(0, num_gpus - 1), max_size=2), label="dead")
        options["draining"] = draw(st.lists(st.integers(0, num_gpus - 1), max_size=1), label="draining")
    if draw(st.booleans(), label="speeds"):
        speeds = st.lists(st.sampled_from([1.0, 0.5, 0.9, 2.0]), min_size=num_gpus, max_size=num_gpus)
        options["speed_of_gpu"] = draw(speeds, label="speeds")
    if draw(st.booleans(), label="pins"):
        pin = st.tuples(st.integers(0, asked.load_LN.shape[1] - 1), st.integers(0, num_gpus - 1))
        options["pins"] = draw(st.lists(pin, max_size=4), label="pins")
    if draw(st.booleans(), label="budget"):
        budget = st.integers(asked.load_LN.shape[1], asked.num_slots)
        num_layers = len(asked.load_LN)
        options["slots_of_layer"] = draw(st.lists(budget, min_size=num_layers, max_size=num_layers), label="budget")
    return Asked(asked.load_LN, asked.num_slots, num_gpus, asked.num_nodes, asked.num_groups, options)


def check(asked: Asked, placement: Placement) -> None:
    cluster = placement.cluster
    num_layers, num_experts = asked.load_LN.shape
    slots_LN, phy2log = placement.log2phy, placement.phy2log
    by_gpu = np.split(phy2log, cluster.first_slot_G[1:-1], axis=1)

    # every expert placed; the two maps agree; counts sum to the slots in use
    assert phy2log.shape == (num_layers, asked.num_slots)
    assert placement.logcnt.min() >= 1
    assert (placement.logcnt.sum(axis=1) == (phy2log >= 0).sum(axis=1)).all()
    for layer in range(num_layers):
        for expert in range(num_experts):
            slots = slots_LN[layer, expert][slots_LN[layer, expert] >= 0]
            assert slots.tolist() == np.flatnonzero(phy2log[layer] == expert).tolist()

    # nothing on lost GPUs; every slot in use is among the first of its GPU, and all that may be are used
    budget_L = np.array(asked.options.get("slots_of_layer", [asked.num_slots] * num_layers))
    room_G = np.where(cluster.usable_G, cluster.slots_G, 0)
    most_G = room_G if cluster.is_uniform and "slots_of_layer" not in asked.options else np.minimum(room_G, num_experts)
    filled_LG = np.array([(experts >= 0).sum(axis=1) for experts in by_gpu]).T
    assert (filled_LG <= most_G).all()
    assert (filled_LG.sum(axis=1) == np.minimum(budget_L, most_G.sum())).all()
    for experts in by_gpu:
        assert (np.diff((experts >= 0).astype(int), axis=1) <= 0).all()

    # loads conserved by the shares
    share_LP = placement.share_of_slot_LP
    assert (share_LP >= 0).all()
    assert (share_LP[phy2log < 0] == 0).all()
    load_LG = placement.gpu_load(asked.load_LN)
    assert load_LG.sum(axis=1) == pytest.approx(asked.load_LN.sum(axis=1), rel=1e-9, abs=1e-12)
    if asked.options.get("split") == "even":
        assert placement.is_even

    # no expert twice on a GPU where that can be had
    experts_a_gpu = num_experts // (cluster.num_nodes if placement.policy != "global" else 1)
    crowded = placement.policy == "semi-hierarchical" and asked.options.get("pins")  # pins of other groups fill a GPU
    if filled_LG.max() <= experts_a_gpu and not crowded:
        assert not num_repeats(phy2log, cluster.first_slot_G).any()

    # pins kept; groups whole on their node
    for expert, gpu in asked.options.get("pins", ()):
        assert (by_gpu[gpu] == expert).any(axis=1).all()
    if placement.policy == "hierarchical":
        group_LP = np.where(phy2log >= 0, phy2log * asked.num_groups // num_experts, -1)
        node_P = cluster.node_of_gpu_G[cluster.gpu_of_slot_P]
        for layer in range(num_layers):
            for group in range(asked.num_groups):
                assert len(set(node_P[group_LP[layer] == group])) == 1
    if placement.policy == "semi-hierarchical":
        assert foreign_replicas(phy2log, cluster, asked.num_groups).max() <= 4

    # the certificate is about this placement, and no bound is above it
    certificate = placement.certificate
    assert certificate is not None
    time_L = (load_LG / cluster.speed_G).max(axis=1)
    assert certificate.achieved_L == pytest.approx(time_L, rel=1e-9, abs=1e-12)
    assert (certificate.bound_L <= certificate.achieved_L).all()
    assert (certificate.mean_L <= certificate.bound_L * (1 + 1e-9)).all()
    assert certificate.balancedness == pytest.approx(placement.balancedness(asked.load_LN).mean(), rel=1e-9)


@SETTINGS
@given(plain())
def test_equal_gpus(asked: Asked) -> None:
    placement = asked.placement()
    check(asked, placement)
    if asked.options["split"] == "uneven" and placement.policy == "global":
        num_experts = asked.load_LN.shape[1]
        if num_experts + asked.num_gpus - 1 <= asked.num_slots <= num_experts * asked.num_gpus:
            assert placement.balancedness(asked.load_LN).min() > 1 - 1e-9


@SETTINGS
@given(constrained())
def test_constraints(asked: Asked) -> None:
    try:
        placement = asked.placement()
    except PlacementError as error:
        assert "\n" not in str(error)
        return
    check(asked, placement)


@SETTINGS
@given(plain(), st.sampled_from(["torch", "stable"]))
def test_no_worse_than_the_drop_in(asked: Asked, order: str) -> None:
    """Of the same policy, in layers where the drop-in has no expert twice on a GPU and does not balance zeros."""
    policy = "global" if asked.options["policy"] in ("auto", "semi-hierarchical") else asked.options["policy"]
    groups, nodes = (1, 1) if policy == "global" else (asked.num_groups, asked.num_nodes)
    published = rebalance_experts(asked.load_LN, asked.num_slots, groups, nodes, asked.num_gpus, order=order)[0]
    options = {**asked.options, "policy": policy}
    placement = Asked(
        asked.load_LN, asked.num_slots, asked.num_gpus, asked.num_nodes, asked.num_groups, options
    ).placement()
    theirs = make_placement(published, placement.cluster, placement.num_experts)
    comparable_L = num_repeats(theirs.phy2log, placement.cluster.first_slot_G) == 0
    worse_L = placement.balancedness(asked.load_LN) < theirs.balancedness(asked.load_LN) * (1 - 1e-9)
    assert not (worse_L & comparable_L).any()
