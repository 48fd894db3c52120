"""`weftrace pipeline compare`: all schedules on one model."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.pipeline.cli.options import Boundary, CostsFile, Devices, MicroBatches, Stages, costs_from

EPILOG = """[bold]Examples[/bold]

weftrace pipeline compare --stages 8 --micro-batches 20                  the published table, simulated and exact

weftrace pipeline compare --devices 8 --micro-batches 32 --memory-cap 9  on equal devices, which have room for 9

weftrace pipeline compare --stages 8 --micro-batches 20 --costs costs.json -o compare.html

costs.json may be as short as {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}"""


def command(
    micro_batches: MicroBatches,
    stages: Stages = None,
    devices: Devices = None,
    costs: CostsFile = None,
    memory_cap: Annotated[
        float | None,
        typer.Option("--memory-cap", help="Activations of a micro-batch that a device has room for.", metavar="N"),
    ] = None,
    schedules: Annotated[
        list[str] | None,
        typer.Option("--schedule", help="Only this one, repeatable: 1f1b, zbv, dualpipe …", metavar="NAME"),
    ] = None,
    boundary: Boundary = "barrier",
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Simulate every schedule on one model: step, bubble against its laws, memory."""
    from weftrace.pipeline.comparing.comparison import compare
    from weftrace.pipeline.outputs import COMPARISON

    wanted = outputs.wanted(output, writes=COMPARISON, inputs=[] if costs is None else [costs], json=json, quiet=quiet)
    if (stages is None) == (devices is None):
        raise typer.BadParameter(
            "give one of the two: what all schedules have equally many of", param_hint="--stages, --devices"
        )
    with outputs.progress_bar("simulating schedules") as on_progress:
        comparison = compare(
            costs_from(costs),
            num_micro_batches=micro_batches,
            num_stages=stages,
            num_devices=devices,
            families=schedules or None,
            boundary=boundary,
            memory_cap=memory_cap,
            on_progress=on_progress,
        )
    outputs.deliver(comparison, COMPARISON, wanted)
