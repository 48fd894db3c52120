"""Mutated trace files: nothing but a TraceError escapes, undamaged events survive, and what is lost is counted.

Each run of the tests reads other files. A failure names its case, "run:number"; WEFTRACE_FUZZ_SEED=run brings the same
files again, and `_case("run:number")` the one. `make fuzz` reads many more.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.fuzz import for_each_case
from tests.trace.chrome.files import (
    EPOCH_US,
    actual_rows,
    at,
    encoded,
    event,
    expected_rows,
    read_text,
)
from tests.trace.strategies import traces
from weftrace.errors import TraceError
from weftrace.files.sources import ByteStream, unpacked
from weftrace.trace.chrome.reader import read_stream
from weftrace.trace.chrome.writer import chrome_text
from weftrace.trace.model import EVENT_SCHEMA, Trace

# Of a run's cases (tests/fuzz.py):
PIECES = 8 / 12  # files of which one event, one comma, the head or the tail is mutated
ANYWHERE = 2 / 12  # files mutated in several places at once, each read twice
PACKED = 2 / 12  # compressed files

HOSTILE = (
    "", "{", "}", "[", "]", '"', ",", ":", "\\", "\0", "\n", "null", "NaN", "-Infinity", "1e999", "-", "0x", "true",
    "{}", "[]", "{}{}", "},{", "}],", "]}", "],", '"ph"', '"ph":', '{"ph":', '{"ph":"X"}', '{"ph":"E"}',
    '{"ph": "X", "ts": 1, "dur": 1}', '{"ph":"M","name":"thread_name","args":{"name":[]}}', '{"ph":"B","ts":"1"},',
    '"traceEvents":[', '{"traceEvents":[', '], "x": [', '{"a":[', '{"a":{"ph":', '"\\ud800"', "\ufeff", "\u2028", "é",
    "9" * 400, "9" * 5000, "1e9999999999999999999", "-9223372036854775808", "18446744073709551616", "[" * 1100,
    "]" * 50, '{"a":' * 1100, '{"a":[' * 30, '"' * 3, "\xff", "</script>", '"baseTimeNanoseconds": 9e99,',
    '"distributedInfo": "[[["', "/*", "//", "'", "\u0663", "1_000", "+1", ".5",
)  # fmt: skip


def _seeds() -> list[list[str]]:
    """Files as pieces: what stands before the events, the events with what parts them, what stands behind."""
    metadata = {"ph": "M", "name": "thread_name", "pid": 0, "tid": "stream 7 ", "ts": 0, "args": {"name": "stream 7 "}}
    flow = {"ph": "f", "id": 5, "pid": 0, "tid": "stream 7 ", "ts": 30, "cat": "ac2g", "name": "ac2g", "bp": "e"}
    args = {"device": 0, "stream": 7, "correlation": 5, "grid": [112, 1, 1], "block": [128, 1, 1], "External id": 3}
    kineto = [
        metadata,
        event(
            "event 1", cat="cpu_op", pid=9, tid=9, ts=EPOCH_US, dur=50, args={"External id": 3, "Dims": [[8, 4], []]}
        ),
        event(
            "event 2", cat="cuda_runtime", pid=9, tid=9, ts=EPOCH_US + 1, dur=5, args={"correlation": 5, "cbid": 211}
        ),
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
        event(
            "event 4", pid=2, tid=7, ts=20, dur=5, args={"correlation": 0, "stream": "7", "nested": [{"a": [{}]}, {}]}
        ),
    ]
    return [
        _pieces(encoded(head)[:-1] + ', "traceEvents": [\n', kineto, ",\n", '\n], "traceName": "x", "y": [1, {}]}\n'),
        _pieces('{"traceEvents":[', kineto[1:4], ",", "]}"),
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


def read_or_refuse(read: Callable[..., Trace], *arguments: Any) -> Trace | None:
    """The trace, or None where the reader refuses the file; its error names the file in one printable line."""
    try:
        trace = read(*arguments)
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
    for *labels, ts_ns, dur_ns in trace.events.select("name", "cat", "pid", "tid", "ts_ns", "dur_ns").rows():
        assert None not in labels
        assert dur_ns >= 0
        assert -(1 << 63) < ts_ns <= ts_ns + dur_ns < 1 << 63
    quality = trace.quality
    counts = [*quality.dropped.values(), *quality.repaired.values(), *quality.skipped.values()]
    assert all(count > 0 for count in counts)
    assert set(quality.examples) == {*quality.dropped, *quality.repaired}
    for reason in (*quality.dropped, *quality.repaired, *quality.skipped):
        assert is_documented(reason), reason
    assert all(example.isprintable() and len(example) <= 500 for example in quality.examples.values())
    for fact in (*trace.tracks, *trace.devices, trace.backend, dict(trace.info)):
        str(fact).encode()  # no half of a surrogate pair, which no output could take
    assert trace.rank is None or trace.rank >= 0


READING = (ROOT / "docs" / "reading.md").read_text()


@cache
def is_documented(reason: str) -> bool:
    """Whether docs/reading.md explains why an event was left out or repaired."""
    reason = re.sub(r"^not JSON \(.*\)$", "not JSON (…)", reason)
    reason = re.sub(r"^unusable .* left out$", "unusable *field* left out", reason)
    reason = reason.replace("beyond 32 bits", "beyond 64 bits (32 bits)").replace(
        "64 bits left", "64 bits (32 bits) left"
    )
    return bool(re.search(rf"(?:[|;,`] |`){re.escape(reason)}(?:`| \||;|,)", READING))


_FLOW_ID = list(EVENT_SCHEMA).index("flow_id")


def rows_of(trace: Trace) -> list[tuple[Any, ...]]:
    """The events, without what other events say of them (flow_id)."""
    return [row[:_FLOW_ID] + row[_FLOW_ID + 1 :] for row in trace.events.rows()]


def named(trace: Trace) -> dict[str, tuple[Any, ...]]:
    """The rows by their names, which the seeds have made unique."""
    return {row[0]: row for row in rows_of(trace)}


def num_accounted(trace: Trace) -> int:
    return len(trace) + trace.quality.num_dropped + sum(trace.quality.skipped.values())


def _case(seed: str) -> tuple[int, int, str]:
    """Which file, which of its pieces is mutated, and what that becomes."""
    chance = random.Random(seed)
    number = chance.randrange(len(SEEDS))
    place = chance.randrange(len(SEEDS[number]))
    return number, place, mutated(SEEDS[number][place], chance)


def read_fuzz(text: str, chunk: int = 1 << 18) -> Trace:
    return read_text(text.encode("utf-8", "surrogatepass"), name="fuzz.json", chunk=chunk)


BASELINES = [read_fuzz("".join(pieces)) for pieces in SEEDS]
NAMED = [named(trace) for trace in BASELINES]


@pytest.mark.parametrize("block", range(8))
def test_a_mutated_piece_costs_no_other_event(block: int) -> None:
    """One event, one comma, the head or the tail is mutated: all other events are read as they were."""

    def case(seed: str) -> None:
        number, place, mutation = _case(seed)
        pieces = SEEDS[number]
        said = f"case {seed}: {mutation!r} for {pieces[place]!r}"
        trace = read_or_refuse(read_fuzz, "".join([*pieces[:place], mutation, *pieces[place + 1 :]]))
        assert trace is not None, said
        after = rows_of(trace)  # a mutation may give an event another one's name, so that two bear it
        names = {row[0] for row in after}
        around = place in (0, len(pieces) - 1)  # facts may be lost there, and with them the origin of times
        for name, row in NAMED[number].items():
            if name not in pieces[place]:
                assert name in names, f"{said} lost {name}: {trace.quality}"
                assert around or row in after, f"{said} changed {name}"
        if around or ":" in mutation:
            assert num_accounted(trace) >= num_accounted(BASELINES[number]), f"{said}: {trace.quality}"

    for_each_case(case, share=PIECES, block=block, num_blocks=8)


@pytest.mark.parametrize("block", range(4))
def test_many_mutations_anywhere(block: int) -> None:
    """Nothing escapes, and what is read does not depend on where the chunks of the file happen to end."""

    def case(seed: str) -> None:
        chance = random.Random(f"anywhere {seed}")
        text = "".join(chance.choice(SEEDS))
        for _ in range(chance.choice((1, 2, 3, 8, 20))):
            text = mutated(text, chance)
        if chance.random() < 0.2:
            text = text[: chance.randrange(len(text) + 1)]
        whole = read_or_refuse(read_fuzz, text)
        pieces = read_or_refuse(read_fuzz, text, chance.randrange(1, 600))
        assert (whole is None) == (pieces is None), f"case {seed}: {text!r}"
        if whole is not None and pieces is not None:
            assert pieces == whole, f"case {seed}: {text!r}"
            assert dict(pieces.quality.dropped) == dict(whole.quality.dropped), f"case {seed}: {text!r}"

    for_each_case(case, share=ANYWHERE, block=block, num_blocks=4)


def test_damage_to_compressed_files() -> None:
    """Of a cut file, a beginning is read; of one with flipped bytes, a trace or an error comes."""
    packs = (gzip.compress, lambda data: gzip.compress(gzip.compress(data)), zstandard.compress)
    packed = [[pack("".join(pieces).encode()) for pack in packs] for pieces in SEEDS]

    def case(seed: str) -> None:
        chance = random.Random(f"packed {seed}")
        number, way = chance.randrange(len(SEEDS)), chance.randrange(len(packs))
        data = bytearray(packed[number][way])
        place = chance.randrange(len(data))
        cut = chance.random() < 0.3
        if cut:
            del data[place:]
        else:
            for _ in range(chance.choice((1, 1, 5))):
                data[chance.randrange(len(data))] ^= chance.randrange(1, 256)
            if chance.random() < 0.3:
                data[place : place + chance.randrange(9)] = chance.randbytes(chance.randrange(9))
        trace = read_or_refuse(read_packed, bytes(data))
        if cut and trace is not None:
            assert list(named(trace)) == list(NAMED[number])[: len(trace)], f"case {seed}"
            assert trace.quality.truncated, f"case {seed}"

    for_each_case(case, share=PACKED)


def read_packed(data: bytes) -> Trace:
    def opened() -> ByteStream:
        return unpacked(iter([data]), "fuzz.json")

    return read_stream(opened(), opened)


# --- sound files ------------------------------------------------------------------------------------------------------


@given(trace=traces(), chunk=st.integers(1, 400) | st.just(1 << 18))
def test_random_traces_read_back_whatever_the_chunks(trace: Trace, chunk: int) -> None:
    again = read_text(b"".join(chrome_text(trace)), chunk=chunk)
    assert again == trace
    assert again.quality.num_dropped == again.quality.num_repaired == 0


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(HOSTILE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_times = st.integers(-(10**15), 4 * 10**15) | st.decimals(-(10**15), 4 * 10**15, places=3)
_events = st.fixed_dictionaries(
    {
        "ph": st.just("X"),
        "cat": st.sampled_from(("kernel", "cpu_op", "python_function")),
        "name": st.text(max_size=6) | st.sampled_from(HOSTILE),
        "pid": st.integers(-1, 9) | st.text(max_size=3),
        "tid": st.integers(-1, 9) | st.text(max_size=3),
        "ts": _times,
        "dur": st.integers(0, 10**6) | st.decimals(0, 10**6, places=3),
    },
    optional={
        "args": st.dictionaries(st.text(min_size=1, max_size=3), _json, max_size=2),
        "id": st.integers(),
        "other": _json,
    },
)


@given(
    events=st.lists(_events, min_size=1, max_size=6),
    facts=st.dictionaries(st.sampled_from("abc"), _json, max_size=2),
    layout=st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"separators": (" ,\r\n ", "\t: ")}]),
    ascii_only=st.booleans(),
    form=st.sampled_from(("object", "facts last", "list")),
    order=st.permutations(["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "other"]),
    chunk=st.integers(1, 300) | st.just(1 << 18),
)
def test_random_layouts_agree_with_the_json_module(
    events: list[dict[str, Any]],
    facts: dict[str, Any],
    layout: dict[str, Any],
    ascii_only: bool,
    form: str,
    order: list[str],
    chunk: int,
) -> None:
    events = [{key: e[key] for key in order if key in e} for e in events]
    whole: Any = {**facts, "traceEvents": events} if form == "object" else {"traceEvents": events, **facts}
    text = encoded(events if form == "list" else whole, ensure_ascii=ascii_only, **layout)
    raw = text.encode("utf-8", "surrogatepass")
    trace = read_text(raw, chunk=chunk, python_functions=True)
    assert actual_rows(trace) == list(expected_rows(text, python_functions=True))
    assert trace.quality.num_dropped == 0
