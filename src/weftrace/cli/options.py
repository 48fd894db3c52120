"""Options that several commands share, and how their texts are read. Heavy imports wait until a command runs."""

from __future__ import annotations

import itertools
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from weftrace.cli.outputs import check_name, check_output, stderr
from weftrace.errors import UNUSABLE_INPUT
from weftrace.files.standard_input import STANDARD_INPUT, STANDARD_INPUT_NAME

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from weftrace.costs.custom_ops import CustomOp
    from weftrace.trace import Failure, Job, KernelRules, StepBy, Trace
    from weftrace.workers.spool import Spool

READING = "Which files, and how they are read"

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...",
        help="Kineto/Chrome trace JSON (plain, .gz, .zst), Parquet from `weftrace convert`, a folder of ranks, a glob, "
        "a URL such as s3://…, or - for standard input; several are the ranks of one job.",
        show_default=False,
    ),
]
Step = Annotated[
    int | None,
    typer.Option(
        "--step",
        help="Only the step with number N (ProfilerStep#N). Its window begins with the first device event that it "
        "launched, and ends where the next step's begins.",
        metavar="N",
        show_default=False,
    ),
]


class StepChoice(StrEnum):
    """The words of `--step-events`: those of `weftrace.trace.StepBy`."""

    window = "window"
    launch = "launch"


StepByChoice = Annotated[
    StepChoice | None,
    typer.Option(
        "--step-events",
        help="Which events belong to the step of --step: all in its [bold]window[/bold] of the device's time (the "
        "default), or those that it [bold]launch[/bold]ed, whenever they ran.",
        metavar="window|launch",
        show_default=False,
    ),
]
Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks",
        help="Only these ranks of a folder or glob: 0,3-5.",
        metavar="RANKS",
        show_default=False,
        rich_help_panel=READING,
    ),
]
Kernels = Annotated[
    list[Path] | None,
    typer.Option(
        "--kernels",
        help="TOML of kernel rules that extend or override weftrace's; repeatable.",
        metavar="TOML",
        rich_help_panel=READING,
    ),
]
CustomOps = Annotated[
    list[Path] | None,
    typer.Option(
        "--operators",
        help="TOML that says what operators of other libraries cost, beside weftrace's or in their place; repeatable.",
        metavar="TOML",
        rich_help_panel=READING,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        help="Processes. By default, many ranks take one per 4 MB of packed files, up to one per processor, because "
        "starting one takes as long as reading so much; a single file takes one, and up to four above 100 MB of JSON.",
        min=1,
        metavar="N",
        rich_help_panel=READING,
        show_default=False,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        "--cluster",
        help="Who reads many ranks: [bold]ray://HOST:10001[/bold] or [bold]dask://HOST:8786[/bold], by paths that its "
        "machines share, or URLs; [bold]ray[/bold] or [bold]dask[/bold] for the cluster that is known here; "
        "[bold]local[/bold] for processes of this machine. With --workers N: N files at once.",
        metavar="ADDRESS",
        rich_help_panel=READING,
    ),
]
MaxBytes = Annotated[
    str,
    typer.Option(
        "--max-bytes",
        help="Refuse a file that decompresses to more than this.",
        metavar="SIZE",
        rich_help_panel=READING,
    ),
]
DEFAULT_MAX_BYTES = "64GiB"
MAX_TOLD = 10


def parse_ranks(text: str | None, *, what: str = "ranks", option: str = "") -> list[int] | None:
    """ "0,3-5" -> [0, 3, 4, 5]. what: they are, and the option is called where `option` says no other name."""
    if text is None:
        return None
    option = option or f"--{what}"
    ranks: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,7})(?:-(\d{1,7}))?\s*", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise typer.BadParameter(f"{text!r} is no list of {what}; write it like 0,3-5", param_hint=option)
        ranks += range(int(match[1]), int(match[2] or match[1]) + 1)
    return ranks


def step_by_of(step: int | None, step_by: StepChoice | None) -> StepBy:
    """What `--step-events` says. Raises `typer.BadParameter` where no step is chosen."""
    if step is None and step_by is not None:
        raise typer.BadParameter("it needs --step", param_hint="--step-events")
    return "launch" if step_by is StepChoice.launch else "window"


def parse_size(text: str, option: str = "--max-bytes") -> int:
    """ "2GiB", "500 MB", "1000" -> bytes."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size; write it like 500MB or 2GiB", param_hint=option)
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))


def load_kernels(paths: list[Path] | None) -> KernelRules:
    """weftrace's kernel rules with the user's on top."""
    from weftrace.trace import load_rules

    return load_rules(*(paths or ()))


def load_operators(paths: list[Path] | None) -> tuple[CustomOp, ...] | None:
    """What operators of other libraries cost, by weftrace's rules with the user's on top; None where there are none."""
    if not paths:
        return None
    from weftrace.costs.custom_ops import load_custom_ops

    return load_custom_ops(*paths)


@contextmanager
def opened(
    sources: list[str],
    *,
    ranks: str | None,
    max_bytes: str,
    frames: bool = False,
    workers: int | None = None,
    tells_truncated: bool = True,
) -> Iterator[Trace | Job]:
    """Open a trace, or several as a job, with a progress bar on stderr, where that is a terminal.

    frames: read the Python frames too. workers: processes that read a single file. tells_truncated: say on stderr which
    files ended early, of a job when they are read.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    from weftrace.files.sources import file_name
    from weftrace.files.standard_input import located
    from weftrace.trace import Job, open_trace

    only = Path(located(sources[0]))
    size = only.stat().st_size if only.is_file() and len(sources) == 1 else None
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr(), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(f"reading {file_name(sources[0])}", total=size)
        trace = cast(
            "Trace | Job",
            open_trace(  # one source may be a Trace
                *sources,
                ranks=parse_ranks(ranks),
                frames=frames,
                max_bytes=parse_size(max_bytes),
                workers=workers,
                on_progress=lambda num_bytes: progress.advance(task, num_bytes),
            ),
        )
    _tell_unchecked(trace)
    if not tells_truncated:
        yield trace
    elif isinstance(trace, Job):
        yield replace(trace, on_truncated=_teller_of_truncated())
    else:
        if trace.quality.truncated:
            _teller_of_truncated()(trace.path, trace.quality.truncated)
        yield trace


def _tell_unchecked(source: Trace | Job) -> None:
    """Say once on stderr which Parquet files have no digest."""
    from weftrace.trace import Job

    if isinstance(source, Job):
        old = [path for path in source.paths if path.endswith(".parquet")]
        if old:
            from weftrace.trace.parquet import is_unchecked

            old = [path for path in old if is_unchecked(path)]
    else:
        old = [source.path] if source.quality.unchecked else []
    if old:
        from weftrace.files.parquet import UNCHECKED
        from weftrace.units import counted

        more = f" and {counted(len(old) - 1, 'other file')}" if len(old) > 1 else ""
        name = STANDARD_INPUT_NAME if old[0] == STANDARD_INPUT else old[0]
        typer.echo(f"weftrace: {name}{more} cannot be checked: {UNCHECKED}", err=True)


def _teller_of_truncated() -> Callable[[str, str], None]:
    """Says on stderr which files ended early, the first few by name."""
    number = itertools.count()

    def tell(path: str, why: str) -> None:
        if (at := next(number)) < MAX_TOLD:
            name = STANDARD_INPUT_NAME if path == STANDARD_INPUT else path
            typer.echo(f"weftrace: {name} is cut short: {why}; what it still holds is read", err=True)
        elif at == MAX_TOLD:
            typer.echo("weftrace: … and more files that are cut short", err=True)

    return tell


def inputs_of(sources: list[str], *others: str | Path | None) -> list[str]:
    """The files of this machine that a command reads, which it must not overwrite: traces, and what else is named."""
    from weftrace.files.sources import is_remote
    from weftrace.trace import find_traces

    local = [source for source in sources if not is_remote(source)]
    named = [path for source in local for path in find_traces(source)]
    return [*named, *(str(other) for other in others if other is not None)]


def parse_part(text: str, option: str) -> float:
    """0.05 from "5%", "5 %" or "0.05". Raises `typer.BadParameter` where it is neither, or below 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is no part of a whole; write it as 5% or as 0.05", param_hint=option)
    return float(match[1]) / (100 if match[2] else 1)


def check_target(
    output: str, sources: list[str], ranks: str | None, *, endings: Iterable[str], inputs: Iterable[str]
) -> None:
    """Before any trace is read: one is written to a file of one of the endings, many into a folder.

    inputs: files that must not be overwritten. Raises `typer.BadParameter`.
    """
    check_name(output)
    num = len(inputs_of(sources))
    if num == 1 and ranks is None:
        check_output(output, endings, inputs)
    elif num > 1 and output.lower().endswith(tuple(endings)) and not Path(output).is_dir():
        raise typer.BadParameter(f"{output}: many ranks go into a folder; give its name", param_hint="--output")


def check_cluster(cluster: str) -> None:
    """Before any trace is read. Raises `typer.BadParameter`."""
    from weftrace.errors import ClusterError
    from weftrace.workers.addresses import parse_address

    try:
        parse_address(cluster)
    except ClusterError as error:
        raise typer.BadParameter(str(error), param_hint="--cluster") from error


@contextmanager
def executor_on(cluster: str, job: Trace | Job) -> Iterator[Executor | None]:
    """What reads the ranks of a job, None for this machine's processes. What clusters print goes to stderr."""
    from weftrace.trace import Job

    if cluster == "local":
        yield None
        return
    if not isinstance(job, Job):
        typer.echo(f"weftrace: one file is read here: {cluster} shares out the files of a job", err=True)
        yield None
        return
    from weftrace.errors import ClusterWarning
    from weftrace.workers import connect

    with redirect_stdout(sys.stderr):
        with warnings.catch_warnings(record=True) as summary:
            executor = connect(cluster, on_lost=lambda said: typer.echo(f"weftrace: {said}", err=True))
        for warning in summary:
            if issubclass(warning.category, ClusterWarning):
                typer.echo(f"weftrace: {warning.message}", err=True)
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler costs ranks, told as such
        with executor:
            yield executor


def spool() -> Spool:
    """Where results of this call's ranks are kept until it has ended: with the user's other caches."""
    from weftrace.workers.spool import Spool

    cache = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = os.path.expanduser("~")
        cache = os.path.join(home, ".cache") if os.path.isabs(home) else ""
    return Spool(
        os.path.join(cache, "weftrace", "spool") if cache else None,
        lambda said: typer.echo(f"weftrace: {said}", err=True),
    )


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


def save_ranks(
    job: Job,
    save: Callable[[Trace, str], None],
    folder: str,
    workers: int | None,
    *,
    cluster: str = "local",
    inputs: Iterable[str] = (),
    ending: str | None = None,
    in_place: bool = False,
) -> None:
    """Save something of each rank in a folder, made if need be, under the rank's own name.

    cluster: whose workers do it; they share the folder. inputs: files that must not be overwritten; the ranks' own
    where none are given. ending: of the new names; None keeps each file's own.
    Names ranks that failed, and exits with 3 for them. Raises `typer.BadParameter` where that
    would overwrite an input and `in_place` does not ask for it, and where two ranks would have one name.
    """
    from weftrace.errors import OutputError
    from weftrace.outputs import refuse_inputs

    sources: dict[str, str] = {}
    for path in job.paths:
        other = sources.setdefault(_in_folder(path, folder, ending), path)
        if other != path:
            summary = f"{other} and {path} would both be written as {_in_folder(path, folder, ending)}"
            raise typer.BadParameter(f"{summary}; give each a folder of its own", param_hint="--output")
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        if not in_place:
            refuse_inputs(sources, inputs or job.paths)
    except OSError as error:
        raise OutputError(
            f"{folder}: a folder is needed for many ranks, and cannot be made: {error.strerror}"
        ) from error
    except OutputError as error:
        raise typer.BadParameter(str(error), param_hint="--output") from error
    each = partial(_save_rank, save=save, folder=os.path.abspath(folder), ending=ending)
    with executor_on(cluster, job) as executor, rank_progress(job) as on_done:
        outcomes = job.map(each, workers=workers, executor=executor, on_done=on_done)
    written = [outcome.value for outcome in outcomes if outcome.value is not None]
    if written and not any(Path(path).exists() for path in written):
        raise OutputError(
            f"{folder}: was written to where workers of {cluster} are; give a folder that all machines share"
        )
    typer.echo(f"wrote {len(written)} files to {folder}", err=True)
    exit_if_any([outcome.failure for outcome in outcomes if outcome.failure is not None])


def exit_if_any(failures: Iterable[Failure]) -> None:
    """Name what could not be used, and exit with 3 where there is any."""
    summary = [failure.error for failure in failures]
    tell_failures(summary)
    if summary:
        raise typer.Exit(UNUSABLE_INPUT)


def tell_failures(errors: Sequence[str]) -> None:
    """One line each, as far as a person reads on: the ranks of a large job most often fail for one reason."""
    for error in errors[:MAX_TOLD]:
        typer.echo(f"weftrace: {error}", err=True)
    if (more := len(errors) - MAX_TOLD) > 0:
        typer.echo(f"weftrace: … and {more:,} more files that cannot be used", err=True)


def _save_rank(trace: Trace, save: Callable[[Trace, str], None], folder: str, ending: str | None) -> str:
    path = _in_folder(trace.path, folder, ending)
    save(trace, path)
    return path


def _in_folder(path: str, folder: str, ending: str | None) -> str:
    from weftrace.trace.job import SUFFIXES

    name = Path(path).name
    if ending is not None:
        own = max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default="")
        name = name.removesuffix(own) + ending
    return str(Path(folder) / name)


def complete_hardware(incomplete: str) -> list[str]:
    """Names of accelerators that begin so, in the case that was begun with, to their first blank: shells cut there."""
    from weftrace.facts import known_hardware

    names = dict.fromkeys(name.split()[0] for name in known_hardware())
    spelled = [name if incomplete[:1].isupper() else name.lower() for name in names]
    return [name for name in spelled if name.startswith(incomplete)]
