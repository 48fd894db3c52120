"""Models whose numbers are known and whose code is not: refused in one sentence, before anything is built."""

from __future__ import annotations

import pytest

from weftrace.errors import SpecError, WeftraceError
from weftrace.facts import load_models, model_config
from weftrace.flops.buildable import buildable_models, why_not_built
from weftrace.flops.run_spec import model_kind, names
from weftrace.flops.runtime.models import build_model
from weftrace.pipeline.steps.token_flops import flops_per_token

REASONS = {
    "deepseek-v2-lite": "its queries are not compressed",
    "deepseek-v3.2": "its attention chooses 2048 keys a query",
    "deepseek-v4-flash": "its attention compresses keys",
    "deepseek-v4-pro": "its attention compresses keys",
}


def test_which_are_not_built() -> None:
    assert {config.name for config in load_models() if why_not_built(config)} == set(REASONS)
    assert {config.name for config in buildable_models()} == {config.name for config in load_models()} - set(REASONS)


@pytest.mark.parametrize(("name", "why"), REASONS.items())
def test_refused_in_one_sentence(name: str, why: str) -> None:
    for refuse in (lambda: build_model(name), lambda: model_kind(name)):
        with pytest.raises(SpecError, match=f"^weftrace does not build {name}: {why}.*; built are bert-base"):
            refuse()
    assert name not in names()


@pytest.mark.parametrize("name", ["deepseek-v3.2", "deepseek-v4-pro"])
def test_flops_of_a_token_do_not_guess_which_keys_are_seen(name: str) -> None:
    with pytest.raises(WeftraceError, match=f"{name} does not attend to every key"):
        flops_per_token(model_config(name), 4096)


def test_queries_that_are_not_compressed_are_one_matrix() -> None:
    config = model_config("deepseek-v2-lite")
    flops = flops_per_token(config, 1)
    attention = 2048 * 16 * 192 + 2048 * 576 + 512 * 16 * 256 + 16 * 128 * 2048
    mlp = 3 * 2048 * 10944 + 26 * 3 * 2048 * (6 + 2) * 1408
    assert flops.full == 6 * (27 * attention + mlp + 102400 * 2048) + 6 * 27 * 16 * (192 + 128)
