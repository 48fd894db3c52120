"""A table is one list of columns: name, type, unit, meaning, and how it is shown.

The columns are the fields of a row's type (a TypedDict or a dataclass); the meaning is their `Meta(description=…)`:

    class KernelRow(TypedDict):
        name: Annotated[str, Meta(description="As the profiler wrote it."), Shown("kernel", wide=True)]
        total_ns: Annotated[int, Meta(ge=0, description="Sum of the durations."), Shown("total")]

`columns_of(KernelRow)` is what the frame's schema, the document's rows and their JSON Schema, the table in the terminal
(`render.console_parts.rows_table`) and on the page (`render.page`, `tables.js`), CSV, SQL and docs are made of.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypeAlias,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import polars as pl
from msgspec import Meta, UnsetType

#: How a value is shown: times are ns, sizes bytes, shares parts of 1.
Style: TypeAlias = Literal["text", "time", "count", "share", "size", "number"]

_UNITS = {"_ns": "ns", "_bytes": "bytes", "_GBps": "GB/s", "_ppm": "ppm"}
_STYLES: Mapping[str, Style] = {"ns": "time", "bytes": "size"}
_SHARES = ("share", "_fraction", "_share")
_DTYPES: Mapping[Any, pl.DataType] = {int: pl.Int64(), float: pl.Float64(), str: pl.String(), bool: pl.Boolean()}


@dataclass(frozen=True, slots=True)
class Shown:
    """How a field of a row is shown, where its name and type do not say it.

    label: its head in tables. style: see `Style`. term: key of its definition in the wing's words. wide: it may take
    what room the others leave, and is cut in its middle where that is too little.
    """

    label: str = ""
    style: Style | None = None
    term: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Column:
    """One column. meaning: how it is counted, for a person. Where there is nothing to say, a value is null."""

    name: str
    dtype: pl.DataType
    meaning: str = ""
    label: str = ""
    style: Style = "text"
    term: str = ""
    wide: bool = False

    @property
    def unit(self) -> str:
        """What its numbers are in, by the end of its name; empty for counts, names and the like."""
        return next((unit for ending, unit in _UNITS.items() if self.name.endswith(ending)), "")

    @property
    def is_text(self) -> bool:
        return self.style == "text"


@cache
def columns_of(row: Any) -> tuple[Column, ...]:
    """The columns of a row's type, in the order of its fields."""
    return tuple(_column(name, hint) for name, hint in get_type_hints(row, include_extras=True).items())


@cache
def frame_schema(row: Any) -> dict[str, pl.DataType]:
    """Name -> type of a frame whose rows are `row`."""
    return {column.name: column.dtype for column in columns_of(row)}


def frame_of(row: Any, rows: Iterable[Any]) -> pl.DataFrame:
    """Rows (mappings or dataclasses) as a frame, whose columns have the same types however many rows there are.

    Raises ValueError where a value does not fit its column.
    """
    plain = [dataclasses.asdict(each) if dataclasses.is_dataclass(each) else each for each in rows]  # type: ignore[arg-type]
    try:
        return pl.DataFrame(plain, schema=frame_schema(row))
    except pl.exceptions.PolarsError as error:  # a whole number of over 64 bits, say
        raise ValueError(f"rows that make no table: {error}") from error


def page_columns(rows: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Table's name -> its columns as the page's `tables.js` takes them (`columnsOf`)."""
    return {name: [_on_page(column) for column in columns_of(row)] for name, row in rows.items()}


def _on_page(column: Column) -> dict[str, Any]:
    return {
        "key": column.name,
        "label": column.label,
        "kind": {"share": "percent", "number": "count"}.get(column.style, column.style),
        **({"def": column.term} if column.term else {}),
        **({"wide": True} if column.wide else {}),
    }


def _column(name: str, hint: Any) -> Column:
    plain, marks = _unwrapped(hint)
    shown = next((mark for mark in marks if isinstance(mark, Shown)), Shown())
    meaning = next((mark.description for mark in marks if isinstance(mark, Meta) and mark.description), "")
    dtype = _dtype(plain)
    unit = next((unit for ending, unit in _UNITS.items() if name.endswith(ending)), "")
    return Column(
        name=name,
        dtype=dtype,
        meaning=" ".join(meaning.split()),
        label=shown.label or _label(name),
        style=shown.style or _STYLES.get(unit) or _style(name, dtype),
        term=shown.term,
        wide=shown.wide,
    )


def _label(name: str) -> str:
    for ending in _UNITS:
        name = name.removesuffix(ending)
    return name.removeprefix("num_").replace("_", " ")


def _style(name: str, dtype: pl.DataType) -> Style:
    if not dtype.is_numeric():
        return "text"
    if name.endswith(_SHARES):
        return "share"
    return "count" if dtype.is_integer() else "number"


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """A field's type without `Annotated`, `NotRequired` and None, and all that is said beside it."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        plain, marks = _unwrapped(args[0])
        return plain, (*reversed(args[1:]), *marks)
    if origin is NotRequired:
        return _unwrapped(args[0])
    if origin in (Union, types.UnionType):
        kinds = [each for each in args if each not in (type(None), UnsetType)]
        return _unwrapped(kinds[0]) if len(kinds) == 1 else (hint, ())
    return hint, ()


def _dtype(kind: Any) -> pl.DataType:
    """The type of a frame's column: that of `kind`, of which a union of numbers is a float."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _dtype(type(args[0]))
    if origin in (Union, types.UnionType):
        kinds = {_dtype(_unwrapped(each)[0]) for each in args if each is not type(None)}
        return kinds.pop() if len(kinds) == 1 else pl.Float64()
    if origin in (list, tuple, Sequence):
        return pl.List(_dtype(_unwrapped(args[0])[0]))
    if is_typeddict(kind) or dataclasses.is_dataclass(kind):
        return pl.Struct(frame_schema(kind))
    return _DTYPES[next(base for base in kind.__mro__ if base in _DTYPES)]  # of an enumeration that of its values
