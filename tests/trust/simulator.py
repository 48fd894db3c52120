"""Runs of several ranks, simulated event by event, and the files that a profiler would have written of them.

Shares no code with weftrace. A rank has a host thread and streams. The thread works, launches and synchronises; a
stream runs what is launched to it in order. Members of a collective, or a send and its receive, start when they can,
and all end when the last has started and the transfer is done. Computation runs `contention` times slower while a
transfer, or a collective that waits, runs on the same rank. A change scales what an op would take, and the run is
simulated again: that is the truth which a what-if is compared with.
"""

from __future__ import annotations

import heapq
import json
import random
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAUNCH_US, LATENCY_US, GAP_US, WAIT_US = 4.0, 3.0, 1.0, 1.5

#: From (class, family, rank) of an op to the factor on its time. Classes: compute, communication, launch, host,
#: latency.
Change = Callable[[str, str, int], float]


@dataclass(slots=True)
class Op:
    """What a stream or a thread does: `us` of it, after others (with a lag in µs) have ended."""

    rank: int
    what: str
    family: str
    name: str
    us: float
    lane: Hashable
    after: list[tuple[int, float, str]]
    meet: Hashable | None = None
    args: dict[str, Any] = field(default_factory=dict)


class Job:
    """Ops of all ranks, issued in program order by each rank's host."""

    def __init__(self, seed: str, num_ranks: int, *, noise: float = 0.02, contention: float = 1.0) -> None:
        self.random = random.Random(seed)
        self.noise, self.contention, self.num_ranks = noise, contention, num_ranks
        self.seed = seed
        self.ops: list[Op] = []
        self.slow: dict[tuple[int, str], float] = {}  # (rank, what) -> factor
        self.last: dict[tuple[int, Hashable], int] = {}
        self.pending: dict[tuple[int, int], list[int]] = {}
        self.records: list[list[tuple[int, dict[str, Any]]]] = [[] for _ in range(num_ranks)]
        self.counts: dict[Hashable, int] = {}

    def _add(self, op: Op) -> int:
        if (before := self.last.get((op.rank, op.lane))) is not None:
            op.after.append((before, GAP_US if op.lane != "host" else 0.5, "order"))
        self.ops.append(op)
        self.last[op.rank, op.lane] = len(self.ops) - 1
        return len(self.ops) - 1

    def _us(self, rank: int, what: str, us: float) -> float:
        return us * self.slow.get((rank, what), 1.0) * max(0.2, self.random.gauss(1.0, self.noise))

    def host(self, rank: int, us: float) -> None:
        self._add(Op(rank, "host", "host", "work", self._us(rank, "host", us), "host", []))

    def _launched(self, rank: int, stream: int, op: Op) -> None:
        call = self._add(Op(rank, "launch", "launch", "cudaLaunchKernel", LAUNCH_US, "host", []))
        op.after.append((call, LATENCY_US, "latency"))
        op.after += [(on, WAIT_US, "wait") for on in self.pending.pop((rank, stream), [])]
        op.args["call"] = call
        self._add(op)

    def kernel(self, rank: int, stream: int, us: float, *, name: str = "gemm", grid: int = 132,
               shapes: Any = None) -> None:  # fmt: skip
        names = {
            "gemm": "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_cublas",
            "elementwise": "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
        }
        args = {"grid": [grid, 1, 1], "block": [128, 1, 1], "shapes": shapes}
        self._launched(rank, stream, Op(rank, "compute", name, names[name], self._us(rank, "compute", us), stream, [],
                                        args=args))  # fmt: skip

    def wait(self, rank: int, stream: int, on: int) -> None:
        """What is launched next to a stream waits for all that was launched to the other so far."""
        if (last := self.last.get((rank, on))) is None:
            return
        first = self._add(Op(rank, "launch", "launch", "cudaEventRecord", 1.0, "host", []))
        second = self._add(Op(rank, "launch", "launch", "cudaStreamWaitEvent", 1.0, "host", []))
        self.records[rank].append((second, {"stream": stream, "on": on, "record": first}))
        self.pending.setdefault((rank, stream), []).append(last)

    def sync(self, rank: int) -> None:
        """The thread waits until the device is idle."""
        after = [(op, 2.0, "sync") for (of, lane), op in self.last.items() if of == rank and lane != "host"]
        self._add(Op(rank, "sync", "sync", "cudaDeviceSynchronize", 1.0, "host", after))

    def collective(self, group: Sequence[int], stream: int, us: float, *, kind: str = "all_reduce",
                   elems: int = 1 << 20, name: str = "") -> None:  # fmt: skip
        """All ranks of a group, each after what it has launched before."""
        label = name or f"pg_{'_'.join(map(str, group))}"
        number = self.counts[label] = self.counts.get(label, 0) + 1
        took = self._us(-1, "communication", us)
        titles = {"all_reduce": "AllReduce_Sum_bf16_RING_LL", "all_gather": "AllGather_RING_LL",
                  "reduce_scatter": "ReduceScatter_Sum_bf16_RING_LL"}  # fmt: skip
        for rank in group:
            args = {
                "Collective name": {"all_reduce": "allreduce", "all_gather": "_allgather_base",
                                    "reduce_scatter": "_reduce_scatter_base"}[kind],
                "In msg nelems": elems, "Out msg nelems": elems, "dtype": "BFloat16", "Group size": len(group),
                "Process Group Name": label, "Process Group Ranks": str(list(group)), "Seq": number,
                "grid": [24, 1, 1], "block": [512, 1, 1],
            }  # fmt: skip
            kernel = f"ncclDevKernel_{titles[kind]}(ncclDevComm*)"
            self._launched(rank, stream, Op(rank, "communication", "nccl", kernel, took, stream, [],
                                            meet=(label, number), args=args))  # fmt: skip

    def half(self, rank: int, source: int, to: int, stream: int, us: float, *, elems: int = 1 << 18,
             tag: str = "") -> None:  # fmt: skip
        """One side of a send: both sides give the same tag."""
        took = us * random.Random(f"{self.seed}/{tag}").gauss(1.0, self.noise)
        own = self.counts[rank, "p2p"] = self.counts.get((rank, "p2p"), 0) + 1
        args = {
            "Collective name": "send" if rank == source else "recv", "In msg nelems": elems, "Out msg nelems": elems,
            "dtype": "BFloat16", "Group size": self.num_ranks, "Process Group Name": "pipe", "Seq": own,
            "Process Group Ranks": str(list(range(self.num_ranks))), "grid": [2, 1, 1], "block": [512, 1, 1],
        }  # fmt: skip
        args |= {"Dst Rank": to} if rank == source else {"Src Rank": source}
        self._launched(rank, stream, Op(rank, "communication", "nccl", "ncclDevKernel_SendRecv(ncclDevComm*)", took,
                                        stream, [], meet=("p2p", tag), args=args))  # fmt: skip

    def run(self, change: Change | None = None) -> Run:
        """Simulate; change: factors."""
        return simulate(self, change)


@dataclass(slots=True)
class Run:
    """Start and end of every op, µs."""

    job: Job
    start: list[float]
    end: list[float]

    def span(self, ranks: Sequence[int]) -> float:
        """From the first start on a device of these ranks to the last end."""
        ops = [at for at, op in enumerate(self.job.ops) if op.rank in ranks and op.lane != "host"]
        return max(self.end[at] for at in ops) - min(self.start[at] for at in ops)

    def write(self, folder: Path, ranks: Sequence[int], *, metadata: bool = True, peers: bool = True) -> Path:
        """A file for each of the ranks. metadata: what NCCL's profiler tells of collectives, and the job's size. peers:
        whom a send is for, and a receive from."""
        for rank in ranks:
            facts: dict[str, Any] = {
                "schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
                "traceEvents": list(self._events(rank, metadata, peers)),
            }  # fmt: skip
            if metadata:
                facts["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": self.job.num_ranks}
            (folder / f"rank{rank}.json").write_text(json.dumps(facts))
        return folder

    def _events(self, rank: int, metadata: bool, peers: bool) -> Any:
        first = 1_000_000.0
        yield {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler",
               "ts": first - 10, "dur": max(self.end) + 20}  # fmt: skip
        for at, op in enumerate(self.job.ops):
            if op.rank != rank:
                continue
            begun = self.start[at]
            if op.what == "sync":  # the thread comes when it has done what is before, and stays
                begun = next((self.end[on] + lag for on, lag, why in op.after if why == "order"), 0.0)
            start, dur = first + begun, self.end[at] - begun
            event: dict[str, Any] = {"ph": "X", "name": op.name, "ts": round(start, 3), "dur": round(dur, 3)}
            if op.lane == "host":
                if op.what == "host":
                    yield {**event, "cat": "cpu_op", "name": "aten::work", "pid": 1, "tid": 1, "args": {}}
                else:
                    yield {**event, "cat": "cuda_runtime", "pid": 1, "tid": 1, "args": {"correlation": at}}
                continue
            args = {k: v for k, v in op.args.items() if k not in ("call", "shapes")}
            if not metadata:
                args = {k: v for k, v in args.items() if k in ("grid", "block")}
            if not peers:
                args = {k: v for k, v in args.items() if k not in ("Src Rank", "Dst Rank")}
            call = op.args["call"]
            yield {**event, "cat": "kernel", "pid": 0, "tid": op.lane,
                   "args": {"device": 0, "stream": op.lane, "correlation": call, **args}}  # fmt: skip
            if op.args.get("shapes") is not None:
                yield {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
                       "ts": round(first + self.start[call] - 0.2, 3), "dur": LAUNCH_US + 0.3,
                       "args": {"Input Dims": op.args["shapes"], "External id": at}}  # fmt: skip
        for at, known in self.job.records[rank]:
            yield {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": known["stream"],
                   "ts": round(first + self.start[at], 3), "dur": 1,
                   "args": {"device": 0, "stream": known["stream"], "correlation": at, "wait_on_stream": known["on"],
                            "wait_on_cuda_event_record_corr_id": known["record"]}}  # fmt: skip


def simulate(job: Job, change: Change | None = None) -> Run:
    """Event by event: what has started, and what of it is left."""
    ops, factor = job.ops, change or (lambda what, family, rank: 1.0)
    left = [0] * len(ops)
    followers: list[list[int]] = [[] for _ in ops]
    ready = [0.0] * len(ops)
    members: dict[Hashable, list[int]] = {}
    for at, op in enumerate(ops):
        left[at] = len(op.after)
        for on, _, _ in op.after:
            followers[on].append(at)
        if op.meet is not None:
            members.setdefault(op.meet, []).append(at)
    start, end = [-1.0] * len(ops), [-1.0] * len(ops)
    work = [op.us * factor(op.what, op.family, op.rank) for op in ops]
    begun = dict.fromkeys(members, 0)
    busy = [0] * job.num_ranks  # transfers that run
    rest: dict[int, list[float]] = {}  # computation that runs: since when, what is left
    version = [0] * len(ops)
    queue: list[tuple[float, int, int, int]] = []  # time, 0 start and 1 end, op, version

    def rate(rank: int) -> float:
        return 1.0 / job.contention if busy[rank] else 1.0

    def plan_end(at: int, now: float) -> None:
        rest[at] = [now, rest[at][1]]
        version[at] += 1
        heapq.heappush(queue, (now + rest[at][1] / rate(ops[at].rank), 1, at, version[at]))

    def transfers(rank: int, by: int, now: float) -> None:
        running = [at for at in rest if ops[at].rank == rank]
        for at in running:
            rest[at][1] -= (now - rest[at][0]) * rate(rank)
            rest[at][0] = now
        busy[rank] += by
        for at in running:
            plan_end(at, now)

    for at in range(len(ops)):
        if not left[at]:
            heapq.heappush(queue, (0.0, 0, at, 0))
    while queue:
        now, is_end, at, which = heapq.heappop(queue)
        op = ops[at]
        if not is_end:
            start[at] = now
            if op.meet is not None:
                begun[op.meet] += 1
                if begun[op.meet] == len(members[op.meet]):
                    for each in members[op.meet]:
                        transfers(ops[each].rank, 1, now)
                        heapq.heappush(queue, (now + work[each], 1, each, 0))
            elif op.what == "compute":
                rest[at] = [now, work[at]]
                plan_end(at, now)
            else:
                heapq.heappush(queue, (now + work[at], 1, at, 0))
            continue
        if op.what == "compute":
            if which != version[at]:
                continue
            del rest[at]
        end[at] = now
        if op.meet is not None:
            transfers(op.rank, -1, now)
        for each in followers[at]:
            lag = max((lag * (factor("latency", "latency", op.rank) if why == "latency" else
                              factor("launch", "launch", op.rank) if why == "order" and op.lane == "host" else 1.0)
                       for on, lag, why in ops[each].after if on == at))  # fmt: skip
            ready[each] = max(ready[each], now + lag)
            left[each] -= 1
            if not left[each]:
                heapq.heappush(queue, (ready[each], 0, each, 0))
    assert min(end) >= 0, "the job is stuck"
    return Run(job, start, end)
