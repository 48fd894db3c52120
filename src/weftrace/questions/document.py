"""Answers and the tables' columns as plain JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import polars as pl
from msgspec import Meta

from weftrace.files.documents import broken, need_lengths
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
    notes: Annotated[tuple[str, ...], Meta(description="Files that lost a part: the answer covers the rest.")]
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
#: What a value is in JSON, where it is no null.
_VALUES: dict[str, Any] = {
    "Int64": int, "Int32": Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    "UInt32": Annotated[int, Meta(ge=0, le=(1 << 32) - 1)], "Float64": float, "String": str, "Boolean": bool,
}  # fmt: skip


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
    need_lengths(what, SCHEMA, saved.num_rows, rows=saved.rows)
    columns = [_column(saved, at, what) for at in range(len(saved.columns))]
    if len({column.name for column in columns}) < len(columns):
        raise broken(what, SCHEMA, "two columns have one name", "$.columns")
    return filled(Answer, saved, frame=pl.DataFrame(columns), read={each.table: each.rows for each in saved.read})


def _column(saved: SavedAnswer, at: int, what: str) -> pl.Series:
    """The values of a column, of the type that it says."""
    name, type_ = saved.columns[at].name, saved.columns[at].type
    for number, row in enumerate(saved.rows):
        try:
            msgspec.convert(row.get(name), _VALUES.get(type_, Any) | None)
        except msgspec.ValidationError as error:
            raise broken(what, SCHEMA, f"{error}, in a column of {type_}", f"$.rows[{number}].{name}") from error
    try:
        return pl.Series(name, [row.get(name) for row in saved.rows], dtype=_TYPES.get(type_), strict=False)
    except (pl.exceptions.PolarsError, TypeError, OverflowError) as error:
        raise broken(what, SCHEMA, f"values of several types: {error}", f"$.columns[{at}]") from error


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
