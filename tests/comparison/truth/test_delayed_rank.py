"""A rank that is delayed is told as that rank's lateness: the others wait for it as long as a pencil says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from weftrace.analysis.step_shares import WAITING
from weftrace.api import save
from weftrace.comparison import diff
from weftrace.comparison.explanations import headline
from weftrace.plan import Op, Plan, Resource, Wait, simulate_ranks

MS = 1_000_000
RANKS, LATE = 4, 2


def job(*, gemm_ms: float = 2.0, gap_ms: float = 0.0, network_ms: float = 1.0) -> Plan:
    """Five steps of four ranks: two layers, each a GEMM and an all-reduce of all ranks that the next GEMM waits for.

    gemm_ms: of rank 2's GEMM. gap_ms: after which rank 2's GEMM starts only, for its input is late.
    """
    ops: list[Op] = []
    last: dict[int, int] = {}
    for step in range(5):
        for layer in range(2):
            of: dict[str, Any] = {"step": step, "layer": layer}
            for rank in range(RANKS):
                is_late = rank == LATE
                after = (Wait(last[rank], lag_ns=round(gap_ms * MS) if is_late else 0),) if rank in last else ()
                ops.append(Op(name="gemm", duration_ns=round((gemm_ms if is_late else 2.0) * MS), after=after,
                              resource=Resource(rank=rank, stream=7), phase="mlp(F)", **of))  # fmt: skip
                last[rank] = len(ops) - 1
            for rank in range(RANKS):
                ops.append(Op(name="all_reduce", kind="communication", duration_ns=round(network_ms * MS),
                              after=(Wait(last[rank]),), resource=Resource(rank=rank, stream=27), phase="mlp(F)",
                              meet=2 * step + layer, **of))  # fmt: skip
                last[rank] = len(ops) - 1
    return Plan.of(ops, name="job", world_size=RANKS)


def parts_of(before: Plan, after: Plan, *, folder: Path | None = None) -> tuple[dict[tuple[str, str | None], int], str]:
    sides: list[Any] = [simulate_ranks(before), simulate_ranks(after)]
    if folder is not None:
        for at, traces in enumerate(sides):
            (folder / str(at)).mkdir()
            for rank, trace in traces.items():
                save(trace, folder / str(at) / f"rank{rank}.json.gz")
        sides = [str(folder / str(at)) for at in range(2)]
    found = diff(*sides, workers=1)
    assert found.changes.get_column("change_ns").sum() + found.remainder_ns == found.change_ns
    rows = found.by("part", "cause").filter(pl.col("change_ns") != 0)
    return {(part, cause): change for part, cause, change in rows.select("part", "cause", "change_ns").iter_rows()}, (
        headline(found)
    )


@pytest.mark.parametrize("written", [False, True])
def test_its_kernels_take_longer(written: bool, tmp_path: Path) -> None:
    """Two GEMMs a step, 0.4 ms longer each on one rank of four: it computes 0.8 ms more, the other three wait for it.
    Mean over ranks: 0.2 and 0.6 ms."""
    parts, summary = parts_of(job(), job(gemm_ms=2.4), folder=tmp_path if written else None)
    assert parts == {(WAITING, "rank 2"): round(0.6 * MS), ("compute", None): round(0.2 * MS)}
    assert summary.startswith(
        "A step takes 800 µs longer (6.00 ms → 6.80 ms, +13.3 %): ranks wait 600 µs more for rank 2"
    )


def test_it_starts_later() -> None:
    """Its own idle time is its own; what the others wait is waiting for it. All but the first of its GEMMs are late by
    0.5 ms. Of the first four steps (the fifth has no next one): rank 2 idles twice in each, before its second GEMM and
    before the next step's first, for a step ends where the next begins; the others wait once in the first, then
    twice.
    Mean over ranks and steps: 1/4 of 1 ms, 3/4 of (0.5 + 3 x 1) / 4 ms."""
    parts, summary = parts_of(job(), job(gap_ms=0.5))
    waiting = parts.pop((WAITING, "rank 2"))
    assert {part for part, _ in parts} == {"idle"}
    assert (sum(parts.values()), waiting) == (0.25 * MS, 0.65625 * MS)
    assert "for rank 2, which is late" in summary


def test_a_slower_network_is_nobodys_lateness() -> None:
    parts, summary = parts_of(job(), job(network_ms=1.5))
    assert parts == {("exposed communication", "data"): MS}
    assert "they take 1.50 times as long" in summary and "late" not in summary


def test_a_rank_that_is_late_no_more() -> None:
    parts, summary = parts_of(job(gemm_ms=2.4), job())
    assert parts == {(WAITING, "rank 2"): round(-0.6 * MS), ("compute", None): round(-0.2 * MS)}
    assert "ranks wait 600 µs less for rank 2" in summary
