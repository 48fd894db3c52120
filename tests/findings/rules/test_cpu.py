"""Ranks on CPUs that wait for each other to read a number, on small made traces."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracefile import TraceFile
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rules.host import sync_every_step
from weftrace.trace.work import work_of


def found(folder: Path, *, after: str, wait_us: float = 300, beside: bool = False, steps: int = 4) -> list[Found]:
    """Steps of a product of 600 µs and an all-reduce, whose result the operator `after` takes."""
    file = TraceFile(world_size=2)
    for step in range(steps):
        at = 1000.0 * step
        file.host("aten::mm", at, 600, cat="cpu_op")
        file.host("c10d::allreduce_", at + 605, 10, cat="cpu_op")
        file.host("gloo:all_reduce", at + 620, wait_us, tid=2)
        if beside:
            file.host("aten::mm", at + 620, wait_us, cat="cpu_op")
        file.host(after, at + 625 + wait_us, 5, cat="cpu_op")
        file.host(f"ProfilerStep#{step}", at, 990)
    return [one for one in sync_every_step(Evidence(work=work_of(file.trace(folder)))) if isinstance(one, Found)]


def test_a_result_that_is_read_at_once_keeps_ranks_waiting(tmp_path: Path) -> None:
    (one,) = found(tmp_path, after="aten::item")
    assert one.cost_ns == pytest.approx(4 * 300_000, rel=0.04) and one.saves_ns == (0, one.cost_ns) and one.is_bound
    assert one.where.operator == "gloo:all_reduce" and len(one.where.events) == 4 and len(one.sentence) <= 170


def test_what_is_not_read_or_costs_nothing_is_not_told(tmp_path: Path) -> None:
    assert not found(tmp_path, after="aten::div_")
    assert not found(tmp_path, after="aten::item", beside=True)
    assert not found(tmp_path, after="aten::item", wait_us=2)
