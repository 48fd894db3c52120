"""Traces of a pipeline's ranks, as its runtime has them written: a range for each action, `wait` before it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.tracefile import TraceFile
from weftrace.pipeline import Schedule
from weftrace.pipeline.range_names import STEP, WAIT, action_name, chunk_name

EPOCH_US = 1_000_000


def write_ranks(
    folder: Path,
    schedule: Schedule,
    steps: Sequence[tuple[np.ndarray, np.ndarray]],
    waits: Sequence[tuple[np.ndarray, np.ndarray]] | None = None,
) -> Path:
    """steps: (start, end) in ns of each action, one step after the other. waits: likewise, where one has a length."""
    folder.mkdir(parents=True, exist_ok=True)
    actions = schedule.listed()
    for rank in range(schedule.num_ranks):
        file = TraceFile(rank=rank, world_size=schedule.num_ranks)
        origin_ns = 0
        for number, (start, end) in enumerate(steps):
            file.host(STEP, _us(origin_ns), _us(int(end.max())) - EPOCH_US)
            for row, action in enumerate(actions):
                if action.rank != rank:
                    continue
                if waits is not None and waits[number][1][row] > waits[number][0][row]:
                    _range(file, WAIT, origin_ns, waits[number][0][row], waits[number][1][row])
                _range(file, action_name(action), origin_ns, start[row], end[row])
                if action.kind != "F&B":
                    _range(file, chunk_name(action.stage, action.kind), origin_ns, start[row], end[row])
            origin_ns += int(end.max()) + 1_000
        file.write(folder / f"rank{rank}.json")
    return folder


def _range(file: TraceFile, name: str, origin_ns: int, start: int, end: int) -> None:
    file.host(name, _us(origin_ns + int(start)), round((int(end) - int(start)) / 1000, 3))


def _us(time_ns: int) -> float:
    return round(EPOCH_US + time_ns / 1000, 3)
