"""A real run on gloo beside its plan: the makespan predicted from its own costs, and the difference by cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.living import Ranks
from weftrace.pipeline import Schedule, generate, to_text
from weftrace.pipeline.measured.runs import run_of
from weftrace.pipeline.plan_vs_measured.planned_and_measured import Slip, slip
from weftrace.trace import open_trace

SECONDS = [0.008, 0.012, 0.008, 0.012]
STEPS = 2


def slips(ranks: Ranks, schedule: Schedule, folder: Path) -> list[Slip]:
    """Of each recorded step, with costs of the whole run."""
    ranks.run("tests.pipeline.runtime.slip_cases:recorded", schedule.num_ranks, schedule=to_text(schedule),
              folder=str(folder), seconds=SECONDS[: schedule.num_stages], steps=STEPS)  # fmt: skip
    run = run_of(open_trace(folder), workers=1)
    return [slip(schedule, run, step=step) for step in run.of_schedule(schedule).steps]


@pytest.mark.parametrize("name", ["1f1b", "dualpipe"])
def test_a_makespan_is_predicted_from_the_runs_own_costs(ranks: Ranks, tmp_path: Path, name: str) -> None:
    schedule = generate(name, num_ranks=4, num_micro_batches=8)
    errors: list[float] = []
    while min(errors, default=1.0) >= 0.15 and len(errors) < 4 * STEPS:  # again, where others keep this machine busy
        found = slips(ranks, schedule, tmp_path)
        assert len(found) == STEPS  # the forwards alone are no steps of this schedule
        for summary in found:
            assert (
                summary.measured_ns - summary.planned_ns
                == summary.own_ns + summary.p2p_ns + summary.between_ns - summary.slack_ns
            )
            assert summary.actions.height == len(schedule)
            assert (summary.ranks["busy_ns"] + summary.ranks["idle_ns"]).to_list() == [summary.measured_ns] * 4
            assert summary.run.has_waits and summary.run.basis == "host"
        errors += [abs(summary.error) for summary in found]
    assert min(errors) < 0.15
