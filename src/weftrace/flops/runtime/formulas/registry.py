"""Which formula counts an operator, and what of a call the formula may look at.

A formula is a function from `Call` to `Cost`. It is asked once for each signature: the operator with the shapes and
dtypes of its tensors (and, where the formula says so, its other arguments or values). Counting a call is then a lookup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.errors import WeftraceError

Operator = OpOverload | HigherOrderOperator
Formula = Callable[["Call"], Cost]


class Key(Enum):
    """What tells two calls of an operator apart."""

    NAME = auto()  # nothing: every call costs the same (views, which cost nothing)
    SHAPES = auto()  # shapes and dtypes of input and output tensors
    DENSE = auto()  # those while every tensor is dense and nothing is given by keyword; else as VALUES
    ARGUMENTS = auto()  # those, and every other argument
    VALUES = auto()  # the values of tensors too: the formula is asked at each call


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula and what tells two calls apart for it."""

    formula: Formula
    key: Key = Key.SHAPES


@dataclass(slots=True)
class Call:
    """One call of an operator, as a formula sees it. Lives as long as the formula runs; keep no tensor of it."""

    op: Operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument of that name in the operator's schema, wherever it was given; its default where it was not."""
        if name in self.kwargs:
            return self.kwargs[name]
        schema = getattr(self.op, "_schema", None)
        if schema is not None:
            for index, argument in enumerate(schema.arguments):
                if argument.name == name:
                    if index < len(self.args) and not argument.kwarg_only:
                        return self.args[index]
                    return argument.default_value if argument.has_default_value() else default
        return default

    def inputs(self) -> Iterator[torch.Tensor]:
        """Every tensor among the arguments, those in lists too; what `out=` names is written, not read."""
        yield from tensors_in(self.args)
        yield from tensors_in(value for name, value in self.kwargs.items() if name != "out")

    def outputs(self) -> Iterator[torch.Tensor]:
        """Every tensor of the result."""
        yield from tensors_in((self.out,))

    @property
    def read_bytes(self) -> int:
        """Bytes of every input tensor, each read once. A tensor that `expand` repeats is read once."""
        return sum(storage_bytes(tensor) for tensor in self.inputs())

    @property
    def written_bytes(self) -> int:
        """Bytes of every output tensor."""
        return sum(storage_bytes(tensor) for tensor in self.outputs())


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested lists, tuples and dictionaries, in order."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)
        elif isinstance(value, dict):
            yield from tensors_in(value.values())


def storage_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's distinct elements: dimensions of stride 0 count once; values and indices if sparse."""
    if tensor.layout is not torch.strided:
        return sparse_bytes(tensor)
    if tensor.is_nested:
        return tensor.numel() * tensor.element_size()
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or not size)
    return elements * tensor.element_size()


def sparse_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the values and indices of a sparse tensor; 0 where its layout hides them."""
    parts: list[torch.Tensor] = []
    if tensor.layout is torch.sparse_coo:
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.is_mkldnn:
        parts = [tensor]
    return sum(part.numel() * part.element_size() for part in parts)


def shape_of(tensor: torch.Tensor) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
    """The shape of a tensor; of a nested one, which has none, the shapes of those in it."""
    if tensor.is_nested and tensor.layout is torch.strided:
        return tuple(tuple(sizes) for sizes in tensor._nested_tensor_size().tolist())
    return tuple(tensor.shape)


_DTYPES = {
    torch.float64: "fp64",
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
    torch.float8_e4m3fn: "fp8",
    torch.float8_e5m2: "fp8",
    torch.float8_e4m3fnuz: "fp8",
    torch.float8_e5m2fnuz: "fp8",
    torch.int8: "int8",
    torch.uint8: "int8",
}
if hasattr(torch, "float4_e2m1fn_x2"):
    _DTYPES[torch.float4_e2m1fn_x2] = "fp4"


def dtype_name(dtype: torch.dtype) -> str:
    """weftrace's name of a dtype: one of `weftrace.facts.DTYPES`, or torch's ("complex64", "int64")."""
    return _DTYPES.get(dtype) or str(dtype).removeprefix("torch.")


def matrix_cost(
    call: Call,
    flops: int,
    *,
    kind: Kind = Kind.MATMUL,
    full_flops: int | None = None,
    executed_flops: int | None = None,
    vector_flops: int = 0,
    dtype: torch.dtype | None = None,
    read_bytes: int | None = None,
    written_bytes: int | None = None,
    status: Status = Status.EXACT,
    note: str = "",
) -> Cost:
    """A `Cost` of matrix work: what is not given follows from flops and from the call's tensors."""
    if dtype is None:
        dtype = next((tensor.dtype for tensor in call.inputs()), torch.float32)
    return Cost(
        flops=int(flops),
        full_flops=int(flops if full_flops is None else full_flops),
        executed_flops=int(flops if executed_flops is None else executed_flops),
        vector_flops=int(vector_flops),
        read_bytes=call.read_bytes if read_bytes is None else int(read_bytes),
        written_bytes=call.written_bytes if written_bytes is None else int(written_bytes),
        dtype=dtype_name(dtype),
        kind=kind,
        status=status,
        note=note,
    )


def vector_cost(
    call: Call, vector_flops: int, *, kind: Kind = Kind.VECTOR, status: Status = Status.EXACT, note: str = ""
) -> Cost:
    """A `Cost` of work off the matrix units (kind MOVE: bytes alone)."""
    dtype = next((tensor.dtype for tensor in (*call.outputs(), *call.inputs())), torch.float32)
    return Cost(
        vector_flops=int(vector_flops),
        read_bytes=call.read_bytes,
        written_bytes=call.written_bytes,
        dtype=dtype_name(dtype),
        kind=kind,
        status=status,
        note=note,
    )


RULES: dict[Operator, Rule] = {}
WHOLE_RULES: dict[str, Rule] = {}  # by name, as `whole_rule` has it
_BY_NAME: dict[str, Rule] = {}  # operators registered by name, which may be defined later


def operator(name: str) -> Operator | None:
    """The operator of torch's name ("aten::mm", "aten.addmm.default"), None where this torch has none."""
    namespace, _, rest = name.replace("::", ".", 1).partition(".")
    packet_name, _, overload = rest.partition(".")
    try:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
    except AttributeError:
        return None
    if not isinstance(packet, OpOverloadPacket):
        return packet if isinstance(packet, (OpOverload, HigherOrderOperator)) else None
    wanted = overload or "default"
    return getattr(packet, wanted) if wanted in packet.overloads() else None


def overloads(name: str) -> tuple[OpOverload, ...]:
    """Every overload of an operator ("aten::add": Tensor, Scalar, out ...); empty where this torch does not have it."""
    namespace, _, packet_name = name.partition("::")
    try:
        packet = getattr(getattr(torch.ops, namespace), packet_name)
    except AttributeError:
        return ()
    if not isinstance(packet, OpOverloadPacket):
        return ()
    return tuple(getattr(packet, overload) for overload in packet.overloads())


def rule(*names: str, key: Key = Key.SHAPES) -> Callable[[Formula], Formula]:
    """Register one formula for every overload of the named operators ("aten::mm"). Those that torch lacks are waited
    for: parts of torch that are imported later define operators of their own.

    A name with an overload, "aten::mm.out", means that overload alone. Used by weftrace's own formulas, once an
    operator.
    """

    def register(formula: Formula) -> Formula:
        for name in names:
            ops: tuple[Operator, ...] = overloads(name) if "." not in name else tuple(filter(None, (operator(name),)))
            if not ops:
                _BY_NAME[name] = Rule(formula, key)
            for op in ops:
                assert op not in RULES, f"{op} has a formula: {RULES[op].formula.__qualname__}"
                RULES[op] = Rule(formula, key)
        return formula

    return register


def whole_rule(name: str) -> Callable[[Formula], Formula]:
    """Register a formula for an operator that torch makes of others, and that comes whole for nested tensors alone."""

    def register(formula: Formula) -> Formula:
        WHOLE_RULES[name] = Rule(formula)
        return formula

    return register


def set_rule(op: OpOverload | OpOverloadPacket | HigherOrderOperator | str, entry: Rule) -> None:
    """The rule of every overload of a packet or of a name ("mylib::attention"), or of one overload, from now on.

    An operator that does not exist yet may be named. Raises `WeftraceError` where op is not an operator.
    """
    if isinstance(op, str):
        if "::" not in op:
            raise WeftraceError(f"register_formula: {op!r} is not an operator's name; write it as 'library::name'")
        _BY_NAME[op] = entry
        targets: tuple[Operator, ...] = overloads(op) if "." not in op else tuple(filter(None, (operator(op),)))
    elif isinstance(op, OpOverloadPacket):
        targets = tuple(getattr(op, overload) for overload in op.overloads())
    elif isinstance(op, (OpOverload, HigherOrderOperator)):
        targets = (op,)
    else:
        raise WeftraceError(f"register_formula: {op!r} is not a torch operator, as torch.ops.mylib.name is")
    RULES.update(dict.fromkeys(targets, entry))


def rule_of(op: Operator) -> Rule | None:
    """The rule of an operator: weftrace's or a user's, by name where it was registered before the operator existed."""
    found = RULES.get(op)
    if found is None and isinstance(op, OpOverload) and _BY_NAME:
        name = op._schema.name
        found = _BY_NAME.get(name) or _BY_NAME.get(f"{name}.{op._schema.overload_name or 'default'}")
        if found is not None:
            RULES[op] = found
    return found
