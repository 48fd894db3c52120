"""A question in SQL: what of which tables it needs, told before anything is read; then those tables, and the answer.

The SQL is planned twice. First over tables of one row, whose scans note which columns Polars asks them for: so a
misspelt column is told at once, and only what is needed is built. Then over the tables: in this process where the
answer has no more rows than they have, else within limits, in one of its own.
"""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path

import polars as pl
from polars.io.plugins import register_io_source

from weftrace.analysis.run_facts import damage_of
from weftrace.errors import QueryError, QueryWarning, TraceError
from weftrace.files.plain_text import without_surrogates
from weftrace.files.standard_input import temporary_folder
from weftrace.notebook import InNotebook
from weftrace.questions.building import Needs, build
from weftrace.questions.columns import TABLES, needs_frames, table_named
from weftrace.questions.misread import explained
from weftrace.questions.running import DEFAULT_TIMEOUT_S, SQL_ERRORS, Limits, run, run_within
from weftrace.questions.sql_words import with_fractions, words_of
from weftrace.trace import Failure, Job, KernelRules, Outcome, Trace, open_trace

#: Each scan by itself, so that each is counted and asked.
_APART = pl.QueryOptFlags(comm_subplan_elim=False)
#: Of a plan, joins that may give more rows than they are given.
_GROWS = re.compile(r"^\s*(?!SEMI|ANTI)\w+ JOIN:", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer(InNotebook):
    """What a question gave.

    frame: its rows. read: how many rows each table that it needs has. failures: files of a job that could not be used.
    notes: files that lost a part, and which.
    """

    source: str
    sql: str
    frame: pl.DataFrame
    read: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rows", f"{self.frame.height:,}"
        yield "columns", ", ".join(self.frame.columns)


def query(
    source: str | os.PathLike[str] | Trace | Job,
    sql: str,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    max_memory_bytes: int | None = None,
) -> pl.DataFrame:
    """The rows that a question in SQL gives, asked of the tables of a trace, or of all ranks of a job together.

    source: what `weftrace.open` opens, or gave. sql: a SELECT over the tables of `weftrace query --schema` (times are
    integer ns), in Polars' dialect; nothing is ever written. rules: kernel rules, weftrace's own by default. workers:
    see `Job.map`; ranks are read one after another in each, and only the columns that the SQL needs are kept of them.
    timeout_s, max_memory_bytes: what a join or a recursive SELECT may take; of memory, by default half of what is free.

    Raises QueryError where the SQL cannot be run, naming the nearest table or column, or takes more than it may, and
    TraceError where nothing can be read. Warns (QueryWarning) of ranks that cannot be read, the others answer, and of
    files that lost a part.
    """
    limits = Limits(timeout_s=timeout_s, memory_bytes=max_memory_bytes)
    answer = ask(source, sql, rules=rules, workers=workers, limits=limits)
    for summary in (*(failure.error for failure in answer.failures), *answer.notes):
        warnings.warn(summary, QueryWarning, stacklevel=2)
    return answer.frame


def ask(
    source: str | os.PathLike[str] | Trace | Job,
    sql: str,
    *,
    rules: KernelRules | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    on_done: Callable[[str], None] | None = None,
) -> Answer:
    """As `query`, with what was read for it. limits: None for the defaults. on_done: see `Job.map`."""
    needs, may_grow = _planned(sql)
    answered = partial(run_within, limits or Limits()) if may_grow else run
    opened = _opened(source, needs, workers)
    if isinstance(opened, Trace):
        built = build(opened, needs, rules=rules)
        read = {name: frame.height for name, frame in built.items()}
        frame = answered(sql, built)
        return Answer(
            source=opened.path or "in memory",
            sql=sql,
            frame=frame,
            read=read,
            notes=tuple(filter(None, [_lost(opened)])),
        )
    if not needs:
        return Answer(source=opened.source, sql=sql, frame=answered(sql, {}))
    with tempfile.TemporaryDirectory(prefix="weftrace-query-", dir=temporary_folder()) as folder:
        write = partial(_write, needs=needs, folder=folder, rules=rules)
        outcomes = opened.map(write, workers=workers, on_done=on_done)
        failures = _failures(opened, outcomes)
        notes = tuple(outcome.value for outcome in outcomes if outcome.value)
        scans = {name: pl.scan_parquet(Path(folder, name, "*.parquet")) for name in needs}
        read = {name: int(scan.select(pl.len()).collect().item()) for name, scan in scans.items()}
        frame = answered(sql, scans, "streaming")
    return Answer(source=opened.source, sql=sql, frame=frame, read=read, failures=failures, notes=notes)


def tables(
    source: str | os.PathLike[str] | Trace | Job,
    *names: str,
    rules: KernelRules | None = None,
    workers: int | None = None,
) -> dict[str, pl.LazyFrame]:
    """The tables that questions are asked of, by name, for Polars' own expressions: all, or those that are named.

    Of a job they hold the rows of all ranks, in memory. Raises and warns as `query` does.
    """
    needs = {name: tuple(table_named(name).schema) for name in names or TABLES}
    opened = _opened(source, needs, workers)
    if isinstance(opened, Trace):
        return {name: frame.lazy() for name, frame in build(opened, needs, rules=rules).items()}
    outcomes = opened.map(partial(build, needs=needs, rules=rules), workers=workers)
    for failure in _failures(opened, outcomes):
        warnings.warn(failure.error, QueryWarning, stacklevel=2)
    built = [outcome.value for outcome in outcomes if outcome.value is not None]
    return {name: pl.concat([each[name] for each in built]).lazy() for name in needs}


def needed(sql: str) -> dict[str, tuple[str, ...]]:
    """Which tables SQL reads, and which columns of each. Raises QueryError where it cannot be run.

    Of a plan that comes to an end before all its scans were asked (a join of nothing with something), all columns; so
    of a recursive SELECT, which Polars runs as it plans it.
    """
    return _planned(sql)[0]


def _planned(sql: str) -> tuple[dict[str, tuple[str, ...]], bool]:
    """What is `needed`, and whether the answer may grow far beyond the tables."""
    if without_surrogates(sql) != sql:
        raise QueryError(f"the question holds bytes that are no UTF-8: {without_surrogates(sql)}")
    words = words_of(sql)
    if "recursive" in words.names:
        return {name: tuple(table.schema) for name, table in TABLES.items() if name in words.names}, True
    asked: list[tuple[str, Collection[str]]] = []
    try:
        context = pl.SQLContext({name: _noting(name, asked) for name in TABLES})
        context.execute(sql)  # as it was written, so that a place in it is told right
        plan = context.execute(with_fractions(sql))
        plan.collect_schema()
    except SQL_ERRORS as error:
        raise explained(error, sql, words) from error
    explained_plan = plan.explain(optimizations=_APART)
    num_scans = explained_plan.count("PYTHON SCAN")
    with suppress(*SQL_ERRORS):  # of values, not of names: the rows will tell
        plan.collect(optimizations=_APART, engine="in-memory")
    if len(asked) < num_scans:
        asked += [(name, TABLES[name].schema) for name in words.names & TABLES.keys()]
    noted: dict[str, set[str]] = {}
    for name, columns in asked:
        noted.setdefault(name, set()).update(columns)
    needs = {name: tuple(c for c in own.schema if c in noted[name]) for name, own in TABLES.items() if name in noted}
    return needs, _GROWS.search(explained_plan) is not None


def _noting(name: str, asked: list[tuple[str, Collection[str]]]) -> pl.LazyFrame:
    """A table of one row, whose scan notes what is asked of it. The row fits all: of an empty table, joins would not
    ask their other side."""
    schema, row = TABLES[name].schema, _row(name)

    def scan(columns: list[str] | None, *_: object) -> Iterator[pl.DataFrame]:
        asked.append((name, schema if columns is None else columns))
        yield row if columns is None else row.select(columns)

    return register_io_source(scan, schema=schema)


@cache
def _row(name: str) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(column, [1]).cast(dtype) for column, dtype in TABLES[name].schema.items()])


def _write(trace: Trace, *, needs: Needs, folder: str, rules: KernelRules | None) -> str:
    """What is needed of one rank, in files of their own. Gives what its file lost."""
    for name, frame in build(trace, needs, rules=rules).items():
        place = Path(folder, name)
        place.mkdir(exist_ok=True)
        rank = "" if trace.rank is None else f"{trace.rank:08}"
        handle, path = tempfile.mkstemp(prefix=f"{rank}-", suffix=".parquet", dir=place)
        os.close(handle)
        frame.write_parquet(path, compression="lz4")
    return _lost(trace)


def _lost(trace: Trace) -> str:
    damage = damage_of(trace)
    return f"{trace.path or 'the trace'}: incomplete: {damage}; the answer covers the rest" if damage else ""


def _opened(source: str | os.PathLike[str] | Trace | Job, needs: Needs, workers: int | None) -> Trace | Job:
    """Read with its Python frames where the causes of idle time are asked for."""
    frames = needs_frames(needs)
    if isinstance(source, Job):
        return replace(source, frames=source.frames or frames)
    return source if isinstance(source, Trace) else open_trace(source, frames=frames, workers=workers)


def _failures(job: Job, outcomes: list[Outcome[str]] | list[Outcome[dict[str, pl.DataFrame]]]) -> tuple[Failure, ...]:
    """What failed. Raises TraceError where that is everything."""
    failures = tuple(outcome.failure for outcome in outcomes if outcome.failure is not None)
    if len(failures) == len(outcomes):
        raise TraceError(failures[0].error if failures else f"{job.source}: holds no traces.")
    return failures
