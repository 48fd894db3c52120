"""Costs as JSON: a document (`weftrace.pipeline.costs/1`) that `wt.save` writes, or a few numbers written by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, TypedDict, get_type_hints

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import read_document
from weftrace.files.schemas import DocumentSchema
from weftrace.files.values import As, document_type, fields_of, from_document, to_document
from weftrace.pipeline.costs import Costs
from weftrace.units import quoted

SCHEMA: Final = "weftrace.pipeline.costs/1"

_FIELDS: Final = tuple(field.name for field in fields_of(Costs))
#: The type of the document: a field `schema`, then those of `Costs`.
CostsDocument = TypedDict("CostsDocument", {"schema": str, **get_type_hints(document_type(Costs), include_extras=True)})  # type: ignore[misc]
CostsDocument.__doc__ = Costs.__doc__
COSTS_SCHEMA = DocumentSchema(document=CostsDocument, schema=SCHEMA, title="Costs of a pipeline's chunks")

_UNITS: Final[dict[str, float]] = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
_SIZES: Final[dict[str, float]] = {
    "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
}  # fmt: skip
_MOST: Final = 1e200  # of a number written by hand: times any unit it is finite
_LETTERS: Final = {"F": "forward", "I": "input", "W": "weight", "B": "backward", "F&B": "overlapped"}
_NEEDED: Final = ("forward_ns", "input_ns", "weight_ns")


def costs_document(costs: Costs) -> dict[str, Any]:
    """Costs as JSON-able values, all fields."""
    return {"schema": SCHEMA, **to_document(costs)}


def costs_of(document: Mapping[str, Any], *, what: str = "costs") -> Costs:
    """Costs of a decoded JSON object: a document, or, without a field `schema`, numbers written by hand.

    By hand, any time may have another unit (`forward_ms`, `latency_us`), any size too (`activation_mib`; `mb` is a
    million bytes), a rate as well (`gb_per_s`, `offload_gb_per_s`), and the alphabet's letters may stand for the kinds:

        {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}

    what: names it in errors. Raises `DocumentError`, saying which field is unknown, missing or wrong, and how it may be
    written.
    """
    given = {} if what == "costs" else {"source": what}
    if "schema" in document:
        return from_document(Costs, {**given, **document}, schema=SCHEMA, what=what)
    try:
        return Costs(**{**given, **_by_hand(document, what)})
    except ScheduleError as error:
        raise DocumentError(f"{what}: {str(error).removeprefix('costs: ')}") from None


#: Costs that are a part of another document.
SavedCosts = Annotated[Costs, As(CostsDocument, save=costs_document, read=costs_of)]


def read_costs(path: str | os.PathLike[str]) -> Costs:
    """Costs from a JSON file, plain or compressed: see `costs_of`. Raises `DocumentError`."""
    return costs_of(read_document(path), what=os.fspath(path))


# --- numbers written by hand ------------------------------------------------------------------------------------------


def _by_hand(document: Mapping[str, Any], what: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for written, value in document.items():
        name, factor = _field(written, what)
        if name in fields:
            raise DocumentError(f"{what}: {written!r} says {name} a second time.")
        fields[name] = value if factor is None else _scaled(written, value, factor, name.endswith("_per_s"), what)
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        letters = ", ".join(f"{letter}_ms" for letter, stem in _LETTERS.items() if f"{stem}_ns" in missing)
        known = "B alone does not say how much of it is I: as a guess, half. " if "backward_ns" in fields else ""
        raise DocumentError(
            f"{what}: {' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing. {known}Costs need F, I "
            f"and W of a chunk; write {letters}, in ms, or in ns, us or s."
        )
    return fields


def _field(written: str, what: str) -> tuple[str, float | None]:
    """The field of `Costs` that a name written by hand is, and what its value is multiplied by; None: nothing."""
    stem, _, unit = written.rpartition("_")
    stem = _LETTERS.get(stem, stem)
    if f"{stem}_ns" in _FIELDS and unit in _UNITS:
        return f"{stem}_ns", _UNITS[unit]
    if written.endswith("_per_s"):
        before, _, unit = written.removesuffix("_per_s").rpartition("_")
        name = f"{before}_bytes_per_s".removeprefix("_")
        if name in _FIELDS and unit.lower() in _SIZES:
            return name, _SIZES[unit.lower()]
    if f"{stem}_bytes" in _FIELDS and unit.lower() in _SIZES:
        return f"{stem}_bytes", _SIZES[unit.lower()]
    if written in _FIELDS:
        return written, None
    if written in _LETTERS or f"{written}_ns" in _FIELDS:
        raise DocumentError(f"{what}: {written!r} has no unit. Write {written}_ms, or _ns, _us, _s.")
    if f"{written}_bytes" in _FIELDS:
        raise DocumentError(f"{what}: {written!r} has no unit. Write {written}_bytes, or _mb, _gb, _mib, _gib.")
    close = get_close_matches(written, [*_FIELDS, *(f"{letter}_ms" for letter in _LETTERS)], 1, 0.5)
    meant = f" Is {close[0]} meant?" if close else ""
    raise DocumentError(
        f"{what}: {written!r} is no cost.{meant} There are {', '.join(_FIELDS)}; times may end in _us, _ms or _s, "
        "sizes in _mb, _gb, _mib or _gib."
    )


def _scaled(written: str, value: Any, factor: float, is_rate: bool, what: str) -> Any:
    """The value in nanoseconds, bytes or bytes a second: whole, but for a rate."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_scaled(written, each, factor, is_rate, what) for each in value]
    if type(value) not in (int, float) or not 0 <= value < _MOST:
        raise DocumentError(f"{what}: {written} holds {quoted(value)}; it must be a number from 0 to 1e200.")
    return value * factor if is_rate else round(value * factor)
