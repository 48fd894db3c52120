"""A module as ordered phases, so that one micro-batch's communication runs behind another one's computation.

A `PhasedModule` gives `Compute`s and `Exchange`s in their order, as [attn, dispatch, mlp, combine] of a block with
experts. What a phase returns, the next one gets; at each boundary it is cut from autograd's graph, so that
the backward of each phase can be run by itself, in any order with the phases of other micro-batches.

There are no threads: a run of phases is a generator that stops wherever it has begun a communication. Who holds two of
them runs the one while the other's communication is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.data_parallel import is_sharded_class
from weftrace.pipeline.runtime.gathered import dtypes_of, gather, in_precision, release, reshard, unshard
from weftrace.pipeline.runtime.split.instrument import Splitting
from weftrace.pipeline.runtime.split.values import backward_from, called, has_gradient, leaf_of, leaves_of, mapped

Ran = TypeVar("Ran")
#: Stops wherever a communication was begun, and returns what the phases return.
Run = Generator[None, None, Ran]


class Transfer(Protocol):
    """A communication under way. Of the values that went in, it moves the first; the others pass it by."""

    def wait(self) -> Tensor:
        """What came, when it has come."""
        ...

    def backward(self, grad: Tensor) -> Transfer:
        """Begins to send the gradient of what came back to where it came from. Of the same shape as what came."""
        ...


@dataclass(frozen=True, slots=True)
class Compute:
    """A phase that autograd differentiates: `run` is called on what the phase before returned, as a module would be."""

    name: str
    run: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """A phase that communicates: `begin` is called on a tuple, of which it sends the first entry, and does not wait."""

    name: str
    begin: Callable[..., Transfer]


@dataclass(frozen=True, slots=True)
class Gathering:
    """Between phases: where those of a module on which fully_shard was called begin, or end."""

    module: nn.Module
    begins: bool

    def forward(self) -> None:
        (gather if self.begins else release)(self.module)

    def backward(self) -> None:
        (release if self.begins else gather)(self.module)


Phase = Compute | Exchange | Gathering


class PhasedModule(nn.Module):
    """A module whose forward is its phases, one after another: a class derived from it writes `phases` alone."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """fully_shard gives a module a class of its own. Its phases gather the module's parameters."""
        super().__init_subclass__(**kwargs)
        if is_sharded_class(cls):
            cls.phases = _with_parameters(cls.phases)  # type: ignore[assignment, method-assign]

    def phases(self) -> Sequence[Phase]:
        """The first one computes. All ranks that communicate in them run them in the same order."""
        raise NotImplementedError

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Without a cut graph: autograd runs through the phases, and each communication is waited for at once."""
        value: Any = kwargs or args
        for phase in _own(type(self).phases)(self):
            if isinstance(phase, Compute):
                value = called(phase.run, value)
            elif isinstance(phase, Gathering):
                value = _passed(phase, value)
            else:
                moved = _Moved.apply(phase, value[1:], value[0])  # type: ignore[no-untyped-call]
                value = (moved, *value[1:])
        return value


class PhasedSequential(PhasedModule):
    """Modules with phases, one after another."""

    def __init__(self, *modules: PhasedModule) -> None:
        super().__init__()
        self.parts = nn.ModuleList(modules)

    def phases(self) -> Sequence[Phase]:
        return [phase for part in self.parts for phase in part.phases()]  # type: ignore[operator]


class _Moved(torch.autograd.Function):
    """An exchange as autograd sees it where nobody splits."""

    @staticmethod
    def forward(ctx: Any, phase: Exchange, rest: tuple[Any, ...], moving: Tensor) -> Tensor:
        ctx.transfer = phase.begin(moving, *rest)
        return ctx.transfer.wait()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, ctx.transfer.backward(grad).wait()


class _Passed(torch.autograd.Function):
    """A `Gathering` as autograd sees it where nobody splits: one micro-batch at a time is in a module's phases."""

    @staticmethod
    def forward(ctx: Any, phase: Gathering, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.phase = phase
        ctx.set_materialize_grads(False)
        (unshard if phase.begins else reshard)(phase.module)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        """Where no input asks for a gradient, fully_shard's own hooks end the module's backward."""
        (reshard if ctx.phase.begins else unshard)(ctx.phase.module)
        return None, *grads


def _passed(phase: Gathering, value: Any) -> Any:
    moved = iter(_Passed.apply(phase, *filter(has_gradient, leaves_of(value))))  # type: ignore[no-untyped-call]
    return mapped(value, lambda leaf: next(moved) if has_gradient(leaf) else leaf)


_Phases = Callable[[Any], Sequence[Phase]]


def _with_parameters(phases: _Phases) -> _Phases:
    """Of a module on which fully_shard was called: its phases with its parameters, in its precision."""

    @wraps(phases)
    def gathered(module: Any) -> Sequence[Phase]:
        found = list(phases(module))
        inputs, outputs = dtypes_of(module)
        at = next(at for at, phase in enumerate(found) if isinstance(phase, Compute))
        found[at] = Compute(found[at].name, in_precision(found[at].run, inputs))  # type: ignore[union-attr]
        if outputs is not None:
            found.append(Compute("", in_precision(_as_is, outputs)))
        return [Gathering(module, True), *found, Gathering(module, False)]

    return gathered


def _own(phases: _Phases) -> _Phases:
    """A module's phases as it writes them: when it is called, its hooks do the rest."""
    return getattr(phases, "__wrapped__", phases)


def _as_is(*values: Any, **named: Any) -> Any:
    return named or (values if len(values) != 1 else values[0])


@dataclass(frozen=True, slots=True)
class Computed:
    """A `Compute` that ran: what went in, as leaves, and what came out, with its graph."""

    name: str
    inputs: Any
    outputs: Any


@dataclass(frozen=True, slots=True)
class Moved:
    """An `Exchange` that ran. received: what came, as a leaf."""

    name: str
    transfer: Transfer
    received: Tensor


Step = Computed | Moved | Gathering


def ranged(name: str, letter: str) -> AbstractContextManager[Any]:
    """A range of the profiler's in the house's alphabet: "mlp(F)". A phase without a name has none."""
    return record_function(f"{name}({letter})") if name else nullcontext()


def _split(splitting: Splitting | None, phase: str, *, backward: bool) -> AbstractContextManager[None]:
    return splitting.during(phase, backward=backward) if splitting else nullcontext()


def phases_of(module: nn.Module) -> Sequence[Phase]:
    """The phases that a module offers; itself as one without a name where it offers none."""
    if not isinstance(module, PhasedModule):
        return [Compute("", module)]
    phases = module.phases()
    first = next((phase for phase in phases if not isinstance(phase, Gathering)), None)
    if not isinstance(first, Compute):
        raise ScheduleError(f"the first phase of {type(module).__name__} must be a Compute")
    return phases


def run_forward(phases: Sequence[Phase], inputs: Any, splitting: Splitting | None) -> Run[tuple[list[Step], Any]]:
    """F, phase by phase: what the backward needs, and the outputs with their graph."""
    steps: list[Step] = []
    value = inputs
    for phase in phases:
        if isinstance(phase, Compute):
            inputs = mapped(value, leaf_of)
            with ranged(phase.name, "F"), _split(splitting, phase.name, backward=False):
                value = called(phase.run, inputs)
            steps.append(Computed(phase.name, inputs, value))
        elif isinstance(phase, Gathering):
            phase.forward()
            steps.append(phase)
        else:
            moving, *rest = value
            with ranged(phase.name, "F"), torch.no_grad():
                transfer = phase.begin(moving.detach(), *rest)
            yield
            with ranged("wait for " + phase.name, "F"):
                received = transfer.wait().requires_grad_(moving.requires_grad)
            steps.append(Moved(phase.name, transfer, received))
            value = (received, *rest)
    return steps, value


def run_backward(
    steps: list[Step], grads: Any, splitting: Splitting | None, letter: str, then: Callable[[], None]
) -> Run[None]:
    """I or B (letter), phase by phase in reverse. The gradients of the inputs stand in the first step's leaves.

    grads: shaped as the outputs, None where there is none. then: W of what a phase left; it is called when the next
    communication has begun, and so runs behind it. Steps are let go as they are done.
    """
    left = False  # whether a phase left something for W
    while steps:
        step = steps.pop()
        if isinstance(step, Gathering):
            step.backward()
            continue
        if isinstance(step, Moved):
            sent = step.received.requires_grad  # to where others wait, even where nobody used what came
            if sent:
                grad = torch.zeros_like(step.received) if grads[0] is None else grads[0]
                with ranged(step.name, letter), torch.no_grad():
                    transfer = step.transfer.backward(grad)
        if left:
            then()
        left = False
        if isinstance(step, Computed):
            with ranged(step.name, letter), _split(splitting, step.name, backward=True):
                backward_from(step.outputs, grads)
            grads = mapped(step.inputs, lambda leaf: leaf.grad if has_gradient(leaf) else None)
            left = True
        elif sent:
            yield
            with ranged("wait for " + step.name, letter):
                grads = (transfer.wait(), *grads[1:])
    if left:
        then()


def alone(run: Run[Ran]) -> Ran:
    """Runs to the end; each communication is waited for as soon as it has begun."""
    while True:
        try:
            next(run)
        except StopIteration as done:
            return done.value


def interleaved(first: Run[Any], second: Run[Any], ranges: tuple[str, str]) -> tuple[Any, Any]:
    """Runs both: whoever has begun a communication lets the other go on. The first begins.

    With a backward first and a forward second, of blocks [attn, dispatch, mlp, combine], this is DeepSeek's order.
    ranges: of the profiler, around each turn of the first and of the second.
    """
    runs, returned = {0: first, 1: second}, {}
    while runs:
        for at, run in list(runs.items()):
            try:
                with record_function(ranges[at]):
                    next(run)
            except StopIteration as done:
                returned[at] = done.value
                del runs[at]
    return returned[0], returned[1]
