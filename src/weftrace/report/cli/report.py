"""`weftrace report`: everything about a trace or a job, in the terminal, as HTML, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import NOT_MET, UNUSABLE_INPUT, WeftraceError
from weftrace.options import Option

if TYPE_CHECKING:
    from weftrace.flops import FlopsReport
    from weftrace.report.efficiency_gates import EfficiencyGate

EPILOG = """[bold]Examples[/bold]

weftrace report train.json.gz                                       summary in the terminal

weftrace report train.json.gz -o report.html -o report.json         one page that opens offline, and the numbers

weftrace report traces/*.json.gz --workers 8                        many ranks; a folder works too

weftrace report /shared/traces/ --cluster ray://head:10001          512 ranks, on a Ray or Dask cluster

weftrace report train.json.gz --by module                           time by nn.Module, of a trace with stacks

weftrace report train.json.gz --flops flops.json --hardware h100    FLOP/s and MFU of each phase

weftrace report train.json.gz --fail-below mfu=40%                  exits with status 1 if MFU is lower, or unknown

weftrace report train.json.gz --step 3 --json | jq '.ranks[0].hidden_fraction'"""


class ByChoice(StrEnum):
    """The words of `--by`: those of `weftrace.trace.code_names.By`."""

    module = "module"
    line = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The traces to report on, and which part of them."""

    sources: options.Sources
    step: options.Step = None
    step_by: options.StepByChoice = None
    by: Annotated[
        tuple[ByChoice, ...],
        Option(
            "Show time by [bold]module[/bold] (nn.Module), or by [bold]line[/bold] (Python function, "
            "with the line at which it begins). Reads the file's Python frames; repeatable.",
            shows_default=False,
        ),
    ] = ()
    ranks: options.Ranks = None
    kernels: options.Kernels = None
    operators: options.CustomOps = None
    flops: Annotated[
        str | None,
        Option(
            "FLOPs of a step of the same run (from `weftrace flops … -o flops.json`): adds MFU by phase.",
            metavar="JSON",
        ),
    ] = None
    hardware: Annotated[
        str | None,
        Option(
            "The accelerator that sets the peaks of efficiency and MFU; default: the trace's device.", metavar="NAME",
            completes="weftrace.cli.options:complete_hardware",
        ),
    ] = None  # fmt: skip
    fail_below: Annotated[
        tuple[str, ...],
        Option(
            "Exit with status 1 if a share of any rank is lower, or unknown; repeatable: [bold]mfu[/bold]=40%, "
            "[bold]hfu[/bold]=40%, [bold]gemm[/bold]=60% (of their peak), [bold]rated[/bold]=70% (device time with "
            "known FLOPs), [bold]tensor-cores[/bold]=90% (of the time of matrix products).",
            metavar="NAME=SHARE", completes="weftrace.report.cli.report:complete_gate",
        ),
    ] = ()  # fmt: skip
    strict: Annotated[
        bool, Option("Exit with status 1 if a rank's file was unusable, or events were lost in reading.")
    ] = False
    workers: options.Workers = None
    cluster: options.Cluster = "local"
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Show where the step went: what hides what, what is exposed, and what could be saved."""
    from weftrace.report.efficiency_gates import unmet
    from weftrace.report.outputs import REPORT

    options.check_cluster(request.cluster)
    inputs = options.inputs_of(request.sources, request.flops, *(request.kernels or ()), *(request.operators or ()))
    wanted = to.wanted(writes=REPORT, inputs=inputs)
    rules = options.load_kernels(request.kernels)
    custom_ops = options.load_operators(request.operators)
    selected_by = options.step_by_of(request.step, request.step_by)
    counted = None
    if request.flops is not None:
        counted = read_counted(request.flops)
    gates = _gates(request.fail_below)
    with (
        options.opened(
            request.sources,
            ranks=request.ranks,
            max_bytes=request.max_bytes,
            frames=True,
            workers=request.workers,
        ) as trace,
        options.spool() as spool,
    ):
        from weftrace.report import analyze

        with options.executor_on(request.cluster, trace) as executor, options.rank_progress(trace) as on_done:
            report = analyze(
                trace,
                rules=rules,
                step=request.step,
                step_by=selected_by,
                by=tuple(choice.value for choice in dict.fromkeys(request.by)),
                timelines=wanted.has(".html"),
                flops=counted,
                hardware=request.hardware,
                custom_ops=custom_ops,
                workers=request.workers,
                executor=executor,
                on_done=on_done,
                spool=spool,
            )
        outputs.deliver(report, REPORT, wanted)
    document = report.document
    if to.json or to.quiet or request.strict or not document["ranks"]:  # else the summary has named them
        options.tell_failures([failure["error"] for failure in document["failures"]])
    if not document["ranks"]:
        raise typer.Exit(UNUSABLE_INPUT)
    if request.strict and (document["failures"] or any(rank["quality"]["dropped"] for rank in document["ranks"])):
        lost = sum(rank["quality"]["dropped"] for rank in document["ranks"])
        typer.echo(f"weftrace: --strict: {len(document['failures'])} unusable files, {lost:,} lost events", err=True)
        raise typer.Exit(NOT_MET)
    failed = unmet(document, gates)
    for sentence in failed:
        typer.echo(f"weftrace: --fail-below {sentence}", err=True)
    if failed:
        raise typer.Exit(NOT_MET)


command = command_of((Request, outputs.Destination), run)


def _gates(texts: Sequence[str]) -> list[EfficiencyGate]:
    from weftrace.report.efficiency_gates import parse_efficiency_gate

    try:
        return [parse_efficiency_gate(text) for text in texts]
    except WeftraceError as error:
        raise typer.BadParameter(str(error), param_hint="--fail-below") from error


def complete_gate(incomplete: str) -> list[str]:
    """Names of gates, with their equals sign."""
    from weftrace.report.efficiency_gates import FIGURES

    return [f"{name}=" for name in FIGURES if f"{name}=".startswith(incomplete)]


def read_counted(path: str) -> FlopsReport:
    """The report of FLOPs in a file. Raises `typer.BadParameter` in a house without that wing."""
    try:
        from weftrace.flops import read_flops
    except ModuleNotFoundError as missing:
        raise typer.BadParameter("this installation of weftrace has no FLOPs report", param_hint="--flops") from missing
    return read_flops(path)
