"""The report of a plain Chrome trace names the slow worker, or the stage that is too long, and says what it assumed."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.fuzz import few
from tests.trace.plain.pipeline_job import Op, artefact, converted, simulate, slow, slow_stage, write
from weftrace.report import analyze
from weftrace.report.document import report_document
from weftrace.report.document_types import ReportDocument
from weftrace.report.render.terminal import print_report


def report_of(path: Path, document: Any) -> ReportDocument:
    report = analyze(write(path, document)).document
    return report_document(json.loads(json.dumps(report)), "the report")


Form = Callable[[bool], Any]


@pytest.mark.replayed
@pytest.mark.parametrize(("worker", "cut"), few([((0, 0), True), ((1, 3), True), ((2, 1), False)], 2))
def test_a_slow_worker_is_named(tmp_path: Path, worker: tuple[int, int], cut: bool) -> None:
    dp, pp = worker
    ops = simulate(3, 4, cost=slow(dp, pp, 1.6), steps=(1, 2), transfers_only=cut)
    document = report_of(tmp_path / "t.json", artefact(ops) if cut else converted(ops))
    assert f"DP {dp} PP {pp} computes 1.59× as long as its peers" in document["headline"]
    assert [r["name"] for r in document["slow_work"]["ranks"] if r["is_slow"]] == [f"DP {dp} PP {pp}"]  # type: ignore[index]
    assert not any(stage["is_slow"] for stage in document["slow_work"]["stages"])  # type: ignore[index]


@pytest.mark.replayed
def test_the_same_file_is_told_in_the_same_way_each_time(tmp_path: Path) -> None:
    """Many collectives end together, and what is taken first must not be left to chance."""
    ops = simulate(2, 4, cost=slow(0, 0, 1.6), steps=(1,), transfers_only=True)
    first = report_of(tmp_path / "t.json", artefact(ops))
    assert report_of(tmp_path / "t.json", artefact(ops)) == first


@pytest.mark.replayed
def test_a_last_stage_that_is_too_long_is_named(tmp_path: Path) -> None:
    ops = simulate(2, 4, cost=slow_stage(3, 1.4), steps=(23, 25))
    document = report_of(tmp_path / "t.json", artefact(ops))
    assert "Stage 3 (the last) computes 1.39× as long as the others" in document["headline"]
    assert not any(r["is_slow"] for r in document["slow_work"]["ranks"])  # type: ignore[index]


@pytest.mark.replayed
def test_sequences_of_all_lengths_blame_nobody(tmp_path: Path) -> None:
    """Each micro-batch costs what its sequences do: some rank is slowest in each step, and none in all."""
    chance = random.Random(3)
    ops = simulate(6, 2, cost=lambda dp, pp, step, mb: 1000 * chance.lognormvariate(0, 0.6), steps=tuple(range(8)))
    document = report_of(tmp_path / "t.json", artefact(ops))
    assert not any(r["is_slow"] for r in document["slow_work"]["ranks"])  # type: ignore[index]
    assert document["headline"].startswith("Single operations that differ without a pattern take")


@pytest.mark.replayed
@pytest.mark.parametrize(
    ("cost", "line"),
    [
        (slow(0, 1, 1.6), "DP 0 PP 1  1.386     1.60×         9.00 ms"),
        (slow_stage(1, 1.4), "stage 1  1.142     1.17×         3.60 ms"),
    ],
)
def test_the_terminal_tells_how_much_longer(tmp_path: Path, cost: Any, line: str) -> None:
    ops = [op for op in simulate(3, 2, cost=cost, steps=(1, 2)) if op.name != "optimizer"]
    document = report_of(tmp_path / "t.json", artefact(ops))
    out = io.StringIO()
    print_report(document, Console(file=out, width=80, color_system=None))
    assert line in [row.rstrip() for row in out.getvalue().splitlines()]
    assert all(len(row.rstrip()) <= 80 for row in out.getvalue().splitlines())


@pytest.mark.replayed
def test_an_even_job_blames_nobody(tmp_path: Path) -> None:
    document = report_of(tmp_path / "t.json", artefact(simulate(2, 3, steps=(1, 2))))
    assert "computes" not in document["headline"]


def test_nothing_that_a_plain_trace_lacks_is_told(tmp_path: Path) -> None:
    document = report_of(tmp_path / "t.json", artefact(simulate(2, 2, steps=(1,))))
    for rank in document["ranks"]:
        assert (rank["basis"], rank["device"], rank["device_name"]) == ("ranges", None, "")
        assert rank["launch"]["num_linked"] == 0 and rank["launch"]["delay_p50_ns"] is None
        assert rank["idle_causes"]["unknown_ns"] == rank["idle_ns"]
        assert rank["operators"] == [] and rank["memory_ns"] == 0
        assert rank["quality"]["verdict"] == "good"
        notes = " ".join(rank["quality"]["notes"])
        assert "a plain Chrome trace" in notes and "PP by the thread's name; DP by the process's name" in notes
    phases = [(p["name"], p["micro_batch"]) for p in document["ranks"][0]["phases"] if p["lane"] == "compute"]
    assert phases[:2] == [("forward-compute", 0), ("forward-compute", 1)]


def test_parts_of_each_step_add_up(tmp_path: Path) -> None:
    document = report_of(tmp_path / "t.json", converted(simulate(2, 3, steps=(4, 5, 6), transfers_only=False)))
    for rank in document["ranks"]:
        assert [step["step"] for step in rank["steps"]] == [4, 5, 6]
        assert sum(step["span_ns"] for step in rank["steps"]) == rank["span_ns"]
        parts = ("compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns")
        assert sum(rank[part] for part in parts) == rank["span_ns"]  # type: ignore[literal-required]


@pytest.mark.replayed
def test_files_that_number_their_ranks_each_for_itself_make_one_job(tmp_path: Path) -> None:
    """A file a data-parallel rank, each with four stages: eight ranks, none of them counted twice."""
    ops = simulate(2, 4, cost=slow(1, 2, 1.5), steps=(1, 2))
    every = artefact(ops)
    for dp in range(2):
        write(tmp_path / f"part-{'ab'[dp]}.json", [event for event in every if event["pid"] == dp])
    document = analyze(tmp_path, workers=1).document
    assert [(r["rank"], r["name"], r["apart"]) for r in document["ranks"]][:3] == [
        (0, "DP 0 PP 0", None), (1, "DP 1 PP 0", None), (2, "DP 0 PP 1", None)
    ]  # fmt: skip
    assert document["num_ranks"] == 8
    assert any("number their ranks each for itself" in note for note in document["notes"])
    assert "DP 1 PP 2 computes 1.49× as long" in document["headline"]


@pytest.mark.replayed
def test_a_file_a_rank_makes_a_job_whose_partners_are_found(tmp_path: Path) -> None:
    ops = simulate(2, 2, cost=slow(0, 1, 1.5), steps=(1, 2), transfers_only=False)
    for dp, pp in ((0, 0), (0, 1), (1, 0), (1, 1)):
        part = converted(ops, of=lambda op, place=(dp, pp): (op.dp, op.pp) == place)  # type: ignore[misc]
        write(tmp_path / f"rank{pp * 2 + dp}.json", part)
    document = analyze(tmp_path, workers=1).document
    assert [r["name"] for r in document["ranks"]] == ["DP 0 PP 0", "DP 1 PP 0", "DP 0 PP 1", "DP 1 PP 1"]
    assert document["lateness"] is not None and document["lateness"]["num_unmatched"] == 0
    assert "DP 0 PP 1 computes 1.49× as long" in document["headline"]


@pytest.mark.replayed
def test_ranks_in_one_file_are_told_by_their_numbers_alone(tmp_path: Path) -> None:
    """Several ranks of one process are devices elsewhere; here there is no device to name."""
    events = [
        {"ph": "X", "name": name, "pid": rank, "tid": 0, "ts": ts, "dur": dur, "args": {"rank": rank, "step": 0}}
        for rank, length in enumerate((100, 100, 160))
        for name, ts, dur in (("forward", 0, length), ("all_reduce", length, 180 - length))
    ]
    document = report_of(tmp_path / "t.json", {"traceEvents": events})
    assert document["lateness"] is not None
    assert [rank["name"] for rank in document["lateness"]["ranks"]] == ["rank 0", "rank 1", "rank 2"]
    assert "Rank 2 computes 1.60× as long as its peers" in document["headline"]
    assert "device" not in document["headline"]


@pytest.mark.replayed
def test_the_longest_rank_is_called_by_its_name(tmp_path: Path) -> None:
    ops = [op for op in simulate(2, 2, steps=(1,)) if "compute" in op.name]
    end = max(op.end for op in ops)
    ops.append(Op(1, 1, 1, "forward-compute", end, 3 * end, 9))
    assert "DP 1 PP 1 computes 3.35×" in report_of(tmp_path / "t.json", artefact(ops))["headline"]
