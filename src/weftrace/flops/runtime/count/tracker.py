"""Which module is running: in the forward, in the backward, and when a checkpoint runs a forward again.

Forward: torch's global module hooks keep a stack. They fire on exceptions too (a checkpoint stops its recomputation
with one), and are removed at the end; no module is touched.

Backward: every node of the autograd graph has a sequence number, counted up in the thread that ran the forward. At each
module boundary the tracker notes the number; a node then belongs to the module that was running when its number was
given out. Nothing is hooked into the graph, so it is the program's own graph and lives no longer than it would.

Recomputation: a module entered while a node of the backward runs is a checkpoint at work. So is an operator outside any
module that runs in the backward with gradients enabled, under the hooks of torch.utils.checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from weftrace.costs.cost import Phase
from weftrace.flops.runtime.count.frames import Again, Frame, Segments, Stack
from weftrace.flops.runtime.count.uncounted import Uncounted
from weftrace.flops.values import OUTSIDE

current_node: Callable[[], Any] = torch._C._current_autograd_node
sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
_FORWARD = Phase.FORWARD
LEAF = 2**64 - 1  # the sequence number of nodes that accumulate a parameter's gradient


class Tracker:
    """The tree of a model's modules and where in it the program is.

    frame, phase, counts: where the forward is now, and what counts there. `backward_place` tells the same of a node of
    the backward.
    moved: called at each change of module with (frame, phase), for clocks.
    """

    def __init__(self, model: nn.Module, *, each_call: bool = False) -> None:
        """each_call: give the second and later calls of a module frames of their own, "layer#2"."""
        self.each_call = each_call
        self.outside = Frame(OUTSIDE, "", None)
        self.paths: dict[int, list[str]] = {}
        modules: dict[str, nn.Module] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            self.paths.setdefault(id(module), []).append(path)
            modules[path] = module
        self.frames = {path: Frame(path, type(module).__name__, module) for path, module in modules.items()}
        self.uncounted = Uncounted()
        self.elsewhere = 0  # calls of the model's modules in other threads, where nothing is counted
        self.moved: Callable[[Frame, Phase], None] | None = None
        self.counts = self.outside.counts[Phase.FORWARD]  # of the module that runs now, for the counter's hot path
        self._stack = Stack(self.outside)
        self._bottom_phase = Phase.FORWARD  # outside any module: OPTIMIZER while one steps
        self._thread = get_ident()
        self._segments: dict[int, Segments] = {}
        self._here = Segments()  # those of the thread that runs the forward
        self.again: dict[int, list[Again]] = {}
        self._extended = -1  # the graph task that was last found to make a graph
        self._owners: dict[int, Frame] = {}
        for path, module in modules.items():
            for parameter in module.parameters(recurse=False):
                self._owners.setdefault(id(parameter), self.frames[path])

    # -- watching

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Follow the program; leaves no hook behind, whatever is raised."""
        self._thread = get_ident()
        handles: list[Any] = []
        try:
            handles.append(register_module_forward_pre_hook(self._enter))
            handles.append(register_module_forward_hook(self._leave, always_call=True))
            handles.append(register_optimizer_step_pre_hook(self._optimizer_starts))
            handles.append(register_optimizer_step_post_hook(self._optimizer_ends))
            self._here = self._segments_here()
            self._here.note(sequence_number(), self.outside)
            yield
        finally:
            for handle in reversed(handles):
                handle.remove()
            self.forget()

    def forget(self) -> None:
        """Drop what is known of graphs and of what runs; the counts stay."""
        self._segments.clear()
        self.again.clear()
        self._stack = Stack(self.outside)
        self._bottom_phase = Phase.FORWARD
        self._now()

    def _segments_here(self) -> Segments:
        thread = get_ident()
        found = self._segments.get(thread)
        if found is None:
            found = self._segments[thread] = Segments()
        return found

    @property
    def frame(self) -> Frame:
        """The module whose forward runs now, the innermost."""
        return self._stack.frames[-1]

    @property
    def phase(self) -> Phase:
        return self._bottom_phase if len(self._stack.frames) == 1 else _FORWARD  # forward in an optimizer's closure too

    def _now(self) -> None:
        frame, phase = self.frame, self.phase
        self.counts = frame.counts[phase]
        if self.moved is not None:
            self.moved(frame, phase)

    # -- hooks

    def _enter(self, module: nn.Module, args: Any) -> None:
        if is_compiling():  # nothing for torch.compile to trace: a compiled model is timed as a whole
            return
        try:
            self._entered(module)
        except Exception as error:  # hooks run in the user's program, which goes on
            self.uncounted.note(f"the start of a {type(module).__name__}", error)

    def _entered(self, module: nn.Module) -> None:
        if (node := current_node()) is not None:
            self._enter_again(module, node)
            return
        if get_ident() != self._thread:
            self.elsewhere += id(module) in self.paths
            return
        stack, here = self._stack, self._here
        caller = stack.frames[-1]
        frame = caller.children.get(id(module)) or self._find(caller, module)
        frame.calls += 1
        if self.each_call and frame.calls > 1:
            frame = self._another(frame)
        stack.frames.append(frame)
        stack.modules.append(module)
        here.starts.append(sequence_number())
        here.frames.append(frame)
        self.counts = frame.forward
        if self.moved is not None:
            self.moved(frame, _FORWARD)

    def _leave(self, module: nn.Module, args: Any, out: Any) -> None:
        if is_compiling():
            return
        try:
            self._left(module)
        except Exception as error:
            self.uncounted.note(f"the end of a {type(module).__name__}", error)

    def _left(self, module: nn.Module) -> None:
        if current_node() is not None:
            self._leave_again(module)
            return
        if get_ident() != self._thread:
            return
        stack, here = self._stack, self._here
        if stack.modules[-1] is module:
            stack.modules.pop()
            stack.frames.pop()
        elif not _pop(stack, module):
            return
        frame = stack.frames[-1]
        here.starts.append(sequence_number())
        here.frames.append(frame)
        self.counts = frame.forward if len(stack.frames) > 1 else frame.counts[self._bottom_phase]
        if self.moved is not None:
            self.moved(frame, self.phase)

    def _optimizer_starts(self, *_: Any) -> None:
        if get_ident() == self._thread:
            self._bottom_phase = Phase.OPTIMIZER
            self._now()

    def _optimizer_ends(self, *_: Any) -> None:
        if get_ident() == self._thread:
            self._bottom_phase = Phase.FORWARD
            self._now()

    def _find(self, caller: Frame, module: nn.Module) -> Frame:
        """The frame of a module called from `caller`: at its place below the caller, at its first place, or made up."""
        registered = self.paths.get(id(module))
        if registered is None:  # not of this model: a loss function, a module made on the way
            name = f"({type(module).__name__})"
            path = f"{caller.path}.{name}" if caller.path else name
            return self.frames.setdefault(path, Frame(path, type(module).__name__, None))
        above = f"{caller.registered}." if caller.registered else ""
        below = next((path for path in registered if path.startswith(above) and path != caller.registered), None)
        if below is None:
            frame = self.frames[registered[0]]
        else:
            path = f"{caller.path}.{below[len(above) :]}" if caller.path else below
            frame = self.frames.setdefault(path, Frame(path, type(module).__name__, module, below))
        caller.children[id(module)] = frame
        return frame

    def _another(self, frame: Frame) -> Frame:
        path = f"{frame.path}#{frame.calls}"
        again = self.frames[path] = Frame(path, frame.class_name, frame.module, frame.registered)
        again.calls = 1
        return again

    # -- the backward

    def backward_place(self, node: Any) -> tuple[Frame, Phase]:
        """The module and phase of the operator that runs now, inside this node of the backward."""
        if not self.again and not torch.is_grad_enabled():
            number = node._sequence_nr()
            if number != LEAF:
                return self._here.at(number) or self.outside, Phase.BACKWARD
        thread = get_ident()
        again = self.again.get(thread)
        if again:
            inner = again[-1]
            if len(inner.stack.frames) > 1:
                return inner.stack.frames[-1], Phase.RECOMPUTE
        frame = self._owner(node, again, thread)
        if torch.is_grad_enabled():
            if _is_recomputing(node):
                return frame, Phase.RECOMPUTE
            self._extend_graph(frame)
        return frame, Phase.BACKWARD

    def _extend_graph(self, frame: Frame) -> None:
        """A backward that makes a graph of its own (`create_graph`): its nodes belong to the module that runs."""
        segments = self._segments_here()
        if not segments.frames or segments.frames[-1] is frame:
            return
        task = torch._C._current_graph_task_id()
        if task != self._extended:
            self._extended = task

            def end() -> None:
                segments.note(sequence_number(), self.frame)

            torch.autograd.Variable._execution_engine.queue_callback(end)
        # The node of the operator that runs now was made before the operator came here.
        segments.note(max(segments.starts[-1], sequence_number() - 1), frame)

    def _owner(self, node: Any, again: list[Again] | None, thread: int) -> Frame:
        number = node._sequence_nr()
        if number == LEAF:
            return self._owners.get(id(getattr(node, "variable", None)), self.outside)
        if again and number >= again[-1].first:  # made by a reentrant checkpoint in this thread
            segments = self._segments.get(thread)
        else:
            segments = self._segments.get(self._thread)
        return (segments.at(number) if segments is not None else None) or self.outside

    def _enter_again(self, module: nn.Module, node: Any) -> None:
        thread = get_ident()
        again = self.again.setdefault(thread, [])
        if not again or (len(again[-1].stack.frames) == 1 and again[-1].node is not node):
            owner, _ = self.backward_place(node)
            entry = Again(sequence_number(), node, owner)
            again.append(entry)
            node.register_hook(lambda *_: self._end_again(thread, entry))
        stack = again[-1].stack
        caller = stack.frames[-1]
        frame = caller.children.get(id(module)) or self._find(caller, module)
        stack.frames.append(frame)
        stack.modules.append(module)
        self._segments_here().note(sequence_number(), frame)
        if self.moved is not None:
            self.moved(frame, Phase.RECOMPUTE)

    def _end_again(self, thread: int, entry: Again) -> None:
        again = self.again.get(thread, [])
        if entry in again:
            again.remove(entry)
        if not again:
            self.again.pop(thread, None)

    def _leave_again(self, module: nn.Module) -> None:
        again = self.again.get(get_ident())
        if not again or not _pop(again[-1].stack, module):
            return
        stack = again[-1].stack
        self._segments_here().note(sequence_number(), stack.frames[-1])
        if self.moved is not None:
            self.moved(stack.frames[-1], Phase.RECOMPUTE if len(stack.frames) > 1 else Phase.BACKWARD)


def _pop(stack: Stack, module: nn.Module) -> bool:
    """Leave a module, and those inside it that an exception left; False where it was never entered."""
    for index in range(len(stack.modules) - 1, 0, -1):
        if stack.modules[index] is module:
            del stack.modules[index:]
            del stack.frames[index:]
            return True
    return False


def _is_recomputing(node: Any) -> bool:
    """Whether an operator that runs in this node with gradients enabled belongs to a checkpoint's second forward."""
    if "CheckpointFunction" in node.name():
        return True
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return hooks is not None and getattr(hooks[0], "__module__", "") == "torch.utils.checkpoint"
