"""Models of Hugging Face from a configuration alone: no download, no weights. transformers stays optional.

On a meta device three parts of transformers need help, and get it here (as of 5.23), through its own registries:
it looks at values to make an attention mask, so that one is handed in or none made; "sdpa" would fall apart into
products over all pairs, so that the fused operators are called by name, as in `models.attention`; and the loop over
experts asks for the values of the routing, so that another loop gives every expert as many rows.
"""

from __future__ import annotations

import os
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from weftrace.errors import FlopsError, SpecError
from weftrace.flops.runtime.models.attention import Attention
from weftrace.flops.runtime.models.hf_cache import remembered
from weftrace.flops.runtime.run.hf_config import find_transformers, read_config

_NAME = "weftrace_meta"
_EXPERTS = {"grouped_mm": "grouped_mm", "bmm": "batched_mm", "batched_mm": "batched_mm", "eager": "eager"}


def hf_model(
    source: Any,
    *,
    device: torch.device | str = "meta",
    dtype: torch.dtype = torch.bfloat16,
    attention: str = "sdpa",
    experts: str = "grouped_mm",
    plain: bool = False,
) -> nn.Module:
    """The model of a configuration, with random weights; with none on a meta device.

    source: a config.json, a folder that holds one, or a configuration object of transformers. The class is the one that
        the configuration names first, else a causal LM (for encoders: all pre-training heads).
    attention: "sdpa" or "eager". experts: "grouped_mm", "bmm" (every row with a copy of its expert's weights, as
        transformers does it) or "eager"; of no meaning without experts. plain: transformers as it is, on a meta device
        too, with the attention and the experts that the model has where those asked for do not fit it.
    Raises `FlopsError` where transformers is missing, or the configuration cannot be read or built.
    """
    transformers = find_transformers()
    if attention not in ("sdpa", "eager"):
        raise SpecError(f"attention {attention!r} is unknown; choose from sdpa, eager")
    if experts not in _EXPERTS:
        raise SpecError(f"experts {experts!r} is unknown; choose from grouped_mm, bmm, eager")
    config = _config(source)
    device = torch.device(device)
    options: dict[str, Any] = {"dtype": dtype, "attn_implementation": attention}
    if getattr(config, "num_experts_per_tok", None):
        options["experts_implementation"] = _EXPERTS[experts]
    if plain or device.type != "meta":
        return _plain_model(transformers, config, device, options)
    _register()
    if attention == "sdpa":
        options["attn_implementation"] = _NAME
    if options.get("experts_implementation") == "eager":
        options["experts_implementation"] = _NAME
    try:
        with device:
            model: nn.Module = _class_of(transformers, config)._from_config(config, **options)
    except (ValueError, KeyError, TypeError, ImportError) as error:
        raise FlopsError(f"transformers cannot build {type(config).__name__}: {error}") from error
    return model.train()


def hf_inputs(
    model: nn.Module, batch: int, seq_len: int, *, phase: str = "train", context: int = 0, masked: bool = True
) -> dict[str, Any]:
    """Keyword arguments of one forward, on the model's device. Phases and context as of `models.model_inputs`.

    No attention mask: every token is real. masked: but in training on a meta device, where one that
    has no values stands for the causal one. What is remembered of a context: see `hf_cache`.
    """
    if phase not in ("train", "prefill", "decode"):
        raise SpecError(f"phase {phase!r} is unknown; choose from train, prefill, decode")
    if phase == "decode" and context < seq_len:
        raise SpecError(f"decode needs a context of at least {seq_len}, its new tokens; it is {context}")
    if phase == "train" and context:
        raise SpecError(f"training has no cache; context must be 0, not {context}")
    device = next(model.parameters()).device
    inputs: dict[str, Any] = {"input_ids": torch.zeros(batch, seq_len, dtype=torch.long, device=device)}
    if not _is_causal(model):
        if phase == "decode" or context:
            raise SpecError(f"{type(model).__name__} is an encoder without a cache; use phase 'prefill'")
        return inputs
    inputs["use_cache"] = phase != "train"
    if phase == "train":
        if (
            device.type == "meta" and masked
        ):  # without a mask and a cache, transformers looks for packed sequences: at values
            mask = torch.full((1, 1, seq_len, seq_len), float("-inf"), dtype=torch.bfloat16, device=device)
            inputs["attention_mask"] = mask.triu(1)
        return inputs
    start = context - seq_len if phase == "decode" else context
    inputs |= remembered(model, batch, start, seq_len)
    if phase == "prefill":
        inputs["logits_to_keep"] = 1
    return inputs


def hf_run_phase(model: nn.Module, *, phase: str, batch: int, seq_len: int, context: int = 0) -> Any:
    """Run the phase once: the forward without gradients; "train": with a loss of every position and its backward."""
    inputs = hf_inputs(model, batch, seq_len, phase=phase, context=context)
    if phase != "train":
        with torch.no_grad():
            return model(**inputs)
    outputs = model(**inputs)
    loss: Tensor | None = None
    for name in ("logits", "prediction_logits", "seq_relationship_logits"):
        logits = getattr(outputs, name, None)
        if isinstance(logits, Tensor):
            flat = logits.flatten(0, -2).float()
            targets = torch.zeros(len(flat), dtype=torch.long, device=flat.device)
            part = nn.functional.cross_entropy(flat, targets)
            loss = part if loss is None else loss + part
    if loss is None:
        raise FlopsError(f"{type(model).__name__} returns no logits; run its forward and backward yourself")
    torch.autograd.backward(loss)
    return outputs


def hf_active_fraction(model: nn.Module) -> dict[str, float]:
    """Path of a routed expert's parameter -> share of it that a token uses, top-k / experts. The rest is used whole."""
    found: dict[str, float] = {}
    for path, module in model.named_modules():
        weight = getattr(module, "gate_up_proj", None)
        top_k = getattr(getattr(module, "config", None), "num_experts_per_tok", None)
        if isinstance(weight, nn.Parameter) and weight.ndim == 3 and top_k:
            share = top_k / weight.shape[0]
            found.update((f"{path}.{name}", share) for name, _ in module.named_parameters(recurse=False))
    return found


# -- transformers


def _plain_model(transformers: Any, config: Any, device: torch.device, options: dict[str, Any]) -> nn.Module:
    """The first that can be built: as asked, with eager attention, with the experts that the model has."""
    tried: list[dict[str, Any]] = [options, options | {"attn_implementation": "eager"}]
    tried += [{name: value for name, value in each.items() if name != "experts_implementation"} for each in tried]
    for number, each in enumerate(tried, 1):
        try:
            with device:
                model: nn.Module = _class_of(transformers, config)._from_config(deepcopy(config), **each)
            return model.train()
        except (ValueError, KeyError, TypeError, ImportError) as error:
            if number == len(tried):
                raise FlopsError(f"transformers cannot build {type(config).__name__}: {error}") from error
    raise AssertionError("the last attempt returns or raises")


def _config(source: Any) -> Any:
    if not isinstance(source, (str, os.PathLike)):
        if not hasattr(source, "model_type"):
            raise FlopsError(f"{source!r} is neither a configuration of transformers nor a path to a config.json")
        return source
    return read_config(os.fspath(source))


def _class_of(transformers: Any, config: Any) -> Any:
    for name in getattr(config, "architectures", None) or ():
        found = getattr(transformers, name, None)
        if found is not None:
            return found
    masked = transformers.MODEL_FOR_MASKED_LM_MAPPING
    for mapping in (transformers.MODEL_FOR_PRETRAINING_MAPPING,) if type(config) in masked else ():
        if type(config) in mapping:
            return mapping[type(config)]
    if type(config) in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
        return transformers.MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    raise FlopsError(f"{type(config).__name__} names no architecture, and transformers has no causal LM for it")


def _is_causal(model: nn.Module) -> bool:
    config = getattr(model, "config", None)
    return type(config) not in find_transformers().MODEL_FOR_MASKED_LM_MAPPING


def _register() -> None:
    """Tell transformers of the parts that work without values: new names in its registries, its own are unchanged."""
    from transformers import AttentionInterface
    from transformers.integrations.moe import ExpertsInterface
    from transformers.masking_utils import AttentionMaskInterface

    AttentionInterface.register(_NAME, _attention)
    AttentionMaskInterface.register(_NAME, _no_mask)
    ExpertsInterface.register(_NAME, _looped_experts)


def _no_mask(*args: Any, **kwargs: Any) -> None:
    return None


def _attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> tuple[Tensor, None]:
    """transformers' interface: heads first in, sequence first out."""
    window = options.get("sliding_window")
    if window and window < key.shape[2]:
        raise FlopsError(
            f"{type(module).__name__} looks back {window} of {key.shape[2]} positions, and no fused kernel for that is "
            "called on a meta device: use attention='eager', which counts every pair"
        )
    causal = options.get("is_causal")
    if causal is None:
        causal = getattr(module, "is_causal", True)
    core = Attention("sdpa", causal=causal, scale=options.get("scaling"))
    return core(query, key, value).transpose(1, 2), None


def _looped_experts(self: Any, hidden_states: Tensor, top_k_index: Tensor, top_k_weights: Tensor) -> Tensor:
    """The loop over experts with each as many rows as any other, within one."""
    top_k = top_k_index.shape[-1]
    order = top_k_index.flatten().argsort()
    rows = hidden_states[order // top_k]
    whole, more = divmod(len(rows), self.num_experts)
    parts = torch.split(rows, [whole + (expert < more) for expert in range(self.num_experts)])
    outputs = []
    for part, up, down in zip(parts, self.gate_up_proj.unbind(), self.down_proj.unbind(), strict=True):
        if len(part):
            hidden = self._apply_gate(nn.functional.linear(part, up))
            outputs.append(nn.functional.linear(hidden, down))
    out = torch.cat(outputs) * top_k_weights.flatten()[order, None]
    return torch.zeros_like(hidden_states).index_add_(0, order // top_k, out.to(hidden_states.dtype))
