"""A fused kernel computes and communicates: its trace counts it as neither in silence."""

from __future__ import annotations

from weftrace.moe.requested import profile_of
from weftrace.moe.requests import Request
from weftrace.trace.work import work_of


def test_the_waves_of_a_simulated_profile_are_of_the_class_that_measured_ones_have() -> None:
    work = work_of(profile_of(Request(kind="prefill", ep=8, overlap="waves", layers=2)).trace())
    fused = work.events.filter(kind="fused")
    assert fused.height == 2
    assert fused.get_column("num_blocks").to_list() == [132, 132]
