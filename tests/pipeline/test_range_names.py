"""Ranges of a run pipeline name their action, and the chunk in it in the house's alphabet."""

from __future__ import annotations

import pytest

from weftrace.alphabet import direction_of, numbers_in, phase_name
from weftrace.pipeline.range_names import MESSAGES, REPLICAS, STEP, WAIT, action_in, action_name, chunk_name
from weftrace.pipeline.schedule import Action

ACTIONS = [
    Action(rank=2, kind="F", stage=3, micro_batch=5),
    Action(rank=2, kind="F", stage=3, micro_batch=15, offload=True),
    Action(rank=0, kind="B", stage=0, micro_batch=0),
    Action(rank=1, kind="I", stage=12, micro_batch=7),
    Action(rank=1, kind="W", stage=12, micro_batch=7),
    Action(rank=0, kind="F&B", stage=0, micro_batch=4, back_stage=7, back_micro_batch=1),
    Action(rank=0, kind="F&B", stage=0, micro_batch=4, back_stage=7, back_micro_batch=1, offload=True),
]


@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_the_name_of_an_actions_range_tells_the_action_again(action: Action) -> None:
    assert action_in(action_name(action), action.rank) == action


@pytest.mark.parametrize(
    "name", ["", "3X5", "3F", "F5", "3B5&7B1", "3I5^", "stage3(F)", "3F5 ", "pipeline step", "attn(F)", "0F4&7B"]
)
def test_other_names_are_no_actions(name: str) -> None:
    assert action_in(name, 0) is None


def test_both_conventions_live_in_one_trace() -> None:
    name = phase_name(chunk_name(3, "F"), layer=2, micro_batch=5)
    assert action_in(name, 0) is None
    assert numbers_in(name) == ("stage3(F)", {"layer": 2, "micro_batch": 5})
    assert [numbers_in(str(action)) for action in ACTIONS] == [(str(action), {}) for action in ACTIONS]


def test_a_chunks_name_has_the_direction_that_pictures_and_reports_read() -> None:
    assert {kind: direction_of(chunk_name(3, kind)) for kind in "FBIW"} == {"F": "F", "B": "B", "I": "B", "W": "W"}
    assert [direction_of(name) for name in (STEP, MESSAGES, WAIT, REPLICAS)] == [None] * 4
