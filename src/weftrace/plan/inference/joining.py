"""The plans of a job's ranks as one: what the ranks did together is a meet, and all times are on one clock.

A rank's part of a collective lasts from when it comes until all have come, and then for the transfer. In a plan of one
rank all of that is its duration; here the waiting is what the meet makes of the plan, and only the transfer is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.inference.values import EDGE_SCHEMA, Inferred, Kept
from weftrace.plan.inference.waits import as_waits
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.units import MS, counted, duration

#: Members of a collective that end farther apart than this were matched wrongly, or do not end together.
UNEVEN_NS = 1 * MS

_Ints = NDArray[np.int64]
#: How times (ns) on the clock of the rank at a position are on the common one.
ToCommon = Callable[[int, _Ints], _Ints]


def joined(
    ranks: Sequence[Inferred],
    members: pl.DataFrame,
    *,
    numbers: Sequence[int] | None = None,
    to_common: ToCommon | None = None,
    notes: Sequence[str] = (),
) -> Inferred:
    """One plan of all ranks.

    ranks: of each what `infer` gives. members: of the collectives that they share, a row a rank and collective, as
    `weftrace.analysis.meetings` matches them: meeting (a number), at (position in `ranks`), start_ns and end_ns on the
    rank's own clock. numbers: what the ranks are called in the plan; by default as their traces say. to_common: from a
    rank's clock to the common one; by default they have one clock. notes: more to be said of the whole.

    A member lasts, in the plan, from the last start over all members to its own end. One that ended before the last
    came, and a collective whose members end more than `UNEVEN_NS` apart, keep what was measured, and a note counts
    them. A rank whose recording began later starts that much later: a wait of source "origin".
    Raises `PlanError` where there is no rank, or two bear one number.
    """
    numbers = [rank.plan.ranks[0] for rank in ranks] if numbers is None else numbers
    _check(ranks, numbers)
    first_op = np.cumsum([0, *(len(rank.plan) for rank in ranks)])
    gap_ns = int(np.median([rank.plan.gap_ns for rank in ranks]))
    begins = [_common(to_common, at, np.array([rank.origin_ns]))[0] for at, rank in enumerate(ranks)]
    origin = int(min(begins))
    ops = pl.concat([_ops(rank, number, gap_ns) for rank, number in zip(ranks, numbers, strict=True)])
    measured = pl.concat([_measured(rank, at, to_common, origin) for at, rank in enumerate(ranks)])
    waits = [_waits(rank, int(first)) for rank, first in zip(ranks, first_op, strict=False)]
    waits.append(_begins(ops, pl.concat(waits), first_op, np.array(begins) - origin))
    every = pl.concat(waits).sort("op", maintain_order=True)
    met, summary = _met(_events(ranks, first_op), members, measured)
    ops = ops.with_columns(
        ops.get_column("meet").scatter(met["op"], met["meet"]),
        ops.get_column("duration_ns").scatter(met["op"], met["transfer_ns"]),
    )
    worlds = {rank.plan.world_size for rank in ranks}
    world = worlds.pop() if len(worlds) == 1 else None
    facts = ranks[0].plan
    plan = Plan(
        name=facts.name if len(ranks) == 1 else f"{len(ranks)} ranks",
        source=facts.source,
        device_name=facts.device_name,
        num_sms=facts.num_sms if len({rank.plan.num_sms for rank in ranks}) == 1 else None,
        world_size=world if world and max(numbers) < world else None,
        gap_ns=gap_ns,
        ops=ops,
        waits=every.select(*WAIT_SCHEMA),
    )
    return Inferred(
        plan=plan,
        works=tuple(work for rank in ranks for work in rank.works),
        measured=measured,
        edges=every.select(*EDGE_SCHEMA),
        origin_ns=origin,
        sm_waits=pl.concat(_moved(rank.sm_waits, int(first)) for rank, first in zip(ranks, first_op, strict=False)),
        kept=_kept(ranks, gap_ns, int((np.array(begins) > origin).sum())),
        num_open=sum(rank.num_open for rank in ranks),
        notes=tuple(dict.fromkeys([*notes, *summary, *(note for rank in ranks for note in rank.notes)])),
    )


def _check(ranks: Sequence[Inferred], numbers: Sequence[int]) -> None:
    if not ranks:
        raise PlanError("there is no rank to join: give the inferred plan of one at least.")
    if len(numbers) != len(ranks) or len(set(numbers)) < len(ranks):
        raise PlanError(
            f"{len(ranks)} ranks are called {', '.join(map(str, numbers))}: each needs a number of its own."
        )


def _common(to_common: ToCommon | None, at: int, times_ns: _Ints) -> _Ints:
    return times_ns if to_common is None else to_common(at, times_ns)


def _ops(rank: Inferred, number: int, gap_ns: int) -> pl.DataFrame:
    """The rank's ops under its number; what its host threads do made to last so that each ends when it did, though the
    gap between two ops is now that of all ranks."""
    ops = rank.plan.ops.with_columns(pl.lit(number, pl.Int32).alias("rank"))
    own = rank.plan.gap_ns
    if own == gap_ns:
        return ops
    host = ops.with_row_index("row").filter(kind="host").sort("stream", maintain_order=True)
    place = pl.int_range(pl.len()).over("stream")
    end = pl.col("duration_ns").cum_sum().over("stream") + place * own
    end = (end - place * gap_ns).cum_max().over("stream") + place * gap_ns
    before = (end.shift(1) + gap_ns).over("stream").fill_null(0)
    fitted = host.select("row", (end - before).alias("duration_ns"))
    return ops.with_columns(ops.get_column("duration_ns").scatter(fitted["row"], fitted["duration_ns"]))


def _measured(rank: Inferred, at: int, to_common: ToCommon | None, origin: int) -> pl.DataFrame:
    times = rank.measured.select("start_ns", "end_ns")
    common = [pl.Series(each.name, _common(to_common, at, each.to_numpy() + rank.origin_ns) - origin) for each in times]
    return rank.measured.with_columns(*common, pl.lit(at, pl.Int32).alias("at"))


def _waits(rank: Inferred, first: int) -> pl.DataFrame:
    return _moved(rank.plan.waits, first).hstack(rank.edges)


def _moved(waits: pl.DataFrame, first: int) -> pl.DataFrame:
    return waits.with_columns((pl.col("op", "on") + first).cast(pl.UInt32))


def _begins(ops: pl.DataFrame, waits: pl.DataFrame, first_op: _Ints, after_ns: _Ints) -> pl.DataFrame:
    """Waits for the first recording to have begun: of ops that nothing else holds back, on ranks that began later."""
    of_rank = np.repeat(np.arange(len(after_ns)), np.diff(first_op))
    free = ops.select(pl.int_range(pl.len()).over("rank", "stream") == 0).to_series().to_numpy().copy()
    free[waits.get_column("op").to_numpy()] = False
    zero = np.flatnonzero(free & (after_ns[of_rank] == 0))[0]
    late = np.flatnonzero(free & (after_ns[of_rank] > 0))
    began = pl.DataFrame({"op": late, "lag_ns": after_ns[of_rank[late]]})
    return as_waits(began.with_columns(on=pl.lit(zero), since=pl.lit("start"), source=pl.lit("origin")))


def _events(ranks: Sequence[Inferred], first_op: _Ints) -> pl.DataFrame:
    """Ops that communicate, with their times as the rank's own file has them: op, at, own_start_ns, own_end_ns."""
    parts = []
    for at, (rank, first) in enumerate(zip(ranks, first_op, strict=False)):
        on_device = rank.measured.with_row_index("op").filter(pl.col("event").is_not_null()).select("op", "event", "at")
        for place, work in enumerate(rank.works):
            mine = on_device.filter(at=place)
            summary = work.events.select("kind", "start_ns", "end_ns")[mine.get_column("event")]
            parts.append(
                mine.select(pl.col("op") + first, pl.lit(at, pl.Int32).alias("at"))
                .hstack(summary.rename({"start_ns": "own_start_ns", "end_ns": "own_end_ns"}))
                .filter(kind="communication")
                .drop("kind")
            )
    return pl.concat(parts)


def _met(events: pl.DataFrame, members: pl.DataFrame, measured: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Ops that meet, with the number of their meet and what their transfer took: op, meet, transfer_ns; and notes.

    Of the channels of one collective, which are one member, the one that ends it meets.
    """
    mine = members.select("meeting", "at", "start_ns", "end_ns").with_row_index("member")
    found = mine.join(events, left_on=("at", "end_ns"), right_on=("at", "own_end_ns"))
    found = found.filter(pl.col("own_start_ns") >= pl.col("start_ns")).sort(
        "member", "own_start_ns", maintain_order=True
    )
    found = found.unique("member", keep="first", maintain_order=True).unique("op", keep="first", maintain_order=True)
    times = measured.select(pl.col("start_ns").alias("came"), pl.col("end_ns").alias("left"))[found.get_column("op")]
    found = found.hstack(times).with_columns(transfer_ns=pl.col("left") - pl.col("came").max().over("meeting"))
    stayed = found.filter(pl.col("transfer_ns") >= 0)
    spread = (pl.col("left").max() - pl.col("left").min()).over("meeting")
    together = stayed.filter(spread <= UNEVEN_NS).filter(pl.len().over("meeting") > 1)
    every, met = (frame.get_column("meeting").n_unique() for frame in (members, together))
    notes = [f"{met:,} of {every:,} collectives hold the ranks together"] if met else []
    if met < every:
        notes.append(
            f"{every - met:,} of {every:,} matched collectives keep each rank's measured time, waiting among it: their "
            f"ends lie more than {duration(UNEVEN_NS)} apart, or only one rank was still there when the last came"
        )
    if gone := found.height - stayed.height:
        notes.append(f"{counted(gone, 'part')} of collectives ended before the last rank came: they wait for nobody")
    numbered = together.select("op", pl.col("meeting").rank("dense").cast(pl.Int32).alias("meet"), "transfer_ns")
    return numbered, tuple(notes)


def _kept(ranks: Sequence[Inferred], gap_ns: int, num_later: int) -> Kept:
    """Of each latency the median over the ranks, of streams that are pinned the sum."""
    kept = [rank.kept for rank in ranks]
    medians = {
        each.name: int(np.median([getattr(one, each.name) for one in kept]))
        for each in fields(Kept)
        if each.name not in ("gap_ns", "num_pinned")
    }
    return Kept(gap_ns=gap_ns, num_pinned=sum(one.num_pinned for one in kept) + num_later, **medians)
