"""A schedule as torchtitan's configuration, which loads it from torch's CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence

from weftrace.pipeline.exports.values import Export, Setting, need_layers, refusal
from weftrace.pipeline.notation import to_torch_csv
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import Schedule

TITLE = "torchtitan"
VERSION = "0.3.0"


def to_torchtitan(schedule: Schedule, layers: Sequence[int] = (), *, csv: str = "schedule.csv") -> Export:
    """torchtitan's `ParallelismConfig`. layers: of each stage; empty where the number of the model's layers is not
    known. csv: the path of the schedule's CSV, as torchtitan is to open it.

    Raises `ScheduleError` for what torch's CSV cannot say, for stages that torchtitan would put on other ranks, and for
    more than two stages per rank without layers; and for one rank, on which torchtitan runs no pipeline.
    """
    check(schedule)
    if schedule.num_ranks == 1:
        raise refusal(schedule, TITLE, "with pipeline_parallel_degree=1 it runs no pipeline")
    text = to_torch_csv(schedule)
    ranks, turns = schedule.num_ranks, schedule.num_stages // schedule.num_ranks
    settings = [
        ("pipeline_parallel_degree", json.dumps(ranks)),
        ("pipeline_parallel_schedule", json.dumps(_with_its_placement(schedule, turns))),
        ("pipeline_parallel_schedule_csv", json.dumps(csv)),
        ("pipeline_parallel_microbatch_size", "1"),
    ]
    notes = [
        "The order is the CSV's; pipeline_parallel_schedule only decides which rank holds which stage.",
        "local_batch_size / pipeline_parallel_microbatch_size must be the schedule's number of micro-batches, "
        f"{schedule.num_micro_batches}.",
    ]
    if layers:
        need_layers(layers, schedule.num_stages)
        settings.append(("module_fqns_per_model_part", _modules(layers)))
        notes.append(
            "The names of modules are those of torchtitan's models of language: tok_embeddings, norm, lm_head."
        )
    elif turns > 2:
        raise refusal(schedule, TITLE, "without layers of each stage, it has two stages per rank at most: give layers")
    else:
        settings += [(f"pipeline_parallel_{end}_stage_less_layers", "0") for end in ("first", "last")]
    if "F&B" in schedule.actions.get_column("kind").unique():
        notes.append("torch's runtime runs an F&B as F, then B: its overlap is not there.")
    config = "".join(f"    {name}={value},\n" for name, value in settings)
    batch = ("local_batch_size", str(schedule.num_micro_batches))
    return Export(
        framework="torchtitan",
        title=TITLE,
        version=VERSION,
        schedule=schedule.name,
        settings=[Setting(name=name, value=value) for name, value in [*settings, batch]],
        text="from torchtitan.config import ParallelismConfig, TrainingConfig\n\n"
        f"parallelism = ParallelismConfig(\n{config})\ntraining = TrainingConfig({batch[0]}={batch[1]})\n",
        csv=text,
        notes=notes,
    )


def _with_its_placement(schedule: Schedule, turns: int) -> str:
    """A schedule of torch with the stages on the same ranks."""
    ranks = range(schedule.num_ranks)
    if schedule.rank_of == (tuple(ranks) * turns,):
        return "1F1B" if turns == 1 else "Interleaved1F1B"
    if schedule.rank_of == ((*ranks, *reversed(ranks)),):
        return "ZBVZeroBubble"
    raise refusal(
        schedule, TITLE, "it puts stages round the ranks, or two on each down and back up, and here they lie otherwise"
    )


def _modules(layers: Sequence[int]) -> str:
    parts, first = [], 0
    for stage, number in enumerate(layers):
        names = ["tok_embeddings"] * (stage == 0) + [f"layers.{layer}" for layer in range(first, first + number)]
        parts.append(json.dumps(names + ["norm", "lm_head"] * (stage == len(layers) - 1)))
        first += number
    return "[\n" + "".join(f"        {part},\n" for part in parts) + "    ]"
