"""`weftrace flops diff`: what changed between two reports, and whether that is too much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET
from weftrace.options import Option
from weftrace.units import signed

EPILOG = """[bold]Examples[/bold]

weftrace flops diff before.json after.json

weftrace flops diff main.json branch.json --fail-above 1%                     exit 1 where a total differs by more"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Two reports, and by how much they may differ."""

    before: Annotated[str, Option("JSON of the one report.", is_argument=True, metavar="A")]
    after: Annotated[str, Option("JSON of the other.", is_argument=True, metavar="B")]
    fail_above: Annotated[
        str | None, Option("Exit with status 1 if a total differs by more, or a time grew by more.", metavar="1%")
    ] = None


def run(request: Request, to: outputs.Destination) -> None:
    """Compare two saved reports. Exit: 0 within the limit, 1 above it, 2 and 3 for mistakes."""
    from weftrace.flops.document import read_flops
    from weftrace.flops.outputs import DIFF
    from weftrace.flops.several.diff import diff, parse_fraction

    before, after, fail_above = request.before, request.after, request.fail_above
    wanted = to.wanted(writes=DIFF, inputs=[before, after])
    limit = None if fail_above is None else parse_fraction(fail_above)
    found = diff(read_flops(before), read_flops(after))
    outputs.deliver(found, DIFF, wanted)
    if limit is not None and found.exceeds(limit):
        worst = max(found.above(limit), key=lambda change: abs(change.relative))
        where = worst.quantity if worst.phase is None else f"{worst.quantity} of the {worst.phase}"
        typer.echo(
            f"weftrace: {after} differs from {before} by more than {fail_above}: "
            f"{where} by {signed(worst.relative, 2)}",
            err=True,
        )
        raise typer.Exit(NOT_MET)


command = command_of((Request, outputs.Destination), run, without=("open",))
