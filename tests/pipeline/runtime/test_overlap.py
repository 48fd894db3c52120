"""Two processes on gloo whose experts are shared out: phases in turns hide communication, and change no gradient."""

from __future__ import annotations

from pathlib import Path

import pytest

import weftrace as wt
from tests.fuzz import thorough, thorough_case
from tests.living import Ranks
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.notation import to_text

CASES = "tests.pipeline.runtime.phase_cases:"


def test_phases_in_turns_give_the_bits_of_plain_autograd_and_one_process(ranks: Ranks) -> None:
    for summary in ranks.run(CASES + "experts_on_ranks", 2):
        assert summary == dict.fromkeys(summary, True)
        assert len(summary) == 5


@pytest.mark.parametrize(("family", "kind"), [("dualpipev", "F&B"), thorough_case("zbv", "W")])
def test_two_pipelines_share_experts(ranks: Ranks, family: str, kind: str, tmp_path: Path) -> None:
    """F&B in turns, and I and W of phases: both pipelines exchange rows in the same order, and nothing is missing. Each
    expert counts once in the norm, and is saved; another number of parts loads it."""
    schedule = generate(family, num_ranks=2, num_micro_batches=4)
    assert kind in schedule.actions.get_column("kind").unique()
    for found in ranks.run(CASES + "pipelines_of_experts", 4, schedule=to_text(schedule), folder=str(tmp_path)):
        assert (found["notes"], found["loaded"]) == ([], True)
        assert found["apart"] < 1e-12 and found["norm"] < 1e-12


@thorough
def test_a_report_states_more_communication_behind_computation_with_overlap(ranks: Ranks, tmp_path: Path) -> None:
    """Without overlap nothing runs while a rank waits for an exchange; with it, the other micro-batch does."""
    runs = 3
    ranks.run(CASES + "profiled", 2, folder=str(tmp_path), runs=runs)
    shares = {kind: sorted(_hidden(tmp_path, f"{kind}.{run}") for run in range(runs)) for kind in ("without", "with")}
    assert shares["without"][runs // 2] < shares["with"][runs // 2], shares


def _hidden(folder: Path, name: str) -> float:
    """Of both ranks' communication, as the report counts it."""
    documents = [wt.analyze(folder / f"{name}.rank{rank}.json").document["ranks"][0] for rank in range(2)]
    return sum(d["hidden_communication_ns"] for d in documents) / sum(d["communication_ns"] for d in documents)
