"""`weftrace critical-path`: what decided how long a run took, and how far its replay is off."""

from __future__ import annotations

from typing import Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.errors import NOT_MET, UNUSABLE_INPUT

EPILOG = """[bold]Examples[/bold]

weftrace critical-path --check traces/*.json.gz -o replays.md       how far replays of these files are off"""


def command(
    sources: options.Sources,
    check: Annotated[
        bool,
        typer.Option("--check", help="Instead of a path: a line a file, how far the replay of its plan is off."),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 where a replay is more than 3 % off the measured span.")
    ] = False,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
    output: outputs.Output = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Find what decided how long a run took: its critical path, by class, phase, kernel and cause."""
    _check(sources, max_bytes, output, json=json, quiet=quiet, strict=strict)


def _check(
    sources: list[str], max_bytes: str, output: outputs.Output, *, json: bool, quiet: bool, strict: bool
) -> None:
    from weftrace.advice.kinds import CHECKS
    from weftrace.advice.replay_checks import check_replays
    from weftrace.files.sources import is_remote
    from weftrace.trace import find_traces

    to = outputs.wanted(output, writes=CHECKS, inputs=options.inputs_of(sources), json=json, quiet=quiet)
    files = [path for source in sources for path in ([source] if is_remote(source) else find_traces(source))]
    with outputs.progress_bar("replaying") as on_progress:
        found = check_replays(files, max_bytes=options.parse_size(max_bytes), on_progress=on_progress)
    outputs.deliver(found, CHECKS, to)
    if not found.replays:
        raise typer.Exit(UNUSABLE_INPUT)
    if strict and not found.are_trustworthy:
        raise typer.Exit(NOT_MET)
