"""Chrome trace JSON, as Kineto writes it, into a `Trace`: one pass, bounded memory, nothing lost without being counted.

Two speeds share one set of columns. Well-formed text is cut at event boundaries into chunks that msgspec decodes into
typed structs. A chunk that msgspec refuses goes event by event through a lenient decoder, which repairs what can be
repaired, drops and counts what cannot, and finds the next event after damage.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.errors import TraceError
from weft.trace.model import EVENT_SCHEMA, Device, ReadQuality, Trace, Track, is_launch, on_device
from weft.trace.sources import DEFAULT_MAX_BYTES, ByteStream, open_bytes
from weft.units import MIB, US, size

MISSING = -(1 << 62)  # an integer argument that the event does not have; null in the frame

_MAX_OUTSIDE_BYTES = 256 * MIB  # what may stand before or after the events
_MAX_EVENT_BYTES = 64 * MIB
_FLOAT_EXACT_US = 2.0**43  # above it a float64 of microseconds no longer tells nanoseconds apart
_MAX_US = (1 << 63) // US - 1

_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
_ARRAY_END = re.compile(rb"[}\[]\s*\](?=\s*[,}]|\s*\Z)")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:,]', re.DOTALL)

# Categories of old profilers, and their names today.
_CATEGORY = {
    "Kernel": "kernel",
    "Memcpy": "gpu_memcpy",
    "Memset": "gpu_memset",
    "Operator": "cpu_op",
    "Runtime": "cuda_runtime",
    "Driver": "cuda_driver",
    "gpu_memcpy_async": "gpu_memcpy",
}


class _Args(msgspec.Struct, gc=False, frozen=True):
    correlation: int = MISSING
    external_id: int = msgspec.field(name="External id", default=MISSING)
    stream: int | str = MISSING
    device: int = MISSING
    grid: list[int] | str | None = None  # a text on Triton's host events
    block: list[int] | str | None = None
    moved_bytes: int | str = msgspec.field(name="bytes", default=MISSING)
    graph_id: int = msgspec.field(name="graph id", default=MISSING)
    graph_node_id: int = msgspec.field(name="graph node id", default=MISSING)
    sequence: int = msgspec.field(name="Sequence number", default=MISSING)
    forward_thread: int = msgspec.field(name="Fwd thread id", default=MISSING)
    collective: str | None = msgspec.field(name="Collective name", default=None)
    in_elems: int = msgspec.field(name="In msg nelems", default=MISSING)
    out_elems: int = msgspec.field(name="Out msg nelems", default=MISSING)
    dtype: str | None = None
    group: str | None = msgspec.field(name="Process Group Name", default=None)
    group_size: int = msgspec.field(name="Group size", default=MISSING)
    group_ranks: str | None = msgspec.field(name="Process Group Ranks", default=None)
    seq: int = msgspec.field(name="Seq", default=MISSING)
    comms_id: int | str = msgspec.field(name="Comms Id", default=MISSING)
    wait_stream: int = msgspec.field(name="wait_on_stream", default=MISSING)
    wait_correlation: int = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=MISSING)
    # of metadata events
    name: str | None = None
    labels: str | None = None
    sort_index: int = MISSING


_NO_ARGS = _Args()


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: int | float | None = None
    dur: int | float | None = None
    id: int | str | None = None
    args: _Args = _NO_ARGS


class _ExactEvent(_Event, gc=False):
    """The same, with decimals kept: epoch microseconds with a fraction do not fit a float64."""

    ts: int | Decimal | None = None  # type: ignore[assignment]
    dur: int | Decimal | None = None  # type: ignore[assignment]


def read_chrome(
    path: str | os.PathLike[str],
    *,
    rank: int | None = None,
    python_functions: bool = False,
    max_bytes: int = DEFAULT_MAX_BYTES,
    on_progress: Callable[[int], None] | None = None,
) -> Trace:
    """Read one rank's Chrome/Kineto JSON, plain or compressed, local or remote.

    rank: overrides what the file says. python_functions: keep `with_stack`'s Python frames, which are most of such a
    file and serve no analysis of ours. max_bytes: limit on the decompressed size. on_progress: gets stored bytes read.

    Raises TraceError when the file is not a trace or nothing of it can be kept, TraceTooLarge past `max_bytes`.
    """
    stream = open_bytes(path, max_bytes=max_bytes, on_progress=on_progress)
    table = _Table(python_functions=python_functions)
    outside = _read_events(stream, table)
    trace = _finish(table, outside, stream, rank)
    return _with_flows(trace, outside, max_bytes) if table.skipped["flow"] and _has_orphans(trace.events) else trace


# --- cutting the text into events ---------------------------------------------------------------------------------


def _read_events(stream: ByteStream, table: _Table) -> dict[str, Any]:
    """Feed every event to `table`; the top-level facts of the file (`deviceProperties`, `distributedInfo` ...)."""
    buffer, head = _find_events(stream)
    chunks = iter(stream.chunks)
    ended = False  # the array was closed; what remains is the file's tail
    while not ended:
        chunk = next(chunks, None)
        if chunk is not None:
            buffer += chunk
            cut = _decode_prefix(buffer, table)
            if cut is None and len(buffer) < 2 * MIB and not _BOUNDARY.search(buffer):
                continue  # an event longer than a chunk: read on
            if cut is None:
                cut, ended = _decode_leniently(buffer, table, last=False)
        else:
            cut_end = _decode_last(buffer, table)
            cut, ended = cut_end if cut_end is not None else _decode_leniently(buffer, table, last=True)
            if not ended:
                stream.truncated = stream.truncated or "the list of events is not closed"
                return head
        buffer = buffer[cut:]
    tail = [buffer]
    for chunk in chunks:
        tail.append(chunk)
        if sum(map(len, tail)) > _MAX_OUTSIDE_BYTES:
            table.notes.append(f"what follows the events exceeds {size(_MAX_OUTSIDE_BYTES)} and was not read")
            return head
    return head | _tail_facts(b"".join(tail), stream)


def _find_events(stream: ByteStream) -> tuple[bytes, dict[str, Any]]:
    """The bytes from the first event on, and the facts that stand before it."""
    buffer = b""
    scan_at = 1 << 12
    for chunk in stream.chunks:
        buffer = (buffer + chunk).removeprefix(b"\xef\xbb\xbf")
        start = buffer.lstrip()
        if start.startswith(b"["):
            return start[1:], {}
        if start and not start.startswith(b"{"):
            raise TraceError(
                f"{stream.path}: is not a trace: it starts with {_shown(start)}, where JSON would start with {{ or [. "
                "Give the JSON that torch.profiler's export_chrome_trace wrote."
            )
        if len(buffer) >= scan_at and (found := _events_key(buffer)) is not None:
            return buffer[found[1] :], _facts(buffer[: found[0]], close=True)
        if len(buffer) >= scan_at:
            scan_at = 2 * len(buffer)
        if len(buffer) > _MAX_OUTSIDE_BYTES:
            raise TraceError(f"{stream.path}: no traceEvents in the first {size(len(buffer))}: not a trace.")
    if (found := _events_key(buffer)) is not None:
        return buffer[found[1] :], _facts(buffer[: found[0]], close=True)
    cut = f" ({stream.truncated})" if stream.truncated else ""
    if not buffer.strip():
        raise TraceError(f"{stream.path}: is empty{cut}. Was the profiler stopped before it could write?")
    keys = list(_facts(buffer, close=False))
    if keys:
        shown = ", ".join(repr(key) for key in keys[:6])
        raise TraceError(f"{stream.path}: is JSON but not a trace: no traceEvents; it has {shown}.")
    raise TraceError(f"{stream.path}: is not a trace: no traceEvents, and its JSON is broken or cut short{cut}.")


def _events_key(buffer: bytes) -> tuple[int, int] | None:
    """Where the key `traceEvents` starts at the top level, and where its list's content starts."""
    depth = 0
    before: list[bytes] = []
    key_start = -1
    for match in _TOKEN.finditer(buffer):
        token = match[0]
        if token in (b"{", b"["):
            if token == b"[" and depth == 1 and before == [b'"traceEvents"', b":"]:
                return key_start, match.end()
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        if depth == 1:
            if token == b'"traceEvents"':
                key_start = match.start()
            before = [*before[-1:], token]
    return None


def _facts(text: bytes, *, close: bool) -> dict[str, Any]:
    """Top-level values of a JSON object; of one that stops before a key when `close`."""
    decoded = text.decode("utf-8", "replace").strip()
    if close:
        decoded = decoded.rstrip().removesuffix(",") + "}"
    try:
        facts = json.loads(decoded, strict=False)
    except (ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


def _tail_facts(text: bytes, stream: ByteStream) -> dict[str, Any]:
    """Facts that stand behind the events: the text after the list's closing bracket."""
    rest = text.strip().removeprefix(b",").strip()
    if rest in (b"", b"}"):
        return {}
    if not rest.endswith(b"}"):
        stream.truncated = stream.truncated or "what follows the list of events is cut short"
    return _facts(b"{" + rest, close=False)


def _decode_prefix(buffer: bytes, table: _Table) -> int | None:
    """Decode up to the last event boundary; the offset of what remains, or None when msgspec refuses.

    A cut between two nested objects leaves the text before it unbalanced, so a decode that succeeds proves the cut.
    """
    for window in (1 << 12, 1 << 16, len(buffer)):
        cuts = [match.span() for match in _BOUNDARY.finditer(buffer, max(0, len(buffer) - window))]
        if cuts:
            break
    view = memoryview(buffer)
    for start, end in reversed(cuts[-6:]):
        if table.add_text(b"".join((b"[", view[: start + 1], b"]"))):
            return end
    return None


def _decode_last(buffer: bytes, table: _Table) -> tuple[int, bool] | None:
    """Decode up to the list's closing bracket."""
    ends = [match.end() for match in _ARRAY_END.finditer(b"[" + buffer)]
    for end in reversed(ends[-6:]):
        if table.add_text(b"[" + buffer[: end - 1]):
            return end - 1, True
    if buffer.lstrip().startswith(b"]"):
        return buffer.index(b"]") + 1, True
    return None


_LENIENT = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[\s,]*")
_TEXT_BOUNDARY = re.compile(r"\}\s*,\s*(?=\{)")


def _decode_leniently(buffer: bytes, table: _Table, *, last: bool) -> tuple[int, bool]:
    """Event by event; the number of bytes consumed, and whether the list's closing bracket was met."""
    text = buffer.decode("utf-8", "surrogateescape")
    events: list[_Event] = []
    at = 0
    ended = False
    while True:
        at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
        if at >= len(text):
            break
        if text[at] == "]":
            at, ended = at + 1, True
            break
        try:
            value, end = _LENIENT.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            resume = _next_event(text, at)
            if resume is None and not last and len(text) - at < _MAX_EVENT_BYTES:
                break  # probably an event that the next chunk completes
            if resume is None and last:
                resume = _closing_bracket(text, at)
                if resume is None:
                    table.drop("cut short at the end of the file", text[at:])
                    at = len(text)
                    break
            table.drop(f"not JSON ({_reason(error)})", text[at:resume])
            at = len(text) if resume is None else resume
            continue
        events.extend(table.lenient(value, text[at:end]))
        at = end
    table.add(events)
    return len(text[:at].encode("utf-8", "surrogateescape")), ended


def _next_event(text: str, at: int) -> int | None:
    """Where the next object that looks like an event starts, after damage at `at`."""
    for tried, match in enumerate(_TEXT_BOUNDARY.finditer(text, at)):
        if tried == 64:
            return match.end()  # skip this stretch; the search goes on from here
        try:
            value, _ = _LENIENT.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and "ph" in value:
            return match.end()
    return None


def _closing_bracket(text: str, at: int) -> int | None:
    """The bracket that closes the list, when the damaged event is the last one and the rest of the file is sound."""
    for match in re.finditer(r"\}\s*(?=\])", text[at:]):
        rest = text[at + match.end() + 1 :].strip()
        if rest in ("", "}") or _facts(b"{" + rest.removeprefix(",").encode("utf-8", "replace"), close=False):
            return at + match.end()
    return None


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply"


def _shown(text: bytes | str) -> str:
    """A short, printable beginning of untrusted text."""
    start = text[:40] if isinstance(text, str) else text[:40].decode("utf-8", "replace")
    return ascii(start) + ("…" if len(text) > 40 else "")


# --- events into columns ------------------------------------------------------------------------------------------


class _Codes(dict[Any, int]):
    """Values numbered in the order in which they appear."""

    def __missing__(self, key: Any) -> int:
        code = self[key] = len(self)
        return code


_PLAIN = msgspec.json.Decoder(list[_Event])
_EXACT = msgspec.json.Decoder(list[_ExactEvent])
_EVENT_FIELDS = frozenset(_Event.__struct_fields__)
_ARG_FIELDS = {field.encode_name: field for field in msgspec.structs.fields(_Args)}
_RICH = (
    "device", "graph_id", "graph_node_id", "in_elems", "out_elems", "group_size",
    "wait_stream", "wait_correlation",
)  # fmt: skip
_RICH_TEXT = ("collective", "dtype", "group", "group_ranks")
_PLAIN_ARGS = ("correlation", "external_id", "sequence", "forward_thread")
_METADATA = frozenset(("process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index"))
_SPECIAL = frozenset(("python_function", "Trace"))
_FLOW = frozenset("stf")
_KINDS_SKIPPED = {"i": "instant", "I": "instant", "C": "counter", "n": "async", "b": "async", "e": "async",
                  "S": "async", "T": "async", "F": "async", "p": "async", "P": "sample", "N": "object",
                  "O": "object", "D": "object", "v": "memory dump", "V": "memory dump", "R": "mark",
                  "c": "clock sync", "(": "context", ")": "context"}  # fmt: skip

_Ints = NDArray[np.int64]
_Times = tuple[_Ints, NDArray[np.bool_]]  # nanoseconds, and which of them are usable


class _Table:
    """Columns under construction: a list of NumPy chunks for each, and codes for the texts."""

    def __init__(self, *, python_functions: bool = False, flows_only: bool = False) -> None:
        self.python_functions = python_functions
        self.flows_only = flows_only
        self.dropped: Counter[str] = Counter()
        self.repaired: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.notes: list[str] = []
        self.metadata: list[_Event] = []
        self.windows: list[tuple[int, int]] = []
        self.window_end: int | None = None
        self.names, self.cats, self.threads = _Codes(), _Codes(), _Codes()
        self.texts = {column: _Codes() for column in _RICH_TEXT}
        self.columns: dict[str, list[NDArray[Any]]] = {}
        self.flows: list[tuple[int, int, str, str, bool]] = []  # ts_ns, id, pid, tid, whether it is an arrow's end
        self.num_rows = 0
        self._exact = False
        self._open: dict[tuple[Any, Any], list[_Event]] = {}

    def add_text(self, text: bytes) -> bool:
        """Decode a JSON list of events and keep it; False, with nothing kept, when the text is not that."""
        try:
            events: list[Any] = (_EXACT if self._exact else _PLAIN).decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        try:
            self.add(events)
        except _TooFine:
            self._exact = True
            return self.add_text(text)
        return True

    def drop(self, reason: str, text: str, count: int = 1) -> None:
        self.dropped[reason] += count
        self.examples.setdefault(reason, _shown(text))

    def lenient(self, value: Any, text: str) -> Iterator[_Event]:
        """An event from whatever JSON value stands in the list, with what is unusable in it left out and counted."""
        if not isinstance(value, dict):
            self.drop("not an object", text)
            return
        if self.add_text(f"[{text}]".encode("utf-8", "surrogateescape")):
            return  # sound by itself: only a neighbour in its chunk was not
        fields, bad = {}, []
        for key, item in value.items():
            if key in _EVENT_FIELDS and key != "args":
                try:
                    fields[key] = _lenient_field(key, item)
                except (ValueError, TypeError, ArithmeticError):
                    bad.append(key)
        args, bad_args = _lenient_args(value.get("args"))
        bad += bad_args
        reason = "characters or numbers outside JSON replaced"
        if bad:
            reason = f"unusable value of {', '.join(sorted(bad))} left out"
        self.repaired[reason] += 1
        self.examples.setdefault(reason, _shown(text))
        yield _Event(**fields, args=args)

    def add(self, events: Sequence[_Event]) -> None:
        """Sort events by kind and append the complete ones to the columns."""
        kept: list[_Event] = []
        others: list[_Event] = []
        for event in events:
            if event.ph == "X" and event.cat not in _SPECIAL:
                kept.append(event)
            else:
                others.append(event)
        if self.flows_only:
            self._add_flows([event for event in others if event.ph in _FLOW])
            return
        times = _times_ns([event.ts for event in kept])
        lengths = _times_ns([event.dur for event in kept])
        num_flows = 0
        ended: list[_Event] = []
        for event in others:
            if event.ph in _FLOW:
                num_flows += 1
            else:
                self._add_other(event, ended)
        if num_flows:
            self.skipped["flow"] += num_flows
        if kept:
            self._add_complete(kept, times, lengths)
        if ended:
            self._add_complete(ended, _times_ns([e.ts for e in ended]), _times_ns([e.dur for e in ended]))

    def _add_other(self, event: _Event, kept: list[_Event]) -> None:
        """Everything that is neither complete nor a flow: metadata, begin/end pairs, marks, what has no meaning."""
        ph = event.ph
        if ph == "X" and event.cat == "Trace":
            start, length = _exact_ns(event.ts), _exact_ns(event.dur)
            if start is not None and length is not None and length >= 0:
                self.windows.append((start, start + length))
        elif ph == "X":
            if self.python_functions:
                kept.append(event)
            else:
                self.skipped["python_function"] += 1
        elif ph == "M":
            if event.name in _METADATA:
                self.metadata.append(event)
            else:
                self.skipped["metadata"] += 1
        elif ph == "B":
            self._open.setdefault((event.pid, event.tid), []).append(event)
        elif ph == "E":
            stack = self._open.get((event.pid, event.tid))
            if not stack or stack[-1].ts is None or event.ts is None:
                self.drop("end without begin", event.name)
                return
            begin = stack.pop()
            begin.ph, begin.dur = "X", event.ts - begin.ts  # type: ignore[operator]
            if event.args is not _NO_ARGS and begin.args is _NO_ARGS:
                begin.args = event.args
            kept.append(begin)
        elif ph in _KINDS_SKIPPED:
            if event.name == "Record Window End" and (end := _exact_ns(event.ts)) is not None:
                self.window_end = end
            self.skipped[_KINDS_SKIPPED[ph]] += 1
        elif ph == "":
            self.drop("no ph: not an event", event.name)
        else:
            self.drop("unknown ph", f"{ph} {event.name}")

    def _add_flows(self, flows: list[_Event]) -> None:
        for flow in flows:
            ts = _exact_ns(flow.ts)
            if ts is not None and type(flow.id) is int and -MISSING > flow.id > MISSING and flow.cat != "fwdbwd":
                self.flows.append((ts, flow.id, _text(flow.pid), _text(flow.tid), flow.ph == "f"))

    def _add_complete(self, events: list[_Event], times: _Times, lengths: _Times) -> None:
        events = self._with_times(events, times, lengths)
        count = len(events)
        columns = self.columns
        names, cats, threads = self.names, self.cats, self.threads

        def put(column: str, values: NDArray[Any]) -> None:
            columns.setdefault(column, []).append(values)

        put("name", np.fromiter([names[e.name] for e in events], np.uint32, count))
        put("cat", np.fromiter([cats[e.cat] for e in events], np.uint16, count))
        put("thread", np.fromiter([threads[(e.pid, e.tid)] for e in events], np.uint32, count))
        args = [e.args for e in events]
        for column in _PLAIN_ARGS:
            put(column, self._ints(list(map(attrgetter(column), args))))
        rich = [i for i, a in enumerate(args) if a.stream is not MISSING or a.collective is not None]
        put("rich_row", np.array(rich, np.int64) + self.num_rows)
        self.num_rows += count
        if not rich:
            return
        args = [args[i] for i in rich]
        put("moved_bytes", self._ints([b if type(b) is int else _number_in(str(b)) for b in (a.moved_bytes for a in args)]))
        for column in _RICH:
            put(column, self._ints(list(map(attrgetter(column), args))))
        for column, codes in self.texts.items():
            put(column, np.fromiter([codes[v] for v in map(attrgetter(column), args)], np.uint32, len(args)))
        put("stream", self._ints([s if type(s) is int else _number_in(s) for s in (a.stream for a in args)]))
        put("num_blocks", self._ints([_product(a.grid) for a in args]))
        put("num_threads", self._ints([_product(a.block) for a in args]))
        put("comm_seq", self._ints([_sequence(a) for a in args]))

    def _with_times(self, events: list[_Event], times: _Times, lengths: _Times) -> list[_Event]:
        """Put ts_ns and dur_ns; return the events that have them. The others are dropped and counted."""
        ts, usable = times
        dur, has_dur = lengths
        if not (usable.all() and has_dur.all()) or (dur < 0).any():
            for event, has_time, length, timed in zip(events, usable, dur, has_dur, strict=True):
                if not has_time:
                    self.drop("no usable time", f"{event.name} ts={event.ts}")
                elif not timed and event.dur is not None:
                    self.drop("no usable duration", f"{event.name} dur={event.dur}")
                elif timed and length < 0:
                    self.drop("negative duration", f"{event.name} dur={event.dur}")
                elif not timed:
                    self.repaired["no duration: taken as 0"] += 1
                    self.examples.setdefault("no duration: taken as 0", _shown(event.name))
            absent = np.fromiter((event.dur is None for event in events), np.bool_, len(events))
            keep = usable & ((has_dur & (dur >= 0)) | absent)
            events = [event for event, k in zip(events, keep, strict=True) if k]
            ts, dur = ts[keep], np.where(absent[keep], 0, dur[keep])
        self.columns.setdefault("ts_ns", []).append(ts)
        self.columns.setdefault("dur_ns", []).append(dur)
        return events

    def _ints(self, values: list[int]) -> _Ints:
        """A column of int64; what does not fit (an unsigned address in an id's place) becomes missing, and is counted."""
        try:
            return np.array(values, np.int64)
        except OverflowError:
            fits = [v if -MISSING > v > MISSING else MISSING for v in values]
            self.repaired["integer beyond 64 bits left out"] += sum(a is not b for a, b in zip(fits, values, strict=True))
            return np.array(fits, np.int64)

    def close(self) -> None:
        for stack in self._open.values():
            for event in stack:
                self.drop("begin without end", event.name)


class _TooFine(Exception):
    """A time is a fraction too large for float64 to hold its nanoseconds: decode the text again, exactly."""


def _times_ns(values: list[Any]) -> _Times:
    """Microseconds to the nearest integer nanosecond, exactly; and which of them are usable."""
    try:
        array = np.array(values)
    except (OverflowError, ValueError):  # pragma: no cover - NumPy's choice of dtype differs by version
        array = np.array(values, object)
    if array.dtype == np.int64:
        usable = np.abs(array) <= _MAX_US
        return (array if usable.all() else np.where(usable, array, 0)) * US, usable
    if array.dtype == np.float64 and len(array):
        if not np.abs(array).max() < _FLOAT_EXACT_US:  # also where one is NaN
            if any(type(value) is float and _FLOAT_EXACT_US <= abs(value) <= _MAX_US for value in values):
                raise _TooFine
            return _times_one_by_one(values)
        whole = np.floor(array)
        return whole.astype(np.int64) * US + np.rint((array - whole) * US).astype(np.int64), np.ones(len(array), np.bool_)
    return _times_one_by_one(values)


def _times_one_by_one(values: list[Any]) -> _Times:
    exact = [_exact_ns(value) for value in values]
    usable = np.array([value is not None for value in exact], np.bool_)
    return np.array([0 if value is None else value for value in exact], np.int64), usable


def _exact_ns(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal) or not math.isfinite(value):
        return None
    if abs(value) > _MAX_US:
        return None
    return value * US if isinstance(value, int) else round(Decimal(value) * US)


def _number_in(text: str) -> int:
    """The number in "stream 7 " or "0x7"; missing where there is none."""
    match = re.search(r"0x[0-9a-fA-F]{1,12}|\d{1,15}", text)
    return int(match[0], 0 if match[0].startswith("0x") else 10) if match else MISSING


def _product(dims: list[int] | str | None) -> int:
    return math.prod(dims) if dims and isinstance(dims, list) else MISSING


def _text(process_or_thread: int | str) -> str:
    """A pid or tid as one spelling: numbers and texts alike, without the blanks that Kineto puts after a stream's name."""
    return str(process_or_thread).strip()


def _sequence(args: _Args) -> int:
    if args.seq is not MISSING:
        return args.seq
    return args.comms_id if isinstance(args.comms_id, int) else _number_in(args.comms_id)


def _lenient_field(key: str, value: Any) -> Any:
    """A field as `_Event` wants it. Raises ValueError where the value cannot be read so."""
    if key in ("ph", "cat", "name"):
        return _clean(value) if isinstance(value, str) else _refuse(value) if isinstance(value, dict | list) else str(value)
    if key in ("ts", "dur"):
        if isinstance(value, str):
            return Decimal(value.strip())
        return value if value is None or isinstance(value, int | float) else _refuse(value)
    if isinstance(value, str):
        return _clean(value)
    if value is None:
        return ""
    return value if isinstance(value, int) else str(value)


def _lenient_args(value: Any) -> tuple[_Args, list[str]]:
    if value is None:
        return _NO_ARGS, []
    if not isinstance(value, dict):
        return _NO_ARGS, ["args"]
    fields: dict[str, Any] = {}
    bad = []
    for key, item in value.items():
        if (field := _ARG_FIELDS.get(key)) is None:
            continue
        try:
            fields[field.name] = msgspec.convert(_clean(item) if isinstance(item, str) else item, field.type, strict=False)
        except (msgspec.ValidationError, ValueError, OverflowError):
            bad.append(key)
    return _Args(**fields), bad


def _refuse(value: Any) -> Any:
    raise ValueError(f"unusable: {value!r}")


def _clean(text: str) -> str:
    """Text that UTF-8 can hold: bytes that were not UTF-8 become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace") if not text.isascii() else text


# --- columns into a Trace -----------------------------------------------------------------------------------------


def _finish(table: _Table, facts: dict[str, Any], stream: ByteStream, rank: int | None) -> Trace:
    table.close()
    base_ns = _base_ns(facts)
    if table.num_rows == 0 and not table.windows:
        lost = f" {sum(table.dropped.values()):,} were dropped ({_listed(table.dropped)})." if table.dropped else ""
        cut = f" The file is damaged: {stream.truncated}." if stream.truncated else ""
        raise TraceError(f"{stream.path}: holds no usable event.{lost}{cut}")
    events = _frame(table, base_ns)
    dist = facts.get("distributedInfo")
    dist = dist if isinstance(dist, dict) else {}
    truncated = stream.truncated
    return Trace(
        events=events,
        path=stream.path,
        rank=rank if rank is not None else _int(dist.get("rank"), rank_in_name(stream.path)),
        world_size=_int(dist.get("world_size"), None),
        devices=tuple(_devices(facts.get("deviceProperties"))),
        tracks=tuple(_tracks(table.metadata)),
        window_ns=_window(table, base_ns),
        backend=dist["backend"] if isinstance(dist.get("backend"), str) else None,
        simulated=facts.get("weft_simulated") is True,
        info={key: str(value) for key, value in facts.items() if isinstance(value, str | int | float)},
        quality=ReadQuality(
            dropped=dict(table.dropped),
            repaired=dict(table.repaired),
            skipped=dict(table.skipped),
            truncated=truncated,
            examples=table.examples,
        ),
    )


def _base_ns(facts: dict[str, Any]) -> int:
    """What the file says must be added to every time, so that times of different ranks share one origin."""
    base = facts.get("baseTimeNanoseconds", 0)
    return base if isinstance(base, int) and 0 <= base < 1 << 62 else 0


def _frame(table: _Table, base_ns: int) -> pl.DataFrame:
    """The events frame. Each list of chunks is released as soon as its column stands."""
    columns = table.columns
    height = table.num_rows

    def take(column: str) -> NDArray[Any]:
        chunks = columns.pop(column, [])
        return np.concatenate(chunks) if chunks else np.empty(0, np.int64)

    def text(codes: NDArray[Any], values: list[str | None]) -> pl.Series:
        return pl.Series(values, dtype=pl.String).cast(pl.Categorical()).gather(codes)

    def ints(values: _Ints, dtype: pl.DataType) -> pl.Series | None:
        absent = values == MISSING
        if absent.all():
            return None
        series = pl.Series(values)
        if absent.any():
            series = series.set(pl.Series(absent), None)
        return series.cast(dtype, strict=False)

    found: dict[str, pl.Series | None] = {}
    found["name"] = text(take("name"), list(table.names))
    found["cat"] = text(take("cat"), [_CATEGORY.get(cat, cat) for cat in table.cats])
    thread = take("thread")
    found["pid"] = text(thread, [_text(pid) for pid, _ in table.threads])
    found["tid"] = text(thread, [_text(tid) for _, tid in table.threads])
    ts = take("ts_ns")
    found["ts_ns"] = pl.Series(ts + base_ns if base_ns else ts)
    found["dur_ns"] = pl.Series(take("dur_ns"))
    for column in _PLAIN_ARGS:
        found[column] = ints(take(column), EVENT_SCHEMA[column])
    rows = take("rich_row")

    def spread(values: pl.Series | None) -> pl.Series | None:
        """From the rows that have rich arguments to all rows."""
        if values is None or len(rows) == height:
            return values
        index = np.full(height, len(values), np.uint32)
        index[rows] = np.arange(len(values), dtype=np.uint32)
        padded = pl.concat([values, pl.Series([None], dtype=values.dtype)])
        return padded.gather(index)

    for column in (*_RICH, "moved_bytes", "stream", "num_blocks", "num_threads", "comm_seq"):
        found[column] = spread(ints(take(column), EVENT_SCHEMA[column])) if len(rows) else None
    for column, codes in table.texts.items():
        values = take(column)
        named = any(key is not None for key in codes)
        found[column] = spread(text(values, list(codes))) if named else None
    frame = pl.DataFrame({name: series for name, series in found.items() if series is not None})
    return _whole(frame)


def _whole(frame: pl.DataFrame) -> pl.DataFrame:
    """All columns of the schema; device and stream kept where the category gives them meaning, ids cleaned."""
    frame = frame.select(
        pl.col(name) if name in frame.columns else pl.lit(None, dtype=dtype).alias(name)
        for name, dtype in EVENT_SCHEMA.items()
    )
    with_stream = on_device() | pl.col("cat").is_in(("cuda_sync", "gpu_user_annotation"))
    number = r"(\d{1,15})"
    from_tid = pl.col("tid").cast(pl.String).str.extract(number, 1).cast(pl.Int64)
    from_pid = pl.col("pid").cast(pl.String).str.extract(r"^(?:\D*)(\d{1,6})$", 1).cast(pl.Int32)
    device = frame.filter(on_device())
    fixes = []
    if device.get_column("stream").null_count():
        fixes.append(pl.when(on_device() & pl.col("stream").is_null()).then(from_tid).otherwise(pl.col("stream")).alias("stream"))
    if device.get_column("device").null_count():
        fixes.append(pl.when(on_device() & pl.col("device").is_null()).then(from_pid).otherwise(pl.col("device")).alias("device"))
    if fixes:
        frame = frame.with_columns(fixes)
    cleaned = [
        pl.when(with_stream).then(pl.col(column)).alias(column)
        for column in ("stream", "device")
        if frame.get_column(column).null_count() < frame.height
    ]
    if frame.get_column("graph_id").null_count() < frame.height:
        cleaned += [
            pl.when(pl.col("graph_id") > 0).then(pl.col(column)).alias(column) for column in ("graph_id", "graph_node_id")
        ]
    return frame.with_columns(cleaned) if cleaned else frame


def _has_orphans(events: pl.DataFrame) -> bool:
    """Whether correlation fails to join some device event to a launch (ROCm 6.1 wrote 0 on every RCCL kernel)."""
    return not events.filter(on_device(), pl.col("correlation").fill_null(0) <= 0).is_empty()


def _with_flows(trace: Trace, facts: dict[str, Any], max_bytes: int) -> Trace:
    """Read the file once more for its flow arrows, and note their ids on the device events that need one to be joined
    to a launch, and on those launches. Most files need none, and are spared the third of their events that arrows are."""
    table = _Table(flows_only=True)
    _read_events(open_bytes(trace.path, max_bytes=max_bytes), table)
    key = {"ts_ns": pl.Int64, "flow_id": pl.Int64, "pid": pl.Categorical, "tid": pl.Categorical, "end": pl.Boolean}
    flows = pl.DataFrame(table.flows, schema=key, orient="row").with_columns(pl.col("ts_ns") + _base_ns(facts))
    rows = trace.events.select("ts_ns", "pid", "tid", "cat", "correlation").with_row_index("row")
    at = ("ts_ns", "pid", "tid")
    orphans = rows.filter(on_device(), pl.col("correlation").fill_null(0) <= 0)
    ends = orphans.join(flows.filter("end"), on=at).select("row", "flow_id")
    starts = rows.filter(is_launch()).join(flows.filter(~pl.col("end")), on=at).select("row", "flow_id")
    starts = starts.join(ends.select("flow_id").unique(), on="flow_id", how="semi")
    found = pl.concat([ends, starts]).unique("row", keep="first")
    events = (
        trace.events.with_row_index("row")
        .join(found, on="row", how="left", maintain_order="left", suffix="_found")
        .with_columns(pl.col("flow_id_found").alias("flow_id"))
        .select(EVENT_SCHEMA)
    )
    return replace(trace, events=events)


def _listed(counts: Counter[str]) -> str:
    return "; ".join(f"{reason}: {count:,}" for reason, count in counts.most_common(3))


def _int(value: Any, otherwise: int | None) -> int | None:
    """A non-negative integer that may be spelled as text."""
    if isinstance(value, str) and value.strip().isdigit() and len(value) < 10:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31 else otherwise


def rank_in_name(path: str) -> int | None:
    """The rank that a file's name tells: rank0, rank-0, rank_3, worker7, `_0_` or `.12.` between separators; else None."""
    name = re.split(r"[/\\]", path)[-1]
    for pattern in (r"rank[-_.=]?(\d{1,6})(?!\d)", r"worker[-_.=]?(\d{1,6})(?!\d)", r"(?:^|[-_])(\d{1,6})(?=[-_.])"):
        if match := re.search(pattern, name, re.IGNORECASE):
            return int(match[1])
    return None


def _window(table: _Table, base_ns: int) -> tuple[int, int] | None:
    if not table.windows:
        return None
    start = min(start for start, _ in table.windows)
    end = max(end for _, end in table.windows)
    if table.window_end is not None:
        end = max(end, table.window_end)
    return start + base_ns, end + base_ns


def _devices(properties: Any) -> Iterator[Device]:
    for item in properties if isinstance(properties, list) else []:
        if isinstance(item, dict) and (number := _int(item.get("id"), None)) is not None:
            name = item.get("name")
            yield Device(
                id=number,
                name=_clean(name) if isinstance(name, str) else "",
                num_sms=_int(item.get("numSms"), None),
                memory_bytes=m if isinstance(m := item.get("totalGlobalMem"), int) and 0 <= m < 1 << 62 else None,
            )


def _tracks(metadata: Sequence[_Event]) -> Iterator[Track]:
    """Processes and threads in order of appearance, with the names, labels and order that metadata events give."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for event in metadata:
        kind, _, field = event.name.partition("_")
        tid = _text(event.tid) if kind == "thread" else None
        facts = found.setdefault((_text(event.pid), tid), {})
        if field == "sort_index":
            if event.args.sort_index is not MISSING:
                facts["sort_index"] = event.args.sort_index
        elif (value := getattr(event.args, "labels" if field == "labels" else "name")) is not None:
            facts[field] = value
    for (pid, tid), facts in found.items():
        yield Track(pid=pid, tid=tid, **facts)
