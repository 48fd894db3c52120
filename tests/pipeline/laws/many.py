"""One schedule with many costs at once: as many copies of its plan beside each other, run together."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.pipeline.as_plan import plan_of
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.laws.bubbles import Times
from weftrace.pipeline.schedule import Schedule
from weftrace.plan import Plan, timetable


def drawn(num: int, seed: int, *, overlap: str = "F") -> list[Times]:
    """Random whole times. F&B is anything from F, or from the longer of F and B where overlap is "max", to F + B."""
    chance = np.random.default_rng(seed)
    F, I = chance.integers(0, 50, (2, num))  # noqa: E741
    W = chance.integers(0, 50, num)
    least = F if overlap == "F" else np.maximum(F, I + W)
    FB = least + (chance.random(num) * (F + I + W - least + 1)).astype(int)
    return [Times(*map(int, each)) for each in zip(F, I, W, I + W, FB, strict=True)]


def bubbles_of(schedule: Schedule, cases: list[Times]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bubble of each case, with a barrier and as a span: the most that a rank idles."""
    one = plan_of(schedule, Costs.units())
    num, num_ranks = len(cases), schedule.num_ranks
    copy = np.repeat(np.arange(num), len(one))
    kinds = schedule.actions["kind"].cast(pl.String).to_list()
    times = np.array([[each._asdict()["FB" if kind == "F&B" else kind] for kind in kinds] for each in cases])
    ops = pl.concat([one.ops.drop("id")] * num).with_columns(
        rank=np.tile(one.ops["rank"].to_numpy(), num) + copy * num_ranks, duration_ns=times.reshape(-1)
    )
    shift = np.repeat(np.arange(num), one.waits.height) * len(one)
    waits = pl.concat([one.waits] * num).with_columns(
        op=np.tile(one.waits["op"].to_numpy(), num) + shift, on=np.tile(one.waits["on"].to_numpy(), num) + shift
    )
    run = timetable(Plan(name=schedule.name, ops=ops, waits=waits))
    ends = np.flatnonzero(np.diff(ops["rank"].to_numpy(), append=-1))
    starts = np.append(0, ends[:-1] + 1)
    busy = np.add.reduceat(run.end_ns - run.start_ns, starts).reshape(num, num_ranks)
    until, begin = run.end_ns[ends].reshape(num, num_ranks), run.start_ns[starts].reshape(num, num_ranks)
    return until.max(axis=1) - busy.min(axis=1), (until - begin - busy).max(axis=1)
