"""`weftrace convert`: parse a big trace once; or turn one kind of file into another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weftrace.cli import options

EPILOG = """[bold]Examples[/bold]

weftrace convert train.json.gz -o train.parquet      weftrace report train.parquet then opens at once

weftrace convert traces/ -o parquet/                 every rank of a folder

weftrace convert train.parquet -o train.json.gz      back to Chrome JSON"""

_SUFFIXES = (".parquet", ".json", ".json.gz", ".json.zst")


def command(
    source: options.Source,
    output: Annotated[
        str,
        typer.Option("-o", "--output", help=f"File ending in {', '.join(_SUFFIXES)}; for many ranks, a folder.",
                     metavar="PATH", show_default=False),
    ],
    ranks: options.Ranks = None,
    workers: options.Workers = None,
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES,
) -> None:  # fmt: skip
    """Convert traces: JSON to Parquet, so that a big job is parsed once, or back."""
    with options.opened(source, ranks=ranks, max_bytes=max_bytes) as trace:
        from functools import partial

        from weftrace.trace import Job

        if isinstance(trace, Job):
            options.save_ranks(trace, partial(save_in, folder=output), output, workers)
            return
    save(trace, output)
    options.tell_written(output)


def save(trace: object, path: str) -> None:
    """Write a trace in the kind of file that the path's ending names."""
    from weftrace.trace import Trace, save_parquet, write_chrome

    assert isinstance(trace, Trace)
    if path.endswith(".parquet"):
        save_parquet(trace, path)
    elif path.endswith(_SUFFIXES):
        write_chrome(trace, path)
    else:
        raise typer.BadParameter(
            f"{path}: unknown kind of file; end it in {', '.join(_SUFFIXES)}", param_hint="--output"
        )


def save_in(trace: object, folder: str) -> str:
    """Save one rank of a job in a folder, under its own name."""
    from weftrace.trace import Trace

    assert isinstance(trace, Trace)
    name = Path(trace.path).name
    for suffix in _SUFFIXES:
        name = name.removesuffix(suffix)
    path = str(Path(folder) / f"{name}.parquet")
    save(trace, path)
    return path
