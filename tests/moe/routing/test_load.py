"""What ranks have to do: balanced, drawn, and from given loads of GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weftrace.errors import ProfileError
from weftrace.facts import ExpertsConfig, model_config
from weftrace.gate import simulate_routing
from weftrace.moe.document import load_profile, profile_document
from weftrace.moe.render.view import profile_view
from weftrace.moe.render.words import shape
from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request, Routing
from weftrace.moe.routing.distinct_places import ranks_of_experts
from weftrace.moe.routing.load import Load, balanced, from_loads
from weftrace.moe.routing.random_draw import drawn
from weftrace.moe.setting import Setting

SMALL = replace(
    model_config("deepseek-v3"),
    experts=ExpertsConfig(num_experts=32, top_k=4, intermediate_size=64, num_groups=4, top_groups=2),
)


def small(num_layers: int = 3) -> Setting:
    """8 ranks on 2 nodes, 4 experts each, 256 tokens each."""
    return Setting.of("train", model=SMALL, ep=8, domain=4, tokens=256, num_layers=num_layers)


def test_balanced_load_is_the_mean() -> None:
    load = balanced(Setting.of("prefill"))
    assert load.rows_LR.item() == 8_192 * 8
    assert load.nodes_LR.item() / 8_192 == pytest.approx(3.12, abs=0.005)
    assert load.gpus_LR.item() / 8_192 == pytest.approx(6.85, abs=0.005)
    assert load.basis == "balanced routing, 3.123 ± 0.0004 (drawn) distinct nodes a token"


def exact(setting: Setting, seed: int) -> dict[str, np.ndarray]:
    """The same counts from tokens that are routed and counted one by one."""
    ranks, tokens, experts = setting.ep, setting.tokens, setting.experts
    routing = simulate_routing(
        np.ones((1, experts.num_experts)), num_groups=experts.num_groups, top_groups=experts.top_groups,
        top_k=experts.top_k, num_tokens=ranks * tokens, seed=seed, rounds=1,
    )  # fmt: skip
    rank_TK = ranks_of_experts(experts.num_experts, ranks)[routing.expert_LTK[0]]
    gpu_TR = (rank_TK[:, :, None] == np.arange(ranks)).any(axis=1)
    node_TD = gpu_TR.reshape(len(rank_TK), setting.num_domains, -1).any(axis=2)
    by_sender = node_TD.reshape(ranks, tokens, -1).sum(axis=1).reshape(setting.num_domains, setting.domain, -1)
    return {
        "rows_LR": np.bincount(rank_TK.ravel(), minlength=ranks),
        "received_gpus_LR": gpu_TR.sum(axis=0),
        "sent_gpus_LR": gpu_TR.sum(axis=1).reshape(ranks, tokens).sum(axis=1),
        "sent_nodes_LR": node_TD.sum(axis=1).reshape(ranks, tokens).sum(axis=1),
        "received_nodes_LR": by_sender.sum(
            axis=0
        ).T.ravel(),  # rank d * domain + i: from rank i of each node, to node d
    }


def test_a_draw_is_spread_as_tokens_routed_one_by_one_are() -> None:
    setting = small(num_layers=400)
    load = drawn(setting, seed=3)
    one_by_one = [exact(setting, seed) for seed in range(80)]
    for name in one_by_one[0]:
        wanted, got = np.stack([each[name] for each in one_by_one]), getattr(load, name)
        assert got.shape == (400, 8), name
        assert got.mean() == pytest.approx(wanted.mean(), rel=0.005), name
        assert got.std(axis=0).mean() == pytest.approx(wanted.std(axis=0).mean(), rel=0.10), name
        # the busiest rank of 8, by which the others wait
        assert got.max(axis=1).mean() == pytest.approx(wanted.max(axis=1).mean(), rel=0.005), name


def test_rows_of_a_layer_add_up_to_all_choices() -> None:
    for spread in (0.0, 0.5):
        load = drawn(small(), spread=spread, num_micro_batches=2)
        for micro_batch in (0, 1):
            assert load.of(micro_batch).rows_LR.sum(axis=1) == pytest.approx(8 * 256 * 4)


def test_popular_experts_make_busy_ranks_in_every_micro_batch() -> None:
    load = drawn(small(), spread=0.5, num_micro_batches=2)
    assert load.imbalance > 1.1 > drawn(small()).imbalance
    apart = np.abs(load.rows_LR - load.of(1).rows_LR).max() / 1024
    assert apart < 0.15 < load.imbalance - 1 + 0.1  # chance is smaller than popularity
    assert not np.array_equal(load.rows_LR, load.of(1).rows_LR)


def test_the_seed_decides_a_draw() -> None:
    first, second, third = (drawn(small(), seed=seed).rows_LR for seed in (1, 1, 2))
    assert np.array_equal(first, second) and not np.array_equal(first, third)


def test_the_first_ranks_of_a_draw_are_those_of_the_whole() -> None:
    load = drawn(small(), num_micro_batches=2)
    assert np.array_equal(load.first(2).rows_LR, load.rows_LR[:, :2])
    assert load.first(2).of(1).sent_nodes_LR.shape == (3, 2)
    assert balanced(small()).first(2).rows_LR.shape == (1, 1)


def test_given_loads_of_gpus_are_scaled_to_all_rows() -> None:
    setting = small(num_layers=1)
    load = from_loads(setting, np.array([[3.0, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]]))
    even = balanced(setting)
    assert load.rows_LR[0].tolist() == [3 * 1024.0] + [1024.0] * 3 + [512.0] * 4
    # the first node's mean is 1.5, but no more than every token of its peers, 2 x 256, can come
    assert load.received_nodes_LR[0].tolist() == pytest.approx([512.0] * 4 + [0.5 * even.nodes_LR.item()] * 4)
    assert (load.received_gpus_LR <= 8 * 256).all()
    assert "assumed" in load.basis


@pytest.mark.parametrize(
    ("loads", "summary"),
    [
        (np.ones((2, 8)), r"\[2, 8\] are not those of 1 layers on 8 GPUs"),
        (np.ones((1, 4)), r"\[1, 4\]"),
        (np.zeros((1, 8)), "not all 0"),
        (np.full((1, 8), np.nan), "finite"),
    ],
)
def test_loads_that_do_not_fit_are_refused_with_both_numbers(loads: np.ndarray, summary: str) -> None:
    with pytest.raises(ProfileError, match=summary):
        from_loads(small(num_layers=1), loads)


def test_a_spread_without_sense_is_refused() -> None:
    with pytest.raises(ProfileError, match="-1"):
        drawn(small(), spread=-1)


def test_a_load_says_in_a_notebook_what_it_is() -> None:
    load: Load = drawn(small(), seed=7)
    assert "random routing, seed 7" in repr(load)


def test_copies_of_popular_experts_even_out_the_ranks() -> None:
    def imbalance(**more: int) -> float:
        return drawn(Setting.of("prefill", num_layers=20, **more), spread=0.5).imbalance  # type: ignore[arg-type]

    assert 1.02 < imbalance(num_redundant=32) < imbalance() - 0.15
    # 256 experts and 32 copies on 144 GPUs; and 8 experts, four times each, on 32
    load = drawn(Setting.of("decode", ep=144, num_redundant=32, num_layers=2), spread=0.5)
    assert load.rows_LR.sum(axis=1) == pytest.approx(144 * 128 * 8)
    many = drawn(Setting.of("prefill", model="mixtral-8x7b", ep=32, num_redundant=24, num_layers=2), spread=0.5)
    assert many.rows_LR.sum(axis=1) == pytest.approx(32 * 8_192 * 2)
    assert (many.rows_LR.min(axis=1) > 0).all()


def test_requests_say_how_popular_experts_are_and_what_bandwidth_is_reached() -> None:
    asked = Request(kind="prefill", layers=2, ep=8, ranks=8, routing="random", spread=0.4)
    even = profile_of(replace(asked, spread=0.0))
    assert profile_of(asked).span_ns > 1.02 * even.span_ns  # all wait for the busiest
    assert profile_of(asked).summary()["routing"] == "random routing, seed 0, popularity of experts spread by 0.4"
    assert "routing" not in profile_of(Request(kind="prefill")).summary()  # balanced, as published
    slow = profile_of(Request(kind="prefill", overlap="none", bandwidth_reached=0.55))
    fast = profile_of(Request(kind="prefill", overlap="none"))
    assert slow.span_ns > 1.2 * fast.span_ns
    assert slow.setting.summary()["comm"] == "deepep-v1, 0.55 of the published bandwidth"
    with pytest.raises(ProfileError, match=r"spread of popularity of 0\.4 is for routing = 'random'"):
        profile_of(replace(asked, routing="balanced"))
    with pytest.raises(ProfileError, match=r"bandwidth_reached = 1\.5: a part"):
        profile_of(Request(kind="prefill", bandwidth_reached=1.5))


def test_a_random_routing_of_a_few_ranks_says_that_nobody_waits_for_the_others() -> None:
    def summary(ranks: int, routing: Routing = "random") -> str:
        return shape(profile_view(profile_of(Request(kind="prefill", layers=2, ep=8, ranks=ranks, routing=routing))))

    assert summary(1, "balanced").endswith("1 rank of 8 simulated; every rank does the same")
    assert summary(1).endswith("1 rank of 8 simulated; nobody waits for those that are not")
    assert summary(4).endswith(", which ends last, is drawn; nobody waits for those that are not")
    assert summary(8).endswith(", which ends last, is drawn")


def test_a_profile_that_is_read_back_knows_its_routing() -> None:
    profile = profile_of(Request(kind="prefill", layers=2, ep=8, ranks=2, routing="random", seed=4))
    assert load_profile(profile_document(profile)).routing == profile.routing == "random routing, seed 4"
