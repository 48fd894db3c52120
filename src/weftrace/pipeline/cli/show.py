"""`weftrace pipeline show`: one schedule in time, drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.completion import SCHEDULES, among
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import (
    BOUNDARY,
    CostsFile,
    Devices,
    MaybeMicroBatches,
    Stages,
    costs_from,
    schedule_from,
)

if TYPE_CHECKING:
    from weftrace.pipeline.schedule import Schedule

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 8 --micro-batches 20                       in the terminal

weftrace pipeline show zbv --devices 4 --micro-batches 12 -o zbv.svg -o zbv.html    a picture, a page that zooms

weftrace pipeline show 1f1b --stages 8 --micro-batches 32 --costs costs.json -o plan.json.gz

plan.json.gz opens in Perfetto, is read back by show and by slip, and holds schedule and costs. A .csv is the form of
torch.distributed.pipelining, a .txt the actions of each rank, to be edited by hand; both can be shown too."""

_FILES = (".json", ".json.gz", ".json.zst", ".csv", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A schedule, by name and size or from a file, and what its chunks cost."""

    schedule: Annotated[
        str,
        Option(
            "1f1b, zb1p, zbv, dualpipe …, or a file with a schedule: .json.gz, .csv, .txt.",
            is_argument=True,
            metavar="NAME|FILE",
        ),
    ]
    num_stages: Stages = None
    num_devices: Devices = None
    num_micro_batches: MaybeMicroBatches = None
    stages_per_rank: Annotated[
        int | None, Meta(ge=1), Option("Of interleaved schedules.", metavar="N", shows_default="2")
    ] = None
    num_slices: Annotated[
        int | None,
        Meta(ge=1),
        Option("Of a sequence, for seq1f1b.", flags=("--slices",), metavar="N", shows_default="4"),
    ] = None
    costs: CostsFile = None
    boundary: Annotated[
        Literal["barrier", "span"] | None, Option(BOUNDARY, shows_default="the file's, else barrier")
    ] = None


def run(request: Request, to: outputs.Destination) -> None:
    """Draw a schedule: which rank runs what when, where it idles, what it holds."""
    from weftrace.pipeline.outputs import SIMULATION
    from weftrace.pipeline.simulation import simulate

    name = request.schedule
    is_file = name.lower().endswith(_FILES)
    inputs = [path for path in (name if is_file else None, request.costs) if path is not None]
    wanted = to.wanted(writes=SIMULATION, inputs=inputs)
    if is_file:
        numbers = ("num_stages", "num_devices", "num_micro_batches", "stages_per_rank", "num_slices")
        if given := [field for field in numbers if getattr(request, field) is not None]:
            flag = f"--{given[0].removeprefix('num_').replace('_', '-')}"
            raise typer.BadParameter(f"{name} holds a schedule with its own numbers", param_hint=flag)
        found, saved = schedule_from(name)
    else:
        found, saved = _generated(request), None
    chosen = costs_from(request.costs) if saved is None or request.costs is not None else saved.costs
    boundary = request.boundary or ("barrier" if saved is None else saved.boundary)
    outputs.deliver(simulate(found, chosen, boundary), SIMULATION, wanted)


def _generated(request: Request) -> Schedule:
    from weftrace.pipeline.generators.families import family_of, generate

    family_of(request.schedule)
    if request.num_stages is None and request.num_devices is None:
        raise typer.BadParameter(
            "give one of the two, how large the pipeline is: for example --stages 8", param_hint="--stages, --devices"
        )
    if request.num_micro_batches is None:
        raise typer.BadParameter("say how many a step has", param_hint="--micro-batches")
    options = {name: getattr(request, name) for name in ("stages_per_rank", "num_slices")}
    return generate(
        request.schedule,
        num_ranks=request.num_devices,
        num_stages=request.num_stages,
        num_micro_batches=request.num_micro_batches,
        **{name: value for name, value in options.items() if value is not None},
    )


command = command_of((Request, outputs.Destination), run, completes={"schedule": among(*SCHEDULES)})
