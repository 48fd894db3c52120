"""From the traces that a command is given to their inferred plan, with a sign of life meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options
from weftrace.cli.outputs import stderr
from weftrace.errors import NOT_MET

if TYPE_CHECKING:
    from weftrace.plan import Inferred, Replay


class LevelChoice(StrEnum):
    """The words of `--level`."""

    kernel = "kernel"
    phase = "phase"


Level = Annotated[
    LevelChoice,
    typer.Option(
        "--level",
        help="What the plan's ops are: [bold]kernel[/bold]s, or stretches of a [bold]phase[/bold], which is smaller.",
    ),
]


def inferred_from(
    sources: list[str], *, level: LevelChoice, ranks: str | None, workers: int | None, max_bytes: str
) -> Inferred:
    """The plan of a trace, or of the ranks of a job, joined where their collectives match."""
    from weftrace.advice.jobs import infer_job
    from weftrace.plan import by_phase

    with options.opened(sources, ranks=ranks, max_bytes=max_bytes, workers=workers) as source:
        pass
    with working("inferring the plan"):
        inferred = infer_job(source, workers=workers)
        return by_phase(inferred) if level is LevelChoice.phase else inferred


@contextmanager
def working(what: str) -> Iterator[None]:
    """A sign of life on stderr, where that is a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        progress.add_task(what, total=None)
        yield


def exit_if_off(replay: Replay, *, strict: bool) -> None:
    """With `--strict`, exit with 1 where a replay is not to be trusted."""
    if strict and not replay.is_trustworthy:
        typer.echo(f"weftrace: --strict: the replay is not to be trusted: {'; '.join(replay.doubts)}", err=True)
        raise typer.Exit(NOT_MET)
