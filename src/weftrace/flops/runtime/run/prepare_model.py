"""A model and all that one step of it takes, from a `RunSpec`: built-in ones, Hugging Face's, the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from weftrace.errors import SpecError
from weftrace.facts.models import model_config
from weftrace.flops.run_spec import InputSpec, RunSpec, model_kind
from weftrace.flops.runtime.models.build import active_fraction, build_model, model_inputs
from weftrace.flops.runtime.models.experts import Experts
from weftrace.flops.runtime.models.hf import hf_active_fraction, hf_inputs, hf_model
from weftrace.flops.runtime.profile import summed
from weftrace.flops.runtime.run.device_room import check_room, usable_device
from weftrace.flops.runtime.run.hf_config import read_config
from weftrace.flops.runtime.run.load_model import Loaded, load_model, make_inputs, needs_input, told_in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A model and all that a step of it takes. loss: from its outputs to a scalar. mode: the context of a step."""

    model: nn.Module
    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    loss: Callable[[Any], torch.Tensor] = summed
    active: Mapping[str, float] = field(default_factory=dict)
    samples: int | None = None
    tokens: int | None = None
    notes: tuple[str, ...] = ()
    loaded: Loaded | None = None

    def mode(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.loaded is None else self.loaded.mode()


# -- models by name


def built_in(spec: RunSpec) -> Ready:
    """One of weftrace's own models, by name. Raises `SpecError` where sizes, phase or dtype do not fit it."""
    config = model_config(spec.model)
    device = device_of_spec(spec)
    fp8 = spec.dtype == "fp8"
    if fp8 and spec.runs_backward:
        raise SpecError(f"{config.name}: FP8 linear layers have no backward in torch; leave --dtype fp8 to serving")
    dtype = None if fp8 else _dtype(spec)
    batch, seq = _batch_and_seq(spec, config.name)
    with told_in_words(f"{config.name} cannot be built on {device}"):
        model = build_model(
            config, device=device, dtype=dtype, attention=spec.attention, experts=spec.experts, fp8_linears=fp8
        )
    active = active_fraction(model)
    notes = ["routing is balanced: every expert gets as many rows as any other"] if active else []
    notes += split_experts(model, spec.parallel.expert)
    notes += _whole_notes(spec)
    floats = next(p.dtype for p in model.parameters() if p.dtype.is_floating_point and p.element_size() > 1)
    check_room(batch, seq, device)
    with told_in_words(f"{config.name}: its inputs cannot be made on {device}"):
        args, kwargs = model_inputs(
            config,
            batch,
            seq,
            phase=spec.phase or "train",
            context=spec.context,
            device=device,
            dtype=floats,
            masked_positions=spec.masked_positions,
        )
    return Ready(
        model=model,
        name=config.name,
        args=args,
        kwargs=kwargs,
        loss=getattr(model, "loss", summed),
        active=active,
        samples=batch,
        tokens=batch * seq,
        notes=tuple(notes),
    )


def from_config(spec: RunSpec, *, plain: bool = False, masked: bool = True) -> Ready:
    """A model of Hugging Face from its config.json or the folder of one; plain, masked: as `hf_model` and `hf_inputs`
    have them. Raises `SpecError` as those do."""
    path = Path(spec.model)
    name = path.parent.name or path.name if path.name == "config.json" else path.stem
    config = read_config(spec.model)
    device = device_of_spec(spec)
    dtype = _dtype(spec) or torch.bfloat16
    batch, seq = _batch_and_seq(spec, spec.model)
    if spec.masked_positions is not None:
        raise SpecError(f"{spec.model}: --masked-positions is for weftrace's own BERT models")
    model = hf_model(config, device=device, dtype=dtype, attention=spec.attention, experts=spec.experts, plain=plain)
    check_room(batch, seq, device)
    with told_in_words(f"{spec.model}: its inputs cannot be made on {device}"):
        kwargs = hf_inputs(model, batch, seq, phase=spec.phase or "train", context=spec.context, masked=masked)
    return Ready(
        model=model,
        name=name or type(model).__name__,
        args=(),
        kwargs=kwargs,
        active=hf_active_fraction(model),
        samples=batch,
        tokens=batch * seq,
        notes=(*_whole_notes(spec), *_not_split(spec), *_other_attention(spec, model, name)),
    )


def _other_attention(spec: RunSpec, model: nn.Module, name: str) -> list[str]:
    """What is said where transformers has not the attention that was asked for: an eager one stands in."""
    is_eager = getattr(model.config, "_attn_implementation", None) == "eager"
    return [f"{name} has no attention {spec.attention!r} in transformers: eager ran"] * (
        is_eager and spec.attention != "eager"
    )


def split_experts(model: nn.Module, expert_ranks: int) -> list[str]:
    """Leave one rank's part of the routed experts of a built-in model on the meta device; returns notes for the report.

    Under balanced routing a rank gets as many rows from the others as it sends: the rows stay, the weights shrink.
    Raises `SpecError` where the ranks do not divide the experts, or the model has values.
    """
    if expert_ranks == 1:
        return []
    found = [module for module in model.modules() if isinstance(module, Experts)]
    if not found:
        raise SpecError("--parallel ep=… is for models with experts")
    for experts in found:
        if not experts.gate_up.is_meta:
            raise SpecError("one rank's experts are counted on the meta device alone: --device meta")
        if experts.num_experts % expert_ranks:
            raise SpecError(f"{expert_ranks} expert ranks do not divide {experts.num_experts} experts")
        kept = experts.num_experts // expert_ranks
        for name in ("gate_up", "down"):
            whole: nn.Parameter = getattr(experts, name)
            setattr(experts, name, nn.Parameter(whole.detach()[:kept].clone(), requires_grad=whole.requires_grad))
        experts.num_experts = kept
    kept = found[0].num_experts
    return [
        f"counted is one of {expert_ranks} expert ranks, with {kept} experts a layer and as many rows as it sends; "
        "dispatch and combine are not in it"
    ]


def _whole_notes(spec: RunSpec) -> list[str]:
    """What is said where the counted model is not one GPU's part."""
    parallel = spec.parallel
    ranks = parallel.tensor * parallel.pipeline * parallel.context
    return [f"counts are of the whole model, not of one of the {ranks} GPUs that share it"] if ranks > 1 else []


def _not_split(spec: RunSpec) -> list[str]:
    return ["the experts are all on this rank: --parallel ep splits those of built-in models"] * (
        spec.parallel.expert > 1
    )


def _batch_and_seq(spec: RunSpec, name: str) -> tuple[int, int]:
    """From --input 80x128, or --batch and --seq."""
    batch, seq = spec.batch, spec.seq
    if spec.inputs:
        if len(spec.inputs) > 1 or len(spec.inputs[0].shape) != 2:
            raise SpecError(f"{name} takes one input, BATCHxSEQUENCE: --input 8x512")
        given = spec.inputs[0]
        if given.name not in ("", "tokens", "input_ids"):
            raise SpecError(f"{name} has no input {given.name!r} to set; its tokens are --input BATCHxSEQUENCE: 8x512")
        if given.dtype not in ("", "int64"):
            raise SpecError(f"{name} takes token ids, not {given.dtype}; --dtype sets that of its parameters")
        shape = given.shape
        batch = shape[0] if batch is None else batch
        seq = shape[1] if seq is None else seq
    if seq is None:
        if spec.phase != "decode":
            raise SpecError(f"{name}: how many tokens? Say --input 1x4096 (batch x tokens), or --seq 4096")
        seq = 1
    return 1 if batch is None else batch, seq


def _dtype(spec: RunSpec) -> torch.dtype | None:
    if spec.dtype is None:
        return None
    if spec.dtype == "fp8":
        raise SpecError("FP8 linear layers are built for weftrace's own llama, qwen, mixtral and deepseek models alone")
    dtype: torch.dtype = getattr(torch, spec.dtype)
    if not dtype.is_floating_point:
        raise SpecError(f"a model's parameters are floating-point numbers, not {spec.dtype}")
    return dtype


def device_of_spec(spec: RunSpec) -> torch.device:
    """Where to run it. Raises `SpecError` for a device that torch does not know or cannot use here."""
    if spec.device is None:
        if model_kind(spec.model) != "user":
            return torch.device("meta")
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return usable_device(spec.device)


# -- the user's own


def users_own(spec: RunSpec, device: torch.device, *, fake: bool) -> Ready:
    """The user's model, by module or file; fake: on fake tensors. Raises `SpecError`, caused by what theirs raised."""
    if spec.phase in ("prefill", "decode") or spec.context:
        raise SpecError(
            f"{spec.model}: phases and --context are for models by name; use --backward for a training step"
        )
    if spec.masked_positions is not None:
        raise SpecError(f"{spec.model}: --masked-positions is for weftrace's own BERT models")
    if (spec.attention, spec.experts) != ("sdpa", "grouped_mm"):  # those of a RunSpec that says nothing
        raise SpecError(f"{spec.model}: --attention and --experts are for models by name and Hugging Face configs")
    loaded = load_model(spec.model, device=device, dtype=_dtype(spec), fake=fake)
    inputs = with_batch(spec)
    if not inputs and needs_input(loaded.model):
        raise SpecError(
            f"{spec.model}: what does its forward take? Give each tensor with --input, 8x3x224x224 or input_ids=8x512"
        )
    with loaded.mode():
        args, kwargs, notes = make_inputs(loaded.model, inputs, device=loaded.device, dtype=_dtype(spec))
    return Ready(
        model=loaded.model,
        name=type(loaded.model).__name__,
        args=args,
        kwargs=kwargs,
        notes=notes,
        loaded=loaded,
    )


def with_batch(spec: RunSpec) -> tuple[InputSpec, ...]:
    """A user's inputs with --batch as their first size and --seq as their second."""
    if not spec.inputs and spec.batch is not None and spec.seq is not None:
        return (InputSpec(shape=(spec.batch, spec.seq)),)
    changed = []
    for one in spec.inputs:
        shape = list(one.shape)
        for at, size in enumerate((spec.batch, spec.seq)):
            if size is not None:
                if len(shape) <= at:
                    raise SpecError(
                        f"the input of shape {one.shape} has no dimension {at} that --batch or --seq could set"
                    )
                shape[at] = size
        changed.append(replace(one, shape=tuple(shape)))
    return tuple(changed)
