"""`weft annotate`: the original trace, byte for byte, with weft's lanes, phases and counters added."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli import options

EPILOG = """[bold]Examples[/bold]

weft annotate train.json.gz -o annotated.json.gz     then open it in Perfetto or chrome://tracing

weft annotate traces/ -o annotated/                  every rank of a folder"""


def command(
    source: options.Source,
    output: Annotated[
        str,
        typer.Option("-o", "--output", help="Chrome JSON to write, compressed by its ending; for many ranks, a folder.",
                     metavar="PATH", show_default=False),
    ],
    step: options.Step = None,
    ranks: options.Ranks = None,
    kernels: options.Kernels = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
) -> None:  # fmt: skip
    """Add lanes, phases and counters to a trace for chrome://tracing and Perfetto; every original byte stays."""
    rules = options.load_kernels(kernels)
    limit = options.parse_size(max_bytes)
    with options.opened(source, ranks=ranks, max_bytes=max_bytes) as trace:
        from functools import partial

        from weft.report import annotate_trace
        from weft.trace import Job

        if isinstance(trace, Job):
            options.save_ranks(
                trace, partial(annotate_in, folder=output, rules=rules, step=step, limit=limit), output, workers
            )
            return
        done = annotate_trace(trace, output, rules=rules, step=step, max_bytes=limit)
    options.tell_written(output)
    typer.echo(f"{done.num_events:,} events added as process “weft”", err=True)
    if done.truncated:
        typer.echo(
            f"weft: the original is incomplete: {done.truncated}; the copy was closed after its last whole event",
            err=True,
        )


def annotate_in(trace: object, folder: str, rules: object, step: int | None, limit: int) -> str:
    """Annotate one rank of a job into a folder, under its own name."""
    from weft.report import annotate_trace
    from weft.trace import KernelRules, Trace

    assert isinstance(trace, Trace) and isinstance(rules, KernelRules)
    path = str(Path(folder) / Path(trace.path).name)
    annotate_trace(trace, path, rules=rules, step=step, max_bytes=limit)
    return path
