"""Layers: the gate, balanced routing, a cache that changes nothing, prompts split over two micro-batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.moe.runtime.small import CPU, EXPERTS, MLA, MODELS, drawn, layers_of, plain_layer, prompts
from weftrace.errors import ProfileError
from weftrace.facts import model_config
from weftrace.moe.runtime.layers.experts import balanced_experts
from weftrace.moe.runtime.layers.tokens import Segment, Tokens, split_prompts, whole


def test_the_gate_chooses_within_the_best_groups() -> None:
    (layer,) = layers_of(MLA, 1)
    weights, experts = layer.gate(drawn(50, 16))
    assert all(len(set(row)) == EXPERTS.top_k for row in experts.tolist())
    groups = experts // 2  # 8 experts in 4 groups
    assert all(len(set(row.tolist())) <= EXPERTS.top_groups for row in groups)
    torch.testing.assert_close(weights.sum(-1), torch.full((50,), EXPERTS.routed_scale, dtype=torch.float64))


@pytest.mark.parametrize("name", ["deepseek-v3", "mixtral-8x7b", "qwen3-235b-a22b", "kimi-k2"])
def test_balanced_routing_gives_all_experts_the_same_and_keeps_to_the_groups(name: str) -> None:
    experts = model_config(name).experts
    assert experts is not None
    num_tokens = experts.num_experts
    chosen = torch.cat([balanced_experts(experts, num_tokens // 2, rank, CPU) for rank in range(2)])
    assert torch.bincount(chosen.flatten()).tolist() == [experts.top_k] * experts.num_experts
    assert all(len(set(row)) == experts.top_k for row in chosen.tolist())
    groups = chosen // (experts.num_experts // experts.num_groups)
    assert {len(set(row)) for row in groups.tolist()} == {experts.top_groups}


@pytest.mark.parametrize("kind", MODELS)
def test_a_cache_changes_nothing(kind: str) -> None:
    """9 tokens of two prompts at once, and the last 2 of each after the first 7 have filled a cache."""
    (layer,) = layers_of(MODELS[kind], 1)
    x = drawn(18, 16)
    with torch.no_grad():
        at_once = plain_layer(layer, x, prompts(whole([9, 9]))).unflatten(0, (2, 9))[:, 7:].flatten(0, 1)
        _, kept = layer.attn_0(x, prompts(whole([9, 9])))
        cache = kept.new_full((2, 9, kept.shape[1]), float("nan"))
        cache[:, :7] = kept.unflatten(0, (2, 9))[:, :7]
        newest = x.unflatten(0, (2, 9))[:, 7:].flatten(0, 1)
        tokens = Tokens(device=CPU, requests=2, per_request=2, caches=[cache], filled=7)
        torch.testing.assert_close(plain_layer(layer, newest, tokens), at_once, rtol=1e-12, atol=1e-12)
        with pytest.raises(ProfileError, match="the cache has 9 positions, and 10 are needed"):
            layer.attn_1(newest, *layer.attn_0(newest, tokens), replace_filled(tokens, 8))


def replace_filled(tokens: Tokens, filled: int) -> Tokens:
    return Tokens(
        device=CPU, requests=tokens.requests, per_request=tokens.per_request, caches=tokens.caches, filled=filled
    )


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(("lengths", "later"), [([5, 11, 3], 4), ([5, 5, 5, 5, 5, 3], 1)])
def test_splitting_a_prompt_leaves_attention_unchanged(kind: str, lengths: list[int], later: int) -> None:
    """later: tokens of the split prompt that go to the second micro-batch; one alone sees all before it too."""
    (layer,) = layers_of(MODELS[kind], 1)
    x = drawn(sum(lengths), 16)
    first, second = split_prompts(lengths)
    (of,) = [each for each in first if each.end < each.of]
    assert second[0] == Segment(of.prompt, of.end, later, of.of)
    cut = sum(each.length for each in first)
    with torch.no_grad():
        at_once = plain_layer(layer, x, prompts(whole(lengths)))
        tokens = prompts(first), prompts(second)
        tokens[1].earlier = tokens[0].earlier
        parts = [plain_layer(layer, rows, of) for rows, of in zip((x[:cut], x[cut:]), tokens, strict=True)]
    torch.testing.assert_close(torch.cat(parts), at_once, rtol=1e-12, atol=1e-12)


def test_the_later_part_of_a_prompt_cannot_attend_first() -> None:
    (layer,) = layers_of(MLA, 1)
    with (
        torch.no_grad(),
        pytest.raises(ProfileError, match=r"tokens 3 to 5 of prompt 0 need .* the 3 tokens before them"),
    ):
        plain_layer(layer, drawn(3, 16), prompts([Segment(0, 3, 3, 6)]))
    with pytest.raises(ProfileError, match="split at 3 of 6 tokens: inference alone"):
        plain_layer(layer, drawn(3, 16), prompts([Segment(0, 0, 3, 6)]))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6).filter(lambda lengths: sum(lengths) > 1))
def test_two_micro_batches_attend_to_equally_many_pairs(lengths: list[int]) -> None:
    first, second = split_prompts(lengths)
    pairs = [sum(each.num_pairs for each in part) for part in (first, second)]
    assert sum(pairs) == sum(length * (length + 1) // 2 for length in lengths)
    assert abs(pairs[0] - pairs[1]) <= max(lengths)  # one token's pairs
    assert sum(each.length for each in (*first, *second)) == sum(lengths)
    assert sum(each.end < each.of for each in first) <= 1
    assert first and second


def test_what_cannot_be_built_is_refused_with_both_numbers() -> None:
    with pytest.raises(ProfileError, match="8 experts cannot be shared out evenly over 3 ranks"):
        layers_of(MLA, 1, ranks=3)
    with pytest.raises(ProfileError, match="0 layers cannot be run; 1 is the fewest"):
        layers_of(MLA, 0)
    with pytest.raises(ProfileError, match="routing 'fair' is unknown; choose from balanced, learned"):
        layers_of(MLA, 1, routing="fair")
    for few, summary in (
        (10, "10 experts cannot be cut into the 4 equal groups"),
        (4, "goes to 3 experts, and there are 2 in the 2 groups"),
    ):
        with pytest.raises(ProfileError, match=summary):
            layers_of(replace(MLA, experts=replace(EXPERTS, num_experts=few, top_k=3)), 1)
    with pytest.raises(ProfileError, match="llama-3-8b has no experts"):
        layers_of(model_config("llama-3-8b"), 1)
    with pytest.raises(ProfileError, match="attends to 2048 keys that an indexer chooses"):
        layers_of(replace(model_config("deepseek-v3.2"), hidden_size=16, vocab_size=8), 1)
    with pytest.raises(ProfileError, match=r"prompts of \[1\] tokens cannot be split over two"):
        split_prompts([1])


def test_queries_that_are_not_compressed_are_built_too() -> None:
    assert MLA.latent is not None
    config = replace(MLA, latent=replace(MLA.latent, q_rank=0))
    (layer,) = layers_of(config, 1)
    assert "attention.q_a" not in dict(layer.named_parameters())
    assert plain_layer(layer, drawn(4, 16), prompts(whole([4]))).shape == (4, 16)
