"""`weftrace stragglers`: how much slower a job is than at its ranks' common pace, who makes it so, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer
from msgspec import Meta

from weftrace.cli import options, outputs
from weftrace.cli.outputs import working
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace stragglers traces/               which rank, stage or link is slow

weftrace stragglers timeline.json.gz      of ranges that a trainer logged

weftrace stragglers ranges.parquet        of a table of them

weftrace stragglers traces/ -o s.html     the page; s.md, s.csv, s.json as well

weftrace stragglers traces/ --most 1.05   exit with 1 where S is above, in CI"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The ranks of a job."""

    sources: options.Sources
    most: Annotated[
        float | None,
        Meta(ge=1),
        Option("Exit with status 1 if S is higher (S = time of the job / time at the pace of its peers).", metavar="S"),
    ] = None
    top: Annotated[int, Meta(ge=1), Option("Rows of each table in the terminal.", metavar="N")] = 8
    strict: Annotated[bool, Option("Exit with status 1 if the replay is more than 3 % off.")] = False
    ranks: options.Ranks = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Replay a job with every operation at its peers' pace: how much shorter is it, and why?"""
    from weftrace.advice.outputs import STRAGGLERS

    wanted = to.wanted(writes=STRAGGLERS, inputs=options.inputs_of(request.sources))
    with options.opened(
        request.sources, ranks=request.ranks, max_bytes=request.max_bytes, workers=request.workers
    ) as source:
        from weftrace.advice.jobs import infer_lanes_of
        from weftrace.advice.render.stragglers_terminal import print_stragglers
        from weftrace.advice.slowdown.answers import slowdown_of

        with working("replaying the job"):
            found = slowdown_of(infer_lanes_of(source, workers=request.workers))
    outputs.deliver(found, STRAGGLERS, wanted, show=partial(print_stragglers, top=request.top))
    if request.strict and not found.is_trusted:
        typer.echo("weftrace: --strict: the replay is more than 3 % off", err=True)
        raise typer.Exit(NOT_MET)
    if request.most is not None and found.slowdown > request.most:
        typer.echo(f"weftrace: S is {found.slowdown:.3f}, above {request.most:g}", err=True)
        raise typer.Exit(NOT_MET)


command = command_of((Request, outputs.Destination), run)
