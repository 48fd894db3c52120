"""A plan as text: JSON with one op a line, so that two plans can be compared with any diff.

Document `weftrace.plan/1`: an object with `schema`, the fields of `Plan`, and `ops`, a list of objects with the
fields of `Op`, `resource` being an object of `rank` and `stream`. Fields that have their default value are left out.
"""

from __future__ import annotations

from typing import cast

import msgspec

from weftrace.errors import PlanError
from weftrace.plan.model import Kind, Op, Plan, Resource

SCHEMA = "weftrace.plan/1"


class _Resource(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    rank: int
    stream: int


class _Op(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    id: str
    name: str
    duration_ns: int
    resource: _Resource
    kind: str = "compute"
    after: tuple[str, ...] = ()
    lags_ns: tuple[int, ...] = ()
    num_sms: int | None = None
    num_kernels: int = 1
    phase: str | None = None
    layer: int | None = None
    micro_batch: int | None = None


class _Head(msgspec.Struct, frozen=True, omit_defaults=True):
    schema: str
    name: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    device_name: str = "device"
    num_sms: int | None = None
    world_size: int | None = None
    gap_ns: int = 0


class _Plan(_Head, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    ops: tuple[_Op, ...] = ()


def to_json(plan: Plan) -> str:
    """The plan as text that `from_json` reads back equal. The plan is not checked: a wrong one can be written too.

    Raises `PlanError` where a field holds what JSON cannot, such as a NumPy number.
    """
    head = _Head(
        schema=SCHEMA,
        name=plan.name,
        source=plan.source,
        notes=plan.notes,
        device_name=plan.device_name,
        num_sms=plan.num_sms,
        world_size=plan.world_size,
        gap_ns=plan.gap_ns,
    )
    encode = msgspec.json.Encoder().encode
    resources = {op.resource: _Resource(op.resource.rank, op.resource.stream) for op in plan.ops}
    try:
        lines = [
            encode(
                _Op(
                    id=op.id,
                    name=op.name,
                    duration_ns=op.duration_ns,
                    resource=resources[op.resource],
                    kind=op.kind,
                    after=op.after,
                    lags_ns=op.lags_ns,
                    num_sms=op.num_sms,
                    num_kernels=op.num_kernels,
                    phase=op.phase,
                    layer=op.layer,
                    micro_batch=op.micro_batch,
                )
            )
            for op in plan.ops
        ]
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
        version = msgspec.json.decode(text, type=_Head).schema
        if version != SCHEMA:
            raise PlanError(
                f"this plan's schema is {version!r}, and this weftrace reads {SCHEMA!r}. "
                "Read it with the weftrace that wrote it, or write it again."
            )
        raw = msgspec.json.decode(text, type=_Plan)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise PlanError(f"not a {SCHEMA} document: {error}") from error
    resources = {r: Resource(rank=r.rank, stream=r.stream) for r in {op.resource for op in raw.ops}}
    return Plan(
        name=raw.name,
        source=raw.source,
        notes=raw.notes,
        device_name=raw.device_name,
        num_sms=raw.num_sms,
        world_size=raw.world_size,
        gap_ns=raw.gap_ns,
        ops=tuple(
            Op(
                id=op.id,
                name=op.name,
                duration_ns=op.duration_ns,
                resource=resources[op.resource],
                kind=cast(Kind, op.kind),  # `check` names a kind that weftrace does not know
                after=op.after,
                lags_ns=op.lags_ns,
                num_sms=op.num_sms,
                num_kernels=op.num_kernels,
                phase=op.phase,
                layer=op.layer,
                micro_batch=op.micro_batch,
            )
            for op in raw.ops
        ),
    )
