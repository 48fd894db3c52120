"""A training step as torch's profiler records it `with_stack`: two thirds of its events are Python frames.

24 layers of three Linears, forward on one thread and backward on another, a kernel an operator, then an optimizer.
The step is made up, and repeated in time (`inputs.repeat`) until the file is as large as asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from benchmarks.inputs import repeat

NUM_LAYERS = 24
_MAIN, _AUTOGRAD, _STREAM = 100, 101, 7
_CALL = ("torch/nn/modules/module.py(1773): _wrapped_call_impl", "torch/nn/modules/module.py(1784): _call_impl")


class _Step:
    """The events of a step, with the time that goes on as they are added."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.now = 1_000.0
        self.id = 0

    def add(self, cat: str, name: str, ts: float, dur: float, tid: int, **args: Any) -> None:
        self.id += 1
        place = {"pid": 0 if cat == "kernel" else 100, "tid": tid, "ts": round(ts, 3), "dur": round(dur, 3)}
        self.events.append({"ph": "X", "cat": cat, "name": name, **place, "args": {**args, "Ev Idx": self.id}})

    def launch(self, op: str, tid: int, **numbers: int) -> None:
        """An operator with built-in calls around it, its launch, and its kernel later on the device."""
        start, call = self.now, self.id + 1
        ids = {"Python id": call, "Python parent id": call - 1}
        self.add("cpu_op", op, start, 8, tid, **{"External id": call, "Record function id": 0, **numbers})
        for at in range(3):
            name = f"<built-in method view of Tensor object at 0x7f{call:08x}{at}>"
            self.add("python_function", name, start + 1 + at, 0.5, tid, **ids)
        self.add("cuda_runtime", "cudaLaunchKernel", start + 5, 2, tid, **{"External id": call, "correlation": call})
        kernel = {"device": 0, "stream": _STREAM, "correlation": call, "grid": [64, 1, 1], "block": [128, 1, 1]}
        self.add("kernel", f"void gemm_kernel<{op}, 128, 64>(float*)", start + 40, 7, _STREAM, **kernel)
        self.now += 9

    def module(self, name: str, line: str, body: Iterator[None]) -> Iterator[None]:
        """A module's call: its frames around what it does."""
        start = self.now
        self.now += 1
        for _ in body:
            self.now += 0.5
            yield
        self.now += 1
        for depth, frame in enumerate((f"nn.Module: {name}", *_CALL, line)):
            at = start + 0.1 * depth
            parents = {"Python id": self.id, "Python parent id": self.id - 1, "Python module id": 0}
            self.add("python_function", frame, at, self.now - 0.1 - at - 0.1 * depth, _MAIN, **parents)


def step_text() -> str:
    """One step as a trace file's text."""
    step, number = _Step(), 0

    def linear() -> Iterator[None]:
        nonlocal number
        step.launch("aten::addmm", _MAIN, **{"Sequence number": number, "Fwd thread id": 0})
        number += 1
        yield

    def layer(at: int) -> Iterator[None]:
        for part in range(3):
            yield from step.module(f"Linear_{3 * at + part}", "torch/nn/modules/linear.py(124): forward", linear())

    def model() -> Iterator[None]:
        for at in range(NUM_LAYERS):
            yield from step.module(f"Layer_{at}", "models/layer.py(40): forward", layer(at))

    for _ in step.module("Model_0", "models/model.py(12): forward", model()):
        pass
    for back in reversed(range(number)):
        step.launch("AddmmBackward0", _AUTOGRAD, **{"Sequence number": back, "Fwd thread id": 1})
    for _ in range(number):
        step.launch("aten::_foreach_add_", _MAIN)
    step.add("python_function", "train.py(30): step", 990, step.now - 980, _MAIN, **{"Python id": 1})
    events = sorted(step.events, key=lambda event: float(event["ts"]))
    return '{"traceEvents": [\n  ' + ",\n  ".join(json.dumps(event) for event in events) + "\n  ]}"


def stacks(num_bytes: int) -> Iterator[str]:
    """Steps until there are so many bytes."""
    text = step_text()
    return repeat(text, math.ceil(num_bytes / len(text)))
