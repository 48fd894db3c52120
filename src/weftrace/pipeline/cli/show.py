"""`weftrace pipeline show`: one schedule in time, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from weftrace.cli import outputs
from weftrace.pipeline.cli.options import CostsFile, Devices, Stages, costs_from, schedule_from

if TYPE_CHECKING:
    from weftrace.pipeline.schedule import Schedule

EPILOG = """[bold]Examples[/bold]

weftrace pipeline show dualpipe --stages 8 --micro-batches 20                       in the terminal

weftrace pipeline show zbv --devices 4 --micro-batches 12 -o zbv.svg -o zbv.html    a picture, a page that zooms

weftrace pipeline show 1f1b --stages 8 --micro-batches 32 --costs costs.json -o plan.json.gz

plan.json.gz opens in Perfetto, is read back by show and by slip, and holds schedule and costs. A .csv is the form of
torch.distributed.pipelining, a .txt the actions of each rank, to be edited by hand; both can be shown too."""

_FILES = (".json", ".json.gz", ".json.zst", ".csv", ".txt")


def command(
    schedule: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE", help="1f1b, zb1p, zbv, dualpipe …, or a file with a schedule: .json.gz, .csv, .txt."
        ),
    ],
    stages: Stages = None,
    devices: Devices = None,
    micro_batches: Annotated[
        int | None,
        typer.Option("--micro-batches", help="Micro-batches of a step, over all replicas.", min=1, metavar="M"),
    ] = None,
    stages_per_rank: Annotated[
        int | None,
        typer.Option("--stages-per-rank", help="Of interleaved schedules.", min=1, metavar="N", show_default="2"),
    ] = None,
    slices: Annotated[
        int | None,
        typer.Option("--slices", help="Of a sequence, for seq1f1b.", min=1, metavar="N", show_default="4"),
    ] = None,
    costs: CostsFile = None,
    boundary: Annotated[
        Literal["barrier", "span"] | None,
        typer.Option(
            "--boundary",
            help="Where a step ends: barrier, for all ranks at once; span, for each by itself.",
            show_default="the file's, else barrier",
        ),
    ] = None,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Draw a schedule: which rank runs what when, where it idles, what it holds."""
    from weftrace.pipeline.outputs import SIMULATION
    from weftrace.pipeline.simulation import simulate

    is_file = schedule.lower().endswith(_FILES)
    inputs = [path for path in (schedule if is_file else None, costs) if path is not None]
    wanted = outputs.wanted(output, writes=SIMULATION, inputs=inputs, json=json, quiet=quiet)
    shape = {"--stages": stages, "--devices": devices, "--micro-batches": micro_batches}
    options = {"stages_per_rank": stages_per_rank, "num_slices": slices}
    given = {name: value for name, value in options.items() if value is not None}
    if is_file:
        if named := [name for name, value in (shape | given).items() if value is not None]:
            raise typer.BadParameter(f"{schedule} holds a schedule with its own numbers", param_hint=named[0])
        found, saved = schedule_from(schedule)
    else:
        found, saved = _generated(schedule, stages, devices, micro_batches, given), None
    chosen = costs_from(costs) if saved is None or costs is not None else saved.costs
    boundary = boundary or ("barrier" if saved is None else saved.boundary)
    outputs.deliver(simulate(found, chosen, boundary), SIMULATION, wanted)


def _generated(
    name: str, stages: int | None, devices: int | None, micro_batches: int | None, options: dict[str, int]
) -> Schedule:
    from weftrace.pipeline.generators.families import family_of, generate

    family_of(name)
    if stages is None and devices is None:
        raise typer.BadParameter("give one of the two: how large the pipeline is", param_hint="--stages, --devices")
    if micro_batches is None:
        raise typer.BadParameter("say how many a step has", param_hint="--micro-batches")
    return generate(name, num_ranks=devices, num_stages=stages, num_micro_batches=micro_batches, **options)
