"""What lanes are on a device: streams and events on CUDA; on a CPU the host, and what gloo does meanwhile.

On a CPU one thread computes, in the order of the list; a message is posted where the list issues it, travels in gloo's
threads, and is waited for where an edge of the list, or a value, needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

import torch

from weftrace.moe.operations import Operation
from weftrace.moe.runtime.walking import Turn, way_of

_FORWARD = ("attn", "attn-1")
#: (work, direction) -> what it takes values from: works of its direction in the same layer, and in the layer before on
#: its way. A list that forgets such an edge is simulated as it is written, and still computes what it should.
NEEDS: dict[tuple[str, str], tuple[tuple[str, ...], tuple[str, ...]]] = {
    ("attn", "F"): ((), ("combine", "shared", "mlp")),
    ("attn-0", "F"): ((), ("combine", "shared", "mlp")),
    ("attn-1", "F"): (("attn-0",), ()),
    ("shared", "F"): (_FORWARD, ()),
    ("dispatch", "F"): (_FORWARD, ()),
    ("mlp", "F"): (("dispatch", *_FORWARD), ()),
    ("combine", "F"): (("mlp",), ()),
    ("combine", "B"): ((), ("attn", "attn-0")),
    ("shared", "B"): ((), ("attn", "attn-0")),
    ("mlp", "B"): (("combine",), ("attn", "attn-0")),
    ("dispatch", "B"): (("mlp",), ()),
    ("attn", "B"): (("dispatch", "shared", "mlp"), ()),
    ("attn-1", "B"): (("dispatch", "shared", "mlp"), ()),
    ("attn-0", "B"): (("attn-1",), ()),
}


class Lanes(Protocol):
    """defers: a message is received when it is needed, by the host, and not where the list has it."""

    defers: bool

    def start(self) -> None:
        """A walk begins: what it does comes after all that was asked for before."""
        ...

    def running(self, turn: Turn) -> AbstractContextManager[None]:
        """A context in which the turn runs on its lane, after all that it waits for."""
        ...

    def finish(self) -> None:
        """A walk ends: what follows comes after all that it issued."""
        ...


class HostLanes:
    """A CPU."""

    defers = True

    def start(self) -> None:
        pass

    @contextmanager
    def running(self, turn: Turn) -> Iterator[None]:
        yield

    def finish(self) -> None:
        pass


class StreamLanes:
    """A CUDA device: a stream a lane, an event an operation. Written with care, and unproved: no GPU was at hand.

    An operation waits for the events that its edges name, and for those of what it takes values from. The compute lane
    is the stream that is current when this is made. Short kernels that others wait for should not queue, and so the
    lanes of communication have the higher priority.
    """

    defers = False

    def __init__(self, device: torch.device) -> None:
        self._compute = torch.cuda.current_stream(device)
        self._streams = {
            "compute": self._compute, "side": torch.cuda.Stream(device),
            "communication": torch.cuda.Stream(device, priority=-1), "network": torch.cuda.Stream(device, priority=-1),
        }  # fmt: skip
        self._by_name: dict[tuple[str, int], torch.cuda.Event] = {}
        self._by_work: dict[tuple[int, str, str, int], list[torch.cuda.Event]] = {}

    def start(self) -> None:
        self._by_name, self._by_work = {}, {}
        for stream in self._streams.values():
            if stream is not self._compute:
                stream.wait_stream(self._compute)

    @contextmanager
    def running(self, turn: Turn) -> Iterator[None]:
        stream = self._streams[turn.operation.lane]
        for event in self._awaited(turn):
            stream.wait_event(event)
        with torch.cuda.stream(stream):
            yield
        event = torch.cuda.Event()
        event.record(stream)
        operation = turn.operation
        self._by_name[operation.name, turn.repetition] = event
        key = operation.micro_batch, operation.work, operation.direction, turn.position
        self._by_work.setdefault(key, []).append(event)

    def finish(self) -> None:
        for stream in self._streams.values():
            if stream is not self._compute:
                self._compute.wait_stream(stream)

    def _awaited(self, turn: Turn) -> Iterator[torch.cuda.Event]:
        operation = turn.operation
        yield from (self._by_name[edge] for edge in turn.edges if edge in self._by_name)
        for work, direction, position in needs_of(operation, turn.position):
            yield from self._by_work.get((operation.micro_batch, work, direction, position), ())


def needs_of(operation: Operation, position: int) -> Iterator[tuple[str, str, int]]:
    """(work, direction, position) of all that an operation takes values from, or that is an earlier part of its own."""
    work, way = operation.work, way_of(operation)
    if operation.direction == "W":
        same: tuple[str, ...] = {"attn": ("attn", "attn-0", "attn-1"), "mlp": ("mlp", "shared")}.get(work, (work,))
        before: tuple[str, ...] = ()
    else:
        same, before = NEEDS[work, way]
    for each in (*same, work):
        yield each, way, position
    for each in before:
        yield each, way, position - 1


def lanes_of(device: torch.device) -> Lanes:
    return StreamLanes(device) if device.type == "cuda" else HostLanes()
