"""Operators of other libraries (flash_attn, vllm, sgl_kernel ...): which argument is what, from rule files in TOML.

A trace does not record what a custom operator does. `custom_ops.toml` says it for those known; a user's file adds
others or replaces these. What values decide (lengths of sequences, routing) is not recorded: the cost then is an upper
bound or an estimate, and says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from weftrace.costs.cost import Cost, Status
from weftrace.costs.operators import Overload, overload_of
from weftrace.costs.outputs.dtypes import dtype_of_code
from weftrace.costs.outputs.elementwise import like
from weftrace.costs.registry import RULES, Call, Key, NotRecorded, Rule, matrix_cost, vector_cost
from weftrace.costs.tensors import DType, Tensor
from weftrace.costs.traced_call import TracedCall
from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables

BUILT_IN = Path(__file__).with_name("custom_ops.toml")
#: Namespaces of torch itself.
_TORCHS = ("aten::", "autograd::", "c10d::", "c10::", "prim::", "prims::", "profiler::", "torch")
_ROUTED = "every row is taken to go through a group's weights"
_EXPERTS = "each token is taken to go through as many experts as topk_ids has columns; every expert's weights are read"


class _Entry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    match: str
    kind: Literal["gemm", "grouped gemm", "experts", "attention", "attention backward", "bytes"]
    arguments: str
    source: str
    returns: str = ""
    packed: int = 1
    counted: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomOp:
    """Operators that `match` finds, what their arguments are, and what they do.

    kind: the formula. overload: the arguments. returns: of which arguments the results have shape and dtype, where none
    is written. packed: numbers that lie in one element of a. counted: False where it only calls operators that are
    counted themselves, so that its own cost is told where those were not recorded. note: added to the cost's.
    """

    name: str
    match: re.Pattern[str]
    kind: str
    overload: Overload
    returns: tuple[str, ...]
    packed: int
    counted: bool
    note: str

    def rule(self) -> Rule:
        formula = _FORMULAS[self.kind]

        def noted(call: Call) -> Cost:
            assert isinstance(call, TracedCall), call
            return self._noted(formula(self, call))

        return Rule(noted, Key.ARGUMENTS)

    def _noted(self, cost: Cost) -> Cost:
        if not self.note:
            return cost
        status = Status.ESTIMATE if cost.status is Status.EXACT else cost.status
        return replace(cost, status=status, note="; ".join(filter(None, (cost.note, self.note))))

    def result(self, call: TracedCall) -> Any:
        """The arguments that it only writes, those that it writes in place, else what its kind or `returns` tells."""
        if "out" in call.kwargs:
            return call.kwargs["out"]
        written = [value for _, value, writes in call.named_arguments() if writes and value is not None]
        if written:
            return tuple(written)
        if self.returns:
            return tuple(like(call.arg(name)) for name in self.returns)
        if self.kind in ("gemm", "grouped gemm"):
            a = call.arg("a")
            dtype = dtype_of_code(call.arg("out_dtype", -1))
            if dtype is None and a.element_size() == 1:
                call.notes.append("results taken to be bf16: not recorded")
                dtype = DType("bfloat16")
            return Tensor((*a.shape[:-1], _columns(self, call)), dtype or a.dtype)
        if self.kind == "attention":
            query, value = call.arg("query"), call.arg("value")
            return Tensor((*query.shape[:-1], value.shape[-1]), query.dtype)
        raise NotRecorded(f"the shapes of the results of {call.name}")


def load_custom_ops(*paths: str | os.PathLike[str]) -> tuple[CustomOp, ...]:
    """weftrace's own rules, then those of `paths` (TOML files); a later file's are tried first, and one with a known
    name replaces that.

    Raises `RulesError`, naming file and rule, where a file cannot be read, is not TOML, or states a rule wrongly.
    """
    found = _built_in()
    for path in paths:
        new = _read(Path(path))
        names = {op.name for op in new}
        found = (*new, *(op for op in found if op.name not in names))
    return found


def custom_op(name: str, rules: tuple[CustomOp, ...] | None = None) -> CustomOp | None:
    """The first rule that an operator's name fits; None where none does. rules: weftrace's own where None."""
    if rules is None and not _is_of_a_library(name):
        return None
    return next((op for op in (_built_in() if rules is None else rules) if op.match.search(name)), None)


def _is_of_a_library(name: str) -> bool:
    """Whether rules of ours are about such names; where a file has none, none need be read and compiled."""
    return name.startswith("_") or ("::" in name and not name.startswith(_TORCHS))


@lru_cache(maxsize=1)
def _built_in() -> tuple[CustomOp, ...]:
    return _read(BUILT_IN)


def _read(path: Path) -> tuple[CustomOp, ...]:
    found = []
    for number, table in enumerate(read_tables(path, "operator", what="operator rules", error=RulesError), 1):
        where = f"{path}: operator {table.get('name', number)!r}"
        try:
            entry = msgspec.convert(table, _Entry)
            match = re.compile(entry.match)
        except (msgspec.ValidationError, re.error) as error:
            raise RulesError(f"{where}: {error}") from None
        overload = overload_of(entry.arguments.split())
        names = {argument.name for argument in overload.arguments}
        missing = sorted((_NEEDED.get(entry.kind, set()) | set(entry.returns.split())) - names)
        if missing:
            raise RulesError(f"{where}: kind {entry.kind!r} needs an argument called {missing[0]!r}")
        found.append(
            CustomOp(
                name=entry.name,
                match=match,
                kind=entry.kind,
                overload=overload,
                returns=tuple(entry.returns.split()),
                packed=entry.packed,
                counted=entry.counted,
                note=entry.note,
            )
        )
    return tuple(found)


_NEEDED = {
    "gemm": {"a", "b"},
    "grouped gemm": {"a", "b"},
    "experts": {"a", "b", "b2", "topk_ids"},
    "attention": {"query", "key", "value"},
    "attention backward": {"query", "key", "value"},
}


def _columns(op: CustomOp, call: TracedCall) -> int:
    """n of [.., k] x [k, n] or [n, k]: of the result, of an argument n, else of b, whichever way it lies."""
    if call.arg("n") is not None:
        return int(call.arg("n"))
    out = call.kwargs.get("out")
    if isinstance(out, Tensor) and out.ndim:
        return int(out.shape[-1])
    a, b = call.arg("a"), call.arg("b")
    if b.ndim < 2 or a.shape[-1] not in b.shape[-2:]:
        raise NotRecorded(f"the width of the result of {call.name}")
    if a.ndim == 2 < b.ndim and a.shape[-1] == b.shape[-1]:  # rows of several dimensions, given second
        return int(b.numel() // max(a.shape[-1], 1))
    return int(b.shape[-2] * b.shape[-1] // max(a.shape[-1], 1))


def _gemm(op: CustomOp, call: TracedCall) -> Cost:
    a = call.arg("a")
    flops = 2 * op.packed * a.numel() * _columns(op, call)
    return matrix_cost(call, flops, vector_flops=_added(op, call), dtype=_compute(op, a))


def _grouped(op: CustomOp, call: TracedCall) -> Cost:
    a = call.arg("a")
    flops = 2 * op.packed * a.numel() * _columns(op, call)
    return matrix_cost(call, flops, dtype=_compute(op, a), status=Status.ESTIMATE, note=_ROUTED)


def _experts(op: CustomOp, call: TracedCall) -> Cost:
    """A gated two-layer network: tokens [T, H], b [E, 2 I, H], b2 [E, H, I], topk_ids [T, k]."""
    first, second, ids = call.arg("b"), call.arg("b2"), call.arg("topk_ids")
    each = (first.numel() + second.numel()) // max(first.shape[0], 1)
    flops = 2 * op.packed * ids.numel() * each
    return matrix_cost(call, flops, dtype=_compute(op, first), status=Status.ESTIMATE, note=_EXPERTS)


def _added(op: CustomOp, call: TracedCall) -> int:
    rows = call.arg("a").numel() // max(call.arg("a").shape[-1], 1)
    return rows * _columns(op, call) if call.arg("bias") is not None else 0


def _compute(op: CustomOp, a: Tensor) -> object:
    return DType("float4_e2m1fn_x2") if op.packed == 2 else a.dtype


def _attention(op: CustomOp, call: TracedCall) -> Cost:
    backward = "_backward" if op.kind == "attention backward" else "_forward"
    return RULES[f"aten::_flash_attention{backward}"].formula(call)


def _bytes(op: CustomOp, call: TracedCall) -> Cost:
    return replace(vector_cost(call, 0), status=Status.ESTIMATE, note="bytes alone: its arithmetic is not counted")


_FORMULAS: dict[str, Callable[[CustomOp, TracedCall], Cost]] = {
    "gemm": _gemm,
    "grouped gemm": _grouped,
    "experts": _experts,
    "attention": _attention,
    "attention backward": _attention,
    "bytes": _bytes,
}
