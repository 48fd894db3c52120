"""The one way out of every command: `-o FILE`, repeatable, whose suffix decides what is written; `--json` for the
document on standard output; else a summary in the terminal, unless `--quiet`; `--open` to see the page."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
PAGE = ".html"
_NOTEBOOK_COLUMNS = 88  # rich takes 115, which is wider than the cells of a window of 1,000 px
_TEXT_BROWSERS = frozenset(("w3m", "lynx", "links", "elinks", "www-browser"))

_OPEN = "Show the page in the browser: the .html file of -o, else one that is written here and named."


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """What `-o`, `--json`, `--quiet` and `--open` say, for commands made by `command_of`; `wanted` checks it. A command
    that writes no page leaves `open` out (`command_of(…, without=("open",))`)."""

    output: Annotated[
        tuple[str, ...],
        Option(
            "File to write, repeatable; its ending decides what; a wrong one lists those of this command.",
            ("-o", "--output"), metavar="FILE", panel=PANEL, shows_default=False,
        ),
    ] = ()  # fmt: skip
    json: Annotated[bool, Option("Print the document as JSON, and nothing else, to stdout.", panel=PANEL)] = False
    quiet: Annotated[bool, Option("No summary on stdout.", ("-q", "--quiet"), panel=PANEL)] = False
    open: Annotated[bool, Option(_OPEN, panel=PANEL)] = False

    def wanted(
        self, *, writes: Output | Iterable[str], inputs: Iterable[str | os.PathLike[str]] = (), name: str = ""
    ) -> Wanted:
        """See `wanted`."""
        return wanted(
            self.output, writes=writes, inputs=inputs, json=self.json, quiet=self.quiet, opens=self.open, name=name
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where a command's result goes. paths: files, each with an ending that its kind can write. page: the one that the
    browser is to show."""

    paths: tuple[str, ...] = ()
    json: bool = False
    quiet: bool = False
    page: str | None = None

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
    opens: bool = False,
    name: str = "",
) -> Wanted:
    """What `-o`, `--json`, `--quiet` and `--open` ask for, checked before the work begins.

    writes: what the command makes, or the endings that it can write. inputs: files that must not be overwritten.
    name: of the page that `--open` writes where none is named; by default, the document's.
    Raises `typer.BadParameter` for an ending that nothing is written as, a file named twice, an input, and where a page
    is to be shown and none is written.
    """
    suffixes = list(writers(writes)) if isinstance(writes, Output) else list(writes)
    named, paths, page = list(inputs), list(output or ()), None
    if opens:
        if PAGE not in suffixes:
            raise typer.BadParameter("no page is written here", param_hint="--open")
        page = next((path for path in paths if path.lower().endswith(PAGE)), None) or _new_page(writes, name)
        paths = paths if page in paths else [*paths, page]
    for number, path in enumerate(paths):
        check_output(path, suffixes, named)
        if os.path.realpath(path) in {os.path.realpath(other) for other in paths[:number]}:
            raise typer.BadParameter(f"{path}: is named twice", param_hint="--output")
    return Wanted(paths=tuple(paths), json=json, quiet=quiet, page=page)


def _new_page(writes: Output | Iterable[str], name: str) -> str:
    """The page that `--open` writes where none is named: in this folder, else in that for temporary files."""
    from weftrace.files.standard_input import temporary_folder

    if not name:
        name = (writes.schema.partition("/")[0] if isinstance(writes, Output) else "") or "weftrace"
    name = re.sub(r"[._]", "-", name) + PAGE
    return name if os.access(os.curdir, os.W_OK) else os.path.join(temporary_folder(), name)


def check_output(path: str, suffixes: Iterable[str], inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Raises `typer.BadParameter` for what is no name of a file, an ending that nothing is written as, an input, a
    folder that is not there."""
    check_name(path)
    try:
        os.path.abspath(path)
    except FileNotFoundError as error:
        raise typer.BadParameter(f"{path}: the folder in which this runs was removed", param_hint="--output") from error
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
    if to.page is not None:
        sys.stdout.flush()
        show_page(to.page)


def show_page(path: str) -> None:
    """Show a page in the default browser, or say on stderr where it is and how to see it where there is none."""
    where = Path(path).resolve()
    if _has_browser() and _opened(where.as_uri()):
        typer.echo(f"opened {where.as_uri()} in the browser", err=True)
        return
    import getpass
    import shlex
    import socket

    typer.echo(f"weftrace: no browser can be opened here. Open {where} in the browser of your own machine;", err=True)
    user = ""
    with suppress(KeyError, OSError):  # a container's number without a name
        user = f"{getpass.getuser()}@"
    typer.echo(f"to copy it there: scp {user}{socket.gethostname()}:{shlex.quote(str(where))} .", err=True)


def _has_browser() -> bool:
    """Whether who started us would see a browser's window: $BROWSER says so, or there is a display."""
    if os.environ.get("BROWSER"):
        return True
    if sys.platform in ("win32", "darwin"):
        return "SSH_CONNECTION" not in os.environ
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _opened(address: str) -> bool:
    """Whether a browser took the address; none that draws in the terminal is asked."""
    import webbrowser

    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return False
    return os.path.basename(getattr(browser, "name", "")) not in _TEXT_BROWSERS and browser.open(address)


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
    """Where results go: colours and width of the terminal, plain text when piped; in a notebook, as wide as a cell."""
    from rich.console import Console

    class Results(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # our reader, `head` say, has seen enough: no failure, as rich's exit code 1 would be

    results = Results(soft_wrap=False)
    if results.is_jupyter and "JUPYTER_COLUMNS" not in os.environ:
        results.width = _NOTEBOOK_COLUMNS
    return results


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
