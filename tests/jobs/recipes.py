"""Simulated jobs: pipelines with tensor and data parallelism, DDP with its buckets, FSDP with its gathers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.jobs.orders import Action, order_of
from tests.jobs.simulate import COLLECTIVE, COMPUTE, HOST, RECV, SEND, Job

_NAMES = {"F": "forward-compute", "B": "backward-compute", "I": "backward-input-compute",
          "W": "backward-weight-compute", "FB": "forward-backward-compute"}  # fmt: skip
_COSTS = {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0, "FB": 3.0}


def pipeline(dp: int, pp: int, *, tp: int = 1, schedule: str = "1f1b", num_mb: int = 6, steps: int = 4,
             sends_wait: bool = True, zero: int = 1, forward: float = 1e6, transfer: float = 3e4,
             overlapped: float = 2.7) -> Job:  # fmt: skip
    """A pipeline of any order. zero: at 1, parameters are gathered before a step and gradients scattered after it, at 0
    gradients are reduced. overlapped: the time of a forward with a backward, in forwards."""
    job = Job(dp=dp, pp=pp, tp=tp)
    order = order_of(schedule, pp, num_mb)
    for step in range(steps):
        first_of = len(job.ops)
        gathered: dict[int, int] = {}
        for rank, facts in _ranks(job, step):
            load = job.add(lane="compute", kind=HOST, name="load", ns=0.0, **facts)
            gathered[rank] = load
            if zero and dp > 1:
                gathered[rank] = job.add(lane="dp", kind=COLLECTIVE, name="params-all-gather", ns=6 * transfer,
                                         after=[load], meet=("gather", step, facts["stage"], facts["tp"]),
                                         **facts)  # fmt: skip
        for d in range(dp):
            made: dict[tuple[str, int, int], list[int]] = {}  # F or B, micro-batch, place -> op of each tensor rank
            left = [list(each) for each in order.actions]
            while any(left):
                before = sum(map(len, left))
                for p in range(pp):
                    while left[p] and _are_there(left[p][0], made, order.num_places):
                        _add(job, left[p].pop(0), d, p, step, made, gathered, order.rank_of, order.num_places,
                             forward, transfer, overlapped, sends_wait)  # fmt: skip
                assert sum(map(len, left)) < before, f"{schedule}: no action can run"
        last = {job.ops[at].rank: at for at in range(first_of, len(job.ops)) if job.ops[at].kind == COMPUTE}
        for rank, facts in _ranks(job, step):
            name = "grads-reduce-scatter" if zero else "grads-all-reduce"
            reduced = last[rank]
            if dp > 1:
                reduced = job.add(lane="dp", kind=COLLECTIVE, name=name, ns=9 * transfer, after=[reduced],
                                  meet=("reduce", step, facts["stage"], facts["tp"]), **facts)  # fmt: skip
            clip = job.add(lane="dp", kind=COLLECTIVE, name="optimizer-clip-main-grad", ns=transfer, after=[reduced],
                           meet=("clip", step), **facts)  # fmt: skip
            job.add(lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 3, after=[clip], **facts)
    return job


def _ranks(job: Job, step: int) -> Iterator[tuple[int, dict[str, int]]]:
    for p in range(job.pp):
        for d in range(job.dp):
            for t in range(job.tp):
                rank = job.rank(p, d, t)
                yield rank, {"rank": rank, "stage": p, "dp": d, "tp": t, "step": step}


def _source(part: tuple[str, int, int], num_places: int) -> tuple[str, int, int] | None:
    """What a part of an action takes: the forward before, the backward after, or of the last place its own forward."""
    kind, mb, place = part
    if kind == "W" or (kind == "F" and place == 0):
        return None
    if kind == "F":
        return "F", mb, place - 1
    return ("F", mb, place) if place == num_places - 1 else ("B", mb, place + 1)


def _are_there(action: Action, made: dict[tuple[str, int, int], list[int]], num_places: int) -> bool:
    return all((source := _source(part, num_places)) is None or source in made for part in action)


def _add(job: Job, action: Action, d: int, p: int, step: int, made: dict[tuple[str, int, int], list[int]],
         gathered: dict[int, int], rank_of: list[list[int]], num_places: int, forward: float, transfer: float,
         overlapped: float, sends_wait: bool) -> None:  # fmt: skip
    """Adds an action of all tensor ranks of a stage, with the receives before it and the sends of what they take."""
    after = [[gathered[job.rank(p, d, t)]] for t in range(job.tp)]
    for part in action:
        source = _source(part, num_places)
        if source is None:
            continue
        kind, mb, from_place = source
        from_stage = rank_of[mb][from_place]
        if from_stage == p:
            for t in range(job.tp):
                after[t].append(made[source][t])
            continue
        way = "forward" if kind == "F" else "backward"
        suffix = "" if rank_of[mb] == rank_of[0] else " 2"  # of the other direction
        for t in range(job.tp):
            meet = ("p2p", step, d, t, kind, mb, from_place) if sends_wait else None
            facts: dict[str, Any] = {"step": step, "micro_batch": mb, "dp": d, "tp": t, "ns": transfer}
            send = job.add(rank=job.rank(from_stage, d, t), lane=f"{way}-send{suffix}", kind=SEND, name=f"{way}-send",
                           after=[made[source][t]], meet=meet, stage=from_stage, chunk=from_place // job.pp,
                           **facts)  # fmt: skip
            after[t].append(job.add(rank=job.rank(p, d, t), lane=f"{way}-recv{suffix}", kind=RECV, name=f"{way}-recv",
                                    data=-1 if sends_wait else send, meet=meet, stage=p, chunk=part[2] // job.pp,
                                    **facts | ({} if sends_wait else {"ns": transfer / 6})))  # fmt: skip
    letters = "".join(part[0] for part in action)
    cost = overlapped if letters == "FB" else _COSTS[letters]
    chunk = action[0][2] // job.pp if rank_of[action[0][1]] == rank_of[0] else 1
    ends = []
    for t in range(job.tp):
        place: dict[str, Any] = {"rank": job.rank(p, d, t), "lane": "compute", "step": step, "dp": d, "tp": t,
                                 "micro_batch": action[0][1], "stage": p, "chunk": chunk}  # fmt: skip
        job.add(kind=HOST, name="pause", ns=0.0, **place)
        parts = 2 if job.tp > 1 and letters != "W" else 1
        head, at = -1, -1
        for part_number in range(parts):
            at = job.add(
                kind=COMPUTE, name=_NAMES[letters], ns=forward * cost / parts, after=after[t], part_of=head, **place
            )
            head = at if head < 0 else head
            if parts > 1:
                together = ("tp", step, d, p, *action, part_number)
                at = job.add(
                    kind=COLLECTIVE, name="tp-all-reduce", ns=1.5 * transfer, part_of=head, meet=together, **place
                )
        ends.append(at)
    for kind, mb, model_place in action:
        made["B" if kind in "BI" else kind, mb, model_place] = ends


def ddp(
    dp: int, *, steps: int = 6, buckets: int = 4, zero: int = 0, forward: float = 4e6, transfer: float = 6e5
) -> Job:
    """One backward a step, recorded as one range, in whose midst buckets of gradients are reduced on another lane.
    zero: from 1 on they are scattered, and parameters gathered after the optimizer."""
    job = Job(dp=dp, pp=1)
    name = "grads-reduce-scatter" if zero else "grads-all-reduce"
    for step in range(steps):
        for rank in range(dp):
            facts = {"rank": rank, "step": step, "dp": rank, "micro_batch": 0}
            job.add(lane="compute", kind=HOST, name="load", ns=0.0, **facts)
            head, reduced = -1, []
            job.add(lane="compute", kind=HOST, name="pause", ns=0.0, **facts)
            job.add(lane="compute", kind=COMPUTE, name="forward-compute", ns=forward, **facts)
            job.add(lane="compute", kind=HOST, name="pause", ns=0.0, **facts)
            for bucket in range(buckets):
                part = job.add(lane="compute", kind=COMPUTE, name="backward-compute", ns=2 * forward / buckets,
                               part_of=head, **facts)  # fmt: skip
                head = part if head < 0 else head
                reduced.append(job.add(lane="dp", kind=COLLECTIVE, name=name, ns=transfer, after=[part],
                                       meet=("reduce", step, bucket), **facts))  # fmt: skip
            last = job.add(lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 4, after=reduced[-1:], **facts)
            if zero:
                gather = job.add(lane="dp", kind=COLLECTIVE, name="params-all-gather", ns=2 * transfer, after=[last],
                                 meet=("gather", step), **facts)  # fmt: skip
                job.add(lane="compute", kind=HOST, name="wait", ns=0.0, after=[gather], **facts)
    return job


def fsdp(dp: int, *, steps: int = 4, layers: int = 4, forward: float = 1e6, transfer: float = 4e5) -> Job:
    """Each layer's parameters are gathered while the layer before computes, and gathered again for its backward."""
    job = Job(dp=dp, pp=1)
    for step in range(steps):
        for rank in range(dp):
            facts = {"rank": rank, "step": step, "dp": rank}
            load = job.add(lane="compute", kind=HOST, name="load", ns=0.0, **facts)
            computed: list[int] = []
            order = [("forward", layer) for layer in range(layers)] + [("backward", x) for x in reversed(range(layers))]
            scattered = -1
            for at, (way, layer) in enumerate(order):
                free = [computed[at - 2]] if at > 1 else [load]  # two layers' parameters at a time
                gather = job.add(lane="dp", kind=COLLECTIVE, name="params-all-gather", ns=transfer, after=free,
                                 meet=("gather", step, at), **facts)  # fmt: skip
                job.add(lane="compute", kind=HOST, name="pause", ns=0.0, **facts)
                work = job.add(lane="compute", kind=COMPUTE, name=f"{way}-compute", after=[gather],
                               ns=forward * (2 if way == "backward" else 1), micro_batch=layer, **facts)  # fmt: skip
                computed.append(work)
                if way == "backward":
                    scattered = job.add(lane="rs", kind=COLLECTIVE, name="grads-reduce-scatter", ns=transfer,
                                        after=[work], meet=("scatter", step, at), **facts)  # fmt: skip
            job.add(lane="compute", kind=COMPUTE, name="optimizer", ns=forward / 4, after=[scattered], **facts)
    return job
