"""`weftrace pipeline step`: a whole step of training from what one chunk costs."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.pipeline.cli.cost_options import (
    Chunks,
    CostsFile,
    FlopsFile,
    HardwareName,
    LatencyUs,
    TraceFile,
    WeightShare,
    inputs_of,
    told_costs,
)
from weftrace.pipeline.cli.options import MicroBatches

EPILOG = """[bold]Examples[/bold]

weftrace pipeline step --trace train.json.gz --stages 16 --micro-batches 120 --ranks 2048

weftrace pipeline step --costs costs.json --schedule zbv --stages 8 --micro-batches 64 --ranks 64 --model gpt2"""

Tokens = Annotated[
    int | None,
    typer.Option("--tokens", help="Tokens of a micro-batch.", min=1, metavar="N", show_default="those of one sequence"),
]


def command(
    stages: Annotated[int, typer.Option("--stages", help="Stages into which the model is cut.", min=1, metavar="PP")],
    micro_batches: MicroBatches,
    ranks: Annotated[
        int, typer.Option("--ranks", help="GPUs in all: as many pipelines as they make.", min=1, metavar="N")
    ],
    schedule: Annotated[
        str, typer.Option("--schedule", help="Of the pipelines: 1f1b, zbv, dualpipe …", metavar="NAME")
    ] = "dualpipe",
    trace: TraceFile = None,
    costs: CostsFile = None,
    flops: FlopsFile = None,
    hardware: HardwareName = None,
    chunks: Chunks = None,
    weight_share: WeightShare = None,
    latency_us: LatencyUs = None,
    optimizer_ms: Annotated[
        float, typer.Option("--optimizer-ms", help="Time of the optimizer, after the pipeline.", min=0, metavar="MS")
    ] = 0.0,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", help="Whose FLOPs are counted (`weftrace flops models`).", metavar="NAME", show_default=False
        ),
    ] = None,
    tokens: Tokens = None,
    sequence: Annotated[
        int, typer.Option("--sequence", help="Tokens of a sequence: for attention's FLOPs.", min=1, metavar="N")
    ] = 4096,
    dtype: Annotated[str, typer.Option("--dtype", help="Whose peak MFU is of.", metavar="NAME")] = "bf16",
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Time of a whole step by part, tokens/s and MFU; beside a published step of the same shape, where there is one."""
    from weftrace.pipeline.report_outputs import STEP
    from weftrace.pipeline.steps.predicted import Run, predicted_step

    inputs = inputs_of(trace, costs, flops)
    wanted = outputs.wanted(output, writes=STEP, inputs=inputs, json=json, quiet=quiet)
    told = told_costs(
        trace=trace, costs=costs, flops=flops, hardware=hardware, num_stages=stages, chunks=chunks,
        weight_share=weight_share, latency_us=latency_us,
    )  # fmt: skip
    run = Run(
        schedule=schedule, num_stages=stages, num_micro_batches=micro_batches, num_ranks=ranks,
        optimizer_ns=round(optimizer_ms * 1e6), model=model, hardware=hardware, dtype=dtype, sequence=sequence,
        tokens_per_micro_batch=tokens,
    )  # fmt: skip
    outputs.deliver(predicted_step(told, run), STEP, wanted)
