"""Training jobs that were never run: a scheduler of its own, op by op, which knows nothing of weftrace's plans.

Each rank has lanes (computation, sends and receives, collectives), each of which runs its ops in order; an op waits for
others of its rank; members of a meeting leave together, a transfer after the last has come. Truth is computed by
running the same job with other durations.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median

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
    part_of: int = -1  # recorded with the op before it, as one range
    stage: int = 0
    dp: int = 0


@dataclass(slots=True)
class Job:
    """Ops in order of each lane. planted: kind, ranks, stages of each cause."""

    dp: int
    pp: int
    ops: list[Op] = field(default_factory=list)
    planted: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    def add(self, **facts: object) -> int:
        self.ops.append(Op(**facts))  # type: ignore[arg-type]
        return len(self.ops) - 1


@dataclass(slots=True)
class Times:
    came: list[float]  # when each op was ready
    began: list[float]  # its start without waiting for others of its meeting
    end: list[float]


def run(job: Job, ns: Sequence[float] | None = None) -> Times:
    """When each op runs. ns: other times of the ops."""
    times = [op.ns for op in job.ops] if ns is None else list(ns)
    lanes: dict[tuple[int, str], list[int]] = defaultdict(list)
    members: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for at, op in enumerate(job.ops):
        lanes[op.rank, op.lane].append(at)
        if op.meet is not None:
            members[op.meet].append(at)
    number = len(job.ops)
    came, began, end = [-1.0] * number, [-1.0] * number, [-1.0] * number
    head, free = dict.fromkeys(lanes, 0), dict.fromkeys(lanes, 0.0)
    arrived: dict[tuple[object, ...], int] = defaultdict(int)
    moved = True
    while moved:
        moved = False
        for lane, queue in lanes.items():
            while head[lane] < len(queue):
                at = queue[head[lane]]
                op = job.ops[at]
                if came[at] < 0:
                    if any(end[on] < 0 for on in op.after):
                        break
                    came[at] = max([free[lane], *(end[on] for on in op.after)])
                    moved = True
                    if op.meet is None:
                        began[at], end[at] = came[at], came[at] + times[at]
                    else:
                        arrived[op.meet] += 1
                        if arrived[op.meet] == len(members[op.meet]):
                            last = max(came[one] for one in members[op.meet])
                            for one in members[op.meet]:
                                began[one], end[one] = last, last + times[one]
                if end[at] < 0:
                    break
                free[lane] = end[at]
                head[lane] += 1
                moved = True
    assert all(value >= 0 for value in end), "the job is stuck"
    return Times(came=came, began=began, end=end)


def span(job: Job, times: Times) -> float:
    return max(times.end)


def ideal(job: Job) -> list[float]:
    """Each type of computation at the mean of all its instances, of transfer at the median; hosts at the median of what
    their peers need at that place."""
    by_type: dict[str, list[float]] = defaultdict(list)
    whole: dict[int, float] = {}
    for at, op in enumerate(job.ops):
        if op.kind == COMPUTE:
            head = at if op.part_of < 0 else op.part_of
            whole[head] = whole.get(head, 0.0) + op.ns
        elif op.kind != HOST:
            by_type[op.name].append(op.ns)
    for head, ns in whole.items():
        by_type[job.ops[head].name].append(ns)
    hosts: dict[tuple[int, str], list[float]] = defaultdict(list)
    for op in job.ops:
        if op.kind == HOST:
            hosts[op.stage, op.name].append(op.ns)
    found = []
    for at, op in enumerate(job.ops):
        if op.kind == COMPUTE:
            head = at if op.part_of < 0 else op.part_of
            found.append(mean(by_type[job.ops[head].name]) * op.ns / whole[head])
        elif op.kind == HOST:
            values = sorted(hosts[op.stage, op.name])
            found.append(min(op.ns, values[(len(values) - 1) // 2]))
        else:
            found.append(median(by_type[op.name]))
    return found


def slowdown(job: Job) -> float:
    return span(job, run(job)) / span(job, run(job, ideal(job)))


# --- jobs -------------------------------------------------------------------------------------------------------------

Cost = Callable[[Op], float]  # times the usual time of an op


def pipeline(dp: int, pp: int, *, num_mb: int = 6, steps: int = 4, chunks: int = 1, sends_wait: bool = True,
             gpipe: bool = False, forward: float = 1e6, transfer: float = 3e4) -> Job:  # fmt: skip
    """1F1B, interleaved where chunks are two, or all forwards first; ZeRO: parameters are gathered before a step, and
    gradients reduced after it."""
    job = Job(dp=dp, pp=pp)
    for step in range(steps):
        first_of = len(job.ops)
        for d in range(dp):
            made: dict[tuple[str, int, int], int] = {}  # (F or B, micro-batch, virtual stage) -> op
            gathered: dict[int, int] = {}
            for p in range(pp):
                rank = p * dp + d
                job.add(rank=rank, lane="compute", kind=HOST, name="load", ns=0.0, step=step, stage=p, dp=d)
                gathered[p] = job.add(rank=rank, lane="dp", kind=COLLECTIVE, name="params-all-gather", ns=6 * transfer,
                                      step=step, meet=("gather", step, p), stage=p, dp=d)  # fmt: skip
            orders = {p: _order(p, pp, num_mb, chunks, gpipe) for p in range(pp)}
            while any(orders.values()):
                for p in range(pp):
                    while orders[p] and _add(job, orders[p][0], d, p, pp, chunks, step, made, gathered[p],
                                             forward, transfer, sends_wait):  # fmt: skip
                        orders[p].pop(0)
            for p in range(pp):
                rank = p * dp + d
                last = max(at for at in range(first_of, len(job.ops)) if job.ops[at].rank == rank
                           and job.ops[at].kind == COMPUTE)  # fmt: skip
                reduced = job.add(rank=rank, lane="dp", kind=COLLECTIVE, name="grads-reduce-scatter", ns=9 * transfer,
                                  step=step, after=[last], meet=("reduce", step, p), stage=p, dp=d)  # fmt: skip
                clip = job.add(rank=rank, lane="dp", kind=COLLECTIVE, name="optimizer-clip-main-grad", ns=transfer,
                               step=step, after=[reduced], meet=("clip", step), stage=p, dp=d)  # fmt: skip
                job.add(rank=rank, lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 3, step=step,
                        after=[clip], stage=p, dp=d)  # fmt: skip
    return job


def _order(p: int, pp: int, num_mb: int, chunks: int, gpipe: bool) -> list[tuple[str, int, int]]:
    """(F or B, micro-batch, chunk) of a stage."""
    if chunks > 1:  # in rounds of pp micro-batches, as Megatron does
        forwards = [("F", mb, c) for r in range(0, num_mb, pp) for c in range(chunks) for mb in range(r, r + pp)]
        backwards = [("B", mb, chunks - 1 - c) for _, mb, c in forwards]
        warm = min(len(forwards), 2 * (pp - 1 - p) + (chunks - 1) * pp)
    else:
        forwards, backwards = ([(kind, mb, 0) for mb in range(num_mb)] for kind in "FB")
        warm = num_mb if gpipe else min(pp - 1 - p, num_mb)
    order = forwards[:warm]
    for f, b in zip(forwards[warm:], backwards, strict=False):
        order += [f, b]
    return order + backwards[len(forwards) - warm :]


def _add(job: Job, what: tuple[str, int, int], d: int, p: int, pp: int, chunks: int, step: int,
         made: dict[tuple[str, int, int], int], gathered: int,
         forward: float, transfer: float, sends_wait: bool) -> bool:  # fmt: skip
    """Add an op with its receive, and the send of what it takes; False where that is not there yet."""
    kind, mb, chunk = what
    place = chunk * pp + p
    source = place - 1 if kind == "F" else place + 1
    rank, after = p * job.dp + d, [gathered]
    way = "forward" if kind == "F" else "backward"
    common = {"step": step, "micro_batch": mb, "dp": d}
    if 0 <= source < chunks * pp:
        if (kind, mb, source) not in made:
            return False
        from_stage = source % pp
        meet = ("p2p", step, d, kind, mb, source) if sends_wait else None
        send = job.add(
            rank=from_stage * job.dp + d,
            lane=f"{way}-send",
            kind=SEND,
            name=f"{way}-send",
            ns=transfer,
            after=[made[kind, mb, source]],
            meet=meet,
            stage=from_stage,
            chunk=source // pp,
            **common,
        )
        receive = job.add(rank=rank, lane=f"{way}-recv", kind=RECV, name=f"{way}-recv", ns=transfer,
                          after=[] if sends_wait else [send], meet=meet, stage=p, chunk=chunk, **common)  # fmt: skip
        after.append(receive)
    made[kind, mb, place] = job.add(
        rank=rank, lane="compute", kind=COMPUTE, name=f"{way}-compute", ns=forward * (2 if kind == "B" else 1),
        after=after, stage=p, chunk=chunk, **common,
    )  # fmt: skip
    return True


def ddp(dp: int, *, steps: int = 6, buckets: int = 4, forward: float = 4e6, transfer: float = 6e5) -> Job:
    """One backward a step, recorded as one range, in whose midst buckets of gradients are reduced on another lane."""
    job = Job(dp=dp, pp=1)
    for step in range(steps):
        for rank in range(dp):
            facts = {"rank": rank, "step": step, "dp": rank, "micro_batch": 0}
            job.add(lane="compute", kind=HOST, name="load", ns=0.0, **facts)
            job.add(lane="compute", kind=COMPUTE, name="forward-compute", ns=forward, **facts)
            head, reduced = -1, []
            for bucket in range(buckets):
                part = job.add(lane="compute", kind=COMPUTE, name="backward-compute", ns=2 * forward / buckets,
                               part_of=head, **facts)  # fmt: skip
                head = part if head < 0 else head
                reduced.append(job.add(lane="dp", kind=COLLECTIVE, name="grads-all-reduce", ns=transfer, after=[part],
                                       meet=("reduce", step, bucket), **facts))  # fmt: skip
            job.add(lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 4, after=reduced[-1:], **facts)
    return job


def fsdp(dp: int, *, steps: int = 4, layers: int = 4, forward: float = 1e6, transfer: float = 4e5) -> Job:
    """Each layer's parameters are gathered while the layer before computes, and gathered again for its backward."""
    job = Job(dp=dp, pp=1)
    for step in range(steps):
        for rank in range(dp):
            facts = {"rank": rank, "step": step, "dp": rank}
            job.add(lane="compute", kind=HOST, name="load", ns=0.0, **facts)
            computed: list[int] = []
            order = [("forward", layer) for layer in range(layers)] + [("backward", x) for x in reversed(range(layers))]
            for at, (way, layer) in enumerate(order):
                free = [computed[at - 2]] if at > 1 else []  # two layers' parameters at a time
                gather = job.add(lane="dp", kind=COLLECTIVE, name="params-all-gather", ns=transfer, after=free,
                                 meet=("gather", step, at), **facts)  # fmt: skip
                work = job.add(lane="compute", kind=COMPUTE, name=f"{way}-compute", after=[gather],
                               ns=forward * (2 if way == "backward" else 1), micro_batch=layer, **facts)  # fmt: skip
                computed.append(work)
                if way == "backward":
                    job.add(lane="rs", kind=COLLECTIVE, name="grads-reduce-scatter", ns=transfer, after=[work],
                            meet=("scatter", step, at), **facts)  # fmt: skip
            last = len(job.ops) - 1
            job.add(lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 4, after=[last], **facts)
    return job


# --- what makes them slow ---------------------------------------------------------------------------------------------


def noisy(job: Job, part: float, seed: int) -> Job:
    draw = random.Random(seed)
    for op in job.ops:
        op.ns *= draw.lognormvariate(0, part)
    return job


def slow_worker(job: Job, rank: int, factor: float, since: int = 0) -> Job:
    for op in job.ops:
        if op.kind == COMPUTE and op.rank == rank and op.step >= since:
            op.ns *= factor
    job.planted.append(("slow compute", (rank,), ()))
    return job


def slow_stage(job: Job, stage: int, factor: float) -> Job:
    for op in job.ops:
        if op.kind == COMPUTE and op.stage == stage:
            op.ns *= factor
    job.planted.append(("uneven stages", (), (stage,)))
    return job


def lengths(job: Job, spread: float, seed: int) -> Job:
    draw = random.Random(seed)
    length: dict[tuple[int, int, int], float] = {}
    for op in job.ops:
        if op.kind == COMPUTE and op.name != "optimizer":
            key = (op.dp, op.step, op.micro_batch)
            op.ns *= length.setdefault(key, draw.lognormvariate(0, spread))
    job.planted.append(("uneven sequence lengths", (), ()))
    return job


def collections(job: Job, ns: float, share: float, seed: int) -> Job:
    draw = random.Random(seed)
    for op in job.ops:
        if op.kind == COMPUTE and op.name == "forward-compute" and draw.random() < share:
            op.ns += ns * draw.uniform(0.7, 1.3)
    job.planted.append(("garbage collection", (), ()))
    return job


def slow_link(job: Job, of: Callable[[Op], bool], factor: float) -> Job:
    ranks = set()
    for op in job.ops:
        if op.kind in (SEND, RECV, COLLECTIVE) and of(op):
            op.ns *= factor
            ranks.add(op.rank)
    job.planted.append(("slow link", tuple(sorted(ranks)), ()))
    return job


def late_host(job: Job, rank: int, ns: float, since: int = 0) -> Job:
    for op in job.ops:
        if op.kind == HOST and op.rank == rank and op.step >= since:
            op.ns += ns
    job.planted.append(("late host", (rank,), ()))
    return job


def copied(job: Job) -> Job:
    return replace(job, ops=[replace(op, after=list(op.after)) for op in job.ops], planted=list(job.planted))
