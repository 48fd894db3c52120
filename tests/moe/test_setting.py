"""Settings fill in the published figures, and refuse what cannot be with both numbers."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.errors import ProfileError
from weftrace.moe import Setting, make_profile
from weftrace.moe.overlap_files import overlap_of


def test_what_is_not_given_is_the_published_profiles() -> None:
    train, prefill, decode = (Setting.of(kind) for kind in ("train", "prefill", "decode"))
    assert [(s.ep, s.tokens, s.compute_sms, s.comm_sms) for s in (train, prefill, decode)] == [
        (64, 4096, 112, 20), (32, 8192, 108, 24), (128, 128, 132, 0),
    ]  # fmt: skip
    assert [s.local_experts for s in (train, prefill, decode)] == [4, 8, 2]
    assert [s.num_domains for s in (train, prefill, decode)] == [8, 4, 16]
    assert decode.requests == 64


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("train", {"ep": 48}, "48 GPUs cannot hold equal parts of deepseek-v3's 256 experts: 256 / 48"),
        ("prefill", {"comm_sms": 132}, "132 SMs for communication leave none of the 132 SMs"),
        ("decode", {"tokens": 127}, "127 tokens are no whole number of requests of 2 tokens"),
        ("prefill", {"tokens": 0}, "tokens = 0: it is a whole number of 1 or more"),
        ("train", {"model": "llama-3-8b"}, "llama-3-8b has no routed experts"),
        ("train", {"ep": 64, "domain": 6}, "64 GPUs do not fill nodes of 6"),
        ("serve", {}, "kind = 'serve': weftrace knows train, prefill, decode"),
    ],
)
def test_what_cannot_be_is_refused_with_both_numbers(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        Setting.of(kind, **given)
    assert message in str(refused.value)


def test_without_a_drafted_token_a_gpu_has_as_many_requests() -> None:
    plain = Setting.of("decode", tokens_per_request=1)
    assert (plain.tokens, plain.requests) == (64, 64)


def test_copies_of_experts_count_as_experts() -> None:
    assert Setting.of("decode", ep=144, num_redundant=32).local_experts == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "it has no operations"),
        ('[[operation]]\nname = "a"', "operation 1 (a): it does not say its work"),
        ('[[operation]]\nname = "a"\nwork = "think"', "work = 'think'; it is one of attn,"),
        ('[[operation]]\nname = "a"\nwork = "attn"\nafter = ["b"]', "'a' waits for 'b', which the list does not have"),
        (
            '[[operation]]\nname = "a"\nwork = "attn"\nafter = ["b"]\n[[operation]]\nname = "b"\nwork = "mlp"',
            "wait for each other in a circle: a -> b -> a",
        ),
    ],
)
def test_a_list_that_cannot_run_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProfileError) as refused:
        overlap_of(text, "mine.toml")
    assert message in str(refused.value)


def test_a_model_without_a_layer_that_drafts_decodes_a_token_of_each_request() -> None:
    """64 requests of a micro-batch, as in the published profile, whose two tokens each are DeepSeek-V3's."""
    found = {model: Setting.of("decode", model=model) for model in ("deepseek-v3", "qwen3-235b-a22b", "kimi-k2")}
    assert {name: (each.tokens, each.tokens_per_request) for name, each in found.items()} == {
        "deepseek-v3": (128, 2), "qwen3-235b-a22b": (64, 1), "kimi-k2": (64, 1),
    }  # fmt: skip
    assert all(each.requests == 64 for each in found.values())
    with pytest.raises(ProfileError, match="1 token is no whole number of requests of 2 tokens a step"):
        Setting.of("decode", tokens=1)
    with pytest.raises(ProfileError, match="Choose at most 72, or a multiple of it"):
        Setting.of("decode", hardware="gb200")


def test_a_profile_is_made_of_a_setting() -> None:
    given: Any = "decode"
    with pytest.raises(ProfileError, match=r"a Setting is wanted here, not 'decode': Setting.of\('decode'\)"):
        make_profile(given)
