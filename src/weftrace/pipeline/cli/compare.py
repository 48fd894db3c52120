"""`weftrace pipeline compare`: all schedules on one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import (
    COMPLETES,
    Boundary,
    CostsFile,
    Devices,
    Layers,
    MicroBatches,
    Stages,
    costs_from,
)

EPILOG = """[bold]Examples[/bold]

weftrace pipeline compare --stages 8 --micro-batches 20                  the published table, simulated and exact

weftrace pipeline compare --devices 8 --micro-batches 32 --memory-cap 9  on equal devices, which have room for 9

weftrace pipeline compare --stages 8 --micro-batches 20 --costs costs.json -o compare.html

costs.json may be as short as {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A model, and the schedules to compare on it."""

    num_micro_batches: MicroBatches
    num_stages: Stages = None
    num_devices: Devices = None
    num_layers: Layers = None
    costs: CostsFile = None
    memory_cap: Annotated[
        float | None, Option("Activations of a micro-batch that a device has room for.", metavar="N")
    ] = None
    families: Annotated[
        tuple[str, ...],
        Option("Only this one, repeatable: 1f1b, zbv, dualpipe …", flags=("--schedule",), metavar="NAME"),
    ] = ()
    boundary: Boundary = "barrier"


def run(request: Request, to: outputs.Destination) -> None:
    """Simulate every schedule on one model: step, bubble against its laws, memory."""
    from weftrace.pipeline.comparing.comparison import compare
    from weftrace.pipeline.outputs import COMPARISON

    inputs = [] if request.costs is None else [request.costs]
    wanted = to.wanted(writes=COMPARISON, inputs=inputs)
    if (request.num_stages is None) == (request.num_devices is None):
        raise typer.BadParameter(
            "give one of the two: what all schedules have equally many of", param_hint="--stages, --devices"
        )
    with outputs.progress_bar("simulating schedules") as on_progress:
        comparison = compare(
            costs_from(request.costs),
            num_micro_batches=request.num_micro_batches,
            num_stages=request.num_stages,
            num_devices=request.num_devices,
            num_layers=request.num_layers,
            families=request.families or None,
            boundary=request.boundary,
            memory_cap=request.memory_cap,
            on_progress=on_progress,
        )
    outputs.deliver(comparison, COMPARISON, wanted)


command = command_of((Request, outputs.Destination), run, completes=COMPLETES)
