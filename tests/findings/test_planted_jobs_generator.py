"""Planted jobs lose what is said of them, and without their causes they are healthy: read from the files themselves."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.findings.planted_jobs import Case, cases
from tests.findings.planted_jobs.catalogue import write

Interval = tuple[float, float]

ALL = list(cases())
PLANTED = [case for case in ALL if case.causes]
HEALTHY = [case for case in ALL if not case.causes]


@dataclass(frozen=True)
class Read:
    """What files say. Kernels of each rank as (name, begin, end, arguments, stream), µs; copies are among them."""

    kernels: dict[int, list[tuple[str, float, float, dict[str, Any], int]]]
    hosts: dict[int, list[tuple[str, str, float, float]]]

    def span(self) -> float:
        begins = [kernel[1] for mine in self.kernels.values() for kernel in mine]
        return max(kernel[2] for mine in self.kernels.values() for kernel in mine) - min(begins)

    def communication(self, rank: int) -> list[tuple[str, float, float, dict[str, Any], int]]:
        return [kernel for kernel in self.kernels[rank] if "nccl" in kernel[0] or "deep_ep" in kernel[0]]

    def transfers(self) -> dict[int, list[Interval]]:
        """Of each rank its collectives from the instant at which the last rank comes; of those whose others are not
        recorded, the whole."""
        last: dict[tuple[object, ...], float] = {}
        keys: dict[int, list[tuple[tuple[object, ...], float]]] = defaultdict(list)
        for rank in self.kernels:
            number: dict[str, int] = defaultdict(int)
            for name, begin, end, args, _ in self.communication(rank):
                if args.get("Collective name") in ("send", "recv"):
                    pair = (rank, args["Dst Rank"]) if "Dst Rank" in args else (args["Src Rank"], rank)
                    key: tuple[object, ...] = ("hop", pair, args["Seq"])
                elif "Seq" in args:
                    key = (args["Process Group Ranks"], args["Seq"])
                else:
                    number[name] += 1
                    key = (name, number[name])
                last[key] = max(last.get(key, begin), begin)
                keys[rank].append((key, end))
        return {rank: [(min(last[key], end), end) for key, end in mine] for rank, mine in keys.items()}

    def exposed(self) -> float:
        """The mean rank's transfers beside which it computes nothing, as a share of the span."""
        shares = []
        for rank, moved in self.transfers().items():
            mine = {id(kernel) for kernel in self.communication(rank)}
            computed = [kernel[1:3] for kernel in self.kernels[rank] if id(kernel) not in mine]
            shares.append((length(moved + computed) - length(computed)) / self.span())
        return mean(shares)

    def waited(self) -> dict[int, float]:
        """Each rank's time in communication before the last rank comes, beside which it computes nothing."""
        found = {}
        for rank, moved in self.transfers().items():
            mine = {id(kernel) for kernel in self.communication(rank)}
            busy = [kernel[1:3] for kernel in self.kernels[rank] if id(kernel) not in mine] + moved
            found[rank] = (length([kernel[1:3] for kernel in self.kernels[rank]]) - length(busy)) / self.span()
        return found

    def idle(self) -> dict[int, float]:
        found = {}
        for rank, mine in self.kernels.items():
            whole = max(kernel[2] for kernel in mine) - min(kernel[1] for kernel in mine)
            found[rank] = (whole - length([kernel[1:3] for kernel in mine])) / self.span()
        return found


def length(intervals: Iterable[Interval]) -> float:
    """Of the union."""
    total, reach = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reach))
        reach = max(reach, end)
    return total


def read(path: Path) -> Read:
    found = Read({}, {})
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        document = json.loads(file.read_text())
        rank = document["distributedInfo"]["rank"]
        events = [event for event in document["traceEvents"] if event["ph"] == "X"]
        found.kernels[rank] = sorted(
            (event["name"], event["ts"], event["ts"] + event["dur"], event["args"], event["tid"])
            for event in events if event["cat"] in ("kernel", "gpu_memcpy")
        )  # fmt: skip
        found.hosts[rank] = [(event["cat"], event["name"], event["ts"], event["ts"] + event["dur"])
                             for event in events if event["pid"] not in (0, "Spans")]  # fmt: skip
    return found


def test_cases_are_the_same_each_time_and_may_be_taken_in_part(tmp_path: Path) -> None:
    again = list(cases(every=len(ALL), offset=4))
    first, second = ALL[4].write(tmp_path / "first"), again[0].write(tmp_path / "second")
    assert [file.read_bytes() for file in first.iterdir()] == [file.read_bytes() for file in second.iterdir()]
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


@pytest.mark.parametrize("case", PLANTED[::9], ids=lambda case: case.name)
def test_a_cause_costs_what_its_remedy_saves(case: Case, tmp_path: Path) -> None:
    with_it = read(case.write(tmp_path / "with"))
    without = read(write(case.mended(), tmp_path / "without"))
    if case.base.recorded is None and case.base.clock_ns == 0:
        assert 1 - without.span() / with_it.span() == pytest.approx(case.all_gain, abs=0.005)
    for rule, gain in case.gain.items():
        assert gain < 0.01 if rule == "leave-it" else gain > 0.01
    assert case.all_gain <= sum(case.gain.values()) + 0.15


@pytest.mark.parametrize("case", HEALTHY[::6], ids=lambda case: case.name)
def test_healthy_jobs_neither_wait_nor_idle(case: Case, tmp_path: Path) -> None:
    found = read(case.write(tmp_path))
    assert case.gain == {} and case.all_gain == 0
    assert max(found.idle().values()) < 0.03
    if not case.base.clock_ns:
        assert found.exposed() < 0.05
        assert max(found.waited().values()) < (0.10 if case.base.form == "pipeline" else 0.03)
