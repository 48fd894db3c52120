"""Phases of two micro-batches in turns: in which order, with which gradients, under which ranges."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime import StageEngine
from weftrace.pipeline.runtime.blocks import ExpertBlock, TransformerBlock
from weftrace.pipeline.runtime.phases import Compute, Exchange, Phase, PhasedModule, PhasedSequential, Transfer


class Sent:
    """A communication that only says when it begins and when it is waited for."""

    def __init__(self, name: str, log: list[str], rows: Tensor, *rest: Any) -> None:
        self.name, self.log, self.rows = name, log, rows
        log.append(f"{name} begins")

    def wait(self) -> Tensor:
        self.log.append(f"{self.name} has come")
        return self.rows

    def backward(self, grad: Tensor) -> Transfer:
        return Sent(self.name.replace("(F)", "(B)"), self.log, grad)


class Summary(torch.autograd.Function):
    """Says when its backward runs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, log: list[str], name: str) -> Tensor:
        ctx.log, ctx.name = log, name
        log.append(f"{name}(F)")
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        ctx.log.append(f"{ctx.name}(B)")
        return grad, None, None


class Logged(PhasedModule):
    """Says when each of its phases runs."""

    def __init__(self, log: list[str]) -> None:
        super().__init__()
        self.log = log
        self.weights = nn.ModuleDict({"attn": nn.Linear(2, 2), "mlp": nn.Linear(2, 2)})
        for name, layer in self.weights.items():
            layer.get_parameter("weight").register_post_accumulate_grad_hook(
                lambda _, name=name: log.append(f"{name}(W)")
            )

    def phases(self) -> Sequence[Phase]:
        return (
            Compute("attn", partial(self._computed, "attn")),
            Exchange("dispatch", partial(Sent, "dispatch(F)", self.log)),
            Compute("mlp", partial(self._computed, "mlp")),
            Exchange("combine", partial(Sent, "combine(F)", self.log)),
        )

    def _computed(self, name: str, x: Tensor) -> tuple[Tensor]:
        return (Summary.apply(self.weights[name](x), self.log, name),)  # type: ignore[no-untyped-call]


def test_f_and_b_alternate_in_deepseeks_order() -> None:
    log: list[str] = []
    engine = StageEngine(Logged(log), 0)
    x = torch.randn(3, 2)
    engine.forward(0, x)
    log.clear()
    engine.forward_backward(1, x, 0, (torch.ones(3, 2),))
    # DeepSeek's lanes: attn(F) mlp(B) mlp(W) mlp(F) attn(B) attn(W), and combine(B) dispatch(F) dispatch(B) combine(F).
    assert log == [
        "combine(B) begins", "attn(F)", "dispatch(F) begins",
        "combine(B) has come", "mlp(B)", "dispatch(B) begins", "mlp(W)",
        "dispatch(F) has come", "mlp(F)", "combine(F) begins",
        "dispatch(B) has come", "attn(B)", "attn(W)",
        "combine(F) has come",
    ]  # fmt: skip


def _moe() -> PhasedSequential:
    torch.manual_seed(0)
    return PhasedSequential(*(ExpertBlock(8, num_experts=4) for _ in range(2))).double()


@pytest.mark.parametrize("split", [True, False])
def test_interleaved_stages_get_the_bits_of_a_plain_backward(split: bool) -> None:
    first, second = _moe(), _moe()
    plain = copy.deepcopy(first), copy.deepcopy(second)
    engines = StageEngine(first, 0), StageEngine(second, 1)
    xs = [torch.randn(2, 4, 8).double().requires_grad_() for _ in range(2)]
    out = engines[1].forward(0, xs[0], split=split)
    outputs, grads = engines[0].forward_backward(7, xs[1], 0, torch.ones_like(out), of=engines[1], split=split)
    expected = plain[1](xs[0]), plain[0](xs[1])
    assert torch.equal(out, expected[0])
    assert torch.equal(outputs, expected[1])
    last = engines[0].backward(7, torch.ones_like(outputs))
    for value in expected:
        value.sum().backward()
    assert torch.equal(grads, xs[0].grad)  # type: ignore[arg-type]
    assert torch.equal(last, xs[1].grad)  # type: ignore[arg-type]
    plain_parameters = (parameter for module in plain for parameter in module.parameters())
    for mine, theirs in zip((*first.parameters(), *second.parameters()), plain_parameters, strict=True):
        assert torch.equal(mine.grad, theirs.grad)  # type: ignore[arg-type]
    assert engines[0].notes == ()


def test_a_stage_without_phases_runs_f_then_b_and_says_so_once() -> None:
    plain, moe = StageEngine(TransformerBlock(8), 3), StageEngine(_moe().float(), 4)
    x = torch.randn(2, 4, 8)
    for at in range(2):
        moe.forward(at, x)
        plain.forward_backward(at, x, at, torch.ones_like(x), of=moe)
    assert plain.notes == ("stage 3 offers no phases that communicate: its F&B is F, then B",)
    assert not plain.interleaves
    assert moe.interleaves


def test_what_nobody_used_is_sent_back_as_zeros_for_others_wait_for_it() -> None:
    log: list[str] = []

    class Unused(Logged):
        def phases(self) -> Sequence[Phase]:
            return (*super().phases()[:2], Compute("ignored", lambda rows: torch.ones(3, requires_grad=True)))

    engine = StageEngine(Unused(log), 0)
    engine.forward(0, torch.randn(3, 2))
    engine.backward(0, torch.ones(3))
    assert log[-5:] == ["dispatch(F) has come", "dispatch(B) begins", "dispatch(B) has come", "attn(B)", "attn(W)"]


def test_phases_must_begin_with_one_that_computes() -> None:
    class Sends(Logged):
        def phases(self) -> Sequence[Phase]:
            return super().phases()[1:]

    with pytest.raises(ScheduleError, match="the first phase of Sends must be a Compute"):
        StageEngine(Sends([]), 0).forward(0, torch.ones(1))


def test_each_phase_is_a_range_within_its_chunks() -> None:
    engine = StageEngine(_moe(), 5)
    x = torch.randn(2, 4, 8).double()
    engine.forward(0, x)
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        engine.forward_backward(1, x, 0, x)
    ranges = [event for event in profiled.events() if event.is_user_annotation]
    outer = {event.name for event in ranges if event.cpu_parent is None}
    assert outer == {"stage5(F)", "stage5(B)"}
    inner = {event.name: event.cpu_parent.name for event in ranges if event.cpu_parent is not None}
    assert inner == {
        **{f"{phase}(F)": "stage5(F)" for phase in ("attn", "dispatch", "mlp", "combine", "merge")},
        **{f"{phase}(B)": "stage5(B)" for phase in ("attn", "dispatch", "mlp", "combine", "merge")},
        **{f"{phase}(W)": "stage5(B)" for phase in ("attn", "mlp")},
        **{f"wait for {phase}({way})": f"stage5({way})" for phase in ("dispatch", "combine") for way in "FB"},
    }
