"""How do stretches that torch.profiler recorded one after another become one file?

Each stretch is a whole JSON of Kineto's: a head with facts, a list of events, a tail. Events of all stretches stand in
one list under one head: Kineto counts ids on through the life of a process, and takes all times from one base.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from isal import isal_zlib

from weftrace.errors import TraceError
from weftrace.units import MIB

_LIST = re.compile(rb'"traceEvents"\s*:\s*\[')
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d+)')
_TRACE_NAME = re.compile(rb'"traceName"\s*:\s*"[^"]*"')
_LEVEL = 2  # of ISA-L's, as weftrace compresses every file


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What the profiler recorded from one start to the next stop.

    steps: whose numbers, ascending. head, tail: text around the list of events. packed: the events' text, compressed.
    """

    steps: tuple[int, ...]
    head: bytes
    tail: bytes
    packed: bytes

    @property
    def base(self) -> bytes:
        found = _BASE.search(self.head) or _BASE.search(self.tail)
        return found[1] if found else b"0"


def stretch_of(text: bytes, steps: tuple[int, ...]) -> Stretch:
    """A stretch from Kineto's JSON. Raises `TraceError` where the text is none, or ends early."""
    found, end = _LIST.search(text), text.rfind(b"]")
    events = text[found.end() : end].strip() if found else b""
    if found is None or not events or not _closes(text[end:]):
        what = "JSON that ends early" if events else "no events"
        raise TraceError(f"the profiler wrote {what}: is the temporary folder full?")
    packed = isal_zlib.compress(events, _LEVEL)
    return Stretch(steps=steps, head=text[: found.end()], tail=text[end:], packed=packed)


def _closes(tail: bytes) -> bool:
    try:
        return isinstance(json.loads(b'{"traceEvents": [' + tail), dict)
    except ValueError:
        return False


def file_of(stretches: Sequence[Stretch], facts: Mapping[str, Any], name: str) -> bytes:
    """The gzipped file of stretches in order of time. facts: top-level members, before those of Kineto, whose own are
    kept where both have one. Raises `TraceError` where stretches have no common base of times."""
    last = stretches[-1]
    if len(bases := {stretch.base for stretch in stretches}) > 1:
        raise TraceError(f"the profiler changed the base of its times: {b', '.join(sorted(bases)).decode()}")
    own = {key: value for key, value in facts.items() if f'"{key}"'.encode() not in last.head + last.tail}
    packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, 16 + isal_zlib.MAX_WBITS)
    summary = json.dumps(own)[1:-1].encode()
    chunks = [packer.compress(last.head.replace(b"{", b"{" + summary + b"," * bool(own), 1))]
    for number, stretch in enumerate(stretches):
        chunks.append(packer.compress(b",\n" * bool(number)))
        chunks += (packer.compress(chunk) for chunk in _unpacked(stretch.packed))
    tail = _TRACE_NAME.sub(lambda _: b'"traceName": ' + json.dumps(name).encode(), last.tail)
    return b"".join([*chunks, packer.compress(tail), packer.flush()])


def _unpacked(packed: bytes) -> Iterator[bytes]:
    unpacker = isal_zlib.decompressobj()
    while not unpacker.eof:
        yield unpacker.decompress(packed, MIB)
        packed = unpacker.unconsumed_tail


class _Timed(msgspec.Struct):
    """Of an event, what tells whether it lies before a step."""

    ph: str = ""
    name: str = ""
    cat: str = ""
    ts: float | None = None
    dur: float = 0


def without_oldest(stretches: Sequence[Stretch], number: int) -> list[Stretch]:
    """What is left without that many of the oldest steps. A step ends where the next one begins on the host: kernels
    that it launched and that ran later stay, without their launch."""
    left = list(stretches)
    while left and number >= len(left[0].steps):
        number -= len(left.pop(0).steps)
    if number and left:
        left[0] = _from_step(left[0], left[0].steps[number:])
    return left


def _from_step(stretch: Stretch, steps: tuple[int, ...]) -> Stretch:
    texts = msgspec.json.decode(b"[" + isal_zlib.decompress(stretch.packed) + b"]", type=list[msgspec.Raw])
    decode = msgspec.json.Decoder(_Timed).decode
    events = [decode(text) for text in texts]
    starts = (
        event.ts for event in events if event.name == f"ProfilerStep#{steps[0]}" and event.cat == "user_annotation"
    )
    cut = next((ts for ts in starts if ts is not None), None)
    if cut is None:
        raise TraceError(f"step {steps[0]} has no range in what the profiler wrote")
    kept = (_kept(bytes(text), event, cut) for text, event in zip(texts, events, strict=True))
    packed = isal_zlib.compress(b",\n".join(text for text in kept if text), _LEVEL)
    return Stretch(steps=steps, head=stretch.head, tail=stretch.tail, packed=packed)


def _kept(text: bytes, event: _Timed, cut: float) -> bytes | None:
    if event.ts is None or event.ts >= cut or event.ph == "M":  # a name of a process or thread stays
        return text
    if event.cat == "Trace" and event.ts + event.dur > cut:  # the window of the recording begins later now
        return json.dumps(json.loads(text) | {"ts": cut, "dur": round(event.ts + event.dur - cut, 3)}).encode()
    return None
