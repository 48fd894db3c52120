"""`weftrace profile calibrate`: what the phases of a measured trace cost, and how well that predicts other layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.files.schemas import Positive
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace profile calibrate measured.json.gz

weftrace profile calibrate measured.json.gz -o costs.json         costs to make profiles of

weftrace profile calibrate measured.json.gz --fit-on 3            tested by fits on three layers each"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A measured trace, and how costs are fitted to it."""

    trace: Annotated[
        str,
        Option(
            "A recorded trace of one rank with ranges that name phases: attn(F), ATTN, or those of weftrace's runtime.",
            is_argument=True, metavar="TRACE",
        ),
    ]  # fmt: skip
    layers: Annotated[
        str | None, Option("Layers that the costs are means of: 0,2-3.", metavar="LAYERS", shows_default="all")
    ] = None
    fit_on: Annotated[Positive, Option("Layers of each fit that is tested on the others.", metavar="N")] = 2
    tokens: Annotated[
        Positive | None,
        Option(
            "Tokens of a micro-batch on a GPU.", metavar="N",
            shows_default="as the trace tells, else its commonest launch grid",
        ),
    ] = None  # fmt: skip
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Costs from a measured trace: fitted on some layers, tested on the others, in every way to choose them."""
    from weftrace.moe.outputs import CALIBRATION
    from weftrace.moe.validation.held_out import calibrate_and_test

    wanted = to.wanted(writes=CALIBRATION, inputs=options.inputs_of([request.trace]))
    layers = options.parse_ranks(request.layers, what="layers")
    with options.opened([request.trace], ranks=None, max_bytes=request.max_bytes) as source:
        found = calibrate_and_test(source, layers, fit_on=request.fit_on, tokens=request.tokens)
    outputs.deliver(found, CALIBRATION, wanted)


command = command_of((Request, outputs.Destination), run, without=("open",))
