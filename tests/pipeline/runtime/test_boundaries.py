"""Whatever passes between stages, and whatever fails: as one process, or told in a sentence, and nobody hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tests.pipeline.runtime.living import Ranks
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.schedule import Action, Schedule

CASES = "tests.pipeline.runtime.boundaries:"
FAMILIES = {"mixed": "zbv", "no gradient": "dualpipe", "ignores": "dualpipe", "ignores one": "dualpipe"}


@pytest.mark.parametrize("kind", FAMILIES)
def test_boundaries_of_any_kind_whose_shapes_change(ranks: Ranks, kind: str) -> None:
    ranks.run(CASES + "compares", 2, kind=kind, family=FAMILIES[kind], num_ranks=2)


@pytest.mark.parametrize("family", ["1f1b", "zb1p", "dualpipe"])
def test_a_checkpointed_stage_is_recomputed_once(ranks: Ranks, family: str) -> None:
    for told in ranks.run(CASES + "compares", 2, kind="checkpointed", family=family, num_ranks=2):
        assert set(told["runs"]) == {2 * told["forwards"]}


@pytest.mark.parametrize("in_main_grad", [False, True])
def test_gradients_of_replicas_add_to_those_of_earlier_steps(ranks: Ranks, in_main_grad: bool) -> None:
    ranks.run(CASES + "adds_to_gradients_of_earlier_steps", 2, in_main_grad=in_main_grad)


def test_slices_of_sequences_carry_their_state(ranks: Ranks) -> None:
    ranks.run(CASES + "slices_carry_state", 2)


def test_shapes_that_depend_on_data_are_told_where_the_user_says_so(ranks: Ranks) -> None:
    first, second = ranks.run(CASES + "shapes_that_depend_on_data", 4, changing_shapes=False)[:2]
    assert "say changing_shapes=True" in first
    assert "rank 1 stopped while waiting for the input of stage 1" in second
    assert ranks.run(CASES + "shapes_that_depend_on_data", 4, changing_shapes=True)[:2] == ["", ""]


def test_wrong_uses_are_refused_on_all_ranks(ranks: Ranks) -> None:
    for rank, said in enumerate(ranks.run(CASES + "refuses", 2)):
        assert f"rank {rank} holds stages [{rank}] in schedule" in said["other stages"]
        assert "is for 4 ranks; this group has 2" in said["size"]
        assert "the ranks were given different schedules" in said["schedules"]
        assert ("needs loss=... to step" in said["no loss"]) if rank else "no loss" not in said
        assert "while another called something else" in said["calls"]
        assert "failed in an earlier step" in said["after"]
        assert rank or "needs the input of micro-batch 1" in said["inputs"]


def test_a_stage_that_fails_is_told_with_rank_and_action_and_nobody_waits_for_it(ranks: Ranks) -> None:
    said = ranks.run(CASES + "fails", dies=False)
    assert said[2] == (
        "PipelineRunError: rank 2 failed at 2F0, the forward of stage 2, micro-batch 0: "
        "ValueError: a number that is none"
    )
    for rank in (0, 1, 3):
        assert f"PipelineRunError: rank {rank} stopped while" in said[rank], said


def test_when_a_rank_dies_the_others_fail_at_once_with_a_sentence(warm: Path) -> None:
    four = Ranks(warm / "python")
    four.begin(CASES + "fails", dies=True)
    for rank, said in zip((0, 1, 3), four.answers([0, 1, 3]), strict=True):
        assert f"rank {rank} stopped while" in said
        assert "the connection failed" in said
        assert "imed out" not in said
    four.end()


def test_a_schedule_of_one_rank_needs_no_distributed_processes() -> None:
    actions = [
        Action(rank=0, kind=kind, stage=stage, micro_batch=micro_batch)  # type: ignore[arg-type]
        for micro_batch in range(2)
        for kind, stage in (("F", 0), ("F", 1), ("B", 1), ("I", 0), ("W", 0))
    ]
    schedule = Schedule.of(actions, name="alone", rank_of=[[0, 0]], num_micro_batches=2)
    torch.manual_seed(0)
    stages = {0: nn.Linear(3, 3), 1: nn.Linear(3, 1)}
    pipeline = PipelineRuntime(schedule, stages, loss=lambda out, target: (out - target).square().sum())
    x, y = torch.randn(2, 4, 3), torch.randn(2, 4, 1)
    result = pipeline.step([*x], [*y])
    want = torch.stack([(stages[1](stages[0](a)) - b).square().sum() for a, b in zip(x, y, strict=True)])
    assert torch.equal(torch.stack([result.losses[number] for number in (0, 1)]), want.detach())
    grads = torch.autograd.grad(want.sum(), [*stages[0].parameters()])
    for parameter, grad in zip(stages[0].parameters(), grads, strict=True):
        torch.testing.assert_close(parameter.grad, grad)
