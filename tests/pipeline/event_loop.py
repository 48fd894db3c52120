"""A second simulator, to hold the first one to: plain Python, an action at a time, written from what costs mean.

And random schedules that can run, for both to simulate.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from typing import Any, NamedTuple

from weftrace.pipeline import Action, Costs, Schedule

#: ("F" or "B", stage, micro-batch): the activation that a forward makes, the gradient that a backward does.
Made = tuple[str, int, int]


class Ran(NamedTuple):
    """Start and end of each action, in the order of the schedule's rows, and of each copy."""

    times: list[tuple[int, int]]
    to_host: dict[tuple[int, int], tuple[int, int]]  # by stage and micro-batch
    from_host: dict[tuple[int, int], tuple[int, int]]


def at(value: Any, stage: int) -> int:
    return int(value[stage] if isinstance(value, tuple) else value)


def halves(action: Action) -> list[tuple[str, int, int]]:
    """What it does for which chunk: F, B, I or W of (stage, micro-batch); an F&B does two things."""
    if action.kind == "F&B":
        assert action.back_stage is not None and action.back_micro_batch is not None
        return [("F", action.stage, action.micro_batch), ("B", action.back_stage, action.back_micro_batch)]
    return [(action.kind, action.stage, action.micro_batch)]


def made_by(action: Action) -> list[Made]:
    return [("F" if kind == "F" else "B", s, m) for kind, s, m in halves(action) if kind != "W"]


def read_by(action: Action, num_stages: int) -> list[Made]:
    before = [("F", s - 1, m) for kind, s, m in halves(action) if kind == "F" and s > 0]
    return before + [("B", s + 1, m) for kind, s, m in halves(action) if kind in "BI" and s < num_stages - 1]


class EventLoop:
    """Ranks in turns, each as far as it comes."""

    def __init__(self, schedule: Schedule, costs: Costs) -> None:
        self.schedule, self.costs = schedule, costs
        self.orders: dict[int, list[Action]] = defaultdict(list)
        for action in schedule.listed():
            self.orders[action.rank].append(action)
        self.home = {made: a.rank for a in schedule.listed() for made in made_by(a)}
        self.reader = {need: a.rank for a in schedule.listed() for need in read_by(a, schedule.num_stages)}
        self.backward = {(s, m) for a in schedule.listed() for kind, s, m in halves(a) if kind in "BI"}
        self.arrival: dict[Made, int] = {}
        self.link_free: dict[tuple[int, int], int] = defaultdict(int)
        self.host_free: dict[tuple[int, str], int] = defaultdict(int)
        self.times: dict[int, list[tuple[int, int]]] = {rank: [] for rank in self.orders}
        self.to_host: dict[tuple[int, int], tuple[int, int]] = {}
        self.from_host: dict[tuple[int, int], tuple[int, int]] = {}

    def run(self) -> Ran:
        while any(len(self.times[rank]) < len(order) for rank, order in self.orders.items()):
            came_on = [self.advanced(rank) for rank in self.orders]
            assert any(came_on), "ranks wait for each other"
        times = [each for rank in sorted(self.times) for each in self.times[rank]]
        return Ran(times, self.to_host, self.from_host)

    def duration(self, action: Action) -> int:
        c = self.costs
        backward = c.backward_ns
        of_kind: dict[str, Any] = {"F": c.forward_ns, "I": c.input_ns, "W": c.weight_ns}

        def full(stage: int) -> int:
            return at(c.input_ns, stage) + at(c.weight_ns, stage) if backward is None else at(backward, stage)

        if action.kind == "F&B":
            assert action.back_stage is not None
            pair: Any = c.overlapped_ns
            if pair is None:
                own = at(c.forward_ns, action.stage) + full(action.back_stage)
            else:
                own = pair[action.stage][action.back_stage] if isinstance(pair, tuple) else pair
        else:
            own = full(action.stage) if action.kind == "B" else at(of_kind[action.kind], action.stage)
        factor = c.rank_factor
        return round(own * (factor[action.rank] if isinstance(factor, tuple) else factor))

    def link(self, made: Made) -> int:
        """How long a message holds its link."""
        way, stage, _ = made
        size = at(self.costs.message_bytes, stage if way == "F" else stage - 1)
        return round(size / self.costs.bytes_per_s * 1e9) if self.costs.bytes_per_s else 0

    def passing(self, made: Made) -> int:
        return self.link(made) + self.costs.latency_ns

    def crosses(self, made: Made) -> bool:
        return made in self.home and made in self.reader and self.home[made] != self.reader[made]

    def advanced(self, rank: int) -> bool:
        """Run the rank's next action if all that it needs is known; whether it could."""
        done, order = self.times[rank], self.orders[rank]
        if len(done) == len(order):
            return False
        action = order[len(done)]
        start = done[-1][1] if done else 0
        took = self.duration(action)
        free = start
        if self.costs.blocking and done:  # it is still sending, maybe
            sends = [self.passing(made) for made in made_by(order[len(done) - 1]) if self.crosses(made)]
            start += max(sends, default=0)
        for made in read_by(action, self.schedule.num_stages):
            if made not in self.arrival:
                return False
            part = self.costs.input_needed[made[0] == "B"] if action.kind == "F&B" else 0
            if self.costs.blocking and self.crosses(made):
                start = max(start, max(free, self.arrival[made]) + self.passing(made))
            else:
                start = max(start, self.arrival[made] - (round(part * took) if self.crosses(made) else 0))
        for kind, s, m in halves(action):
            if kind in "BI" and (s, m) in self.to_host:
                start = max(start, self.reload(rank, len(done), (s, m)))
        done.append((start, start + took))
        self.leave(rank, action, start, took)
        return True

    def leave(self, rank: int, action: Action, start: int, took: int) -> None:
        """What an action makes leaves for whoever reads it, and what it offloads for the host."""
        sends = []
        for made in made_by(action):
            part = self.costs.output_ready[made[0] == "B"] if action.kind == "F&B" and self.crosses(made) else 1
            sends.append((start + round(part * took), made))
        for ready, made in sorted(sends, key=lambda each: (each[0], each[1][0] == "B")):
            if not self.crosses(made) or self.costs.blocking:
                self.arrival[made] = ready  # where it blocks, it still has to pass
            else:
                link = (rank, self.reader[made])
                passed = max(self.link_free[link], ready) + self.link(made)
                if self.costs.bytes_per_s is not None:
                    self.link_free[link] = passed
                self.arrival[made] = passed + self.costs.latency_ns
        chunk = (action.stage, action.micro_batch)
        if action.offload and chunk in self.backward:
            begins = max(start + took, self.host_free[rank, "there"])
            self.host_free[rank, "there"] = begins + self.copy(action.stage)
            self.to_host[chunk] = (begins, begins + self.copy(action.stage))

    def copy(self, stage: int) -> int:
        assert self.costs.offload_bytes_per_s is not None
        return round(at(self.costs.activation_bytes, stage) / self.costs.offload_bytes_per_s * 1e9)

    def reload(self, rank: int, index: int, chunk: tuple[int, int]) -> int:
        """When a chunk is back: its copy begins as late as a rank that computes without a pause allows."""
        order, took = self.orders[rank], self.copy(chunk[0])
        gone = {(a.stage, a.micro_batch) for a in order if a.offload}
        clock, by = 0, {}
        for i, action in enumerate(order):
            for kind, s, m in halves(action):
                if kind in "BI" and (s, m) in gone:
                    by[i] = (clock, self.copy(s))
            clock += self.duration(action)
        latest = None
        for i in sorted(by, reverse=True):
            end = by[i][0] if latest is None else min(by[i][0], latest)
            latest = end - by[i][1]
            if i == index:
                break
        assert latest is not None
        begins = max(self.to_host[chunk][1], self.host_free[rank, "back"])
        clock, by_then = 0, 0
        for i, action in enumerate(order[:index]):
            if clock <= latest:
                by_then = self.times[rank][i][0] + latest - clock
            clock += self.duration(action)
        begins = max(begins, by_then)
        self.host_free[rank, "back"] = begins + took
        self.from_host[chunk] = (begins, begins + took)
        return begins + took


def held(schedule: Schedule, costs: Costs, ran: Ran, rank: int) -> tuple[int, int]:
    """Most bytes and most chunks that a rank holds at once. What is freed and taken at one moment is no peak."""
    changes: list[tuple[int, int, int]] = []  # time, bytes, chunks
    rows = [i for i, a in enumerate(schedule.listed()) if a.rank == rank]
    listed = schedule.listed()
    for i in rows:
        start, end = ran.times[i]
        for kind, s, m in halves(listed[i]):
            size = at(costs.activation_bytes, s)
            stays = size if costs.pending_bytes is None else at(costs.pending_bytes, s)
            in_W = costs.pending_bytes is None or stays > 0
            if kind == "F":
                changes.append((start, size, 1))
                if all(action.kind == "F" for action in listed):
                    changes.append((end, -size, -1))
                if (s, m) in ran.to_host:
                    changes.append((ran.to_host[s, m][1], -size, -1))
                    changes.append((ran.from_host[s, m][0], size, 1))
            elif kind == "B":
                changes.append((end, -size, -1))
            elif kind == "I":
                changes.append((end, stays - size, 0 if in_W else -1))
            else:
                changes.append((end, -stays, -1 if in_W else 0))
    most = [0, 0]
    for now in sorted({when for when, _, _ in changes}):
        for which in (0, 1):
            most[which] = max(most[which], sum(change[1 + which] for change in changes if change[0] <= now))
    return most[0], most[1]


# --- random schedules and costs ---------------------------------------------------------------------------------------


def random_schedule(chance: random.Random) -> Schedule:
    """Stages on ranks in any way, one or two replicas, slices, split backwards, overlaps, offloads; in an order that
    can run, for it is one in which a single processor could run all actions."""
    num_ranks, num_replicas, num_slices = chance.randint(1, 4), chance.randint(1, 2), chance.choice([1, 1, 2])
    if num_replicas > num_ranks:
        num_replicas = 1
    num_stages = chance.randint(num_ranks, 2 * num_ranks)
    ranks = [*range(num_ranks), *(chance.randrange(num_ranks) for _ in range(num_stages - num_ranks))]
    chance.shuffle(ranks)
    rank_of = [[(rank + replica) % num_ranks for rank in ranks] for replica in range(num_replicas)]
    num = num_replicas * num_slices * chance.randint(1, 3)
    backward = chance.random() < 0.9
    home = {m: m * num_replicas // num for m in range(num)}
    split = {(s, m): chance.random() < 0.5 for s in range(num_stages) for m in range(num)}
    offload = chance.random() < 0.3
    left = {("F", s, m) for s in range(num_stages) for m in range(num)}
    if backward:
        for s, m in split:
            left |= {("I", s, m), ("W", s, m)} if split[s, m] else {("B", s, m)}
    done: set[Made] = set()

    def can(part: Made) -> bool:
        kind, s, m = part
        if kind == "W":
            return ("I", s, m) in done
        if kind == "F":
            before = m % num_slices == 0 or ("F", s, m - 1) in done
            return before and (s == 0 or ("F", s - 1, m) in done)
        back = {(s_, m_) for k, s_, m_ in done if k in "BI"}
        after = (m + 1) % num_slices == 0 or (s, m + 1) in back
        return ("F", s, m) in done and after and (s == num_stages - 1 or (s + 1, m) in back)

    actions: list[Action] = []
    while left:
        part = chance.choice(sorted(each for each in left if can(each)))
        rank = rank_of[home[part[2]]][part[1]]
        action = Action(rank=rank, kind=part[0], stage=part[1], micro_batch=part[2])  # type: ignore[arg-type]
        if part[0] == "F":
            action = replace(action, offload=offload and chance.random() < 0.5)
            backs = [each for each in left if each[0] == "B" and each[2] != part[2] and can(each)]
            backs = sorted(each for each in backs if rank_of[home[each[2]]][each[1]] == rank)
            if backs and chance.random() < 0.7:
                back = chance.choice(backs)
                action = replace(action, kind="F&B", back_stage=back[1], back_micro_batch=back[2])
                left.remove(back)
                done.add(back)
        left.remove(part)
        done.add(part)
        actions.append(action)
    return Schedule.of(actions, name="random", rank_of=rank_of, num_micro_batches=num, num_slices=num_slices)


def random_costs(chance: random.Random, schedule: Schedule) -> Costs:
    """Times from 0 to 20 ns and sizes from 0 to 9 bytes, by stage, pair and rank or for all."""
    stages, ranks = range(schedule.num_stages), range(schedule.num_ranks)

    def either(low: int, high: int) -> Any:
        each = tuple(chance.randint(low, high) for _ in stages)
        return each if chance.random() < 0.5 else each[0]

    least = chance.choice([0, 1])
    costs = Costs(
        forward_ns=either(least, 20),
        input_ns=either(least, 20),
        weight_ns=either(least, 20),
        backward_ns=chance.choice([None, either(1, 30)]),
        overlapped_ns=chance.choice([None, 17, tuple(tuple(chance.randint(1, 30) for _ in stages) for _ in stages)]),
        rank_factor=tuple(chance.choice([1.0, chance.uniform(0.5, 2)]) for _ in ranks),
        latency_ns=chance.choice([0, chance.randint(1, 10)]),
        message_bytes=either(0, 9),
        bytes_per_s=chance.choice([None, 1e9, 0.4e9]),
        activation_bytes=either(least, 9),
        weight_bytes=either(0, 9),
        offload_bytes_per_s=chance.choice([1e9, 0.3e9, 100e9]),  # the last: copies that take no time
    )
    if chance.random() < 0.3:
        return replace(costs, blocking=True)
    inside = [(chance.choice([0, 0.5, chance.random()]), chance.choice([0, 0.5, chance.random()])) for _ in range(2)]
    pending = chance.choice([None, 0, costs.activation_bytes, either(0, 12)])
    return replace(costs, input_needed=inside[0], output_ready=inside[1], pending_bytes=pending)
