"""What a tracker keeps: a frame for each module, and which of them was running when a node of the graph was made."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from torch import nn

from weftrace.costs.cost import PHASES, Phase


class Frame:
    """One module at one place of the tree, and what ran there: signature -> calls, for each phase.

    path: of the tree; registered: as `named_modules` has it (they differ where each call has a frame of its own).
    counts: operators on plain tensors. Operators on DTensors stand in global_counts with their global shapes, and
    in local_counts as the ones on this rank's shards that they became.
    """

    __slots__ = (
        "calls",
        "children",
        "class_name",
        "counts",
        "forward",
        "global_counts",
        "local_counts",
        "module",
        "path",
        "registered",
    )

    def __init__(self, path: str, class_name: str, module: nn.Module | None, registered: str | None = None) -> None:
        self.path = path
        self.registered = path if registered is None else registered
        self.class_name = class_name
        self.module = module
        self.calls = 0
        self.children: dict[int, Frame] = {}
        self.counts: dict[Phase, dict[int, int]] = {phase: {} for phase in PHASES}
        self.forward = self.counts[Phase.FORWARD]  # looked for at each change of module
        self.local_counts: dict[Phase, dict[int, int]] = {phase: {} for phase in PHASES}
        self.global_counts: dict[Phase, dict[int, int]] = {phase: {} for phase in PHASES}


class Segments:
    """Sequence numbers of one thread, cut where the running module changed."""

    __slots__ = ("frames", "starts")

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.frames: list[Frame] = []

    def note(self, start: int, frame: Frame) -> None:
        self.starts.append(start)
        self.frames.append(frame)

    def at(self, number: int) -> Frame | None:
        index = bisect_right(self.starts, number) - 1
        return self.frames[index] if index >= 0 else None


class Stack:
    """Modules that are running in one thread, innermost last."""

    __slots__ = ("frames", "modules")

    def __init__(self, bottom: Frame) -> None:
        self.frames = [bottom]
        self.modules: list[nn.Module | None] = [None]


class Again:
    """A forward that a backward runs again in a thread, and the numbers of the nodes it makes."""

    __slots__ = ("first", "node", "stack")

    def __init__(self, first: int, node: Any, bottom: Frame) -> None:
        self.first = first
        self.node = node
        self.stack = Stack(bottom)
