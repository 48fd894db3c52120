"""`weftrace annotate`: the original trace, byte for byte, with weftrace's lanes, phases and counters added."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import WeftraceError
from weftrace.options import Option
from weftrace.outputs import DOCUMENT_SUFFIXES
from weftrace.report.cli.report import read_counted

if TYPE_CHECKING:
    from weftrace.trace import Annotated as Done
    from weftrace.trace import Job, KernelRules, StepBy, Trace

EPILOG = """[bold]Examples[/bold]

weftrace annotate train.json.gz -o annotated.json.gz     then open it in Perfetto or chrome://tracing

weftrace annotate traces/ -o annotated/                  every rank of a folder

weftrace annotate train.json.gz --in-place               the file itself, replaced only when the copy is whole

weftrace annotate train.json.gz --flops flops.json -o with-mfu.json.gz     FLOP/s and MFU of each phase as counters"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Which traces to annotate, with what, and where the copies go."""

    sources: options.Sources
    output: Annotated[
        str | None,
        Option(
            "Chrome JSON to write, compressed by its ending; for many ranks, a folder.",
            ("-o", "--output"),
            metavar="PATH",
        ),
    ] = None
    in_place: Annotated[bool, Option("Instead of --output: replace each trace by its annotated copy.")] = False
    flops: Annotated[
        str | None,
        Option(
            "FLOPs of the same run, as [bold]weftrace flops -o flops.json[/bold] saved them: add counters of FLOP/s, "
            "bytes/s and MFU instead of lanes.",
            metavar="FILE",
        ),
    ] = None
    device: Annotated[
        str | None,
        Option("With --flops: the accelerator that sets the peak of the MFU.", ("--hardware",), metavar="NAME"),
    ] = None
    step: options.Step = None
    step_by: options.StepByChoice = None
    ranks: options.Ranks = None
    kernels: options.Kernels = None
    workers: options.Workers = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request) -> None:
    """Add lanes, phases and counters to a trace for chrome://tracing and Perfetto; every original byte stays."""
    if (request.output is None) != request.in_place:
        raise typer.BadParameter("choose where to write: -o PATH or --in-place", param_hint="--output")
    if request.in_place and "-" in request.sources:
        raise typer.BadParameter("standard input is no file that could be replaced", param_hint="--in-place")
    inputs: list[str] = []
    if request.output is not None:
        inputs = options.inputs_of(request.sources, request.flops, *(request.kernels or ()))
        options.check_target(request.output, request.sources, request.ranks, endings=DOCUMENT_SUFFIXES, inputs=inputs)
    selected_by = options.step_by_of(request.step, request.step_by)
    rules = options.load_kernels(request.kernels)
    limit = options.parse_size(request.max_bytes)
    if request.flops is None and request.device is not None:
        raise typer.BadParameter("it needs --flops", param_hint="--hardware")
    if request.flops is not None:
        unused = {"--step": request.step, "--kernels": request.kernels, "--workers": request.workers}
        if given := [name for name, value in unused.items() if value]:
            raise typer.BadParameter("it does not work together with --flops", param_hint=", ".join(given))
    with options.opened(
        request.sources, ranks=request.ranks, max_bytes=request.max_bytes, workers=request.workers
    ) as trace:
        from weftrace.report import annotate_trace
        from weftrace.trace import Job

        if isinstance(trace, Job):
            if request.flops is not None:
                raise WeftraceError("--flops needs one trace; choose a rank of this job with --ranks")
            one = partial(_annotated, rules=rules, step=request.step, step_by=selected_by, limit=limit)
            for folder, job in _folders(trace, request.output):
                options.save_ranks(job, one, folder, request.workers, inputs=inputs, in_place=request.in_place)
            return
        path = trace.path if request.output is None else request.output
        if request.flops is not None:
            done = _with_flops(trace, request.flops, request.device, path, limit)
        else:
            done = annotate_trace(trace, path, rules=rules, step=request.step, step_by=selected_by, max_bytes=limit)
    outputs.tell_written(path)
    typer.echo(f"{done.num_events:,} events added as process “weftrace”", err=True)
    if done.truncated:
        typer.echo("weftrace: the file is incomplete; the copy ends after the last whole event", err=True)


command = command_of(Request, run, completes={"device": options.complete_hardware})


def _folders(job: Job, output: str | None) -> list[tuple[str, Job]]:
    """(folder to write to, ranks that go there): one folder, or in place each rank's own."""
    from dataclasses import replace
    from pathlib import Path

    if output is not None:
        return [(output, job)]
    folders = dict.fromkeys(str(Path(path).parent) for path in job.paths)
    return [
        (folder, replace(job, paths=tuple(path for path in job.paths if str(Path(path).parent) == folder)))
        for folder in folders
    ]


def _annotated(trace: Trace, path: str, *, rules: KernelRules, step: int | None, step_by: StepBy, limit: int) -> None:
    from weftrace.report import annotate_trace

    annotate_trace(trace, path, rules=rules, step=step, step_by=step_by, max_bytes=limit)


def _with_flops(trace: Trace, flops: str, device: str | None, path: str, limit: int) -> Done:
    counted = read_counted(flops)
    from weftrace.flops import annotate_flops

    return annotate_flops(trace, counted, path, device=device, max_bytes=limit)
