"""Options that commands of `weftrace flops` share, their completion, and how far a run has come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import outputs
from weftrace.cli.options import complete_from, complete_hardware

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport
    from weftrace.flops.runtime.run.run_model import OnStep


def complete_model(incomplete: str) -> list[str]:
    """Names of built-in models that begin so."""
    from weftrace.flops.run_spec import names

    return [name for name in names() if name.startswith(incomplete.lower())]


HardwareName = Annotated[
    str | None,
    typer.Option(
        "--hardware",
        help="Accelerator to compare with: roofline, MFU, predicted time. Default: the one it ran on.",
        metavar="NAME",
        autocompletion=complete_hardware,
        rich_help_panel="What to show",
    ),
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth", help="Levels of the tree of modules; all.", min=0, metavar="N", rich_help_panel="What to show"
    ),
]
Top = Annotated[
    int,
    typer.Option("--top", help="Rows of the tables of dearest modules.", min=0, rich_help_panel="What to show"),
]
TextLayout = Annotated[
    str | None,
    typer.Option(
        "--text-layout",
        help="Print DeepSpeed's text instead: deepspeed, or deepspeed-old as in older documents.",
        metavar="NAME",
        autocompletion=complete_from("deepspeed", "deepspeed-old"),
        rich_help_panel="What to show",
    ),
]


@contextmanager
def steps_bar(what: str) -> Iterator[OnStep]:
    """A bar on stderr, where that is a terminal; gives the function to call with how many are done, and of how many."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=outputs.stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def needs_torch() -> Callable[..., FlopsReport]:
    """`run_model`. Raises `FlopsError` where torch is missing."""
    from weftrace.flops import run_model

    return run_model
