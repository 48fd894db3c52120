"""A model from its configuration, the inputs of a phase, and one run of that phase.

Phases: "train" (every position gets logits, a loss, a backward), "prefill" (a prompt, logits of its last position
alone, as serving computes them) and "decode" (one new token a request, or a few, against a cache).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weftrace.errors import FlopsError, SpecError
from weftrace.facts.models import ModelConfig, model_config
from weftrace.flops.buildable import refuse_what_is_not_built
from weftrace.flops.runtime.models.bert import Bert
from weftrace.flops.runtime.models.cache import CausalModel, make_cache
from weftrace.flops.runtime.models.deepseek import DeepSeek
from weftrace.flops.runtime.models.experts import Experts
from weftrace.flops.runtime.models.gpt2 import Gpt2
from weftrace.flops.runtime.models.llama import Llama

PHASES = ("train", "prefill", "decode")


def build_model(
    config: ModelConfig | str,
    *,
    device: torch.device | str = "meta",
    dtype: torch.dtype | None = None,
    attention: str = "sdpa",
    experts: str = "grouped_mm",
    routing: str = "balanced",
    fp8_linears: bool = False,
) -> nn.Module:
    """The model with random weights; on a meta device with none, whatever its size.

    config: a configuration, or a name that `weftrace.facts.model_config` knows.
    dtype: of the parameters; None: FP32 for BERT and GPT-2, BF16 for the others, as they were published.
    attention: "sdpa" or "eager". experts: "grouped_mm", "bmm" or "eager". routing: "balanced" (the same on every
        device) or "learned" (by the gate, which knows nothing). fp8_linears: linear layers and experts of llama and
        deepseek in FP8, one byte a parameter; embedding, head, gate, norms and MLA's kv_b stay. Forward alone.
    Raises `FlopsError` for an unknown name or choice, and for a model whose numbers alone are known.
    """
    if isinstance(config, str):
        config = model_config(config)
    refuse_what_is_not_built(config)
    if dtype is None:
        dtype = torch.float32 if config.family in ("bert", "gpt2") else torch.bfloat16
    where: dict[str, Any] = {"device": torch.device(device), "dtype": dtype}
    if config.family in ("bert", "gpt2"):
        if fp8_linears:
            raise SpecError(f"{config.name}: FP8 linear layers are built for the families llama and deepseek alone")
        return Bert(config, attention, **where) if config.family == "bert" else Gpt2(config, attention, **where)
    kind = DeepSeek if config.family == "deepseek" else Llama
    return kind(config, attention, experts, routing, fp8_linears, **where)


def model_inputs(
    config: ModelConfig | str,
    batch: int,
    seq_len: int,
    *,
    phase: str = "train",
    context: int = 0,
    device: torch.device | str = "meta",
    dtype: torch.dtype | None = None,
    masked_positions: int | None = None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of one forward of the model that `build_model` makes.

    batch: sequences or requests. seq_len: new tokens of each: 1 in decode, or a few where tokens are guessed ahead.
    context: decode: positions that the last new token attends to, itself among them. Prefill: tokens that are in the
        cache already, before the seq_len new ones.
    dtype: of the cache, as `build_model` has it. masked_positions: BERT's number of predicted positions in the whole
        batch; None: all of them.
    Raises `FlopsError` where these do not fit the phase or the model.
    """
    if isinstance(config, str):
        config = model_config(config)
    _check(config, batch, seq_len, phase, context, masked_positions)
    tokens = torch.zeros(batch, seq_len, dtype=torch.long, device=device)
    if config.family == "bert":
        if masked_positions is None:
            return (tokens,), {}
        return (tokens, torch.arange(masked_positions, device=device)), {}
    if phase == "train":
        return (tokens,), {}
    if dtype is None:
        dtype = torch.float32 if config.family == "gpt2" else torch.bfloat16
    start = context - seq_len if phase == "decode" else context
    cache = make_cache(
        config,
        batch,
        start=start,
        length=start + seq_len,
        absorbed=phase == "decode",
        device=device,
        dtype=dtype,
    )
    return (tokens,), {"cache": cache, "logits_to_keep": 0 if phase == "decode" else 1}


def run_phase(
    model: nn.Module,
    config: ModelConfig | str,
    *,
    phase: str,
    batch: int,
    seq_len: int,
    context: int = 0,
    masked_positions: int | None = None,
) -> Any:
    """Run the phase once and return the outputs: the forward without gradients, or in "train" with loss and backward.

    Arguments as of `model_inputs`; device and dtype are the model's.
    """
    # The embedding's: the linear layers may be in FP8.
    like = next(parameter for parameter in model.parameters() if parameter.dtype != torch.float8_e4m3fn)
    args, kwargs = model_inputs(
        config,
        batch,
        seq_len,
        phase=phase,
        context=context,
        device=like.device,
        dtype=like.dtype,
        masked_positions=masked_positions,
    )
    if phase != "train":
        with torch.no_grad():
            return model(*args, **kwargs)
    if not isinstance(model, (Bert, CausalModel)):
        raise FlopsError(f"run_phase() takes a model that build_model() made, not {type(model).__name__}")
    outputs = model(*args, **kwargs)
    torch.autograd.backward(model.loss(outputs))
    return outputs


def active_fraction(model: nn.Module) -> dict[str, float]:
    """Parameter path -> the share of it that one token uses, for the parameters of routed experts: top-k / experts.

    Every other parameter is used whole and is not listed. See `hf.hf_active_fraction` for models of Hugging Face.
    """
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        if isinstance(module, Experts):
            share = module.top_k / module.num_experts
            found.update((f"{path}.{name}", share) for name, _ in module.named_parameters(recurse=False))
    return found


def _check(
    config: ModelConfig, batch: int, seq_len: int, phase: str, context: int, masked_positions: int | None
) -> None:
    name = config.name
    if phase not in PHASES:
        raise SpecError(f"phase {phase!r} is unknown; choose from {', '.join(PHASES)}")
    if batch < 1 or seq_len < 1 or context < 0:
        raise SpecError(
            f"{name}: batch {batch} and sequence {seq_len} must be at least 1, context {context} at least 0"
        )
    if config.family == "bert":
        if phase == "decode" or context:
            raise SpecError(f"{name} has no cache: it cannot decode; use phase 'prefill' for its forward")
        if masked_positions is not None and not 1 <= masked_positions <= batch * seq_len:
            raise SpecError(f"{name}: masked_positions {masked_positions} is not within 1 .. {batch * seq_len}")
    elif masked_positions is not None:
        raise SpecError(f"{name} predicts every position: masked_positions is for BERT")
    if phase == "decode" and context < seq_len:
        raise SpecError(
            f"{name}: decode needs a context of at least its {seq_len} new tokens, which count in it; it is {context}"
        )
    if phase == "train" and context:
        raise SpecError(f"{name}: training has no cache; context must be 0, not {context}")
    total = context if phase == "decode" else context + seq_len
    if total > config.max_positions and config.family in ("bert", "gpt2"):
        raise SpecError(f"{name} has {config.max_positions} positions, fewer than {total}")
