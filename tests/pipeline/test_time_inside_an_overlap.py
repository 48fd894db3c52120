"""What times inside an F&B bring: published consequences, on 8 ranks and 32 micro-batches, F = I = W = 1, F&B = 3."""

from __future__ import annotations

from typing import Any

import pytest

from weftrace.pipeline import Costs, simulate
from weftrace.pipeline.generators.dualpipe import dualpipe

HALF, THIRD = 0.5, 1 / 3


def makespan(latency: float, **inside: Any) -> float:
    found = simulate(dualpipe(8, 32), Costs.units(FB=3, latency=latency, **inside))
    return found.makespan_ns / 1_000


@pytest.mark.parametrize(("latency", "plain", "both"), [(0, 102, 99), (0.1, 105.7, 100.7), (0.25, 111.25, 103.25)])
def test_only_both_outputs_early_hide_what_messages_cost(latency: float, plain: float, both: float) -> None:
    assert makespan(latency) == plain
    assert makespan(latency, output_ready=(HALF, 1)) == plain  # the forward's alone
    assert makespan(latency, output_ready=(1, HALF)) == plain  # the input gradient alone
    assert makespan(latency, output_ready=(HALF, HALF)) == both


@pytest.mark.parametrize(("latency", "expected"), [(0.1, 100.7), (0.25, 103.25)])
def test_a_forward_that_runs_first_hides_as_much(latency: float, expected: float) -> None:
    """The forward's output is there, and the backward's input is needed, where the forward alone would have ended."""
    assert makespan(latency, output_ready=(THIRD, 1), input_needed=(0, THIRD)) == expected
