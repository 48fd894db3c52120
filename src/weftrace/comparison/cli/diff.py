"""`weftrace diff`: what changed from one run to another, and whether that is too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.errors import NOT_MET, UNUSABLE_INPUT, ComparisonError

if TYPE_CHECKING:
    from pathlib import Path

    from weftrace.comparison.document import DiffReport
    from weftrace.comparison.gates import Direction, Gate
    from weftrace.comparison.runs import Run

EPILOG = """[bold]Examples[/bold]

weftrace diff before.json.gz after.json.gz                       what changed in a step, and whose time it is

weftrace diff before/ after/ -o diff.html -o diff.md             two jobs; a page, and Markdown for a pull request

weftrace diff before.json.gz after.json.gz --steps-by 'execute_*'      iterations of an engine that records no steps

weftrace diff 'before/rank*.json.gz' after/ --ranks 0-3          a glob in quotes; some of the ranks

weftrace diff before/ after/ --fail-above span=2% --fail-above exposed=5%      exit 1 where one grew by more

weftrace diff before/ after/ --fail-above kernel:flash_.*bwd=3% --fail-below hidden=2%     a share is held in points

weftrace diff --figures                                          all that may be held to a limit, and what each is

Exit codes: 0 fine, 1 a gate failed, 2 wrong usage, 3 an input that cannot be used, or runs that cannot be compared."""

GATES = "What to fail on"


def complete_gate(incomplete: str) -> list[str]:
    """Figures with the sign that a limit follows; families of weftrace's rules once their form is there."""
    from weftrace.comparison.gates import FIGURES
    from weftrace.trace import load_rules

    families = sorted({rule.family for rule in load_rules().rules}) if incomplete.startswith("family:") else []
    named = [f"{figure.name}{':' if figure.takes else '='}" for figure in FIGURES]
    return [name for name in (*named, *(f"family:{family}=" for family in families)) if name.startswith(incomplete)]


def _list_figures(wanted: bool) -> None:
    if wanted:
        from weftrace.comparison.render.terminal import print_figures

        print_figures(outputs.stdout())
        raise typer.Exit


def command(
    before: Annotated[
        str,
        typer.Argument(
            metavar="BEFORE",
            help="A trace, a folder of ranks, a glob in quotes, a URL; or a report saved as JSON.",
            show_default=False,
        ),
    ],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The other run, likewise.", show_default=False)],
    ranks: options.Ranks = None,
    kernels: options.Kernels = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
    steps_by: Annotated[
        str | None,
        typer.Option(
            "--steps-by",
            help="Name of the ranges that stand for steps (annotations, operators, calls such as cudaGraphLaunch; * is "
            "any text, # any number), in place of the profiler's.",
            metavar="NAME",
            show_default="the profiler's, else annotations that repeat",
        ),
    ] = None,
    fail_above: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-above",
            help="Exit with 1 where a figure grew by more, repeatable: exposed=5%, idle=300us, family:gemm=5%; see "
            "--figures.",
            metavar="NAME=LIMIT",
            autocompletion=complete_gate,
            show_default=False,
            rich_help_panel=GATES,
        ),
    ] = None,
    fail_below: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-below",
            help="Exit with 1 where a figure fell by more, repeatable: hidden=2% (of a share, points).",
            metavar="NAME=LIMIT",
            autocompletion=complete_gate,
            show_default=False,
            rich_help_panel=GATES,
        ),
    ] = None,
    beyond_noise: Annotated[
        bool,
        typer.Option(
            "--beyond-noise",
            help="Only where the change is more than noise: more than the steps of one run differ by.",
            rich_help_panel=GATES,
        ),
    ] = False,
    figures: Annotated[
        bool,
        typer.Option(
            "--figures",
            callback=_list_figures,
            is_eager=True,
            help="List the figures that may be held to a limit, with their definitions.",
            rich_help_panel=GATES,
        ),
    ] = False,
    top: Annotated[int, typer.Option("--top", help="Rows of each table in the terminal.", min=1, metavar="N")] = 8,
    output: outputs.Files = None,
    json: outputs.Json = False,
    quiet: outputs.Quiet = False,
) -> None:
    """Compare two runs: what changed in a step, by how much, and whether it is more than noise."""
    from weftrace.comparison.outputs import REPORT

    gates = [*_gates(fail_above, "above", "--fail-above"), *_gates(fail_below, "below", "--fail-below")]
    if beyond_noise and not gates:
        raise typer.BadParameter("it has no meaning without --fail-above or --fail-below", param_hint="--beyond-noise")
    inputs = options.inputs_of([before, after], *(kernels or ()))
    to = outputs.wanted(output, writes=REPORT, inputs=inputs, json=json, quiet=quiet)
    with_page = any(path.lower().endswith(".html") for path in to.paths)  # which draws the events
    runs = [_run(path, ranks, kernels, workers, max_bytes, steps_by, with_page) for path in (before, after)]
    from weftrace.comparison.diffs import diff
    from weftrace.comparison.document import diff_report
    from weftrace.comparison.gates import judged
    from weftrace.comparison.render.terminal import print_diff

    found = diff(*runs)
    report = diff_report(found, judged(found, gates, beyond_noise=beyond_noise))
    outputs.deliver(report, REPORT, to, show=lambda report, console: print_diff(report, console, top))
    _exit(report, is_told=not (json or quiet))


def _gates(texts: Sequence[str] | None, direction: Direction, option: str) -> list[Gate]:
    from weftrace.comparison.gates import parse_gate

    try:
        return [parse_gate(text, direction) for text in texts or ()]
    except ComparisonError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _run(
    path: str,
    ranks: str | None,
    kernels: list[Path] | None,
    workers: int | None,
    max_bytes: str,
    steps_by: str | None,
    with_page: bool,
) -> Run:
    """What of one side is compared; its events are kept for a page alone."""
    from weftrace.comparison.runs import run_of
    from weftrace.comparison.saved_reports import is_report, read_report

    if is_report(path):
        return read_report(path, ranks=options.parse_ranks(ranks))
    with (
        options.opened([path], ranks=ranks, max_bytes=max_bytes, workers=workers) as source,
        options.rank_progress(source) as on_done,
    ):
        rules = options.load_kernels(kernels)
        return run_of(source, rules=rules, workers=workers, keep_work=with_page, steps_by=steps_by, on_done=on_done)


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
        option = "--fail-above" if gate["direction"] == "above" else "--fail-below"
        typer.echo(f"weftrace: {option} {gate['sentence']}", err=True)
    if failed:
        raise typer.Exit(NOT_MET)
