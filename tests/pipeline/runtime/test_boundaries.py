"""Whatever passes between stages, and whatever fails: as one process, or told in a sentence, and nobody hangs."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import HashStore

from tests.living import Ranks
from weftrace.errors import PipelineRunError, ScheduleError
from weftrace.pipeline.runtime.boundary import describe, packed, received, same_but_for_memory
from weftrace.pipeline.runtime.executor import PipelineRuntime
from weftrace.pipeline.runtime.failures import FirstFailure
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.schedule import Action, Schedule

CASES = "tests.pipeline.runtime.boundaries:"
FAMILIES = {"mixed": "zbv", "no gradient": "dualpipe", "ignores": "dualpipe", "ignores one": "dualpipe"}


@pytest.mark.parametrize("kind", FAMILIES)
def test_boundaries_of_any_kind_whose_shapes_change(ranks: Ranks, kind: str) -> None:
    ranks.run(CASES + "compares", 2, kind=kind, family=FAMILIES[kind], num_ranks=2)


@pytest.mark.parametrize("family", ["1f1b", "zb1p", "dualpipe"])
def test_a_checkpointed_stage_is_recomputed_once(ranks: Ranks, family: str) -> None:
    for summary in ranks.run(CASES + "compares", 2, kind="checkpointed", family=family, num_ranks=2):
        assert set(summary["runs"]) == {2 * summary["forwards"]}


@pytest.mark.parametrize("in_main_grad", [False, True])
def test_gradients_of_replicas_add_to_those_of_earlier_steps(ranks: Ranks, in_main_grad: bool) -> None:
    ranks.run(CASES + "adds_to_gradients_of_earlier_steps", 2, in_main_grad=in_main_grad)


@pytest.mark.parametrize("in_main_grad", [False, True])
def test_weights_that_stages_of_a_rank_share_are_summed_over_replicas_once(ranks: Ranks, in_main_grad: bool) -> None:
    assert ranks.run(CASES + "ties_weights", 2, in_main_grad=in_main_grad) == [True, True]


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
    cause = "rank 2 failed at 2F0, the forward of stage 2, micro-batch 0: ValueError: a number that is none"
    assert said[2] == f"PipelineRunError: {cause}"
    for rank in (0, 1, 3):
        assert f"PipelineRunError: rank {rank} stopped while" in said[rank], said
        assert said[rank].endswith(f": {cause}"), said


def test_only_a_connection_that_failed_is_told_as_one() -> None:
    """What fails for another reason is told with it; a rank that told its failure before is named."""

    class Work:
        def __init__(self, says: str) -> None:
            self.says = says

        def wait(self) -> None:
            raise RuntimeError(self.says)

    def said(says: str, link: Link) -> str:
        with pytest.raises(PipelineRunError) as caught:
            link.finish([Work(says)], "waiting for the input of stage 1, micro-batch 0 from rank 0")
        return str(caught.value)

    link = Link(1, None, torch.device("cpu"), FirstFailure(HashStore(), "failure"))
    sizes = "[enforce fail at pair.cc:416] op.preamble.length <= op.nbytes. 16 vs 8"
    closed = "[/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:3"
    waiting = "while waiting for the input of stage 1, micro-batch 0 from rank 0: "
    assert said(sizes, link) == f"rank 1 failed {waiting}{sizes}"
    assert said(closed, link).startswith(f"rank 1 stopped {waiting}the connection failed. Another rank has ended")
    link.first_failure.tell("rank 0 failed at 0F0: ValueError: first")
    link.first_failure.tell("rank 3 failed at 3F0: ValueError: second")
    assert said(closed, link) == f"rank 1 stopped {waiting}rank 0 failed at 0F0: ValueError: first"
    assert said(sizes, link) == f"rank 1 failed {waiting}{sizes}"
    assert FirstFailure().told() == ""


def test_a_rank_that_is_gone_before_a_step_is_told_in_a_sentence_too(ranks: Ranks) -> None:
    said = ranks.run(CASES + "leaves_before_its_step")
    assert said[2] == "left"
    for rank in (0, 1, 3):
        assert f"PipelineRunError: rank {rank} stopped while beginning a step" in said[rank]


def test_when_a_rank_dies_the_others_fail_at_once_with_a_sentence(warm: Path) -> None:
    four = Ranks(warm / "python")
    four.begin(CASES + "fails", dies=True)
    for rank, said in zip((0, 1, 3), four.answers([0, 1, 3]), strict=True):
        assert f"rank {rank} stopped while" in said
        assert "the connection failed" in said
        assert "imed out" not in said
    four.end()


def test_a_tensor_arrives_in_the_order_of_memory_that_it_had() -> None:
    """Sums over it depend on that in their last bits; what fills no memory of its own arrives without gaps."""
    x = torch.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    last, gaps = x.contiguous(memory_format=torch.channels_last).requires_grad_(), x[:, ::2]
    value = {"plain": x, "channels last": last, "gaps": gaps, "swapped": x.transpose(0, 1), "none": x[:0]}
    summary = describe(value)
    came = received(summary, torch.device("cpu"))
    for mine, theirs in zip(packed(value, summary, x.device), packed(came, summary, x.device), strict=True):
        theirs.copy_(mine)
    for name, tensor in value.items():
        assert torch.equal(came[name], tensor), name
        assert came[name].requires_grad == tensor.requires_grad
        assert name == "gaps" or came[name].stride() == tensor.stride(), name
    again = value | {"swapped": x.transpose(0, 1).contiguous()}
    assert describe(again) != summary
    assert same_but_for_memory(describe(again), summary)
    assert torch.equal(packed(again, summary, x.device)[3], packed(value, summary, x.device)[3])


def _on_one_rank(stages: list[nn.Module], loss: Any, kinds: str = "IW") -> PipelineRuntime:
    order = [("F", 0), ("F", 1), *((kind, stage) for stage in (1, 0) for kind in kinds)]
    actions = [
        Action(rank=0, kind=kind, stage=stage, micro_batch=number)  # type: ignore[arg-type]
        for number in range(2)
        for kind, stage in order
    ]
    schedule = Schedule.of(actions, name="alone", rank_of=[[0, 0]], num_micro_batches=2)
    return PipelineRuntime(schedule, dict(enumerate(stages)), loss=loss)


def test_a_loss_gets_the_class_of_dicts_that_the_last_stage_returned() -> None:
    """As models of transformers do, whose outputs are dicts with attributes."""

    class Output(OrderedDict[str, Any]):
        note: str

    class Answers(nn.Linear):
        def forward(self, x: Tensor) -> Output:  # type: ignore[override]
            found = Output(logits=super().forward(x), cache=None)
            found.note = "kept"
            return found

    def loss(out: Output, target: Any) -> Tensor:
        assert type(out) is Output and out.note == "kept" and out["cache"] is None
        return out["logits"].square().sum()

    last = Answers(3, 1)
    pipeline = _on_one_rank([nn.Linear(3, 3), last], loss)
    pipeline.step([*torch.randn(2, 4, 3)])
    assert last.weight.grad is not None
    assert describe(Output(x=None)) == describe({"x": None})  # to another rank it goes as keywords


def test_what_would_be_left_out_or_lost_is_refused() -> None:
    class Boxed(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return SimpleNamespace(x=super().forward(x))

    def square(out: Any, target: Any) -> Tensor:
        return getattr(out, "x", out).square().sum()

    pipeline = _on_one_rank([nn.Linear(3, 3), nn.Linear(3, 3)], square)
    cases: list[tuple[Any, Any]] = [(torch.randn(6, 3), None), ([*torch.randn(2, 6, 3)], [0] * 6)]
    for inputs, targets in cases:
        with pytest.raises(ScheduleError, match=r"6 (in|tar).*ts were given, and the schedule runs 2 micro-batches"):
            pipeline.step(inputs, targets)
    with torch.no_grad(), pytest.raises(ScheduleError, match=r"within torch.no_grad\(\): call forward\(\)"):
        pipeline.step([*torch.randn(2, 6, 3)])
    assert len(pipeline.step([*torch.randn(2, 6, 3)]).losses) == 2
    with pytest.raises(PipelineRunError, match="outside of tuples, lists and dicts, cannot be split"):
        _on_one_rank([nn.Linear(3, 3), Boxed(3, 3)], square).step([*torch.randn(2, 6, 3)])


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
