"""Mutated trace files: nothing but a TraceError escapes, undamaged events survive, and what is lost is counted.

Mutations are drawn from a seed for each case, so that a failure is repeated by its number: `_case(seed)`.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import polars as pl
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.trace.chrome_files import (
    EPOCH_US,
    actual_rows,
    at,
    encoded,
    event,
    expected_rows,
    read_text,
)
from tests.trace.strategies import traces
from weft.errors import TraceError
from weft.trace.chrome_reader import read_stream
from weft.trace.chrome_writer import chrome_text
from weft.trace.model import EVENT_SCHEMA, Trace
from weft.trace.sources import ByteStream

NUM_TEXTS = 12_000  # files of which one event, or what stands around the events, is mutated
NUM_ANYWHERE = 4_000  # files mutated in several places at once
NUM_PACKED = 3_000  # compressed files

HOSTILE = (
    "", "{", "}", "[", "]", '"', ",", ":", "\\", "\0", "\n", "null", "NaN", "-Infinity", "1e999", "-", "0x", "true",
    "{}", "[]", "{}{}", "},{", "}],", "]}", "],", '"ph"', '"ph":', '{"ph":', '{"ph":"X"}', '{"ph": "X", "ts": 1, "dur": 1}',
    '{"ph":"M","name":"thread_name","args":{"name":[]}}', '{"ph":"E"}', '{"ph":"B","ts":"1"},', '"traceEvents":[',
    '{"traceEvents":[', '], "x": [', '{"a":[', '{"a":{"ph":', '"\\ud800"', "\ufeff", "\u2028", "é", "9" * 400, "9" * 5000,
    "-9223372036854775808", "18446744073709551616", "[" * 1100, "]" * 50, '{"a":' * 1100, '{"a":[' * 30, '"' * 3, "\xff",
    "</script>", '"baseTimeNanoseconds": 9e99,', '"distributedInfo": "[[["', "/*", "//", "'", "\u0663", "1_000", "+1", ".5",
)  # fmt: skip


def _seeds() -> list[list[str]]:
    """Files as pieces: what stands before the events, the events with what parts them, what stands behind."""
    metadata = {"ph": "M", "name": "thread_name", "pid": 0, "tid": "stream 7 ", "ts": 0, "args": {"name": "stream 7 "}}
    flow = {"ph": "f", "id": 5, "pid": 0, "tid": "stream 7 ", "ts": 30, "cat": "ac2g", "name": "ac2g", "bp": "e"}
    args = {"device": 0, "stream": 7, "correlation": 5, "grid": [112, 1, 1], "block": [128, 1, 1], "External id": 3}
    kineto = [
        metadata,
        event("event 1", cat="cpu_op", pid=9, tid=9, ts=EPOCH_US, dur=50, args={"External id": 3, "Dims": [[8, 4], []]}),
        event("event 2", cat="cuda_runtime", pid=9, tid=9, ts=EPOCH_US + 1, dur=5, args={"correlation": 5, "cbid": 211}),
        event("event 3", pid=0, tid="stream 7 ", ts=EPOCH_US + 9, dur=20, args=args),
        {**flow, "ph": "s", "pid": 9, "tid": 9, "ts": EPOCH_US + 1},
        {**flow, "ts": EPOCH_US + 9},
        event("event 6", cat="user_annotation", pid=9, tid=9, ts=EPOCH_US, dur=60),
        {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": EPOCH_US + 99},
    ]
    head = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "numSms": 132}], "distributedInfo": {"rank": 3}}
    nccl = {
        "Collective name": "allreduce", "In msg nelems": 64, "dtype": "BFloat16", "Group size": 8, "Seq": 4,
        "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "stream": 20, "device": 0,
    }  # fmt: skip
    fine = [
        event("event 0", ts=at("0.001"), dur=Decimal("2.125"), args={"stream": 7}),
        event("event 1", ts=at("0.501"), dur=Decimal("2.5"), args=nccl),
        event("event 2", ts=at("7"), dur=0, cat="gpu_memcpy", args={"stream": 7, "bytes": 4096}),
        event("event 3", ts=at("9.75"), dur=1, cat="python_function"),
    ]
    orphans = [
        event("event 0", cat="cuda_runtime", pid=9, tid=9, ts=Decimal("1.5"), dur=5, args={"correlation": 77}),
        event("event 1", pid=2, tid=7, ts=Decimal("9.25"), dur=5, args={"correlation": 0, "stream": 7, "device": 2}),
        {**flow, "ph": "s", "pid": 9, "tid": 9, "ts": Decimal("1.5")},
        {**flow, "pid": 2, "tid": 7, "ts": Decimal("9.25")},
        event("event 4", pid=2, tid=7, ts=20, dur=5, args={"correlation": 0, "stream": "7", "nested": [{"a": [{}]}, {}]}),
    ]
    return [
        _pieces(encoded(head)[:-1] + ', "traceEvents": [\n', kineto, ',\n', '\n], "traceName": "x", "list": [1, {}]}\n'),
        _pieces('{"traceEvents":[', kineto[1:4], ",", ']}'),
        _pieces("[", fine, ", ", "]"),
        _pieces('{"baseTimeNanoseconds": 1751410836000000000, "traceEvents": [', orphans, ",\r\n  ", "]}"),
    ]  # fmt: skip


def _pieces(head: str, events: list[dict[str, Any]], comma: str, tail: str) -> list[str]:
    parts = [piece for e in events for piece in (comma, encoded(e))][1:]
    return [head, *parts, tail]


SEEDS = _seeds()


def mutated(text: str, chance: random.Random) -> str:
    """A text with one change: bytes flipped, deleted, doubled, zeroed or swapped, or something hostile put in."""
    start = chance.randrange(len(text) + 1)
    end = min(len(text), start + chance.choice((1, 1, 2, 5, 30)))
    kind = chance.randrange(7)
    if kind == 0:
        flipped = "".join(chr(ord(c) ^ 1 << chance.randrange(7) & 0x7F) for c in text[start : start + 1])
        return text[:start] + flipped + text[start + 1 :]
    if kind == 1:
        return text[:start] + text[end:]
    if kind == 2:
        return text[:end] + text[start:end] + text[end:]
    if kind == 3:
        return text[:start] + "\0" * (end - start) + text[end:]
    if kind == 4:
        return text[:start] + text[start:end][::-1] + text[end:]
    if kind == 5:
        return text[:start] + chr(chance.randrange(128)) + text[end:]
    return text[:start] + chance.choice(HOSTILE) + text[chance.choice((start, start, end)) :]


def read_or_refuse(read: Callable[[], Trace]) -> Trace | None:
    """The trace, or None where the reader refuses the file; its error names the file in one printable line."""
    try:
        trace = read()
    except TraceError as error:
        assert str(error).startswith("fuzz.json: ")
        assert str(error).isprintable()
        assert len(str(error)) < 1000
        return None
    check(trace)
    return trace


def check(trace: Trace) -> None:
    """What holds of every trace, however damaged its file was."""
    assert dict(trace.events.schema) == EVENT_SCHEMA
    times = trace.events.select("ts_ns", "dur_ns", "name", "cat", "pid", "tid")
    assert times.null_count().row(0) == (0,) * 6
    for ts_ns, dur_ns in times.select("ts_ns", "dur_ns").iter_rows():
        assert dur_ns >= 0
        assert -(1 << 63) < ts_ns <= ts_ns + dur_ns < 1 << 63
    quality = trace.quality
    counts = [*quality.dropped.values(), *quality.repaired.values(), *quality.skipped.values()]
    assert all(count > 0 for count in counts)
    assert set(quality.examples) == {*quality.dropped, *quality.repaired}
    assert all(example.isprintable() and len(example) <= 500 for example in quality.examples.values())
    for fact in (*trace.tracks, *trace.devices, trace.backend, dict(trace.info)):
        str(fact).encode()  # no half of a surrogate pair, which no output could take
    assert trace.rank is None or trace.rank >= 0


def named(trace: Trace) -> dict[str, tuple[Any, ...]]:
    """The rows by their names, which the seeds have made unique; without what other events say of them (flow_id)."""
    return {row[0]: row for row in trace.events.drop("flow_id").rows()}


def num_accounted(trace: Trace) -> int:
    return len(trace) + trace.quality.num_dropped + sum(trace.quality.skipped.values())


def _case(seed: int) -> tuple[list[str], int, str]:
    """The pieces of a seed, which of them is mutated, and the mutation."""
    chance = random.Random(seed)
    pieces = chance.choice(SEEDS)
    place = chance.randrange(len(pieces))
    return pieces, place, mutated(pieces[place], chance)


BASELINE = [read_text("".join(pieces), name="fuzz.json") for pieces in SEEDS]


@pytest.mark.parametrize("block", range(12))
def test_a_mutated_piece_costs_no_other_event(block: int) -> None:
    """One event, one comma, the head or the tail is mutated: all other events are read as they were."""
    for seed in range(block * NUM_TEXTS // 12, (block + 1) * NUM_TEXTS // 12):
        pieces, place, mutation = _case(seed)
        text = "".join([*pieces[:place], mutation, *pieces[place + 1 :]])
        trace = read_or_refuse(lambda text=text: read_text(text.encode(), name="fuzz.json"))  # type: ignore[misc]
        baseline = BASELINE[SEEDS.index(pieces)]
        if trace is None:
            raise AssertionError(f"case {seed} was refused: {text!r}")
        before, after = named(baseline), named(trace)
        around = place in (0, len(pieces) - 1)  # facts may be lost there, and with them the origin of times
        for name, row in before.items():
            if name in pieces[place]:
                continue
            assert name in after, f"case {seed} lost {name}: {mutation!r} for {pieces[place]!r}: {trace.quality}"
            if not around:
                assert after[name] == row, f"case {seed} changed {name}: {mutation!r} for {pieces[place]!r}"
        if around or ":" in mutation:
            assert num_accounted(trace) >= num_accounted(baseline), f"case {seed}: {mutation!r} for {pieces[place]!r}"
