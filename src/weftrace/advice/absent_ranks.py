"""Which communication of a plan ends when ranks decide that are not in it, and how long may its transfer take at most?

A rank's part of a collective is waiting, until the last rank has come, and transfer. Where all ranks of the collective
are in the plan the two are told apart: transfer = own end - last start. Where some are not, only bounds are known.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import covered, union
from weftrace.plan.inference.values import Inferred
from weftrace.units import counted

#: A transfer takes at most this many times the fastest of its kind, size and group.
MOST_SPREAD = 1.25
#: Of fewer repeats the fastest tells nothing: each may have waited.
LEAST_REPEATS = 3
#: From this share of the span on, communication with absent ranks is said first.
MATTERS = 0.05

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Absent:
    """Communication whose end is not decided in the plan alone.

    ops: rows of the plan, ascending. transfer_most_ns: of each the most that its transfer can take, [ops]: its time in
    the plan, and no more than `MOST_SPREAD` times the fastest of at least `LEAST_REPEATS` with its kind, payload,
    datatype and group; where no file tells the group, all its time as seen. meets: whether what it meets in the plan is
    surely of its collective, for files tell the group, [ops]. are_all_global: whether all communication of the plan is
    of groups of the whole job, so that all ranks have the same. present: ranks in the plan; world_size: in the job,
    None where no file tells. share: of the measured span the part with such communication, of the rank with the most.
    """

    ops: _Ints
    transfer_most_ns: _Ints
    meets: NDArray[np.bool_]
    are_all_global: bool
    present: int
    world_size: int | None
    share: float

    @property
    def matters(self) -> bool:
        """Whether it takes so much of the span that it is to be said first."""
        return len(self.ops) > 0 and self.share >= MATTERS

    @property
    def who(self) -> str:
        """What is here of the job: a clause."""
        if self.world_size is None:
            return f"{counted(self.present, 'rank')} of a job of unknown size"
        return f"{self.present:,} of {counted(self.world_size, 'rank')}"


_KEPT: WeakKeyDictionary[Inferred, Absent] = WeakKeyDictionary()  # each is asked for many times


def absent_from(inferred: Inferred) -> Absent:
    """What of a plan depends on ranks that are not in it; nothing of a plan that was not measured.

    A collective is complete where as many ranks meet as its group has; without a group's size in the files, where all
    ranks of the job are here and the collective was matched; sends and receives where a pair meets, or where a receive
    waits for its send, which waits for nobody.
    """
    if (known := _KEPT.get(inferred)) is None:
        known = _KEPT[inferred] = _absent(inferred)
    return known


def _absent(inferred: Inferred) -> Absent:
    worlds = [work.trace.world_size for work in inferred.works]
    present = len(inferred.plan.ranks)
    world = max((each for each in worlds if each), default=None)
    if not worlds or all(work.trace.simulated and work.trace.world_size is None for work in inferred.works):
        return _none(present, world)
    if world == 1:
        return _none(present, world)
    numbers = {work.trace.rank for work in inferred.works}
    if world is None and all(work.basis == "ranges" for work in inferred.works) and numbers == set(range(present)):
        return _none(present, world)  # plain files state no size: the ranks that they number are the job
    all_here = world is not None and present >= world
    met = pl.when(pl.col("meet").is_null()).then(1).otherwise(pl.len().over("meet"))
    is_pair = (pl.col("collective") == "send_recv").fill_null(False)
    needed = pl.when(is_pair & pl.lit(all_here)).then(2).otherwise("group_size")
    complete = pl.when(needed.is_null()).then((met > 1) & all_here).otherwise(met >= needed)
    complete |= is_pair & pl.col("op").is_in(_between_ranks(inferred).implode())
    known = _communication(inferred).with_columns(
        is_open=pl.when(pl.col("what") == "fused").then(not all_here).otherwise(~complete),
        is_global=(pl.col("group_size") == (world or 0)).fill_null(False) & ~is_pair,
    )
    same = ("at", "collective", "payload_elems", "dtype", "group", "group_ranks")
    least = pl.col("duration_ns").min().over(same)
    bounded = (pl.len().over(same) >= LEAST_REPEATS) & pl.col("payload_elems").is_not_null()
    most = pl.when(bounded).then(pl.min_horizontal("duration_ns", (least * MOST_SPREAD).ceil().cast(pl.Int64)))
    seen = pl.max_horizontal("duration_ns", pl.col("end_ns") - pl.col("start_ns"))
    otherwise = pl.when(pl.col("group_size").is_null()).then(seen).otherwise("duration_ns")
    known = known.with_columns(most=most.otherwise(otherwise))
    mine = known.filter("is_open").sort("op")
    return Absent(
        ops=mine.get_column("op").to_numpy().astype(np.int64),
        transfer_most_ns=mine.get_column("most").to_numpy(),
        meets=mine.get_column("group_size").is_not_null().to_numpy(),
        are_all_global=bool(known.get_column("is_global").all()),
        present=present,
        world_size=world,
        share=_share(inferred, mine),
    )


def _between_ranks(inferred: Inferred) -> pl.Series:
    """Ops of which one waits for the end of the other, on another rank."""
    rank = inferred.plan.ops.get_column("rank")
    waits = inferred.plan.waits.filter(pl.col("since").cast(pl.String) == "end").select("op", "on")
    apart = rank.gather(waits.get_column("op")) != rank.gather(waits.get_column("on"))
    return pl.concat([waits.get_column(name).filter(apart) for name in ("op", "on")]).unique()


def _none(present: int, world: int | None) -> Absent:
    empty = np.zeros(0, np.int64)
    sure = np.zeros(0, np.bool_)
    return Absent(
        ops=empty, transfer_most_ns=empty, meets=sure, are_all_global=True, present=present, world_size=world, share=0.0
    )


def _communication(inferred: Inferred) -> pl.DataFrame:
    """Ops that communicate: op, at, what, meet, duration_ns, start_ns, end_ns, and NCCL's metadata of each."""
    columns = ("collective", "payload_elems", "dtype", "group", "group_size", "group_ranks")
    ops = inferred.plan.ops.select("meet", "duration_ns").with_row_index("op")
    ops = ops.hstack(inferred.measured.select("at", "event", "what", "start_ns", "end_ns"))
    ops = ops.filter(pl.col("what").is_in(("communication", "fused")), pl.col("event").is_not_null())
    parts = []
    for place, work in enumerate(inferred.works):
        mine = ops.filter(at=place)
        text = pl.col("collective", "dtype", "group", "group_ranks").cast(pl.String)
        parts.append(mine.hstack(work.events.select(columns).with_columns(text)[mine.get_column("event")]))
    return pl.concat(parts)


def _share(inferred: Inferred, ops: pl.DataFrame) -> float:
    span = inferred.replay.span_ns
    most = 0
    for _, mine in ops.group_by("at"):
        joined = union(mine.get_column("start_ns").to_numpy(), mine.get_column("end_ns").to_numpy())
        first, last = mine.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
        most = max(most, int(covered(joined, np.array([first]), np.array([last]))[0]))
    return most / span if span else 0.0
