"""`weftrace pipeline recommend`: which schedule to use, from what a chunk costs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from weftrace.pipeline.cli.options import Boundary, MicroBatches

EPILOG = """[bold]Examples[/bold]

weftrace pipeline recommend --trace train.json.gz --devices 16 --micro-batches 64 --memory-cap 12

weftrace pipeline recommend --costs costs.json --devices 8 --micro-batches 32 -o choice.json -o choice.csv

weftrace pipeline recommend --flops model.json --hardware H100 --devices 8 --micro-batches 32"""


def command(
    devices: Annotated[int, typer.Option("--devices", help="Devices that the model is on.", min=1, metavar="D")],
    micro_batches: MicroBatches,
    trace: TraceFile = None,
    costs: CostsFile = None,
    flops: FlopsFile = None,
    hardware: HardwareName = None,
    chunks: Chunks = None,
    weight_share: WeightShare = None,
    latency_us: LatencyUs = None,
    memory_cap: Annotated[
        str | None,
        typer.Option(
            "--memory-cap",
            help="What a device has room for: chunk activations, those of its share of the model on one micro-batch "
            "(12), or bytes, parameters included, where the costs tell sizes (60GiB).",
            metavar="CAP",
            show_default=False,
        ),
    ] = None,
    schedules: Annotated[
        list[str] | None,
        typer.Option("--schedule", help="Choose from this one, repeatable: 1f1b, zbv, dualpipe …", metavar="NAME"),
    ] = None,
    boundary: Boundary = "barrier",
    flips: Annotated[
        bool, typer.Option("--flips/--no-flips", help="Look which change of cost flips the choice.")
    ] = True,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Simulate every schedule on the same devices; choose the fastest that fits; say what would change the choice."""
    from weftrace.pipeline.choices.document import recommendation_report
    from weftrace.pipeline.choices.recommendation import recommend
    from weftrace.pipeline.measured.told_costs import for_devices
    from weftrace.pipeline.report_outputs import RECOMMENDATION

    inputs = inputs_of(trace, costs, flops)
    wanted = outputs.wanted(output, writes=RECOMMENDATION, inputs=inputs, json=json, quiet=quiet)
    cap, cap_bytes = _cap(memory_cap)
    told = told_costs(
        trace=trace, costs=costs, flops=flops, hardware=hardware, num_stages=devices, chunks=chunks,
        weight_share=weight_share, latency_us=latency_us,
    )  # fmt: skip
    told = for_devices(told, devices)
    with _looking() as on_look:
        found = recommend(
            told.costs,
            num_devices=devices,
            num_micro_batches=micro_batches,
            memory_cap=cap,
            cap_bytes=cap_bytes,
            boundary=boundary,
            families=schedules or None,
            with_flips=flips,
            on_look=on_look,
        )
    outputs.deliver(recommendation_report(found, told), RECOMMENDATION, wanted)


def _cap(text: str | None) -> tuple[float | None, int | None]:
    """ "12" -> 12 chunk activations; "60GiB" -> bytes."""
    if text is None:
        return None, None
    try:
        return float(text), None
    except ValueError:
        pass
    from weftrace.cli.options import parse_size

    try:
        return None, parse_size(text)
    except typer.BadParameter:
        raise typer.BadParameter(
            f"{text!r} is no cap; write chunk activations, 12, or a size, 60GiB", param_hint="--memory-cap"
        ) from None


@contextmanager
def _looking() -> Iterator[Callable[[], object] | None]:
    """A bar on stderr, where that is a terminal, while changes of cost are looked at."""
    from rich.progress import Progress, SpinnerColumn, TextColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    progress = Progress(*columns, console=outputs.stderr(), transient=True, disable=not sys.stderr.isatty())
    with progress:
        task = progress.add_task("simulating every schedule")
        count = 0

        def on_look() -> None:
            nonlocal count
            count += 1
            progress.update(task, description=f"simulating every schedule with changed costs, {count} times")

        yield on_look
