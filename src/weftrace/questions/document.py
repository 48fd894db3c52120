"""Answers and the tables' columns as plain JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import polars as pl
from msgspec import Meta

from weftrace.errors import DocumentError
from weftrace.files.schemas import Count
from weftrace.files.values import filled, from_document, to_document
from weftrace.questions.asking import Answer
from weftrace.questions.columns import TABLES, Table
from weftrace.trace import Failure
from weftrace.version import __version__

SCHEMA: Final = "weftrace.query/1"
TABLES_SCHEMA: Final = "weftrace.query_tables/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerColumn:
    """A column of the answer."""

    name: str
    type: Annotated[str, Meta(description="As Polars calls it: Int64, Float64, String, Boolean.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRead:
    """A table that the question needed."""

    table: str
    rows: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """A question in SQL and the rows that it gave."""

    source: str
    sql: str
    read: tuple[TableRead, ...]
    failures: Annotated[
        tuple[Failure, ...],
        Meta(description="Files of a job that could not be used: the answer is without their rows."),
    ]
    notes: Annotated[tuple[str, ...], Meta(description="Files that lost a part: the answer is of what is left.")]
    columns: tuple[AnswerColumn, ...]
    num_rows: Count
    rows: Annotated[
        list[dict[str, Any]], Meta(description="Column -> value. What is no number (NaN, infinity) is null.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """The tables that `weftrace query` is asked of."""

    tables: tuple[Table, ...]


_TYPES = {str(dtype): dtype for dtype in (pl.Int64(), pl.Float64(), pl.String(), pl.Boolean(), pl.Int32(), pl.UInt32())}


def answer_document(answer: Answer) -> dict[str, Any]:
    """A `weftrace.query/1` document."""
    frame = answer.frame
    saved = filled(
        SavedAnswer,
        answer,
        read=tuple(TableRead(table=name, rows=rows) for name, rows in answer.read.items()),
        columns=tuple(AnswerColumn(name=name, type=str(dtype)) for name, dtype in frame.schema.items()),
        num_rows=frame.height,
        rows=[{name: _json(value) for name, value in row.items()} for row in frame.iter_rows(named=True)],
    )
    return {"schema": SCHEMA, "weftrace": __version__, **to_document(saved)}


def answer_of(document: Mapping[str, Any], *, what: str) -> Answer:
    """The way back. what: names the document in errors. Raises DocumentError."""
    saved = from_document(SavedAnswer, document, schema=SCHEMA, what=what)
    columns = {column.name: _TYPES.get(column.type) for column in saved.columns}
    rows = [[row.get(name) for name in columns] for row in saved.rows]
    try:
        frame = pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None, strict=False)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise DocumentError(f"{what}: rows that make no table: {error}") from error
    return filled(Answer, saved, frame=frame, read={each.table: each.rows for each in saved.read})


def tables_document(*names: str) -> dict[str, Any]:
    """A `weftrace.query_tables/1` document of the tables named, or of all."""
    tables = [table for table in TABLES.values() if not names or table.name in names]
    return {"schema": TABLES_SCHEMA, "weftrace": __version__, **to_document(Tables(tables=tuple(tables)))}


def _json(value: Any) -> Any:
    """A value as JSON has it; nested lists and structs too."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json(each) for key, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, list | tuple) else str(value)
