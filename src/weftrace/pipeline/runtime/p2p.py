"""Boundary values on their way: posted in the one order, awaited by who needs them.

A value is described to its receiver when it is sent for the first time; as long as nothing changes, only tensors follow
in later steps, those of a turn in one batch. The messages of a step in which descriptions are sent go one by one: the
receiver must have read a description before it can make room.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weftrace.errors import ScheduleError
from weftrace.pipeline.runtime.boundary import describe, packed, received, same_but_for_memory
from weftrace.pipeline.runtime.link import Link
from weftrace.pipeline.runtime.program import Message
from weftrace.pipeline.runtime.split.values import mapped

Key = tuple[bool, int, int]

#: Bytes of a description that its first message holds.
_HEAD = 248


@dataclass(slots=True)
class _Posted:
    """A message under way. value: being received, or None; tensors: of it, kept until the works are done."""

    message: Message
    value: Any
    tensors: list[Tensor] = field(default_factory=list)
    works: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Mailbox:
    """A rank's messages. home: the device on which its stages want them."""

    link: Link
    home: torch.device
    peak_received: int = 0
    _descriptions: dict[Key, str] = field(default_factory=dict)
    _telling: bool = True
    _outgoing: dict[Key, Any] = field(default_factory=dict)
    _here: dict[Key, Any] = field(default_factory=dict)
    _posted: dict[Key, _Posted] = field(default_factory=dict)
    _received: int = 0

    def begin(self, descriptions: dict[Key, str], *, telling: bool) -> None:
        """Begin a step. descriptions: how each message was described in the last step of its kind: the receiver makes
        room by it. telling: they are sent anew in this step, and kept in `descriptions`."""
        self._descriptions, self._telling = descriptions, telling
        self.peak_received = 0

    def put(self, key: Key, value: Any, target: int) -> None:
        """A value for a stage on `target`: handed over where that is this rank, else sent when its turn comes."""
        (self._here if target == self.link.rank else self._outgoing)[key] = value

    def post(self, messages: Sequence[Message]) -> None:
        """Begin to send and to receive, in this order."""
        if self._telling:
            for message in messages:
                self._tell(message)
                self._begin([message])
        elif messages:
            self._begin(messages)

    def wait_for(self, messages: Iterable[Message]) -> None:
        """Wait until these are received."""
        for message in messages:
            posted = self._posted.pop(message.key)
            self._wait(message, posted.works)
            self._received -= 1
            is_home = self.link.device == self.home
            self._here[message.key] = posted.value if is_home else mapped(posted.value, self._brought_home)

    def take(self, key: Key) -> Any:
        """A value that is there."""
        return self._here.pop(key)

    def finish(self, messages: Iterable[Message]) -> None:
        """Wait until what was sent is received, so that it can be freed."""
        for message in messages:
            self._wait(message, self._posted.pop(message.key).works)

    def close(self) -> None:
        """Drop all that is under way: a group closes only when all its works are dropped."""
        for held in (self._outgoing, self._here, self._posted):
            held.clear()
        self.link.close()

    def _brought_home(self, leaf: Any) -> Any:
        return leaf.detach().to(self.home).requires_grad_(leaf.requires_grad) if isinstance(leaf, Tensor) else leaf

    def _tell(self, message: Message) -> None:
        """Send or receive a description: a head with its length and its start, and the rest where there is more."""
        if message.source == self.link.rank:
            text = describe(self._outgoing[message.key])
            body = text.encode()
            padded = body.ljust(max(_HEAD, len(body)), b" ")
            sent = torch.frombuffer(bytearray(len(body).to_bytes(8, "little") + padded), dtype=torch.uint8)
            for part in sent.to(self.link.device).split([8 + _HEAD, len(padded) - _HEAD]):
                self._pass(part, message)
        else:
            head = self._pass(torch.empty(8 + _HEAD, dtype=torch.uint8, device=self.link.device), message)
            length = int.from_bytes(head[:8], "little")
            rest = torch.empty(max(0, length - _HEAD), dtype=torch.uint8, device=self.link.device)
            text = (head[8:] + self._pass(rest, message))[:length].decode()
        self._descriptions[message.key] = text

    def _pass(self, part: Tensor, message: Message) -> bytes:
        """Send or receive this, and wait until it is done."""
        if part.numel():
            self._wait(message, self._batch([(part, message)]))
        return bytes(part.cpu().tolist())

    def _begin(self, messages: Sequence[Message]) -> None:
        tensors: list[tuple[Tensor, Message]] = []
        for message in messages:
            if message.source == self.link.rank:
                value = self._outgoing.pop(message.key)
                self._compare(value, message)
                posted = _Posted(message, None)
            else:
                value = received(self._descriptions[message.key], self.link.device)
                posted = _Posted(message, value)
                self._received += 1
            posted.tensors = packed(value, self._descriptions[message.key], self.link.device)
            tensors += [(tensor, message) for tensor in posted.tensors]
            self._posted[message.key] = posted
        self.peak_received = max(self.peak_received, self._received)
        works = self._batch(tensors)
        one_each = len(works) == len(tensors)  # NCCL gives one for all
        for i, (_, message) in enumerate(tensors):
            self._posted[message.key].works += [works[i]] if one_each else works

    def _compare(self, value: Any, message: Message) -> None:
        now, known = describe(value), self._descriptions[message.key]
        if not same_but_for_memory(now, known):
            raise ScheduleError(
                f"{message} is {now}, but its receiver makes room for {known}, as in the step before. Shapes that "
                "follow from those of the model's inputs may change; where others do, say changing_shapes=True."
            )

    def _batch(self, tensors: Sequence[tuple[Tensor, Message]]) -> list[Any]:
        calls = [
            (dist.isend, tensor, message.target)
            if message.source == self.link.rank
            else (dist.irecv, tensor, message.source)
            for tensor, message in tensors
        ]
        return self.link.begin(calls, self._doing(tensors[0][1])) if calls else []

    def _wait(self, message: Message, works: list[Any]) -> None:
        self.link.finish(works, self._doing(message))

    def _doing(self, message: Message) -> str:
        if message.source == self.link.rank:
            return f"sending {message} to rank {message.target}"
        return f"waiting for {message} from rank {message.source}"
