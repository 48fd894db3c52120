"""`torch.distributed.pipelining`, both ways: its stages for weftrace's runtime, weftrace's schedules for its runtime.

The classes that hold an order of actions are private in torch (`_PipelineScheduleRuntime`, `_Action`), and asked for by
name: used with torch 2.13; 2.7 cannot take F&B, nor an order whose messages it is to add.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.notation import from_torch_csv, to_torch_csv
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule

#: Schedules of torch that run their own loop, and have no order of actions to read: the families that they are.
_OF_ONE_STAGE = {"Schedule1F1B": "1f1b", "ScheduleGPipe": "gpipe"}


def modules_of_stages(
    stages: Iterable[Any], schedule: Schedule
) -> tuple[dict[int, nn.Module], dist.ProcessGroup | None]:
    """The modules of `PipelineStage`s by stage, and the group that they were made with; None for all ranks.

    Raises `ScheduleError` for what is no such stage, or has another number of stages than the schedule; for one that
    torch traced, whose values may skip stages; and for one with a `dw_builder`, which W would not call.
    """
    found: dict[int, nn.Module] = {}
    groups: list[dist.ProcessGroup | None] = []
    for stage in stages:
        if not hasattr(stage, "submod") or not hasattr(stage, "stage_index"):
            raise ScheduleError(
                "stages are a dict of modules by stage, {0: module}, or a list of torch.distributed.pipelining's "
                f"PipelineStage; {type(stage).__name__} is neither."
            )
        name = f"stage {stage.stage_index}"
        if stage.num_stages != schedule.num_stages:
            raise ScheduleError(f"{name} is one of {stage.num_stages}; {schedule.name!r} has {schedule.num_stages}.")
        if stage.stage_index in found:
            raise ScheduleError(f"{name} is given twice.")
        if hasattr(stage, "pipe_info"):
            raise ScheduleError(
                f"{name} is traced by torch.distributed.pipelining.pipeline(): its values may skip stages. Give its "
                "module by number, {%d: module}, if they do not." % stage.stage_index
            )
        if getattr(stage, "dw_builder", None) is not None:
            raise ScheduleError(
                f"{name} has a dw_builder. Here W is what weftrace separates from the backward; make the stage without "
                "one, and call defer_weight_grad in autograd functions of your own."
            )
        found[stage.stage_index] = stage.submod
        groups.append(stage.group)
    if any(group is not groups[0] for group in groups):
        raise ScheduleError("the stages of this rank were made with different groups.")
    return found, groups[0] if groups else None


def to_torch_actions(schedule: Schedule) -> dict[int, list[Any]]:
    """Rank -> its actions, as torch's `_Action`s, in order and without messages.

    Raises `ScheduleError` where the schedule cannot run, and for what torch cannot say (`to_torch_csv`).
    """
    check(schedule)
    action = _torch_schedules()._Action
    rows = to_torch_csv(schedule).splitlines()
    return {rank: [action.from_str(cell) for cell in row.split(",")] for rank, row in enumerate(rows)}


def to_torch(
    schedule: Schedule, stages: Sequence[Any], *, loss_fn: Callable[..., Any] | None = None, **options: Any
) -> Any:
    """Torch's runtime with this schedule: a `_PipelineScheduleRuntime`, to be called by its `step`.

    stages: the `PipelineStage`s of this rank. options: of torch's class, such as `scale_grads`: torch divides gradients
    by the number of micro-batches unless it is False. An F&B runs there as F, then B, unless a function of your own is
    registered for it (`register_custom_function`).

    Raises `ScheduleError` as `to_torch_actions` does, and where the stages are not those of the rank.
    """
    actions = to_torch_actions(schedule)
    runtime = _torch_schedules()._PipelineScheduleRuntime(
        list(stages), schedule.num_micro_batches, loss_fn=loss_fn, **options
    )
    wanted = sorted({stage for stage, rank in enumerate(schedule.rank_of[0]) if rank == runtime.rank})
    if (given := sorted(stage.stage_index for stage in stages)) != wanted or (
        runtime.pp_group_size != schedule.num_ranks
    ):
        raise ScheduleError(
            f"{schedule.name!r} is for {schedule.num_ranks} ranks, with stages {wanted} on rank {runtime.rank}; given "
            f"are stages {given}, in a group of {runtime.pp_group_size}."
        )
    runtime.pipeline_order = actions
    runtime._prepare_schedule_with_comms(actions)
    return runtime


def from_torch(given: Any, *, name: str | None = None) -> Schedule:
    """The schedule of one of torch's, such as `ScheduleZBVZeroBubble`, or of a dict of actions by rank.

    name: else its class. Raises `ScheduleError` for another class, and for one that has no order yet.
    """
    kind = type(given).__name__
    if family := _OF_ONE_STAGE.get(kind):
        return generate(family, num_ranks=given._num_stages, num_micro_batches=given._n_microbatches)
    order = given if isinstance(given, Mapping) else getattr(given, "pipeline_order", None)
    if not order:
        raise ScheduleError(
            f"{kind} holds no order of actions: give a schedule of torch.distributed.pipelining, with its CSV loaded "
            "if it is a _PipelineScheduleRuntime."
        )
    rows = (",".join("" if action is None else str(action) for action in order[rank]) for rank in sorted(order))
    return from_torch_csv("\n".join(rows), name=name or kind, what=f"the order of {kind}")


def _torch_schedules() -> Any:
    from torch.distributed.pipelining import schedules

    runtime = getattr(schedules, "_PipelineScheduleRuntime", None)
    if not hasattr(runtime, "_prepare_schedule_with_comms"):
        raise PipelineRunError(
            f"torch {torch.__version__} has no _PipelineScheduleRuntime that adds messages to an order of actions, as "
            "2.13 has. PipelineRuntime runs the schedule with this torch."
        )
    return schedules
