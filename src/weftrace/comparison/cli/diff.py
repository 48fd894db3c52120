"""`weftrace diff`: what changed from one run to another, and whether that is too much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import completion, options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET, UNUSABLE_INPUT, ComparisonError
from weftrace.files.schemas import Positive
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.comparison.document import DiffReport
    from weftrace.comparison.gates import Direction, Gate
    from weftrace.comparison.runs import Run

EPILOG = """[bold]Examples[/bold]

weftrace diff before.json.gz after.json.gz                       what changed in a step, and where

weftrace diff before/ after/ -o diff.html -o diff.md             two jobs; a page, and Markdown for a pull request

weftrace diff before.json.gz after.json.gz --steps-named 'execute_*'      iterations of an engine that records no steps

weftrace diff 'before/rank*.json.gz' after/ --ranks 0-3          a glob in quotes; some of the ranks

weftrace diff before/ after/ --fail-above span=2% --fail-above exposed=5%      exit 1 where one grew by more

weftrace diff before/ after/ --fail-above kernel:flash_.*bwd=3% --fail-below hidden=2%     a share is held in points

weftrace diff --figures                                          the figures that can have a limit

Exit status: 0 success, 1 a gate failed, 2 wrong usage, 3 an input is unusable or the runs cannot be compared."""

GATES = "What to fail on"


def complete_gate(incomplete: str) -> list[str]:
    """Figures with the sign that a limit follows; families of weftrace's rules once their form is there."""
    families = completion.families() if incomplete.startswith("family:") else []
    named = (*completion.FIGURES, *(f"family:{family}=" for family in families))
    return [name for name in named if name.startswith(incomplete)]


def _list_figures(wanted: bool) -> None:
    if wanted:
        from weftrace.comparison.render.terminal import print_figures

        print_figures(outputs.stdout())
        raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Two runs, what of them is compared, and what is too much of a change."""

    before: Annotated[
        str,
        Option(
            "A trace, a folder of ranks, a glob in quotes, a URL; or a report saved as JSON.", is_argument=True,
            metavar="BEFORE",
        ),
    ]  # fmt: skip
    after: Annotated[str, Option("The other run, in the same form.", is_argument=True, metavar="AFTER")]
    ranks: options.Ranks = None
    kernels: options.Kernels = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES
    steps_by: Annotated[
        str | None,
        Option(
            "The ranges that are the steps, instead of ProfilerStep: annotations, operators or calls such as "
            "cudaGraphLaunch of this name; * is any text, # any number.",
            ("--steps-named",), metavar="NAME", shows_default="the profiler's, else annotations that repeat",
        ),
    ] = None  # fmt: skip
    fail_above: Annotated[
        tuple[str, ...],
        Option(
            "Exit with status 1 if a figure grew by more, repeatable: exposed=5%, idle=300us, family:gemm=5%; see "
            "--figures.",
            metavar="NAME=LIMIT", completes="weftrace.comparison.cli.diff:complete_gate", panel=GATES,
        ),
    ] = ()  # fmt: skip
    fail_below: Annotated[
        tuple[str, ...],
        Option(
            "Exit with status 1 if a figure fell by more, repeatable: hidden=2% (of a share, points).",
            metavar="NAME=LIMIT", completes="weftrace.comparison.cli.diff:complete_gate", panel=GATES,
        ),
    ] = ()  # fmt: skip
    beyond_noise: Annotated[
        bool,
        Option(
            "Only if the change is more than noise, that is, larger than the difference between steps of one run.",
            panel=GATES,
        ),
    ] = False
    figures: Annotated[
        bool,
        typer.Option(
            "--figures", callback=_list_figures, is_eager=True, rich_help_panel=GATES,
            help="List the figures that can have a limit, with their definitions.",
        ),
    ] = False  # fmt: skip
    top: Annotated[Positive, Option("Rows of each table in the terminal.", metavar="N")] = 8


def run(request: Request, to: outputs.Destination) -> None:
    """Compare two runs: what changed in a step, how much, and whether it is more than noise."""
    from weftrace.comparison.outputs import REPORT

    gates = [*_gates(request.fail_above, "above"), *_gates(request.fail_below, "below")]
    if request.beyond_noise and not gates:
        raise typer.BadParameter("it needs --fail-above or --fail-below", param_hint="--beyond-noise")
    sides = request.before, request.after
    wanted = to.wanted(writes=REPORT, inputs=options.inputs_of([*sides], *(request.kernels or ())))
    runs = [_run(path, request, with_page=wanted.has(".html")) for path in sides]  # a page draws the events
    from weftrace.comparison.diffs import diff
    from weftrace.comparison.document import diff_report
    from weftrace.comparison.gates import judged
    from weftrace.comparison.render.terminal import print_diff

    found = diff(*runs)
    report = diff_report(found, judged(found, gates, beyond_noise=request.beyond_noise))
    outputs.deliver(report, REPORT, wanted, show=partial(print_diff, top=request.top))
    _exit(report, is_told=not (to.json or to.quiet))


command = command_of((Request, outputs.Destination), run)


def _gates(texts: Sequence[str], direction: Direction) -> list[Gate]:
    from weftrace.comparison.gates import parse_gate

    try:
        return [parse_gate(text, direction) for text in texts]
    except ComparisonError as error:
        raise typer.BadParameter(str(error), param_hint=f"--fail-{direction}") from error


def _run(path: str, request: Request, *, with_page: bool) -> Run:
    """What of one side is compared; its events are kept for a page alone."""
    from weftrace.comparison.runs import run_of
    from weftrace.comparison.saved_reports import is_report, read_report

    if is_report(path):
        return read_report(path, ranks=options.parse_ranks(request.ranks))
    workers = request.workers
    with (
        options.opened([path], ranks=request.ranks, max_bytes=request.max_bytes, workers=workers) as source,
        options.rank_progress(source) as on_done,
    ):
        rules = options.load_kernels(request.kernels)
        return run_of(
            source, rules=rules, workers=workers, keep_work=with_page, steps_by=request.steps_by, advises=True,
            on_done=on_done,
        )  # fmt: skip


def _exit(report: DiffReport, *, is_told: bool) -> None:
    """3 for what cannot be used or compared, else 1 for gates that are not met, a line each."""
    failures = [*report.before.failures, *report.after.failures]
    if not is_told:
        options.tell_failures(failures)
    if report.verdict.word == "not comparable":
        summary = "; gates are not judged" if report.gates else ""
        typer.echo(f"weftrace: not comparable: {'; '.join(report.verdict.reasons)}{summary}", err=True)
        raise typer.Exit(UNUSABLE_INPUT)
    failed = [gate for gate in report.gates if gate["is_met"] is False]
    for gate in failed:
        typer.echo(f"weftrace: --fail-{gate['direction']} {gate['sentence']}", err=True)
    if failed:
        raise typer.Exit(NOT_MET)
