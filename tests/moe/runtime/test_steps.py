"""A profile's steps: what a setting asks for is run, as often as asked, or refused with both numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.living import Ranks
from tests.moe.runtime.small import MLA, MODELS, apart, gradients
from weftrace.errors import ProfileError
from weftrace.moe import Setting, known_overlaps, load_overlap
from weftrace.moe.requests import PHASES, ModelPhase
from weftrace.moe.runtime import PUBLISHED, HowToRun, Payloads, run

WIDE = replace(MLA, hidden_size=128)
RUNNABLE = [
    (kind, name) for kind in PHASES for name in known_overlaps(kind) if not load_overlap(name, kind).is_fused
]  # fmt: skip


def setting(kind: ModelPhase, **given: Any) -> Setting:
    of_decode = {"tokens_per_request": 2} if kind == "decode" else {}
    return Setting.of(
        kind, **{"model": WIDE, "ep": 1, "tokens": 12, "sequence": 8, "num_layers": 2, **of_decode, **given}
    )


@pytest.mark.parametrize(("kind", "name"), RUNNABLE)
def test_every_list_runs_its_steps_and_says_when_one_ends(kind: ModelPhase, name: str) -> None:
    ended: list[int] = []
    result = run(setting(kind), load_overlap(name, kind), steps=2, on_step=ended.append)
    assert ended == [0, 1] and result.steps == 2
    rows = sum(len(out) for out in result.outputs.values())
    assert rows == 12 * (1 if kind == "train" else load_overlap(name, kind).num_micro_batches)
    assert all(out.isfinite().all() and out.dtype == torch.float32 for out in result.outputs.values())
    assert bool(gradients(result.layers)) == (kind == "train")


def test_a_step_of_decode_is_repeated_and_one_of_prefill_has_new_prompts() -> None:
    lists: tuple[tuple[ModelPhase, str], ...] = (("decode", "five-stages"), ("prefill", "two-micro-batches"))
    for kind, name in lists:
        once, twice = (run(setting(kind), load_overlap(name), steps=steps) for steps in (1, 2))
        same = [torch.equal(once.outputs[at], out) for at, out in twice.outputs.items()]
        assert same == [kind == "decode"] * 2


def test_gradients_of_a_run_do_not_depend_on_the_list() -> None:
    """Three steps, learned routing, float64: the micro-batches and their order are the same."""
    how = HowToRun(dtype=torch.float64, routing="learned", payloads=Payloads())
    runs = [run(setting("train"), load_overlap(name, "train"), how, steps=3) for name in ("training", "none")]
    one, other = (gradients(each.layers) for each in runs)
    assert apart(one, other) == 0.0


def test_prompts_are_the_same_however_a_list_shares_them_out() -> None:
    """16 tokens, of which one micro-batch gets 8 and more; one prompt is split."""
    how = HowToRun(dtype=torch.float64, routing="learned", payloads=Payloads(), prompts=[3, 9, 4])
    alone = run(setting("prefill"), load_overlap("none", "prefill"), how, steps=2).outputs[0]
    for name in known_overlaps("prefill"):
        overlap = load_overlap(name, "prefill")
        if overlap.num_micro_batches == 2:
            parts = run(setting("prefill"), overlap, how, steps=2).outputs
            first = next(each.micro_batch for each in overlap.operations if each.work == "attn")
            torch.testing.assert_close(torch.cat([parts[first], parts[1 - first]]), alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_one_process_emulates_a_group_and_says_so(name: str) -> None:
    given = setting("prefill", model=replace(MODELS[name], hidden_size=128), ep=4)
    result = run(given, load_overlap("two-micro-batches"))
    assert "all-to-all of 4 ranks emulated on one device: copies of the same bytes, no network" in result.notes
    assert len(result.layers[0].experts.down) == 2  # of 8 experts


def test_what_does_not_fit_is_refused_with_both_numbers(ranks: Ranks) -> None:
    prefill = load_overlap("two-micro-batches")
    with pytest.raises(ProfileError, match="a scale for each 128 numbers, and 16 are no multiple"):
        run(setting("prefill", model=MLA), prefill, HowToRun(payloads=PUBLISHED))
    with pytest.raises(ProfileError, match="'two-micro-batches' is for prefill, not for decode"):
        run(setting("decode"), prefill)
    with pytest.raises(ProfileError, match="a cache of 1 token cannot hold the 2 of a step"):
        run(setting("decode", sequence=1), load_overlap("five-stages"))
    with pytest.raises(ProfileError, match="8 copies of experts: layers run with each expert once, 0 copies"):
        run(setting("prefill", num_redundant=8), prefill)
    for lengths in ([], [3, 0], [-3]):
        with pytest.raises(ProfileError, match=r"prompts of \[.*\] tokens: there is at least one"):
            run(setting("prefill"), load_overlap("none", "prefill"), HowToRun(prompts=lengths, payloads=Payloads()))
    with pytest.raises(ProfileError, match=r"decode has . requests? and a cache, and no prompts of its own"):
        run(setting("decode"), load_overlap("five-stages"), HowToRun(prompts=[3], payloads=Payloads()))
    with pytest.raises(ProfileError, match="3 GPUs cannot hold equal parts of small-mla's 8 experts"):
        setting("prefill", ep=3)
    summary = ranks.run("tests.moe.runtime.cases:refused", 2, ep=4)
    assert summary == ["the setting has 4 GPUs (EP), and 2 processes run"] * 2
