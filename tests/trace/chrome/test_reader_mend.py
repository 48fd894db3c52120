"""Events that Kineto writes and that are not JSON: bare inf and nan, quotes and backslashes that are not escaped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import few
from tests.trace.chrome.files import encoded, event, names, read_text, text_of
from weftrace.analysis import overlap
from weftrace.errors import TraceError
from weftrace.trace import open_trace
from weftrace.trace.model import Trace

NO_NUMBER = {"NaN or Infinity left out": 1}
UNESCAPED = {"quotes or backslashes escaped in a text": 1}
SOUND = [event(name, ts=n, args={"stream": 7, "shapes": [{"a": 1}, {"b": [2]}]}) for n, name in enumerate("abcd")]
CHUNKS = [1, 37, 1 << 18]


def among_sound(text: str, chunk: int = 1 << 18) -> Trace:
    """The trace of four sound events, with a text between the second and the third."""
    return read_text(text_of(*SOUND[:2], text, *SOUND[2:], distributedInfo={"rank": 3}), chunk=chunk)


def kernel(**texts: str) -> str:
    """One of Kineto's kernels, laid out as Kineto does. texts: arguments, as they stand in the file."""
    args = {"External id": "9", "device": "0", "stream": "7", "correlation": "41", **texts, "grid": "[112, 1, 1]"}
    inside = ", ".join(f'"{key}": {text}' for key, text in args.items())
    return f'  {{\n    "ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce(x)", "pid": 0, "tid": 7,\n    "ts": 9.125, "dur": 2.5,\n    "args": {{\n      {inside}\n    }}\n  }}'  # fmt: skip # noqa: E501


def annotation(name: str, **texts: str) -> str:
    args = ", ".join(f'"{key}": {text}' for key, text in {"External id": "9", **texts, "Ev Idx": "4"}.items())
    return f'  {{\n    "ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 1,\n    "ts": 9.125, "dur": 2.5,\n    "args": {{\n      {args}\n    }}\n  }}'  # fmt: skip # noqa: E501


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(
    "number", ["inf", "-inf", "nan", "-nan", "NaN", "Infinity", "-Infinity", "nan(ind)", "-nan(0)"]
)
def test_a_kernel_with_a_bare_number_is_kept_and_counted(number: str, chunk: int) -> None:
    text = kernel(**{"blocks per SM": number, "warps per SM": number, "list": f"[1, {number}]"})
    trace = among_sound(text, chunk)
    assert names(trace) == ["a", "b", "ncclDevKernel_AllReduce(x)", "c", "d"]
    assert (trace.quality.dropped, trace.quality.repaired, trace.rank) == ({}, NO_NUMBER, 3)
    row = trace.events.row(2, named=True)
    found = {key: row[key] for key in ("ts_ns", "dur_ns", "stream", "device", "correlation", "num_blocks")}
    assert found == {"ts_ns": 9125, "dur_ns": 2500, "stream": 7, "device": 0, "correlation": 41, "num_blocks": 112}


@pytest.mark.parametrize(
    ("key", "left_out"), [("stream", "args.stream"), ("grid", "args.grid"), ("External id", "args.External id")]
)
def test_a_bare_number_where_one_is_read_costs_that_value_alone(key: str, left_out: str) -> None:
    trace = among_sound(kernel(**{"blocks per SM": "inf", key: "nan"}).replace('"grid": [112, 1, 1]', '"grid": nan'))
    assert len(trace) == 5
    assert sum(trace.quality.repaired.values()) == 1
    assert left_out in " ".join(trace.quality.repaired) or key != "grid"


def test_a_text_that_looks_like_a_bare_number_stays() -> None:
    """Sound events are decoded as they are; only beside one that is not, texts are looked at."""
    odd = [event(name, ts=n, args={"x": ": inf, nan]"}) for n, name in enumerate((": inf,", "[nan]", '": inf,', "inf"))]
    trace = among_sound(",".join([*map(encoded, odd), kernel(**{"blocks per SM": "inf"})]))
    assert names(trace)[2:6] == [": inf,", "[nan]", '": inf,', "inf"]
    assert trace.quality.repaired == NO_NUMBER


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(
    "name",
    [
        '## Call CompiledFxGraph "abc" ##',
        '"abc"',
        '"',
        'f"(x)',
        'say "hi": "you"',
        'foo", "bar',
        '_lib = torch.library.Library("_inductor_test", "IMPL")\n(1): <module>',
        '{"device": "cpu", "dtype": "float32"}(12): run',
        'dict("a", {"b": [1, "c"]}): {',
        "torch\\cuda\\__init__.py(219): _lazy_init",
        'C:\\dir "x" \\y',
    ],
)
def test_a_name_with_quotes_or_backslashes_is_read_as_it_was_meant(name: str, chunk: int) -> None:
    trace = among_sound(annotation(name), chunk)
    assert names(trace) == ["a", "b", name, "c", "d"]
    assert (trace.quality.dropped, trace.quality.repaired, trace.rank) == ({}, UNESCAPED, 3)
    assert trace.events.row(2, named=True)["external_id"] == 9


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize(
    "text",
    ['"say "x" he"', '["", "say "x" he", "[1, 2]"]', '"{"a": 1}"', '""', '"grid("1", "2")"', '"a\\b"', '["C:\\dir"]'],
)
def test_arguments_with_quotes_or_backslashes_cost_no_event(text: str, chunk: int) -> None:
    trace = among_sound(kernel(**{"Concrete Inputs": text, "blocks per SM": "inf"}), chunk)
    assert names(trace) == ["a", "b", "ncclDevKernel_AllReduce(x)", "c", "d"]
    assert trace.quality.dropped == {}
    assert trace.quality.num_repaired == 1
    assert trace.events.row(2, named=True)["correlation"] == 41


@given(
    name=st.text('ab" {}[]:,.()#\\\n', max_size=12),
    chunk=st.sampled_from(CHUNKS),
)
def test_no_name_costs_a_neighbour(name: str, chunk: int) -> None:
    """Whatever stands in a name: it is read, or the event is lost and counted, alone."""
    trace = among_sound(annotation(name), chunk)
    assert [found for found in names(trace) if found in ("a", "b", "c", "d")][:2] == ["a", "b"]
    assert names(trace)[-2:] == ["c", "d"]
    assert len(trace) >= 5 or trace.quality.num_dropped


def test_a_mended_text_does_not_reach_into_the_next_event() -> None:
    """A closing quote that is lost: what follows is damage, not a name with quotes in it."""
    for broken in ('"name": "x, "pid": 0', '"name": "x"y, "pid": 0', '"name" "x", "pid": 0'):
        trace = among_sound(annotation("x").replace('"name": "x", "pid": 1', broken))
        assert names(trace) == ["a", "b", "c", "d"]
        assert trace.quality.num_dropped == 1


def test_after_damage_reading_resumes_at_an_event_that_needs_mending() -> None:
    trace = among_sound("|".join((annotation('say "x"'), kernel(**{"blocks per SM": "inf"}))))
    assert names(trace) == ["a", "b", 'say "x"', "ncclDevKernel_AllReduce(x)", "c", "d"]
    assert trace.quality.num_dropped == 0


def test_a_job_with_bare_numbers_has_its_communication(tmp_path: Path) -> None:
    """Each kernel has `"blocks per SM": inf`, as on a device whose SMs Kineto does not know."""
    events = ",\n".join(kernel(**{"blocks per SM": "inf"}).replace("9.125", str(ts)) for ts in (1, 11, 21))
    (tmp_path / "t.json").write_text(f'{{"schemaVersion": 1, "traceEvents": [\n{events}\n]}}')
    trace = open_trace(tmp_path / "t.json")
    assert isinstance(trace, Trace)
    assert overlap(trace).communication_ns == 7500


FLAWS: dict[str, Any] = {
    "bare numbers": lambda: kernel(**{"blocks per SM": "inf", "warps per SM": "-nan"}),
    "control characters": lambda: kernel().replace("AllReduce", "All\tReduce"),
    "bytes": lambda: kernel().replace("AllReduce", "All\udcffReduce"),
    "quotes": lambda: annotation('## Call CompiledFxGraph "abc" ##'),
    "backslashes": lambda: annotation("torch\\cuda"),
    "types": lambda: kernel(correlation='"7"'),
}


@pytest.mark.parametrize("flaw", few(FLAWS, 3))
def test_flawed_events_are_read_in_time_in_proportion_to_their_number(flaw: str) -> None:
    """20,000 of them take half a second; were each to cost a look at its chunk, they would take minutes."""
    num = 20_000
    text = f'{{"traceEvents": [{",".join([FLAWS[flaw]()] * num)}]}}'
    started = time.process_time()
    trace = read_text(text.encode("utf-8", "surrogateescape"))
    assert time.process_time() - started < 15
    assert len(trace) == num
    assert trace.quality.num_dropped == 0
    assert sum(trace.quality.repaired.values()) == num


def test_a_sound_file_is_never_mended() -> None:
    tricky = [
        event('say "x", "pid": 0', ts=1),
        event("a\\b", ts=2),
        event('"', ts=3),
        event('\\"', ts=4, args={"a": ['x"', '", "']}),
    ]
    trace = read_text(text_of(*tricky))
    assert names(trace) == [json.loads(encoded(e))["name"] for e in tricky]
    assert trace.quality.num_repaired == trace.quality.num_dropped == 0


def test_what_is_only_flawed_is_no_trace() -> None:
    with pytest.raises(TraceError):
        read_text('{"traceEvents": [inf, "a"b", nan]}')
