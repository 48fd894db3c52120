"""Simulated routing: the rules of top-k in the best groups, and loads as asked."""

from __future__ import annotations

import numpy as np
import pytest

from weftrace.errors import PlacementError
from weftrace.experts.recorded.generator import synthetic_loads
from weftrace.gate import simulate_routing


def test_tokens_choose_distinct_experts_in_few_groups() -> None:
    routing = simulate_routing(
        synthetic_loads("logn1", 2, 64), num_groups=8, top_groups=3, top_k=6, num_tokens=200, seed=1
    )
    assert routing.expert_LTK.shape == (2, 200, 6)
    for token_K in routing.expert_LTK.reshape(-1, 6):
        assert len(set(token_K.tolist())) == 6
        assert len(set((token_K // 8).tolist())) <= 3


def test_without_groups_any_expert_goes_with_any() -> None:
    routing = simulate_routing(np.ones((1, 16)), num_groups=1, top_groups=1, top_k=16, num_tokens=3)
    assert (np.sort(routing.expert_LTK, axis=2) == np.arange(16)).all()


@pytest.mark.parametrize("kind", ["logn0.5", "logn1", "real"])
def test_loads_come_out_as_asked(kind: str) -> None:
    load_LN = synthetic_loads(kind, 58, 256)[::19]
    routing = simulate_routing(load_LN, num_groups=8, top_groups=4, top_k=8, num_tokens=1024)
    assert routing.error_L.max() < 0.03
    for layer, load_N in enumerate(load_LN):
        share_N = np.bincount(routing.expert_LTK[layer].ravel(), minlength=256) / (1024 * 8)
        error = np.abs(share_N - load_N / load_N.sum()).sum() / 2
        assert error == pytest.approx(routing.error_L[layer])


def test_what_no_routing_can_do_is_an_error_that_is_told() -> None:
    # one of four experts gets all, and each token takes two: half of the choices must go elsewhere
    routing = simulate_routing(np.array([[1.0, 0, 0, 0]]), num_groups=1, top_groups=1, top_k=2, num_tokens=500)
    assert routing.error_L[0] == pytest.approx(0.5)


def test_the_seed_decides() -> None:
    def choices(seed: int) -> list[int]:
        load_LN = synthetic_loads("real", 1, 32)
        routing = simulate_routing(load_LN, num_groups=4, top_groups=2, top_k=4, num_tokens=50, seed=seed)
        return [int(expert) for expert in routing.expert_LTK.ravel()]

    assert choices(3) == choices(3) != choices(4)


def test_too_few_experts_in_the_groups() -> None:
    with pytest.raises(PlacementError, match="cannot choose 8 experts in 2 of 8 groups of 2"):
        simulate_routing(np.ones((1, 16)), num_groups=8, top_groups=2, top_k=8, num_tokens=10)
