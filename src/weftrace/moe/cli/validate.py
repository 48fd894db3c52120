"""`weftrace profile validate`: a simulated profile beside a measured one, phase by phase."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.options import DEFAULT_MAX_BYTES, MaxBytes, Workers
from weftrace.errors import NOT_MET
from weftrace.units import signed

EPILOG = """[bold]Examples[/bold]

weftrace profile validate out/simulated measured/

weftrace profile validate simulated.json.gz measured.json.gz -o validation.json -o validation.csv

weftrace profile validate out/simulated measured/ --max-error 5%          exit 1 where a phase is off by more"""


def command(
    simulated: Annotated[
        str,
        typer.Argument(
            metavar="SIMULATED", help="What was predicted: a trace, or a folder of ranks.", show_default=False
        ),
    ],
    measured: Annotated[
        str,
        typer.Argument(
            metavar="MEASURED", help="What was recorded: a trace, or a folder of ranks.", show_default=False
        ),
    ],
    max_error: Annotated[
        str | None,
        typer.Option(
            "--max-error",
            help="Exit with 1 where a phase or the span is off by more than this part of the measured time, or where "
            "the two have no phase in common.",
            metavar="5%",
        ),
    ] = None,
    workers: Workers = None,
    max_bytes: MaxBytes = DEFAULT_MAX_BYTES,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Predicted against measured: each phase, the span, exposed communication, the order. Exit: 1 above --max-error."""
    from weftrace.cli.options import inputs_of, opened, parse_part
    from weftrace.moe.outputs import VALIDATION
    from weftrace.moe.validation.comparison import validate

    inputs = inputs_of([simulated, measured])
    to = outputs.wanted(output, writes=VALIDATION, inputs=inputs, json=json, quiet=quiet)
    limit = None if max_error is None else parse_part(max_error, "--max-error")
    with (
        opened([simulated], ranks=None, max_bytes=max_bytes) as first,
        opened([measured], ranks=None, max_bytes=max_bytes) as second,
    ):
        found = validate(first, second, workers=workers)
    outputs.deliver(found, VALIDATION, to)
    if limit is not None and not found.within(limit):
        worst = found.worst
        what = "no phase in common" if worst is None or not found.phases else f"{worst.name} by {signed(worst.error)}"
        typer.echo(f"weftrace: {simulated} is off by more than {max_error}: {what}", err=True)
        raise typer.Exit(NOT_MET)
