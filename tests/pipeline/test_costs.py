"""What a chunk costs: by stage, by pair, by rank; and what costs cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weftrace.errors import ScheduleError
from weftrace.pipeline import Costs, from_text, generate, simulate
from weftrace.pipeline.costs import durations_ns

#: Two stages on two ranks, and an F&B of both kinds of stage.
PAIRS = """\
micro-batches: 2
replica 0: 0 1
replica 1: 1 0
rank 0: 0F0 1F1&0B0 1I1 1W1
rank 1: 1F0 0F1&1B0 0B1
"""


def test_each_kind_takes_its_time_at_its_stage() -> None:
    costs = Costs(forward_ns=(10, 11), input_ns=(20, 21), weight_ns=(5, 6))
    assert durations_ns(from_text(PAIRS), costs).tolist() == [10, 11 + 25, 21, 6, 11, 10 + 27, 25]


def test_a_pair_has_a_time_of_its_own_and_a_full_backward_too() -> None:
    costs = Costs(forward_ns=10, input_ns=20, weight_ns=5, backward_ns=22, overlapped_ns=((1, 2), (3, 4)))
    assert durations_ns(from_text(PAIRS), costs).tolist() == [10, 3, 20, 5, 10, 2, 22]


def test_a_slow_rank_takes_longer() -> None:
    costs = Costs(forward_ns=10, input_ns=20, weight_ns=5, rank_factor=(1, 1.25))
    assert durations_ns(from_text(PAIRS), costs).tolist() == [10, 35, 20, 5, 12, 44, 31]


def test_a_cut_stage_costs_its_parts() -> None:
    whole = Costs(forward_ns=(10, 12), input_ns=20, weight_ns=6, overlapped_ns=((2, 4), (6, 8)), message_bytes=7)
    half = whole.split(2)
    assert half.forward_ns == (5, 5, 6, 6)
    assert half.overlapped_ns == ((1, 1, 2, 2), (1, 1, 2, 2), (3, 3, 4, 4), (3, 3, 4, 4))
    assert (half.input_ns, half.message_bytes) == (10, 7)


def test_units_are_exact() -> None:
    costs = Costs.units(F=1, I=1, W=0.5, FB=2.1, latency=0.05)
    assert (costs.weight_ns, costs.overlapped_ns, costs.latency_ns) == (500, 2_100, 50)
    assert costs == Costs.units(1, 1, np.float64(0.5), 2.1, latency=0.05)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"forward_ns": 1.5}, "forward_ns holds 1.5; it must be a whole number of nanoseconds"),
        ({"weight_ns": -1}, "weight_ns holds -1"),
        ({"latency_ns": [1, 2]}, "latency_ns holds"),
        ({"activation_bytes": 10**19}, "activation_bytes holds 1.00e"),
        ({"source": 5}, "source = 5; it is text"),
        ({"input_ns": None}, "input_ns holds None"),
        ({"input_ns": []}, "input_ns is an empty list"),
        ({"overlapped_ns": [[1, 2]]}, "as many rows as stages"),
        ({"rank_factor": [1, 0]}, "rank_factor holds 0; it must be a number above 0"),
        ({"bytes_per_s": 0}, "bytes_per_s holds 0"),
        ({"output_ready": 0.5}, "output_ready = 0.5; it is two parts of an F&B"),
        ({"input_needed": (0, 1.5)}, "from 0 to 1"),
        ({"blocking": 1}, "blocking = 1; it is true or false"),
        ({"blocking": True, "output_ready": (0.5, 1)}, "messages that block pass between two actions"),
    ],
)
def test_costs_that_cannot_be_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ScheduleError, match=said.replace("(", r"\(")):
        Costs(**({"forward_ns": 1, "input_ns": 1, "weight_ns": 1} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"forward_ns": (1, 2, 3)}, "forward_ns has 3 values, for as many stages; there are 2"),
        ({"overlapped_ns": ((1,),)}, "overlapped_ns is for 1 x 1 stages; there are 2"),
        ({"rank_factor": (1.0,)}, "rank_factor has 1 values, for as many ranks; there are 2"),
        ({"rank_factor": 1e30}, "rank_factor makes a time of 3e\\+30 ns, over 73 years"),
    ],
)
def test_costs_of_another_pipeline_are_refused(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ScheduleError, match=said):
        durations_ns(from_text(PAIRS), Costs(**({"forward_ns": 1, "input_ns": 1, "weight_ns": 1} | fields)))  # type: ignore[arg-type]


def test_sums_that_are_too_large_are_told_as_those_of_a_schedule() -> None:
    schedule = generate("gpipe", num_ranks=2, num_micro_batches=10_000)
    costs = Costs(forward_ns=1, input_ns=1, weight_ns=1)
    with pytest.raises(ScheduleError, match="times add up to"):
        simulate(schedule, replace(costs, forward_ns=10**15))
    with pytest.raises(ScheduleError, match="too large to be added up"):
        simulate(schedule, replace(costs, activation_bytes=2**53))


def test_units_are_numbers_and_parts_are_counted() -> None:
    for units in (float("nan"), "1", 1e300, -1):
        with pytest.raises(ScheduleError, match=r"forward = .* units; it is a number"):
            Costs.units(F=units)  # type: ignore[arg-type]
    with pytest.raises(ScheduleError, match="num_parts = 0"):
        Costs.units().split(0)
    with pytest.raises(ScheduleError, match=r"num_slices = 1\.5"):
        Costs.units().sliced(1.5)  # type: ignore[arg-type]
