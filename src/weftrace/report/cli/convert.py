"""`weftrace convert`: parse a big trace once; or turn one kind of file into another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weftrace.cli import options, outputs

if TYPE_CHECKING:
    from weftrace.trace import Trace

EPILOG = """[bold]Examples[/bold]

weftrace convert train.json.gz -o train.parquet      weftrace report train.parquet then opens at once

weftrace convert traces/ -o parquet/                 every rank of a folder

weftrace convert train.parquet -o train.json.gz      back to Chrome JSON"""

SUFFIXES = (".parquet", ".json", ".json.gz", ".json.zst")


def command(
    sources: options.Sources,
    output: Annotated[
        str,
        typer.Option("-o", "--output", help=f"File ending in {', '.join(SUFFIXES)}; for many, a folder.",
                     metavar="PATH", show_default=False),
    ],
    ranks: options.Ranks = None,
    workers: options.Workers = None,
    cluster: options.Cluster = "local",
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
) -> None:  # fmt: skip
    """Convert traces: JSON to Parquet, so that a big job is parsed once, or back. Many ranks become Parquet."""
    options.check_cluster(cluster)
    inputs = options.inputs_of(sources)
    options.check_target(output, sources, ranks, endings=SUFFIXES, inputs=inputs)
    with options.opened(sources, ranks=ranks, max_bytes=max_bytes, workers=workers) as trace:
        from weftrace.trace import Job

        if isinstance(trace, Job):
            options.save_ranks(trace, save, output, workers, cluster=cluster, inputs=inputs, ending=".parquet")
            return
    save(trace, output)
    outputs.tell_written(output)


def save(trace: Trace, path: str) -> None:
    """Write a trace in the kind of file that the path's ending names."""
    from weftrace.trace import save_parquet, write_chrome

    if path.endswith(".parquet"):
        save_parquet(trace, path)
    else:
        write_chrome(trace, path)
