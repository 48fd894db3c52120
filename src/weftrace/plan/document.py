"""A plan as text, JSON with one op a line, so that any diff compares two plans; and as Parquet, for large ones.

Document `weftrace.plan/2`: an object with `schema`, the facts of `Plan`, and `ops`, a list of objects with the fields
of `Op`: `resource` is an object of `rank` and `stream`; `after` lists ids or row numbers, and objects with the fields
of `Wait` for waits that say more. Fields that have their default value are left out.

Parquet: the columns of `Plan.ops`, and `after`, a list of each op's waits; the facts are JSON in the file's metadata,
and a digest tells damage (`weftrace.files.parquet`).
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgspec
import numpy as np
import polars as pl

from weftrace.errors import PlanError, TraceError, UncheckedWarning
from weftrace.files.output import write_output
from weftrace.files.parquet import UNCHECKED, parquet_bytes, read_table
from weftrace.files.schemas import DocumentSchema
from weftrace.files.sources import DEFAULT_MAX_BYTES, open_bytes
from weftrace.plan.model import Plan
from weftrace.plan.ops import OP_DEFAULTS, OP_SCHEMA, WAIT_SCHEMA, Op, Resource, Wait

SCHEMA = "weftrace.plan/2"
_KEY = "weftrace.plan"
_FACTS = tuple(field for field in fields(Plan) if field.name not in ("ops", "waits"))
_AFTER = pl.List(pl.Struct({name: WAIT_SCHEMA[name] for name in WAIT_SCHEMA if name != "op"}))

_FIELDS: dict[type, frozenset[str]] = {
    Plan: frozenset(("ops", *(field.name for field in _FACTS))),
    **{kind: frozenset(field.name for field in fields(kind)) for kind in (Op, Resource, Wait)},
}


class _Head(msgspec.Struct, frozen=True):
    schema: str


class PlanDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as its document has it: times are integer nanoseconds; what is left out has the default."""

    schema: str
    name: str
    source: str = ""
    notes: tuple[str, ...] = ()
    device_name: str = "device"
    num_sms: int | None = None
    world_size: int | None = None
    gap_ns: int = 0
    ops: tuple[Op, ...]


SCHEMAS = (
    DocumentSchema(
        document=PlanDocument,
        schema=SCHEMA,
        title="A plan: the work to do, its order, and the stream and rank of each part",
    ),
)


def to_json(plan: Plan) -> str:
    """The plan as text that `from_json` reads back equal. The plan is not checked: a wrong one can be written too.

    Raises `PlanError` where a field holds what JSON cannot.
    """
    encode = msgspec.json.Encoder().encode
    try:
        lines = [encode(_stated(op)) for op in plan.listed()]
        top = msgspec.json.format(encode({"schema": SCHEMA, **_facts(plan)}), indent=1).decode()
    except (TypeError, OverflowError, UnicodeError, msgspec.EncodeError) as error:
        raise PlanError(
            f"plan {plan.name!r} cannot be written as JSON: {error}. Use Python's own int and str in its fields."
        ) from error
    body = b",\n  ".join(lines).decode()
    ops = f"[\n  {body}\n ]" if lines else "[]"
    return f'{top.removesuffix(chr(10) + "}")},\n "ops": {ops}\n}}\n'


def from_json(text: str | bytes) -> Plan:
    """Read what `to_json` writes. Raises `PlanError` that says where the text is not such a plan.

    The plan is not checked further: call `weftrace.plan.check`, or simulate it.
    """
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
        raise PlanError(f"not a {SCHEMA} document: {error}") from error
    return plan_of(document)


def plan_of(document: Mapping[str, Any], what: str = "") -> Plan:
    """The plan of a decoded document. what: names it in errors. Raises as `from_json` does."""
    named = f"{what}: " if what else ""
    try:
        version = msgspec.convert(document, _Head).schema
        if version != SCHEMA:
            raise PlanError(
                f"{named}this plan's schema is {version!r}, and this weftrace reads {SCHEMA!r}. "
                "Read it with the weftrace that wrote it, or write it again."
            )
        if (unknown := next(_unknown_fields(document), None)) is not None:
            raise PlanError(f"{named}not a {SCHEMA} document: Object contains unknown field {unknown}")
        written = msgspec.convert(document, PlanDocument)
    except msgspec.ValidationError as error:
        raise PlanError(f"{named}not a {SCHEMA} document: {error}") from error
    return Plan.of(written.ops, **{field.name: getattr(written, field.name) for field in _FACTS})


def save_parquet(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan as Parquet (zstd), whole or not at all. Raises `OutputError` where the file cannot be written."""
    ops = plan.ops.with_columns(_after(plan))
    write_output(path, [parquet_bytes(ops, {_KEY: json.dumps({"schema": SCHEMA, **_facts(plan)})})])


def load_parquet(path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> Plan:
    """Read a plan that `save_parquet` wrote. max_bytes: limit on its size in memory.

    Raises `PlanError` where the file is not such a plan, is damaged, or too large. Warns where a plan was saved before
    plans had a digest, so that damage cannot be told.
    """
    try:
        stream = open_bytes(path, max_bytes=max_bytes)
        stored = b"".join(stream.chunks)
    except TraceError as error:
        raise PlanError(str(error)) from error
    if stream.truncated:
        raise PlanError(f"{path}: {stream.truncated}. Save the plan again.")
    table = read_table(
        stored, str(path), max_bytes=max_bytes, error=PlanError, too_large=PlanError, remedy="Save the plan again."
    )
    text, frame = table.metadata.get(_KEY), table.rows
    if text is None or frame.schema != pl.Schema({**OP_SCHEMA, "after": _AFTER}):
        raise PlanError(
            f"{path}: is Parquet, but not a plan that this weftrace saved. A trace is opened with weftrace.open."
        )
    try:
        facts = json.loads(text)
        head = msgspec.convert({**facts, "ops": ()}, PlanDocument)
    except (ValueError, TypeError, RecursionError) as error:
        raise PlanError(f"{path}: its data about the plan is not in weftrace's form: {error}") from error
    if head.schema != SCHEMA:
        raise PlanError(f"{path}: this plan is of another version. Read it with the weftrace that wrote it.")
    for column in OP_DEFAULTS:
        if missing := frame.get_column(column).null_count():
            raise PlanError(f"{path}: {missing:,} ops have no {column}. Save the plan again.")
    if not table.is_checked:
        warnings.warn(f"{path}: {UNCHECKED}", UncheckedWarning, stacklevel=2)
    after = frame.select(op=pl.int_range(pl.len(), dtype=pl.UInt32), after="after").filter(
        pl.col("after").list.len() > 0
    )
    waits = after.explode("after").unnest("after")
    if missing := sum(waits.null_count().row(0)):
        raise PlanError(f"{path}: {missing:,} values of waits are missing. Save the plan again.")
    return Plan(ops=frame.drop("after"), waits=waits, **{field.name: getattr(head, field.name) for field in _FACTS})


def _after(plan: Plan) -> pl.Series:
    """Each op's waits as a list, in the order of the plan; an empty list where it has none."""
    lists = plan.waits.group_by("op", maintain_order=True).agg(after=pl.struct(pl.exclude("op")))
    rows = pl.DataFrame({"op": np.arange(len(plan), dtype=np.uint32)})
    joined = rows.join(lists, on="op", how="left", maintain_order="left").get_column("after")
    return joined.cast(_AFTER).fill_null(pl.Series([[]], dtype=_AFTER))


def _facts(plan: Plan) -> dict[str, Any]:
    """What the plan says of itself, as far as it is no default, in order."""
    stated = ((field.name, field.default, getattr(plan, field.name)) for field in _FACTS)
    return {name: mine for name, default, mine in stated if mine != default}


def _stated(op: Op) -> dict[str, Any]:
    """Its fields that differ from their default, in order."""
    stated = {}
    for field in fields(op):
        mine = getattr(op, field.name)
        if field.name == "resource" or mine != field.default:
            stated[field.name] = mine
    if op.after:
        stated["after"] = [_waiting(each) for each in op.after]
    return stated


def _waiting(each: str | int | Wait) -> object:
    if not isinstance(each, Wait):
        return each
    return {f.name: getattr(each, f.name) for f in fields(each) if getattr(each, f.name) != f.default}


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[str]:
    """Fields that no plan has, each with its place: a slip of the pen would else pass as a default.

    What is no object is passed over: decoding says so.
    """
    yield from _unknown(document, Plan, "", extra="schema")
    ops = document.get("ops")
    for at, op in enumerate(ops if isinstance(ops, list) else ()):
        if isinstance(op, dict):
            yield from _unknown(op, Op, f"$.ops[{at}]")
            yield from _unknown(op.get("resource"), Resource, f"$.ops[{at}].resource")
            after = op.get("after")
            for number, wait in enumerate(after if isinstance(after, list) else ()):
                yield from _unknown(wait, Wait, f"$.ops[{at}].after[{number}]")


def _unknown(value: object, kind: type, at: str, extra: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        place = f" - at `{at}`" if at else ""
        yield from (f"`{name}`{place}" for name in value.keys() - _FIELDS[kind] - {extra})
