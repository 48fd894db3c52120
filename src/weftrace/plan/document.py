"""A plan as text: JSON with one op a line, so that two plans can be compared with any diff.

Document `weftrace.plan/1`: an object with `schema`, the fields of `Plan`, and `ops`, a list of objects with the
fields of `Op`, `resource` being an object of `rank` and `stream`. Fields that have their default value are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import msgspec

from weftrace.errors import PlanError
from weftrace.plan.model import Op, Plan, Resource

SCHEMA = "weftrace.plan/1"

_FIELDS = {kind: frozenset(field.name for field in fields(kind)) for kind in (Plan, Op, Resource)}


class _Head(msgspec.Struct, frozen=True):
    schema: str


def to_json(plan: Plan) -> str:
    """The plan as text that `from_json` reads back equal. The plan is not checked: a wrong one can be written too.

    Raises `PlanError` where a field holds what JSON cannot, such as a NumPy number.
    """
    head = {"schema": SCHEMA, **_stated(plan)}
    del head["ops"]
    encode = msgspec.json.Encoder().encode
    try:
        lines = [encode(_stated(op)) for op in plan.ops]
        top = msgspec.json.format(encode(head), indent=1).decode()
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
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
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
        return msgspec.convert(document, Plan)
    except msgspec.ValidationError as error:
        raise PlanError(f"{named}not a {SCHEMA} document: {error}") from error


def _stated(value: Plan | Op) -> dict[str, Any]:
    """Its fields that differ from their default, in order."""
    stated = ((field.name, field.default, getattr(value, field.name)) for field in fields(value))
    return {name: mine for name, default, mine in stated if mine != default}


def _unknown_fields(document: Mapping[str, Any]) -> Iterator[str]:
    """Fields that no plan has, each with its place: a slip of the pen would else pass as a default.

    What is no object is passed over: decoding says so.
    """
    yield from (f"`{name}`" for name in document.keys() - _FIELDS[Plan] - {"schema"})
    ops = document.get("ops")
    for at, op in enumerate(ops if isinstance(ops, list) else ()):
        if isinstance(op, dict):
            yield from (f"`{name}` - at `$.ops[{at}]`" for name in op.keys() - _FIELDS[Op])
            if isinstance(resource := op.get("resource"), dict):
                yield from (f"`{name}` - at `$.ops[{at}].resource`" for name in resource.keys() - _FIELDS[Resource])
