"""`weftrace pipeline show`: one schedule in time, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import (
    BOUNDARY,
    COMPLETES,
    CostsFile,
    ScheduleRequest,
    costs_from,
    schedule_of_request,
)

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 8 --micro-batches 20                       in the terminal

weftrace pipeline show zbv --devices 4 --micro-batches 12 -o zbv.svg -o zbv.html    a picture, a page that zooms

weftrace pipeline show 1f1b --stages 8 --micro-batches 32 --costs costs.json -o plan.json.gz

plan.json.gz opens in Perfetto, is read back by show and by slip, and holds schedule and costs. A .csv is the form of
torch.distributed.pipelining, a .txt the actions of each rank, to be edited by hand; both can be shown too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(ScheduleRequest):
    """A schedule, by name and size or from a file, and what its chunks cost."""

    costs: CostsFile = None
    boundary: Annotated[
        Literal["barrier", "span"] | None, Option(BOUNDARY, shows_default="the file's, else barrier")
    ] = None


def run(request: Request, to: outputs.Destination) -> None:
    """Draw a schedule: which rank runs what when, where it idles, what it holds."""
    from weftrace.pipeline.outputs import SIMULATION
    from weftrace.pipeline.simulation import simulate

    inputs = [path for path in (request.file, request.costs) if path is not None]
    wanted = to.wanted(writes=SIMULATION, inputs=inputs)
    found, saved = schedule_of_request(request)
    chosen = costs_from(request.costs) if saved is None or request.costs is not None else saved.costs
    boundary = request.boundary or ("barrier" if saved is None else saved.boundary)
    outputs.deliver(simulate(found, chosen, boundary), SIMULATION, wanted)


command = command_of((Request, outputs.Destination), run, completes=COMPLETES)
