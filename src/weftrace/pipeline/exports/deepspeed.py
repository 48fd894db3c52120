"""A schedule as DeepSpeed's settings, which has one order: 1F1B (`runtime/pipe/schedule.py`, `TrainSchedule`)."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.pipeline.exports.megatron import order_of
from weftrace.pipeline.exports.values import Export, Setting, need_layers, need_plain, refusal
from weftrace.pipeline.notation import differences
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule

TITLE = "DeepSpeed"
VERSION = "0.19.8"


def to_deepspeed(schedule: Schedule, layers: Sequence[int] = ()) -> Export:
    """DeepSpeed's `PipelineModule` and configuration. layers: of each stage; empty where not known.

    Raises `ScheduleError` for other schedules than 1F1B, with the first action that is another one, and for layers that
    DeepSpeed's uniform partition deals out otherwise.
    """
    check(schedule)
    need_plain(schedule, TITLE)
    stages, many = schedule.num_stages, schedule.num_micro_batches
    if schedule.num_ranks != stages:
        raise refusal(
            schedule, TITLE, "it has one stage per rank; its DualPipeVModule runs F, then B, without F&B, I and W"
        )
    if (theirs := order_of(stages, many, 1, stages, overlaps=False)) != schedule:
        raise refusal(schedule, TITLE, f"its order is 1F1B ({differences(schedule, theirs)[0]} there)")
    if layers:
        need_layers(layers, stages)
        each, more = divmod(sum(layers), stages)
        if tuple(layers) != (uniform := (each + 1,) * more + (each,) * (stages - more)):
            raise refusal(
                schedule, TITLE, f"it takes no list of layers, and its own are {', '.join(map(str, uniform))}"
            )
    settings = [
        ("num_stages", str(stages)),
        ("partition_method", '"uniform"'),
        ("train_micro_batch_size_per_gpu", "1"),
        ("gradient_accumulation_steps", str(many)),
    ]
    return Export(
        framework="deepspeed",
        title=TITLE,
        version=VERSION,
        schedule=schedule.name,
        settings=[Setting(name=name, value=value) for name, value in settings],
        text="from deepspeed.pipe import PipelineModule\n\n"
        f'model = PipelineModule(layers, num_stages={stages}, loss_fn=loss, partition_method="uniform")\n'
        f'config = {{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": {many}}}\n',
        notes=[
            "Every entry of `layers` counts as a layer, an embedding and a head too; "
            'partition_method="parameters" balances their parameters instead.'
        ],
    )
