"""The built-in models compute the same by every path: backends, caches, absorbed and expanded latents."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.flops.models import tiny
from tests.fuzz import few
from weftrace.errors import FlopsError
from weftrace.facts.models import ModelConfig, model_config, num_params
from weftrace.flops.buildable import buildable_models
from weftrace.flops.runtime.models import active_fraction, build_model, model_inputs, run_phase

CAUSAL = (tiny.GPT2, tiny.LLAMA, tiny.MIXTRAL, tiny.QWEN3, tiny.DEEPSEEK)
MOE = (tiny.MIXTRAL, tiny.QWEN3, tiny.DEEPSEEK)


def names(config: Any) -> str:
    return str(config.name)


def twins(config: ModelConfig, **options: Any) -> tuple[nn.Module, nn.Module]:
    """Two models of one set of weights, the second with these options; FP32 on the CPU."""
    torch.manual_seed(0)
    first = build_model(config, device="cpu", dtype=torch.float32, routing="learned")
    second = build_model(config, device="cpu", dtype=torch.float32, routing="learned", **options)
    second.load_state_dict(first.state_dict())
    return first, second


def tokens(config: ModelConfig, count: int = 12) -> Tensor:
    return torch.randint(config.vocab_size, (2, count), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("config", tiny.TINY, ids=names)
def test_eager_attention_is_the_same(config: ModelConfig) -> None:
    one, two = twins(config, attention="eager")
    ids = tokens(config)
    torch.testing.assert_close(one(ids), two(ids))


@pytest.mark.parametrize("experts", ["bmm", "eager"])
@pytest.mark.parametrize("config", MOE, ids=names)
def test_expert_backends_are_the_same(config: ModelConfig, experts: str) -> None:
    one, two = twins(config, experts=experts)
    ids = tokens(config)
    a, b = one(ids), two(ids)
    torch.testing.assert_close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    for (name, p), q in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("config", CAUSAL, ids=names)
def test_a_cache_changes_nothing(config: ModelConfig, attention: str) -> None:
    """12 tokens at once, or 7 as a prompt, 3 more as a chunk, then 2 decoded together: the last logits are the same.

    For DeepSeek the last step attends over latents, the others over keys and values expanded from them.
    """
    model, _ = twins(config)
    model = twins(config, attention=attention)[1]
    ids = tokens(config, 12)
    with torch.no_grad():
        whole = model(ids)
        _, options = model_inputs(config, 2, 2, phase="decode", context=12, device="cpu", dtype=torch.float32)
        full = options["cache"]
        for start, end in ((0, 7), (7, 10), (10, 12)):
            view = type(full)(
                tuple(tuple(t[..., :end, :] for t in layer) for layer in full.layers), start, end, absorbed=end == 12
            )
            part = model(ids[:, start:end], cache=view)
            torch.testing.assert_close(part, whole[:, start:end], rtol=1e-4, atol=1e-5)
        kept = model(ids, logits_to_keep=1)
    torch.testing.assert_close(kept, whole[:, -1:])


@pytest.mark.parametrize("config", MOE, ids=names)
def test_balanced_routing_is_balanced(config: ModelConfig) -> None:
    assert config.experts is not None
    model = build_model(config, device="cpu")
    gate = model.get_submodule(f"layers.{config.experts.num_dense_layers}.mlp.gate")
    _, experts = gate(torch.zeros(9, config.hidden_size, dtype=torch.bfloat16))
    rows = torch.bincount(experts.flatten(), minlength=config.experts.num_experts)
    assert rows.max() - rows.min() <= 1
    assert all(len(set(row)) == len(row) for row in experts.tolist())


def test_groups_limit_the_gate() -> None:
    config = tiny.DEEPSEEK
    assert config.experts is not None
    torch.manual_seed(0)
    model = build_model(config, device="cpu", dtype=torch.float32, routing="learned")
    gate = model.get_submodule("layers.1.mlp.gate")
    weights, experts = gate(torch.randn(50, config.hidden_size))
    per_group = config.experts.num_experts // config.experts.num_groups
    assert all(len({expert // per_group for expert in row}) <= config.experts.top_groups for row in experts.tolist())
    torch.testing.assert_close(weights.sum(-1), torch.full((50,), config.experts.routed_scale))


@pytest.mark.parametrize("config", [*buildable_models(), *tiny.TINY], ids=names)
def test_built_as_counted(config: ModelConfig) -> None:
    model = build_model(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == num_params(config)
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


@pytest.mark.parametrize("config", MOE, ids=names)
def test_active_share(config: ModelConfig) -> None:
    assert config.experts is not None
    shares = active_fraction(build_model(config))
    assert len(shares) == 2 * (config.num_layers - config.experts.num_dense_layers)
    assert set(shares.values()) == {config.experts.top_k / config.experts.num_experts}


def test_masked_positions() -> None:
    model = build_model(tiny.BERT, device="cpu")
    ids = tokens(tiny.BERT)
    everywhere, _ = model(ids)
    some, pair = model(ids, torch.tensor([3, 17]))
    assert pair.shape == (2, 2)
    torch.testing.assert_close(some, everywhere[[3, 17]])


@pytest.mark.parametrize("name", few(["llama-3-8b", "qwen3-30b-a3b", "deepseek-v3"], 1))
def test_fp8_parameters(name: str) -> None:
    """One byte a parameter in linear layers and experts; products in FP8; embedding and head stay at two bytes."""
    config = model_config(name)
    plain, small = build_model(name), build_model(name, fp8_linears=True)
    assert sum(p.numel() for p in small.parameters()) == num_params(config)
    sizes = [sum(p.numel() * p.element_size() for p in model.parameters()) for model in (plain, small)]
    assert 0.5 < sizes[1] / sizes[0] < 0.6
    logits = run_phase(small, name, phase="decode", batch=4, seq_len=1, context=64)
    assert logits.shape == (4, 1, config.vocab_size) and logits.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("gpt2", {"phase": "trian"}, "phase 'trian' is unknown"),
        ("gpt2", {"batch": 0}, "at least 1"),
        ("gpt2", {"seq_len": 2000}, "1024 positions, fewer than 2000"),
        ("gpt2", {"context": 4}, "context must be 0"),
        ("gpt2", {"masked_positions": 4}, "masked_positions is for BERT"),
        ("gpt2", {"phase": "decode", "seq_len": 2, "context": 1}, "at least its 2 new tokens"),
        ("bert-large", {"phase": "decode", "context": 4}, "cannot decode"),
        ("bert-large", {"masked_positions": 17}, "not within 1 .. 16"),
    ],
)
def test_inputs_that_do_not_fit(name: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(FlopsError, match=said):
        model_inputs(name, **{"batch": 2, "seq_len": 8, **asked})


@pytest.mark.parametrize(
    ("name", "asked", "said"),
    [
        ("gpt3", {}, "no model is called 'gpt3'"),
        ("gpt2", {"attention": "flash"}, "attention 'flash' is unknown"),
        ("mixtral", {"experts": "triton"}, "experts 'triton' is unknown"),
        ("mixtral", {"routing": "random"}, "routing 'random' is unknown"),
        ("gpt2", {"fp8_linears": True}, "llama and deepseek alone"),
        ("mixtral", {"fp8_linears": True, "experts": "bmm"}, "need experts='grouped_mm'"),
    ],
)
def test_choices_that_do_not_exist(name: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(FlopsError, match=said):
        build_model(name, **asked)


def test_grouped_product_on_meta_wants_bf16() -> None:
    model = build_model(tiny.MIXTRAL, dtype=torch.float32)
    with pytest.raises(FlopsError, match="bf16 alone on a meta device"):
        run_phase(model, tiny.MIXTRAL, phase="train", batch=1, seq_len=4)
