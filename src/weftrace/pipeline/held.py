"""What does a rank hold over time, in bytes or in chunks of activations?

Each action takes memory at its start and frees it at its end. An offloaded chunk is free once its copy to the host has
ended, and held again from when its copy back begins.

Legend: N actions, S stages, K kinds of action, R ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.pipeline.costs import Costs, of_stages
from weftrace.pipeline.planned.copies import copies_of
from weftrace.pipeline.planned.streams import FROM_HOST, TO_HOST
from weftrace.pipeline.schedule import KINDS, Schedule, code_of
from weftrace.plan import Timetable
from weftrace.plan.times import MAX_TOTAL_BYTES

_F, _B, _I, _W, _FB = (code_of(kind) for kind in ("F", "B", "I", "W", "F&B"))
_Ints = NDArray[np.int64]


class Sizes(NamedTuple):
    """What a chunk of each stage holds, int64 [S]: activation, from its F until I or B; pending, from I until W."""

    activation_S: _Ints
    pending_S: _Ints


def in_bytes(schedule: Schedule, costs: Costs) -> Sizes:
    """The bytes of the costs."""
    return Sizes(*(of_stages(costs, name, schedule.num_stages) for name in ("activation_bytes", "pending_bytes")))


def in_chunks(schedule: Schedule, costs: Costs) -> Sizes:
    """One for each chunk whose activations, or a part of them, are held."""
    whole = np.ones(schedule.num_stages, np.int64)
    if costs.pending_bytes is None:
        return Sizes(whole, whole)
    return Sizes(whole, (of_stages(costs, "pending_bytes", schedule.num_stages) != 0).astype(np.int64))


def changes_of_kinds(sizes: Sizes, *, forward_only: bool) -> tuple[_Ints, _Ints]:
    """What an action of each kind and stage takes at its start and at its end (negative: frees), [K, S] each; of an
    F&B at its end nothing, as that depends on the stage of its backward."""
    start_KS, end_KS = (np.zeros((len(KINDS), len(sizes.activation_S)), np.int64) for _ in range(2))
    start_KS[[_F, _FB]] = sizes.activation_S
    if forward_only:  # nothing waits for a backward
        end_KS[_F] = -sizes.activation_S
    end_KS[_B], end_KS[_I], end_KS[_W] = -sizes.activation_S, sizes.pending_S - sizes.activation_S, -sizes.pending_S
    return start_KS, end_KS


@dataclass(frozen=True, slots=True)
class Holdings:
    """A schedule at its times, by which the curve of any rank is made.

    start_KS, end_KS: see `changes_of_kinds`. first: row of each rank's first action, and the number of all, [R + 1].
    pairs, back_stage: row of each F&B, and the stage of its backward. copies: rank, stream, row of `times` and stage of
    each copy.
    """

    schedule: Schedule
    times: Timetable
    sizes: Sizes
    kind_N: NDArray[np.uint8]
    stage_N: NDArray[np.int32]
    start_KS: _Ints
    end_KS: _Ints
    first: _Ints
    pairs: _Ints
    back_stage: NDArray[np.int32]
    copies: pl.DataFrame

    def curve(self, rank: int) -> tuple[_Ints, _Ints]:
        """Times at which the rank takes or frees something, ascending, and what it holds from each on.

        Raises `PlanError` where sizes are too large to be added up.
        """
        own = slice(self.first[rank], self.first[rank + 1])
        code, stage = self.kind_N[own], self.stage_N[own]
        time_ns, change = (np.empty(2 * len(code), np.int64) for _ in range(2))
        time_ns[::2], time_ns[1::2] = self.times.start_ns[own], self.times.end_ns[own]
        change[::2], change[1::2] = self.start_KS[code, stage], self.end_KS[code, stage]
        pairs = slice(*np.searchsorted(self.pairs, [own.start, own.stop]))
        change[1::2][self.pairs[pairs] - own.start] = -self.sizes.activation_S[self.back_stage[pairs]]
        if len(self.copies):
            for stream, at, sign in ((TO_HOST, self.times.end_ns, -1), (FROM_HOST, self.times.start_ns, 1)):
                copied = self.copies.filter(rank=rank, stream=stream)
                time_ns = np.append(time_ns, at[copied["row"].to_numpy()])
                change = np.append(change, sign * self.sizes.activation_S[copied["stage"].to_numpy()])
        if float(np.abs(change).sum(dtype=np.float64)) >= MAX_TOTAL_BYTES:
            raise PlanError(f"schedule {self.schedule.name!r}: its activations are too large to be added up.")
        if (time_ns[1:] < time_ns[:-1]).any():  # actions of a rank follow each other, but copies, or a run, need not
            order = np.argsort(time_ns, kind="stable")
            time_ns, change = time_ns[order], change[order]
        held = np.cumsum(change)
        is_last = np.append(time_ns[1:] != time_ns[:-1], np.ones(min(1, len(time_ns)), bool))
        return time_ns[is_last], held[is_last]

    def peaks(self) -> _Ints:
        """The most that each rank holds, [R]."""
        return np.array([self.curve(rank)[1].max(initial=0) for rank in range(self.schedule.num_ranks)], np.int64)


def changes_of_curve(time_ns: _Ints, held: _Ints) -> tuple[_Ints, _Ints]:
    """A curve whose first row is at 0, and whose others are there where what is held changes."""
    if not len(time_ns) or time_ns[0]:
        time_ns, held = np.append(0, time_ns), np.append(0, held)
    changes = np.append(True, held[1:] != held[:-1])
    return time_ns[changes], held[changes]


def holdings(schedule: Schedule, times: Timetable, sizes: Sizes) -> Holdings:
    """times: of a plan whose first rows are the schedule's actions."""
    num = len(schedule)
    copies = times.plan.ops[num:].select("rank", "stream", row=pl.int_range(pl.len(), dtype=pl.Int64) + num)
    copies = copies.filter(pl.col("stream").is_in([TO_HOST, FROM_HOST]))
    stage = np.empty(0, np.int32)
    if len(copies):  # first those to the host, in the order of forwards, then those back, in the order of backwards
        made = copies_of(schedule)
        stage = np.append(made.stage, made.stage[np.argsort(made.backward, kind="stable")])
    kind_N = schedule.kind_N
    pairs = np.flatnonzero(kind_N == _FB)
    actions = schedule.actions.clone()  # a constant column takes memory in the frame in which it is looked at
    start_KS, end_KS = changes_of_kinds(sizes, forward_only=bool((kind_N == _F).all()))
    return Holdings(
        schedule=schedule,
        times=times,
        sizes=sizes,
        kind_N=kind_N,
        stage_N=schedule.stage_N,
        start_KS=start_KS,
        end_KS=end_KS,
        first=np.searchsorted(schedule.rank_N, np.arange(schedule.num_ranks + 1)),
        pairs=pairs,
        back_stage=actions.get_column("back_stage").gather(pairs).to_numpy(),
        copies=copies.with_columns(stage=pl.Series(stage)),
    )
