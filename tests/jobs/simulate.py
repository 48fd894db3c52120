"""Training jobs that were never run: a scheduler of its own, op by op, which knows nothing of weftrace's plans.

Each rank has lanes (computation, sends and receives, collectives, host), each of which runs its ops in order; an op
waits for others of its rank; members of a meeting leave together, a transfer after the last has come. Truth is computed
by running the same job with other durations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median
from typing import Any

COMPUTE, SEND, RECV, COLLECTIVE, HOST = "compute", "send", "recv", "collective", "host"


@dataclass(slots=True)
class Op:
    """What one rank does. ns: its time alone, of communication the transfer. meet: who leaves together."""

    rank: int
    lane: str
    kind: str
    name: str
    ns: float
    step: int
    micro_batch: int = -1
    chunk: int = 0
    after: list[int] = field(default_factory=list)
    meet: tuple[object, ...] | None = None
    part_of: int = -1  # the op with which it is recorded as one range
    stage: int = 0
    dp: int = 0
    tp: int = 0
    mix: tuple[float, ...] = (1.0, 1.0, 1.0)  # of a computation: its kernels' parts
    launch: int = -1  # the host's op that launches it
    data: int = -1  # of a receive that does not hold up its send: that send


@dataclass(frozen=True, slots=True)
class Planted:
    """A cause that was put into a job. ranks: whose it is; of a link, those that it slows. since: its first step."""

    kind: str
    ranks: tuple[int, ...] = ()
    stages: tuple[int, ...] = ()
    since: int = 0


@dataclass(slots=True)
class Job:
    """Ops in order of each lane. Ranks count through tensor parallelism first, stages last."""

    dp: int
    pp: int
    tp: int = 1
    ops: list[Op] = field(default_factory=list)
    planted: list[Planted] = field(default_factory=list)

    @property
    def num_ranks(self) -> int:
        return self.dp * self.pp * self.tp

    def rank(self, stage: int, dp: int, tp: int = 0) -> int:
        return (stage * self.dp + dp) * self.tp + tp

    def add(self, **facts: Any) -> int:
        self.ops.append(Op(**facts))
        return len(self.ops) - 1

    def members(self) -> dict[tuple[object, ...], list[int]]:
        """Of each meeting, its ops."""
        found: dict[tuple[object, ...], list[int]] = defaultdict(list)
        for at, op in enumerate(self.ops):
            if op.meet is not None:
                found[op.meet].append(at)
        return found


@dataclass(slots=True)
class Times:
    came: list[float]  # when each op was ready
    began: list[float]  # its start without waiting for others of its meeting
    end: list[float]


def run(job: Job, ns: Sequence[float] | None = None) -> Times:
    """When each op runs. ns: other times of the ops."""
    times = [op.ns for op in job.ops] if ns is None else list(ns)
    number, members = len(job.ops), job.members()
    came, began, end = [0.0] * number, [-1.0] * number, [-1.0] * number
    waits, then = [0] * number, [[] for _ in range(number)]  # type: tuple[list[int], list[list[int]]]
    last_of: dict[tuple[int, str], int] = {}
    for at, op in enumerate(job.ops):
        before = {*op.after, last_of.get((op.rank, op.lane), -1), op.data} - {-1}
        last_of[op.rank, op.lane] = at
        waits[at] = len(before)
        for one in before:
            then[one].append(at)
    absent = {meet: len(ops) for meet, ops in members.items()}
    ready = [at for at in range(number) if not waits[at]]
    while ready:
        at = ready.pop()
        meet = job.ops[at].meet
        leaving = [at]
        if meet is not None:
            absent[meet] -= 1
            leaving = [] if absent[meet] else members[meet]
        last = max((came[one] for one in leaving), default=0.0)
        last = max(last, end[job.ops[at].data]) if job.ops[at].data >= 0 else last
        for one in leaving:
            began[one], end[one] = last, last + times[one]
            for later in then[one]:
                if one != job.ops[later].data:
                    came[later] = max(came[later], end[one])
                waits[later] -= 1
                if not waits[later]:
                    ready.append(later)
    assert all(value >= 0 for value in end), "the job is stuck"
    return Times(came=came, began=began, end=end)


def span(job: Job, times: Times) -> float:
    return max(times.end)


def ideal(job: Job) -> list[float]:
    """Each type of computation at the mean of all its instances, of transfer at the median; hosts at the median of what
    their peers need at that place. A computation whose parts are recorded as one range is one instance; collectives of
    tensor parallelism show their parts."""
    by_type: dict[str, list[float]] = defaultdict(list)
    whole: dict[int, float] = {}
    apart = {op.part_of for op in job.ops if op.kind == COLLECTIVE}
    head_of = [at if op.part_of < 0 or op.part_of in apart else op.part_of for at, op in enumerate(job.ops)]
    for at, op in enumerate(job.ops):
        if op.kind == COMPUTE:
            whole[head_of[at]] = whole.get(head_of[at], 0.0) + op.ns
        elif op.kind != HOST:
            by_type[op.name].append(op.ns)
    for head, ns in whole.items():
        by_type[job.ops[head].name].append(ns)
    hosts: dict[tuple[int, str], list[float]] = defaultdict(list)
    for op in job.ops:
        if op.kind == HOST:
            hosts[op.stage, op.name].append(op.ns)
    pace = {name: mean(each) if name.endswith("compute") or name == "optimizer" else median(each)
            for name, each in by_type.items()}  # fmt: skip
    usual = {place: sorted(each)[(len(each) - 1) // 2] for place, each in hosts.items()}
    found = []
    for at, op in enumerate(job.ops):
        if op.kind == COMPUTE:
            found.append(pace[op.name] * op.ns / whole[head_of[at]])
        elif op.kind == HOST:
            found.append(min(op.ns, usual[op.stage, op.name]))
        else:
            found.append(pace[op.name])
    return found


def slowdown(job: Job) -> float:
    return span(job, run(job)) / span(job, run(job, ideal(job)))


def copied(job: Job) -> Job:
    return replace(job, ops=[replace(op, after=list(op.after)) for op in job.ops], planted=list(job.planted))


# --- the same job, otherwise recorded ---------------------------------------------------------------------------------


def tensor_groups_hidden(job: Job, *, is_one_each: bool) -> Job:
    """The job as a log shows it that knows no collectives of tensor parallelism: what computations exchange, and wait
    for, is part of these. is_one_each: it holds the first rank of each group alone. A slow rank cannot be told from its
    group."""
    times, size = run(job), job.tp
    groups = [tuple(sorted({rank // size for rank in each.ranks})) for each in job.planted]
    if not is_one_each:
        groups = [tuple(group * size + t for group in each for t in range(size)) for each in groups]
    planted = [replace(each, ranks=ranks) for each, ranks in zip(job.planted, groups, strict=True)]
    found = Job(dp=job.dp, pp=job.pp, tp=1 if is_one_each else size, planted=planted)
    chains: dict[int, int] = {}  # head -> last of the chain
    tensors = {head: at for at, op in enumerate(job.ops) if op.kind == COLLECTIVE and (head := op.part_of) >= 0}
    for at, op in enumerate(job.ops):
        if op.part_of in tensors:
            chains[op.part_of] = at
    place: dict[int, int] = {}
    for at, op in enumerate(job.ops):
        if op.tp and is_one_each:
            continue
        if op.part_of in tensors:
            place[at] = place[op.part_of]
            continue
        place[at] = len(found.ops)
        ns = times.end[chains[at]] - times.came[at] if at in chains else op.ns
        found.ops.append(replace(op, ns=ns, rank=op.rank // size if is_one_each else op.rank,
                                 part_of=place.get(op.part_of, -1)))  # fmt: skip
    for op in found.ops:
        op.after = [place[one] for one in op.after]
        op.data = place.get(op.data, -1)
    return found


def with_hosts(job: Job, *, launch: float = 12e3) -> Job:
    """The job with a host thread a rank, which launches every op and waits for the device before each step."""
    times = run(job)
    found = Job(dp=job.dp, pp=job.pp, tp=job.tp, planted=list(job.planted))
    place: dict[int, int] = {}
    last: dict[tuple[int, int], int] = {}  # rank, step -> its last computation
    for at in sorted(range(len(job.ops)), key=lambda at: (times.came[at], at)):
        op = replace(job.ops[at])
        if op.kind == HOST:
            op.lane = "host"
        else:
            op.launch = found.add(rank=op.rank, lane="host", kind=HOST, name="launch", ns=launch, step=op.step,
                                  stage=op.stage, dp=op.dp, tp=op.tp)  # fmt: skip
        place[at] = len(found.ops)
        found.ops.append(op)
        if op.kind == COMPUTE:
            last[op.rank, op.step] = place[at]
    for op in found.ops:
        op.after = [place[one] for one in op.after]
        op.data = place.get(op.data, -1)
        op.part_of = place.get(op.part_of, -1)
        if op.launch >= 0:
            op.after.append(op.launch)
        if op.name == "load" and op.step:
            op.after.append(last[op.rank, op.step - 1])
    return found
