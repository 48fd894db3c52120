"""Costs as JSON: a document (`weftrace.pipeline.costs/1`) that `wt.save` writes, or a few numbers written by hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Final, NotRequired, TypedDict, cast

from msgspec import Meta

from weftrace.errors import DocumentError, ScheduleError
from weftrace.files.documents import document_as, read_document
from weftrace.files.schemas import Count, DocumentSchema
from weftrace.pipeline.costs import Costs

SCHEMA: Final = "weftrace.pipeline.costs/1"

_PerStage = Count | list[Count]
_Rate = Annotated[float, Meta(gt=0)]
_Part = Annotated[float, Meta(ge=0, le=1)]
_Parts = Annotated[list[_Part], Meta(min_length=2, max_length=2)]


class CostsDocument(TypedDict):
    """What one chunk, one stage's work on one micro-batch, costs: for all stages, or a list with a value a stage."""

    schema: str
    forward_ns: Annotated[_PerStage, Meta(description="F.")]
    input_ns: Annotated[_PerStage, Meta(description="I, the gradient of the input.")]
    weight_ns: Annotated[_PerStage, Meta(description="W, the gradient of the weights.")]
    backward_ns: NotRequired[Annotated[_PerStage | None, Meta(description="B, the full backward; null: I + W.")]]
    overlapped_ns: NotRequired[
        Annotated[
            Count | list[list[Count]] | None,
            Meta(description="F&B, or a row a stage of the forward, a value a stage of the backward; null: F + B."),
        ]
    ]
    rank_factor: NotRequired[
        Annotated[_Rate | list[_Rate], Meta(description="Times by which a rank is slower; one, or one a rank.")]
    ]
    latency_ns: NotRequired[Annotated[Count, Meta(description="On a message's way between two ranks.")]]
    message_bytes: NotRequired[Annotated[_PerStage, Meta(description="Of an activation that goes to the next stage.")]]
    bytes_per_s: NotRequired[
        Annotated[_Rate | None, Meta(description="Of the link from a rank to another; null: size does not matter.")]
    ]
    blocking: NotRequired[Annotated[bool, Meta(description="Sender and receiver compute nothing until it has passed.")]]
    input_needed: NotRequired[
        Annotated[_Parts, Meta(description="Of an F&B's time, before its forward and its backward read their input.")]
    ]
    output_ready: NotRequired[Annotated[_Parts, Meta(description="Until its forward and its backward have an output.")]]
    activation_bytes: NotRequired[Annotated[_PerStage, Meta(description="Held from F on, for the backward.")]]
    pending_bytes: NotRequired[
        Annotated[_PerStage | None, Meta(description="The part of them held from I to W; null: all.")]
    ]
    weight_bytes: NotRequired[Annotated[_PerStage, Meta(description="Parameters of a stage and what belongs to them.")]]
    offload_bytes_per_s: NotRequired[
        Annotated[_Rate | None, Meta(description="Of copies to the host, and of those back.")]
    ]
    source: NotRequired[Annotated[str, Meta(description="Where the numbers come from.")]]


COSTS_SCHEMA = DocumentSchema(
    document=CostsDocument,
    schema=SCHEMA,
    title="Costs of a pipeline's chunks",
)

_UNITS: Final[dict[str, float]] = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
_SIZES: Final[dict[str, float]] = {
    "bytes": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30,
}  # fmt: skip
_LETTERS: Final = {"F": "forward", "I": "input", "W": "weight", "B": "backward", "F&B": "overlapped"}
_NEEDED: Final = ("forward_ns", "input_ns", "weight_ns")
_FIELDS: Final = tuple(name for name in CostsDocument.__annotations__ if name != "schema")


def costs_document(costs: Costs) -> CostsDocument:
    """Costs as JSON-able values, all fields."""
    return cast(CostsDocument, {"schema": SCHEMA} | {name: _listed(getattr(costs, name)) for name in _FIELDS})


def costs_of(document: Mapping[str, Any], *, what: str = "costs") -> Costs:
    """Costs of a decoded JSON object: a document, or, without a field `schema`, numbers written by hand.

    By hand, any time may have another unit (`forward_ms`, `latency_us`), any size too (`activation_mib`; `mb` is a
    million bytes), a rate as well (`gb_per_s`, `offload_gb_per_s`), and the alphabet's letters may stand for the kinds:

        {"F_ms": 97.4, "I_ms": 111.6, "W_ms": 29.8, "F&B_ms": 129.0, "latency_us": 40}

    what: names it in errors. Raises `DocumentError`, saying which field is unknown, missing or wrong, and how it may be
    written.
    """
    if "schema" in document:
        fields: dict[str, Any] = {**document_as(document, CostsDocument, schema=SCHEMA, what=what)}
        fields = {name: value for name, value in fields.items() if name in _FIELDS}
    else:
        fields = _by_hand(document, what)
    fields.setdefault("source", "" if what == "costs" else what)
    try:
        return Costs(**fields)
    except ScheduleError as error:
        raise DocumentError(f"{what}: {str(error).removeprefix('costs: ')}") from None


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
    if type(value) not in (int, float) or not 0 <= value * factor < float("inf"):
        raise DocumentError(f"{what}: {written} holds {value!r}; it must be a number, 0 or more.")
    return value * factor if is_rate else round(value * factor)


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value
