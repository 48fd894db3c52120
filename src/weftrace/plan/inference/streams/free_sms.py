"""Which ops started late because others held the SMs?

Two kernels that each want most of the device's SMs run one after the other though their streams are free: the second
starts as the first one's last blocks drain, a little before it ends. An op that nothing else explains waited for free
SMs where ops on other streams, that ran while it was ready, held so many that its own did not fit; the one that ended
at its start, or else the next to end, made room.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.confidence import by_votes
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.pairs import SOON_NS
from weftrace.plan.inference.values import SM_WAIT_SCHEMA
from weftrace.units import US, duration

#: A kernel's last blocks drain within this before its end.
MOST_DRAIN_NS = 50 * US
#: A late start in the midst of another op is called a wait for SMs from here on.
LONG_NS = 100 * US

_Ints = NDArray[np.int64]


def waits_for_sms(ops: Launched, ready_ns: _Ints, num_sms: int | None) -> pl.DataFrame:
    """Waits for free SMs, a row a late start: waiter, awaited (places in launch order), late_ns, drain_ns (how long
    before the end of the awaited the waiter started; negative where after), at_its_end (whether it started as that
    one ended or drained; else it started in its midst, at least `LONG_NS` late).

    ready_ns: of each op, [N], with its stream, launch and waits. num_sms: of the device; None finds nothing.
    """
    late = np.flatnonzero(ops.start_ns - ready_ns > SOON_NS) if num_sms else np.zeros(0, np.int64)
    streams = np.unique(ops.stream)
    want = np.minimum(ops.blocks, num_sms or 0)
    held = np.zeros(len(late), np.int64)
    awaited = np.full(len(late), -1, np.int64)
    best = np.full(len(late), np.iinfo(np.int64).max)
    for stream in streams.tolist():
        places = np.flatnonzero(ops.stream == stream)
        begins = ops.start_ns[places]
        running = np.searchsorted(begins, ops.start_ns[late], side="left") - 1
        running = places[np.maximum(running, 0)]
        beside = (
            (ops.stream[late] != stream)
            & (ops.start_ns[running] < ops.start_ns[late])
            & (ops.end_ns[running] > ready_ns[late])
            & (ops.end_ns[running] > ops.start_ns[late] - SOON_NS)
        )
        held += np.where(beside, want[running], 0)
        off = ops.end_ns[running] - ops.start_ns[late]
        off = np.where(beside & (want[running] > 0), np.where(off < 0, -off, off), best)
        awaited = np.where(off < best, running, awaited)
        best = np.minimum(best, off)
    full = (awaited >= 0) & (held + np.maximum(want[late], 1) > (num_sms or 0))
    waiter, awaited = late[full], awaited[full]
    drain = ops.end_ns[awaited] - ops.start_ns[waiter]
    found = pl.DataFrame({
        "waiter": waiter, "awaited": awaited, "late_ns": (ops.start_ns - ready_ns)[waiter], "drain_ns": drain,
        "at_its_end": (drain <= MOST_DRAIN_NS) & (drain >= -SOON_NS),
    })  # fmt: skip
    return found.filter(pl.col("at_its_end") | (pl.col("late_ns") >= LONG_NS))


def in_plan(ops: Launched, found: pl.DataFrame) -> pl.DataFrame:
    """What `waits_for_sms` found, by rows of the plan: frame of `SM_WAIT_SCHEMA`."""
    rows = {"op": ops.op[found.get_column("waiter").to_numpy()], "on": ops.op[found.get_column("awaited").to_numpy()]}
    summary = pl.DataFrame(rows).hstack(found.select("late_ns", "drain_ns", "at_its_end"))
    return summary.select(pl.col(name).cast(dtype) for name, dtype in SM_WAIT_SCHEMA.items())


def drain_ns(found: pl.DataFrame) -> int:
    """How long before its end a kernel makes room, the median; 0 where no wait tells. found: of `waits_for_sms`."""
    return int(found.filter("at_its_end").get_column("drain_ns").median() or 0)  # type: ignore[arg-type]


def sm_waits(ops: Launched, found: pl.DataFrame) -> pl.DataFrame:
    """Those that a replay can keep, which end with another op: op, on, lag_ns, votes_for, votes_against, confidence,
    why, source.

    Votes: of the waits of an op of this name for one of that name, how many started as the other ended, and how many
    in its midst.
    """
    waiter, awaited = (found.get_column(name).to_numpy() for name in ("waiter", "awaited"))
    votes = found.with_columns(
        op=pl.Series(ops.op[waiter]), on=pl.Series(ops.op[awaited]),
        name=pl.Series(ops.name[waiter]), other=pl.Series(ops.name[awaited]),
    ).with_columns(
        votes_for=pl.col("at_its_end").sum().over("name", "other"),
        votes_against=(~pl.col("at_its_end")).sum().over("name", "other"),
    )  # fmt: skip
    return votes.filter("at_its_end").select(
        "op", "on", "votes_for", "votes_against", lag_ns=pl.lit(-drain_ns(found)),
        confidence=by_votes(),
        why=pl.lit("sm"), source=pl.lit("sm"),
    )  # fmt: skip


def told_sm_waits(found: pl.DataFrame) -> list[str]:
    """What a replay leaves out: waits for SMs that ended in the midst of another op."""
    midst = found.filter(~pl.col("at_its_end"))
    if midst.is_empty():
        return []
    late = duration(int(midst.get_column("late_ns").sum()))
    many = f"{midst.height} ops waited" if midst.height > 1 else "1 op waited"
    return [
        f"{many} {late} for free SMs that another op released before its end: such a wait has no end "
        "that a replay could keep."
    ]
