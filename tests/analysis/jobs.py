"""Simulated jobs of many ranks, whose late ranks are known: work and meetings, event by event, without weftrace.

A rank works, then comes to a meeting; all leave together, a transfer after the last has come. Its clock may be ahead,
run faster, and tell each end of an event a little wrong (jitter). What each rank waited is kept beside.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA

SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Times in ns, true ones. ranks: of the meeting, none of work."""

    start: int
    end: int
    group: str = ""
    ranks: tuple[int, ...] = ()
    seq: int = 0
    collective: str = "allreduce"
    step: int = 0
    sender: int = -1


@dataclass(slots=True)
class Job:
    """ahead, ppm: of each rank's clock; jitter: of each start and end of a meeting, up to so many ns."""

    number: int
    ahead: dict[int, int] = field(default_factory=dict)
    ppm: dict[int, float] = field(default_factory=dict)
    jitter: int = 0
    seed: int = 1
    events: dict[int, list[Event]] = field(default_factory=lambda: defaultdict(list))
    now: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    waited: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))  # (waiter, last): ns
    step: int = 0
    _seqs: dict[tuple[str, tuple[int, ...]], int] = field(default_factory=lambda: defaultdict(int))

    def work(self, rank: int, length: int) -> None:
        start = self.now[rank]
        self.events[rank].append(Event(start=start, end=start + length, step=self.step))
        self.now[rank] = start + length

    def meet(self, ranks: Iterable[int], transfer: int, *, group: str = "0", collective: str = "allreduce",
             sender: int = -1) -> int:  # fmt: skip
        """All ranks meet; who came last. sender: of a send and its receive."""
        ranks = tuple(ranks)
        last = max(ranks, key=lambda rank: (self.now[rank], -rank))
        came = self.now[last]
        end = came + transfer
        self._seqs[group, ranks] += 1
        for rank in ranks:
            self.events[rank].append(
                Event(start=self.now[rank], end=end, group=group, ranks=ranks, seq=self._seqs[group, ranks],
                      collective=collective, step=self.step, sender=sender)
            )  # fmt: skip
            self.waited[rank, last] += came - self.now[rank]
            self.now[rank] = end
        return last

    def clock(self, rank: int, time: int) -> int:
        return time + self.ahead.get(rank, 0) + round(time * self.ppm.get(rank, 0) / 1e6)

    def shown(self, rank: int) -> Iterable[tuple[Event, int, int]]:
        """Each event of a rank with the times that its clock tells."""
        noise = random.Random(1000 * self.seed + rank)
        for event in self.events[rank]:
            wrong = [noise.randint(-self.jitter, self.jitter) if event.ranks else 0 for _ in range(2)]
            yield event, self.clock(rank, event.start + wrong[0]), self.clock(rank, event.end + wrong[1])

    def write(self, folder: Path, *, numbered: bool = True) -> Path:
        """A Kineto file a rank, with NCCL's metadata; numbered: with group and sequence number."""
        folder.mkdir(parents=True, exist_ok=True)
        for rank in range(self.number):
            file = TraceFile(rank=rank, world_size=self.number)
            steps: dict[int, list[int]] = {}
            numbers: dict[int, int] = {}  # of sends and receives: each rank counts its own, whoever the partner is
            for event, start, end in self.shown(rank):
                steps.setdefault(event.step, []).extend((start, end))
                args: dict[str, Any] = {}
                if event.ranks:
                    args = {"Collective name": event.collective, "In msg nelems": 1024, "Group size": len(event.ranks)}
                if event.ranks and numbered:
                    args |= {
                        "Process Group Name": event.group, "Process Group Ranks": str(list(event.ranks)),
                        "Seq": event.seq,
                    }  # fmt: skip
                if event.collective == "send":
                    low, high = event.ranks
                    sends = event.sender == rank
                    args |= {"Collective name": "send" if sends else "recv", "Group size": self.number,
                             "Process Group Ranks": str(list(range(self.number))),
                             ("Dst Rank" if sends else "Src Rank"): high if rank == low else low}  # fmt: skip
                    seq = numbers[rank] = numbers.get(rank, 0) + 1
                    args["Seq"] = seq
                name = GEMM if not event.ranks else SEND_RECV if event.collective == "send" else ALL_REDUCE
                file.kernel(name, start / 1000, (end - start) / 1000, stream=20 if event.ranks else 7,
                            launch=start / 1000, **args)  # fmt: skip
            for step, times in steps.items():
                file.host(f"ProfilerStep#{step}", min(times) / 1000 - 1, (max(times) - min(times)) / 1000 - 2)
            file.write(folder / f"rank{rank}.json")
        return folder

    def frames(self) -> list[pl.DataFrame]:
        """Of each rank what `arrivals` would give, for jobs too large to write."""
        found = []
        for rank in range(self.number):
            kinds = {"send": "send_recv", "allreduce": "all_reduce"}
            rows = [
                {"group": f"{event.group} {list(event.ranks)}", "group_size": len(event.ranks), "seq": event.seq,
                 "collective": kinds[event.collective], "what": kinds[event.collective], "step": event.step,
                 "start_ns": start, "end_ns": end, "idle_since_ns": start, "is_barrier": False}
                for event, start, end in self.shown(rank) if event.ranks
            ]  # fmt: skip
            found.append(pl.DataFrame(rows, schema=ARRIVAL_SCHEMA))
        return found
