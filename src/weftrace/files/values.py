"""A value is its document: its type says which fields a document has, and one function each way does the rest.

A result is a frozen dataclass whose fields say what they mean, `Annotated[int, Meta(ge=0, description="…")]`. Its
document is made by `to_document`, read back and checked, bounds included, by `from_document`; its JSON Schema and the
types of the pages are made from `document_type`. Marks say what an annotation alone does not:

- a property whose return type is `Annotated[…, Meta(description="…")]` is a derived field: written, and ignored
  when read;
- a field of type `T | UnsetType` with default `UNSET` is left out of the document while it is unset;
- `Annotated[pl.DataFrame, As(list[Row])]`, and the same of an array, says which rows (a TypedDict) a table has;
- `Annotated[T, UNSAVED]` keeps a field out of the document; it needs a default;
- `Annotated[T, OPTIONAL]` says that a document may lack a field, which has its default then;
- `Annotated[int, UNBOUNDED]` takes whole numbers of over 64 bits, which are refused elsewhere;
- `Annotated[T, Named("bytes")]` has another name in the document. Without it, the name is the field's, without the
  shape that an array's ends in: `load_LN` is `load`.

`filled` makes a value from others that have fields of the same names.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import PurePath
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec
from msgspec import UNSET, Meta, UnsetType

from weftrace.errors import DocumentError, WeftraceError

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class As:
    """What a field is in the document, where its Python type does not say it.

    kind: the type in the document, `list[Row]` of a table. save, read: the ways there and back; by default rows of a
    frame, elements of an array.
    """

    kind: Any
    save: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


@dataclass(frozen=True, slots=True)
class Named:
    """What a field is called in the document, where that is not its own name."""

    name: str


_Cell = int | float | str | bool | None


def _frame_of_columns(columns: Mapping[str, list[_Cell]]) -> Any:
    import polars as pl

    try:
        return pl.DataFrame(columns, infer_schema_length=None)
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"no columns of one table: {error}") from error


#: Marks a frame that its document has as columns: name -> values.
AS_COLUMNS = As(dict[str, list[_Cell]], save=lambda frame: frame.to_dict(as_series=False), read=_frame_of_columns)


class _Unsaved:
    """See `UNSAVED`."""


class _Optional:
    """See `OPTIONAL`."""


#: Marks a field that its document does not have.
UNSAVED = _Unsaved()
#: Marks a field that is always written, and has its default where a document that is read does not have it.
OPTIONAL = _Optional()


class _Unbounded:
    """See `UNBOUNDED`."""


#: Marks a whole number that may have more than 64 bits, as FLOPs of a large model do.
UNBOUNDED = _Unbounded()


def filled(kind: type[V], *sources: Any, **own: Any) -> V:
    """A value of the dataclass `kind`: each field from `own`, else from the first source with an attribute of that
    name, else its default."""
    assert dataclasses.is_dataclass(kind), kind
    for field in dataclasses.fields(kind):
        if field.name not in own and (source := next((s for s in sources if hasattr(s, field.name)), None)) is not None:
            own[field.name] = getattr(source, field.name)
    made: V = kind(**own)
    return made


_PLAIN = frozenset({str, int, float, bool, type(None)})  # what JSON has, so that long lists are copied at once

# --- there --------------------------------------------------------------------------------------------------------


def to_document(value: Any) -> Any:
    """A value as JSON-able values: dataclasses as objects, frames as rows, arrays and sequences as lists."""
    if value is None or (isinstance(value, str | bool | int | float) and not isinstance(value, Enum)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: each for field in fields_of(type(value)) if (each := _saved(value, field)) is not UNSET}
    if isinstance(value, list | tuple) and _PLAIN.issuperset(map(type, value)):
        return list(value)
    if isinstance(value, Mapping):
        return {_plain_key(key): to_document(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_document(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(to_document(each) for each in value)
    if isinstance(value, Enum):
        return to_document(value.value)
    if hasattr(value, "to_dicts"):  # a frame
        return value.to_dicts()
    if hasattr(value, "tolist"):  # an array, a number of NumPy's
        return value.tolist()
    assert isinstance(value, PurePath), f"{type(value).__name__} has no place in a document"
    return str(value)


def _saved(value: Any, field: Field) -> Any:
    own = getattr(value, field.attribute)
    if field.mark is not None and field.mark.save is not None and own is not None:
        return field.mark.save(own)
    return own if own is UNSET else to_document(own)


def _plain_key(key: Any) -> Any:
    return key.value if isinstance(key, Enum) else key


# --- and back -----------------------------------------------------------------------------------------------------


_MOST = 1 << 63  # what a column of a table holds is below it
_MOST_UNBOUNDED = 10**100  # what is computed of more may not be finite


def from_document(
    kind: type[V], document: Any, *, what: str, schema: str = "", error: type[WeftraceError] = DocumentError
) -> V:
    """The value of type `kind` that a document holds, once each of its fields is there, of its type and within bounds.

    schema: what its field `schema` must be, if anything. what: how an error names the document, a file's path say.
    Raises `error`, which names the place of the field (`$.a[3]`), where the document does not fit, or where the
    `__post_init__` of a type raises ValueError or a `WeftraceError`.
    """
    if schema and document.get("schema") != schema:
        raise error(f"{what}: not a {schema} document: its schema is {document.get('schema')!r}")
    named = f"a {schema} document with a broken field" if schema else "a broken field"
    try:
        found: V = _built(kind, msgspec.convert(document, document_type(kind)), "$")
        return found
    except msgspec.ValidationError as cause:
        raise error(f"{what}: {named}: {cause}") from cause
    except RecursionError as cause:
        raise error(f"{what}: nested too deeply") from cause


def _built(kind: Any, document: Any, place: str) -> Any:
    """What was checked against `document_type(kind)`, as a value of `kind`."""
    origin, args = get_origin(kind), get_args(kind)
    if document is None or kind is Any or origin is Literal:
        return document
    if origin is Annotated and UNBOUNDED in args[1:]:
        if not -_MOST_UNBOUNDED < document < _MOST_UNBOUNDED:
            raise msgspec.ValidationError(f"a whole number of over 100 digits - at `{place}`")
        return document
    if isinstance(document, int) and not -_MOST <= document < _MOST:
        raise msgspec.ValidationError(f"a whole number of over 64 bits - at `{place}`")
    if origin is Annotated:
        mark = next((each for each in args[1:] if isinstance(each, As)), None)
        return _built(args[0], document, place) if mark is None else _read(args[0], mark, document, place)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        found = {
            field.attribute: _built(field.hint, document[field.name], f"{place}.{field.name}")
            for field in fields_of(kind)
            if not field.is_derived and field.name in document
        }
        return _tried(lambda: kind(**found), place)
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        return {name: _built(hints[name], each, f"{place}.{name}") for name, each in document.items()}
    if origin in (Union, types.UnionType):
        return _built(_member(args, document), document, place)
    if origin in (list, tuple, frozenset, set):
        of = args if origin is tuple and args[-1] is not Ellipsis else (args[0],) * len(document)
        return origin(
            _built(each, one, f"{place}[{at}]") for at, (each, one) in enumerate(zip(of, document, strict=True))
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _built(args[1], each, f"{place}[{key!r}]") for key, each in document.items()}
    if origin is not None and hasattr(origin, "__iter__"):  # a Sequence or the like
        return tuple(_built(args[0], each, f"{place}[{at}]") for at, each in enumerate(document))
    return document


def _member(kinds: tuple[Any, ...], document: Any) -> Any:
    """The one of a union's types that a document is of: the first that it fits."""
    rich = [kind for kind in kinds if kind not in (type(None), UnsetType)]
    for kind in rich[:-1]:
        try:
            msgspec.convert(document, document_type(kind))
        except msgspec.ValidationError:
            continue
        return kind
    return rich[-1]


def _read(kind: Any, mark: As, document: Any, place: str) -> Any:
    if mark.read is not None:
        return _tried(lambda: mark.read(document), place)  # type: ignore[misc]
    name = getattr(kind, "__name__", "")
    if name == "DataFrame":
        from weftrace.files.columns import frame_of

        (row,) = get_args(mark.kind)
        return _tried(lambda: frame_of(row, document), place)
    (scalar,) = get_args(get_args(kind)[1])
    return _tried(lambda: _array_of(scalar, document), place)


def _array_of(scalar: Any, document: Any) -> Any:
    import numpy as np

    try:
        return np.asarray(document, scalar)
    except ValueError as error:
        widths = {len(row) if isinstance(row, list) else 1 for row in document}
        if len(widths) == 1:
            raise
        raise ValueError(f"rows of {min(widths)} and of {max(widths)} elements") from error


def _tried(make: Callable[[], Any], place: str) -> Any:
    try:
        return make()
    except (ValueError, TypeError, OverflowError, WeftraceError) as cause:
        raise msgspec.ValidationError(f"{cause} - at `{place}`") from cause


# --- what a type's documents hold ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a document. attribute: of the value, which has it. hint: its annotation. mark: its `As`.
    is_derived: of a property, which is not read."""

    name: str
    attribute: str
    hint: Any
    mark: As | None = None
    is_derived: bool = False
    is_required: bool = True


@cache
def fields_of(kind: type) -> tuple[Field, ...]:
    """The fields of a dataclass' document: its own, in their order, then its derived ones."""
    hints = get_type_hints(kind, include_extras=True)
    own = []
    for each in dataclasses.fields(kind):
        marks = get_args(hints[each.name])[1:] if get_origin(hints[each.name]) is Annotated else ()
        if UNSAVED not in marks and not each.name.startswith("_"):
            mark = next((one for one in marks if isinstance(one, As)), None)
            is_required = each.default is not UNSET and OPTIONAL not in marks
            own.append(Field(_saved_name(each.name, marks), each.name, hints[each.name], mark, is_required=is_required))
    return (*own, *_derived(kind))


def _derived(kind: type) -> Iterator[Field]:
    for name in dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base)):
        found = getattr(kind, name, None)
        if isinstance(found, property) and found.fget is not None and "return" in found.fget.__annotations__:
            hint = get_type_hints(found.fget, include_extras=True)["return"]
            marks = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
            if any(isinstance(each, Meta) for each in marks):
                mark = next((one for one in marks if isinstance(one, As)), None)
                yield Field(_saved_name(name, marks), name, hint, mark, is_derived=True)


def _saved_name(attribute: str, marks: Iterable[Any]) -> str:
    return next((each.name for each in marks if isinstance(each, Named)), re.sub(r"_[A-Z]+$", "", attribute))


def document_type(kind: Any) -> Any:
    """The type of a value's document: a dataclass becomes a TypedDict of the same name and docstring, a table rows."""
    return _document_type(kind)


@cache
def _document_type(kind: Any) -> Any:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _annotated(args)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _typed_dict(kind, {field.name: _in_document(field) for field in fields_of(kind)})
    if is_typeddict(kind):
        own = get_type_hints(kind, include_extras=True)
        saved = {name: document_type(each) for name, each in own.items()}
        return kind if saved == own else _typed_dict(kind, saved, is_total=kind.__total__)
    if origin is NotRequired:
        return NotRequired[document_type(args[0])]
    if origin in (Union, types.UnionType):
        return Union[tuple(document_type(each) for each in args if each is not UnsetType)]  # noqa: UP007
    if origin is tuple and args[-1] is not Ellipsis:
        return tuple[tuple(document_type(each) for each in args)]  # type: ignore[misc]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return dict[document_type(args[0]), document_type(args[1])]  # type: ignore[misc]
    if origin is not None and origin is not Literal and args:
        return list[document_type(args[0])]  # type: ignore[misc]
    return kind


def _typed_dict(kind: type, hints: dict[str, Any], *, is_total: bool = True) -> Any:
    made = TypedDict(kind.__name__, hints, total=is_total)  # type: ignore[misc]
    made.__doc__, made.__module__ = kind.__doc__, kind.__module__
    return made


def _annotated(args: tuple[Any, ...]) -> Any:
    mark = next((each for each in args[1:] if isinstance(each, As)), None)
    metas = tuple(each for each in args[1:] if isinstance(each, Meta))
    own = document_type(args[0] if mark is None else mark.kind)
    return Annotated[(own, *metas)] if metas else own


def _in_document(field: Field) -> Any:
    own = document_type(field.hint)
    return own if field.is_required else NotRequired[own]
