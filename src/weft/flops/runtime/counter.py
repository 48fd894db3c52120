"""Counting: every operator that reaches the dispatcher, once, where it ran.

The mode looks at each call after torch has run it, makes a key of its shapes and dtypes, and counts the key in the
frame of the module that is running. A formula is asked when a key is new. No tensor is kept.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import is_grad_enabled
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributed.tensor import DTensor
from torch.nn.parameter import Parameter
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type
from torch.utils.flop_counter import flop_registry

import weft.flops.runtime.formulas  # noqa: F401  (fills RULES)
from weft.flops.cost import Cost, Kind, Status
from weft.flops.runtime.formulas.elementwise import fallback_rule
from weft.flops.runtime.registry import (
    Call,
    Key,
    Operator,
    Rule,
    dtype_name,
    matrix_cost,
    rule_of,
    shape_of,
    tensors_in,
)
from weft.flops.runtime.tracker import LEAF, Tracker, current_node

Tensor = torch.Tensor
_DECOMPOSE = object()
_ENTER = object()  # operators that take functions: what those do is counted
_CONTROL_FLOW = frozenset({"cond", "while_loop", "scan", "map_impl"})
_PASS = object()  # questions to a tensor (prim::device), no work
_NAME, _SHAPES, _DENSE = Key.NAME, Key.SHAPES, Key.DENSE
_STRIDED = torch.strided
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_TENSORS = frozenset({Tensor, Parameter, FakeTensor})  # isinstance on a tensor's type costs as much as its shape
_SCALARS = frozenset({int, float, bool, type(None), str, torch.dtype, torch.device, torch.layout, torch.memory_format})


class Signatures:
    """Operators with their shapes, numbered as they come, and the cost of a call of each."""

    def __init__(self) -> None:
        self.number: dict[Any, int] = {}
        self.ops: list[Operator] = []
        self.costs: list[Cost] = []
        self.texts: list[str] = []
        self.failures: dict[str, str] = {}  # operator -> why its formula failed

    def add(self, key: Any, call: Call, text: str | None = None, cost: Cost | None = None) -> int:
        number = self.number[key] = len(self.ops)
        self.ops.append(call.op)
        self.costs.append(self._cost(call) if cost is None else cost)
        self.texts.append(signature_text(call) if text is None else text)
        return number

    def _cost(self, call: Call) -> Cost:
        rule = rule_of(call.op) or _torch_rule(call.op) or fallback_rule(call.op)
        if rule is None:
            return unknown_cost(call, "no formula")
        try:
            return rule.formula(call)  # the mode is off in here: what a formula runs is not counted
        except Exception as error:  # a formula's mistake must not stop the program that is profiled
            self.failures.setdefault(str(call.op), f"{type(error).__name__}: {error}")
            return unknown_cost(call, f"its formula failed: {type(error).__name__}: {error}")


class Counter(TorchDispatchMode):
    """The dispatch mode. `paused` lets operators pass uncounted."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # not in torch's way: see set_code_exec_strategy below

    supports_higher_order_operators = True

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tracker = tracker
        self.signatures = Signatures()
        self.paused = False
        self._careful = False  # paused, or inside an operator on DTensors
        self._numbers = self.signatures.number
        self._kinds: dict[int, Any] = {}  # id of an operator -> Key, or _DECOMPOSE
        self._learned: list[Operator] = []  # keeps them, and so their ids, alive
        self._sharded = 0  # operators on DTensors that are being turned into local ones
        self._seen = False  # the operator that comes next is one of them, and was counted
        self._outer_fake: Any = None
        self._deferred: dict[type, bool] = {}
        self._last: tuple[int, dict[int, int]] = (-1, {})  # a node of the backward, and where its operators count

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # The hot path: every microsecond here is one on every operator of the program.
        if types and self._defers(types):
            return self._on_wrapped(func, types, args, kwargs or {})
        name = id(func)  # hashing an operator is a Python call
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._learn(func)
        if kind is _DECOMPOSE and any(tensor.is_nested for tensor in tensors_in(args)):
            kind = _SHAPES  # nested tensors have a kernel of their own for it
        if kind is _PASS:
            return func(*args, **(kwargs or {}))
        if kind is _ENTER:
            return func(*(self._entering(arg) for arg in args), **(kwargs or {}))
        if kind is _DECOMPOSE:
            with self:
                # torch's own kernel: `decompose` prefers a Python one, which calls other operators
                return func._op_dk(_COMPOSITE, *args, **(kwargs or {}))
        out = func(*args, **kwargs) if kwargs else func(*args)
        node = current_node()
        if self._careful:
            if self.paused or self._only_fake():
                return out
            counts = self._place(node, "local_counts")
        else:
            counts = self.tracker.counts if node is None else self._backward_counts(node)
        if kind is _DENSE:
            kind = _SHAPES if not kwargs and _all_dense(args) else Key.VALUES
        if kind is _NAME:
            key: Any = name
        elif kind is _SHAPES:
            try:
                parts: list[Any] = [name]
                for arg in args:
                    type_ = type(arg)
                    if type_ in _TENSORS:
                        parts.append(arg.shape)
                        parts.append(arg.dtype)
                    elif type_ not in _SCALARS:
                        _add_shapes(parts, arg)
                if kwargs:
                    for arg in kwargs.values():
                        if type(arg) not in _SCALARS:
                            _add_shapes(parts, arg)
                if type(out) in _TENSORS:
                    parts.append(out.shape)
                    parts.append(out.dtype)
                else:
                    _add_shapes(parts, out)
                key = tuple(parts)
            except RuntimeError:  # a nested tensor of the old kind has no sizes of its own
                self._count_slowly(func, args, kwargs or {}, out, Key.VALUES, counts)
                return out
        else:
            self._count_slowly(func, args, kwargs or {}, out, kind, counts)
            return out
        number = self._numbers.get(key)
        if number is None:
            number = self.signatures.add(key, Call(func, args, kwargs or {}, out))
        try:
            counts[number] += 1
        except KeyError:
            counts[number] = 1
        return out

    def add(self, name: str, cost: Cost, calls: int = 1) -> None:
        """Count work that no operator shows (a Triton kernel launched by hand), where the program is now."""
        node = current_node()
        counts = self.tracker.counts if node is None else self._backward_counts(node)
        key = (name, cost)
        number = self.signatures.number.get(key)
        if number is None:
            call = Call(name, (), {}, None)  # type: ignore[arg-type]
            number = self.signatures.add(key, call, text="", cost=cost)
        counts[number] = counts.get(number, 0) + calls

    def _learn(self, func: Any) -> Any:
        rule = rule_of(func)
        kind: Any = Key.SHAPES
        if getattr(func, "namespace", "") == "prim":
            kind = _PASS
        elif rule is not None:
            kind = rule.key
        elif isinstance(func, OpOverload) and func._can_decompose() and _is_composite(func):
            kind = _DECOMPOSE
        elif isinstance(func, HigherOrderOperator) and func.name() in _CONTROL_FLOW:
            kind = _ENTER
        elif isinstance(func, HigherOrderOperator) or _torch_rule(func) is not None:
            kind = Key.ARGUMENTS
        elif (fallback := fallback_rule(func)) is not None:
            kind = fallback.key
        self._kinds[id(func)] = kind
        self._learned.append(func)
        return kind

    def _backward_counts(self, node: Any) -> dict[int, int]:
        tracker = self.tracker
        if tracker.again or is_grad_enabled():
            frame, phase = tracker.backward_place(node)
            return frame.counts[phase]
        number = node._sequence_nr()
        if number != self._last[0] or number == LEAF:  # parameters' nodes share one number
            frame, phase = tracker.backward_place(node)
            self._last = (number, frame.counts[phase])
        return self._last[1]

    def _count_slowly(
        self, func: Any, args: Any, kwargs: dict[str, Any], out: Any, kind: Key, counts: dict[int, int]
    ) -> None:
        call = Call(func, args, kwargs, out)
        signatures = self.signatures
        key: Any = (func, _described(args), _described(tuple(kwargs.items())), _described(out))
        if kind is Key.VALUES:
            cost = signatures._cost(call)
            key = (key, cost)
            number = signatures.number.get(key)
            if number is None:
                number = signatures.add(key, call, cost=cost)
        else:
            number = signatures.number.get(key)
            if number is None:
                number = signatures.add(key, call)
        counts[number] = counts.get(number, 0) + 1

    def _on_wrapped(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Let a subclass turn the operator into inner ones; a DTensor's is first counted on its global shapes."""
        if self._seen or DTensor not in types:
            self._seen = False
            return NotImplemented
        outer = self._sharded, self._careful, self._outer_fake
        self._seen, self._careful, self._outer_fake = True, True, _fake_mode()
        self._sharded += 1
        try:
            with self:
                out = func(*args, **kwargs)
        finally:
            self._seen = False
            self._sharded, self._careful, self._outer_fake = outer
        if not self.paused:
            node = current_node()
            kind = self._kinds.get(id(func)) or self._learn(func)
            kind = Key.ARGUMENTS if kind is _DECOMPOSE else kind
            self._count_slowly(func, args, kwargs, out, kind, self._place(node, "global_counts"))
        return out

    def _place(self, node: Any, which: str) -> dict[int, int]:
        tracker = self.tracker
        frame, phase = (tracker.frame, tracker.phase) if node is None else tracker.backward_place(node)
        counts: dict[int, int] = getattr(frame, which)[phase]
        return counts

    def _only_fake(self) -> bool:
        """Whether torch only works out shapes of an operator on DTensors now, with fake tensors of global size."""
        return self._sharded > 0 and _fake_mode() is not self._outer_fake

    def pause(self, paused: bool) -> None:
        """Let operators pass uncounted, or count again."""
        self.paused = self._careful = paused

    def _entering(self, value: Any) -> Any:
        """A body of cond or while_loop, to be run with the mode on; anything else as it is."""
        if isinstance(value, (Tensor, type)) or not callable(value):
            return value

        def body(*args: Any, **kwargs: Any) -> Any:
            with self:
                return value(*args, **kwargs)

        return body

    def _defers(self, types: Any) -> bool:
        """Whether a tensor subclass first turns the operator into those on its inner tensors, which come back here."""
        for type_ in types:
            deferred = self._deferred.get(type_)
            if deferred is None:
                deferred = self._deferred[type_] = is_traceable_wrapper_subclass_type(type_)
            if deferred:
                return True
        return False


# torch.compile is kept from looking into the mode. (Torch's own way, a wrapper, costs a tenth of a small operator.)
set_code_exec_strategy(Counter.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


def _all_dense(args: Any) -> bool:
    for arg in args:  # noqa: SIM110 (a loop: a generator costs as much as the rest of the key)
        if type(arg) in _TENSORS and arg.layout is not _STRIDED:
            return False
    return True


def _add_shapes(parts: list[Any], value: Any) -> None:
    """Append shape and dtype of a tensor, or of those in a list, a tuple or a dictionary."""
    if isinstance(value, Tensor):
        parts.append(value.shape)
        parts.append(value.dtype)
    elif isinstance(value, (list, tuple)):
        parts.append(len(value))
        for item in value:
            _add_shapes(parts, item)
    elif isinstance(value, dict):
        _add_shapes(parts, list(value.values()))


def _described(value: Any) -> Any:
    """A value that stands for an argument in a key: shapes for tensors, the thing itself where it can be hashed."""
    if isinstance(value, Tensor):
        return (shape_of(value), value.dtype, value.layout)
    if isinstance(value, (list, tuple)):
        return tuple(_described(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _described(item)) for name, item in value.items())
    if isinstance(value, torch.ScriptObject):  # packed weights: they cannot be compared, and are not to be kept
        return type(value).__name__
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value


def _is_composite(func: OpOverload) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")


def _torch_rule(op: Operator) -> Any:
    """A formula that someone registered with torch's own counter, for an operator that weft does not know."""
    formula = flop_registry.get(getattr(op, "_overloadpacket", op))
    if formula is None:
        return None

    def counted(call: Call) -> Cost:
        return matrix_cost(
            call, formula(*call.args, **call.kwargs, out_val=call.out), note="formula registered with torch"
        )

    return Rule(counted, Key.ARGUMENTS)


def unknown_cost(call: Call, note: str) -> Cost:
    """The cost of an operator without a formula: its bytes, and its name in the report."""
    dtype = next((tensor.dtype for tensor in call.inputs()), None)
    return Cost(
        read_bytes=call.read_bytes,
        written_bytes=call.written_bytes,
        dtype="" if dtype is None else dtype_name(dtype),
        kind=Kind.UNKNOWN,
        status=Status.UNKNOWN,
        note=note,
    )


def signature_text(call: Call) -> str:
    """Shapes of a call for a person: "[80, 1024] fp32, [1024, 4096] fp32 -> [80, 4096] fp32"."""
    return f"{_shapes((call.args, call.kwargs))} -> {_shapes((call.out,))}"


def _shapes(values: Any, most: int = 6) -> str:
    found = [f"{list(shape_of(tensor))} {dtype_name(tensor.dtype)}" for tensor in tensors_in(values)]
    return ", ".join(found[:most]) + (f", … {len(found) - most} more" if len(found) > most else "")
