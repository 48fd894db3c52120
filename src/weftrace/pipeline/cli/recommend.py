"""`weftrace pipeline recommend`: which schedule to use, from what a chunk costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.pipeline.cli.options import COMPLETES, Boundary, CostsRequest, Layers, MicroBatches, costs_of_request

EPILOG = """[bold]Examples[/bold]

weftrace pipeline recommend --trace train.json.gz --devices 16 --micro-batches 64 --memory-cap 12

weftrace pipeline recommend --costs costs.json --devices 8 --micro-batches 32 -o choice.json -o choice.csv

weftrace pipeline recommend --flops model.json --hardware H100 --devices 8 --micro-batches 32"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(CostsRequest):
    """A model on devices, and the schedules to choose from."""

    num_devices: Annotated[int, Meta(ge=1), Option("Devices that the model is on.", flags=("--devices",), metavar="D")]
    num_micro_batches: MicroBatches
    num_layers: Layers = None
    memory_cap: Annotated[
        str | None,
        Option(
            "What a device has room for: chunk activations, those of its share of the model on one micro-batch (12), "
            "or bytes, parameters included, where the costs tell sizes (60GiB).",
            metavar="CAP",
        ),
    ] = None
    families: Annotated[
        tuple[str, ...],
        Option("Choose from this one, repeatable: 1f1b, zbv, dualpipe …", flags=("--schedule",), metavar="NAME"),
    ] = ()
    boundary: Boundary = "barrier"
    search_seconds: Annotated[
        float,
        Meta(ge=0, le=86_400),
        Option("Search for a faster order and split of layers, so many seconds at most; 0 for no search.", metavar="S"),
    ] = 5.0
    flips: Annotated[bool, Option("Look which change of cost flips the choice.", flags=("--flips/--no-flips",))] = True


def run(request: Request, to: outputs.Destination) -> None:
    """Simulate every schedule on the same devices; choose the fastest that fits; say what would change the choice."""
    from weftrace.pipeline.choices.document import recommendation_report
    from weftrace.pipeline.choices.recommendation import recommend
    from weftrace.pipeline.measured.sourced_costs import for_devices, layers_of
    from weftrace.pipeline.outputs import RECOMMENDATION

    wanted = to.wanted(writes=RECOMMENDATION, inputs=request.inputs())
    cap, cap_bytes = _cap(request.memory_cap)
    costs = for_devices(costs_of_request(request, request.num_devices), request.num_devices)
    with _looking() as (on_look, on_search):
        found = recommend(
            costs.costs,
            num_devices=request.num_devices,
            num_micro_batches=request.num_micro_batches,
            memory_cap=cap,
            cap_bytes=cap_bytes,
            boundary=request.boundary,
            num_layers=request.num_layers or layers_of(costs, request.num_devices),
            families=request.families or None,
            with_flips=request.flips,
            search_seconds=request.search_seconds,
            on_look=on_look,
            on_search=on_search,
        )
    outputs.deliver(recommendation_report(found, costs), RECOMMENDATION, wanted)


command = command_of((Request, outputs.Destination), run, completes=COMPLETES)


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
def _looking() -> Iterator[tuple[Callable[[], object], Callable[[float], object]]]:
    """A bar on stderr, where that is a terminal, while an order is searched for and changes of cost are looked at."""
    with outputs.working("simulating every schedule") as on_progress:
        count = 0

        def on_look() -> None:
            nonlocal count
            count += 1
            on_progress(f"simulating every schedule with changed costs, {count} times")

        def on_search(part: float) -> None:
            on_progress(f"searching for a faster order, {part:.0%}")

        yield on_look, on_search
