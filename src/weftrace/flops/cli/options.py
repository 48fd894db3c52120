"""What commands of `weftrace flops` share: torch where it is there, and how far a run has come."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weftrace.cli import outputs

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport
    from weftrace.flops.runtime.run.run_model import OnStep


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
