"""What a model of Hugging Face remembers of the positions before, handed over as the model itself hands it over.

Keys and values: a cache with room for every position (of a window, for those in it), its own last, as engines set it
aside. A step writes its own positions and reads all; nothing is copied to make it longer.

States (Mamba, RWKV, xLSTM, and hybrids with attention): how they look is the model's own affair, and so is the name
under which they are passed. So a short prompt is run, uncounted, and what the model returns is given back to it under
the same name, its keys and values, if any, made longer.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from weftrace.errors import SpecError
from weftrace.flops.runtime.profile import uncounted

_NAMES = ("past_key_values", "cache_params", "state")
_PROMPT = 2  # tokens: one would be taken for a decode step


def remembered(model: nn.Module, batch: int, start: int, new: int) -> dict[str, Any]:
    """The keyword argument that holds `start` positions and takes `new` ones; none at the start of a model with states,
    which makes its own. Raises `SpecError` for a model that remembers nothing, or nothing that can be made longer."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    name = next((name for name in _NAMES if name in inspect.signature(model.forward).parameters), None)
    config: Any = model.config
    cache: Any = DynamicCache(config=config)
    if name != _NAMES[0] or any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers):
        if not start:
            return {}
        name, cache = _after_a_prompt(model, batch, cache if name == _NAMES[0] else None)
    for layer in getattr(cache, "layers", ()):
        _lengthen(layer, model, start, new)
    return {name: cache}


def _after_a_prompt(model: nn.Module, batch: int, usual: Any) -> tuple[str, Any]:
    """The name and the value of what a model returns for the next step; of `usual` where it takes that and returns none
    (RecurrentGemma, whose modules keep their states themselves)."""
    was_training = model.training
    tokens = torch.zeros(batch, _PROMPT, dtype=torch.long, device=next(model.parameters()).device)
    model.eval()
    try:
        with torch.no_grad(), uncounted():
            outputs = model(input_ids=tokens, use_cache=True)
            for name in _NAMES:
                if (cache := getattr(outputs, name, None)) is not None:
                    return name, cache
            if usual is not None:
                model(input_ids=tokens, use_cache=True, past_key_values=usual)
                return _NAMES[0], usual
    finally:
        model.train(was_training)
    raise SpecError(
        f"{type(model).__name__} returns nothing that a next step could start from, so a step after others costs what "
        "the whole sequence costs: count that, with phase 'prefill' and no context"
    )


def _lengthen(layer: Any, model: nn.Module, start: int, new: int) -> None:
    """Give one layer's keys and values, where it has any, room for all positions; its states are as long as ever."""
    from transformers import cache_utils as theirs

    if type(layer) in (theirs.LinearAttentionLayer, theirs.DummyLayer):
        return
    windowed = (theirs.DynamicSlidingWindowLayer, theirs.LinearAttentionAndSlidingWindowAttentionLayer)
    if type(layer) not in (theirs.DynamicLayer, theirs.LinearAttentionAndFullAttentionLayer, *windowed):
        raise SpecError(
            f"{type(model).__name__} remembers positions in a {type(layer).__name__}, which weftrace cannot make "
            f"{start} long without running them: count the phase 'prefill' with no context"
        )
    kept = min(start, layer.sliding_window - 1) if isinstance(layer, windowed) else start
    full = _Full(start, kept, new)
    layer.update, layer.get_seq_length, layer.get_mask_sizes = full.update, full.get_seq_length, full.get_mask_sizes
    layer.is_initialized = True


class _Full:
    """Keys and values of all positions, made when a step first writes. kept: those before it that it still sees, of
    `start`."""

    def __init__(self, start: int, kept: int, new: int) -> None:
        self.start = start
        self.kept = kept
        self.room = kept + new
        self.both: tuple[Tensor, Tensor] | None = None

    def update(self, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if self.both is None:
            self.both = _with_room(key, self.room), _with_room(value, self.room)
        for whole, part in zip(self.both, (key, value), strict=True):
            whole[:, :, self.kept :].copy_(part)
        return self.both

    def get_seq_length(self) -> int:
        return self.start

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.kept + query_length, self.start - self.kept


def _with_room(part: Tensor, room: int) -> Tensor:
    return part.new_empty(*part.shape[:2], room, part.shape[3])
