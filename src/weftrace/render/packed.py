"""What a page holds much of, made small: columns of numbers, little-endian, in base64; rows of tables as columns."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Literal, TypedDict

import numpy.typing as npt


class PackedColumn(TypedDict):
    """Little-endian numbers in base64."""

    type: Literal["u1", "u2", "u4", "f8"]
    data: str


def packed(values: npt.NDArray[Any]) -> PackedColumn:
    """The smallest type that holds the values exactly, and their bytes. values: integers, none below 0."""
    top = int(values.max()) if values.size else 0
    assert not values.size or int(values.min()) >= 0, f"negative value {values.min()} in a page's column"
    kind: Literal["u1", "u2", "u4", "f8"] = (
        "u1" if top < 1 << 8 else "u2" if top < 1 << 16 else "u4" if top < 1 << 32 else "f8"
    )
    return {"type": kind, "data": base64.b64encode(values.astype(f"<{kind}").tobytes()).decode("ascii")}


_LEAST_ROWS = 3  # of fewer, names of columns take little


def packed_rows(value: Any) -> Any:
    """JSON-able data with each long list of objects that have the same keys as one of columns, which name keys once:
    {"row_keys": [...], "row_columns": [[...], ...]}. A column of one value throughout holds it once, unless all do.
    `rowsOf` of `static/packed.js` makes rows of it again."""
    if isinstance(value, Mapping):
        return {key: packed_rows(inner) for key, inner in value.items()}
    if not isinstance(value, list | tuple):
        return value
    keys = tuple(value[0]) if len(value) >= _LEAST_ROWS and isinstance(value[0], Mapping) else ()
    if keys and all(isinstance(row, Mapping) and tuple(row) == keys for row in value):
        columns = [[row[key] for row in value] for key in keys]
        short = [column[:1] if _is_constant(column) else packed_rows(column) for column in columns]
        if all(len(column) == 1 for column in short):
            short[0] = columns[0]
        return {"row_keys": keys, "row_columns": short}
    return [packed_rows(each) for each in value]


def _is_constant(column: list[Any]) -> bool:
    first = column[0]
    return isinstance(first, str | int | float | type(None)) and all(
        each == first and type(each) is type(first) for each in column
    )
