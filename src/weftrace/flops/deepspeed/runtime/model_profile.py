"""DeepSpeed's `get_model_profile`: one forward of a model, counted and timed by weftrace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.numbers import fold, module_lines
from weftrace.flops.deepspeed.runtime.engine import engine_sizes
from weftrace.flops.deepspeed.runtime.output import layout_of, places_of, write_text
from weftrace.flops.deepspeed.strings import macs_to_string, number_to_string, params_to_string
from weftrace.flops.deepspeed.text import deepspeed_text
from weftrace.flops.derived.account import account_of
from weftrace.flops.runtime.profile import Profile


def get_model_profile(
    model: nn.Module,
    input_shape: Sequence[int] | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    print_profile: bool = True,
    detailed: bool = True,
    module_depth: int = -1,
    top_modules: int = 1,
    warm_up: int = 1,
    as_string: bool = True,
    output_file: str | None = None,
    ignore_modules: Sequence[type[nn.Module]] | None = None,
    mode: str = "forward",
    *,
    layout: str = "present",
) -> tuple[Any, Any, Any]:
    """(FLOPs, MACs, parameters) of one forward: numbers or, with `as_string`, ("6.28 T", "3.14 TMACs", "336.23 M").

    input_shape: the model takes one tensor of this shape, zeros of its first parameter's dtype; else args and kwargs.
    warm_up: runs before the timed one; the first of them is counted, so that no time holds the cost of counting (with
    0, one run is both). mode: "forward", or "generate" for `model.generate`. The model runs in eval mode and comes
    back as it was. Raises `FlopsError` where there is no input, or mode is another.
    """
    if not isinstance(model, nn.Module):
        raise FlopsError(f"get_model_profile takes a torch.nn.Module, not {type(model).__name__}")
    chosen = layout_of(layout)
    inputs = _inputs(model, input_shape, args, kwargs or {})
    if mode not in ("forward", "generate"):
        raise FlopsError(f"get_model_profile: mode is 'forward' or 'generate', not {mode!r}")
    if warm_up < 0:
        raise FlopsError(f"get_model_profile: warm_up is a number of runs; {warm_up} is below 0")
    run: Any = model if mode == "forward" else model.generate
    opened = Profile(model, warm_up=max(0, warm_up - 1))
    with _evaluating(model), opened:
        for _ in range(warm_up + 1):
            run(*inputs, **(kwargs or {}))
            if warm_up and opened.clock is not None:
                opened.step()
            elif opened.clock is None:
                break  # nothing to time
    report = opened.report()
    account, ignored = account_of(report), places_of(model, ignore_modules or ())
    line = module_lines(account)[0]
    if print_profile:
        text = deepspeed_text(
            fold(report, ignored) if ignored else account,
            profile_step=warm_up,
            module_depth=module_depth,
            top_modules=top_modules,
            detailed=detailed,
            sizes=engine_sizes(model),
            layout=chosen,
        )
        write_text(text, output_file)
    if as_string:
        return number_to_string(line.flops), macs_to_string(line.macs), params_to_string(line.params)
    return line.flops, line.macs, line.params


def _inputs(
    model: nn.Module, shape: Sequence[int] | None, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Any, ...]:
    if shape is None:
        if not args and not kwargs:
            raise FlopsError("get_model_profile: no input; give input_shape, or args and kwargs")
        return tuple(args)
    if not isinstance(shape, (tuple, list)) or not shape or not all(isinstance(size, int) for size in shape):
        raise FlopsError(f"get_model_profile: input_shape is a tuple of sizes, as (1, 3, 224, 224), not {shape!r}")
    first = next(model.parameters(), None)
    if first is None:
        return (torch.zeros(tuple(shape)),)
    return (torch.zeros(tuple(shape), dtype=first.dtype, device=first.device),)


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
