"""Planted jobs lose what is said of them, and without their causes they are healthy: read from the files themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import pytest

from tests.findings.planted_jobs import Case, cases
from tests.findings.planted_jobs.catalogue import write
from tests.fuzz import few

Interval = tuple[float, float]

ALL = list(cases())
PLANTED = [case for case in ALL if case.causes]
HEALTHY = [case for case in ALL if not case.causes]
NODE = 8
LINK_BYTES_PER_US = 450e3


class Kernel(NamedTuple):
    """Device work, in µs."""

    name: str
    begin: float
    end: float
    args: dict[str, Any]

    @property
    def took(self) -> float:
        return self.end - self.begin

    @property
    def communicates(self) -> bool:
        return "nccl" in self.name or "deep_ep" in self.name


class Told(NamedTuple):
    """A range of a host, in µs."""

    category: str
    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Read:
    """What the files of a job say, rank by rank."""

    kernels: dict[int, list[Kernel]]
    hosts: dict[int, list[Told]]

    def span(self) -> float:
        kernels = [kernel for mine in self.kernels.values() for kernel in mine]
        return max(kernel.end for kernel in kernels) - min(kernel.begin for kernel in kernels)

    def busy(self, rank: int) -> list[Interval]:
        return [(kernel.begin, kernel.end) for kernel in self.kernels[rank]]

    def computed(self, rank: int, *families: str) -> list[Interval]:
        """Beside communication: all, or kernels whose names have one of these words."""
        return [(kernel.begin, kernel.end) for kernel in self.kernels[rank] if not kernel.communicates
                and (not families or any(word in kernel.name for word in families))]  # fmt: skip

    def communicated(self, rank: int) -> list[Kernel]:
        return [kernel for kernel in self.kernels[rank] if kernel.communicates]

    def meetings(self) -> dict[tuple[object, ...], dict[int, Kernel]]:
        """Of each collective its kernel on each rank."""
        found: dict[tuple[object, ...], dict[int, Kernel]] = defaultdict(dict)
        for rank in self.kernels:
            number: dict[str, int] = defaultdict(int)
            for kernel in self.communicated(rank):
                args = kernel.args
                if args.get("Collective name") in ("send", "recv"):
                    pair = (rank, args["Dst Rank"]) if "Dst Rank" in args else (args["Src Rank"], rank)
                    found["hop", pair, args["Seq"]][rank] = kernel
                elif "Seq" in args:
                    found[args["Process Group Ranks"], args["Seq"]][rank] = kernel
                else:
                    number[kernel.name] += 1
                    found[kernel.name, number[kernel.name]][rank] = kernel
        return found

    def transfers(self) -> dict[int, list[Interval]]:
        """Of each rank its collectives, from the instant at which the last of those that are recorded comes."""
        found: dict[int, list[Interval]] = defaultdict(list)
        for members in self.meetings().values():
            last = max(kernel.begin for kernel in members.values())
            for rank, kernel in members.items():
                found[rank].append((min(last, kernel.end), kernel.end))
        return found

    def exposed(self) -> float:
        """The mean rank's transfers beside which it computes nothing, as a share of the span."""
        return mean(outside(moved, self.computed(rank)) for rank, moved in self.transfers().items()) / self.span()

    def waited(self) -> dict[int, float]:
        """Each rank's time in communication before the last rank comes, beside which it computes nothing."""
        return {rank: outside(self.busy(rank), self.computed(rank) + moved) / self.span()
                for rank, moved in self.transfers().items()}  # fmt: skip

    def gaps(self, rank: int) -> list[Interval]:
        found, reach = [], float("inf")
        for begin, end in sorted(self.busy(rank)):
            if begin > reach:
                found.append((reach, begin))
            reach = end if reach == float("inf") else max(reach, end)
        return found

    def idle(self, rank: int) -> float:
        return length(self.gaps(rank)) / self.span()

    def steps(self) -> int:
        return len({told.name for mine in self.hosts.values() for told in mine if told.name.startswith("Profiler")})

    def bandwidths(self, least: float) -> list[float]:
        """Bus bandwidth of each collective of at least so many bytes, to that of the link."""
        found = []
        for members in self.meetings().values():
            kernel = next(iter(members.values()))
            size = kernel.args.get("Group size", 1)
            num_bytes = 2 * max(kernel.args.get("In msg nelems", 0), kernel.args.get("Out msg nelems", 0))
            if num_bytes >= least and size > 1:
                took = kernel.end - max(one.begin for one in members.values())
                factor = (size - 1) / size * (2 if kernel.args["Collective name"] == "allreduce" else 1)
                found.append(num_bytes * factor / took / LINK_BYTES_PER_US)
        return found


def length(intervals: Iterable[Interval]) -> float:
    """Of the union."""
    total, reach = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def outside(some: Sequence[Interval], others: Sequence[Interval]) -> float:
    """How long some run and no others do."""
    return length([*some, *others]) - length(others)


def read(path: Path) -> Read:
    found = Read({}, {})
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        document = json.loads(file.read_text())
        rank = document["distributedInfo"]["rank"]
        events = [event for event in document["traceEvents"] if event["ph"] == "X"]
        found.kernels[rank] = sorted(
            (Kernel(event["name"], event["ts"], event["ts"] + event["dur"], event["args"])
             for event in events if event["cat"] in ("kernel", "gpu_memcpy")), key=lambda kernel: kernel.begin
        )  # fmt: skip
        found.hosts[rank] = [Told(event["cat"], event["name"], event["ts"], event["ts"] + event["dur"])
                             for event in events if event["pid"] not in (0, "Spans")]  # fmt: skip
    return aligned(found)


def aligned(job: Read) -> Read:
    """With the clocks of the ranks set by the ends of what all have part in."""
    first = min(job.kernels)
    shared = [members for members in job.meetings().values() if len(members) == len(job.kernels)]
    for rank in job.kernels:
        ahead = median(members[rank].end - members[first].end for members in shared)
        job.kernels[rank] = [one._replace(begin=one.begin - ahead, end=one.end - ahead) for one in job.kernels[rank]]
        job.hosts[rank] = [one._replace(begin=one.begin - ahead, end=one.end - ahead) for one in job.hosts[rank]]
    return job


# --- evidence of each rule: (what the job with the cause shows, what the job without it must not) ---------------------


def most_waited(job: Read) -> float:
    return max(job.waited().values())


def hidden(job: Read) -> float:
    """The share of communication beside which something is computed, negative, so that more is worse."""
    shares = []
    for rank in job.kernels:
        mine = [(kernel.begin, kernel.end) for kernel in job.communicated(rank)]
        shares.append(1 - outside(mine, job.computed(rank)) / length(mine))
    return -mean(shares)


def fullest(job: Read) -> float:
    """Experts' time of the fullest rank to the mean, kernel by kernel."""
    names = ("GroupProblem", "grouped_gemm")
    times = [[end - begin for begin, end in job.computed(rank, *names)] for rank in job.kernels]
    return float(mean(max(each) / mean(each) for each in zip(*times, strict=True)))


def beside(job: Read) -> float:
    """How much longer GEMMs of one name and grid take that wholly run beside communication than those that do not."""
    alone: dict[tuple[object, ...], list[float]] = defaultdict(list)
    with_it: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for rank, mine in job.kernels.items():
        moved = [(kernel.begin, kernel.end) for kernel in job.communicated(rank)]
        for kernel in mine:
            if ("gemm" in kernel.name or "Cijk" in kernel.name) and not kernel.communicates:
                share = outside([(kernel.begin, kernel.end)], moved) / kernel.took
                if not 0.01 < share < 0.99:
                    key = (kernel.name, *kernel.args["grid"])
                    (with_it if share < 0.5 else alone)[key].append(kernel.took)
    return float(median(median(with_it[key]) / median(alone[key]) for key in with_it if key in alone))


def work(job: Read) -> float:
    """Computation of the fullest rank to the mean."""
    times = [length(job.computed(rank)) for rank in job.kernels]
    return max(times) / mean(times)


def attention(job: Read) -> float:
    """Attention of the longest rank to the mean, step by step; GEMMs are as long on all ranks."""
    gemms = [length(job.computed(rank, "gemm", "Cijk")) for rank in job.kernels]
    assert max(gemms) / mean(gemms) < 1.02
    ratios = []
    for step in range(job.steps()):
        times = []
        for rank in job.kernels:
            mine = job.computed(rank, "flash", "attn_fwd", "bwd_kernel")
            number = len(mine) // job.steps()
            times.append(length(mine[step * number : (step + 1) * number]))
        ratios.append(max(times) / mean(times))
    return mean(ratios)


def first_and_last(job: Read) -> float:
    """Collectives beside whose transfer next to nothing runs, as a share of the span: the first and the last."""
    whole = []
    for rank, moved in job.transfers().items():
        mine = job.computed(rank)
        whole.append(sum(end - begin for begin, end in moved if outside([(begin, end)], mine) > 0.9 * (end - begin)))
    return mean(whole) / job.span()


def across_nodes(job: Read) -> float:
    groups = {tuple(json.loads(kernel.args["Process Group Ranks"])) for mine in job.kernels.values()
              for kernel in mine if kernel.args.get("Group size", 99) < 16}  # fmt: skip
    assert all(len({rank // NODE for rank in group}) > 1 for group in groups)
    return job.exposed()


def uneven_clocks(job: Read) -> float:
    """The least that any family of kernels of the slowest rank, or of the later steps, is slower than the others."""
    families = ("gemm", "Cijk"), ("flash", "attn_fwd", "bwd_kernel"), ("elementwise", "layer_norm")
    by_rank: dict[int, list[float]] = {}
    later: list[float] = []
    for words in families:
        halves = []
        for rank in job.kernels:
            mine = [end - begin for begin, end in job.computed(rank, *words)]
            by_rank.setdefault(rank, []).append(sum(mine))
            halves.append(sum(mine[len(mine) // 2 :]) / sum(mine[: len(mine) // 2]))
        later.append(mean(halves))
    usual = [median(times[number] for times in by_rank.values()) for number in range(len(families))]
    ranks = [min(time / each for time, each in zip(times, usual, strict=True)) for times in by_rank.values()]
    return max(*ranks, min(later))


def communication(job: Read) -> float:
    rank = min(job.kernels)
    return sum(kernel.took for kernel in job.communicated(rank)) / job.span()


def longest_silence(job: Read) -> float:
    """Of any host, ms in which it records nothing and its device idles, beside ranges that stay open; but one of gc."""
    longest = 0.0
    for rank, told in job.hosts.items():
        calls = sorted((one.begin, one.end) for one in told if one.category in ("cpu_op", "cuda_runtime"))
        for (_, before), (after, _) in pairwise(calls):
            idle = sum(max(0.0, min(end, after) - max(begin, before)) for begin, end in job.gaps(rank))
            longest = max(longest, (after - before) * (idle > 0.2 * (after - before)) / 1000)
    return longest


def loading(job: Read) -> float:
    """The largest share of a rank's span in which it loads and its device idles."""
    shares = []
    for rank, told in job.hosts.items():
        loads = [(one.begin, one.end) for one in told if one.name.startswith("enumerate(DataLoader)")]
        idle = job.gaps(rank)
        shares.append((length(loads) + length(idle) - length([*loads, *idle])) / job.span())
    return max(shares)


def after_syncs(job: Read) -> float:
    """The least share of a rank's span in which its device idles right behind a call that waited for it."""
    shares = []
    for rank, told in job.hosts.items():
        ends = [one.end for one in told if "StreamSynchronize" in one.name]
        assert len(ends) % job.steps() == 0
        gaps = [(begin, end) for begin, end in job.gaps(rank) if any(begin - 1 <= at < end for at in ends)]
        shares.append(length(gaps) / job.span())
    return min(shares)


def awaited_hosts(job: Read) -> float:
    return min(job.idle(rank) for rank in job.kernels)


#: rule -> evidence, the rule's threshold, and what is left at most where the cause is gone.
EVIDENCE: dict[str, tuple[Callable[[Read], float], float, float]] = {
    "exposed-collective": (Read.exposed, 0.05, 0.05),
    "one-connection": (hidden, -0.05, -0.30),
    "straggler": (most_waited, 0.03, 0.03),
    "expert-imbalance": (fullest, 1.2, 1.1),
    "contention": (beside, 1.1, 1.03),
    "small-collectives": (lambda job: -median(job.bandwidths(0)), -0.25, -0.25),
    "slow-collectives": (lambda job: -median(job.bandwidths(16 << 20)), -0.60, -0.75),
    "pipeline-bubble": (lambda job: mean(job.waited().values()), 0.10, 0.20),
    "slow-stage": (work, 1.1, 1.03),
    "sequence-imbalance": (attention, 1.1, 1.03),
    "first-and-last-collective": (first_and_last, 0.01, 0.01),
    "tensor-parallel-across-nodes": (across_nodes, 0.20, 0.10),
    "slow-clocks": (uneven_clocks, 1.03, 1.02),
    "ranks-missing": (communication, 0.05, 1.0),
    "leave-it": (communication, 0.20, 1.0),
    "gc-pause": (longest_silence, 10.0, 1.0),
    "data-loading": (loading, 0.05, 0.01),
    "sync-every-step": (after_syncs, 0.01, 0.005),
    "host-bound": (awaited_hosts, 0.20, 0.05),
}


def test_cases_are_the_same_each_time_and_may_be_taken_in_part(tmp_path: Path) -> None:
    again = list(cases(every=len(ALL), offset=4))
    first, second = ALL[4].write(tmp_path / "first"), again[0].write(tmp_path / "second")
    assert [file.read_bytes() for file in sorted(first.iterdir())] == [
        file.read_bytes() for file in sorted(second.iterdir())
    ]
    assert [case.name for case in cases(every=7, offset=3)] == [case.name for case in ALL][3::7]
    assert len({case.name for case in ALL}) == len(ALL)


def test_each_rule_of_communication_and_jobs_is_planted_in_three_strengths_and_there_are_healthy_jobs() -> None:
    strengths: dict[str, set[int]] = defaultdict(set)
    for case in PLANTED:
        assert 1 <= len(case.causes) <= 3
        for rule in case.causes:
            strengths[rule].add(case.strength)
    assert set(strengths) == {
        "exposed-collective", "one-connection", "straggler", "expert-imbalance", "contention", "small-collectives",
        "slow-collectives", "pipeline-bubble", "slow-stage", "sequence-imbalance", "first-and-last-collective",
        "tensor-parallel-across-nodes", "slow-clocks", "ranks-missing", "leave-it", "gc-pause", "data-loading",
        "sync-every-step", "host-bound",
    }  # fmt: skip
    assert all(strengths[rule] == {0, 1, 2} for rule in strengths)
    assert len(HEALTHY) >= 20
    assert all(not case.causes & case.also_fine for case in ALL)


def of_each_rule() -> list[Case]:
    """The mildest of each row, of single causes: one of each rule."""
    single = {min(case.causes): case for case in reversed(PLANTED) if len(case.causes) == 1 and case.strength == 0}
    return list(single.values())


@pytest.mark.parametrize("case", few(of_each_rule(), 10), ids=lambda case: case.name)
def test_files_show_the_cause_and_without_it_do_not(case: Case, tmp_path: Path) -> None:
    (rule,) = case.causes
    evidence, threshold, left = EVIDENCE[rule]
    planted = read(case.write(tmp_path / "planted"))
    mended = read(write(case.mended(), tmp_path / "mended"))
    assert evidence(planted) >= threshold
    assert evidence(mended) <= left
    assert set(planted.kernels) == set(case.base.shown)
    if len(planted.kernels) == len(case.base.ranks):
        assert 1 - mended.span() / planted.span() == pytest.approx(case.all_gain, abs=0.002)


@pytest.mark.parametrize("case", few(PLANTED[::11], 10), ids=lambda case: case.name)
def test_removing_a_cause_saves_time_and_removing_all_saves_most(case: Case) -> None:
    for rule, gain in case.gain.items():
        assert abs(gain) < 0.01 if rule == "leave-it" else gain > 0.01
    assert case.all_gain > max(case.gain.values(), default=0.0) - 1e-9


@pytest.mark.parametrize("case", HEALTHY[::5], ids=lambda case: case.name)
def test_healthy_jobs_neither_wait_nor_idle(case: Case, tmp_path: Path) -> None:
    found = read(case.write(tmp_path))
    assert case.gain == {} and case.all_gain == 0
    assert max(found.idle(rank) for rank in found.kernels) < 0.03
    assert found.exposed() < 0.05
    assert most_waited(found) < (0.10 if case.base.form == "pipeline" else 0.03)
