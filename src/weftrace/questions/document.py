"""Answers and the tables' columns as plain JSON, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.documents import document_as
from weftrace.files.schemas import Count, DocumentSchema
from weftrace.questions.asking import Answer
from weftrace.questions.columns import TABLES
from weftrace.trace import Failure
from weftrace.version import __version__

SCHEMA: Final = "weftrace.query/1"
COLUMNS_SCHEMA_NAME: Final = "weftrace.query_tables/1"


class AnswerColumn(TypedDict):
    """A column of the answer."""

    name: str
    type: Annotated[str, Meta(description="As Polars calls it: Int64, Float64, String, Boolean.")]


class TableRead(TypedDict):
    """A table that the question needed."""

    table: str
    rows: Count


class FileFailed(TypedDict):
    """A file of a job that could not be used: the answer is without its rows."""

    path: str
    error: str


class QueryDocument(TypedDict):
    """A question in SQL and the rows that it gave."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    source: str
    sql: str
    read: list[TableRead]
    failures: list[FileFailed]
    notes: Annotated[list[str], Meta(description="Files that lost a part: the answer is of what is left.")]
    columns: list[AnswerColumn]
    num_rows: Count
    rows: Annotated[
        list[dict[str, Any]], Meta(description="Column -> value. What is no number (NaN, infinity) is null.")
    ]


class ColumnTold(TypedDict):
    """A column of a table."""

    name: str
    type: str
    unit: Annotated[str, Meta(description="Empty for counts and names.")]
    meaning: str


class TableTold(TypedDict):
    """A table that questions are asked of."""

    name: str
    meaning: Annotated[str, Meta(description="What a row is.")]
    columns: list[ColumnTold]


class TablesDocument(TypedDict):
    """The tables that `weftrace query` is asked of."""

    schema: str
    weftrace: Annotated[str, Meta(description="The version that wrote it.")]
    tables: list[TableTold]


QUERY_SCHEMA = DocumentSchema(
    document=QueryDocument,
    schema=SCHEMA,
    title="A question to a trace, and its answer",
)
TABLES_SCHEMA = DocumentSchema(
    document=TablesDocument,
    schema=COLUMNS_SCHEMA_NAME,
    title="Tables and columns that questions are asked of",
)
_TYPES = {str(dtype): dtype for dtype in (pl.Int64(), pl.Float64(), pl.String(), pl.Boolean(), pl.Int32(), pl.UInt32())}


def answer_document(answer: Answer) -> QueryDocument:
    """A `weftrace.query/1` document."""
    frame = answer.frame
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": answer.source,
        "sql": answer.sql,
        "read": [{"table": name, "rows": rows} for name, rows in answer.read.items()],
        "failures": [{"path": failure.path, "error": failure.error} for failure in answer.failures],
        "notes": list(answer.notes),
        "columns": [{"name": name, "type": str(dtype)} for name, dtype in frame.schema.items()],
        "num_rows": frame.height,
        "rows": [{name: _json(value) for name, value in row.items()} for row in frame.iter_rows(named=True)],
    }


def answer_of(document: Mapping[str, Any], *, what: str) -> Answer:
    """The way back. what: names the document in errors. Raises DocumentError."""
    told: QueryDocument = document_as(document, QUERY_SCHEMA.document, schema=SCHEMA, what=what)
    names = [column["name"] for column in told["columns"]]
    columns = {column["name"]: _TYPES.get(column["type"]) for column in told["columns"]}
    rows = [[row.get(name) for name in names] for row in told["rows"]]
    frame = pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None, strict=False)
    return Answer(
        source=told["source"],
        sql=told["sql"],
        frame=frame,
        read={each["table"]: each["rows"] for each in told["read"]},
        failures=tuple(Failure(path=each["path"], error=each["error"]) for each in told["failures"]),
        notes=tuple(told["notes"]),
    )


def tables_document(*names: str) -> TablesDocument:
    """A `weftrace.query_tables/1` document of the tables named, or of all."""
    tables: list[TableTold] = [
        {
            "name": table.name,
            "meaning": table.meaning,
            "columns": [
                {"name": each.name, "type": str(each.dtype), "unit": each.unit, "meaning": each.meaning}
                for each in table.columns
            ],
        }
        for table in TABLES.values()
        if not names or table.name in names
    ]
    return {"schema": COLUMNS_SCHEMA_NAME, "weftrace": __version__, "tables": tables}


def _json(value: Any) -> Any:
    """A value as JSON has it; nested lists and structs too."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _json(each) for key, each in value.items()}
    return [_json(each) for each in value] if isinstance(value, list | tuple) else str(value)
