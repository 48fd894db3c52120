"""The one way out of every command: `-o FILE`, repeatable, whose suffix decides what is written; `--json` for the
document on standard output; else a summary in the terminal, unless `--quiet`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weftrace.errors import OutputError
from weftrace.options import Option
from weftrace.outputs import Output, refuse_input, suffix_of, writers

if TYPE_CHECKING:
    from rich.console import Console

PANEL = "What to write"

Files = Annotated[
    list[str] | None,
    typer.Option(
        "-o",
        "--output",
        help="File to write, repeatable; its ending decides what; a wrong one lists those of this command.",
        metavar="FILE",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the document as JSON, and nothing else, to stdout.", rich_help_panel=PANEL),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="No summary on stdout.", rich_help_panel=PANEL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What `-o`, `--json` and `--quiet` say, for commands made by `command_of`; `wanted` checks it."""

    output: Annotated[
        tuple[str, ...],
        Option(
            "File to write, repeatable; its ending decides what; a wrong one lists those of this command.",
            ("-o", "--output"), metavar="FILE", panel=PANEL, shows_default=False,
        ),
    ] = ()  # fmt: skip
    json: Annotated[bool, Option("Print the document as JSON, and nothing else, to stdout.", panel=PANEL)] = False
    quiet: Annotated[bool, Option("No summary on stdout.", ("-q", "--quiet"), panel=PANEL)] = False

    def wanted(self, *, writes: Output | Iterable[str], inputs: Iterable[str | os.PathLike[str]] = ()) -> Wanted:
        """See `wanted`."""
        return wanted(self.output, writes=writes, inputs=inputs, json=self.json, quiet=self.quiet)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where a command's result goes. paths: files, each with an ending that its kind can write."""

    paths: tuple[str, ...] = ()
    json: bool = False
    quiet: bool = False

    def has(self, *suffixes: str) -> bool:
        """Whether a file of one of these endings is wanted."""
        return any(path.lower().endswith(suffixes) for path in self.paths)


def wanted(
    output: Sequence[str] | None,
    *,
    writes: Output | Iterable[str],
    inputs: Iterable[str | os.PathLike[str]] = (),
    json: bool = False,
    quiet: bool = False,
) -> Wanted:
    """What `-o`, `--json` and `--quiet` ask for, checked before the work begins.

    writes: what the command makes, or the endings that it can write. inputs: files that must not be overwritten.
    Raises `typer.BadParameter` for an ending that nothing is written as, a file named twice, and an input.
    """
    suffixes = list(writers(writes)) if isinstance(writes, Output) else list(writes)
    named = list(inputs)
    for number, path in enumerate(output or ()):
        check_output(path, suffixes, named)
        if os.path.realpath(path) in {os.path.realpath(other) for other in (output or ())[:number]}:
            raise typer.BadParameter(f"{path}: is named twice", param_hint="--output")
    return Wanted(paths=tuple(output or ()), json=json, quiet=quiet)


def check_output(path: str, suffixes: Iterable[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raises `typer.BadParameter` for what is no name of a file, an ending that nothing is written as, an input, a
    folder that is not there."""
    check_name(path)
    if os.path.isdir(path):
        raise typer.BadParameter(f"{path}: is a folder; give the name of a file in it", param_hint="--output")
    try:
        suffix_of(path, suffixes)
        refuse_input(path, inputs)
    except OutputError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from error
    folder = Path(path).parent
    if not folder.is_dir():
        raise typer.BadParameter(f"{path}: there is no folder {folder}; make it first", param_hint="--output")


def check_name(path: str) -> None:
    """Raises `typer.BadParameter` for an empty name, and for `-`, which means standard output elsewhere."""
    if not path.strip():
        raise typer.BadParameter("it is empty: give a name", param_hint="--output")
    if path == "-":
        raise typer.BadParameter(
            "only files are written; a document goes to standard output with --json, where the command has it",
            param_hint="--output",
        )


def deliver(
    value: Any,
    output: Output,
    to: Wanted,
    *,
    show: Callable[[Any, Console], None] | None = None,
    save: Mapping[str, Callable[[Any, str], object]] | None = None,
) -> None:
    """Write a result's files, then print it: a reader of stdout that has seen enough, `head` say, costs no file.

    show: instead of the output's own summary. save: writers that go before the output's own, by suffix.
    """
    found = {**writers(output), **(save or {})}
    derived = output.derived(value)
    for path in to.paths:
        found[suffix_of(path, found)](derived, path)
        tell_written(path)
    if to.json:
        assert output.document is not None, output.value
        print_json(output.document(derived))
    elif not to.quiet and (printed := show or output.show) is not None:
        printed(derived, stdout())


def print_json(document: Mapping[str, Any]) -> None:
    """A document to standard output."""
    from weftrace.files.documents import document_text

    sys.stdout.buffer.write(document_text(document))
    sys.stdout.buffer.flush()


def tell_written(path: str | os.PathLike[str]) -> None:
    """Say on stderr what was written and how large it is."""
    from weftrace.units import size

    typer.echo(f"wrote {path} ({size(Path(path).stat().st_size)})", err=True)


def stdout() -> Console:
    """Where results go: colours and width of the terminal, plain text when piped."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # our reader, `head` say, has seen enough: no failure, as rich's exit code 1 would be

    return Results(soft_wrap=False)


def stderr() -> Console:
    """Where progress and remarks go."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A sign of life on stderr, where that is a terminal; gives the function to call with what is being done now."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda text: progress.update(task, description=text)


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr, where that is a terminal; gives the function to call with how many are done, and of how many."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
