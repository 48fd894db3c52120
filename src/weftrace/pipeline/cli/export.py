"""`weftrace pipeline export`: a schedule as settings of a training framework."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import COMPLETES, ScheduleRequest, schedule_of_request
from weftrace.pipeline.exports.values import Framework

EPILOG = """[bold]Examples[/bold]

weftrace pipeline export interleaved --devices 8 --micro-batches 32 --layers 64 --to megatron

weftrace pipeline export zbv --devices 4 --micro-batches 12 --layers 32 --to torchtitan -o zbv.csv

weftrace pipeline export 1f1b --stages 8 --micro-batches 32 --to deepspeed

weftrace pipeline export choice.txt --to torchtitan -o choice.csv    of recommend ... -o choice.txt

A schedule that the framework does not run is refused, with the first action that it runs otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(ScheduleRequest):
    """A schedule, and the framework that is to run it."""

    framework: Annotated[Framework, Option("Which framework's settings.", flags=("--to",))]
    layers: Annotated[
        str | None,
        Option('Of the model, dealt out evenly: 64; or of each stage: "2,2,1", "13 of 2, 35 of 1".', metavar="LAYERS"),
    ] = None


def run(request: Request, to: outputs.Destination) -> None:
    """Print the settings by which Megatron-LM, torchtitan or DeepSpeed runs a schedule."""
    from weftrace.pipeline.exports.deepspeed import to_deepspeed
    from weftrace.pipeline.exports.megatron import to_megatron
    from weftrace.pipeline.exports.torchtitan import to_torchtitan
    from weftrace.pipeline.exports.values import layers_of_stages
    from weftrace.pipeline.outputs import EXPORT
    from weftrace.pipeline.schedule import NOTE_OF_LAYERS

    wanted = to.wanted(writes=EXPORT, inputs=[path for path in (request.file,) if path is not None])
    schedule, _ = schedule_of_request(request)
    notes = (note.removeprefix(NOTE_OF_LAYERS) for note in schedule.notes if note.startswith(NOTE_OF_LAYERS))
    text = next(notes, None) if request.layers is None else request.layers
    layers = () if text is None else layers_of_stages(text, schedule.num_stages)
    if request.framework == "torchtitan":
        csv = next((path for path in wanted.paths if path.lower().endswith(".csv")), "schedule.csv")
        export = to_torchtitan(schedule, layers, csv=csv)
    else:
        export = (to_megatron if request.framework == "megatron" else to_deepspeed)(schedule, layers)
    outputs.deliver(export, EXPORT, wanted)


command = command_of((Request, outputs.Destination), run, completes=COMPLETES)
