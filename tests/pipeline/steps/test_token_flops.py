"""FLOPs of a token, from a model's numbers alone."""

from __future__ import annotations

import pytest

from weftrace.errors import WeftraceError
from weftrace.facts import active_params, load_models, model_config
from weftrace.pipeline.steps.token_flops import flops_per_token


def test_deepseek_v3_takes_250_gflop_a_token_as_its_paper_states() -> None:
    flops = flops_per_token(model_config("deepseek-v3"), 4096)
    assert round(flops.causal / 1e9) == 250
    # attention core by hand: 61 layers, 128 heads, q.k of 192 and p.v of 128, a multiply and an add, three times
    assert flops.full - flops.causal == pytest.approx(3 * 2 * 61 * 128 * 320 * (4096 - 4097 / 2))


def test_a_small_llama_by_pencil() -> None:
    config = model_config("llama-3-8b")
    attention = 2 * 4096 * 4096 + 2 * 4096 * 8 * 128
    matrices = 32 * (attention + 3 * 4096 * 14336) + 128256 * 4096
    core = 32 * 32 * (128 + 128)
    flops = flops_per_token(config, 8192)
    assert flops.full == 6 * matrices + 6 * core * 8192
    assert flops.causal == 6 * matrices + 3 * core * 8193


# not BERT, which is no decoder; not the tiny ones, whose norms and gate weigh more than 1 %
DENSE_ATTENTION = [c for c in load_models() if c.family != "bert" and c.indexer is None and c.hidden_size > 64]


@pytest.mark.parametrize("config", DENSE_ATTENTION, ids=lambda c: c.name)
def test_matrices_are_nearly_all_that_a_token_uses(config) -> None:  # type: ignore[no-untyped-def]
    short = flops_per_token(config, 1).causal / 6
    lookups = 0 if config.tied_head else config.vocab_size * config.hidden_size
    assert short == pytest.approx(active_params(config) - lookups, rel=0.01)


def test_what_is_no_decoder_is_refused() -> None:
    with pytest.raises(WeftraceError, match=r"bert-base.*masked"):
        flops_per_token(model_config("bert-base"), 128)
    with pytest.raises(WeftraceError, match="sequence"):
        flops_per_token(model_config("deepseek-v3"), 0)
