"""Trace files as texts, for the tests of the reader: one event, one file, and a reading of it that is easy to check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from weftrace.files.sources import ByteStream
from weftrace.trace.chrome.reader import read_chrome, read_stream
from weftrace.trace.model import Trace

EPOCH_US = 1_740_461_679_470_630  # 16 digits: with three more for nanoseconds, a float64 cannot hold them


def event(name: str = "k", *, ts: Any = 1, dur: Any = 2, cat: str = "kernel", **more: Any) -> dict[str, Any]:
    """A complete event; of a kernel on device 0, stream 7 unless `args` says otherwise."""
    base: dict[str, Any] = {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur}
    if cat == "kernel":
        base["args"] = {"device": 0, "stream": 7, "correlation": 5}
    return base | more


def text_of(*events: Any, **facts: Any) -> str:
    """A trace file: facts first, events last. Each event is a value to encode, or text to put as it is."""
    listed = ",\n".join(e if isinstance(e, str) else encoded(e) for e in events)
    head = "".join(f"{encoded(key)}: {encoded(value)},\n" for key, value in facts.items())
    return f'{{{head}"traceEvents": [\n{listed}\n]}}'


def encoded(value: Any, **options: Any) -> str:
    """JSON, with decimals as numbers of the same digits."""
    return re.sub(r'"<decimal (.+?)>"', r"\1", json.dumps(value, default=lambda d: f"<decimal {d:f}>", **options))


def at(fraction: str) -> Decimal:
    """A time of epoch size in microseconds: EPOCH_US and a fraction."""
    return Decimal(EPOCH_US) + Decimal(fraction)


def read_text(text: str | bytes, *, name: str = "trace.json", chunk: int = 1 << 18, **options: Any) -> Trace:
    """Read a text as `read_chrome` would a file, in chunks of so many bytes."""
    data = text.encode() if isinstance(text, str) else text

    def opened() -> ByteStream:
        return ByteStream(path=name, chunks=(data[at : at + chunk] for at in range(0, len(data), chunk)))

    return read_stream(opened(), opened, **options)


def read_file(folder: Path, data: str | bytes, name: str = "trace.json", **options: Any) -> Trace:
    """Read a text through a file."""
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_chrome(path, **options)


def rows(trace: Trace) -> list[tuple[str, int, int]]:
    """(name, ts_ns, dur_ns) of each event."""
    return trace.events.select("name", "ts_ns", "dur_ns").rows()


def names(trace: Trace) -> list[str]:
    return trace.events.get_column("name").to_list()


def expected_rows(text: str | bytes, *, python_functions: bool = False) -> Iterator[tuple[Any, ...]]:
    """(name, cat, pid, tid, ts_ns, dur_ns, correlation) of a sound file's complete events, by the json module."""
    whole = json.loads(text, strict=False, parse_float=Decimal)
    events = whole if isinstance(whole, list) else whole["traceEvents"]
    base = 0 if isinstance(whole, list) else whole.get("baseTimeNanoseconds", 0)
    for e in events:
        if e.get("ph") != "X" or e["cat"] == "Trace" or (e["cat"] == "python_function" and not python_functions):
            continue
        ts, dur = (round(Decimal(e[key]) * 1000) for key in ("ts", "dur"))
        correlation = e.get("args", {}).get("correlation")
        yield (e["name"], e["cat"], str(e["pid"]).strip(), str(e["tid"]).strip(), ts + base, dur, correlation)


def actual_rows(trace: Trace) -> list[tuple[Any, ...]]:
    """The same columns of a trace."""
    return trace.events.select("name", "cat", "pid", "tid", "ts_ns", "dur_ns", "correlation").rows()
