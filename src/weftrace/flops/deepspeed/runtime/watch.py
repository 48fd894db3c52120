"""One optimizer step of a program that knows nothing of weftrace: its model, what the step costs, how long it takes.

A step reaches from the end of one optimizer step to the end of the next, with all its micro-batches. The step asked
for is counted; the one after it is timed with hooks alone, so that no time holds the cost of counting.

The model is found at the first optimizer step: of the modules that were called from outside any module, with gradients
enabled, the ones that hold the optimizer's parameters. Wrappers that only pass calls on (DistributedDataParallel,
DataParallel, a DeepSpeed engine) are looked through.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum, auto
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from weftrace.costs.tensors import tensors_in
from weftrace.errors import WeftraceError
from weftrace.flops.deepspeed.runtime.model import class_of, is_compiled, is_named, trained_by, unwrapped
from weftrace.flops.runtime.count.clock import StepClock
from weftrace.flops.runtime.count.tracker import Tracker, current_node
from weftrace.flops.runtime.gather import clock_value, timings
from weftrace.flops.runtime.own_hook import OwnHook
from weftrace.flops.runtime.profile import Profile, model_device
from weftrace.flops.values import FlopsReport


class State(Enum):
    """Of a watch."""

    LOOKING = auto()  # for the model, until an optimizer steps
    WAITING = auto()  # for the step that is asked for
    COUNTING = auto()
    TIMING = auto()
    DONE = auto()


@dataclass(slots=True)
class _Seen:
    """Calls of the model in a step.

    shapes: of the tensors it was given in training, call by call. ungraded: calls without gradients, which are an
    evaluation and neither counted nor timed.
    """

    shapes: list[Any]
    ungraded: int = 0


class Watch:
    """Follows a program's optimizer steps from `start` to `close`; `finished(report, model, notes)` is called once.

    model_name: class of the model, "GPT" or "my.module.GPT", where the guess would be wrong. Nothing that goes wrong
    here stops the program: it is told to `say`.
    """

    def __init__(
        self,
        profile_step: int,
        finished: Callable[[FlopsReport, nn.Module, tuple[str, ...]], None],
        say: Callable[[str], None],
        *,
        model_name: str | None = None,
    ) -> None:
        self.profile_step = profile_step
        self.finished = finished
        self.say = say
        self.model_name = model_name
        self.state = State.LOOKING
        self.steps = 0
        self.model: nn.Module | None = None
        self.failed = False
        self._thread = get_ident()
        self._depth = 0
        self._called: dict[int, nn.Module] = {}
        self._others: dict[str, None] = {}  # class names of what was called, for messages
        self._optimizer: Optimizer | None = None
        self._looking = ExitStack()
        self._hooks = ExitStack()
        self._measuring = ExitStack()
        self._run: Profile | None = None
        self._timed: tuple[Tracker, StepClock] | None = None
        self._marks: Any = None  # of the clock, while an evaluation runs
        self._report: FlopsReport | None = None
        self._seen = _Seen([])
        self._counted = _Seen([])
        self._notes: list[str] = []

    def start(self) -> None:
        """Begin to look for the model."""
        self._looking.callback(register_module_forward_pre_hook(self._entered).remove)
        self._looking.callback(register_module_forward_hook(self._left, always_call=True).remove)
        self._looking.callback(register_optimizer_step_pre_hook(self._steps).remove)

    def close(self, *, crashed: bool = False) -> None:
        """The program is over: hand over what was counted and leave nothing behind.

        crashed: a step that it did not complete is dropped, where else one with a training forward is handed over.
        """
        try:
            if self.state is State.COUNTING and self._seen.shapes and not crashed:
                what = (
                    "a step that the program did not complete" if self.steps else "a program without an optimizer step"
                )
                self._guarded(lambda: self._end_counting(f"counted in {what}", complete=False))
            if self.state is State.TIMING:
                self._guarded(lambda: self._end_timing(complete=False))
        finally:
            self.state = State.DONE
            for stack in (self._measuring, self._hooks, self._looking):
                stack.close()
            self._called.clear()

    def why_nothing(self) -> str:
        """Why there is no report, and what helps."""
        if self.model is None:
            named = ", ".join(list(self._others)[:8])
            if self.model_name and named:
                return f"no module of class {self.model_name} was called with gradients enabled; called were {named}"
            if not named:
                return (
                    "no torch module was called with gradients enabled in this process. A program that only serves is "
                    "profiled with weftrace.flops.get_model_profile or weftrace.flops.profile"
                )
            return f"no torch optimizer took a step in this process; modules called were {named}"
        return (
            f"profile_step is {self.profile_step}, and the program ended after {self.steps} optimizer steps: "
            f"profile_step counts the steps before the profiled one, so {self.profile_step + 1} are needed"
        )

    # -- looking for the model

    def _entered(self, module: nn.Module, args: Any) -> None:
        if is_compiling():  # torch.compile traces hooks: it finds nothing here to trace
            return
        if self._optimizer is not None or get_ident() != self._thread or current_node() is not None:
            return
        self._depth += 1
        wanted = self._depth == 1 if self.model_name is None else is_named(module, self.model_name)
        if (wanted or self._depth == 1) and torch.is_grad_enabled():
            self._others.setdefault(type(module).__name__)
        if wanted and torch.is_grad_enabled() and any(p.requires_grad for p in module.parameters()):
            first = not self._called
            self._called.setdefault(id(module), module)
            if first and self.profile_step == 0 and self.state is State.LOOKING:
                self._guarded(lambda: self._begin_at_once(module, args))

    def _left(self, module: nn.Module, args: Any, out: Any) -> None:
        if is_compiling():
            return
        if get_ident() == self._thread and current_node() is None and self._depth:
            self._depth -= 1

    def _begin_at_once(self, module: nn.Module, args: Any) -> None:
        """Count from here on, with the model's forward just begun: profile_step 0 leaves no step to find it in."""
        self.model = inner = unwrapped(module)
        self._begin_counting()
        if inner is module and self._run is not None:  # its pre-hooks are already chosen, so it is entered by hand
            self._run.model_is_running(tuple(args))
            self._forward(module, tuple(args), {})

    def _steps(self, optimizer: Optimizer, *_: Any) -> None:
        """Before an optimizer's step: the first one marks the steps from here on.

        torch is going through its table of these hooks now, so none may come or go. They may in `_stepped`, a hook of
        the one optimizer: torch goes through those before the ones of all optimizers.
        """
        if self._optimizer is None and get_ident() == self._thread and self._called:
            self._optimizer = optimizer
            self._hooks.callback(optimizer.register_step_post_hook(self._stepped).remove)

    def _stepped(self, optimizer: Optimizer, *_: Any) -> None:
        self.steps += 1
        if self.steps == 1:
            self._looking.close()
            self._guarded(lambda: self._found(optimizer))
        if self.state is not State.DONE:
            self._guarded(self._at_boundary)

    def _found(self, optimizer: Optimizer) -> None:
        """The first step is over, so the model is known; a profile that began before that may be of another one."""
        guessed, self.model = self.model, trained_by(optimizer, list(self._called.values()))
        self._called.clear()
        if self.state is State.COUNTING and guessed is not self.model:
            self.say(
                f"{class_of(guessed)} was called first, but the optimizer trains {class_of(self.model)}: "
                "the next step is profiled instead"
            )
            self._run = None
            self._measuring.close()
            self.profile_step, self.state = 1, State.WAITING
        if self.state is State.LOOKING:
            self.state = State.WAITING

    def _at_boundary(self) -> None:
        if self.state is State.TIMING:
            self._end_timing(complete=True)
        elif self.state is State.COUNTING:
            self._end_counting("", complete=True)
        elif self.state is State.WAITING and self.steps == self.profile_step:
            self._begin_counting()

    def _begin_counting(self) -> None:
        assert self.model is not None
        self._run = run = Profile(self.model)
        self._watch_calls()
        run.__enter__()
        self._measuring.callback(run.__exit__, None, None, None)
        self.state = State.COUNTING

    def _end_counting(self, why: str, *, complete: bool) -> None:
        run, self._run = self._run, None
        assert run is not None and self.model is not None
        run.__exit__(None, None, None)
        self._measuring.close()
        self._counted, self._seen = self._seen, _Seen([])
        self._report = run.report()
        if why:
            self._notes.append(why)
        if self._counted.ungraded:
            self._notes.append(
                f"calls of the model without gradients ({self._counted.ungraded}), as in an evaluation, are not counted"
            )
        compiled = is_compiled(self.model)  # hooks that come and go make torch compile again, within the timed step
        if compiled:
            self._notes.append("the model is compiled; it was counted, and timed, without its compiler")
        if compiled or not complete or run.clock is None:
            self._finish()
            return
        self._watch_calls()
        tracker = Tracker(self.model)
        clock = StepClock(tracker, model_device(self.model))
        self._measuring.enter_context(tracker.watch())
        self._measuring.callback(clock.close)
        self._timed = tracker, clock
        self.state = State.TIMING
        clock.start_step()

    def _end_timing(self, *, complete: bool) -> None:
        timed, self._timed = self._timed, None
        assert timed is not None and self._report is not None
        _, clock = timed
        if complete:
            clock.end_step()
            self._report = with_times(self._report, clock)
            if self._seen.shapes != self._counted.shapes:
                self._notes.append(
                    "the step after the counted one, which was timed, was given tensors of other shapes or another "
                    "number of micro-batches: rates mix the two"
                )
        self._measuring.close()
        self._finish()

    def _finish(self) -> None:
        self.state = State.DONE
        assert self._report is not None and self.model is not None
        self.finished(self._report, self.model, tuple(self._notes))

    def _watch_calls(self) -> None:
        assert self.model is not None
        self._seen = _Seen([])
        self._measuring.callback(self.model.register_forward_pre_hook(OwnHook(self._forward), with_kwargs=True).remove)
        self._measuring.callback(self.model.register_forward_hook(OwnHook(self._forward_ends), always_call=True).remove)

    def _forward(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if current_node() is not None:
            return
        if torch.is_grad_enabled():
            self._seen.shapes.append([tuple(tensor.shape) for tensor in tensors_in((args, kwargs))])
            return
        self._seen.ungraded += 1
        if self._run is not None:
            self._run.counter.pause(True)
        if self._timed is not None:
            tracker = self._timed[0]
            self._marks, tracker.moved = tracker.moved or self._marks, None

    def _forward_ends(self, *_: Any) -> None:
        if self._run is not None:
            self._run.counter.pause(False)
        if self._timed is not None and self._marks is not None:
            self._timed[0].moved, self._marks = self._marks, None

    def _guarded(self, action: Callable[[], None]) -> None:
        """Do it; a mistake of weftrace's, or a model that it cannot count, ends the profile and not the program."""
        try:
            action()
        except Exception as error:
            self.state, self.failed = State.DONE, True
            self._measuring.close()
            kind = "" if isinstance(error, WeftraceError) else f"{type(error).__name__}: "
            self.say(f"the profile was given up, the program goes on: {kind}{error}")


def with_times(report: FlopsReport, clock: StepClock) -> FlopsReport:
    """A counted report with the times of another step of the same model, place by place."""
    index = {module.path: number for number, module in enumerate(report.modules)}
    timed = clock_value(clock, while_counting=False, warm_up=0)
    return replace(
        report,
        times=timings(clock, index),
        clock=replace(timed, counted_step_ns=report.clock.counted_step_ns),
    )
