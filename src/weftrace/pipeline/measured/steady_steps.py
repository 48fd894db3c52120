"""Which steps of a run tell what its actions cost? Not a first one that is much slower, as warm-up makes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from weftrace.pipeline.measured.runs import TOOK, MeasuredRun
from weftrace.units import counted

_WARMS_UP: Final = 1.25  # times the median of the others
_DIFFERS: Final = 1.1  # slowest by quickest: less is not worth a sentence


def steady_steps(run: MeasuredRun) -> MeasuredRun:
    """The run without a first step whose actions take over 1.25 times as long as the median of the others; of two
    steps, that is the later alone. `notes` say so, and by how much the steps that are left differ.

    Steps of fewer actions than the fullest, as of an evaluation, are neither compared nor left out.
    """
    steps = run.actions.group_by("step").agg(num=pl.len(), busy_ns=TOOK.sum()).sort("step")
    alike = steps.filter(pl.col("num") == pl.col("num").max(), pl.col("busy_ns") > 0)
    busy = alike.get_column("busy_ns").to_numpy()
    if len(busy) < 2:
        return run
    notes = []
    slower = float(busy[0] / np.median(busy[1:]))
    if slower > _WARMS_UP:
        first, *others = alike.get_column("step").to_list()
        whose = (
            f"the median of the {len(others)} later ones" if len(others) > 1 else f"step {others[0]}, the later of two"
        )
        notes.append(f"step {first} is left out as warm-up: its actions take {slower:.2f} times as long as {whose}")
        run, busy = replace(run, actions=run.actions.filter(pl.col("step") != first)), busy[1:]
    if (ratio := float(busy.max() / busy.min())) > _DIFFERS:
        notes.append(
            f"{counted(len(busy), 'step')} differ: the slowest's actions take {ratio:.2f} times the quickest's"
        )
    return replace(run, notes=(*run.notes, *notes))
