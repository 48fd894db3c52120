"""What-ifs on DeepSeek's own training profile, against what was measured on it by another method."""

from __future__ import annotations

from pathlib import Path

import pytest

from weftrace.advice.changes import Change, NoBarrierWait, parse_change
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.sensitivities import curve
from weftrace.advice.waterfalls import waterfall
from weftrace.advice.whatifs import WhatIf, what_if
from weftrace.plan import Inferred, infer
from weftrace.trace import read_chrome


@pytest.fixture(scope="module")
def deepseek(shared_data: Path) -> Inferred:
    return infer(read_chrome(shared_data / "deepseek-v3-train.json.gz"))


def asked(inferred: Inferred, *changes: str | Change) -> WhatIf:
    answer = what_if(inferred, [parse_change(each) if isinstance(each, str) else each for each in changes])
    print(answer.sentence)
    return answer


def test_communication_twice_as_fast_saves_little_and_slower_costs_at_once(deepseek: Inferred) -> None:
    """Half of what it saves is what kernels no longer lose beside it: -1.3 % without contention."""
    assert asked(deepseek, "communication=0.5").change == pytest.approx(-0.026, abs=0.005)
    assert asked(deepseek, "communication=1.25").change == pytest.approx(0.12, abs=0.01)
    assert asked(deepseek, "communication=1.5").change == pytest.approx(0.34, abs=0.02)


def test_waits_of_barriers_and_the_moving_of_data_are_scaled_separately(deepseek: Inferred) -> None:
    both = asked(deepseek, "communication=1.25")
    data, barrier = asked(deepseek, "communication.data=1.25"), asked(deepseek, "communication.barrier=1.25")
    together = asked(deepseek, "communication.data=1.25", "communication.barrier=1.25")
    assert together.after_ns == pytest.approx(both.after_ns, abs=len(deepseek.plan))  # halves of a ns are rounded
    assert 0 < barrier.change < data.change < both.change
    assert asked(deepseek, NoBarrierWait()).after_ns == asked(deepseek, "communication.barrier=0").after_ns


def test_parts_are_exact_and_bars_add_up_to_the_measured_span(deepseek: Inferred) -> None:
    path = critical_path_of(deepseek)
    print(path.sentence, path.by_class)
    assert path.span_ns == deepseek.replay.replayed_ns
    assert path.sentence.startswith("Computation decides 7")
    assert path.by_class.get_column("time_ns").sum() == path.by_cause.get_column("time_ns").sum() == path.span_ns
    assert waterfall(deepseek).bars.get_column("time_ns").sum() == 129_012_000


def test_the_curve_of_communication_is_nearly_flat_below_its_measured_speed(deepseek: Inferred) -> None:
    """Only what kernels lose beside communication is left of its slope."""
    found = curve(deepseek, "communication")
    print(found.sentence)
    assert 0 < found.slopes_ns[0] < 0.05 * found.slopes_ns[1]
    assert 0.9e6 < found.slopes_ns[1] <= 1.134_40e6, "1 % of all communication is 1,134 µs"
