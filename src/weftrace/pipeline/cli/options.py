"""Options that several of the wing's commands have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from weftrace.pipeline.costs import Costs
    from weftrace.pipeline.schedule import Schedule
    from weftrace.pipeline.simulation import Simulation

Stages = Annotated[
    int | None, typer.Option("--stages", help="Stages into which the model is cut.", min=1, metavar="PP")
]
Devices = Annotated[
    int | None,
    typer.Option("--devices", help="Devices that the model is on, instead of --stages.", min=1, metavar="D"),
]
MicroBatches = Annotated[
    int, typer.Option("--micro-batches", help="Micro-batches of a step, over all replicas.", min=1, metavar="M")
]
CostsFile = Annotated[
    str | None,
    typer.Option(
        "--costs",
        help="JSON with the times of F, I, W and F&B of one chunk, and of messages; else F = I = W = 1, F&B = 3.",
        metavar="JSON",
        show_default=False,
    ),
]
Boundary = Annotated[
    Literal["barrier", "span"],
    typer.Option("--boundary", help="Where a step ends: barrier, for all ranks at once; span, for each by itself."),
]


def costs_from(path: str | None) -> Costs:
    """The costs of a file; without one, units: F = I = W = 1, and an F&B gains nothing."""
    from weftrace.pipeline.costs import Costs
    from weftrace.pipeline.costs_document import read_costs

    return Costs.units(FB=3) if path is None else read_costs(path)


def schedule_from(path: str) -> tuple[Schedule, Simulation | None]:
    """The schedule of a file, and the simulation that it was saved with; None for a .csv or .txt, which has none."""
    from weftrace.pipeline.document import read_simulation
    from weftrace.pipeline.notation import read_schedule

    if path.lower().endswith((".csv", ".txt")):
        return read_schedule(path), None
    simulation = read_simulation(path)
    return simulation.schedule, simulation
