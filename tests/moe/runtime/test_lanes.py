"""What an operation takes values from, held against the lists: streams must never read before it is written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, ClassVar

import pytest
import torch

from tests.moe.runtime.small import CPU, MLA, gradients
from weftrace.moe import Overlap, Setting, known_overlaps, load_overlap
from weftrace.moe.requests import PHASES
from weftrace.moe.runtime import HowToRun, Payloads, run
from weftrace.moe.runtime import steps as running
from weftrace.moe.runtime.lanes import StreamLanes, needs_of
from weftrace.moe.runtime.walking import Turn, turns

LISTS = [
    overlap
    for kind in PHASES
    for name in known_overlaps(kind)
    if not (overlap := load_overlap(name, kind)).is_fused
]  # fmt: skip


def before_each(overlap: Overlap) -> dict[Turn, set[Turn]]:
    """Of each turn all that have ended before it starts: by its lane, by its edges, and what was before those."""
    found: dict[Turn, set[Turn]] = {}
    last: dict[str, Turn] = {}
    at: dict[tuple[str, int], Turn] = {}
    for turn in turns(overlap, 3):
        operation = turn.operation
        edges = [(name, turn.repetition) for name in operation.after]
        edges += [(name, turn.repetition - 1) for name in operation.after_previous]
        direct = [at[edge] for edge in edges if edge in at]
        direct += [last[operation.lane]] if operation.lane in last else []
        found[turn] = {*direct, *(each for other in direct for each in found[other])}
        last[operation.lane] = at[operation.name, turn.repetition] = turn
    return found


@pytest.mark.parametrize("overlap", LISTS, ids=lambda overlap: f"{overlap.name}, {overlap.kinds[0]}")
def test_edges_and_lanes_of_every_list_order_all_values(overlap: Overlap) -> None:
    before = before_each(overlap)
    checked = 0
    for turn, ended in before.items():
        for work, direction, position in needs_of(turn.operation, turn.position):
            for other in before:
                same = other.operation.micro_batch == turn.operation.micro_batch and other is not turn
                if same and (other.operation.work, other.operation.direction, other.position) == (
                    work, direction, position,
                ):  # fmt: skip
                    if work == turn.operation.work and direction == turn.operation.direction:
                        continue  # parts and chunks of one work: issue, transfer, receive have edges of their own
                    if turn.operation.num_chunks > 1 and other.operation.chunk != turn.operation.chunk:
                        continue
                    assert other in ended, (overlap.name, turn, other)
                    checked += 1
    assert checked > 10


@pytest.mark.parametrize("name", ["training", "two-micro-batches", "five-stages"])
def test_the_edges_of_the_published_lists_are_those_of_values(name: str) -> None:
    """So a list that forgets one of them computes the same on streams."""
    overlap = load_overlap(name)
    walked = list(turns(overlap, 3))
    at = {(turn.operation.name, turn.repetition): turn for turn in walked}
    for turn in walked:
        needs = list(needs_of(turn.operation, turn.position))
        edges = [at.get((edge, turn.repetition)) for edge in turn.operation.after]
        edges += [at.get((edge, turn.repetition - 1)) for edge in turn.operation.after_previous]
        for edge in filter(None, edges):
            assert (edge.operation.work, edge.operation.direction, edge.position) in needs, (turn, edge)


class Clock:
    """Streams of a GPU that is not there: who runs where, and what had been recorded when somebody waited for it."""

    current: ClassVar[Any] = None
    waits: ClassVar[int] = 0


class Stream:
    def __init__(self, device: object = None, priority: int = 0) -> None:
        self.waited: list[object] = []

    def wait_event(self, event: Event) -> None:
        assert event.recorded
        Clock.waits += 1

    def wait_stream(self, other: Stream) -> None:
        assert other is not self


class Event:
    recorded = False

    def record(self, stream: Stream) -> None:
        assert not self.recorded
        self.recorded = True


@contextmanager
def on(stream: Stream) -> Any:
    before, Clock.current = Clock.current, stream
    yield
    Clock.current = before


@pytest.mark.parametrize("overlap", LISTS, ids=lambda overlap: f"{overlap.name}, {overlap.kinds[0]}")
def test_on_streams_the_same_is_computed_and_waited_for(overlap: Overlap, monkeypatch: pytest.MonkeyPatch) -> None:
    """With streams that only note what is asked of them: messages are received by their own operations there."""
    for name, stand_in in {
        "Stream": Stream, "Event": Event, "stream": on, "current_stream": lambda device=None: Clock.current,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    kind = overlap.kinds[0]
    each = 2 if kind == "decode" else None
    setting = Setting.of(kind, model=MLA, ep=1, tokens=12, sequence=8, num_layers=3, tokens_per_request=each)
    how = HowToRun(device=CPU, dtype=torch.float64, routing="learned", payloads=Payloads())
    on_host = run(setting, overlap, how, steps=2)
    Clock.current, Clock.waits = Stream(), 0
    monkeypatch.setattr(running, "lanes_of", StreamLanes)
    on_streams = run(setting, overlap, how, steps=2)
    assert all(torch.equal(out, on_streams.outputs[number]) for number, out in on_host.outputs.items())
    grads = gradients(on_streams.layers)
    assert all(torch.equal(grads[name], grad) for name, grad in gradients(on_host.layers).items())
    assert Clock.waits >= 2 * 3 * sum(len(each.after) for each in overlap.operations)
