"""Kernels of the side lane share SMs with those of the compute lane, or wait for them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import examples
from weftrace.moe import Overlap, Piece, Prices, Setting, load_overlap, plan_of
from weftrace.plan import timetable

US = 1_000


def priced(overlap: Overlap, weight_sms: int | None) -> Prices:
    """10 us an operation, on `weight_sms` SMs where it computes."""
    return {
        each.name: (
            Piece(
                name=each.name,
                kind="communication" if each.moves_tokens else "compute",
                duration_ns=10 * US,
                num_sms=None if each.moves_tokens else weight_sms,
                basis="a test",
            ),
        )
        for each in overlap.operations
    }


@pytest.mark.parametrize(("sms", "starts_us"), [(112, [30, 40, 50]), (56, [30, 30, 40]), (None, [30, 30, 40])])
def test_halves_that_ask_for_more_sms_than_are_left_run_one_after_another(
    sms: int | None, starts_us: list[int]
) -> None:
    """112 SMs are left.  compute  attn(F) . mlp(B) mlp(W) mlp(F) ...; the other half of mlp(W) beside it, or after it.

    attn(F) 0-10, combine(B) 0-10, mlp(B) 10-20, mlp(W) 20-30, its other half 20-30 or 30-40, then mlp(F).
    """
    overlap = load_overlap("training")
    plan = plan_of(overlap, priced(overlap, sms), Setting.of("train", num_layers=1), gap_ns=0)
    ops = timetable(plan).ops
    starts = {row["name"]: row["start_ns"] // US for row in ops.iter_rows(named=True)}
    assert [starts[name] + 10 for name in ("mlp(W)", "mlp(W) side", "mlp(F)")] == starts_us
    assert plan.waits.filter(why="sm").height == (2 if sms == 112 else 0)


def test_measured_durations_hold_the_cost_of_sharing_already() -> None:
    overlap = load_overlap("training")
    setting = Setting.of("train", num_layers=4)
    plan = plan_of(overlap, priced(overlap, 112), setting, share_sms=False)
    assert plan.waits.filter(why="sm").is_empty()


def test_each_lane_waits_once_for_what_the_other_issued_before() -> None:
    """A layer's half on the side lane waits for mlp(W); mlp(F) waits for it, and what follows on the lane need not."""
    overlap = load_overlap("training")
    plan = plan_of(overlap, priced(overlap, 112), Setting.of("train", num_layers=3))
    names = plan.ops.get_column("name").cast(str).to_list()
    waits = [(names[op], names[on]) for op, on in plan.waits.filter(why="sm").select("op", "on").iter_rows()]
    within = [("mlp(W) side", "mlp(W)"), ("mlp(F)", "mlp(W) side")]
    assert sorted(waits) == sorted(within * 3)


@given(st.lists(st.tuples(st.integers(1, 50), st.sampled_from([None, 40, 72, 112])), min_size=22, max_size=22))
@settings(max_examples=examples(40), deadline=None)
def test_what_asks_for_more_sms_than_are_left_never_runs_at_once(drawn: list[tuple[int, int | None]]) -> None:
    """Two pieces an operation, of any length and SMs: those of both lanes that ask for over 112 together are apart."""
    overlap = load_overlap("training")
    prices = {
        each.name: tuple(
            Piece(name=f"{each.name} {n}", kind="communication" if each.moves_tokens else "compute",
                  duration_ns=us * US, num_sms=None if each.moves_tokens else sms, basis="a test")
            for n, (us, sms) in enumerate(drawn[2 * at : 2 * at + 2])
        )
        for at, each in enumerate(overlap.operations)
    }  # fmt: skip
    ops = timetable(plan_of(overlap, prices, Setting.of("train", num_layers=3), gap_ns=0)).ops
    asking = ops.filter(ops["num_sms"].is_not_null()).select("stream", "num_sms", "start_ns", "end_ns")
    compute, side = (asking.filter(stream=stream).rows() for stream in (7, 23))
    for _, sms, start, end in side:
        for _, other, begins, ends in compute:
            assert sms + other <= 112 or end <= begins or ends <= start
