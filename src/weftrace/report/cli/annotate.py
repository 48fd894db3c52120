"""`weftrace annotate`: the original trace, byte for byte, with weftrace's lanes, phases and counters added."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options
from weftrace.errors import WeftraceError

if TYPE_CHECKING:
    from weftrace.trace.chrome.annotate import Annotated as Done

EPILOG = """[bold]Examples[/bold]

weftrace annotate train.json.gz -o annotated.json.gz     then open it in Perfetto or chrome://tracing

weftrace annotate traces/ -o annotated/                  every rank of a folder

weftrace annotate train.json.gz --flops flops.json -o with-mfu.json.gz     FLOP/s and MFU of each phase as counters"""


def command(
    source: options.Source,
    output: Annotated[
        str,
        typer.Option("-o", "--output", help="Chrome JSON to write, compressed by its ending; for many ranks, a folder.",
                     metavar="PATH", show_default=False),
    ],
    flops: Annotated[
        str | None,
        typer.Option("--flops", help="FLOPs of the same run, as [bold]weftrace flops --json[/bold] saved them: add "
                     "counters of FLOP/s, bytes/s and MFU instead of lanes.", metavar="FILE", show_default=False),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--hardware", help="With --flops: the accelerator whose peaks make the MFU.", metavar="NAME",
                     show_default=False),
    ] = None,
    step: options.Step = None,
    ranks: options.Ranks = None,
    kernels: options.Kernels = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
) -> None:  # fmt: skip
    """Add lanes, phases and counters to a trace for chrome://tracing and Perfetto; every original byte stays."""
    rules = options.load_kernels(kernels)
    limit = options.parse_size(max_bytes)
    if flops is None and device is not None:
        raise typer.BadParameter("it has no meaning without --flops", param_hint="--hardware")
    if flops is not None:
        unused = {"--step": step, "--kernels": kernels, "--workers": workers}
        if given := [name for name, value in unused.items() if value]:
            raise typer.BadParameter("it has no meaning with --flops", param_hint=", ".join(given))
    with options.opened(source, ranks=ranks, max_bytes=max_bytes) as trace:
        from functools import partial

        from weftrace.report import annotate_trace
        from weftrace.trace import Job

        if flops is not None:
            done = annotate_with_flops(trace, flops, device, output, limit)
        elif isinstance(trace, Job):
            options.save_ranks(
                trace, partial(annotate_in, folder=output, rules=rules, step=step, limit=limit), output, workers
            )
            return
        else:
            done = annotate_trace(trace, output, rules=rules, step=step, max_bytes=limit)
    options.tell_written(output)
    typer.echo(f"{done.num_events:,} events added as process “weftrace”", err=True)
    if done.truncated:
        typer.echo(
            f"weftrace: the original is incomplete: {done.truncated}; the copy was closed after its last whole event",
            err=True,
        )


def annotate_with_flops(trace: object, flops: str, device: str | None, output: str, limit: int) -> Done:
    """Add the counters of one rank's FLOPs to its trace."""
    from weftrace.flops import annotate_flops, read_flops
    from weftrace.trace import Trace

    if not isinstance(trace, Trace):
        raise WeftraceError("--flops belongs to one trace; choose a rank of this job with --ranks")
    return annotate_flops(trace, read_flops(flops), output, device=device, max_bytes=limit)


def annotate_in(trace: object, folder: str, rules: object, step: int | None, limit: int) -> str:
    """Annotate one rank of a job into a folder, under its own name."""
    from weftrace.report import annotate_trace
    from weftrace.trace import KernelRules, Trace

    assert isinstance(trace, Trace) and isinstance(rules, KernelRules)
    path = str(Path(folder) / Path(trace.path).name)
    annotate_trace(trace, path, rules=rules, step=step, max_bytes=limit)
    return path
