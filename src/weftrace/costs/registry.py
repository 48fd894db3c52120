"""Which formula counts an operator, and what of a call the formula may look at.

A formula is a function from `Call` to `Cost`, registered by the name of its operator. It asks tensors only what
`TensorLike` answers, so it counts a call that runs (`weftrace.flops` hands it torch's tensors) and one that a trace
recorded (`weftrace.costs.traced_call`) alike. What a call cannot tell, the formula says in the status of its cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.tensors import TensorLike, storage_bytes, tensors_in

Formula = Callable[["Call"], Cost]


class NotRecorded(Exception):
    """A formula asks what was not recorded of a call: the sentence says what."""


class OutputUnknown(NotRecorded):
    """A formula asks for the result of a call of which the inputs alone are known."""


class Key(Enum):
    """What tells two calls of an operator apart."""

    NAME = auto()  # nothing: every call costs the same (views, which cost nothing)
    SHAPES = auto()  # shapes and dtypes of input and output tensors
    DENSE = auto()  # those while every tensor is dense and nothing is given by keyword; else as VALUES
    ARGUMENTS = auto()  # those, and every other argument
    VALUES = auto()  # the values of tensors too: the formula is asked at each call; an upper bound where none are known


@dataclass(frozen=True, slots=True)
class Rule:
    """A formula and what tells two calls apart for it."""

    formula: Formula
    key: Key = Key.SHAPES


class Call:
    """One call of an operator, as a formula sees it. Lives as long as the formula runs; keep no tensor of it.

    args, kwargs: as they were given. out: the result; reading it raises `OutputUnknown` where it was not recorded.
    """

    __slots__ = ("args", "kwargs")
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def name(self) -> str:
        """The operator's, without its overload: "aten::mm"."""
        raise NotImplementedError

    @property
    def out(self) -> Any:
        raise NotImplementedError

    def arg(self, name: str, default: Any = None) -> Any:
        """The argument of that name, wherever it was given; its default where it was not."""
        raise NotImplementedError

    def written_arguments(self) -> Iterator[Any]:
        """The arguments that the operator writes, by its schema."""
        return (value for _, value, written in self.named_arguments() if written)

    def named_arguments(self) -> Iterator[tuple[str, Any, bool]]:
        """(name, value, whether the operator writes it) of each argument of its schema; none where that is unknown."""
        raise NotImplementedError

    def integers(self, tensor: Any) -> list[int] | None:
        """The values of a small tensor of integers, lengths say; None where they are not to be read."""
        return None

    def num_above(self, tensor: Any, limit: float, shape: Sequence[int]) -> int | None:
        """How many elements of a tensor, repeated to a shape, are True or not below the limit; None if not read."""
        return None

    def inputs(self) -> Iterator[TensorLike]:
        """Every tensor among the arguments, those in lists too; what `out=` names is written, not read."""
        yield from tensors_in(self.args)
        yield from tensors_in(value for name, value in self.kwargs.items() if name != "out")

    def outputs(self) -> Iterator[TensorLike]:
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


_DTYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "bfloat16": "bf16",
    "float16": "fp16",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2fnuz": "fp8",
    "int8": "int8",
    "uint8": "int8",
    "float4_e2m1fn_x2": "fp4",
}


def dtype_name(dtype: object) -> str:
    """weftrace's name of a dtype: one of `weftrace.facts.DTYPES`, or torch's ("complex64", "int64").

    dtype: torch's own, `weftrace.costs.tensors.DType`, or torch's name of it.
    """
    name = str(dtype).removeprefix("torch.")
    return _DTYPES.get(name, name)


def matrix_cost(
    call: Call,
    flops: int,
    *,
    kind: Kind = Kind.MATMUL,
    full_flops: int | None = None,
    executed_flops: int | None = None,
    vector_flops: int = 0,
    dtype: object = None,
    read_bytes: int | None = None,
    written_bytes: int | None = None,
    status: Status = Status.EXACT,
    note: str = "",
) -> Cost:
    """A `Cost` of matrix work: what is not given follows from flops and from the call's tensors."""
    if dtype is None:
        dtype = next((tensor.dtype for tensor in call.inputs()), "float32")
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
    dtype = next((tensor.dtype for tensor in (*call.outputs(), *call.inputs())), "float32")
    return Cost(
        vector_flops=int(vector_flops),
        read_bytes=call.read_bytes,
        written_bytes=call.written_bytes,
        dtype=dtype_name(dtype),
        kind=kind,
        status=status,
        note=note,
    )


RULES: dict[str, Rule] = {}  # weftrace's own, by the operator's name
WHOLE_RULES: dict[str, Rule] = {}  # by name, as `whole_rule` has it


def rule(*names: str, key: Key = Key.SHAPES) -> Callable[[Formula], Formula]:
    """Register one formula for every overload of the named operators ("aten::mm"), whether or not a torch has them.

    A name with an overload, "aten::mm.out", means that overload alone. Used by weftrace's own formulas, once an
    operator.
    """

    def register(formula: Formula) -> Formula:
        for name in names:
            assert name not in RULES, f"{name} has a formula: {RULES[name].formula.__qualname__}"
            RULES[name] = Rule(formula, key)
        return formula

    return register


def whole_rule(name: str) -> Callable[[Formula], Formula]:
    """Register a formula for an operator that torch makes of others, and that comes whole for nested tensors alone."""

    def register(formula: Formula) -> Formula:
        WHOLE_RULES[name] = Rule(formula)
        return formula

    return register


def rule_named(name: str, overload: str = "default") -> Rule | None:
    """weftrace's rule of an operator, or of one of its overloads; `weftrace.costs.formulas` fills the table."""
    return RULES.get(name) or RULES.get(f"{name}.{overload or 'default'}")
