"""`weftrace report`: everything about a trace or a job, in the terminal, as HTML, as JSON."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.errors import NOT_MET, UNUSABLE_INPUT

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport

EPILOG = """[bold]Examples[/bold]

weftrace report train.json.gz                                       summary in the terminal

weftrace report train.json.gz -o report.html -o report.json         one page that opens offline, and the numbers

weftrace report traces/*.json.gz --workers 8                        many ranks; a folder does as well

weftrace report /shared/traces/ --cluster ray://head:10001          512 ranks, on a Ray or Dask cluster

weftrace report train.json.gz --by module                           time by nn.Module, of a trace with stacks

weftrace report train.json.gz --flops flops.json --hardware h100    FLOP/s and MFU of each phase

weftrace report train.json.gz --step 3 --json | jq '.ranks[0].hidden_fraction'"""


class ByChoice(StrEnum):
    """The words of `--by`: those of `weftrace.trace.code_names.By`."""

    module = "module"
    line = "line"


def command(
    sources: options.Sources,
    output: outputs.Files = None,
    json: outputs.Json = False,
    step: options.Step = None,
    step_by: options.StepByChoice = None,
    by: Annotated[
        list[ByChoice] | None,
        typer.Option(
            "--by",
            help="Time by [bold]module[/bold] (nn.Module), or by [bold]line[/bold]: by Python function, and the line "
            "at which it begins. Reads the file's Python frames; repeatable.",
            show_default=False,
        ),
    ] = None,
    ranks: options.Ranks = None,
    kernels: options.Kernels = None,
    flops: Annotated[
        str | None,
        typer.Option(
            "--flops",
            help="What a step of the same run costs (`weftrace flops … -o flops.json`): adds MFU by phase.",
            metavar="JSON",
        ),
    ] = None,
    hardware: Annotated[
        str | None,
        typer.Option(
            "--hardware", help="With --flops: whose peaks count; default: the trace's device.", metavar="NAME"
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 1 where a rank's file was unusable, or events were lost in reading."),
    ] = False,
    workers: options.Workers = None,
    cluster: options.Cluster = "local",
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
    quiet: outputs.Quiet = False,
) -> None:
    """Report where the step went: what hides what, what is exposed, what could be saved."""
    from weftrace.report.outputs import REPORT

    options.check_cluster(cluster)
    inputs = options.inputs_of(sources, flops, *(kernels or ()))
    wanted = outputs.wanted(output, writes=REPORT, inputs=inputs, json=json, quiet=quiet)
    rules = options.load_kernels(kernels)
    selected_by = options.step_by_of(step, step_by)
    counted = None
    if flops is not None:
        counted = read_counted(flops)
    elif hardware is not None:
        raise typer.BadParameter("it has no meaning without --flops", param_hint="--hardware")
    with options.opened(sources, ranks=ranks, max_bytes=max_bytes, frames=bool(by), workers=workers) as trace:
        from weftrace.report import analyze

        with options.executor_on(cluster, trace) as executor, options.rank_progress(trace) as on_done:
            report = analyze(
                trace,
                rules=rules,
                step=step,
                step_by=selected_by,
                by=tuple(choice.value for choice in dict.fromkeys(by or ())),
                timelines=wanted.has(".html"),
                flops=counted,
                hardware=hardware,
                workers=workers,
                executor=executor,
                on_done=on_done,
            )
    outputs.deliver(report, REPORT, wanted)
    document = report.document
    if json or quiet or strict or not document["ranks"]:  # else the summary has named them
        options.tell_failures([failure["error"] for failure in document["failures"]])
    if not document["ranks"]:
        raise typer.Exit(UNUSABLE_INPUT)
    if strict and (document["failures"] or any(rank["quality"]["dropped"] for rank in document["ranks"])):
        lost = sum(rank["quality"]["dropped"] for rank in document["ranks"])
        typer.echo(f"weftrace: --strict: {len(document['failures'])} unusable files, {lost:,} lost events", err=True)
        raise typer.Exit(NOT_MET)


def read_counted(path: str) -> FlopsReport:
    """The report of FLOPs in a file. Raises `typer.BadParameter` in a house without that wing."""
    try:
        from weftrace.flops import read_flops
    except ModuleNotFoundError as missing:
        raise typer.BadParameter("this weftrace counts no FLOPs", param_hint="--flops") from missing
    return read_flops(path)
