"""Seq1F1B: 1F1B whose unit is a slice of a sequence."""

from __future__ import annotations

import numpy as np

from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.sweeps import Chunks, Sweep, actions_of
from weftrace.pipeline.schedule import Schedule


def seq1f1b(num_stages: int, num_micro_batches: int, num_slices: int = 4) -> Schedule:
    """1F1B with each sequence cut into slices (Sun et al., 2024, arXiv:2406.03488).

    A slice attends to those before it, so slices go forward in their order and backward against it: the first backward
    is that of the first sequence's last slice, K - 1 forwards later than 1F1B's. Bubble: (PP - 1)(F + B) in
    times of a slice, 1/K of 1F1B's. Rank r holds PP - r + K - 1 slices, where 1F1B holds K (PP - r).

    num_micro_batches: whole sequences; the schedule's own number counts slices, K of a sequence in a row.
    Raises `ScheduleError` for a count that is no whole number above 0.
    """
    need_counts("Seq1F1B", num_stages=num_stages, num_micro_batches=num_micro_batches, num_slices=num_slices)
    slices = np.arange(num_micro_batches * num_slices, dtype=np.int32)
    from_the_last = slices.reshape(-1, num_slices)[:, ::-1].ravel()
    behind = np.arange(num_stages)[::-1] + num_slices - 1
    none = np.zeros_like(slices)
    sweeps = [Sweep("F", Chunks(slices, none), 0), Sweep("B", Chunks(from_the_last, none), behind)]
    return Schedule(
        name="Seq1F1B",
        rank_of=(tuple(range(num_stages)),),
        num_micro_batches=len(slices),
        num_slices=num_slices,
        actions=actions_of(sweeps, np.arange(num_stages, dtype=np.int32)[:, None]),
    )
