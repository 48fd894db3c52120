"""Which op on another stream does an op wait for, where the file does not say? What repeats tell.

A call that makes a stream wait (`cudaStreamWaitEvent`) names neither stream nor event in most files. But the same call
comes again in each layer and step, and where the wait matters, the op that waits starts when the other has ended. For
each pair of streams the candidate is the latest op on the other, by its place in launch order before the call, that
never ends after the waiter starts, in any repeat; and only one after which an event may have been recorded, where a
burst of launches ends. A repeat votes for it where it *binds*: the waiter was ready otherwise (its stream free, its
launch made) before the other ended, and started right after. Most votes win; then what they explain is taken away, and
the rest is counted again. A call for which nothing votes is placed where only one pair of streams is left that did not
wait for each other already, or only one with the stream that does most. In a file without such calls, ops that start
late are voted on as if one stood before each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.confidence import BY_ELIMINATION, by_votes
from weftrace.plan.inference.medians import median_ns
from weftrace.plan.inference.streams.elimination import by_elimination
from weftrace.plan.inference.streams.launch_order import Launched
from weftrace.plan.inference.streams.pairs import SOON_NS, Calls, Pair, burst_ends, members_of, pairs_of, tried_streams
from weftrace.units import US

#: Where no calls tell: a start this late has a cause too if at least so many repeats, nearly all, are and bind.
SLIGHT_NS, FEWEST, ALWAYS = 3 * US, 3, 0.8
_STREAM_WAITS = r"(?i)^(cuda|hip|cu)StreamWaitEvent"
_MOST_ROUNDS = 8  # each takes away what it explains; on recorded traces nothing is left to vote on well before

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Voted:
    """waits: waiter and awaited, places in launch order, and binds, a row a repeat; rows that were voted on together
    share `group`. ready_ns: of each launched op, [N], with these waits. latency_ns: from the end of the awaited to the
    start of the waiter, the median of those that bind; 0 without any. num_open: calls that no pair of streams could
    be found for."""

    waits: pl.DataFrame
    ready_ns: _Ints
    latency_ns: int
    num_open: int

    def counted(self, ops: Launched, explained: pl.Series) -> pl.DataFrame:
        """The waits with their votes: op, on, votes_for, votes_against, confidence, why, source.

        explained: places of ops that something else made late: there, a wait that does not bind has none against it.
        """
        late = ops.start_ns - self.ready_ns > SOON_NS
        late[explained.to_numpy()] = False
        votes = self.waits.with_columns(
            pl.Series("op", ops.op[self.waits.get_column("waiter").to_numpy()]),
            pl.Series("on", ops.op[self.waits.get_column("awaited").to_numpy()]),
            pl.Series("is_late", late[self.waits.get_column("waiter").to_numpy()]),
            votes_for=pl.col("binds").sum().over("group"),
        ).with_columns(votes_against=(pl.col("is_late") & ~pl.col("binds")).sum().over("group"))
        sure = pl.when(pl.col("votes_for") > 0).then(by_votes()).otherwise(BY_ELIMINATION)
        votes = votes.with_columns(confidence=sure).sort("confidence", descending=True, maintain_order=True)
        votes = votes.unique(("op", "on"), keep="first", maintain_order=True).sort("op", "on")
        return votes.select(
            "op", "on", "votes_for", "votes_against", "confidence", why=pl.lit("vote"), source=pl.lit("voted")
        )


def stream_wait_calls(events: pl.DataFrame, origin_ns: int) -> _Ints:
    """Starts of the calls that make a stream wait, ascending, ns from the plan's 0. events: a trace's."""
    names = events.get_column("name").unique()
    names = names.filter(names.cast(pl.String).str.contains(_STREAM_WAITS))
    at = events.filter(pl.col("name").is_in(names.implode())).get_column("ts_ns").sort().to_numpy()
    return at - origin_ns


def voted_waits(ops: Launched, at_ns: _Ints) -> Voted:
    """Waits between streams as repeats tell them. at_ns: of `stream_wait_calls`; empty where the file has none."""
    ready = ops.ready_ns.copy()
    calls = Calls(at_ns, _signatures(ops, at_ns), True) if len(at_ns) else _late_ops(ops, ready)
    found = list(_bound(ops, calls, ready))
    num_open = 0
    if calls.are_real:
        more, num_open = by_elimination(ops, calls, found)
        found += more
    else:  # some wait in some repeats only, as the first layer of a step does not for the step before
        found += _bound(ops, _late_ops(ops, ready, alone=True), ready)
        found += _bound(ops, _late_ops(ops, ready, always=True), ready, least=ALWAYS)
    return _voted(ops, found, ready, num_open)


# --- groups of repeats ------------------------------------------------------------------------------------------------


def _signatures(ops: Launched, at_ns: _Ints) -> _Ints:
    """A number for each call, the same for those between the same two launches, by name and stream, of a phase, with as
    many calls before them there. Not more: what comes after the last layer, or before the first, is another."""
    before = np.searchsorted(ops.at_ns, at_ns, side="left")  # in whole µs a launch of the same stamp comes after
    begins = np.flatnonzero(np.append(True, before[1:] != before[:-1])[: len(before)])
    parts = [np.arange(len(at_ns)) - np.repeat(begins, np.diff(np.append(begins, len(at_ns))))]
    for numbers in (ops.name, ops.stream):
        padded = np.concatenate([[-1], numbers, [-1]])
        parts += [padded[before + shift] for shift in (0, 1)]
    parts.append(np.append(ops.phase, -1)[before])
    return _numbered(parts)


def _late_ops(ops: Launched, ready: _Ints, *, alone: bool = False, always: bool = False) -> Calls:
    """In place of calls: every op of a group of repeats in which one at least started late, just before its launch.
    alone: only those that did. always: a little late, in nearly all repeats."""
    previous = np.arange(len(ops)) - 1
    named = np.append(ops.name, -1)
    group = _numbered([named[previous], ops.name, ops.stream, ops.phase])
    late = ops.start_ns - ready > (SLIGHT_NS if always else SOON_NS)
    size = np.bincount(group, minlength=int(group.max(initial=-1)) + 1)
    num_late = np.bincount(group, late, len(size))
    wanted = ((size >= FEWEST) & (num_late >= ALWAYS * size) if always else num_late > 0)[group]
    chosen = np.flatnonzero(late if alone else wanted)
    return Calls(ops.at_ns[chosen], _numbered([group[chosen]]), False)


def _numbered(parts: list[_Ints]) -> _Ints:
    """Equal rows of these columns get equal numbers."""
    frame = pl.DataFrame({str(i): part for i, part in enumerate(parts)})
    return frame.select(pl.struct(pl.all()).rank("dense") - 1).to_series().cast(pl.Int64).to_numpy()


# --- waits that bind --------------------------------------------------------------------------------------------------


def _bound(ops: Launched, calls: Calls, ready: _Ints, least: float = 0) -> Iterator[tuple[Pair, _Ints]]:
    """Pairs of streams with the calls that each explains, most votes first; `ready` is moved on as they are found.

    First waits whose waiter is the next launch after the call, as it is where the two are written together; last such
    for events that were recorded in the midst of a burst of launches. least: share of the repeats that must vote.
    """
    streams = tried_streams(ops)
    num_groups = int(calls.group.max(initial=-1)) + 1
    members = members_of(calls.group)
    size = np.bincount(calls.group, minlength=num_groups)
    taken = np.zeros(num_groups, bool)
    may_record = burst_ends(ops, calls)
    for turn in range(_MOST_ROUNDS):
        rows = []
        pairs = [pair for pair in pairs_of(ops, calls, streams, ready, may_record) if pair.binds.any()]
        for number, pair in enumerate(pairs):
            votes = np.bincount(calls.group, pair.binds, num_groups)
            fits = (votes > 0) & (votes >= least * size) & ~taken
            if turn == 0 and calls.are_real:
                fits &= np.bincount(calls.group, pair.is_next, num_groups) == size
            of = np.flatnonzero(fits)
            if not len(of):
                continue
            first = np.array([members[group][0] for group in of.tolist()], np.int64)
            apart = ops.at_ns[pair.waiter[first]] - calls.at_ns[first]
            rows.append(pl.DataFrame({
                "group": of, "pair": np.full(len(of), number), "votes": votes[of], "apart": apart,
                "waiter": pair.waiter[first],
            }))  # fmt: skip
        if not rows:
            if turn and may_record.all():
                return
            may_record |= turn > 0
            continue
        best = (
            pl.concat(rows)
            .sort("votes", "apart", descending=[True, False], maintain_order=True)
            .unique("group", keep="first", maintain_order=True)
            .sort("apart", maintain_order=True)
            .unique(("pair", "waiter"), keep="first", maintain_order=True)
        )
        for group, number in best.select("group", "pair").iter_rows():
            at = members[group]
            pair = pairs[number]
            at = at[pair.awaited[at] >= 0]
            taken[group] = calls.are_real  # such a call waits once; an op that stands for one may wait for several
            np.maximum.at(ready, pair.waiter[at], ops.end_ns[pair.awaited[at]])
            yield pair, at


# --- what was found ---------------------------------------------------------------------------------------------------


def _voted(ops: Launched, found: list[tuple[Pair, _Ints]], ready: _Ints, num_open: int) -> Voted:
    schema = pl.Schema({"waiter": pl.Int64, "awaited": pl.Int64, "binds": pl.Boolean, "group": pl.Int64})
    frames = [
        pl.DataFrame({"waiter": pair.waiter[at], "awaited": pair.awaited[at], "binds": pair.binds[at], "group": number})
        for number, (pair, at) in enumerate(found)
    ]
    waits = pl.concat([pl.DataFrame(schema=schema), *(frame.cast(schema) for frame in frames)])
    bound = waits.filter("binds")
    between = ops.start_ns[bound.get_column("waiter")] - ops.end_ns[bound.get_column("awaited")]
    return Voted(
        waits=waits, ready_ns=ready, num_open=num_open,
        latency_ns=median_ns(pl.Series(between)),
    )  # fmt: skip
