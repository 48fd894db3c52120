"""`weftrace query`: SQL over the events, kernels, gaps, phases and steps of a trace or a job."""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Meta

from weftrace.cli import completion, options, outputs
from weftrace.cli.requests import command_of
from weftrace.errors import QueryError
from weftrace.files.documents import read_text
from weftrace.options import Option

EPILOG = f"""[bold]Examples[/bold]

weftrace query --schema                            the tables, and what each column means

weftrace query --schema work                       those of one table

weftrace query train.json.gz "select family, sum(dur_ns) as ns from work group by family"

weftrace query train.json.gz "select cause, dur_ns from gaps order by dur_ns desc" --human

weftrace query traces/ "select rank, idle_ns from ranks order by rank" -o idle.csv

weftrace query train.json.gz --sql-file question.sql --json

Tables: {", ".join(completion.TABLES)}. Times are whole ns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A question in SQL, what it is asked of, and within which limits."""

    arguments: Annotated[
        tuple[str, ...],
        Option(
            "A trace, a folder or a glob, as in weftrace report, then one SELECT over the tables of --schema.",
            is_argument=True, metavar="TRACE... SQL",
        ),
    ] = ()  # fmt: skip
    schema: Annotated[bool, Option("Instead: the tables and what each column means; of TABLE... alone.")] = False
    sql_file: Annotated[str | None, Option("Read the SQL from a file, - for stdin.", metavar="FILE")] = None
    limit: Annotated[int, Meta(ge=0), Option("Rows shown in the terminal; 0 for all.")] = 40
    human: Annotated[bool, Option("Show columns that end in _ns as 12.4 µs, 129.0 ms.")] = False
    ranks: options.Ranks = None
    kernels: options.Kernels = None
    workers: options.Workers = None
    timeout: Annotated[
        float | None,
        Meta(ge=0),
        Option("Stop a join or a recursive SELECT after so many seconds.", metavar="S", shows_default="600"),
    ] = None
    max_memory: Annotated[
        str | None,
        Option("Stop it if it takes more memory than this; by default, half of the free memory.", metavar="SIZE"),
    ] = None
    max_bytes: options.MaxBytes = options.DEFAULT_MAX_BYTES


def run(request: Request, to: outputs.Destination) -> None:
    """Query a trace or all ranks of a job in SQL: kernels, gaps, phases, steps, collectives."""
    given = list(request.arguments)
    if request.schema:
        _show_schema(given, to)
        return
    sources, sql = _split(given, request.sql_file)
    from weftrace.questions.asking import ask, needed
    from weftrace.questions.outputs import ANSWER
    from weftrace.questions.render.terminal import print_answer
    from weftrace.questions.running import DEFAULT_TIMEOUT_S, Limits

    limits = Limits(
        timeout_s=DEFAULT_TIMEOUT_S if request.timeout is None else request.timeout,
        memory_bytes=None if request.max_memory is None else options.parse_size(request.max_memory, "--max-memory"),
    )
    needed(sql)  # what is wrong with it is told before a trace is looked for
    inputs = options.inputs_of(sources, request.sql_file if request.sql_file != "-" else None)
    wanted = to.wanted(writes=ANSWER, inputs=inputs)
    rules = options.load_kernels(request.kernels)
    with options.opened(
        sources, ranks=request.ranks, max_bytes=request.max_bytes, workers=request.workers, tells_truncated=False
    ) as source:  # notes of the answer say it
        pass
    with outputs.progress_bar("asking") as on_progress:
        count = itertools.count(1)
        answer = ask(
            source, sql, rules=rules, workers=request.workers, limits=limits,
            on_done=lambda _: on_progress(next(count), len(inputs)),
        )  # fmt: skip
    outputs.deliver(
        answer,
        ANSWER,
        wanted,
        show=lambda answer, console: print_answer(answer, console, limit=request.limit, human=request.human),
    )
    options.tell_failures([*(failure.error for failure in answer.failures), *answer.notes])


def complete_table(ctx: typer.Context, incomplete: str) -> list[str]:
    """Tables, after --schema; else files, which the shell knows."""
    return completion.among(*completion.TABLES)(incomplete) if ctx.params.get("schema") else []


def add_to(app: typer.Typer) -> None:
    """Add the wing's command to weftrace's."""
    app.command("query", epilog=EPILOG)(
        command_of((Request, outputs.Destination), run, without=("open",), completes={"arguments": complete_table})
    )


def _show_schema(names: list[str], to: outputs.Destination) -> None:
    from weftrace.questions.columns import TABLES, table_named
    from weftrace.questions.document import tables_document
    from weftrace.questions.render.terminal import print_tables

    if to.output:
        raise typer.BadParameter("--schema prints; as JSON with --json", param_hint="--output")
    chosen = [table_named(name).name for name in names] or list(TABLES)
    if to.json:
        outputs.print_json(tables_document(*chosen))
    else:
        print_tables(chosen, outputs.stdout())


def _split(given: list[str], sql_file: str | None) -> tuple[list[str], str]:
    """The traces, and the SQL: the last argument, or what a file holds. Raises `typer.BadParameter`."""
    if sql_file is not None:
        if not given:
            raise typer.BadParameter("name a trace to ask", param_hint="TRACE")
        return given, _read(sql_file)
    if not given:
        raise typer.BadParameter('give a trace and SQL: train.json.gz "select ..."; or --schema', param_hint="TRACE")
    *sources, sql = given
    if not sources and " " in sql:
        raise typer.BadParameter(f"a trace goes before the SQL {sql!r}", param_hint="TRACE")
    if not sources or (" " not in sql and Path(sql).exists()):
        raise typer.BadParameter(f'SQL goes after the traces: {sql} "select ..."', param_hint="SQL")
    return sources, sys.stdin.read() if sql == "-" else sql


def _read(path: str) -> str:
    if path == "-":
        return sys.stdin.read()
    return read_text(path, error=QueryError)
