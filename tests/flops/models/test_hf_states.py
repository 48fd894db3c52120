"""Models of transformers that remember states: a decode step costs what one token costs, or it is refused.

Prefill computes the logits of its last position alone, so a token costs (prefill - head) / tokens + head. A chunked
scan does more for each token than a step, and attention looks at more the later a token is: hence the room around 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fuzz import few
from weftrace.costs.cost import Status
from weftrace.errors import SpecError
from weftrace.flops import FlopsReport, RunSpec, count, profile, run_model, totals
from weftrace.flops.derived.account import account_of
from weftrace.flops.render.facts import exact_line, flops_headline
from weftrace.flops.runtime.models.hf import hf_inputs, hf_model, hf_run_phase

transformers = pytest.importorskip("transformers", minversion="5.20")

VOCAB, TOKENS = 64, 32
COMMON: dict[str, Any] = {"vocab_size": VOCAB, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 96}
COMMON |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))
HEADS: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16}
SCAN: dict[str, Any] = {"mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_state": 16, "mamba_n_groups": 1}
CHUNK: dict[str, Any] = {"mamba_chunk_size": 16}
DELTA: dict[str, Any] = {
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
BOTH = {"layer_types": ["linear_attention", "full_attention"]}
# Latent attention expands all cached latents at each step, as transformers runs it: small ones, that are soon expanded.
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 4,
    "q_lora_rank": 4,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}

STATES: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 16},
    "falcon_mamba": {"state_size": 16},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 16},
    "jamba": HEADS | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "use_mamba_kernels": False},
    "bamba": HEADS | SCAN | CHUNK | {"attn_layer_indices": [1]},
    "zamba": {"attention_hidden_size": 128, "attention_head_dim": 32, "num_hidden_layers": 11}
    | dict.fromkeys(("num_attention_heads", "num_key_value_heads"), 4),
    "zamba2": HEADS | {"layers_block_type": ["mamba", "hybrid"], "n_mamba_heads": 8, "chunk_size": 16},
    "nemotron_h": HEADS | {"mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 16, "n_groups": 1},
    "granitemoehybrid": HEADS | SCAN | CHUNK | {"layer_types": ["mamba", "attention"], "shared_intermediate_size": 64},
    "recurrent_gemma": HEADS | {"lru_width": 64, "attention_window_size": 16, "num_hidden_layers": 3},
    "rwkv": {"attention_hidden_size": 64, "context_length": 64},
    "xlstm": {"num_heads": 4, "chunk_size": 16, "qk_dim_factor": 1.0},
    "lfm2": HEADS | {"layer_types": ["conv", "full_attention"], "block_ff_dim": 96},
    "lfm3": HEADS | {"layer_types": ["conv", "full_attention"]},
    "qwen3_next": HEADS | DELTA | BOTH | EXPERTS | {"shared_expert_intermediate_size": 32},
    "qwen3_5_text": HEADS | DELTA | BOTH,
    "qwen3_5_moe_text": HEADS | DELTA | BOTH | EXPERTS | {"shared_expert_intermediate_size": 32},
    "lfm2_moe": HEADS | EXPERTS | {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "falcon_h1": HEADS | SCAN | CHUNK | {"mamba_d_ssm": 128},
    "minimax": HEADS | BOTH | {"num_local_experts": 4, "num_experts_per_tok": 2, "block_size": 16},
    "olmo_hybrid": HEADS | DELTA | BOTH,
    "kimi_linear": HEADS | BOTH | LATENT,
    "bailing_hybrid": HEADS | BOTH | LATENT,
    "zaya": HEADS,
}


def config_of(model_type: str, **changes: Any) -> Any:
    sizes = STATES.get(model_type) or PLAIN.get(model_type, HEADS)
    return transformers.AutoConfig.for_model(model_type, **{**COMMON, **sizes, **changes})


def run(folder: Path, model_type: str, phase: str, *, seq: int, context: int = 0, **changes: Any) -> FlopsReport:
    config = config_of(model_type, **changes)
    (folder / "config.json").write_text(json.dumps(config.to_dict() | {"model_type": model_type}), "utf-8")
    return run_model(RunSpec(model=str(folder), phase=phase, batch=1, seq=seq, context=context))


@pytest.mark.parametrize("model_type", few(STATES, 8))
def test_a_step_costs_what_a_token_costs(tmp_path: Path, model_type: str) -> None:
    prefill = totals(run(tmp_path, model_type, "prefill", seq=TOKENS)).flops
    decode = totals(run(tmp_path, model_type, "decode", seq=1, context=TOKENS)).flops
    head = 2 * VOCAB * COMMON["hidden_size"]
    expected = (prefill - head) / TOKENS + head
    assert 0.4 < decode / expected < 1.4


@pytest.mark.parametrize("model_type", few(STATES, 6))
def test_a_step_costs_what_it_costs_after_a_real_prompt(tmp_path: Path, model_type: str) -> None:
    """On a CPU, with values: a prompt, then one token with what the model returned for it."""
    model = hf_model(config_of(model_type), device="cpu", dtype=torch.float32).eval()
    with torch.no_grad():
        known = model(input_ids=torch.ones(1, TOKENS - 1, dtype=torch.long), use_cache=True)
        names = [
            name for name in ("past_key_values", "cache_params", "state") if getattr(known, name, None) is not None
        ]
        kept = {name: getattr(known, name) for name in names}
        if not names:  # RecurrentGemma fills a cache that it is given
            kept = {"past_key_values": transformers.DynamicCache(config=model.config)}
            model(input_ids=torch.ones(1, TOKENS - 1, dtype=torch.long), use_cache=True, **kept)
        real = count(model, input_ids=torch.ones(1, 1, dtype=torch.long), use_cache=True, **kept)
    meta = run(tmp_path, model_type, "decode", seq=1, context=TOKENS)
    assert totals(meta).flops == totals(real).flops


@pytest.mark.parametrize("model_type", ["mamba", "jamba", "falcon_h1"])
def test_a_prompt_that_makes_the_states_is_not_counted_in_an_open_profile(model_type: str) -> None:
    model = hf_model(config_of(model_type))
    ready = hf_inputs(model, 1, 1, phase="decode", context=TOKENS)
    with profile(model, time=False) as alone, torch.no_grad():
        model(**ready)
    with profile(model, time=False) as both:
        hf_run_phase(model, phase="decode", batch=1, seq_len=1, context=TOKENS)
    assert totals(both.report()).flops == totals(alone.report()).flops
    calls = [{module.path: module.calls for module in run.report().modules if module.calls} for run in (both, alone)]
    assert calls[0] == calls[1]


def test_a_model_that_remembers_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="nothing that a next step could start from"):
        run(tmp_path, "openai-gpt", "decode", seq=1, context=TOKENS)


def test_a_cache_that_cannot_be_made_longer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="DynamicIndexedLayer, which weftrace cannot make 31 long"):
        run(tmp_path, "deepseek_v32", "decode", seq=1, context=TOKENS, **LATENT)


@pytest.mark.parametrize("window", [8, 1000])
def test_a_step_attends_to_the_positions_of_its_window(tmp_path: Path, window: int) -> None:
    """After 31 tokens, to 8 positions or to all 32, its own among them."""
    report = run(tmp_path, "mistral", "decode", seq=1, context=TOKENS, sliding_window=window)
    attention = sum(op.calls * op.cost.flops for op in report.ops if op.cost.kind == "attention")
    assert attention == 2 * 2 * 4 * min(window, TOKENS) * (16 + 16)  # layers x 2 x heads x pairs x (d_qk + d_v)


# What weftrace hands to transformers on a meta device breaks these; transformers alone runs them there.
PLAIN: dict[str, dict[str, Any]] = {
    "falcon": {"num_attention_heads": 4},
    "gptj": {"n_embd": 64, "n_layer": 2, "n_head": 4, "rotary_dim": 8},
    "gpt_neo": {"num_heads": 4, "attention_types": [[["global", "local"], 1]]},
    "bloom": {"n_layer": 2, "n_head": 4},
    "opt": {"num_attention_heads": 4, "ffn_dim": 96, "word_embed_proj_dim": 64},
    "mamba": STATES["mamba"],
    "mpt": {"d_model": 64, "n_layers": 2, "n_heads": 4},
}


@pytest.mark.parametrize("phase", ["train", "prefill", "decode"])
@pytest.mark.parametrize("model_type", few(PLAIN, 3))
def test_where_the_shim_breaks_a_model_the_plain_run_counts(tmp_path: Path, model_type: str, phase: str) -> None:
    context = {"seq": 1, "context": TOKENS} if phase == "decode" else {"seq": TOKENS}
    report = run(tmp_path, model_type, phase, **context)
    linear = sum(op.calls * op.cost.flops for op in report.ops if op.cost.kind == "matmul" and op.phase == "forward")
    assert linear > 0
    if model_type in ("falcon", "gptj", "gpt_neo"):
        assert any("as transformers runs it there" in note for note in report.notes)


MLA: dict[str, dict[str, Any]] = {
    "deepseek_v3": {"num_attention_heads": 4, **LATENT, "head_dim": 4, "first_k_dense_replace": 2},
    "kimi_linear": HEADS | BOTH | LATENT,
}


@pytest.mark.parametrize("model_type", MLA)
def test_a_projection_of_the_whole_latent_cache_at_each_step_is_said_to_be_more_than_decode_needs(
    tmp_path: Path, model_type: str
) -> None:
    """kv_b_proj runs over all positions: transformers does so, an engine with absorbed weights does not."""
    report = run(tmp_path, model_type, "decode", seq=1, context=TOKENS, **MLA[model_type])
    again = 2 * TOKENS * 4 * 4 * (4 + 4)  # rows x rank x heads x (nope + v)
    layers = 2 if model_type == "deepseek_v3" else 1
    account = account_of(report)
    assert account.coverage.flops_of_status[Status.UPPER_BOUND] == layers * again
    summary = (
        f"kv_b_proj over all {TOKENS} positions at each step, {layers * again:,} of {totals(report).flops:,} FLOPs"
    )
    assert any(summary in note for note in report.notes)
    assert ": at most " in flops_headline(account)
    assert exact_line(account).startswith("at most") and "absorbed weights" in exact_line(account)
    assert "were not read" not in exact_line(account)


@pytest.mark.parametrize("model_type", ["mistral", "mamba", "jamba"])
def test_a_step_that_projects_its_own_tokens_alone_stays_exact(tmp_path: Path, model_type: str) -> None:
    for context in (1, TOKENS):
        report = run(tmp_path, model_type, "decode", seq=1, context=context)
        assert account_of(report).coverage.flops_of_status[Status.UPPER_BOUND] == 0
