"""`weftrace`: the commands of all wings, and how their errors reach a person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weftrace.errors import WeftraceError
from weftrace.version import __version__
from weftrace.wings import add_commands

app = typer.Typer(
    name="weftrace",
    help="Show which communication is hidden behind which computation, where the step went, and what could be saved.",
    epilog="Start with: weftrace demo, then weftrace report YOUR_TRACE.json.gz -o report.html\n\n"
    "Exit codes: 0 fine, 1 a gate or --strict not met, 2 wrong usage, 3 an input that cannot be used.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
add_commands(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"weftrace {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line. What a user can mend prints one line to stderr and exits with the error's code (2 usage,
    3 an input that cannot be used); a mistake of ours keeps its traceback.
    """
    try:
        app()
    except WeftraceError as error:
        typer.echo(f"weftrace: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("weftrace: interrupted; nothing was left half written.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
