"""Models of Hugging Face on a meta device, from configurations: published parameter counts, closed forms' FLOPs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.flops.models import closed_forms as cf
from tests.flops.models import tiny
from tests.flops.models.test_closed_forms import B, F, counted
from tests.fuzz import few
from weftrace.errors import FlopsError
from weftrace.facts.models import ModelConfig, model_config, num_params
from weftrace.flops.buildable import buildable_models
from weftrace.flops.runtime.models import active_fraction, build_model
from weftrace.flops.runtime.models.hf import hf_active_fraction, hf_inputs, hf_model, hf_run_phase

transformers = pytest.importorskip("transformers", minversion="5.0")


def hf_config(c: ModelConfig) -> Any:
    """The configuration of transformers with the numbers of ours."""
    common: dict[str, Any] = {
        "vocab_size": c.vocab_size,
        "hidden_size": c.hidden_size,
        "num_hidden_layers": c.num_layers,
        "num_attention_heads": c.num_heads,
        "intermediate_size": c.intermediate_size,
        "max_position_embeddings": c.max_positions,
        "bos_token_id": None,
        "eos_token_id": None,
        "pad_token_id": None,
    }
    if c.family == "bert":
        dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return transformers.BertConfig(**common, **dropout)
    if c.family == "gpt2":
        return transformers.GPT2Config(
            vocab_size=c.vocab_size,
            n_embd=c.hidden_size,
            n_layer=c.num_layers,
            n_head=c.num_heads,
            n_positions=c.max_positions,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    common["num_key_value_heads"] = c.kv_heads
    if c.experts is None:
        return transformers.LlamaConfig(**common)
    e = c.experts
    common["num_experts_per_tok"] = e.top_k
    if c.latent is not None:
        return transformers.DeepseekV3Config(
            **common,
            n_routed_experts=e.num_experts,
            n_shared_experts=e.num_shared,
            n_group=e.num_groups,
            topk_group=e.top_groups,
            first_k_dense_replace=e.num_dense_layers,
            moe_intermediate_size=e.intermediate_size,
            q_lora_rank=c.latent.q_rank,
            kv_lora_rank=c.latent.kv_rank,
            qk_rope_head_dim=c.latent.rope_dim,
            qk_nope_head_dim=c.latent.nope_dim,
            v_head_dim=c.latent.v_dim,
        )
    if c.qk_norm:
        return transformers.Qwen3MoeConfig(
            **common, num_experts=e.num_experts, moe_intermediate_size=e.intermediate_size, head_dim=c.head_size
        )
    return transformers.MixtralConfig(**common, num_local_experts=e.num_experts)


@pytest.mark.parametrize("config", few([*buildable_models(), *tiny.TINY], 9), ids=lambda config: str(config.name))
def test_as_many_parameters(config: ModelConfig) -> None:
    theirs = hf_model(hf_config(config))
    biases = sum(buffer.numel() for name, buffer in theirs.named_buffers() if name.endswith("correction_bias"))
    assert sum(p.numel() for p in theirs.parameters()) + biases == num_params(config)
    ours, active = active_fraction(build_model(config)), hf_active_fraction(theirs)
    assert sorted(ours.values()) == sorted(active.values())


def steps_of(config: ModelConfig, batch: int, seq_len: int, fused: bool, experts: str) -> list[cf.Step]:
    if config.family == "bert":
        return cf.bert(config, batch, seq_len, fused=fused)
    if config.family == "gpt2":
        return cf.gpt2(config, batch, seq_len, fused=fused)
    return cf.causal_model(config, batch, seq_len, fused=fused, backend=experts)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("experts", few(["grouped_mm", "bmm", "eager"], 2))
@pytest.mark.parametrize("config", few(tiny.TINY, 4), ids=lambda config: str(config.name))
def test_training_by_the_closed_forms(config: ModelConfig, attention: str, experts: str) -> None:
    if config.experts is None and experts != "grouped_mm":
        return
    model = hf_model(hf_config(config), attention=attention, experts=experts)
    found = counted(model, lambda: hf_run_phase(model, phase="train", batch=2, seq_len=32))
    # Its bmm gives every row a copy of its expert's weights: as many products as rows, nothing padded.
    steps = steps_of(config, 2, 32, attention == "sdpa", "grouped_mm")
    assert found == {F: cf.forward(steps), B: cf.backward(steps)}


@pytest.mark.parametrize(("phase", "seq_len", "context"), [("prefill", 32, 0), ("prefill", 16, 24), ("decode", 1, 40)])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("config", [tiny.LLAMA, tiny.MIXTRAL, tiny.QWEN3], ids=lambda config: str(config.name))
def test_serving_by_the_closed_forms(
    config: ModelConfig, attention: str, phase: str, seq_len: int, context: int
) -> None:
    model = hf_model(hf_config(config), attention=attention)
    found = counted(model, lambda: hf_run_phase(model, phase=phase, batch=2, seq_len=seq_len, context=context))
    steps = cf.causal_model(config, 2, seq_len, phase=phase, context=context, fused=attention == "sdpa")
    assert found == {F: cf.forward(steps)}


@pytest.mark.parametrize("config", [tiny.GPT2, tiny.DEEPSEEK], ids=lambda config: str(config.name))
@pytest.mark.parametrize(("phase", "seq_len", "context"), [("prefill", 32, 0), ("prefill", 16, 24), ("decode", 1, 40)])
def test_every_phase_runs(config: ModelConfig, phase: str, seq_len: int, context: int) -> None:
    model = hf_model(hf_config(config))
    outputs = hf_run_phase(model, phase=phase, batch=2, seq_len=seq_len, context=context)
    assert outputs.logits.shape == (2, 1, config.vocab_size)


def test_full_llama_by_the_closed_form() -> None:
    config = model_config("llama-3-8b")
    model = hf_model(hf_config(config))
    found = counted(model, lambda: hf_run_phase(model, phase="train", batch=1, seq_len=8192))
    steps = cf.causal_model(config, 1, 8192)
    assert found == {F: cf.forward(steps), B: cf.backward(steps)}


def test_from_a_file(tmp_path: Path) -> None:
    document = hf_config(tiny.LLAMA).to_dict() | {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
    (tmp_path / "config.json").write_text(json.dumps(document), "utf-8")
    for source in (tmp_path, str(tmp_path / "config.json")):
        model = hf_model(source)
        assert type(model).__name__ == "LlamaForCausalLM"
        assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_errors_say_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FlopsError, match="nothing is downloaded"):
        hf_model(tmp_path / "absent")
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(FlopsError, match="cannot read this configuration"):
        hf_model(tmp_path)
    with pytest.raises(FlopsError, match="neither a configuration"):
        hf_model(3)
    bert = hf_model(hf_config(tiny.BERT))
    with pytest.raises(FlopsError, match="encoder"):
        hf_inputs(bert, 1, 1, phase="decode", context=8)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(FlopsError, match=r"pip install .*(transformers|hf)"):
        hf_model(tmp_path)


def test_on_a_cpu_nothing_is_replaced() -> None:
    model = hf_model(hf_config(tiny.LLAMA), device="cpu", dtype=torch.float32)
    found = counted(model, lambda: hf_run_phase(model, phase="train", batch=2, seq_len=32))
    steps = cf.causal_model(tiny.LLAMA, 2, 32)
    assert found == {F: cf.forward(steps), B: cf.backward(steps)}


@pytest.mark.parametrize("config", [tiny.LLAMA, tiny.MIXTRAL], ids=lambda config: str(config.name))
def test_the_same_logits(config: ModelConfig) -> None:
    """Our model with their weights computes what theirs does."""
    torch.manual_seed(0)
    made = hf_config(config)
    made.rms_norm_eps = config.norm_eps
    made.rope_parameters = {"rope_type": "default", "rope_theta": config.rope_theta}
    theirs = hf_model(made, device="cpu", dtype=torch.float32)
    names = (
        ("model.embed_tokens", "tokens"),
        ("model.", ""),
        ("input_layernorm", "attention_norm"),
        ("self_attn", "attention"),
        ("post_attention_layernorm", "mlp_norm"),
        ("experts.gate_up_proj", "experts.gate_up"),
        ("experts.down_proj", "experts.down"),
    )
    weights = {}
    for name, tensor in theirs.state_dict().items():
        for old, new in names:
            name = name.replace(old, new)
        weights[name] = tensor
    ours = build_model(config, device="cpu", dtype=torch.float32, routing="learned")
    ours.load_state_dict(weights)
    ids = torch.randint(config.vocab_size, (2, 12))
    with torch.no_grad():
        torch.testing.assert_close(ours(ids), theirs(ids).logits)
