"""Counting: every operator that reaches the dispatcher, once, where it ran.

The mode looks at each call after torch has run it, makes a key of its shapes and dtypes, and adds one to the key's
count in the frame of the module that is running. A formula is asked when a key is new. No tensor is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import is_grad_enabled
from torch._C._dynamo.eval_frame import _FrameAction, _FrameExecStrategy, set_code_exec_strategy
from torch._ops import HigherOrderOperator, OpOverload
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass_type

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.registry import Key
from weftrace.costs.tensors import tensors_in
from weftrace.flops.runtime.count.keys import all_dense, key_of_any, result_of, sized, tensors_of
from weftrace.flops.runtime.count.signatures import Signatures, find_rule
from weftrace.flops.runtime.count.tracker import LEAF, Tracker, current_node
from weftrace.flops.runtime.formulas.live_call import LiveCall, Operator
from weftrace.flops.runtime.formulas.operators import rule_of

Tensor = torch.Tensor
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_CONTROL_FLOW = frozenset({"cond", "while_loop", "scan", "map_impl"})


# What to do with a call of an operator. Plain integers: this is asked of every operator that runs.
_SHAPES = 0  # run it, and count it by shapes
_DENSE = 1  # by shapes while its tensors are dense, else by values
_ARGUMENTS = 2
_VALUES = 3
_PASS = 4  # views and questions to a tensor: no work
_ENTER = 5  # operators that take functions: what those do is counted
_DECOMPOSE = 6  # made of others, which come here in turn

_HOW = {
    Key.NAME: _PASS,
    Key.SHAPES: _SHAPES,
    Key.DENSE: _DENSE,
    Key.ARGUMENTS: _ARGUMENTS,
    Key.VALUES: _VALUES,
}
_Known = tuple[int, Callable[..., Any], Callable[[Any], Any], Callable[[Any], Any] | None, dict[Any, int]]


class Counter(TorchDispatchMode):
    """The dispatch mode. `pause` lets operators pass uncounted. Views and questions to tensors always do."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # not in torch's way: see set_code_exec_strategy below

    supports_higher_order_operators = True

    def __init__(self, tracker: Tracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.tracker = tracker
        self.signatures = Signatures()
        self.uncounted = tracker.uncounted
        self.paused = False
        self._careful = False  # paused, or inside an operator on DTensors
        # id of an operator (hashing one is a Python call) -> what to do, what to call, what takes the tensors from its
        # arguments, what sizes its result where that belongs to the key, and key -> number of a signature
        self._known: dict[int, _Known] = {}
        self._learned: list[Operator] = []  # keeps operators, and so their ids, alive
        self._sharded = 0  # operators on DTensors that are being turned into local ones
        self._seen = False  # the operator that comes next is one of them, and was counted
        self._outer_fake: Any = None
        self._deferred: dict[type, bool] = {}
        self._last_node = -1  # number of the node whose operators were counted last, and where
        self._last_counts: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # The hot path: every microsecond here is one on every operator of the program.
        if types and self._defers(types):
            return self._on_wrapped(func, types, args, kwargs or {})
        how, call, tensors, result, numbers = self._known.get(id(func)) or self._learn(func)
        if how == _PASS:
            return call(*args, **kwargs) if kwargs else call(*args)
        if how > _PASS:
            return self._run_inside(how, func, args, kwargs or {})
        out = call(*args, **kwargs) if kwargs else call(*args)
        try:
            node = current_node()
            if self._careful:
                if self.paused or self._only_fake():
                    return out
                counts = self._place(node, "local_counts")
            elif node is None:
                counts = self.tracker.counts
            elif node._sequence_nr() == self._last_node and not is_grad_enabled() and not self.tracker.again:
                counts = self._last_counts
            else:
                counts = self._backward_counts(node)
            if how == _SHAPES or (how == _DENSE and not kwargs and all_dense(args)):
                try:
                    key: Any = tuple(map(sized, tensors(args)))
                    if result is not None:
                        key = (key, result(out))
                except (AttributeError, IndexError, TypeError, RuntimeError):
                    key = key_of_any(args, kwargs, out)  # no tensor where the schema has one; a list; none has a shape
                number = numbers.get(key, -1)
                if key is None:
                    number = self.signatures.of(LiveCall(func, args, kwargs or {}, out), by_value=True)
                elif number < 0:
                    number = numbers[key] = self.signatures.add(LiveCall(func, args, kwargs or {}, out))
            else:
                by_value = how in (_DENSE, _VALUES)
                number = self.signatures.of(LiveCall(func, args, kwargs or {}, out), by_value=by_value)
            try:
                counts[number] += 1
            except KeyError:
                counts[number] = 1
        except Exception as error:  # whatever fails here is weftrace's own, and must not stop the program
            self._lose(func, error, "local_counts" if self._careful else "counts")
        return out

    def add(self, name: str, cost: Cost, calls: int = 1) -> None:
        """Count work that no operator shows (a Triton kernel launched by hand), where the program is now."""
        self._add(self.signatures.stated(name, cost), "counts", calls)

    def pause(self, paused: bool) -> None:
        """Let operators pass uncounted, or count again."""
        self.paused = self._careful = paused

    def _learn(self, func: Any) -> _Known:
        try:
            entry = _known_of(func)
        except Exception as error:  # an operator that weftrace cannot look into: by all of its arguments
            self.uncounted.note(f"what is special about {func}", error)
            entry = _ARGUMENTS, func, tensors_of(None), None, {}
        self._known[id(func)] = entry
        self._learned.append(func)
        return entry

    def _run_inside(self, how: int, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Run an operator that is made of others, with the mode on."""
        if how == _ENTER:
            return func(*(self._entering(arg) for arg in args), **kwargs)
        if not any(tensor.is_nested for tensor in tensors_in(args)):
            with self:
                # torch's own kernel: `decompose` prefers a Python one, which calls other operators
                return func._op_dk(_COMPOSITE, *args, **kwargs)
        out = func(*args, **kwargs)  # nested tensors have a kernel of their own for it
        if not self.paused:
            self._count_apart(LiveCall(func, args, kwargs, out), "counts")
        return out

    def _count_apart(self, call: LiveCall, which: str, *, by_value: bool = False) -> None:
        """Count a call that does not come by the hot path."""
        try:
            self._add(self.signatures.of(call, by_value=by_value), which)
        except Exception as error:
            self._lose(call.op, error, which)

    def _lose(self, func: Any, error: Exception, which: str) -> None:
        """Counting a call failed: it stands in the report as an operator without a formula, and in a note."""
        why = self.uncounted.note(f"a call of {func}", error)
        try:
            cost = Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN, note=f"not counted: {why}")
            self._add(self.signatures.stated(str(func), cost), which)
        except Exception as second:  # then the note alone tells of it
            self.uncounted.note(f"a call of {func}, even by name,", second)

    def _backward_counts(self, node: Any) -> dict[int, int]:
        tracker = self.tracker
        frame, phase = tracker.backward_place(node)
        counts = frame.counts[phase]
        number = node._sequence_nr()
        if tracker.again or is_grad_enabled() or number == LEAF:  # parameters' nodes share one number
            number = -1
        self._last_node, self._last_counts = number, counts
        return counts

    def _add(self, number: int, which: str, calls: int = 1) -> None:
        """Count calls of a signature in one table of the frame where the program is now."""
        counts = self._place(current_node(), which)
        counts[number] = counts.get(number, 0) + calls

    def _place(self, node: Any, which: str) -> dict[int, int]:
        tracker = self.tracker
        frame, phase = (tracker.frame, tracker.phase) if node is None else tracker.backward_place(node)
        counts: dict[int, int] = getattr(frame, which)[phase]
        return counts

    # -- tensors that are not plain

    def _defers(self, types: Any) -> bool:
        """Whether a tensor subclass first turns the operator into those on its inner tensors, which come back here."""
        for type_ in types:
            deferred = self._deferred.get(type_)
            if deferred is None:
                deferred = self._deferred[type_] = is_traceable_wrapper_subclass_type(type_)
            if deferred:
                return True
        return False

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
        how = (self._known.get(id(func)) or self._learn(func))[0]
        if not self.paused and how != _PASS:
            self._count_apart(LiveCall(func, args, kwargs, out), "global_counts", by_value=how == _VALUES)
        return out

    def _only_fake(self) -> bool:
        """Whether torch only works out shapes of an operator on DTensors now, with fake tensors of global size."""
        return self._sharded > 0 and _fake_mode() is not self._outer_fake

    def _entering(self, value: Any) -> Any:
        """A body of cond or while_loop, to be run with the mode on; anything else as it is."""
        if isinstance(value, (Tensor, type)) or not callable(value):
            return value

        def body(*args: Any, **kwargs: Any) -> Any:
            with self:
                return value(*args, **kwargs)

        return body


# torch.compile is kept from looking into the mode. (Torch's own way, a wrapper, costs a tenth of a small operator.)
set_code_exec_strategy(Counter.__torch_dispatch__.__code__, _FrameExecStrategy(_FrameAction.SKIP, _FrameAction.SKIP))


def _known_of(func: Any) -> _Known:
    """What to do with the calls of an operator that is met for the first time."""
    if getattr(func, "namespace", "") == "prim":  # an error here would end the process: torch asks from C++
        how = _PASS
    elif rule_of(func) is None and isinstance(func, OpOverload) and _is_composite(func):
        how = _DECOMPOSE
    elif isinstance(func, HigherOrderOperator) and func.name() in _CONTROL_FLOW:
        how = _ENTER
    elif (rule := find_rule(func)) is not None:
        how = _HOW[rule.key]
    else:
        how = _SHAPES if isinstance(func, OpOverload) else _ARGUMENTS
    call = func._op if type(func) is OpOverload else func  # an OpOverload's own call is one more Python function
    return how, call, tensors_of(func), result_of(func), {}


def _fake_mode() -> Any:
    return torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE)


def _is_composite(func: OpOverload) -> bool:
    return func._can_decompose() and torch._C._dispatch_has_kernel_for_dispatch_key(
        func.name(), "CompositeImplicitAutograd"
    )
