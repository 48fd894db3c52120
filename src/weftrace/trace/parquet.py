"""A read trace kept as Parquet, so that a big file is parsed once: load(save(trace)) == trace.

The events are the columns; all else that a `Trace` knows is JSON in the file's key-value metadata. A digest tells
damage (`weftrace.files.parquet`). What is loaded is checked, since a file may come from anywhere: it holds data only,
and nothing of it is executed.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import replace
from typing import Annotated, Any

import msgspec
import polars as pl

from weftrace.errors import TraceError
from weftrace.files.apart import first_line
from weftrace.files.output import write_output
from weftrace.files.parquet import MAGIC, lacks_digest, parquet_bytes, read_table
from weftrace.files.sources import DEFAULT_MAX_BYTES, open_bytes
from weftrace.trace.chrome.facts import rank_in_name
from weftrace.trace.chrome.stated import SPELLINGS
from weftrace.trace.limits import NAME_CHARS
from weftrace.trace.model import EVENT_SCHEMA, MEMORY_SCHEMA, Device, ReadQuality, Trace, Track
from weftrace.trace.plain.tables import trace_of_table
from weftrace.trace.plain.values import PLAIN_SCHEMA, Plain, Worker

#: Version of the layout, counted up when a reader of the one before could not read it.
FORMAT = 1

_KEY = "weftrace.trace"
_MEMORY_KEY = "weftrace.memory"  # memory events: their own Parquet, in base64; files of earlier versions lack it
_PLAIN = "plain."  # before the columns of what a plain trace's events are
# Columns that files of earlier versions do not have: null throughout, which is what those versions knew.
_ADDED = frozenset(
    (
        "grid", "block", "registers", "shared_bytes", "occupancy",
        "input_shapes", "input_types", "input_strides", "input_values", "call_stack",
    )
)  # fmt: skip
_NEVER_NULL = ("name", "cat", "pid", "tid", "ts_ns", "dur_ns")
_AGAIN = "Convert the profiler's file again: weftrace convert"

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class _PlainFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All of a `Plain` but its rows, which are columns of the file."""

    workers: tuple[Worker, ...]
    notes: tuple[str, ...]
    moved: bool


class _Facts(msgspec.Struct, frozen=True, kw_only=True):
    """All of a `Trace` but its events and its path."""

    format: int
    rank: _Int64 | None
    world_size: _Int64 | None
    devices: tuple[Device, ...]
    tracks: tuple[Track, ...]
    window_ns: tuple[_Int64, _Int64] | None
    backend: str | None
    simulated: bool
    info: dict[str, str]
    quality: ReadQuality
    plain: _PlainFacts | None = None


def save_parquet(trace: Trace, path: str | os.PathLike[str]) -> None:
    """Write a trace as Parquet (zstd), whole or not at all.

    Raises OutputError when the file cannot be written.
    """
    facts = {field: getattr(trace, field) for field in _Facts.__struct_fields__ if field not in ("format", "plain")}
    facts["info"] = dict(trace.info)
    quality = trace.quality
    facts["quality"] = ReadQuality(
        dropped=dict(quality.dropped),
        repaired=dict(quality.repaired),
        skipped=dict(quality.skipped),
        truncated=quality.truncated,
        examples=dict(quality.examples),
        unchecked=quality.unchecked,
    )
    events = trace.events.select(*EVENT_SCHEMA)
    if (plain := trace.plain) is not None:
        facts["plain"] = {"workers": plain.workers, "notes": plain.notes, "moved": plain.moved}
        events = events.hstack(plain.rows.select(pl.all().name.prefix(_PLAIN)))
    metadata = {_KEY: json.dumps({"format": FORMAT, **msgspec.to_builtins(facts)})}
    if trace.memory is not None:
        metadata[_MEMORY_KEY] = base64.b64encode(parquet_bytes(trace.memory.select(*MEMORY_SCHEMA), {})).decode()
    write_output(path, [parquet_bytes(events, metadata)])


def load_parquet(path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> Trace:
    """Read a trace that `save_parquet` wrote, or a table of ranges (`weftrace.trace.plain.tables`), local or remote.

    Its `path` is this file's.

    max_bytes: limit on the size of the events in memory, strings included.
    Raises TraceError when the file is not such a trace, is damaged or is of a later format; TraceTooLarge past
    `max_bytes`.
    """
    name = str(path)
    stream = open_bytes(path, max_bytes=max_bytes)
    stored = b"".join(stream.chunks)
    if stream.truncated:
        raise TraceError(f"{path}: {stream.truncated}, and Parquet cannot be read in part. {_AGAIN}")
    if not stored.startswith(MAGIC):
        raise TraceError(f"{path}: is not Parquet. Give a file that weftrace convert wrote, or the profiler's JSON.")
    table = read_table(stored, name, max_bytes=max_bytes, remedy=_AGAIN)
    if not table.is_checked:
        _need_short_texts(name, table.rows)
    if (text := table.metadata.get(_KEY)) is None:
        return trace_of_table(table.rows, name, spellings=SPELLINGS, rank=rank_in_name(name))
    facts = _facts(name, text)
    events = _events(name, table.rows)
    plain = facts.plain and _plain(name, table.rows, facts.plain)
    memory = _memory(name, table.metadata.get(_MEMORY_KEY), max_bytes)
    kept: dict[str, Any] = {field: getattr(facts, field) for field in _Facts.__struct_fields__ if field != "format"}
    if not table.is_checked:
        kept["quality"] = replace(facts.quality, unchecked=True)
    return Trace(events=events, path=name, memory=memory, **kept | {"plain": plain})


def is_unchecked(path: str | os.PathLike[str]) -> bool:
    """Whether a file of this machine is a trace that was saved before traces had a digest."""
    return lacks_digest(path, _KEY)


def _need_short_texts(path: str, rows: pl.DataFrame) -> None:
    """Raise TraceError where a text is longer than any that is read from JSON: as a name, it would be drawn and counted
    everywhere."""
    for column in rows:
        if column.dtype in (pl.Categorical, pl.String):
            longest = column.unique().cast(pl.String).str.len_chars().max()
            if isinstance(longest, int) and longest > NAME_CHARS + 1:  # "…"
                raise TraceError(
                    f"{path}: a text of column {column.name} has {longest:,} characters; no more than {NAME_CHARS:,} "
                    "are read."
                )


def _facts(path: str, text: str) -> _Facts:
    try:
        values = json.loads(text)
        version = values.get("format") if isinstance(values, dict) else None
        if isinstance(version, int) and version > FORMAT:
            raise TraceError(
                f"{path}: is of format {version}, and this weftrace reads up to {FORMAT}. Update weftrace, or convert "
                "the profiler's file again."
            )
        return msgspec.convert(values, _Facts)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise TraceError(
            f"{path}: its description of the trace is not what weftrace writes "
            f"({first_line(error)}). Convert the profiler's file again: weftrace convert"
        ) from error


def _events(path: str, rows: pl.DataFrame) -> pl.DataFrame:
    absent = _ADDED - set(rows.columns)
    for column, dtype in EVENT_SCHEMA.items():
        if column not in absent and rows.schema.get(column) != dtype:
            found = f"is {rows.schema[column]}" if column in rows.schema else "is missing"
            raise TraceError(f"{path}: column {column} {found}, where weftrace writes {dtype}. Convert the file again.")
    events = rows.select(
        pl.lit(None, dtype).alias(column) if column in absent else column for column, dtype in EVENT_SCHEMA.items()
    )
    for column in _NEVER_NULL:
        if missing := events.get_column(column).null_count():
            raise TraceError(f"{path}: {missing:,} events have no {column}. Convert the profiler's file again.")
    if negative := events.filter(pl.col("dur_ns") < 0).height:
        raise TraceError(f"{path}: {negative:,} events have a negative duration. Convert the profiler's file again.")
    return events


def _memory(path: str, text: str | None, max_bytes: int) -> pl.DataFrame | None:
    """What was allocated and freed; None where the file has none. Raises TraceError where it is another table."""
    if text is None:
        return None
    try:
        stored = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise TraceError(f"{path}: its memory events are damaged ({error}). {_AGAIN}") from error
    memory = read_table(stored, f"{path}: memory events", max_bytes=max_bytes, remedy=_AGAIN).rows
    if memory.schema != MEMORY_SCHEMA:
        raise TraceError(f"{path}: its memory events are not what weftrace writes. Convert the profiler's file again.")
    for column in ("ts_ns", "pid", "tid", "bytes"):
        if missing := memory.get_column(column).null_count():
            raise TraceError(f"{path}: {missing:,} memory events have no {column}. Convert the profiler's file again.")
    return memory


def _plain(path: str, rows: pl.DataFrame, facts: _PlainFacts) -> Plain:
    """What the events of a plain trace are. Raises TraceError where a column is missing or of another type."""
    for column, dtype in PLAIN_SCHEMA.items():
        if rows.schema.get(_PLAIN + column) != dtype:
            raise TraceError(f"{path}: column {_PLAIN}{column} is not the {dtype} that weftrace writes. Convert again.")
    if (rows.get_column(f"{_PLAIN}worker").drop_nulls() >= len(facts.workers)).any():
        raise TraceError(f"{path}: an event is of a rank that the file does not list. Convert the file again.")
    rows = rows.select(pl.col(_PLAIN + column).alias(column) for column in PLAIN_SCHEMA)
    return Plain(workers=facts.workers, rows=rows, notes=facts.notes, moved=facts.moved)
