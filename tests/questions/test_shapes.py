"""Tables operators and shapes: what the report has of efficiency, for questions."""

from __future__ import annotations

from pathlib import Path

import weftrace as wt
from tests.report.rated import bare_file, rated_file


def test_shapes_and_operators_of_a_trace(tmp_path: Path) -> None:
    trace = rated_file().trace(tmp_path)
    shapes = wt.query(trace, "select operator, shapes, num_calls, busy_ns, flops, rank from shapes where flops > 0")
    assert shapes.rows() == [
        ("aten::mm", "[4096x4096] [4096x4096]", 2, 400_000, 4 * 4096**3, 0),
        ("aten::mm", "[64x4096] [4096x4096]", 1, 40_000, 2 * 64 * 4096**2, 0),
    ]
    operators = wt.query(trace, "select operator, num_shapes, num_calls from operators order by operator")
    assert operators.rows() == [("aten::add", 1, 1), ("aten::mm", 2, 3)]


def test_a_job_has_the_rows_of_each_rank(tmp_path: Path) -> None:
    for rank, gemm_us in enumerate((200, 250)):
        rated_file(rank=rank, gemm_us=gemm_us).write(tmp_path / f"rank{rank}.json")
    sql = "select rank, busy_ns from shapes where num_calls = 2 order by rank"
    assert wt.query(tmp_path, sql).rows() == [(0, 400_000), (1, 500_000)]


def test_what_was_recorded_without_shapes_has_no_flops(tmp_path: Path) -> None:
    sql = "select operator, flops, flops_per_s, bytes_per_s from shapes"
    assert wt.query(bare_file().trace(tmp_path), sql).rows() == [("aten::mm", 0, None, None)]
