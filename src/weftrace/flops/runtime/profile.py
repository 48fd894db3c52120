"""`profile`: count and time what runs inside a `with` block."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.tensors import tensors_in
from weftrace.errors import FlopsError
from weftrace.flops.runtime.count.clock import StepClock
from weftrace.flops.runtime.count.counter import Counter
from weftrace.flops.runtime.count.meta_attention import FusedAttentionOnMeta
from weftrace.flops.runtime.count.tracker import Tracker, current_node
from weftrace.flops.runtime.gather import Counted, gather_report
from weftrace.flops.runtime.own_hook import OwnHook
from weftrace.flops.values import FlopsReport, Parallel

_COMPILERS = {"torch._dynamo", "torch.nn.attention.flex_attention"}  # flex attention compiles itself when it is called
_ACTIVE: list[Profile] = []


class Profile:
    """A model being profiled: a context manager that ends as a `FlopsReport`.

    with profile(model) as p:                       with profile(model) as p:
        loss(model(x)).backward()                       for x in loader:
    p.report()                                              loss(model(x)).backward(); optimizer.step()
                                                            p.step()

    On the left, everything in the block is one step, counted and timed at once: the times hold the cost of counting. On
    the right, the first step is counted, the next `warm_up` steps only run, and the rest are timed with hooks alone.

    Whatever the block raises, hooks and modes are removed. No tensor and no graph is kept, and no function is patched.

    name: of the model, in the report. time: False takes no times; models on the meta device have none. warm_up: steps.
    each_call: give the second and later calls of a module rows of their own, "layer#2".
    samples, tokens: of a whole step on this rank; else taken from the model's inputs where they tell.
    parallel: how many ranks share the job. hardware: a name that `weftrace.facts.hardware` knows; else the
    device's own. active: path of a parameter -> fraction of it that a token uses; routed experts, k / experts.
    Raises `FlopsError` where model is no module.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        name: str | None = None,
        time: bool = True,
        warm_up: int = 1,
        each_call: bool = False,
        samples: int | None = None,
        tokens: int | None = None,
        hardware: str | None = None,
        parallel: Parallel | None = None,
        active: Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise FlopsError(f"profile() takes a torch.nn.Module, not {type(model).__name__}")
        if warm_up < 0:
            raise FlopsError(f"profile(): warm_up is a number of steps; {warm_up} is below 0")
        self.model = model
        self.name = name or type(model).__name__
        self.device = model_device(model)
        self.tracker = Tracker(model, each_call=each_call)
        self.counter = Counter(self.tracker)
        self.clock = StepClock(self.tracker, self.device) if time and self.device.type != "meta" else None
        self.warm_up = warm_up
        self.samples, self.tokens, self.micro_batches = samples, tokens, 0
        self.hardware = hardware or ""
        self.parallel = parallel or Parallel()
        self.active = dict(active or {})
        self.steps = 0  # that step() has ended
        self.fused_attention: FusedAttentionOnMeta | None = None
        self._guesses = samples is None and tokens is None
        self._state = "new"  # counting, running, timing, done
        self._dispatching = False
        self._eager = ExitStack()  # closed after the counted step: compiled code is timed as it is
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        if self._state != "new":
            raise FlopsError("a profile can be entered once: call profile(model) again")
        with ExitStack() as stack:
            stack.enter_context(self._eager)
            # Compiled functions run their Python while operators are counted.
            if not _COMPILERS.isdisjoint(sys.modules):
                try:
                    self._eager.enter_context(torch.compiler.set_stance("force_eager"))
                except RuntimeError as error:
                    raise FlopsError(
                        "profile() cannot be opened inside a compiled function: open it outside"
                    ) from error
            stack.enter_context(self.tracker.watch())
            with suppress(RuntimeError):  # a ScriptModule takes no hook: its batch size stays unknown
                root_called = OwnHook(self._root_called)
                stack.callback(self.model.register_forward_pre_hook(root_called, with_kwargs=True).remove)
            if self.device.type == "meta":
                self.fused_attention = stack.enter_context(FusedAttentionOnMeta(self.tracker.uncounted))
            if self.clock is not None:
                stack.callback(self.clock.close)
            self.counter.__enter__()  # type: ignore[no-untyped-call]
            self._dispatching = True
            stack.callback(self._stop_dispatching)
            _ACTIVE.append(self)
            stack.callback(_ACTIVE.remove, self)
            self._exits = stack.pop_all()
        self._state = "counting"
        if self.clock is not None:
            self.clock.start_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self.clock is not None and self._state == "counting" and kind is None:
                self.clock.end_step()
        finally:
            self._state = "done"
            self._exits.close()

    def step(self) -> None:
        """Mark the end of a step: an optimizer step with all its micro-batches, or a batch that is served.

        Raises `FlopsError` outside the block.
        """
        if self._state in ("new", "done"):
            raise FlopsError("step() belongs inside the with block of profile(model)")
        self.steps += 1
        if self._state == "counting":
            if self.clock is not None:
                self.clock.end_step()
                self.clock.set_aside()
            self.counter.pause(True)
            self._eager.close()
            # Where a mode was entered after it, it stays until the end of the block and lets all pass.
            if _get_current_dispatch_mode() is self.counter:
                self._stop_dispatching()
            self._state = "running"
        elif self._state == "timing" and self.clock is not None:
            self.clock.end_step()
        if self.clock is not None and self.steps > self.warm_up:
            self._state = "timing"
            self.clock.start_step()

    def _stop_dispatching(self) -> None:
        if self._dispatching:
            self._dispatching = False
            self.counter.__exit__(None, None, None)  # type: ignore[no-untyped-call]

    def _root_called(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._state != "counting" or self.counter.paused or current_node() is not None:
            return
        self.micro_batches += 1
        if self._guesses:
            try:
                samples, tokens = batch_size(args, kwargs)
            except Exception as error:  # inputs may be anything
                self.tracker.uncounted.note("the batch size", error)
                return
            self.samples = _plus(self.samples, samples)
            self.tokens = _plus(self.tokens, tokens)

    def model_is_running(self, args: tuple[Any, ...] = ()) -> None:
        """Say that the model's forward has begun already: the block was entered in one of its hooks."""
        self.tracker._enter(self.model, args)
        self._root_called(self.model, args, {})

    def add(self, name: str, cost: Cost, calls: int = 1) -> None:
        """Count work that no operator shows, a Triton kernel launched by hand say, in the module that runs now."""
        if self._state == "counting":
            self.counter.add(name, cost, calls)

    def report(self) -> FlopsReport:
        """What was found. Raises `FlopsError` inside the block, and where nothing ran."""
        if self._state != "done":
            raise FlopsError("report() follows the with block of profile(model)")
        return gather_report(self.counted())

    def counted(self) -> Counted:
        """What was counted and timed so far."""
        return Counted(
            name=self.name,
            tracker=self.tracker,
            signatures=self.counter.signatures,
            clock=self.clock,
            device=self.device,
            steps=self.steps,
            warm_up=self.warm_up,
            active=self.active,
            fused_attention=self.fused_attention is not None and self.fused_attention.used > 0,
            hardware=self.hardware,
            samples=self.samples,
            tokens=self.tokens,
            micro_batches=self.micro_batches,
            parallel=self.parallel,
        )


profile = Profile  # the name for a `with` line


@contextmanager
def uncounted() -> Iterator[None]:
    """What runs inside is of no profile that is open: it makes ready what is counted."""
    open_profiles = [(each, each.counter.paused) for each in _ACTIVE]
    calls = {id(frame): frame.calls for each in _ACTIVE for frame in each.tracker.frames.values()}
    for each, _ in open_profiles:
        each.counter.pause(True)
    try:
        yield
    finally:
        for each, paused in open_profiles:
            each.counter.pause(paused)
            for frame in each.tracker.frames.values():
                frame.calls = calls.get(id(frame), 0)


def add_cost(name: str, cost: Cost | int, calls: int = 1) -> None:
    """Tell every profile that is open what something invisible to the dispatcher costs; nothing happens where none is.

    cost: of one call; an int is FLOPs on matrix units, with no bytes known (so an estimate).
    """
    for open_profile in _ACTIVE:
        open_profile.add(name, cost if isinstance(cost, Cost) else stated_cost(cost), calls)


def stated_cost(flops: int) -> Cost:
    """A cost of which the program stated the FLOPs and no more."""
    return Cost(
        flops=flops,
        full_flops=flops,
        executed_flops=flops,
        kind=Kind.MATMUL,
        status=Status.ESTIMATE,
        note="FLOPs as stated by the program; bytes and dtype not stated",
    )


def count(
    model: nn.Module,
    *args: Any,
    backward: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    options: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> FlopsReport:
    """Run a model once on these arguments and report: `count(model, x, backward=True)`.

    backward: also run the backward of `loss(outputs)`; by default the sum of every floating-point output that needs a
    gradient. options: of `profile`, by name. Times nothing. Raises `FlopsError` where no output needs a gradient.
    """
    with profile(model, **{"time": False, **(options or {})}) as run:
        if backward:
            outputs = model(*args, **kwargs)
            (loss or summed)(outputs).backward()
        else:
            with torch.no_grad():
                model(*args, **kwargs)
    return run.report()


def summed(outputs: Any) -> torch.Tensor:
    """A scalar whose backward reaches every output: the model's own loss, or the sum of what needs a gradient."""
    own = getattr(outputs, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own
    values = list(outputs.values()) if isinstance(outputs, Mapping) else outputs
    found = [tensor for tensor in tensors_in((values,)) if tensor.requires_grad]
    if not found:
        raise FlopsError("no output of the model needs a gradient: nothing to run backward from; give a loss")
    total = found[0].sum()
    for tensor in found[1:]:
        total = total + tensor.sum()
    return total


def batch_size(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """(samples, tokens) of a call, as its inputs suggest: the first dimension; tokens where a tensor holds ids."""
    found = [tensor for tensor in tensors_in((*args, *kwargs.values())) if not tensor.is_nested and tensor.ndim > 0]
    ids = next((t for t in found if t.ndim == 2 and not t.dtype.is_floating_point and t.dtype is not torch.bool), None)
    if ids is not None:
        return ids.shape[0], ids.numel()
    return (found[0].shape[0], None) if found else (None, None)


def model_device(model: nn.Module) -> torch.device:
    """The device of a model's first parameter or buffer; the CPU where it has none."""
    first = next(chain(model.parameters(), model.buffers()), None)
    return torch.device("cpu") if first is None else first.device


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
