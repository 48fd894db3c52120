"""`weftrace pipeline step`: a whole step of training from what one chunk costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import COMPLETES, CostsRequest, MicroBatches, costs_of_request

EPILOG = """[bold]Examples[/bold]

weftrace pipeline step --trace train.json.gz --stages 16 --micro-batches 120 --ranks 2048

weftrace pipeline step --costs costs.json --schedule zbv --stages 8 --micro-batches 64 --ranks 64 --model gpt2"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(CostsRequest):
    """The shape of a run, as `weftrace.pipeline.Run` has it, and the costs of a chunk."""

    num_stages: Annotated[
        int, Meta(ge=1), Option("Stages into which the model is cut.", flags=("--stages",), metavar="PP")
    ]
    num_micro_batches: MicroBatches
    num_ranks: Annotated[
        int, Meta(ge=1), Option("GPUs in all: as many pipelines as they make.", flags=("--ranks",), metavar="N")
    ]
    schedule: Annotated[str, Option("Of the pipelines: 1f1b, zbv, dualpipe …", metavar="NAME")] = "dualpipe"
    optimizer_ms: Annotated[float, Meta(ge=0), Option("Time of the optimizer, after the pipeline.", metavar="MS")] = 0.0
    model: Annotated[
        str | None, Option("The model that sets the FLOPs (see `weftrace flops models`).", metavar="NAME")
    ] = None
    tokens_per_micro_batch: Annotated[
        int | None,
        Meta(ge=1),
        Option("Tokens of a micro-batch.", flags=("--tokens",), metavar="N", shows_default="those of one sequence"),
    ] = None
    sequence: Annotated[int, Meta(ge=1), Option("Tokens of a sequence: for attention's FLOPs.", metavar="N")] = 4096
    dtype: Annotated[str, Option("The dtype of the peak that MFU is relative to.", metavar="NAME")] = "bf16"


def run(request: Request, to: outputs.Destination) -> None:
    """Time of a whole step by part, tokens/s and MFU; beside a published step of the same shape, where there is one."""
    from weftrace.files.values import filled
    from weftrace.pipeline.outputs import STEP
    from weftrace.pipeline.steps.predicted import Run, predicted_step

    wanted = to.wanted(writes=STEP, inputs=request.inputs())
    costs = costs_of_request(request, request.num_stages)
    shape = filled(Run, request, optimizer_ns=round(request.optimizer_ms * 1e6))
    outputs.deliver(predicted_step(costs, shape), STEP, wanted)


command = command_of((Request, outputs.Destination), run, without=("open",), completes=COMPLETES)
