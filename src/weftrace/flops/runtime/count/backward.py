"""When the backward moves from one module to another.

The forward hooks the nodes of what leaves the outermost module. When a backward reaches one, the nodes below it are put
in the order in which the engine will run them, each is given its module, and the first node of every run of nodes of
one module gets a hook that makes a mark. So only a change of module costs a hook, and the graph is the program's own.
Hooks only look: they return no gradient, and hold no tensor and no node.

The order. The engine runs the ready node of the highest sequence number. What uses a node was made after it, so the
order is that of falling numbers; the nodes that add up a parameter's gradient come as soon as they can.

What is above the first hook, the backward of a loss that is no module, cannot be told from the loss itself: its time
stays where the program was, in "(outside)".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import torch
from torch.autograd import Variable

from weftrace.costs.cost import Phase
from weftrace.costs.tensors import tensors_in
from weftrace.flops.runtime.count.frames import Frame
from weftrace.flops.runtime.count.tracker import LEAF, Tracker, current_node

Log = list[tuple[Any, Frame | None, Phase]]


class _Plan:
    """What is known of one running backward: its nodes' numbers, rising, and their modules; no node.

    before: where the program was when it began, and is again when it ends.
    """

    __slots__ = ("before", "frames", "handles", "numbers")

    def __init__(self, frame: Frame | None, phase: Phase, outside: Frame) -> None:
        self.before = frame, phase
        self.numbers = [-1]  # below every node: whatever is not planned is outside
        self.frames = [outside]
        self.handles: list[Any] = []


class BackwardMarks:
    """Appends a mark to the clock's log at each change of module in a backward; with no frame for its own time."""

    def __init__(self, tracker: Tracker, log: Log, take: Callable[[], Any], now: Callable[[], int]) -> None:
        self.tracker = tracker
        self.installed_ns = 0  # the host's time for installing hooks in this step
        self._log = log
        self._take = take
        self._now = now
        self._running = False
        self._plans: dict[int, _Plan] = {}
        self._tops: list[Any] = []  # handles of hooks on outputs' nodes, and those of backwards that ended:
        self._ended_handles: list[Any] = []  # a graph that is kept may still hold them; they do not keep it
        self._leaf_from: tuple[Frame | None, Phase] = (None, Phase.BACKWARD)

    def start(self) -> None:
        self.installed_ns = 0
        self._running = True

    def stop(self) -> None:
        """Take every hook out of the graphs that still live."""
        self._running = False
        for plan in self._plans.values():
            _remove(plan.handles)
        self._plans.clear()
        _remove(self._ended_handles)
        _remove(self._tops)

    def left(self, module: Any, args: Any, out: Any) -> None:
        """After the forward of an outermost module, of the program or of a recomputation: hook its outputs' nodes."""
        _, frame, phase = self._log[-1]
        if frame is not self.tracker.outside and phase is not Phase.BACKWARD:
            return
        nodes: dict[int, Any] = {}
        try:
            for tensor in tensors_in(_parts(out)):
                if tensor.requires_grad and (node := tensor.grad_fn) is not None:
                    nodes[node._sequence_nr()] = node
            for node in nodes.values():
                self._tops.append(node.register_prehook(self._reached))
        except RuntimeError:  # torch forbids to ask some views, changed in place, for their node
            return
        except Exception as error:  # what a module returns may be anything, with properties that raise
            self.tracker.uncounted.note(f"the backward's times of the output of a {type(module).__name__}", error)

    # -- hooks in the graph; they run in the threads of the engine

    def _mark(self, frame: Frame | None, phase: Phase) -> None:
        if self._running:
            self._log.append((self._take(), frame, phase))

    def _reached(self, gradients: Any) -> None:
        try:
            self._found()
        except Exception as error:  # raised here, it would end the backward
            self.tracker.uncounted.note("the modules' times in a backward", error)

    def _found(self) -> None:
        node = current_node()
        if not self._running or node is None:
            return
        task = torch._C._current_graph_task_id()
        plan = self._plans.get(task)
        if plan is None:
            _remove(self._ended_handles)  # this may be a graph that ran before
            _, frame, phase = self._log[-1]
            plan = self._plans[task] = _Plan(frame, phase, self.tracker.outside)
            Variable._execution_engine.queue_callback(partial(self._nodes_done, task))
        elif _has(plan.numbers, node._sequence_nr()):
            return
        start = self._now()
        self._mark(None, Phase.BACKWARD)
        owner = self._install(plan, node)
        self.installed_ns += self._now() - start
        self._mark(owner, Phase.BACKWARD)

    def _enters(self, frame: Frame, *_: Any) -> None:
        self._mark(frame, Phase.BACKWARD)

    def _enters_leaf(self, frame: Frame, *_: Any) -> None:
        _, was, phase = self._log[-1]
        self._leaf_from = was, phase
        self._mark(frame, Phase.BACKWARD)

    def _leaves_leaf(self, *_: Any) -> None:
        self._mark(*self._leaf_from)

    def _nodes_done(self, task: int) -> None:
        """The last node has run; what others do at the end of a backward, waiting for gradients, say, is outside."""
        self._mark(self.tracker.outside, Phase.BACKWARD)
        Variable._execution_engine.queue_callback(partial(self._ended, task))

    def _ended(self, task: int) -> None:
        plan = self._plans.pop(task, None)
        if plan is not None:
            self._ended_handles += plan.handles
            self._mark(*plan.before)

    # -- installing them

    def _install(self, plan: _Plan, first: Any) -> Frame:
        """Hook the changes of module among the nodes from `first` on that are not planned; returns first's module."""
        nodes, leaves = _below(first, plan.numbers)
        nodes.sort(key=_number, reverse=True)
        place = self.tracker.backward_place
        frames = [place(node)[0] for _, node in nodes]
        leaves_of: dict[int, list[tuple[Any, Frame]]] = {}
        for leaf, number in leaves.values():
            leaves_of.setdefault(number, []).append((leaf, place(leaf)[0]))
        running: Frame | None = None
        for index, (number, node) in enumerate(nodes):
            frame = frames[index]
            if frame is not running and node is not first:
                plan.handles.append(node.register_prehook(partial(self._enters, frame)))
            running = frame
            below = nodes[index + 1][0] if index + 1 < len(nodes) else -1
            old = bisect_left(plan.numbers, number) - 1
            if plan.numbers[old] >= below:  # the next node is one that was planned before, or is outside
                plan.handles.append(node.register_hook(partial(self._enters, plan.frames[old])))
                running = None
            for leaf, owner in leaves_of.get(number, ()):
                if owner is not running:
                    plan.handles.append(leaf.register_prehook(partial(self._enters_leaf, owner)))
                    plan.handles.append(leaf.register_hook(self._leaves_leaf))
        known = dict(zip(plan.numbers, plan.frames, strict=True))
        known.update((number, frame) for (number, _), frame in zip(nodes, frames, strict=True))
        plan.numbers = sorted(known)
        plan.frames = [known[number] for number in plan.numbers]
        return frames[0]


def _remove(handles: list[Any]) -> None:
    for handle in handles:
        handle.remove()
    handles.clear()


def _number(numbered: tuple[int, Any]) -> int:
    return numbered[0]


def _has(numbers: list[int], number: int) -> bool:
    index = bisect_left(numbers, number)
    return index < len(numbers) and numbers[index] == number


def _below(first: Any, known: list[int]) -> tuple[list[tuple[int, Any]], dict[int, tuple[Any, int]]]:
    """(nodes with their numbers, leaves) from `first` on: those that are not known and that the engine will run.

    leaves: the nodes of parameters, each with the lowest number of a node that feeds it.
    """
    runs = torch._C._will_engine_execute_node
    seen = set(known)
    number = first._sequence_nr()
    seen.add(number)
    found = [(number, first)]
    leaves: dict[int, tuple[Any, int]] = {}
    waiting = [(number, first)]
    while waiting:
        number, node = waiting.pop()
        for below, _ in node.next_functions:
            if below is None:
                continue
            other = below._sequence_nr()
            if other == LEAF:
                variable = id(below.variable)
                if variable not in leaves or number < leaves[variable][1]:
                    leaves[variable] = below, number
            elif other not in seen:
                seen.add(other)
                if runs(below):
                    found.append((other, below))
                    waiting.append((other, below))
    return found, leaves


def _parts(out: Any) -> Iterator[Any]:
    """What a module returned, with the fields of a dataclass and the values of a mapping opened."""
    if is_dataclass(out) and not isinstance(out, type):
        yield from (getattr(out, part.name) for part in fields(out))
    elif isinstance(out, Mapping):
        yield from out.values()
    else:
        yield out
