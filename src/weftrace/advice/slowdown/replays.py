"""Replays of one plan with other durations: how long does each step take then?"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.graph import Graph, graph_of, run
from weftrace.plan.inference.values import Inferred

_MOST_THREADS = 8

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replays:
    """One plan, run with other durations.

    graph: its arrays. on_device: whether an op counts to its step's end, [ops]. steps: their names, ascending.
    kept_ns: time between steps that is of none, [steps]. by_step: the ops that count, in order of their step;
    first_of_step: of each step, where its ops begin in `by_step`, [steps].
    """

    graph: Graph
    counts: NDArray[np.bool_]
    steps: tuple[int, ...]
    kept_ns: _Ints
    by_step: _Ints
    first_of_step: _Ints

    @classmethod
    def of(cls, inferred: Inferred, step: pl.Series) -> Replays:
        """step: of each op; -1 of none."""
        counts = inferred.measured.get_column("event").is_not_null().to_numpy()
        named = step.to_numpy()
        used = np.unique(named[counts])
        used = used[used >= 0] if (used >= 0).any() else used
        number = np.searchsorted(used, named).clip(0, len(used) - 1)
        number[(named < 0) & (len(used) > 1)] = -1
        start, end = (inferred.measured.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
        first = np.array([start[counts & (number == at)].min() for at in range(len(used))])
        last = np.array([end[counts & (number == at)].max() for at in range(len(used))])
        order = np.argsort(first, kind="stable")
        renumber = np.argsort(order)
        laid = any(work.trace.plain is not None and work.trace.plain.moved for work in inferred.works)
        kept = np.zeros(len(used), np.int64)
        if laid:
            kept[1:] = np.maximum(first[order][1:] - last[order][:-1], 0)
        counts &= number >= 0
        rows = np.flatnonzero(counts)
        turn = renumber[number[rows]]
        return cls(
            graph=graph_of(inferred.plan),
            counts=counts,
            steps=tuple(int(used[at]) for at in order),
            kept_ns=kept,
            by_step=rows[np.argsort(turn, kind="stable")],
            first_of_step=np.searchsorted(np.sort(turn), np.arange(len(used))),
        )

    def step_ns(self, durations_ns: _Floats) -> _Floats:
        """How long each step takes, [steps], from the end of the one before: all add up to the replayed span."""
        held = np.maximum(np.rint(durations_ns), 0).astype(np.int64)
        result = run(replace(self.graph, hold_ns=held))
        return self.between(result.start_ns, result.end_ns)

    def each_step_ns(self, durations_ns: Iterable[_Floats]) -> list[_Floats]:
        """The same of several, side by side."""
        with ThreadPoolExecutor(max_workers=min(_MOST_THREADS, os.cpu_count() or 1)) as pool:
            return list(pool.map(self.step_ns, durations_ns))

    def between(self, start_ns: _Ints, end_ns: _Ints) -> _Floats:
        """Lengths of steps by these times of ops, [steps]."""
        ends = np.maximum.accumulate(np.maximum.reduceat(end_ns[self.by_step], self.first_of_step))
        begin = int(start_ns[self.by_step].min())
        return np.diff(ends, prepend=begin).astype(np.float64) - self.kept_ns
