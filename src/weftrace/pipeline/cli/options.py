"""What several of the wing's commands ask for: the size of a pipeline, and where the costs of a chunk come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from msgspec import Meta

from weftrace.cli.completion import SCHEDULES, among
from weftrace.cli.options import DEFAULT_MAX_BYTES, MaxBytes, complete_hardware
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.pipeline.costs import Costs
    from weftrace.pipeline.measured.sourced_costs import SourcedCosts
    from weftrace.pipeline.schedule import Schedule
    from weftrace.pipeline.simulation import Simulation

Stages = Annotated[
    int | None, Meta(ge=1), Option("Stages into which the model is cut.", flags=("--stages",), metavar="PP")
]
Devices = Annotated[
    int | None,
    Meta(ge=1),
    Option("Devices that the model is on, instead of --stages.", flags=("--devices",), metavar="D"),
]
Layers = Annotated[
    int | None,
    Meta(ge=1),
    Option("Layers of the model: no more stages than that, some with one more where they are no multiple.",
           flags=("--layers",), metavar="L"),
]  # fmt: skip
_MICRO_BATCHES = Option("Micro-batches of a step, over all replicas.", flags=("--micro-batches",), metavar="M")
MicroBatches = Annotated[int, Meta(ge=1), _MICRO_BATCHES]
MaybeMicroBatches = Annotated[int | None, Meta(ge=1), _MICRO_BATCHES]
CostsFile = Annotated[
    str | None,
    Option(
        "JSON with the times of F, I, W and F&B of one chunk, and of messages; else F = I = W = 1, F&B = 3.",
        metavar="JSON",
    ),
]
BOUNDARY = "Where a step ends: barrier, for all ranks at once; span, for each by itself."
Boundary = Annotated[Literal["barrier", "span"], Option(BOUNDARY)]

_PANEL = "What a chunk costs"
COMPLETES = {"schedule": among(*SCHEDULES), "families": among(*SCHEDULES), "hardware": complete_hardware}


#: Of families, by the name of the field and of the generator's argument.
_OPTIONS = ("stages_per_rank", "num_slices", "group_size")
_FILES = (".json", ".json.gz", ".json.zst", ".csv", ".txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """A schedule, by name and size or from a file."""

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
    group_size: Annotated[
        int | None,
        Meta(ge=1),
        Option(
            "Micro-batches that a stage of an interleaved schedule runs in a row.",
            metavar="N",
            shows_default="as many as devices",
        ),
    ] = None

    @property
    def file(self) -> str | None:
        """The file that holds the schedule; None where it is named."""
        return self.schedule if self.schedule.lower().endswith(_FILES) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsRequest:
    """The one source of the costs of a chunk, a trace, numbers in a file, or FLOPs and hardware, and how to read it."""

    trace: Annotated[
        str | None,
        Option(
            "A trace with phases named by direction, attn(F), mlp(B), mlp(W) …, the traces (a folder) of a "
            "pipeline that weftrace ran, or a timeline of forwards and backwards.",
            metavar="TRACE",
            panel=_PANEL,
        ),
    ] = None
    costs: Annotated[
        str | None,
        Option(
            'JSON such as {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0}.', metavar="JSON", panel=_PANEL
        ),
    ] = None
    flops: Annotated[
        str | None,
        Option(
            "An estimate: the JSON of `weftrace flops MODEL --phase train` with one micro-batch as "
            "its batch; needs --hardware.",
            metavar="JSON",
            panel=_PANEL,
        ),
    ] = None
    hardware: Annotated[
        str | None,
        Option("The accelerator: H800, H100 …: for --flops, and for MFU.", metavar="NAME", panel=_PANEL),
    ] = None
    chunks: Annotated[
        int | None,
        Meta(ge=1),
        Option(
            "Forward chunks (and as many backward chunks) that the trace holds per step; 1 if its "
            "phases name no micro-batches.",
            metavar="N",
            panel=_PANEL,
        ),
    ] = None
    weight_share: Annotated[
        float | None,
        Meta(ge=0, le=1),
        Option(
            "Part of a full backward that is W, where the trace tells B alone: an assumption.",
            metavar="PART",
            panel=_PANEL,
        ),
    ] = None
    latency_us: Annotated[
        float | None, Meta(ge=0), Option("What a message between ranks needs on its way.", metavar="US", panel=_PANEL)
    ] = None
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES

    def inputs(self) -> list[str]:
        """The files of this machine that are read."""
        from weftrace.cli.options import inputs_of

        return inputs_of([path for path in (self.trace, self.costs, self.flops) if path is not None])


def costs_of_request(request: CostsRequest, num_stages: int) -> SourcedCosts:
    """The costs of one of `num_stages` stages, from the one source that is given.

    Raises `typer.BadParameter` where none is given, or several.
    """
    from weftrace.cli.options import opened
    from weftrace.pipeline.costs import need_times
    from weftrace.pipeline.measured.sourced_costs import costs_of_file, costs_of_trace, with_latency

    given = [f"--{name}" for name in ("trace", "costs", "flops") if getattr(request, name) is not None]
    if len(given) != 1:
        said = f"{' and '.join(given)} are given" if given else "none is given"
        raise typer.BadParameter(f"give one of the three; {said}", param_hint="--trace, --costs, --flops")
    if request.trace is not None:
        with opened([request.trace], ranks=None, max_bytes=request.max_bytes, frames=True) as source:
            found = costs_of_trace(source, chunks=request.chunks, weight_share=request.weight_share)
    elif request.costs is not None:
        found = costs_of_file(request.costs)
    else:
        assert request.flops is not None
        if request.hardware is None:
            raise typer.BadParameter("FLOPs become times on an accelerator: name it", param_hint="--hardware")
        from weftrace.facts import hardware
        from weftrace.pipeline.measured.flops_costs import costs_of_flops

        found = costs_of_flops(request.flops, hardware(request.hardware), num_stages)
    need_times(found.costs)
    return found if request.latency_us is None else with_latency(found, round(request.latency_us * 1_000))


def costs_from(path: str | None) -> Costs:
    """The costs of a file; without one, units: F = I = W = 1, and an F&B gains nothing."""
    from weftrace.pipeline.costs import Costs
    from weftrace.pipeline.costs_document import read_costs

    return Costs.units(FB=3) if path is None else read_costs(path)


def schedule_of_request(request: ScheduleRequest) -> tuple[Schedule, Simulation | None]:
    """The schedule that is asked for, and the simulation that its file holds.

    Raises `typer.BadParameter` for numbers that are missing, or that a file has itself.
    """
    if request.file is None:
        return _generated(request), None
    numbers = ("num_stages", "num_devices", "num_micro_batches", *_OPTIONS)
    if given := [field for field in numbers if getattr(request, field) is not None]:
        flag = f"--{given[0].removeprefix('num_').replace('_', '-')}"
        raise typer.BadParameter(f"{request.file} holds a schedule with its own numbers", param_hint=flag)
    return schedule_from(request.file)


def _generated(request: ScheduleRequest) -> Schedule:
    from weftrace.pipeline.generators.families import family_of, generate

    family_of(request.schedule)
    if request.num_stages is None and request.num_devices is None:
        raise typer.BadParameter(
            "give one of the two, how large the pipeline is: for example --stages 8", param_hint="--stages, --devices"
        )
    if request.num_micro_batches is None:
        raise typer.BadParameter("say how many a step has", param_hint="--micro-batches")
    options = {name: getattr(request, name) for name in _OPTIONS}
    return generate(
        request.schedule,
        num_ranks=request.num_devices,
        num_stages=request.num_stages,
        num_micro_batches=request.num_micro_batches,
        **{name: value for name, value in options.items() if value is not None},
    )


def schedule_from(path: str) -> tuple[Schedule, Simulation | None]:
    """The schedule of a file, and the simulation that it was saved with; None for a .csv or .txt, which has none."""
    from weftrace.pipeline.document import read_simulation
    from weftrace.pipeline.notation import read_schedule

    if path.lower().endswith((".csv", ".txt")):
        return read_schedule(path), None
    simulation = read_simulation(path)
    return simulation.schedule, simulation
