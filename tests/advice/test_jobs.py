"""A job's ranks as one plan, from the command: what decided each step, and files that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import weftrace as wt
from tests.advice.test_cli import checked, summary
from tests.cli.test_cli import Run, run
from weftrace.plan import Op, Plan, Resource, Wait, simulate_ranks
from weftrace.units import US

__all__ = ["run"]  # the fixture


def ops_of_rank(rank: int, work_us: list[int]) -> Iterator[Op]:
    """Per step: two launches, a GEMM, and an all-reduce of all ranks behind it."""
    host, stream = Resource(rank=rank, stream=1_000), Resource(rank=rank, stream=7)
    for step, time_us in enumerate(work_us):
        for name in ("gemm", "reduce"):
            yield Op(id=f"launch {name} {rank}.{step}", name="cudaLaunchKernel", kind="host", duration_ns=5 * US,
                     resource=host, step=step)  # fmt: skip
        yield Op(name="gemm", duration_ns=time_us * US, resource=stream, phase="mlp(F)", step=step,
                 after=(Wait(f"launch gemm {rank}.{step}", why="launch"),))  # fmt: skip
        yield Op(name="all_reduce", kind="communication", duration_ns=20 * US, meet=step, resource=stream, step=step,
                 after=(Wait(f"launch reduce {rank}.{step}", why="launch"),))  # fmt: skip


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """3 ranks that meet at each step's end; rank 2 is late in step 1, rank 0 in step 2."""
    late = [[100, 100, 400], [100, 100, 100], [100, 400, 100]]
    plan = Plan.of([op for rank, work in enumerate(late) for op in ops_of_rank(rank, work)], name="job")
    (tmp_path / "job").mkdir()
    for rank, trace in simulate_ranks(plan).items():
        wt.save(trace, tmp_path / "job" / f"rank{rank}.json")
    return tmp_path / "job"


def test_steps_tell_which_rank_decided_them(run: Run, traces: Path, tmp_path: Path) -> None:
    code, out, err = run("critical-path", traces, "--workers", "1", "-o", tmp_path / "path.json")
    assert code == 0, err
    assert "By step" in summary(out) and "3 of 3 collectives hold the ranks together" in summary(out)
    document = checked(tmp_path / "path.json")
    assert document["ranks"] == [0, 1, 2]
    assert [(row["step"], row["rank"], row["what"]) for row in document["steps"][1:]] == [
        (1, 2, "mlp(F)"), (2, 0, "mlp(F)")
    ]  # fmt: skip
    assert sum(row["path_ns"] for row in document["steps"]) == document["span_ns"]


def test_a_file_that_cannot_be_used_is_left_out_and_named(run: Run, traces: Path) -> None:
    (traces / "rank1.json").write_text("{}")
    code, out, err = run("critical-path", traces, "--workers", "1")
    assert code == 0, err
    assert "left out:" in summary(out) and "rank1.json" in summary(out)


def test_a_file_that_is_cut_short_is_told_of(run: Run, traces: Path) -> None:
    cut = traces / "rank1.json"
    cut.write_bytes(cut.read_bytes()[:-1_500])
    code, out, err = run("critical-path", traces, "--workers", "1")
    assert code == 0, err
    assert "rank1.json: incomplete: " in summary(out) and "; the plan covers the rest." in summary(out)
    assert "rank0.json: " not in summary(out)
