"""What a page holds much of, made small: columns of numbers, rows of tables as columns, and long blocks deflated.

A page is text, so bytes stand in base64. Its script inflates them itself (`static/packed.js`), because the browser's
own decompression is asynchronous, and a page draws at once.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

#: Bytes of a column, and characters of a block, from which they are deflated.
_LONG_COLUMN, _LONG_BLOCK = 512, 20_000
_LEAST_ROWS = 3  # of fewer, names of columns take little
_LEAST_NUMBERS = 64  # of fewer, digits are as short
_EXACT = 1 << 53  # whole numbers below it are exact in a browser


class PackedColumn(TypedDict):
    """Little-endian numbers in base64. deflated: by bytes of equal weight, all lowest first; whether of the values
    themselves or of the step from each to the next (the first from 0), modulo the size of the type. An f8 is a whole
    number of eight bytes there."""

    type: Literal["u1", "u2", "u4", "f8"]
    data: str
    deflated: NotRequired[Literal["values", "steps"]]


class DeflatedBlock(TypedDict):
    """JSON that is deflated. size: its length in bytes."""

    deflated: str
    size: int


def packed(values: npt.NDArray[Any]) -> PackedColumn:
    """The smallest type that holds the values exactly, and their bytes. values: integers, none below 0."""
    top = int(values.max()) if values.size else 0
    assert not values.size or int(values.min()) >= 0, f"negative value {values.min()} in a page's column"
    kind: Literal["u1", "u2", "u4", "f8"] = (
        "u1" if top < 1 << 8 else "u2" if top < 1 << 16 else "u4" if top < 1 << 32 else "f8"
    )
    plain = values.astype(f"<{kind}")
    if plain.nbytes < _LONG_COLUMN:
        return {"type": kind, "data": _base64(plain.tobytes())}
    whole = values.astype("<u8") if kind == "f8" else plain
    by_value, by_step = (_deflated(_planes(each)) for each in (whole, np.diff(whole, prepend=whole.dtype.type(0))))
    if len(by_step) < len(by_value):
        return {"type": kind, "data": _base64(by_step), "deflated": "steps"}
    return {"type": kind, "data": _base64(by_value), "deflated": "values"}


def packed_block(value: Mapping[str, Any]) -> str:
    """A block of a page as JSON, deflated where it is long. Raises ValueError where it holds a NaN or an infinity."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    if len(text) < _LONG_BLOCK:
        return text
    data = text.encode("ascii")
    held: DeflatedBlock = {"deflated": _base64(_deflated(data)), "size": len(data)}
    return json.dumps(held, separators=(",", ":"))


def packed_rows(value: Any) -> Any:
    """JSON-able data in fewer characters; `rowsOf` of `static/packed.js` makes the same of it again.

    A long list of objects that have the same keys stands as columns, which name keys once: {"row_keys": [...],
    "row_columns": [[...], ...]}; one of equally long lists of numbers as {"row_columns": [...]} alone. A column of one
    value throughout holds it once, unless all do. A long list of whole numbers stands as {"numbers": a packed column,
    "from": what to add to each}.
    """
    if isinstance(value, Mapping):
        return {key: packed_rows(inner) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    first = value[0] if len(value) >= _LEAST_ROWS else None
    keys = tuple(first) if isinstance(first, Mapping) else ()
    if keys and all(isinstance(row, Mapping) and tuple(row) == keys for row in value):
        return {"row_keys": keys, "row_columns": _short([[row[key] for row in value] for key in keys])}
    if len(value) < _LEAST_NUMBERS:
        return [packed_rows(each) for each in value]
    if isinstance(first, list | tuple) and first and all(_are_whole(row, len(first)) for row in value):
        return {"row_columns": _short([list(column) for column in zip(*value, strict=True)])}
    if _are_whole(value, len(value)):
        least = min(value)
        return {"numbers": packed(np.array(value, np.int64) - least), "from": least}
    return [packed_rows(each) for each in value]


def _short(columns: list[list[Any]]) -> list[Any]:
    is_constant = [_is_constant(column) for column in columns]
    if all(is_constant):
        is_constant[0] = False
    return [column[:1] if once else packed_rows(column) for column, once in zip(columns, is_constant, strict=True)]


def _is_constant(column: list[Any]) -> bool:
    first = column[0]
    return isinstance(first, str | int | float | type(None)) and all(
        each == first and type(each) is type(first) for each in column
    )


def _are_whole(values: Any, number: int) -> bool:
    """Whether they are so many whole numbers that a browser holds exactly, also as distances from each other."""
    return (
        isinstance(values, list | tuple)
        and len(values) == number
        and {int}.issuperset(map(type, values))
        and max(values) - min(values) < _EXACT
        and max(map(abs, (max(values), min(values)))) < _EXACT
    )


def _planes(values: npt.NDArray[Any]) -> bytes:
    return values.view(np.uint8).reshape(values.size, values.itemsize).T.tobytes()


def _deflated(data: bytes) -> bytes:
    worker = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return worker.compress(data) + worker.flush()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
