"""State that passes between the slices of a sequence on one stage: the keys and values that later slices attend to.

Where a schedule cuts sequences into slices (`Schedule.num_slices`), a module whose slices depend on each other offers
`initial_carry()`, the state before the first slice. It is then called with the state before its inputs (where these are
a dict, as the keyword `carry`), and returns (outputs, state). States are boundary values like any other: their
gradients go back from slice to slice. A module without `initial_carry` is one that works on each position alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from weftrace.pipeline.runtime.split.values import mapped
from weftrace.pipeline.schedule import Schedule


class Carried:
    """States and their gradients between the slices of sequences, of the stages of one rank."""

    def __init__(self, schedule: Schedule, modules: Mapping[int, nn.Module]) -> None:
        self._slices = schedule.num_slices
        carrying = schedule.num_slices > 1
        self._modules = {s: m for s, m in modules.items() if carrying and hasattr(m, "initial_carry")}
        self._state: dict[tuple[int, int], Any] = {}  # stage, the slice that it is for
        self._grads: dict[tuple[int, int], Any] = {}  # stage, the slice whose state they are the gradients of

    def with_state(self, stage: int, micro_batch: int, inputs: Any) -> Any:
        """What the stage's module is called with."""
        if stage not in self._modules:
            return inputs
        is_first = micro_batch % self._slices == 0
        state = self._modules[stage].initial_carry() if is_first else self._state.pop((stage, micro_batch))  # type: ignore[operator]
        if isinstance(inputs, dict):
            return {"carry": state, **inputs}
        return (state, *inputs) if isinstance(inputs, tuple | list) else (state, inputs)

    def without_state(self, stage: int, micro_batch: int, returned: Any) -> Any:
        """The outputs, of what it returned."""
        if stage not in self._modules:
            return returned
        outputs, state = returned
        if (micro_batch + 1) % self._slices:
            self._state[stage, micro_batch + 1] = state
        self._grads[stage, micro_batch] = mapped(state, lambda leaf: None)  # until the slice after it gives them
        return outputs

    def with_state_grads(self, stage: int, micro_batch: int, grads: Any) -> Any:
        """The gradients of all that the forward returned."""
        return (grads, self._grads.pop((stage, micro_batch))) if stage in self._modules else grads

    def without_state_grads(self, stage: int, micro_batch: int, grads: Any) -> Any:
        """The gradients of the inputs, of those of all that the module was called with."""
        if stage not in self._modules:
            return grads
        if isinstance(grads, dict):
            inputs: Any = {key: grad for key, grad in grads.items() if key != "carry"}
            state = grads["carry"]
        else:
            state, inputs = grads[0], tuple(grads[1:])
        if micro_batch % self._slices:
            self._grads[stage, micro_batch - 1] = state
        return inputs
