"""`weftrace sample`: simulated recordings with planted causes, to try weftrace on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from msgspec import Meta

from weftrace.cli import outputs
from weftrace.cli.requests import command_of
from weftrace.options import Option
from weftrace.samples.values import Name

EPILOG = """[bold]Examples[/bold]

weftrace sample train                one rank of a training: train/train.json.gz

weftrace sample job                  8 ranks, one of them slow: job/rank0.json.gz …

weftrace sample inference            a server: inference/inference.json.gz

weftrace sample pair -o runs         runs/before and runs/after, to compare

The same files come out each time; --seed draws other noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which sample, and where."""

    name: Annotated[Name, Option("What to simulate.", is_argument=True)]
    folder: Annotated[
        str,
        Option("Folder to write it into; by default one with the sample's name.", ("-o", "--output"), metavar="DIR",
               panel=outputs.PANEL, shows_default=False),
    ] = ""  # fmt: skip
    seed: Annotated[int, Meta(ge=0), Option("What noise is drawn from.", metavar="N")] = 0
    json: Annotated[bool, Option("Print the document as JSON, and nothing else, to stdout.", panel=outputs.PANEL)] = (
        False
    )
    quiet: Annotated[bool, Option("No summary on stdout.", ("-q", "--quiet"), panel=outputs.PANEL)] = False


def run(request: Request) -> None:
    """Write simulated traces to try weftrace on, and say what is planted in them and which command finds it."""
    from weftrace.samples.catalogue import write_sample
    from weftrace.samples.outputs import SAMPLE
    from weftrace.units import counted

    sample = write_sample(request.name, request.folder.rstrip("/"), seed=request.seed)
    typer.echo(f"wrote {sample.folder}/: {counted(len(sample.files), 'trace')} and planted.txt", err=True)
    outputs.deliver(sample, SAMPLE, outputs.wanted((), writes=SAMPLE, json=request.json, quiet=request.quiet))


def add_to(app: typer.Typer) -> None:
    """Add the wing's command to weftrace's."""
    app.command("sample", epilog=EPILOG)(command_of(Request, run))
