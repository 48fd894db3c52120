"""A table of ranges, a row each, as a plain trace: what trainers and schedulers keep in data frames.

Columns: `name`; `start_ns` with `end_ns` or `dur_ns`, or Chrome's `ts` and `dur` in microseconds; and any columns that
tell a place, spelled as arguments of events are (`rank`, `dp`, `pp`, `step`, `micro_batch`, `chunk`, `seq` ...).
`stream`, or `tid`, tells what runs one after another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from weftrace.errors import TraceError
from weftrace.trace.model import Trace, events_frame
from weftrace.trace.plain.reading import read_plain

_TIMES = (("start_ns", "end_ns", 1, True), ("start_ns", "dur_ns", 1, False), ("start_ns", "duration_ns", 1, False),
          ("ts", "dur", 1_000, False))  # fmt: skip
_THREADS = ("stream", "tid", "thread", "lane")
_PROCESSES = ("pid", "process")
_LARGEST = 1 << 31


def trace_of_table(
    table: pl.DataFrame, path: str, *, spellings: Mapping[str, tuple[str, ...]], rank: int | None
) -> Trace:
    """The table as a trace.

    path: for errors. spellings: field -> how a column that tells it may be spelled. rank: as the file's name tells it.
    Raises `TraceError` where columns are missing, or hold something else than they should.
    """
    columns = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in table.columns}
    start, other, factor, is_end = _times(table, path)
    try:
        began = (pl.col(start) * factor).round().cast(pl.Int64)
        took = (pl.col(other) * factor).round().cast(pl.Int64)
        rows = table.select(
            pl.col("name").cast(pl.String).alias("name"),
            began.alias("ts_ns"),
            (took - began if is_end else took).alias("dur_ns"),
            _label(table, _PROCESSES).alias("pid"),
            _label(table, _THREADS).alias("tid"),
            *(_number(columns, names).alias(field) for field, names in spellings.items()),
        )
    except pl.exceptions.PolarsError as error:
        raise TraceError(f"{path}: a column holds what it should not: {str(error).splitlines()[0]}") from error
    if odd := rows.filter(
        pl.any_horizontal(pl.col("name", "ts_ns", "dur_ns").is_null()) | (pl.col("dur_ns") < 0)
    ).height:
        raise TraceError(f"{path}: {odd:,} rows have no name or time, or end before they start.")
    rows = rows.sort("ts_ns", maintain_order=True)
    own = {name: rows.get_column(name) for name in ("name", "ts_ns", "dur_ns", "pid", "tid")}
    events = events_frame({**own, "cat": pl.Series("cat", ["range"]).new_from_index(0, rows.height)}, rows.height)
    trace = Trace(events=events, path=path, rank=rank)
    stated = rows.select(*spellings)
    plain = read_plain(events, stated, (), rank=rank)
    if plain is None:
        raise TraceError(
            f"{path}: no column tells a rank, a place or a step, and no name an operation of training, so these rows "
            "are no job's."
        )
    number = plain.workers[0].rank if len(plain.workers) == 1 else None
    return Trace(events=trace.events, path=path, rank=number, plain=plain)


def _times(table: pl.DataFrame, path: str) -> tuple[str, str, int, bool]:
    for start, other, factor, is_end in _TIMES:
        if {"name", start, other} <= set(table.columns):
            return start, other, factor, is_end
    raise TraceError(
        f"{path}: is a table, but neither a trace that weftrace saved nor a table of ranges. A table of ranges has the "
        "columns name, start_ns and end_ns (or ts and dur, in µs), and, if known, rank, dp, pp, step, micro_batch."
    )


def _label(table: pl.DataFrame, names: tuple[str, ...]) -> pl.Expr:
    found = [name for name in names if name in table.columns]
    return pl.col(found[0]).cast(pl.String).fill_null("0") if found else pl.lit("0")


def _number(columns: Mapping[str, str], names: tuple[str, ...]) -> pl.Expr:
    """The first column that is spelled so; null what is below 0, or no number."""
    found = [pl.col(columns[name]).cast(pl.Int64, strict=False) for name in names if name in columns]
    if not found:
        return pl.lit(None, pl.Int64)
    value = pl.coalesce(found)
    return pl.when((value >= 0) & (value < _LARGEST)).then(value)
