"""What a snapshot of an allocator holds, as frames: segments, blocks, the history of each device, and Python stacks.

`torch.cuda.memory._dump_snapshot` pickles a dict: `segments`, each with its `blocks`, and `device_traces`, of each
device what its allocator did, where `torch.cuda.memory._record_memory_history` was on. Each list is walked once: a file
in which a list or a segment stands in two places, so that walking takes longer than reading, is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from weftrace.errors import TraceError
from weftrace.files.sources import open_bytes
from weftrace.memory.pickles import PickleError, is_pickle, plain_value
from weftrace.units import GIB, size

DEFAULT_MAX_BYTES = 4 * GIB
#: States of blocks, as versions of torch call them.
ACTIVE, PENDING, INACTIVE = "active", "pending free", "inactive"
_STATES = {
    "active_allocated": ACTIVE, "active_pending_free": PENDING, "active_awaiting_free": PENDING, "inactive": INACTIVE,
}  # fmt: skip
#: Actions of a history that change what is allocated, and what is reserved.
ALLOCATES = {"alloc": 1, "free_requested": -1}
FAILED = "oom"
RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_FRAMES, _NAME_LENGTH = 6, 120
#: Bytes that a history may take in sum: sums of whole numbers hold them.
_MOST_BYTES = 1 << 62
#: Frames of torch itself, which say less than who called it.
_OF_TORCH = ("/torch/", "\\torch\\", "<frozen", "<string>", "??")
NO_STACK = "(no stack recorded)"

SEGMENT_SCHEMA: dict[str, pl.DataType] = {
    "device": pl.Int64(), "segment": pl.Int64(), "address": pl.UInt64(), "size_bytes": pl.Int64(),
    "stream": pl.String(), "kind": pl.String(),
}  # fmt: skip
BLOCK_SCHEMA: dict[str, pl.DataType] = {
    "device": pl.Int64(), "segment": pl.Int64(), "size_bytes": pl.Int64(), "requested_bytes": pl.Int64(),
    "state": pl.String(), "stack": pl.Int64(),
}  # fmt: skip
#: time_ns is null where torch wrote no times. address: of a failed allocation, what the device had free.
ENTRY_SCHEMA: dict[str, pl.DataType] = {
    "device": pl.Int64(), "action": pl.String(), "address": pl.UInt64(), "size_bytes": pl.Int64(),
    "time_ns": pl.Int64(), "stack": pl.Int64(),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawSnapshot:
    """segments, blocks, entries: frames of the schemas above. stacks: their texts, innermost frame first."""

    segments: pl.DataFrame
    blocks: pl.DataFrame
    entries: pl.DataFrame
    stacks: tuple[str, ...]


def is_snapshot(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a pickle does; a file that cannot be opened does not."""
    try:
        return is_pickle(next(open_bytes(path).chunks, b"")[:2])
    except TraceError:
        return False


def read_raw(path: str | os.PathLike[str], *, max_bytes: int = DEFAULT_MAX_BYTES) -> RawSnapshot:
    """A snapshot's file, plain or compressed. Nothing of it is run. Raises `WeftraceError` where it is none."""
    stream = open_bytes(path, max_bytes=min(max_bytes, DEFAULT_MAX_BYTES))
    data = b"".join(stream.chunks)
    if stream.truncated:
        raise PickleError(f"{path}: {stream.truncated}; a part of a pickle cannot be used.")
    return raw_of(plain_value(data, str(path)), str(path))


def raw_of(value: Any, path: str) -> RawSnapshot:
    """The same of a snapshot's value, `torch.cuda.memory._snapshot()`. path: what errors name it."""
    return _Walk(path).snapshot(value)


class _Walk:
    """One walk through a snapshot: which lists it has been in, and the stacks that it met."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.seen: set[int] = set()
        self.stacks: dict[str, int] = {}
        self.stack_of: dict[int, int] = {}  # id of a list of frames: many events share one
        self.frame_of: dict[int, tuple[str, bool]] = {}

    def snapshot(self, value: Any) -> RawSnapshot:
        if not isinstance(value, dict) or "segments" not in value:
            raise self.wrong("holds no `segments`", "what torch.cuda.memory._dump_snapshot writes")
        segments: dict[str, list[Any]] = {name: [] for name in SEGMENT_SCHEMA}
        blocks: dict[str, list[Any]] = {name: [] for name in BLOCK_SCHEMA}
        for number, segment in enumerate(self.once(value["segments"], "segments")):
            where = f"segment {number}"
            segment = self.dict_once(segment, where)
            device = self.number(segment, "device", where, default=0)
            row = (
                device, number, self.number(segment, "address", where, default=0),
                self.number(segment, "total_size", where),
                str(self.number(segment, "stream", where, default=0)), self.text(segment, "segment_type"),
            )  # fmt: skip
            _put(segments, row)
            held = 0
            for at, block in enumerate(self.once(segment.get("blocks"), f"blocks of {where}")):
                found = self.block(block, f"block {at} of {where}")
                held += found[0]
                _put(blocks, (device, number, *found))
            if held > row[3]:
                raise self.wrong(f"{where} has {row[3]:,} bytes and its blocks {held:,}", "no more in the blocks")
        entries: dict[str, list[Any]] = {name: [] for name in ENTRY_SCHEMA}
        for device, history in enumerate(self.once(value.get("device_traces", []), "device_traces")):
            for at, entry in enumerate(self.once(history, f"the history of device {device}")):
                if found_entry := self.entry(entry, f"entry {at} of device {device}"):
                    _put(entries, (device, *found_entry))
        return RawSnapshot(
            segments=self.frame(segments, SEGMENT_SCHEMA),
            blocks=self.frame(blocks, BLOCK_SCHEMA),
            entries=self.frame(entries, ENTRY_SCHEMA),
            stacks=tuple(self.stacks),
        )

    def block(self, block: Any, where: str) -> tuple[int, int, str, int]:
        block = self.dict_once(block, where)
        state = _STATES.get(self.text(block, "state"))
        if state is None:
            raise self.wrong(f"{where} has no state that is known", ", ".join(_STATES))
        total = self.number(block, "size", where)
        requested, frames = self.number(block, "requested_size", where, default=total), block.get("frames")
        if "history" in block and frames is None:  # torch 2.0 and before
            last: Any = next(iter(self.once(block["history"], f"the history of {where}")), {})
            last = last if isinstance(last, dict) else {}
            requested, frames = self.number(last, "real_size", where, default=total), last.get("frames")
        return total, requested, state, self.stack(frames, where)

    def entry(self, entry: Any, where: str) -> tuple[str, int, int, int | None, int] | None:
        """None of what changes nothing."""
        if not isinstance(entry, dict):
            raise self.wrong(f"{where} is no dict", "a dict with action, addr and size")
        action = self.text(entry, "action")
        if action not in ALLOCATES and action not in RESERVES and action != FAILED:
            return None
        time_us = entry.get("time_us")
        time_ns = 1_000 * time_us if type(time_us) is int and 0 <= time_us < 1 << 53 else None
        address = self.number(entry, "device_free" if action == FAILED else "addr", where, default=0)
        total = self.number(entry, "size", where)
        return action, address, total, time_ns, self.stack(entry.get("frames"), where)

    def stack(self, frames: Any, where: str) -> int:
        """The number of a stack; each list of frames is looked at once."""
        if (known := self.stack_of.get(id(frames))) is not None:
            return known
        if frames is not None and type(frames) is not list:
            raise self.wrong(f"{where} has frames that are no list", "a list")
        texts = [self.frame_text(frame) for frame in frames or ()]
        own = [text for text, is_own in texts if is_own] or [text for text, _ in texts]
        text = " < ".join(own[:_FRAMES]) or NO_STACK
        number = self.stacks.setdefault(text, len(self.stacks))
        if frames is not None:
            self.stack_of[id(frames)] = number
        return number

    def frame_text(self, frame: Any) -> tuple[str, bool]:
        """ "train.py:12 forward", and whether it is outside of torch."""
        if (known := self.frame_of.get(id(frame))) is not None:
            return known
        if not isinstance(frame, dict):
            return "?", False
        file, name, line = self.text(frame, "filename"), self.text(frame, "name"), frame.get("line")
        place = f"{file.replace(chr(92), '/').rsplit('/', 1)[-1]}:{line if type(line) is int else '?'}"
        found = f"{place} {name}"[:_NAME_LENGTH], bool(file) and not any(mark in file for mark in _OF_TORCH)
        self.frame_of[id(frame)] = found
        return found

    def once(self, values: Any, where: str) -> Iterable[Any]:
        """A list that has not been walked before."""
        if type(values) is not list and type(values) is not tuple:
            raise self.wrong(f"{where} is no list", "a list")
        self.mark(values, where)
        return values

    def dict_once(self, value: Any, where: str) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise self.wrong(f"{where} is no dict", "a dict")
        self.mark(value, where)
        return value

    def mark(self, value: Any, where: str) -> None:
        if id(value) in self.seen and len(value):
            raise self.wrong(f"{where} is in the file twice", "each segment and block once")
        self.seen.add(id(value))

    def number(self, values: dict[Any, Any], key: str, where: str, default: int | None = None) -> int:
        value = values.get(key)
        value = default if value is None else value
        if type(value) is not int or not 0 <= value < (1 << 64 if key in ("address", "addr") else 1 << 53):
            raise self.wrong(f"{where}: `{key}` is missing or no size", "a whole number")
        return value

    def text(self, values: dict[Any, Any], key: str) -> str:
        value = values.get(key)
        return value if isinstance(value, str) else ""

    def frame(self, columns: dict[str, list[Any]], schema: dict[str, pl.DataType]) -> pl.DataFrame:
        if sum(columns["size_bytes"]) >= _MOST_BYTES:
            raise self.wrong("its sizes add up to more than any memory holds", f"less than {size(_MOST_BYTES)}")
        return pl.DataFrame(columns, schema=schema)

    def wrong(self, what: str, wanted: str) -> PickleError:
        return PickleError(f"{self.path}: is no snapshot of an allocator: {what}; expected {wanted}.")


def _put(columns: dict[str, list[Any]], row: Iterable[Any]) -> None:
    for column, value in zip(columns.values(), row, strict=True):
        column.append(value)
