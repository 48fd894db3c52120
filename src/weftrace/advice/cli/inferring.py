"""From the traces that a command is given to their inferred plan, with a sign of life meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Meta

from weftrace.cli import options
from weftrace.cli.outputs import working
from weftrace.errors import NOT_MET
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.advice.trust import Trust
    from weftrace.plan import Inferred
    from weftrace.trace import Job, Trace


class LevelChoice(StrEnum):
    """The words of `--level`."""

    kernel = "kernel"
    phase = "phase"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """The traces that a plan is inferred from, and how it is shown."""

    sources: options.Sources
    level: Annotated[
        LevelChoice,
        Option(
            "The operations of the plan: [bold]kernel[/bold]s, or parts of a [bold]phase[/bold], "
            "which makes a smaller plan."
        ),
    ] = LevelChoice.kernel
    top: Annotated[int, Meta(ge=1), Option("Rows of each table in the terminal.", metavar="N")] = 8
    strict: Annotated[bool, Option("Exit with status 1 if the replay is not reliable (for example, 3 % off).")] = False
    ranks: options.Ranks = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES

    def opened(self, *, frames: bool = False) -> Trace | Job:
        """frames: with their Python frames. Raises as `options.opened`."""
        with options.opened(
            self.sources, ranks=self.ranks, max_bytes=self.max_bytes, workers=self.workers, frames=frames
        ) as source:
            return source


def inferred_from(traces: Traces, *, frames: bool = False) -> Inferred:
    """The plan of a trace, or of the ranks of a job, joined where their collectives match. frames: with Python frames
    for what is asked by them."""
    from weftrace.advice.jobs import infer_job
    from weftrace.plan import by_phase

    source = traces.opened(frames=frames)
    with working("inferring the plan"):
        inferred = infer_job(source, workers=traces.workers)
        return by_phase(inferred) if traces.level is LevelChoice.phase else inferred


def exit_if_off(trust: Trust, *, strict: bool) -> None:
    """With `--strict`, exit with 1 where an answer is not to be trusted."""
    if strict and not trust.is_trusted:
        typer.echo(f"weftrace: --strict: the replay is not reliable: {'; '.join(trust.reasons)}", err=True)
        raise typer.Exit(NOT_MET)
