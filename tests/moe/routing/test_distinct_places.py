"""Distinct places of a token: by pencil, as published, and against tokens that are routed one by one."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest

from tests.fuzz import few
from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig, ModelConfig, load_models
from weftrace.gate import simulate_routing
from weftrace.moe.routing.distinct_places import distinct_places, ranks_of_experts


def gate(num_experts: int, top_k: int, num_groups: int = 1, top_groups: int = 1) -> ExpertsConfig:
    return ExpertsConfig(
        num_experts=num_experts, top_k=top_k, intermediate_size=1, num_groups=num_groups, top_groups=top_groups
    )


DEEPSEEK = gate(256, 8, 8, 4)


def test_two_of_four_experts_on_two_nodes() -> None:
    # {0 1} {0 2} {0 3} {1 2} {1 3} {2 3}, experts 0 and 1 on one node: 4 of 6 pairs go to both, 2 to one
    found = distinct_places(gate(4, 2), np.array([0, 0, 1, 1]))
    assert found.mean == pytest.approx(10 / 6) and found.error == 0


def test_one_group_at_a_time() -> None:
    # groups {0 1 2} {3 4 5} on places a a b, b b b; two experts: of the first group {0 1} a, {0 2} ab, {1 2} ab; else b
    found = distinct_places(gate(6, 2, num_groups=2, top_groups=1), np.array([0, 0, 1, 1, 1, 1]))
    assert found.mean == pytest.approx((5 / 3 + 1) / 2) and found.error == 0


def test_without_groups_it_is_one_minus_the_misses() -> None:
    expected = 8 * (1 - comb(128 - 16, 8) / comb(128, 8))
    assert distinct_places(gate(128, 8), ranks_of_experts(128, 8)).mean == pytest.approx(expected)


def test_the_published_means_of_deepseek_v3() -> None:
    at_64 = distinct_places(DEEPSEEK, ranks_of_experts(256, 64) // 8)
    at_32 = distinct_places(DEEPSEEK, ranks_of_experts(256, 32) // 8)
    assert (round(at_64.mean, 2), round(at_32.mean, 2)) == (3.97, 3.12)
    assert 0 < at_64.error < 0.001 and 0 < at_32.error < 0.001
    # each of 4 groups is used nearly always, so 4 nodes, and 4 (1 - C(6, 4) / C(8, 4)) = 3.14, are bounds from above
    assert at_64.mean < 4 and at_32.mean < 4 * (1 - 15 / 70)


def test_a_rack_of_72_gpus_holds_a_group_of_64() -> None:
    assert distinct_places(DEEPSEEK, ranks_of_experts(256, 64) // 72).mean == pytest.approx(1)
    of_128 = distinct_places(DEEPSEEK, ranks_of_experts(256, 128) // 72)  # 72 and 56 GPUs: 4.5 and 3.5 groups
    assert 1.9 < of_128.mean < 2


@pytest.mark.parametrize("experts", few([DEEPSEEK, gate(64, 6, 8, 3), gate(160, 6, 8, 3), gate(48, 4)], 2))
@pytest.mark.parametrize("num_places", [2, 4, 16])
def test_it_is_the_mean_of_tokens_that_are_routed_one_by_one(experts: ExpertsConfig, num_places: int) -> None:
    place_E = ranks_of_experts(experts.num_experts, num_places)
    routing = simulate_routing(
        np.ones((1, experts.num_experts)),
        num_groups=experts.num_groups,
        top_groups=experts.top_groups,
        top_k=experts.top_k,
        num_tokens=4_000,
        seed=5,
        rounds=1,
    )
    places_T = np.array([len(set(token_K)) for token_K in place_E[routing.expert_LTK[0]].tolist()])
    found = distinct_places(experts, place_E)
    assert abs(found.mean - places_T.mean()) < 4 * (places_T.std() / np.sqrt(4_000) + found.error) + 1e-9


@pytest.mark.parametrize("model", [model for model in load_models() if model.experts], ids=lambda model: model.name)
def test_every_known_gate_has_a_mean(model: ModelConfig) -> None:
    experts = model.experts
    assert experts is not None
    means = [distinct_places(experts, ranks_of_experts(experts.num_experts, n)) for n in (1, 2, 4, experts.num_experts)]
    assert means[0].mean == pytest.approx(1) and means[-1].mean == pytest.approx(experts.top_k)
    assert all(before.mean <= after.mean for before, after in pairwise(means))
    assert all(each.error < 0.002 for each in means)
    without_groups = experts.num_groups == experts.top_groups
    assert not without_groups or not any(each.error for each in means)


@pytest.mark.parametrize(
    ("experts", "summary"), [(gate(10, 2, 4, 2), "2.5"), (gate(16, 8, 8, 2), "8 experts in 2 of 8")]
)
def test_a_gate_that_cannot_be_is_refused_with_its_numbers(experts: ExpertsConfig, summary: str) -> None:
    with pytest.raises(ProfileError, match=summary):
        distinct_places(experts, ranks_of_experts(experts.num_experts, 2))
