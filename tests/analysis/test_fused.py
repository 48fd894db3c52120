"""Kernels that compute and communicate in one: a kind of their own, which nothing counts in silence as either."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.tracefile import ALL_REDUCE, GEMM, MEGA_MOE, TraceFile, collective
from weftrace.analysis import breakdown, kernel_table, lanes, overlap, phases
from weftrace.report.build import analyze
from weftrace.report.render.terminal_rank import rank_blocks
from weftrace.trace import Trace, work_of
from weftrace.units import US


@pytest.fixture
def layer(tmp_path: Path) -> Trace:
    # µs          100  110  120  130  140  150
    # stream 7    [GEMM 100-110][mega_moe 110-140]   [GEMM 145-150]
    # stream 20             [all-reduce 130-148]
    file = TraceFile().host("moe(F)", 0, 10).kernel(GEMM, 100, 10, launch=50)
    file.kernel(MEGA_MOE, 110, 30, launch=5, blocks=132).kernel(GEMM, 145, 5, launch=51)
    return file.kernel(ALL_REDUCE, 130, 18, stream=20, launch=52, blocks=16).trace(tmp_path)


def test_fused_time_counts_with_compute_and_is_shown_apart(layer: Trace) -> None:
    b = breakdown(layer)
    assert (b.compute_ns, b.fused_ns) == (45 * US, 30 * US)
    assert b.communication_ns == 18 * US  # the all-reduce alone: what is inside the fused kernel is not separable
    assert (b.hidden_communication_ns, b.exposed_communication_ns) == (13 * US, 5 * US)  # 130-140 and 145-148
    assert b.compute_ns + b.exposed_communication_ns + b.exposed_memory_ns + b.idle_ns == b.span_ns == 50 * US
    assert "of which fused" in dict(b._describe())
    assert overlap(layer).collectives["collective"].to_list() == ["all_reduce"]


def test_fused_kernels_stand_in_the_compute_lane_under_their_own_name(layer: Trace) -> None:
    compute, communication = lanes(layer)
    assert (compute.busy_ns, communication.busy_ns) == (45 * US, 18 * US)
    assert (compute.sms, compute.sms_exact) == (132, True)
    (row,) = phases(layer).to_dicts()
    assert (row["lane"], row["compute_ns"], row["communication_ns"], row["sms"]) == ("compute", 30 * US, 0, 132)
    table = kernel_table(layer)
    assert table.kernels.row(0, named=True)["kind"] == "fused"
    assert table.unnamed_share == 0.0
    assert set(overlap(layer).matrix.compute) == {"moe(F)", "(no phase)"}


def test_metadata_does_not_make_communication_of_a_fused_kernel(tmp_path: Path) -> None:
    file = TraceFile().kernel("kernel_gemm_all_reduce", 100, 10, **collective("allreduce"))
    assert work_of(file.trace(tmp_path)).events.row(0, named=True)["kind"] == "fused"


def test_the_report_says_what_it_cannot_separate(layer: Trace) -> None:
    (rank,) = analyze(layer).document["ranks"]
    assert rank["fused_ns"] == 30 * US
    out = StringIO()
    Console(file=out, width=100).print(*rank_blocks(rank, 100))
    text = " ".join(out.getvalue().split())
    assert "fused kernels 30.0 µs 60.0 %" in text
    assert "30.0 µs in kernels that compute and communicate in one; it cannot be separated" in text


def test_the_headline_says_what_no_number_of_communication_holds(layer: Trace) -> None:
    summary = "Kernels that compute and communicate in one fill 60.0 %: their communication cannot be separated."
    assert analyze(layer).document["headline"].endswith(summary)
