"""Clocks of host and device that differ."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from tests.plan.inference.random_runs import random_run
from weftrace.plan import infer
from weftrace.trace.model import on_device


@pytest.mark.parametrize("seed", [2, 5, 20, 43])
@pytest.mark.parametrize("early_us", [40, 300])
def test_a_device_whose_stamps_are_early_is_taken_later(seed: int, early_us: int) -> None:
    trace = random_run(seed, num_ranks=1).trace()
    early = pl.when(on_device()).then(pl.col("ts_ns") - early_us * 1_000).otherwise("ts_ns")
    inferred = infer(replace(trace, events=trace.events.with_columns(ts_ns=early)))
    assert abs(inferred.replay.error) <= 0.01
    assert any("clocks of host and device differ" in note for note in inferred.notes)


def test_clocks_that_agree_are_left_alone() -> None:
    assert not any("clocks" in note for note in infer(random_run(5, num_ranks=1).trace()).notes)
