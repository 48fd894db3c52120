"""Count a few lines of torch code by themselves, and what they return without being counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn

from weftrace.costs.cost import MATRIX_KINDS, Cost, Kind, Phase, Status
from weftrace.flops.runtime.count.counter import Counter
from weftrace.flops.runtime.count.tracker import Tracker


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """Calls of one operator with one signature in one phase; cost of one call."""

    name: str
    phase: Phase
    calls: int
    signature: str
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What a piece of code cost. ops: in the order in which they were first seen. out: what it returned."""

    ops: tuple[Op, ...]
    out: Any
    failures: dict[str, str]

    def total(self, field: str, phase: Phase = Phase.FORWARD) -> int:
        """The sum of one of `Cost`'s integer fields over a phase."""
        return sum(op.calls * int(getattr(op.cost, field)) for op in self.ops if op.phase is phase)

    def flops(self, phase: Phase = Phase.FORWARD) -> int:
        return self.total("flops", phase)

    def vector_flops(self, phase: Phase = Phase.FORWARD) -> int:
        return self.total("vector_flops", phase)

    @property
    def forward(self) -> int:
        """Model FLOPs of the forward."""
        return self.flops(Phase.FORWARD)

    @property
    def backward(self) -> int:
        """Model FLOPs of the backward."""
        return self.flops(Phase.BACKWARD)

    def names(self, phase: Phase | None = None) -> list[str]:
        return [op.name for op in self.ops if phase is None or op.phase is phase]

    def statuses(self, phase: Phase | None = None) -> set[Status]:
        """Statuses of the operators that did something."""
        return {op.cost.status for op in self.ops if phase in (None, op.phase) and op.cost.kind is not Kind.FREE}

    def unknown(self) -> list[str]:
        return [op.name for op in self.ops if op.cost.status is Status.UNKNOWN]

    def op(self, name: str, phase: Phase | None = None) -> Op:
        """The one operator whose name holds `name`."""
        found = [op for op in self.ops if name in op.name and phase in (None, op.phase)]
        assert len(found) == 1, f"{name}: {[op.name for op in found] or self.names()}"
        return found[0]


def count_op(code: Callable[[], Any], model: nn.Module | None = None) -> Counted:
    """Run `code` under the counter. `code` may call backward itself; its operators then stand in Phase.BACKWARD."""
    tracker = Tracker(model if model is not None else nn.Module())
    with tracker.watch(), Counter(tracker) as counter:
        out = code()
    signatures = counter.signatures
    ops: list[Op] = []
    frames = {id(frame): frame for frame in (*tracker.frames.values(), tracker.outside)}
    for frame in frames.values():
        for phase, counts in frame.counts.items():
            for number, calls in counts.items():
                ops.append(
                    Op(
                        name=str(signatures.ops[number]),
                        phase=phase,
                        calls=calls,
                        signature=signatures.texts[number],
                        cost=signatures.costs[number],
                    )
                )
    return Counted(ops=tuple(ops), out=out, failures=dict(signatures.failures))


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples, lists, dictionaries and of objects that hold `last_hidden_state` and the like."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [tensor for item in value.values() for tensor in tensors(item)]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors(item)]
    return []


def forward_and_backward(make: Callable[[], Any], leaves: list[torch.Tensor]) -> Callable[[], list[torch.Tensor]]:
    """Code that runs `make`, then a backward from ones at every differentiable output; outputs and gradients.

    Leaves that take no gradient are passed over.
    """

    def code() -> list[torch.Tensor]:
        outputs = tensors(make())
        wanted = [leaf for leaf in leaves if leaf.requires_grad]
        differentiable = [out for out in outputs if out.requires_grad]
        grads: list[torch.Tensor] = []
        if differentiable and wanted:
            ones = [torch.ones_like(out) for out in differentiable]
            found = torch.autograd.grad(differentiable, wanted, ones, allow_unused=True)
            grads = [grad for grad in found if grad is not None]
        return [*(out.detach() for out in outputs), *grads]

    return code


def assert_same(counted: list[torch.Tensor], plain: list[torch.Tensor]) -> None:
    """Counting changed nothing: as many tensors, the same shapes and, off the meta device, bitwise the same values."""
    assert len(counted) == len(plain)
    for one, other in zip(counted, plain, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype and one.layout == other.layout
        if one.device.type != "meta" and not one.is_quantized:
            left, right = (one.to_dense(), other.to_dense()) if one.layout is not torch.strided else (one, other)
            assert torch.equal(left, right) or torch.allclose(left, right, equal_nan=True)


Build = Callable[[str], tuple[Callable[[], Any], list[torch.Tensor]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A few lines of torch code and what they cost, worked out by hand.

    build: from a device, code to run and the leaves to take gradients of. forward, backward: matrix FLOPs. op: an
    operator that must be among those counted. status: of all operators that do matrix work. meta: whether the code
    runs on meta. grad: False to run under `no_grad`.
    """

    name: str
    build: Build
    forward: int
    backward: int = 0
    op: str = ""
    status: Status = Status.EXACT
    meta: bool = True
    meta_status: Status | None = None
    grad: bool = True


def check(case: Case, device: str) -> Counted:
    """Run the code plainly and counted: the same outputs and gradients, and the FLOPs of the case."""
    torch.manual_seed(0)
    make, leaves = case.build(device)
    code = forward_and_backward(make, leaves)
    with torch.set_grad_enabled(case.grad):
        plain = code()
        counted = count_op(code)
    assert_same(counted.out, plain)
    assert counted.failures == {}
    assert (counted.forward, counted.backward) == (case.forward, case.backward), counted.ops
    if case.op:
        assert case.op in counted.names(), counted.names()
    statuses = {op.cost.status for op in counted.ops if op.cost.kind in MATRIX_KINDS and op.cost.flops}
    status = case.meta_status if device == "meta" and case.meta_status is not None else case.status
    assert statuses <= {status}
    return counted


def check_under_inference(case: Case) -> None:
    """The same without autograd: composite operators reach the counter whole, and it takes them apart."""
    torch.manual_seed(0)
    make, _ = case.build("cpu")
    with torch.inference_mode():
        plain, counted = tensors(make()), count_op(make)
    assert counted.forward == case.forward
    assert_same(tensors(counted.out), plain)


def devices(cases: list[Case]) -> list[Any]:
    """Parameters of a test, (case, device), with readable names."""
    return [
        pytest.param(case, device, id=f"{case.name}-{device}")
        for case in cases
        for device in ("cpu", "meta")
        if device == "cpu" or case.meta
    ]


def leaf(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers that take a gradient."""
    return torch.randn(*shape, dtype=dtype, device=device, requires_grad=True)
