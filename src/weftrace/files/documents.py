"""Documents: JSON values of one schema, to and from files, plain or compressed; and the texts of other small files.

What weftrace writes is sealed: the field `sha256` is the digest of all others, as compact JSON in their order. So a
file may be formatted anew, and a changed value is told. A file without that field is taken as it is.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from weftrace.errors import DocumentError, TraceError, TraceTooLarge, WeftraceError
from weftrace.files.output import write_output
from weftrace.files.plain_text import without_surrogates
from weftrace.files.sources import unpacked
from weftrace.files.standard_input import located
from weftrace.units import GIB, MIB, size

#: Decompressed bytes of a document, and values in it: decoded, each takes some 60 bytes.
MOST_BYTES, MOST_VALUES = 2 * GIB, 100_000_000
#: Decompressed bytes of a file that a person writes: rules, a question, a schedule.
MOST_TEXT_BYTES = 16 * MIB
_INDENTED = 4_000_000  # bytes of a document up to which it is indented, and holds tables as rows
_LONG_TABLE = 100  # rows from which on a longer document holds a table as columns
_SCALARS = (str, int, float, type(None))
_PIECE = 1 << 18
_HEAD = re.compile(rb'\{"schema":"[^"\\]*"(,"weftrace":"[^"\\]*")?')  # of what `document_text` writes
#: Holds the columns of a table, name -> values, or one value that all rows have.
AS_COLUMNS = "as_columns"
#: The field that seals a document.
SEAL = "sha256"


def read_document(
    path: str | os.PathLike[str], *, error: type[WeftraceError] = DocumentError, schema: str | None = None
) -> dict[str, Any]:
    """The document of a JSON file: plain, gzip or zstd, told by content.

    schema: what its field `schema` must be; None for any. Raises `error`, naming the file and what is wrong with it,
    where it cannot be read, is damaged, is not JSON, is larger than `MOST_BYTES` or `MOST_VALUES`, was changed since
    weftrace wrote it, holds a number that cannot be computed with, or is another document.
    """
    text = read_bytes(path, error=error)
    if text.count(b",") + text.count(b"[") + text.count(b"{") > MOST_VALUES:
        raise error(f"{path}: holds more than {MOST_VALUES:,} values, the most that are read of a document")
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as cause:
        is_cut = "truncated" in str(cause) and not text.rstrip().endswith((b"}", b"]"))
        why = "cut off before its end: write it again" if is_cut else f"not JSON: {cause}{_place_of(cause, text)}"
        raise error(f"{path}: {why}") from cause
    except RecursionError as cause:
        raise error(f"{path}: not a document: nested too deeply") from cause
    named = schema or "weftrace"
    if not isinstance(document, dict):
        raise error(f"{path}: not a {named} document but a JSON {_json_name(document)}")
    if (seal := document.pop(SEAL, None)) is not None and seal != _digest(msgspec.json.encode(document)):
        raise error(
            f"{path}: was changed since weftrace wrote it: its {SEAL} does not fit. If nobody edited it, it is "
            f"damaged: write it again. After an edit, remove its field {SEAL}."
        )
    if AS_COLUMNS.encode() in text:
        try:
            document = _as_rows(document)
        except (ValueError, TypeError, AttributeError, RecursionError) as cause:
            raise error(f"{path}: the columns of a table do not fit together: {cause}") from cause
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
    """A document as JSON, sealed, with a line end: indented, unless it is too long to be read by eye. Then long tables
    stand as columns, {"as_columns": {name: values}}, in half the room; `read_document` makes rows of them again."""
    try:
        text = msgspec.json.encode(document)
    except UnicodeEncodeError:  # the name of a file, say, that is no UTF-8
        document = _without_surrogates(msgspec.to_builtins(document))
        text = msgspec.json.encode(document)
    if len(text) <= _INDENTED:
        return msgspec.json.format(_sealed(text), indent=1) + b"\n"
    return _sealed(msgspec.json.encode(_as_columns(document))) + b"\n"


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, Mapping):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    return [_without_surrogates(each) for each in value] if isinstance(value, list | tuple) else value


def _sealed(text: bytes) -> bytes:
    """A document's compact text with its seal; as it is where its first field is no schema."""
    head = _HEAD.match(text)
    return (
        text
        if head is None
        else b'%b,"%b":"%b"%b' % (head[0], SEAL.encode(), _digest(text).encode(), text[head.end() :])
    )


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


# --- other small files ----------------------------------------------------------------------------------------------


def read_bytes(
    path: str | os.PathLike[str], *, error: type[WeftraceError] = DocumentError, most: int = MOST_BYTES
) -> bytes:
    """The decompressed bytes of a file. Raises `error` where it cannot be read, is damaged, or has more than `most`."""
    try:
        with open(located(path), "rb") as file:
            stream = unpacked(iter(partial(file.read, _PIECE), b""), os.fspath(path), max_bytes=most)
            data = b"".join(stream.chunks)
    except (OSError, ValueError) as cause:  # ValueError: a path with a zero byte
        raise error(f"{path}: cannot be read: {getattr(cause, 'strerror', None) or cause}") from cause
    except TraceTooLarge as cause:
        raise error(f"{path}: has more than {size(most)}, the most that is read of such a file") from cause
    except TraceError as cause:  # compressed too often
        raise error(str(cause)) from cause
    if stream.truncated:
        raise error(f"{path}: a compressed file that is cut off or damaged: {stream.truncated}")
    return data


def read_text(path: str | os.PathLike[str], *, error: type[WeftraceError] = DocumentError) -> str:
    """The text of a file that a person writes. Raises `error` as `read_bytes` does, and where it is not UTF-8."""
    try:
        return read_bytes(path, error=error, most=MOST_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as cause:
        raise error(f"{path}: not UTF-8 text, byte {cause.start}: {cause.reason}") from cause


def toml_of(text: str, what: str, *, error: type[WeftraceError] = DocumentError, hint: str = "") -> dict[str, Any]:
    """What a TOML text holds. what: names it in errors, which end with the hint. Raises `error` where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as cause:  # a number of 5,000 digits; lists in lists
        why = "nested too deeply" if isinstance(cause, RecursionError) else cause
        raise error(f"{what}: not TOML: {why}{hint}") from cause


# --- tables as columns ------------------------------------------------------------------------------------------------


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
        if isinstance(column, dict):
            raise ValueError(f"{key!r} is an object, and a column a list or the one value of all rows")
    whole = [column if isinstance(column, list) else [column] * number for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*whole, strict=True)]


# --- what is wrong ----------------------------------------------------------------------------------------------------


def _place_of(cause: Exception, text: bytes) -> str:
    """Where the number is that a decoder refused without a place, as the end of a sentence."""
    if "out of range" not in str(cause):
        return ""
    try:
        found = next(_infinite(json.loads(text, parse_int=float, parse_float=float), "$"), "")
    except (ValueError, RecursionError):
        return ""
    return f" - at `{found}`" if found else ""


def _infinite(value: Any, place: str) -> Iterator[str]:
    """The places of infinite numbers."""
    inside: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        inside = ((f"{place}.{key}", each) for key, each in value.items())
    elif isinstance(value, list):
        inside = ((f"{place}[{at}]", each) for at, each in enumerate(value))
    elif isinstance(value, float) and math.isinf(value):
        yield place
    for where, each in inside:
        yield from _infinite(each, where)


def _json_name(value: object) -> str:
    names = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "string", list: "array"}
    return names.get(type(value), type(value).__name__)
