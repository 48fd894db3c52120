"""What a DeepSpeed engine, or the process group, says of how the work is spread.

The engine is looked at, never imported.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from weftrace.flops.deepspeed.numbers import Sizes


def engine_sizes(model: nn.Module, engine: Any = None, *, batch: int | None = None) -> Sizes:
    """Sizes from the attributes of an engine that are there; from torch.distributed where there is none.

    engine: anything with some of world_size, dp_world_size, seq_dp_world_size, mp_world_size, has_moe_layers,
    wall_clock_breakdown(), timers(name), train_micro_batch_size_per_gpu(), gradient_accumulation_steps().
    """
    world = _number(engine, "world_size") or _world()
    tensor = _number(engine, "mp_world_size") or 1
    data = _number(engine, "dp_world_size") or _number(engine, "seq_dp_world_size") or max(1, world // tensor)
    own, spread = _expert_parameters(model)
    moe = bool(_value(engine, "has_moe_layers"))
    expert_tensor = tensor > 1 and expert_tensor_parallelism(model)
    experts = spread * (tensor if expert_tensor else 1)
    return Sizes(
        world=world,
        data=data,
        model=tensor,
        batch=_number(engine, "train_micro_batch_size_per_gpu") or batch,
        model_params=own * tensor + experts if spread else None,
        expert_params=experts,
        expert_tensor=expert_tensor if moe else None,
        bwd_s=_timer(engine, "bwd"),
        step_s=_timer(engine, "step"),
    )


def expert_tensor_parallelism(model: nn.Module) -> bool:
    """What DeepSpeed's first MoE layer says of itself; False where there is none."""
    found = (getattr(module, "enable_expert_tensor_parallelism", None) for module in model.modules())
    return bool(next((value for value in found if value is not None), False))


def _expert_parameters(model: nn.Module) -> tuple[int, int]:
    """(parameters that every rank has, expert parameters over the ranks of their group "ep_size_<ranks>")."""
    own = spread = 0
    for parameter in model.parameters():
        name, _, ranks = str(getattr(parameter, "group_name", "")).rpartition("_")
        count = int(getattr(parameter, "ds_numel", parameter.numel()))
        if name == "ep_size" and ranks.isdigit() and int(ranks):
            spread += count * int(ranks)
        else:
            own += count
    return own, spread


def _timer(engine: Any, name: str) -> float | None:
    """Seconds by an engine's timer; None where it keeps none, or its timer sums over several micro-batches."""
    timers = getattr(engine, "timers", None)
    if (
        timers is None
        or not _value(engine, "wall_clock_breakdown")
        or (_number(engine, "gradient_accumulation_steps") or 1) > 1
    ):
        return None
    milliseconds = float(timers(name).elapsed(False))
    return milliseconds / 1000.0 if milliseconds > 0 else None


def _value(engine: Any, name: str) -> Any:
    value = getattr(engine, name, None)
    return value() if callable(value) else value


def _number(engine: Any, name: str) -> int | None:
    value = _value(engine, name)
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _world() -> int:
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
