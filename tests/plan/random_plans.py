"""Random plans with everything that a plan can hold, as two plain frames: every column given, every type as it stands.

How one is drawn: moments are laid one after another, each a lone op or a meet of several streams, and ops wait only for
what an earlier moment began, so the plan can run. Then, in a share of them, something is spoilt that would stop it on a
device. Last, rows and waits are shuffled as far as the order on each stream allows: nothing but that order may count.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import polars as pl

KINDS = ("compute", "communication", "memory", "host")
SINCE = ("end", "start")
WHYS = ("data", "launch", "sm", "host", "vote")
NUM_SMS = 132

OPS_SCHEMA: dict[str, Any] = {
    "id": pl.String,
    "name": pl.Categorical,
    "phase": pl.Categorical,
    "kind": pl.Enum(KINDS),
    "rank": pl.Int32,
    "stream": pl.Int32,
    "duration_ns": pl.Int64,
    "num_kernels": pl.Int32,
    "num_sms": pl.Int32,
    "meet": pl.Int32,
    "layer": pl.Int32,
    "micro_batch": pl.Int32,
    "step": pl.Int32,
    "start_bytes": pl.Int64,
    "end_bytes": pl.Int64,
}
WAITS_SCHEMA: dict[str, Any] = {
    "op": pl.UInt32,
    "on": pl.UInt32,
    "since": pl.Enum(SINCE),
    "lag_ns": pl.Int64,
    "why": pl.Enum(WHYS),
}
_Lane = tuple[int, int]  # rank and stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """A plan as frames. spoilt: what was done to it so that it may not be able to run, "" for nothing."""

    ops: pl.DataFrame
    waits: pl.DataFrame
    gap_ns: int
    spoilt: str


@dataclass(slots=True, kw_only=True)
class _Draft:
    """Ops in an order in which they could begin; waits as (op, on, since, lag_ns, why), in that numbering."""

    chance: Random
    lanes: list[_Lane]
    host_lanes: set[_Lane]
    unit_ns: int
    ops: list[dict[str, Any]] = field(default_factory=list)
    waits: list[tuple[int, int, str, int, str]] = field(default_factory=list)
    num_meets: int = 0

    def add_op(self, lane: _Lane, meet: int | None = None) -> int:
        chance, is_host = self.chance, lane in self.host_lanes
        self.ops.append(
            {
                "name": "cudaLaunchKernel" if is_host else chance.choice(("attn(F)", "dispatch(F)", "mlp(W)", "copy")),
                "phase": chance.choice((None, "attn(F)", "dispatch(F)")),
                "kind": "host" if is_host else chance.choice(KINDS[:3]),
                "rank": lane[0],
                "stream": lane[1],
                "duration_ns": chance.choice((0, 0, 1, 2, 3, 5, 8, 13)) * self.unit_ns,
                "num_kernels": 1 if is_host else chance.choice((1, 1, 1, 1, 2, 5, 100_000)),
                "num_sms": None if is_host else chance.choice((None, 20, 112, NUM_SMS)),
                "meet": meet,
                "layer": chance.choice((None, 0, 1, 60)),
                "micro_batch": chance.choice((None, 0, 1, 2)),
                "step": chance.choice((None, 0, 1)),
                "start_bytes": chance.choice((0, 0, 1, 10, 1 << 34, -3)),
                "end_bytes": chance.choice((0, 0, -1, -10, -(1 << 34), 4)),
            }
        )
        return len(self.ops) - 1

    def add_wait(self, op: int, on: int, since: str | None = None) -> None:
        chance = self.chance
        lag_ns = chance.choice((0, 0, 1, 4, 30, -1, -4, -30)) * self.unit_ns
        self.waits.append((op, on, since or chance.choice(SINCE), lag_ns, chance.choice(WHYS)))

    def new_meet(self) -> int:
        self.num_meets += 1
        return 7 * self.num_meets  # numbers need not be dense

    def add_moment(self) -> None:
        """A lone op, or a meet of 2 to 4 streams (in rare cases of one), with what they wait for."""
        chance, num_before = self.chance, len(self.ops)
        if chance.random() < 0.25:
            meet = self.new_meet()
            lanes = chance.sample(self.lanes, min(len(self.lanes), chance.choice((1, 2, 2, 3, 4))))
            members = [self.add_op(lane, meet) for lane in lanes]
        else:
            members = [self.add_op(chance.choice(self.lanes))]
        for op in members:
            if num_before:
                for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
                    near = max(0, num_before - 6)
                    self.add_wait(op, chance.randrange(chance.choice((0, near)), num_before))
            if op > members[0] and chance.random() < 0.2:  # that one's end would wait for this one's start
                self.add_wait(op, chance.randrange(members[0], op), since="start")

    # What stops a plan on a device. Each leaves some plans able to run, and most not.

    def wait_for_later(self) -> None:
        """An op waits for itself or for a later one, perhaps long before that one starts: no time can undo a circle."""
        first = self.chance.randrange(len(self.ops))
        self.add_wait(first, self.chance.randrange(first, len(self.ops)))

    def meet_on_one_stream(self) -> None:
        """Two members of a meet on one stream: the first ends when the second starts, which waits for that end."""
        lane, meet = self.chance.choice(self.lanes), self.new_meet()
        for _ in range(2):
            self.add_op(lane, meet)

    def meet_in_contrary_order(self) -> None:
        """Two ranks issue the same two collectives, in contrary order."""
        one, other = self.new_meet(), self.new_meet()
        here, there = self.chance.sample(self.lanes, 2) if len(self.lanes) > 1 else self.lanes * 2
        for lane, meet in ((here, one), (here, other), (there, other), (there, one)):
            self.add_op(lane, meet)

    def wait_inside_a_meet(self) -> None:
        """A member waits for another member of its meet to end, which ends after all have started."""
        meet = self.new_meet()
        ops = [self.add_op(lane, meet) for lane in self.chance.sample(self.lanes, min(2, len(self.lanes)))]
        self.add_wait(ops[-1], ops[0])


_SPOILS = (_Draft.wait_for_later, _Draft.meet_on_one_stream, _Draft.meet_in_contrary_order, _Draft.wait_inside_a_meet)


def random_plan(seed: str | int, most_moments: int = 30) -> Frames:
    """The plan of a seed, always the same one. Of four plans about one is spoilt."""
    chance = Random(seed)
    ranks = range(chance.randint(1, 4))
    device_lanes = [(rank, stream) for rank in ranks for stream in (7, 23, 27)[: chance.randint(1, 3)]]
    host_lanes = [(rank, 1000 + rank) for rank in ranks] if chance.random() < 0.5 else []
    draft = _Draft(
        chance=chance,
        lanes=device_lanes + host_lanes,
        host_lanes=set(host_lanes),
        unit_ns=chance.choice((1, 1, 1, 50_000, (1 << 30) + 1)),
    )
    num_moments = chance.randint(1, most_moments)
    spoils = (
        _Draft.wait_for_later,
        _Draft.meet_on_one_stream,
        _Draft.meet_in_contrary_order,
        _Draft.wait_inside_a_meet,
    )
    spoil = chance.choice(spoils) if chance.random() < 0.25 else None
    spoil_at = chance.randrange(num_moments)
    for moment in range(num_moments):
        draft.add_moment()
        if moment == spoil_at and spoil:
            spoil(draft)
    named_share = chance.choice((0, 0.5, 1))
    ids = [f"op-{i}" if chance.random() < named_share else None for i in range(len(draft.ops))]
    drawn = Frames(
        ops=pl.DataFrame([{"id": id_} | op for id_, op in zip(ids, draft.ops, strict=True)], schema=OPS_SCHEMA),
        waits=pl.DataFrame(draft.waits, schema=WAITS_SCHEMA, orient="row"),
        gap_ns=chance.choice((0, 0, 1, 2)) * draft.unit_ns,
        spoilt=spoil.__name__ if spoil else "",
    )
    return reordered(drawn, chance)[0]


def reordered(frames: Frames, chance: Random) -> tuple[Frames, list[int]]:
    """The same plan with its waits in another order, and its rows in one that keeps that of each stream.

    With it, for each new row, the old one.
    """
    old_of_new = _issue_order(frames.ops, chance)
    new_of_old = {old: new for new, old in enumerate(old_of_new)}
    waits = [(new_of_old[op], new_of_old[on], *rest) for op, on, *rest in frames.waits.iter_rows()]
    chance.shuffle(waits)
    shuffled = replace(frames, ops=frames.ops[old_of_new], waits=pl.DataFrame(waits, schema=WAITS_SCHEMA, orient="row"))
    return shuffled, old_of_new


def _issue_order(ops: pl.DataFrame, chance: Random) -> list[int]:
    """The rows as they are, stream by stream, or with their streams merged by chance."""
    queues: dict[_Lane, list[int]] = {}
    for i, lane in enumerate(ops.select("rank", "stream").iter_rows()):
        queues.setdefault(lane, []).append(i)
    how = chance.choice(("as they are", "stream by stream", "merged"))
    if how == "as they are":
        return list(range(len(ops)))
    lanes = list(queues)
    chance.shuffle(lanes)
    turns = [lane for lane in lanes for _ in queues[lane]]
    if how == "merged":
        chance.shuffle(turns)
    return [queues[lane].pop(0) for lane in turns]
