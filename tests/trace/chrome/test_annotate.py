"""The original is kept byte for byte, whatever it looks like; what is added is shaped and timed as the file's own."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.trace.chrome.shape import check_event
from tests.trace.strategies import HOSTILE
from weftrace.errors import OutputError, TraceError, TraceTooLarge
from weftrace.files import sources
from weftrace.files.sources import open_bytes
from weftrace.trace.chrome.annotate import Annotated, annotate, file_base_ns, is_annotated
from weftrace.trace.chrome.lane_events import PROCESS, lane_events, running_total
from weftrace.trace.chrome.reader import read_chrome
from weftrace.trace.chrome.writer import write_chrome
from weftrace.trace.model import EVENT_SCHEMA, Trace, events_frame

MARK = {"ph": "M", "name": "process_name", "pid": "weftrace", "tid": 0, "ts": 0, "args": {"name": "weftrace"}}
MARK_TEXT = b'{"ph":"M","name":"process_name","pid":"weftrace","tid":0,"ts":0,"args":{"name":"weftrace"}}'
EVENT = b'{"ph": "X", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'


def annotated(text: bytes, folder: Path) -> tuple[bytes, Annotated]:
    (folder / "in.json").write_bytes(text)
    done = annotate(folder / "in.json", [MARK, MARK], folder / "out.json")
    return (folder / "out.json").read_bytes(), done


def without_additions(text: bytes) -> bytes:
    """The original again: two marks, the commas before them, the line breaks around them."""
    for added in (b",\n" + MARK_TEXT + b",\n" + MARK_TEXT + b"\n", b"\n" + MARK_TEXT + b",\n" + MARK_TEXT + b"\n"):
        if text.count(added) == 1:
            return text.replace(added, b"")
    raise AssertionError(text)


@pytest.mark.parametrize("piece", [7, 1 << 18])
@pytest.mark.parametrize("name", ['## Call CompiledFxGraph "abc" ##', "torch\\cuda", 'Library("a", "b")'])
def test_names_with_quotes_are_escaped_so_that_viewers_open_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, piece: int
) -> None:
    monkeypatch.setattr(sources, "_CHUNK", piece)
    named = b'{"ph": "X", "cat": "cpu_op", "name": "%s", "pid": 1, "tid": 1, "ts": 1, "dur": 2}' % name.encode()
    got, _ = annotated(b'{"traceEvents": [' + b", ".join((EVENT, named, EVENT, named, EVENT)) + b"]}", tmp_path)
    assert [event["name"] for event in json.loads(got)["traceEvents"]][:5] == ["a", name, "a", name, "a"]


@pytest.mark.parametrize("number", [b"inf", b"-inf", b"nan", b"-nan(ind)", b"NaN", b"-Infinity"])
@pytest.mark.parametrize("piece", [7, 1 << 18])
def test_bare_numbers_become_null_so_that_viewers_open_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: bytes, piece: int
) -> None:
    monkeypatch.setattr(sources, "_CHUNK", piece)
    args = b'"args": {"blocks per SM": %s, "a\\"b": ":inf,", "warps per SM":%s, "x": ": nan]", "list": [1, %s]}' % (
        (number,) * 3
    )
    text = b'{"traceEvents": [' + EVENT + b", " + EVENT[:-1] + b", " + args + b"}]}"
    got, done = annotated(text, tmp_path)
    events = json.loads(got, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))["traceEvents"]
    assert events[1]["args"] == {
        "blocks per SM": None, 'a"b': ":inf,", "warps per SM": None, "x": ": nan]", "list": [1, None],
    }  # fmt: skip
    assert done == Annotated(num_events=2)


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [' + EVENT + b"]}",
        b'{\n  "a": [{"traceEvents": [1]}],\n  "traceEvents": [\n'
        + EVENT
        + b",\n"
        + EVENT
        + b'\n  ],\n  "b": {"c": "]}"}\n}\n',
        b'{"traceEvents":[]}',
        b'{"traceEvents": [ \n ], "baseTimeNanoseconds": 5}',
        b"[" + EVENT + b"," + EVENT + b"]",
        b"  \n[]\n",
        b"\xef\xbb\xbf[" + EVENT + b"]",
        b'\xef\xbb\xbf {"traceEvents" :\t[' + EVENT + b"]}",
        b'{"n": "\\"traceEvents\\":[", "traceEvents": [' + EVENT + b"]}",
        b'{"traceEvents": [{"ph": "X", "name": "]}],[{", "args": {"a": [[], {"b": ["]"]}]}}], "x": "]"}',
        rb'{"traceEvents": [{"ph": "X", "name": "\\\\\"]}"}, {"ph": "i", "name": "\\"}]}',
        b'{"traceEvents": [{"ph": "X", "ts": 1, "name": "\x01\xff"}]}',
        b'{"traceEvents": [{"ph": "X", "ts": 1, "name": "\\": inf, nan]", "args": {": inf": ":nan,"}}]}',
        b'{"traceEvents": [null]}',
    ],
)
def test_nothing_of_the_original_changes(text: bytes, tmp_path: Path) -> None:
    got, done = annotated(text, tmp_path)
    assert done == Annotated(num_events=2)
    assert without_additions(got) == text
    events = json.loads(got.decode("utf-8-sig", "replace"), strict=False)
    events = events if isinstance(events, list) else events["traceEvents"]
    assert events[-2:] == [MARK, MARK]
    assert len(events) == 2 + len(
        json.loads(text.decode("utf-8-sig", "replace"), strict=False)["traceEvents"]
        if isinstance(json.loads(text.decode("utf-8-sig", "replace"), strict=False), dict)
        else json.loads(text.decode("utf-8-sig"))
    )


def test_a_comma_too_many_is_used(tmp_path: Path) -> None:
    got, done = annotated(b'{"traceEvents": [' + EVENT + b", ]}", tmp_path)
    assert len(json.loads(got)["traceEvents"]) == 3
    assert done == Annotated(num_events=2)


def test_without_additions_the_copy_is_the_original(tmp_path: Path) -> None:
    text = b'{"traceEvents": [' + EVENT + b"], \n}"
    (tmp_path / "in.json").write_bytes(text.replace(b", \n}", b"}"))
    assert annotate(tmp_path / "in.json", [], tmp_path / "out.json") == Annotated(num_events=0)
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "in.json").read_bytes()


_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(HOSTILE) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(HOSTILE), inner, max_size=3),
    max_leaves=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.dictionaries(st.text(max_size=3) | st.sampled_from(HOSTILE), _values, max_size=2),
    after=st.dictionaries(st.text(max_size=3) | st.sampled_from(HOSTILE), _values, max_size=2),
    events=st.lists(st.dictionaries(st.text(max_size=3), _values, max_size=3), max_size=4),
    is_bare=st.booleans(),
    is_ascii=st.booleans(),
    indent=st.sampled_from((None, 0, 2)),
    chunk=st.integers(1, 40),
)
def test_any_json_in_chunks_of_any_size(
    before: Any, after: Any, events: Any, is_bare: bool, is_ascii: bool, indent: int | None, chunk: int, tmp_path: Path
) -> None:
    file = events if is_bare else {**before, "traceEvents": events, **after}
    text = json.dumps(file, ensure_ascii=is_ascii, indent=indent).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "_CHUNK", chunk)
        got, done = annotated(text, tmp_path)
    assert done == Annotated(num_events=2)
    assert without_additions(got) == text
    found = json.loads(got)
    assert (found if is_bare else found["traceEvents"]) == [*json.loads(json.dumps(events)), MARK, MARK]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_cut_anywhere_is_closed_and_says_so(data: st.DataObject, tmp_path: Path) -> None:
    """Cut at every byte: an error before the list begins, later a sound file with every whole event."""
    events = [
        {"ph": "X", "name": "a]\\", "args": {"n": [{"q": '"'}]}},
        {"ph": "X", "name": "b"},
        {"ph": "i", "name": "c"},
    ]
    is_bare = data.draw(st.booleans())
    text = json.dumps(events if is_bare else {"x": 1, "traceEvents": events, "y": [2]}).encode()
    cut = data.draw(st.integers(0, len(text) - 1))
    try:
        got, done = annotated(text[:cut], tmp_path)
    except TraceError as error:
        assert "empty" in str(error) or "cut short" in str(error)
        assert b'"traceEvents": [' not in text[:cut] and not (is_bare and cut)
        return
    assert done.truncated is not None
    assert done.num_events == 2
    file = json.loads(got)
    if not is_bare:
        assert file["weftrace_truncated_source"] == done.truncated
    found = file if is_bare else file["traceEvents"]
    whole = json.loads(json.dumps(events))
    assert found[-2:] == [MARK, MARK]
    assert found[:-2] == whole[: len(found) - 2]
    ends = [text.index(json.dumps(event).encode()) + len(json.dumps(event)) for event in events]
    assert len(found) - 2 == sum(end <= cut for end in ends)


def test_a_truncated_gzip_is_closed_and_says_so(tmp_path: Path) -> None:
    text = b'{"traceEvents": [' + b",\n".join([EVENT] * 50_000) + b"]}"
    stored = gzip.compress(text, 1)
    (tmp_path / "in.json.gz").write_bytes(stored[: len(stored) // 2])
    done = annotate(tmp_path / "in.json.gz", [MARK], tmp_path / "out.json.gz")
    assert done.num_events == 1
    assert done.truncated is not None and "ends early" in done.truncated
    file = json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    assert file["traceEvents"][-1] == MARK
    assert 10_000 < len(file["traceEvents"]) < 50_000
    assert read_chrome(tmp_path / "out.json.gz").info["weftrace_truncated_source"] == done.truncated


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents": [' + EVENT.replace(b'"a"', b'"a""') + (b"," + EVENT) * 3 + b'], "x": 1}',
        b'{"traceEvents": [' + EVENT + b"}" + (b"," + EVENT) * 3 + b"]}",
        b'{"traceEvents": [' + EVENT + b"]" + (b"," + EVENT) * 3 + b"]}",
        b'{"traceEvents": [' + b"{" + (EVENT + b",") * 3 + EVENT + b"]}",
    ],
)
def test_damage_is_refused_with_the_remedy(text: bytes, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"in\.json: .*weftrace convert"):
        annotated(text, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"PAR1....", "starts with 'PAR1"),
        (b"<html>", "starts with '<html>"),
        (b'{"a": 1}', "no list of traceEvents"),
        (b'{"traceEvents": 5}', "no list of traceEvents"),
        (b'{"a": {"traceEvents": []}}', "no list of traceEvents"),
        (gzip.compress(b'{"traceEvents": [' + EVENT)[:20], "cut short"),
    ],
)
def test_what_is_no_trace_is_refused(text: bytes, said: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=said):
        annotated(text, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]


def test_missing_source_and_unwritable_output(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        annotate(tmp_path / "in.json", [], tmp_path / "out.json")
    (tmp_path / "in.json").write_bytes(b"[]")
    with pytest.raises(OutputError, match="mkdir"):
        annotate(tmp_path / "in.json", [], tmp_path / "missing" / "out.json")
    with pytest.raises(TraceTooLarge):
        annotate(tmp_path / "in.json", [], tmp_path / "out.json", max_bytes=1)
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]


def test_the_source_itself_can_be_the_output(tmp_path: Path) -> None:
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(b"[" + EVENT + b"]"))
    annotate(path, [MARK], path)
    assert gzip.decompress(path.read_bytes()) == b"[" + EVENT + b",\n" + MARK_TEXT + b"\n]"


def test_a_failure_among_the_additions_leaves_nothing(tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        yield MARK
        raise ZeroDivisionError

    (tmp_path / "in.json").write_bytes(b"[]")
    with pytest.raises(ZeroDivisionError):
        annotate(tmp_path / "in.json", failing(), tmp_path / "out.json")
    assert [path.name for path in tmp_path.iterdir()] == ["in.json"]


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """60 MB of text in less than 12 MB."""
    (tmp_path / "in.json").write_bytes(b"[" + (EVENT + b",\n") * 900_000 + EVENT + b"]")
    tracemalloc.start()
    try:
        annotate(tmp_path / "in.json", [MARK], tmp_path / "out.json.gz")
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


def test_recorded_traces_are_kept_byte_for_byte(recorded_traces: list[Path], tmp_path: Path) -> None:
    for path in recorded_traces:
        original = b"".join(open_bytes(path).chunks)
        others = ("out.json", "out.json.zst") if path.name.startswith("deepseek") else ()
        for name in ("out.json.gz", *others):
            assert annotate(path, [MARK, MARK], tmp_path / name) == Annotated(num_events=2)
            assert without_additions(b"".join(open_bytes(tmp_path / name).chunks)) == original, path.name
        again, before = read_chrome(tmp_path / "out.json.gz", rank=0), read_chrome(path, rank=0)
        assert again.events.equals(before.events), path.name
        assert is_annotated(again) and not is_annotated(before)


# --- what is added ------------------------------------------------------------------------------------------------

BASE = 1_740_461_679_000_000_000


def boxes() -> pl.DataFrame:
    """Compute: attn(F) 0-10 µs, mlp(B) 10-30 µs, and one that overlaps it. Communication: dispatch(F) 5-25 µs."""
    rows = [
        ("compute", "attn(F)", 0, 0, 10_000, 10_000, None, 112, "F"),
        ("communication", "dispatch(F)", 0, 5_001, 25_000, 19_999, 15_000, 20, "F"),
        ("compute", "mlp(B)", 1, 10_000, 30_000, 20_000, None, 112, "B"),
        ("compute", "cast", None, 12_000, 13_000, 1_000, None, None, None),
    ]
    names = ("lane", "name", "index", "start_ns", "end_ns", "busy_ns", "hidden_ns", "sms", "direction")
    frame = pl.DataFrame(rows, schema=list(names), orient="row")
    return frame.with_columns(pl.col("start_ns", "end_ns") + BASE + 7)


def exposed() -> pl.DataFrame:
    return pl.DataFrame({"start_ns": [BASE + 30_007], "end_ns": [BASE + 31_007]})


def of_kind(events: list[dict[str, Any]], ph: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == ph]


def test_lanes_by_hand() -> None:
    counters = {"SMs in use": pl.DataFrame({"ts_ns": [BASE, BASE + 1], "value": [112, 132]})}
    lane_sms = {"compute": "112 SMs", "communication": None}
    events = list(lane_events(boxes(), exposed(), counters, base_ns=BASE, lane_sms=lane_sms))
    titles = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert titles == {
        1: "compute lane (112 SMs)",
        2: "compute lane (112 SMs), 2",
        3: "communication lane",
        4: "exposed communication",
    }
    assert [(e["tid"], e["name"], str(e["ts"]), str(e["dur"]), e.get("cname")) for e in of_kind(events, "X")] == [
        (1, "attn(F)", "0.007", "10.000", "rail_idle"),
        (1, "mlp(B)", "10.007", "20.000", "rail_load"),
        (2, "cast", "12.007", "1.000", None),
        (3, "dispatch(F)", "5.008", "19.999", "rail_idle"),
        (4, "exposed communication", "30.007", "1.000", "terrible"),
    ]
    assert [e["args"] for e in of_kind(events, "X")] == [
        {"index": 0, "sms": 112, "busy_us": Decimal("10.000")},
        {"index": 1, "sms": 112, "busy_us": Decimal("20.000")},
        {"busy_us": Decimal("1.000")},
        {"index": 0, "sms": 20, "busy_us": Decimal("19.999"), "hidden_us": Decimal("15.000")},
        {},
    ]
    assert [(e["name"], str(e["ts"]), e["args"]) for e in of_kind(events, "C")] == [
        ("SMs in use", "0.000", {"value": 112}),
        ("SMs in use", "0.001", {"value": 132}),
    ]
    assert of_kind(events, "M")[2] == {
        "ph": "M", "name": "process_sort_index", "pid": PROCESS, "tid": 0, "ts": 0, "args": {"sort_index": -1},
    }  # fmt: skip
    assert {event["pid"] for event in events} == {PROCESS}


def test_the_least_that_lanes_need() -> None:
    least = boxes().select("lane", "name", "start_ns", "end_ns")
    events = list(lane_events(least, exposed().clear(), base_ns=0))
    assert [event["args"] for event in of_kind(events, "X")] == [{}] * 4
    assert str(of_kind(events, "X")[0]["ts"]) == f"{BASE // 1000}.007"
    assert not of_kind(list(lane_events(least.clear(), exposed().clear(), base_ns=0)), "X")


def test_a_counter_leaves_out_what_is_no_number() -> None:
    frame = pl.DataFrame({"ts_ns": [3, 1, 2, 4], "value": [0.5, float("nan"), None, float("inf")]})
    events = list(lane_events(boxes().clear(), exposed().clear(), {"queue": frame}, base_ns=0))
    assert [event["args"]["value"] for event in of_kind(events, "C")] == [0.5]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=20))
def test_spans_of_a_thread_never_overlap(spans: list[tuple[int, int]]) -> None:
    frame = pl.DataFrame(
        {
            "lane": ["compute"] * len(spans),
            "name": [str(n) for n in range(len(spans))],
            "start_ns": [start for start, _ in spans],
            "end_ns": [start + length for start, length in spans],
        },
        schema={"lane": pl.String, "name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )
    drawn = of_kind(list(lane_events(frame, exposed().clear(), base_ns=0)), "X")
    assert sorted(event["name"] for event in drawn) == sorted(frame["name"])
    for tid in {event["tid"] for event in drawn}:
        mine = [event for event in drawn if event["tid"] == tid]
        assert all(a["ts"] + a["dur"] <= b["ts"] for a, b in pairwise(mine))


def test_running_total_by_hand() -> None:
    """
    0    5    10   15   20
    |---- 112 -----|              open:   0-5 one, 5-10 two, 10-15 one (the first ends when another begins), 15-20 one
         |-- 20 --------|         weight: 112, 132, 132, 20
    """
    intervals = pl.DataFrame({"start_ns": [0, 5, 10], "end_ns": [10, 20, 15], "sms": [112, 20, 112]})
    assert running_total(intervals).rows() == [(0, 1), (5, 2), (15, 1), (20, 0)]
    assert running_total(intervals, "sms").rows() == [(0, 112), (5, 132), (15, 20), (20, 0)]
    assert running_total(intervals.clear()).rows() == []


def test_base_of_the_file() -> None:
    empty = pl.DataFrame(schema=EVENT_SCHEMA)
    for stated, base in (
        ("1740461679000000000", BASE),
        (f" {BASE} ", BASE),
        ("-5", 0),
        ("x", 0),
        ("9" * 19, 0),
        ("9" * 30, 0),
    ):
        assert file_base_ns(Trace(events=empty, info={"baseTimeNanoseconds": stated})) == base
    assert file_base_ns(Trace(events=empty)) == 0


def test_from_trace_to_annotated_file_and_back(tmp_path: Path) -> None:
    """The lanes of a written trace, read back, lie where the boxes said, to the nanosecond."""
    columns = {
        "name": ["k"], "cat": ["kernel"], "pid": ["0"], "tid": ["7"], "ts_ns": [BASE + 7], "dur_ns": [30_000],
        "device": [0], "stream": [7],
    }  # fmt: skip
    write_chrome(Trace(events=events_frame(columns, 1)), tmp_path / "t.json.gz")
    trace = read_chrome(tmp_path / "t.json.gz")
    counters = {"open boxes": running_total(boxes())}
    additions = lane_events(boxes(), exposed(), counters, base_ns=file_base_ns(trace))
    annotate(tmp_path / "t.json.gz", additions, tmp_path / "a.json.gz")
    again = read_chrome(tmp_path / "a.json.gz")
    assert is_annotated(again)
    assert again.events.head(1).equals(trace.events)
    lanes = again.events.filter(pl.col("pid") == PROCESS).sort("ts_ns")
    assert lanes["ts_ns"].to_list() == sorted([*boxes()["start_ns"], *exposed()["start_ns"]])
    assert (lanes["ts_ns"] + lanes["dur_ns"]).to_list()[0] == BASE + 10_007
    for event in json.loads(gzip.decompress((tmp_path / "a.json.gz").read_bytes()))["traceEvents"]:
        check_event(event)
