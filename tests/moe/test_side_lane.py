"""Kernels of the side lane share SMs with those of the compute lane, or wait for them."""

from __future__ import annotations

import pytest

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
