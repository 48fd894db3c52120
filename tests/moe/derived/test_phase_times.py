"""The phase table of a simulated profile against a pencil, and against what is measured in its trace."""

from __future__ import annotations

import pytest

from tests.moe.render.profiles import made
from weftrace.analysis import breakdown, phases
from weftrace.moe import Operation, Overlap, Piece, Setting, simulated
from weftrace.moe.derived.phase_times import PHASE_SCHEMA, phase_table
from weftrace.moe.profiles import make_profile
from weftrace.moe.render.picture import profile_picture
from weftrace.plan.as_traces import trace_of


def test_a_layer_by_hand() -> None:
    """ATTN   ████                 4 µs
    DISPATCH     ██████            6 µs from 4: nothing beside the first 0, SHARED beside 3 of it
    SHARED       ███               3 µs
    """
    names = Overlap(
        name="pencil", title="pencil", kinds=("prefill",),
        operations=(
            Operation(name="ATTN", work="attn", phase="ATTN"),
            Operation(name="D", work="dispatch", lane="communication", after=("ATTN",), phase="DISPATCH"),
            Operation(name="SHARED", work="shared", phase="SHARED"),
        ),
    )  # fmt: skip
    prices = {
        "ATTN": (Piece(name="a", duration_ns=4_000, basis="roofline"),),
        "D": (Piece(name="d", kind="communication", duration_ns=6_000, basis="published"),),
        "SHARED": (Piece(name="s", duration_ns=2_000, basis="roofline"), Piece(name="t", duration_ns=1_000, basis="x")),
    }
    of = Setting.of("prefill", num_layers=1)
    profile = simulated(of, names, prices, level="a pencil")
    gap = 2_000  # between ATTN and SHARED, and between SHARED's two pieces: 6 µs of DISPATCH have 2 + 1 beside them
    assert profile.plan.gap_ns == gap
    table = phase_table(profile)
    assert dict(table.schema) == PHASE_SCHEMA
    assert table.rows() == [
        ("ATTN", 0, "compute", 1, 4_000.0, None, None, "roofline"),
        ("DISPATCH", 0, "communication", 1, 6_000.0, 2_000.0, 4_000.0, "published"),
        ("SHARED", 0, "compute", 1, 3_000.0, None, None, "roofline; x"),
    ]


@pytest.mark.parametrize("kind", ["train", "prefill"])
def test_it_adds_up_to_what_the_trace_measures(kind: str) -> None:
    profile = made(kind)
    table, trace = phase_table(profile), trace_of(profile.times, 0)
    measured = breakdown(trace)
    moved = table.filter(kind="communication")
    assert (moved["busy_ns"] * moved["num_layers"]).sum() == pytest.approx(measured.communication_ns)
    assert (moved["exposed_ns"] * moved["num_layers"]).sum() == pytest.approx(measured.exposed_communication_ns)
    assert (moved["hidden_ns"] + moved["exposed_ns"]).to_list() == pytest.approx(moved["busy_ns"].to_list())
    for name, batch, busy in table.select("phase", "micro_batch", "busy_ns").iter_rows():
        found = phases(trace).filter(name=name, micro_batch=batch)
        assert found["busy_ns"].mean() == pytest.approx(busy), name


def test_what_takes_no_time_is_no_phase() -> None:
    """Qwen3 has no shared expert: its kernels take no time, and nothing is drawn or listed of them."""
    profile = make_profile(Setting.of("prefill", model="qwen3-235b-a22b", ep=8, num_layers=3))
    assert "SHARED" in {each.phase for each in profile.overlap.operations}
    assert set(phase_table(profile)["phase"]) == {"ATTN", "MLP", "DISPATCH", "COMBINE"}
    names = {box["name"] for lane in profile_picture(profile)["lanes"] for box in lane["boxes"]}
    assert names == {"ATTN", "MLP", "DISPATCH", "COMBINE"}
