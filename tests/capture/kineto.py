"""What torch.profiler writes, small: a stretch of steps as text, in Kineto's order of members."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from weftrace.capture.writer import Taken


def step_of(number: int, start: float, *, ops: int = 2, filling: int = 0) -> list[dict[str, Any]]:
    """A step of 100 µs with operators in it, one after another; each with a name as long as filling says."""
    host = {"ph": "X", "pid": 1, "tid": 1}
    step = {**host, "cat": "user_annotation", "name": f"ProfilerStep#{number}", "ts": start, "dur": 100}
    return [step, *({**host, "cat": "cpu_op", "name": f"op{number}.{at}" + _noise(number, at, filling),
                     "ts": start + at, "dur": 1} for at in range(ops))]  # fmt: skip


def _noise(number: int, at: int, length: int) -> str:
    """Text that hardly compresses."""
    blocks = (hashlib.sha256(f"{number} {at} {block}".encode()).hexdigest() for block in range(length // 64 + 1))
    return "".join(blocks)[:length]


def kineto(*steps: list[dict[str, Any]], base: int = 1_790_857_026_000_000_000, **head: Any) -> bytes:
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": steps[0][0]["ts"], "args": {"name": "python"}}
    ]
    events += [event for step in steps for event in step]
    start, end = steps[0][0]["ts"], steps[-1][0]["ts"] + 100
    events.append({"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
                   "ts": start, "dur": end - start})  # fmt: skip
    facts = json.dumps({"schemaVersion": 1, **head, "baseTimeNanoseconds": base}, indent=2)[:-2]
    listed = ",\n".join(json.dumps(event, indent=2) for event in events)
    return f' {facts},\n  "traceEvents": [\n{listed}\n  ],"traceName": "/tmp/x.json" }}'.encode()


def taken(numbers: tuple[int, ...], text: bytes) -> Taken:
    return Taken(numbers, writes(text))


def writes(text: bytes) -> Callable[[str], object]:
    def save(path: str) -> None:
        with open(path, "wb") as file:
            file.write(text)

    return save
