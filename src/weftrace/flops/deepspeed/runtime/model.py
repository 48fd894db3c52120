"""Which module does a program train? From the modules that it called and the optimizer that took a step."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.optim import Optimizer


class Together(nn.Module):
    """Several models that one optimizer trains, called one after another by the program itself."""

    def __init__(self, modules: list[nn.Module]) -> None:
        super().__init__()
        for module in modules:
            self._modules[_free_name(self._modules, type(module).__name__)] = module


def trained_by(optimizer: Optimizer, called: list[nn.Module]) -> nn.Module:
    """Of the modules that were called, the one that holds the optimizer's parameters; several are put `Together`.

    Optimizers that work on copies of the parameters (a flat buffer, FP32 masters) hold none of them: all that were
    called count then.
    """
    wanted = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    owners = [module for module in called if any(id(p) in wanted for p in module.parameters())] or called
    inner: list[nn.Module] = []
    for module in map(unwrapped, owners):
        if not any(module is other for other in inner):
            inner.append(module)
    outermost = [m for m in inner if not any(m is not o and any(m is part for part in o.modules()) for o in inner)]
    return outermost[0] if len(outermost) == 1 else Together(outermost)


def unwrapped(module: nn.Module) -> nn.Module:
    """The model inside wrappers that only pass calls on."""
    while type(module).__name__ in ("DistributedDataParallel", "DataParallel", "DeepSpeedEngine"):
        inner = getattr(module, "module", None)
        if not isinstance(inner, nn.Module):
            break
        module = inner
    return module


def is_compiled(model: nn.Module) -> bool:
    """Whether torch.compile was applied to the model or a module of it."""
    return any(
        type(module).__name__ == "OptimizedModule" or getattr(module, "_compiled_call_impl", None) is not None
        for module in model.modules()
    )


def is_named(module: nn.Module, name: str) -> bool:
    """Whether `name` is the class, "GPT", or ends its dotted name: "my.module.GPT"."""
    full = f"{type(module).__module__}.{type(module).__qualname__}"
    return full == name or full.endswith(f".{name}")


def class_of(module: nn.Module | None) -> str:
    """What to call a model in a message."""
    if isinstance(module, Together):
        return " and ".join(type(part).__name__ for part in module.children())
    return type(module).__name__


def _free_name(taken: Any, name: str) -> str:
    number = 2
    free = name
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
