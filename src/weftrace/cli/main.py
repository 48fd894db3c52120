"""`weftrace`: the commands, and how their errors reach a person."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from weftrace.errors import WeftraceError
from weftrace.experts.cli import app as experts
from weftrace.flops.cli import app as flops
from weftrace.report.cli import annotate, convert, demo, lanes, report
from weftrace.version import __version__

app = typer.Typer(
    name="weftrace",
    help="Show which communication is hidden behind which computation, where the step went, and what could be saved.",
    epilog="Start with: weftrace demo, then weftrace report YOUR_TRACE.json.gz -o report.html",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("report", epilog=report.EPILOG)(report.command)
app.command("lanes", epilog=lanes.EPILOG)(lanes.command)
app.command("annotate", epilog=annotate.EPILOG)(annotate.command)
app.command("convert", epilog=convert.EPILOG)(convert.command)
app.command("demo", epilog=demo.EPILOG)(demo.command)
app.add_typer(experts.app, name="experts")
app.add_typer(flops.app, name="flops")


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
    """Run the command line. Users' mistakes print one line to stderr and exit with 2; our own keep their traceback."""
    try:
        app()
    except WeftraceError as error:
        typer.echo(f"weftrace: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("weftrace: interrupted; nothing was left half written.", err=True)
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, `head` say, has seen enough
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
