"""`weftrace profile calibrate`: what the phases of a measured trace cost, and how well that predicts other layers."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.options import DEFAULT_MAX_BYTES, MaxBytes

EPILOG = """[bold]Examples[/bold]

weftrace profile calibrate measured.json.gz

weftrace profile calibrate measured.json.gz -o costs.json         costs to make profiles of

weftrace profile calibrate measured.json.gz --fit-on 3            tested by fits on three layers each"""


def command(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A recorded trace of one rank whose ranges name phases: attn(F), ATTN, weftrace's runtime's.",
            show_default=False,
        ),
    ],
    layers: Annotated[
        str | None,
        typer.Option(
            "--layers",
            help="Layers that the costs are means of: 0,2-3.",
            metavar="LAYERS",
            show_default="all",
        ),
    ] = None,
    fit_on: Annotated[
        int,
        typer.Option("--fit-on", help="Layers of each fit that is tested on the others.", min=1, metavar="N"),
    ] = 2,
    tokens: Annotated[
        int | None,
        typer.Option(
            "--tokens",
            help="Tokens of a micro-batch on a GPU.",
            min=1,
            metavar="N",
            show_default="as the trace tells, else its commonest launch grid",
        ),
    ] = None,
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Costs from a measured trace: fitted on some layers, tested on the others, in every way to choose them."""
    from weftrace.cli.options import inputs_of, opened, parse_ranks
    from weftrace.moe.outputs import CALIBRATION
    from weftrace.moe.validation.held_out import calibrate_and_test

    to = outputs.wanted(output, writes=CALIBRATION, inputs=inputs_of([trace]), json=json, quiet=quiet)
    with opened([trace], ranks=None, max_bytes=max_bytes) as source:
        found = calibrate_and_test(source, parse_ranks(layers, what="layers"), fit_on=fit_on, tokens=tokens)
    outputs.deliver(found, CALIBRATION, to)
