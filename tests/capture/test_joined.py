"""Stretches of a recording become one file, and lose their oldest steps where they must."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.capture.kineto import kineto, step_of
from weftrace.capture.joined import file_of, stretch_of, without_oldest
from weftrace.errors import TraceError
from weftrace.trace import Trace, find_steps, open_trace

# stretch 1 [ step 5 1000-1100 | step 6 1100-1200 ]   stretch 2 [ step 7 1300-1400 ]
FIRST = stretch_of(kineto(step_of(5, 1000), step_of(6, 1100), trace_id="A"), (5, 6))
SECOND = stretch_of(kineto(step_of(7, 1300), trace_id="B"), (7,))


def read(data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(data))
    return found


def names(summary: dict[str, Any]) -> list[str]:
    return [event["name"] for event in summary["traceEvents"] if event["ph"] == "X" and event["cat"] != "Trace"]


def test_one_list_holds_the_events_of_all_stretches_in_order() -> None:
    summary = read(file_of([FIRST, SECOND], {"weftrace": {"capture.steps": "5-7"}}, "rank0.json.gz"))
    assert names(summary) == [name for n in (5, 6, 7) for name in (f"ProfilerStep#{n}", f"op{n}.0", f"op{n}.1")]
    assert summary["weftrace"] == {"capture.steps": "5-7"}
    assert (summary["trace_id"], summary["traceName"]) == ("B", "rank0.json.gz")


def test_one_stretch_is_as_it_was_written() -> None:
    text = kineto(step_of(5, 1000), step_of(6, 1100))
    summary = read(file_of([stretch_of(text, (5, 6))], {}, "x.json.gz"))
    assert summary == json.loads(text) | {"traceName": "x.json.gz"}


def test_what_torch_says_of_the_world_stays_else_ours_is_added() -> None:
    ours = {"distributedInfo": {"backend": "", "rank": 3, "world_size": 4}}
    theirs = {"backend": "gloo", "rank": 3, "world_size": 4, "pg_count": 1}
    assert read(file_of([FIRST], ours, "x"))["distributedInfo"] == ours["distributedInfo"]
    spoken = stretch_of(kineto(step_of(5, 1000), distributedInfo=theirs), (5,))
    assert read(file_of([spoken], ours, "x"))["distributedInfo"] == theirs


def test_weftrace_reads_the_joined_file(tmp_path: Path) -> None:
    (tmp_path / "rank0.json.gz").write_bytes(file_of([FIRST, SECOND], {}, "rank0.json.gz"))
    trace = open_trace(tmp_path / "rank0.json.gz")
    assert isinstance(trace, Trace) and not trace.quality.dropped and not trace.quality.repaired
    assert find_steps(trace.events)["step"].to_list() == [5, 6, 7]
    assert trace.window_ns is not None and trace.window_ns[1] - trace.window_ns[0] == 400_000


@pytest.mark.parametrize(("number", "steps"), [(0, (5, 6, 7)), (1, (6, 7)), (2, (7,)), (3, ()), (9, ())])
def test_the_oldest_steps_go_first(number: int, steps: tuple[int, ...]) -> None:
    left = without_oldest([FIRST, SECOND], number)
    assert tuple(step for stretch in left for step in stretch.steps) == steps
    if steps:
        assert names(read(file_of(left, {}, "x"))) == [
            name for n in steps for name in (f"ProfilerStep#{n}", f"op{n}.0", f"op{n}.1")
        ]


def test_the_recordings_window_begins_with_the_first_step_that_is_left() -> None:
    summary = read(file_of(without_oldest([FIRST], 1), {}, "x"))
    (window,) = [event for event in summary["traceEvents"] if event.get("cat") == "Trace"]
    assert (window["ts"], window["dur"]) == (1100, 100)
    assert [event["name"] for event in summary["traceEvents"] if event["ph"] == "M"] == ["process_name"]


def test_what_cannot_be_one_file_is_told() -> None:
    with pytest.raises(TraceError, match="base of its times: 1, 2"):
        file_of([stretch_of(kineto(step_of(n, 0), base=n), (n,)) for n in (1, 2)], {}, "x")
    for text in (b"", b"{}", b'{"traceEvents": []}'):
        with pytest.raises(TraceError, match="no events"):
            stretch_of(text, (1,))
    whole = kineto(step_of(5, 0), device=[{"numSms": [1]}])
    for cut in range(1, len(whole)):
        with pytest.raises(TraceError, match="wrote"):
            stretch_of(whole[:-cut], (5,))
    with pytest.raises(TraceError, match="step 9 has no range"):
        without_oldest([stretch_of(kineto(step_of(5, 0)), (5, 9))], 1)
