"""Documents: JSON values of one schema, to and from files, plain or compressed."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import zstandard

from weftrace.errors import DocumentError, WeftraceError
from weftrace.files.output import write_output
from weftrace.files.standard_input import located

_INDENTED = 4_000_000  # bytes of a document up to which it is indented, and holds tables as rows
_LONG_TABLE = 100  # rows from which on a longer document holds a table as columns
_SCALARS = (str, int, float, type(None))
#: Holds the columns of a table, name -> values, or one value that all rows have.
AS_COLUMNS = "as_columns"


def read_document(
    path: str | os.PathLike[str], *, error: type[WeftraceError] = DocumentError, schema: str | None = None
) -> dict[str, Any]:
    """The document of a JSON file: plain, gzip or zstd, told by content.

    schema: what its field `schema` must be; None for any. Raises `error`, naming the file and what is wrong with it,
    where it cannot be read, is damaged, is not JSON, or is another document.
    """
    try:
        text = _decompressed(Path(located(path)).read_bytes())
        document = msgspec.json.decode(text)
    except OSError as cause:
        raise error(f"{path}: cannot be read: {cause.strerror or cause}") from cause
    except (EOFError, zlib.error, zstandard.ZstdError) as cause:
        raise error(f"{path}: a compressed file that is cut off or damaged: {cause}") from cause
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        is_cut = "truncated" in str(cause)
        raise error(
            f"{path}: {'cut off before its end: write it again' if is_cut else f'not JSON: {cause}'}"
        ) from cause
    if AS_COLUMNS.encode() in text:
        try:
            document = _as_rows(document)
        except (ValueError, TypeError, AttributeError, RecursionError) as cause:
            raise error(f"{path}: the columns of a table do not fit together: {cause}") from cause
    named = schema or "weftrace"
    if not isinstance(document, dict):
        raise error(f"{path}: not a {named} document but a JSON {_json_name(document)}")
    if schema is not None and document.get("schema") != schema:
        raise error(f"{path}: not a {schema} document: its schema is {document.get('schema')!r}")
    return document


def broken(what: str, schema: str, why: str, place: str) -> DocumentError:
    """The error for a field that its type allows and the rest of the document does not. place: of it, `$.rows[3]`."""
    return DocumentError(f"{what}: a {schema} document with a broken field: {why} - at `{place}`")


def need_lengths(what: str, schema: str, num: int, **lists: Sequence[Any]) -> None:
    """Raise `DocumentError` where one of these fields of the document, by name, has not `num` elements."""
    for name, found in lists.items():
        if len(found) != num:
            raise broken(what, schema, f"{len(found)} elements, where others have {num}", f"$.{name}")


def write_document(document: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """A document to a file, whole or not at all, compressed as its suffix says. Raises `OutputError`."""
    write_output(path, [document_text(document)])


def document_text(document: Mapping[str, Any]) -> bytes:
    """A document as JSON, with a line end: indented, unless it is too long to be read by eye. Then long tables stand as
    columns, {"as_columns": {name: values}}, in half the room; `read_document` makes rows of them again."""
    text = msgspec.json.encode(document)
    if len(text) <= _INDENTED:
        return msgspec.json.format(text, indent=1) + b"\n"
    return msgspec.json.encode(_as_columns(document)) + b"\n"


def _as_columns(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _as_columns(inner) for key, inner in value.items()}
    if not isinstance(value, list | tuple) or not value or isinstance(value[0], _SCALARS):
        return value
    keys = list(value[0]) if isinstance(value[0], Mapping) and len(value) >= _LONG_TABLE else []
    if not keys or not all(isinstance(row, Mapping) and list(row) == keys for row in value):
        return [_as_columns(each) for each in value]
    columns = {key: [row[key] for row in value] for key in keys}
    is_one = {key: _is_one_value(column) for key, column in columns.items()}
    is_one[keys[0]] &= not all(is_one.values())  # which says how many rows there are
    return {AS_COLUMNS: {key: column[0] if is_one[key] else column for key, column in columns.items()}}


def _is_one_value(column: Sequence[Any]) -> bool:
    first = column[0]
    return isinstance(first, _SCALARS) and all(each == first and type(each) is type(first) for each in column)


def _as_rows(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_rows(each) if isinstance(each, list | dict) else each for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) != {AS_COLUMNS}:
        return {key: _as_rows(inner) for key, inner in value.items()}
    if not isinstance(value[AS_COLUMNS], dict):
        raise ValueError(f"{AS_COLUMNS!r} holds no columns")
    columns = {key: _as_rows(column) for key, column in value[AS_COLUMNS].items()}
    number = max((len(column) for column in columns.values() if isinstance(column, list)), default=0)
    for key, column in columns.items():
        if isinstance(column, list) and len(column) != number:
            raise ValueError(f"{key!r} has {len(column)} values, another column {number}")
    whole = [column if isinstance(column, list) else [column] * number for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*whole, strict=True)]


def _decompressed(data: bytes) -> bytes:
    if data[:2] == b"\x1f\x8b":
        return gzip.decompress(data)
    if data[:4] == b"\x28\xb5\x2f\xfd":
        return zstandard.ZstdDecompressor().decompressobj().decompress(data)
    return data


def _json_name(value: object) -> str:
    names = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names.get(type(value), type(value).__name__)
