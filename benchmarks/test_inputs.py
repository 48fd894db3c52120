"""The repeated trace is the trace, again and again, with nothing shared between the repeats but names."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks.inputs import PAUSE_US, repeat, split_events
from benchmarks.stacks import NUM_LAYERS, step_text

TRACE = """{
  "schemaVersion": 1,
  "distributedInfo": {"rank": 0},
  "traceEvents": [
  {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "ts": 100, "dur": 50, "pid": 1, "tid": 1},
  {"ph": "X", "cat": "cuda_runtime", "name": "launch", "ts": 110.5, "dur": 5, "pid": 1, "tid": 1,
   "args": {"External id": 7, "correlation": 8}},
  {"ph": "s", "id": 8, "ts": 110, "pid": 1, "tid": 1, "cat": "ac2g", "name": "ac2g"},
  {"ph": "i", "name": "Record Window End", "ts": 150, "s": "g"}
  ],
  "traceName": "x]y"
}"""


def test_events_are_split_as_text() -> None:
    head, events, tail = split_events(TRACE)
    assert [json.loads(event)["ph"] for event in events] == ["M", "X", "X", "s", "i"]
    assert head + ",".join(events) + tail == TRACE.replace("},\n  {", "},{").replace("}\n  ],", "}],")


def test_one_repeat_is_the_trace_itself() -> None:
    once, original = json.loads("".join(repeat(TRACE, 1))), json.loads(TRACE)
    assert sorted(map(str, once.pop("traceEvents"))) == sorted(map(str, original.pop("traceEvents")))
    assert once == original


def test_repeats_differ_in_time_and_numbers() -> None:
    """Extent 50 us and a pause of 1,000: the second repeat is 1,050 us later; ids run to 8, so they move by 9."""
    events = json.loads("".join(repeat(TRACE, 2)))["traceEvents"]
    period = 50 + PAUSE_US
    assert [e["name"] for e in events if e["ph"] == "M"] == ["process_name"]
    assert [(e["name"], e["ts"]) for e in events if "ProfilerStep" in e["name"]] == [
        ("ProfilerStep#4", 100),
        ("ProfilerStep#5", 100 + period),
    ]
    launches = [e for e in events if e["name"] == "launch"]
    assert [e["ts"] for e in launches] == [110.5, 110.5 + period]
    assert [e["args"] for e in launches] == [
        {"External id": 7, "correlation": 8},
        {"External id": 16, "correlation": 17},
    ]
    assert [e["id"] for e in events if e["ph"] == "s"] == [8, 17]
    assert [e["ts"] for e in events if e["ph"] == "i"] == [150 + period]


def test_a_step_with_stacks_tells_its_modules() -> None:
    """Three Linears a layer, a kernel forward, backward and of the optimizer for each of them; mostly frames."""
    events = json.loads(step_text())["traceEvents"]
    kinds = Counter(event["cat"] for event in events)
    assert kinds["kernel"] == kinds["cpu_op"] == kinds["cuda_runtime"] == 3 * 3 * NUM_LAYERS
    assert 0.6 < kinds["python_function"] / len(events) < 0.8
    assert sum(event["name"].startswith("nn.Module: Linear_") for event in events) == 3 * NUM_LAYERS
