"""`weftrace`: the commands of all wings, and how their errors reach a person."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache, partial
from typing import Annotated, Any

import typer

from weftrace.cli.apps import App, Group
from weftrace.cli.streams import make_usable
from weftrace.errors import UNUSABLE_INPUT, USAGE, WeftraceError
from weftrace.files.standard_input import STANDARD_INPUT, STANDARD_INPUT_NAME
from weftrace.version import __version__
from weftrace.wings import SHOWN, add_commands

#: A name with one of these is a path, a glob or a URL, never a mistyped command.
_PATH_LETTERS = frozenset("/\\.*?[")
#: The options of `weftrace` itself.
_OWN = ("-h", "--help", "--version", "--install-completion", "--show-completion")


class Root(Group):
    """All commands. `weftrace FILE` is `weftrace report FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_report(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.list_commands(ctx))
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No command and no file is called {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["TRACE...", "|", self.subcommand_metavar]


def with_report(args: Sequence[str]) -> list[str]:
    """The arguments, with the command `report` before them where they name a trace and no command.

    A command wins over a file of its name; `weftrace ./NAME` means the file.
    """
    if not args or _is_command(args[0]) or args[0] in _OWN:
        return list(args)
    has_option = args[0].startswith("-") and args[0] != "-"
    names = args[1:] if has_option else args[:1]
    is_report = any(map(_names_a_trace, names)) and not any(map(_is_command, names))
    return ["report", *args] if is_report else list(args)


def _is_command(name: str) -> bool:
    return any(wing.has_command(name) for wing in SHOWN)


def _names_a_trace(name: str) -> bool:
    return name == "-" or not _PATH_LETTERS.isdisjoint(name) or os.path.exists(name)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weftrace {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@cache
def program(command: str = "") -> typer.Typer:
    """The program with this command alone; all of it where it has none of that name. What other wings' commands need is
    not imported then: half of the time that a short command takes."""
    app = App(
        name="weftrace",
        cls=Root,
        help="Show where a training or serving step went on the GPU, and what would make it faster.",
        epilog="[bold]Examples[/bold]\n\n"
        "weftrace demo     a report without a trace of your own\n\n"
        "weftrace train.json.gz     the report of your trace, as of `weftrace report train.json.gz`\n\n"
        "weftrace train.json.gz --open     the same as a page in the browser\n\n"
        "A command wins over a file or folder of its name: for a folder called `profile`, say weftrace ./profile.\n\n"
        "Exit codes: 0 fine, 1 a gate or --strict not met, 2 wrong usage, 3 an input that cannot be used, "
        "130 and 143 stopped by Ctrl-C or a termination.",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    add_commands(app, command)
    commands = [each for each in app.registered_commands if each.name == command]
    groups = [each for each in app.registered_groups if each.name == command]
    if commands or groups:
        app.registered_commands, app.registered_groups = commands, groups
    return app


def _asked() -> str:
    """The name of the command on the command line, or on the line that the shell completes; "" for none."""
    if "_WEFTRACE_COMPLETE" not in os.environ:
        return next(iter(with_report(sys.argv[1:])), "")
    # bash hands the line on in the last of these, other shells in the first
    line = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", ""))
    words = line.split()[1:]
    return next(iter(with_report(words)), "") if len(words) > 1 or line[-1:].isspace() else ""


def main() -> None:
    """Run the command line. What a user can mend prints one line to stderr and exits with the error's code (2 usage,
    3 an input that cannot be used); Ctrl-C and a termination exit with 130 and 143; a mistake of ours keeps its
    traceback.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)
    # Polars' allocator, which reads this when it is loaded, keeps freed memory for half a second, in four places for
    # each processor: a sixth more than the report of a large trace needs.
    kept = f"dirty_decay_ms:20,muzzy_decay_ms:0,narenas:{os.cpu_count() or 1}"
    os.environ.setdefault("_RJEM_MALLOC_CONF", kept)
    # A command leaves few cycles behind: to search all that it imports for them is a tenth of a short report's time.
    gc.set_threshold(_FEW_SEARCHES)
    atexit.register(gc.freeze)  # so that nothing is searched as the process ends
    make_usable()
    warnings.showwarning = partial(_show_warning, warnings.showwarning)
    try:
        try:
            _run()
        finally:
            sys.stdout.flush()
    except WeftraceError as error:
        said = str(error)
        if said.startswith(f"{STANDARD_INPUT}: "):
            said = STANDARD_INPUT_NAME + said.removeprefix(STANDARD_INPUT)
        typer.echo(f"weftrace: {_shortened(said)}", err=True)
        sys.exit(error.exit_code)
    except MemoryError:
        typer.echo(
            "weftrace: there is not enough memory for this input. Free some, raise the limit (ulimit -v), or give "
            "less: a part of the files, or one with fewer steps.",
            err=True,
        )
        sys.exit(UNUSABLE_INPUT)
    except KeyboardInterrupt:
        _tell_stopped(_STOPPED[_INTERRUPTED])
        sys.exit(_INTERRUPTED)
    except OSError as error:
        if error.filename is not None:  # a name that is too long, a folder that may not be searched
            typer.echo(f"weftrace: {_shortened(str(error.filename))}: cannot be used: {error.strerror}.", err=True)
            sys.exit(UNUSABLE_INPUT)
        if error.errno not in _CANNOT_WRITE:
            raise
        typer.echo(f"weftrace: standard output cannot be written: {error.strerror}.", err=True)
        sys.exit(USAGE)


def _show_warning(
    usual: Callable[..., None], message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    """One line for a warning of ours, without the place in our code."""
    if category.__module__ == WeftraceError.__module__:
        typer.echo(f"weftrace: {message}", err=True)
    else:
        usual(message, category, *where, **more)


def _run() -> None:
    """The command. Exits as it does."""
    try:
        program(_asked())()
    except SystemExit as ended:
        if ended.code in _STOPPED:
            _tell_stopped(_STOPPED[ended.code])
        if ended.code == USAGE and len(sys.argv) == 2 and os.path.exists(name := sys.argv[1]):
            kind = "an option" if name.startswith("-") else "a command" if _is_command(name) else ""
            if kind:
                typer.echo(
                    f"weftrace: {name} is read as {kind}; for the file of that name: weftrace ./{name}", err=True
                )
        raise


def _shortened(said: str) -> str:
    """An error without the middle of a text of the input that it repeats, where that is long."""
    return said if len(said) <= _MOST_SAID else f"{said[: _MOST_SAID // 2]} … {said[-_MOST_SAID // 2 :]}"


_MOST_SAID = 2_000  # characters of an error

#: What a full disk, a quota or a broken device says. Outputs of ours that meet it say so themselves, with their names.
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
_INTERRUPTED, _TERMINATED = (128 + number for number in (signal.SIGINT, signal.SIGTERM))
_STOPPED = {_INTERRUPTED: "interrupted", _TERMINATED: "terminated"}


#: Objects that are made between two searches for cycles among the young ones; Python's own number is 700.
_FEW_SEARCHES = 10_000

#: A terminated program that has not ended by then, in seconds, is ended as it is.
PATIENCE_S = 10.0
_telling = threading.Lock()  # taken by the first to tell that the program was stopped


def _terminated(*_: object) -> None:
    """A termination ends the program as Ctrl-C does, so that nothing is left half written, and no worker is left.

    Where the exception is lost, as Python does with those raised while it frees an object, a thread ends the program.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    last = threading.Timer(PATIENCE_S, _end_at_once)
    last.daemon = True
    last.start()
    raise SystemExit(_TERMINATED)


def _end_at_once() -> None:
    _tell_stopped(_STOPPED[_TERMINATED])
    os._exit(_TERMINATED)


def _tell_stopped(how: str) -> None:
    from weftrace.files.output import remove_unfinished

    remove_unfinished()
    if _telling.acquire(blocking=False):
        typer.echo(f"weftrace: {how}; nothing was left half written.", err=True)


if __name__ == "__main__":
    main()
