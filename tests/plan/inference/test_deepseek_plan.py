"""DeepSeek's training profile, whose file records no wait between streams: its plan is the published one."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from weftrace.plan import Inferred, infer, timetable
from weftrace.trace import read_chrome
from weftrace.units import MS, US

# Of the operation list that DeepSeek publishes: within a layer, and to the next one.
PUBLISHED = {
    ("attn(F)", "dispatch(F)"), ("dispatch(F)", "mlp(F)"), ("mlp(F)", "combine(F)"), ("combine(F)", "attn(F)"),
    ("combine(B)", "mlp(B)"), ("mlp(B)", "dispatch(B)"), ("dispatch(B)", "attn(B)"), ("attn(B)", "combine(B)"),
    ("mlp(W)", "mlp(W)"),
}  # fmt: skip


@pytest.fixture(scope="module")
def inferred(shared_data: Path) -> Inferred:
    return infer(read_chrome(shared_data / "deepseek-v3-train.json.gz"))


def test_the_replay_ends_as_measured(inferred: Inferred) -> None:
    replay = inferred.replay
    print(f"span {replay.error:+.2%}, {replay.worst_phase} ends {replay.worst_phase_ns / 1e6:+.2f} ms off")
    assert replay.span_ns == 129_012 * US
    assert abs(replay.error) < 0.010
    assert abs(replay.worst_phase_ns) < 1.2 * MS
    assert replay.is_trustworthy
    assert replay.unexplained < 0.05


def test_the_voted_waits_join_the_phases_of_the_published_list(inferred: Inferred) -> None:
    voted = inferred.plan.waits.hstack(inferred.edges).filter(source="voted")
    phase = inferred.plan.ops.get_column("phase").cast(pl.String)
    pairs = set(zip(phase.gather(voted["on"]), phase.gather(voted["op"]), strict=True))
    assert pairs == PUBLISHED
    assert (voted["votes_for"] >= 1).sum() >= 30


def test_waits_for_sms_are_named(inferred: Inferred) -> None:
    """Between the weight gradients of streams 7 and 23, and two starts on stream 27 that no other op's end explains."""
    late = inferred.sm_waits.with_columns(
        stream=inferred.plan.ops.get_column("stream").gather(inferred.sm_waits["op"]),
        other=inferred.plan.ops.get_column("stream").gather(inferred.sm_waits["on"]),
    )
    between = late.filter(pl.col("stream").is_in((7, 23)), pl.col("other").is_in((7, 23)), pl.col("at_its_end"))
    assert between.height == 12  # as docs/critical-path.md says
    assert between["late_ns"].min() >= 264 * US  # type: ignore[operator]
    assert between["late_ns"].max() <= 733 * US  # type: ignore[operator]
    network = late.filter(pl.col("stream") == 27, ~pl.col("at_its_end")).sort("late_ns")
    assert [round(late_ns / US) for late_ns in network["late_ns"]] == [244, 337]


@pytest.mark.parametrize(
    ("factor", "change", "points"), [(0.5, -0.013, 0.005), (1.25, 0.12, 0.01)], ids=["halved", "a quarter longer"]
)
def test_communication_of_another_speed(inferred: Inferred, factor: float, change: float, points: float) -> None:
    duration = pl.col("duration_ns")
    scaled = inferred.plan.with_ops(
        duration_ns=pl.when(kind="communication").then(duration * factor).otherwise(duration)
    )
    on_device = inferred.measured["event"].is_not_null().to_numpy()
    times = timetable(scaled)
    span = times.end_ns[on_device].max() - times.start_ns[on_device].min()
    print(f"communication x{factor}: {span / inferred.replay.replayed_ns - 1:+.2%}")
    assert span / inferred.replay.replayed_ns - 1 == pytest.approx(change, abs=points)
