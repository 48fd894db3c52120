"""Simulated jobs whose clocks are known, made to deceive: how wrong is what is told of the clocks?

Tensor parallel groups within stages, stages that send to each other, replicas whose gradients are reduced at the end of
a step. Layers are alike, so that ends recur with a period; stages and replicas do the same a little later, as if their
clocks were behind. Files may name no group, number nothing, begin late, or be missing. Shares no code with weftrace.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.meetings import Meetings

US, MS, S = 1_000, 1_000_000, 1_000_000_000
NAMES = ("numbered", "named", "sized", "nothing")  # what files tell of a group; each less than the one before


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJob:
    """tp, dp, pp: ranks of each kind of group. per_host: ranks that share a clock, none the same where clocks are one.
    told: one of `NAMES`. noise: of each layer's length, as a share. jitter: of each time told, up to so many ns. eager:
    sends end when the data has left; else with the receive. rolled: ranks that lack so many of their first events, and
    have as many more at the end, as if recorded later. missing: ranks without a file. late: rank -> factor."""

    tp: int
    dp: int
    pp: int
    seed: int
    told: str = "numbered"
    per_host: int = 1
    apart_ns: int = 2 * S
    ppm: float = 0.0
    steps: int = 4
    batches: int = 4
    layers: int = 3
    layer_ns: int = 385 * US
    noise: float = 0.0
    jitter: int = 1 * US
    eager: bool = False
    one_way: bool = False
    has_steps: bool = True
    has_peers: bool = True
    has_world: bool = True
    rolled: tuple[tuple[int, int], ...] = ()
    missing: tuple[int, ...] = ()
    late: tuple[tuple[int, float], ...] = ()

    @property
    def number(self) -> int:
        return self.tp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Times are true ones. group: name of the meeting's ranks, and those."""

    start: int
    end: int
    group: str
    ranks: tuple[int, ...]
    collective: str
    elems: int
    seq: int
    step: int
    sender: int = -1


@dataclass(slots=True)
class Recorded:
    """What the files of a job hold, and the truth: present, the rank of each frame; clock, ahead and ppm of each."""

    job: ClockJob
    frames: list[pl.DataFrame]
    present: list[int]
    ahead: list[int] = field(default_factory=list)
    ppm: list[float] = field(default_factory=list)

    def truth(self, at: int, reference: int, when_ns: int) -> float:
        """How far a rank's clock is ahead of another's when it shows this time."""
        time = (when_ns - self.ahead[at]) / (1 + self.ppm[at] * 1e-6)
        return when_ns - (time * (1 + self.ppm[reference] * 1e-6) + self.ahead[reference])


def _programs(job: ClockJob, chance: random.Random) -> list[list[tuple[Any, ...]]]:
    """Of each rank: (work, ns), (meet, name, ranks, collective, elems), (send, to) and (receive, from)."""
    found: list[list[tuple[Any, ...]]] = [[] for _ in range(job.number)]

    def rank_at(t: int, d: int, p: int) -> int:
        return (p * job.dp + d) * job.tp + t

    late = dict(job.late)
    for p in range(job.pp):
        for d in range(job.dp):
            for t in range(job.tp):
                rank = rank_at(t, d, p)
                own = found[rank]

                def layer(times: float, rank: int = rank, own: list[Any] = own, d: int = d, p: int = p) -> None:
                    length = job.layer_ns * times * late.get(rank, 1.0) * max(0.2, chance.gauss(1.0, job.noise))
                    own.append(("work", round(length)))
                    if job.tp > 1:
                        group = tuple(rank_at(other, d, p) for other in range(job.tp))
                        own.append(("meet", f"tp{group[0]}", group, "all_reduce", 4096))

                for step in range(job.steps):
                    own.append(("step", step))
                    for _ in range(job.batches):
                        if p:
                            own.append(("receive", rank_at(t, d, p - 1)))
                        for _ in range(job.layers):
                            layer(1.0)
                        if p < job.pp - 1:
                            own.append(("send", rank_at(t, d, p + 1)))
                    for _ in range(0 if job.one_way else job.batches):
                        if p < job.pp - 1:
                            own.append(("receive", rank_at(t, d, p + 1)))
                        for _ in range(job.layers):
                            layer(2.0)
                        if p:
                            own.append(("send", rank_at(t, d, p - 1)))
                    if job.dp > 1:
                        group = tuple(rank_at(t, other, p) for other in range(job.dp))
                        own.append(("meet", f"dp{group[0]}", group, "reduce_scatter", 1 << 20))
                        own.append(("work", job.layer_ns))
                        own.append(("meet", f"dp{group[0]}", group, "all_gather", 1 << 20))
    return found


def _run(job: ClockJob, programs: list[list[tuple[Any, ...]]]) -> list[list[Event]]:
    """Each rank does one thing after another; who meets leaves together; a message is received when it has come."""
    events: list[list[Event]] = [[] for _ in programs]
    now, at, step = [0] * job.number, [0] * job.number, [0] * job.number
    came: dict[Any, dict[int, int]] = defaultdict(dict)
    seqs: dict[Any, int] = defaultdict(int)
    sent: dict[tuple[int, int], deque[tuple[int, int]]] = defaultdict(deque)  # start, when it has come
    transfer, flight = 40 * US, 120 * US
    ready = deque(range(job.number))

    def put(rank: int, start: int, end: int, group: str, ranks: tuple[int, ...], collective: str, elems: int,
            sender: int = -1) -> None:  # fmt: skip
        seq = seqs[rank, group]
        seqs[rank, group] += 1
        events[rank].append(
            Event(start=start, end=end, group=group, ranks=ranks, collective=collective, elems=elems, seq=seq,
                  step=step[rank], sender=sender)
        )  # fmt: skip
        now[rank] = end
        at[rank] += 1

    while ready:
        rank = ready.popleft()
        while at[rank] < len(programs[rank]):
            what, *of = programs[rank][at[rank]]
            if what == "work":
                now[rank] += of[0]
                at[rank] += 1
            elif what == "step":
                step[rank] = of[0]
                at[rank] += 1
            elif what == "meet":
                name, ranks, collective, elems = of
                came[name][rank] = now[rank]
                if len(came[name]) < len(ranks):
                    break
                end = max(came[name].values()) + transfer
                for other, start in came.pop(name).items():
                    put(other, start, end, name, ranks, collective, elems)
                    if other != rank:
                        ready.append(other)
            else:
                other = of[0]
                pair = (rank, other) if what == "send" else (other, rank)
                both, name = tuple(sorted(pair)), f"pp{pair[0]}>{pair[1]}"
                if what == "send" and job.eager:
                    sent[pair].append((now[rank], now[rank] + flight))
                    put(rank, now[rank], now[rank] + 10 * US, name, both, "send_recv", 512, rank)
                    ready.append(other)
                elif what == "receive" and job.eager:
                    if not sent[pair]:
                        break
                    _, arrived = sent[pair].popleft()
                    put(rank, now[rank], max(now[rank], arrived) + 15 * US, name, both, "send_recv", 512, other)
                else:
                    came[pair][rank] = now[rank]
                    if len(came[pair]) < 2:
                        break
                    end = max(came[pair].values()) + flight
                    for one, start in came.pop(pair).items():
                        put(one, start, end, name, both, "send_recv", 512, pair[0])
                    ready.append(other)
        else:
            continue
    assert all(place == len(program) for place, program in zip(at, programs, strict=True)), "the job stands still"
    return events


def record(job: ClockJob) -> Recorded:
    """Runs a job, and writes down of each rank what `arrivals` would give."""
    chance = random.Random(job.seed)
    events = _run(job, _programs(job, chance))
    hosts = -(-job.number // job.per_host)
    ahead = [chance.randint(-job.apart_ns, job.apart_ns) if job.apart_ns else 0 for _ in range(hosts)]
    ppm = [chance.uniform(-job.ppm, job.ppm) for _ in range(hosts)]
    present = [rank for rank in range(job.number) if rank not in job.missing]
    recorded = Recorded(job=job, frames=[], present=present)
    rolled = dict(job.rolled)
    most = max((by for _, by in job.rolled), default=0)
    for rank in present:
        host = rank // job.per_host
        recorded.ahead.append(ahead[host])
        recorded.ppm.append(ppm[host])
        mine = events[rank]
        if most:
            mine = mine[rolled.get(rank, 0) : len(mine) - most + rolled.get(rank, 0)]
        rows = [
            {**_told(job, event, rank), "start_ns": start, "end_ns": max(start, end), "idle_since_ns": start,
             "is_barrier": False, "laid_ns": 0}
            for event in mine
            for start, end in [
                [round(time * (1 + ppm[host] * 1e-6)) + ahead[host] + chance.randint(-job.jitter, job.jitter)
                 for time in (event.start, event.end)]
            ]
        ]  # fmt: skip
        recorded.frames.append(pl.DataFrame(rows, schema=ARRIVAL_SCHEMA).sort("start_ns", maintain_order=True))
    return recorded


def _told(job: ClockJob, event: Event, rank: int) -> dict[str, Any]:
    """What a file tells of an event besides its times."""
    is_pair = event.collective == "send_recv"
    size = job.number if is_pair else len(event.ranks)
    is_named = job.told in ("numbered", "named")
    is_sized = job.told != "nothing"
    group = f"{event.group} {list(event.ranks)}" if is_named and not is_pair else "pp" if is_named else ""
    sender, (low, high) = event.sender, (min(event.ranks), max(event.ranks))
    receiver = high if sender == low else low
    has_peers = is_pair and is_sized and job.has_peers
    between = f"{sender}>{receiver}" if has_peers else "" if is_pair else str(event.elems) if is_sized else ""
    return {
        "group": group,
        "group_size": size if is_sized else None,
        "world_size": job.number if job.has_world else None,
        "collective": event.collective,
        "seq": event.seq if job.told == "numbered" and not is_pair else None,
        "what": f"{event.collective}/{between}" + (f"/{size}" if is_sized else ""),
        "step": event.step if job.has_steps else None,
        "sends": (rank == sender) if has_peers else None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Of the ranks after the first: clocks that were told; of these, those wrong by more than what was told and 10 us;
    told_ns: what was told; wrong_ns: by how much each was wrong."""

    ranks: int
    told: int
    violations: int
    told_ns: tuple[int, ...]
    wrong_ns: tuple[int, ...]


def judged(recorded: Recorded, meetings: Meetings, *, floor_ns: int = 10 * US) -> Judged:
    """Compares what is told of each clock with the truth, in the middle of its collectives."""
    clocks = meetings.clocks
    told, wrong = [], []
    for at in range(1, len(recorded.present)):
        if clocks.root(at) != clocks.root(0) or not clocks.is_known(at):
            continue
        chain = clocks.chain(at)
        when = chain[0].middle_ns if chain else int(recorded.frames[at]["end_ns"].to_numpy()[0])
        ahead = int(clocks.ahead(at, np.array([when]))[0])
        wrong.append(round(abs(ahead - recorded.truth(at, 0, when))))
        unsure = getattr(clocks, "uncertainty", None) or clocks.spread
        told.append(int(unsure(at)))
    violations = sum(error > bound + floor_ns for error, bound in zip(wrong, told, strict=True))
    return Judged(
        ranks=len(recorded.present) - 1, told=len(told), violations=violations, told_ns=tuple(told),
        wrong_ns=tuple(wrong),
    )  # fmt: skip


def deceptions(told: str, seeds: Sequence[int]) -> Iterator[ClockJob]:
    """Random jobs of which the files tell so much: each seed is one job."""
    for seed in seeds:
        chance = random.Random(f"{told}/{seed}")
        tp, dp, pp = chance.choice(
            [
                (1, 4, 1),
                (2, 2, 1),
                (4, 1, 1),
                (2, 1, 2),
                (1, 2, 2),
                (2, 2, 2),
                (1, 1, 4),
                (1, 4, 2),
                (4, 2, 2),
                (2, 2, 4),
            ]
        )
        number = tp * dp * pp
        rolled = ((chance.randrange(number), chance.choice([1, 2, 3])),) if chance.random() < 0.3 else ()
        missing = tuple(chance.sample(range(number), chance.choice([1, number // 2])))
        yield ClockJob(
            tp=tp, dp=dp, pp=pp, seed=seed, told=told,
            per_host=chance.choice([1, 1, tp, number]),
            apart_ns=chance.choice([0, 800 * US, 2 * S, 2 * S]),
            ppm=chance.choice([0.0, 0.0, 20.0]),
            steps=chance.choice([1, 3, 6, 12]),
            batches=chance.choice([2, 4]),
            layers=chance.choice([1, 3]),
            layer_ns=chance.choice([385 * US, 1900 * US]),
            noise=chance.choice([0.0, 0.0, 0.002, 0.02]),
            jitter=chance.choice([0, 1 * US, 5 * US, 20 * US]),
            eager=chance.random() < 0.5,
            one_way=chance.random() < 0.2,
            has_steps=chance.random() < 0.5,
            has_peers=chance.random() < 0.8,
            has_world=chance.random() < 0.7,
            rolled=rolled,
            missing=missing if chance.random() < 0.3 else (),
            late=((chance.randrange(number), chance.choice([1.1, 1.6])),) if chance.random() < 0.4 else (),
        )  # fmt: skip
