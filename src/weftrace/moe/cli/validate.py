"""`weftrace profile validate`: a simulated profile beside a measured one, phase by phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET
from weftrace.options import Option
from weftrace.units import signed

EPILOG = """[bold]Examples[/bold]

weftrace profile validate out/simulated measured/

weftrace profile validate simulated.json.gz measured.json.gz -o validation.json -o validation.csv

weftrace profile validate out/simulated measured/ --max-error 5%          exit 1 where a phase is off by more"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A prediction, what was measured, and by how much it may be off."""

    simulated: Annotated[
        str, Option("What was predicted: a trace, or a folder of ranks.", is_argument=True, metavar="SIMULATED")
    ]
    measured: Annotated[
        str, Option("What was recorded: a trace, or a folder of ranks.", is_argument=True, metavar="MEASURED")
    ]
    max_error: Annotated[
        str | None,
        Option(
            "Exit with status 1 if a phase or the span is off by more than this part of the measured time, or if the "
            "two have no phase in common.",
            metavar="5%",
        ),
    ] = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Predicted against measured: each phase, the span, exposed communication, the order. Exit: 1 above --max-error."""
    from weftrace.moe.outputs import VALIDATION
    from weftrace.moe.validation.comparison import validate

    simulated, max_error = request.simulated, request.max_error
    wanted = to.wanted(writes=VALIDATION, inputs=options.inputs_of([simulated, request.measured]))
    limit = None if max_error is None else options.parse_part(max_error, "--max-error")
    opened = partial(options.opened, ranks=None, max_bytes=request.max_bytes)
    with opened([simulated]) as first, opened([request.measured]) as second:
        found = validate(first, second, workers=request.workers)
    outputs.deliver(found, VALIDATION, wanted)
    if limit is not None and not found.within(limit):
        worst = found.worst
        what = "no phase in common" if worst is None or not found.phases else f"{worst.name} by {signed(worst.error)}"
        typer.echo(f"weftrace: {simulated} is off by more than {max_error}: {what}", err=True)
        raise typer.Exit(NOT_MET)


command = command_of((Request, outputs.Destination), run)
