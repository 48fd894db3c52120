"""Each list takes the time that a pencil finds. Works in microseconds: attn, shared, dispatch, mlp, combine."""

from __future__ import annotations

import polars as pl
import pytest

from tests.moe.lists_priced import US, laid_out
from weftrace.moe import known_overlaps, load_overlap
from weftrace.moe.requests import PHASES

SHORT = {"attn": 10, "shared": 3, "dispatch": 4, "mlp": 6, "combine": 5}  # of one micro-batch; all of it can hide
LONG = {"attn": 10, "shared": 3, "dispatch": 30, "mlp": 6, "combine": 40}  # communication takes longer than all else


@pytest.mark.parametrize("kind", PHASES)
def test_without_overlap_a_layer_is_the_sum_of_what_it_does(kind: str) -> None:
    overlap = load_overlap("none", kind)  # type: ignore[arg-type]
    once = sum(SHORT[each.work] * each.share for each in overlap.operations)
    assert laid_out(overlap, SHORT).layer_ns == once * US
    table = laid_out(overlap, SHORT).times.ops
    assert (table.sort("start_ns").get_column("start_ns").diff().drop_nulls() > 0).all(), "one after another"


@pytest.mark.parametrize("name", ["two-micro-batches", "two-batch", "dual-batch"])
def test_two_micro_batches_hide_short_communication_and_wait_for_long(name: str) -> None:
    """Short: only computation is left, 2 (10 + 3 + 6). Long: the link is never idle, 2 (30 + 40)."""
    overlap = load_overlap(name, "prefill")
    assert laid_out(overlap, SHORT).layer_ns == 2 * (10 + 3 + 6) * US
    assert laid_out(overlap, LONG).layer_ns == 2 * (30 + 40) * US


def test_in_between_the_order_of_the_list_decides() -> None:
    """attn 10, shared 3, mlp 6, dispatch 10, combine 10: of 38 us of computation some communication stands out.

    two-batch, per layer: A0 A1 | M0 waits for D0 (ends with A1 at 20), M1 for D1 (20 to 30, M0 ends at 26): 4 us idle;
    C0 behind D1, 30 to 40, under M1 (30 to 36) and S0 S1 (36 to 42); C1 40 to 50; A0 of the next layer at 42, A1 at 52
    after C1. A layer: 42.
    """
    cost = {"attn": 10, "shared": 3, "mlp": 6, "dispatch": 10, "combine": 10}
    assert laid_out(load_overlap("two-batch", "prefill"), cost).layer_ns == 42 * US


@pytest.mark.parametrize("num_chunks", [1, 2, 4])
def test_chunks_show_the_last_combine_or_the_first_dispatch_and_what_computation_cannot_hide(num_chunks: int) -> None:
    """Short, d / n <= shared: attn, shared under the first dispatch, mlp, the last chunk's combine.

    Long: the link carries all dispatches, then all combines, each chunk's mlp long done: attn + dispatch + combine,
    where a chunk's mlp, 6 / n, delays the first combine only if there is one chunk.
    """
    overlap = load_overlap(f"chunked:{num_chunks}")
    short = {**SHORT, "shared": 4}
    assert laid_out(overlap, short).layer_ns == (10 + 4 + 6 + 5 / num_chunks) * US
    delay = 6 if num_chunks == 1 else 0
    assert laid_out(overlap, LONG).layer_ns == (10 + 30 + delay + 40) * US


def test_waves_are_one_kernel_after_another() -> None:
    assert laid_out(load_overlap("waves"), {"attn": 10, "shared": 3, "moe": 20}).layer_ns == 33 * US


def test_sglangs_decode_is_deepseeks_five_stages() -> None:
    """Two stages apart, five stages a layer: written out, its order is the published one."""
    assert load_overlap("two-batch", "decode").operations == load_overlap("five-stages").operations


@pytest.mark.parametrize("kind", PHASES)
def test_every_list_runs_every_operation_once_a_layer_on_each_rank(kind: str) -> None:
    for name in known_overlaps(kind):  # type: ignore[arg-type]
        overlap = load_overlap(name, kind)  # type: ignore[arg-type]
        ops = laid_out(overlap, {"attn": 1, "mlp": 1, "moe": 1, "dispatch": 1, "combine": 1, "shared": 1}).times.ops
        counts = ops.group_by("name", "layer").len()
        assert counts.get_column("len").to_list() == [1] * (6 * len(overlap.operations)), name
        assert ops.get_column("name").n_unique() == len(overlap.operations), name


@pytest.mark.parametrize("kind", PHASES)
def test_no_list_is_faster_than_its_lanes(kind: str) -> None:
    """All of a lane's work stands one after another on it, and none overlaps with what it waits for."""
    cost = {"attn": 7, "attn-0": 3, "attn-1": 4, "shared": 2, "mlp": 6, "moe": 15, "dispatch": 4, "combine": 5}
    for name in known_overlaps(kind):  # type: ignore[arg-type]
        profile = laid_out(load_overlap(name, kind), cost)  # type: ignore[arg-type]
        by_lane = profile.times.ops.group_by("stream").agg(busy=pl.col("duration_ns").sum())
        assert profile.span_ns >= max(by_lane.get_column("busy").to_list()), name


@pytest.mark.parametrize("kind", PHASES)
def test_what_a_layer_adds_does_not_depend_on_how_many_are_run(kind: str) -> None:
    cost = {"attn": 7, "attn-0": 3, "attn-1": 4, "shared": 2, "mlp": 6, "moe": 15, "dispatch": 9, "combine": 12}
    for name in known_overlaps(kind):  # type: ignore[arg-type]
        overlap = load_overlap(name, kind)  # type: ignore[arg-type]
        assert len({laid_out(overlap, cost, layers=layers).layer_ns for layers in (4, 6, 11)}) == 1, name
