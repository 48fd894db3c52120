"""`weftrace critical-path`: what decided how long a run took, and how far its replay is off."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from weftrace.advice.cli.inferring import Traces, exit_if_off, inferred_from
from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET, UNUSABLE_INPUT
from weftrace.options import Option

EPILOG = """[bold]Examples[/bold]

weftrace critical-path train.json.gz                                what decided how long it took

weftrace critical-path train.json.gz -o path.html -o path.json      one page that opens offline, and the numbers

weftrace critical-path train.json.gz -o annotated.json.gz           the trace with the path as lanes, for Perfetto

weftrace critical-path traces/                                      the ranks of a job, joined where they meet

weftrace critical-path --check traces/*.json.gz -o replays.md       how far the replay of each file is off"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which path, or the check of many files instead."""

    check: Annotated[bool, Option("Instead of the path: one line per file, how far the replay of its plan is off.")] = (
        False
    )
    step: Annotated[int | None, Option("Only the part of the path in ProfilerStep N.", metavar="N")] = None


def run(request: Request, traces: Traces, to: outputs.Destination) -> None:
    """Find what decided how long a run took: its critical path, by class, phase, kernel and cause."""
    from weftrace.advice.outputs import CHECKS, CRITICAL_PATH

    wanted = to.wanted(writes=CHECKS if request.check else CRITICAL_PATH, inputs=options.inputs_of(traces.sources))
    if request.check:
        _check(traces, wanted)
        return
    inferred = inferred_from(traces)
    from weftrace.advice.document import critical_path_report
    from weftrace.advice.render.terminal import print_critical_path

    with outputs.working("following the path"):
        report = critical_path_report(inferred, step=request.step)
    show = partial(print_critical_path, top=traces.top)
    outputs.deliver(report, CRITICAL_PATH, wanted, show=show)
    exit_if_off(report.trust, strict=traces.strict)


command = command_of((Request, Traces, outputs.Destination), run)


def _check(traces: Traces, to: outputs.Wanted) -> None:
    """A line a file, each taken by itself."""
    from weftrace.advice.outputs import CHECKS
    from weftrace.advice.replay_checks import check_replays
    from weftrace.files.sources import is_remote
    from weftrace.trace import find_traces

    files = [path for source in traces.sources for path in ([source] if is_remote(source) else find_traces(source))]
    with outputs.progress_bar("replaying") as on_progress:
        found = check_replays(files, max_bytes=options.parse_size(traces.max_bytes), on_progress=on_progress)
    outputs.deliver(found, CHECKS, to)
    if not found.replays:
        raise typer.Exit(UNUSABLE_INPUT)
    if traces.strict and not found.are_trustworthy:
        raise typer.Exit(NOT_MET)
