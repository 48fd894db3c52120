"""Options that several commands share, and how their texts are read. Heavy imports wait until a command runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from weftrace.trace import Job, KernelRules, Trace

Source = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        help="Kineto/Chrome trace JSON (plain, .gz, .zst), Parquet from `weftrace convert`, a folder of ranks, a "
        "quoted glob, or a URL such as s3://…",
        show_default=False,
    ),
]
Step = Annotated[
    int | None, typer.Option("--step", help="Only what ProfilerStep N launched.", metavar="N", show_default=False)
]
Ranks = Annotated[
    str | None,
    typer.Option("--ranks", help="Only these ranks of a folder or glob: 0,3-5.", metavar="RANKS", show_default=False),
]
Kernels = Annotated[
    list[Path] | None,
    typer.Option(
        "--kernels", help="TOML of kernel rules that extend or override weftrace's; repeatable.", metavar="TOML"
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", help="Processes for many ranks; default: one a processor.", min=1, metavar="N"),
]
MaxBytes = Annotated[
    str,
    typer.Option("--max-bytes", help="Refuse a file that decompresses to more than this.", metavar="SIZE"),
]
DEFAULT_MAX_BYTES = "64GiB"


def parse_ranks(text: str | None) -> list[int] | None:
    """ "0,3-5" -> [0, 3, 4, 5]."""
    if text is None:
        return None
    ranks: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise typer.BadParameter(f"{text!r} is no list of ranks; write it like 0,3-5", param_hint="--ranks")
        ranks += range(int(match[1]), int(match[2] or match[1]) + 1)
    return ranks


def parse_size(text: str) -> int:
    """ "2GiB", "500 MB", "1000" -> bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size; write it like 500MB or 2GiB", param_hint="--max-bytes")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))


def load_kernels(paths: list[Path] | None) -> KernelRules:
    """weftrace's kernel rules with the user's on top."""
    from weftrace.trace import load_rules

    return load_rules(*(paths or ()))


def stdout() -> Console:
    """Where results go: colours and width of the terminal, plain text when piped."""
    from rich.console import Console

    return Console(soft_wrap=False)


def stderr() -> Console:
    """Where progress and remarks go."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def opened(source: str, *, ranks: str | None, max_bytes: str) -> Iterator[Trace | Job]:
    """Open a trace with a progress bar on stderr, where that is a terminal."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    from weftrace.trace import open_trace

    size = Path(source).stat().st_size if Path(source).is_file() else None
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"reading {Path(source).name}", total=size)
        trace = open_trace(
            source,
            ranks=parse_ranks(ranks),
            max_bytes=parse_size(max_bytes),
            on_progress=lambda num_bytes: progress.advance(task, num_bytes),
        )
    yield trace


@contextmanager
def rank_progress(job: Trace | Job) -> Iterator[Any]:
    """A bar over the ranks of a job; gives the function to call with each path that is done."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from weftrace.trace import Job

    if not isinstance(job, Job):
        yield None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("ranks"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task("analysing", total=len(job))
        yield lambda path: progress.update(task, advance=1, description=f"analysing {Path(path).name}")


def save_ranks(job: Job, save: Callable[[Trace], str], folder: str, workers: int | None) -> None:
    """Save something of each rank in a folder, made if need be; name ranks that failed, and exit with 2 for them."""
    from weftrace.errors import OutputError

    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder}: a folder is needed for many ranks, and cannot be made: {error.strerror}"
        ) from error
    with rank_progress(job) as on_done:
        outcomes = job.map(save, workers=workers, on_done=on_done)
    typer.echo(f"wrote {sum(outcome.value is not None for outcome in outcomes)} files to {folder}", err=True)
    failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
    for failure in failures:
        typer.echo(f"weftrace: {failure.error}", err=True)
    if failures:
        raise typer.Exit(2)


def tell_written(path: str | os.PathLike[str]) -> None:
    """Say on stderr what was written and how large it is."""
    from weftrace.units import size

    typer.echo(f"wrote {path} ({size(Path(path).stat().st_size)})", err=True)


def write_json(document: dict[str, Any], path: str) -> None:
    """The document as JSON to a file, whole or not at all, or to stdout for "-"."""
    import msgspec

    from weftrace.trace import write_output

    text = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    if path == "-":
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
        return
    write_output(path, [text])
    tell_written(path)
