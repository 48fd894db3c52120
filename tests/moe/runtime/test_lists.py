"""Lists that a user writes: executed as written, or refused with what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import ProfilerActivity, profile, schedule

from tests.fuzz import examples
from tests.moe.runtime.small import MLA, apart, drawn, gradients, layers_of, plain, prompts
from tests.moe.runtime.written import any_order, backward, forward, in_turn, operation
from weftrace.alphabet import numbers_in
from weftrace.errors import ProfileError
from weftrace.moe import Operation, Setting, load_overlap
from weftrace.moe.runtime import HowToRun, run
from weftrace.moe.runtime.executor import execute
from weftrace.moe.runtime.layers.tokens import whole
from weftrace.moe.runtime.micro_batch import MicroBatch
from weftrace.moe.runtime.moving.payload import Payloads
from weftrace.moe.runtime.moving.transports import LocalTransport
from weftrace.moe.runtime.walking import turns


def trained(operations: Sequence[Operation]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Output and gradients of one micro-batch that goes forward as 0 and back as 1."""
    layers, overlap = layers_of(MLA, 2), in_turn(operations, ["train"])
    micro_batch = MicroBatch(layers, prompts(whole([7, 4])), drawn(11, 16), LocalTransport(), Payloads())
    execute(overlap, {(0, "F"): micro_batch})
    out = micro_batch.output()
    micro_batch.output_grad = 2 * out
    execute(overlap, {(1, "B"): micro_batch})
    return out, gradients(layers)


def expected() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    layers = layers_of(MLA, 2)
    out = plain(layers, drawn(11, 16), prompts(whole([7, 4])))
    out.square().sum().backward()
    return out.detach(), gradients(layers)


def chunked(work: str, direction: str, micro_batch: int, num_chunks: int = 3) -> list[Operation]:
    return [
        operation(
            work, direction, micro_batch, name=f"{work}({direction}){at}", chunk=at, num_chunks=num_chunks,
            share=1 / num_chunks,
        )
        for at in range(num_chunks)
    ]  # fmt: skip


def test_a_list_in_chunks_computes_the_same_to_1e_12() -> None:
    """Three chunks of 11 tokens, moved and multiplied on their own; W of the experts sums over chunks."""
    forth = [forward()[0], forward()[1]]
    for work in ("dispatch", "mlp", "combine"):
        forth += chunked(work, "F", 0)
    back = [*chunked("combine", "B", 1), operation("shared", "B", 1)]
    back += [*chunked("mlp", "B", 1), *chunked("dispatch", "B", 1)]
    back += [operation("attn", "B", 1), *chunked("mlp", "W", 1), operation("shared", "W", 1), operation("attn", "W", 1)]
    out, grads = trained([*back, *forth])
    want, want_grads = expected()
    torch.testing.assert_close(out, want, rtol=1e-12, atol=1e-12)
    assert apart(grads, want_grads) < 1e-12


def test_a_backward_without_w_makes_the_weights_gradients_at_once() -> None:
    split, whole_ = trained([*backward(), *forward()]), trained([*backward(split=False), *forward()])
    assert torch.equal(split[0], whole_[0])
    assert all(torch.equal(split[1][name], grad) for name, grad in whole_[1].items())
    assert apart(split[1], expected()[1]) < 1e-12


def test_attention_in_two_goes_back_in_two() -> None:
    forth = [operation("attn-0"), operation("attn-1"), *forward()[1:]]
    back = [*backward(split=False)[:-1], operation("attn-1", "B", 1), operation("attn-0", "B", 1)]
    out, grads = trained([*back, operation("attn-0", "W", 1), operation("attn-1", "W", 1), *forth])
    whole_ = trained([*backward(), *forward()])
    assert torch.equal(out, whole_[0])
    assert all(torch.equal(grads[name], grad) for name, grad in whole_[1].items())


def test_a_list_that_interleaves_layers_begins_and_ends_with_parts_of_itself() -> None:
    """SHARED0 works on the layer before: it has none in the first repetition, and one more follows the last."""
    walked = [
        (turn.operation.name, turn.repetition, turn.layer) for turn in turns(load_overlap("two-micro-batches"), 2)
    ]
    assert [turn[1:] for turn in walked if turn[0] == "SHARED0"] == [(1, 0), (2, 1)]
    assert [turn[1:] for turn in walked if turn[0] == "ATTN0"] == [(0, 0), (1, 1)]
    training = [(turn.operation.name, turn.layer) for turn in turns(load_overlap("training"), 2)]
    assert [layer for name, layer in training if name == "attn(B)"] == [1, 0]
    assert [layer for name, layer in training if name == "attn(F)"] == [0, 1]


@settings(max_examples=examples(20))
@given(st.randoms(use_true_random=False))
def test_any_order_that_values_allow_computes_the_same_bits(draw: Random) -> None:
    out, grads = trained(any_order(draw))
    want, want_grads = in_the_plain_order()
    assert torch.equal(out, want)
    assert all(torch.equal(grads[name], grad) for name, grad in want_grads.items())


@cache
def in_the_plain_order() -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    return trained([*backward(), *forward()])


@pytest.mark.parametrize("name", ["training", "two-micro-batches", "five-stages"])
def test_each_message_is_waited_for_once_in_a_range_or_received_by_an_operation(name: str) -> None:
    """2 layers, each with a dispatch and a combine of two micro-batches: 8 messages."""
    overlap = load_overlap(name)
    each = 2 if overlap.kinds[0] == "decode" else None
    setting = Setting.of(overlap.kinds[0], model=MLA, ep=1, tokens=8, sequence=8, num_layers=2, tokens_per_request=each)
    profiled: list[str] = []
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=0, warmup=1, active=1), acc_events=True
    ) as profiler:
        profiler.on_trace_ready = lambda made: profiled.extend(event.name for event in made.events())
        how = HowToRun(payloads=Payloads())
        run(setting, overlap, how, steps=2, on_step=lambda step: profiler.step())
    summary = [numbers_in(event) for event in profiled]
    waits = [(phase, *sorted(numbers.items())) for phase, numbers in summary if phase.startswith("wait for")]
    assert len(set(waits)) == len(waits) == (0 if name == "five-stages" else 8)
    assert {numbers["layer"] for _, numbers in summary if numbers} == {0, 1}


def test_what_goes_forward_alone_holds_nothing_of_the_layers_behind_it() -> None:
    overlap = in_turn(forward(), ["prefill"])
    micro_batch = MicroBatch(layers_of(MLA, 4), prompts(whole([7, 4])), drawn(11, 16), LocalTransport(), Payloads())
    with torch.no_grad():
        execute(overlap, {(0, "F"): micro_batch})
        assert [len(state.values) for state in micro_batch.states[:2]] == [0, 0]
        micro_batch.output()
    assert [list(state.values) for state in micro_batch.states] == [[], [], [], ["next x"]]
    assert not any(state.graphs or state.exchanges or state.routes for state in micro_batch.states)


def test_a_backward_leaves_nothing_but_gradients() -> None:
    overlap = in_turn([*backward(), *forward()], ["train"])
    micro_batch = MicroBatch(layers_of(MLA, 2), prompts(whole([7, 4])), drawn(11, 16), LocalTransport(), Payloads())
    execute(overlap, {(0, "F"): micro_batch})
    micro_batch.output_grad = micro_batch.output()
    execute(overlap, {(1, "B"): micro_batch})
    assert [list(state.values) for state in micro_batch.states] == [["grad of x"]] * 2
    assert not any(tasks.tasks for state in micro_batch.states for tasks in state.tasks.values())


@pytest.mark.parametrize(
    ("operations", "message"),
    [
        (forward()[:-1], r"micro-batch 0 has no combine\(F\)"),
        ([operation("attn-0"), *forward()[1:]], r"micro-batch 0 has no attn-1\(F\)"),
        ([forward()[0], forward()[1], operation("moe")], "no kernel that moves tokens and multiplies"),
        ([*forward()[:3], *chunked("mlp", "F", 0, 2), *chunked("combine", "F", 0, 3)], "3 chunks, and .* in 2"),
        ([*chunked("attn", "F", 0, 2), *forward()[1:]], "'attn.F.0' is in 2 chunks; attn runs whole, in 1"),
        (
            [*forward()[:3], *(replace(each, num_chunks=1) for each in chunked("mlp", "F", 0, 2)), forward()[4]],
            r"2 operations of mlp\(F\) in 1 chunk: a part of the tokens is a chunk",
        ),
    ],
)  # fmt: skip
def test_lists_that_cannot_be_executed_are_refused(operations: list[Operation], message: str) -> None:
    with pytest.raises(ProfileError, match=message):
        trained(operations)


def test_an_operation_before_what_it_needs_is_refused_where_it_runs() -> None:
    early = forward()
    early[2], early[3] = early[3], early[2]
    with pytest.raises(ProfileError, match=r"layer 0: the result of dispatch\(F\) is needed before it has started"):
        trained([*backward(), *early])
    halves = [operation("attn-1", "B", 1), operation("attn-0", "B", 1)]
    with pytest.raises(ProfileError, match=r"layer 1: what attn\(B\) makes is needed before attn\(B\) has run"):
        late = [*backward(split=False)[:-1], halves[0], replace(halves[1], layer_shift=-1)]
        trained([*late, *forward()])
    with pytest.raises(ProfileError, match=r"cut in 2 chunks, and the forward of the same tokens was in 1"):
        trained([*chunked("combine", "B", 1, 2), *backward()[1:], *forward()])
    with pytest.raises(ProfileError, match=r"has no micro-batch 1 that goes B"):
        trained(forward())
