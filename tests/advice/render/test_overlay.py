"""The path in its trace: nothing of the original changes, and every slice is a part of the path."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.advice.runs import trace_of, two_streams
from tests.conftest import shared_data_folder
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.render.overlay import COLOURS, PROCESS, annotate_path
from weftrace.errors import AdviceError
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.values import Inferred


def events_of(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    found: list[dict[str, Any]] = json.loads(text, parse_float=Decimal)["traceEvents"]
    return found


def written(inferred: Inferred, out: Path) -> list[dict[str, Any]]:
    annotate_path(inferred, critical_path_of(inferred), out)
    return events_of(out)


def check_slices(inferred: Inferred, events: list[dict[str, Any]]) -> None:
    """The replayed track holds the parts; the measured tracks hold each op of the path where it was measured."""
    path = critical_path_of(inferred)
    own = [event for event in events if event["pid"] == PROCESS]
    slices = [event for event in own if event["ph"] == "X"]

    def times(events: list[dict[str, Any]]) -> list[tuple[int, int, str]]:
        spans = [(int(1000 * event["ts"]), int(1000 * event["dur"])) for event in events]
        return [(start - inferred.origin_ns, start + dur - inferred.origin_ns, event["args"]["class"])
                for (start, dur), event in zip(spans, events, strict=True)]  # fmt: skip

    replayed = times([event for event in slices if event["tid"] == 1])
    assert replayed == path.parts.select("from_ns", "until_ns", "class_").rows()
    assert sum(end - start for start, end, _ in replayed) == path.span_ns
    rows = path.path.get_column("op").to_list()
    measured = inferred.measured.select("start_ns", "end_ns")[rows]
    expected = measured.hstack(path.path.select("class_"))
    assert times([event for event in slices if event["tid"] > 1]) == expected.rows()
    assert {event["cname"] for event in slices} == {COLOURS[event["args"]["class"]] for event in slices}
    check_arrows(path.path, own)


def check_arrows(path: pl.DataFrame, own: list[dict[str, Any]]) -> None:
    """An arrow for each passage from one stream to another, from inside a slice of the one to the other's start, or
    into the wait that had begun before; never back in time."""
    hops = sum(a != b for a, b in zip(path["stream"], path["stream"][1:], strict=False))
    leaving, arriving = ([event for event in own if event["ph"] == ph] for ph in "sf")
    assert len(leaving) == len(arriving) == hops
    slices = [event for event in own if event["ph"] == "X" and event["tid"] > 1]
    starts = {(event["tid"], event["ts"]) for event in slices}
    for tail, head in zip(leaving, arriving, strict=True):
        assert tail["id"] == head["id"] and tail["tid"] != head["tid"] and head["bp"] == "e"
        assert tail["ts"] <= head["ts"]
        assert (head["tid"], head["ts"]) in starts or any(
            e["tid"] == head["tid"] and e["ts"] < head["ts"] == tail["ts"] < e["ts"] + e["dur"] for e in slices
        )
        assert any(e["tid"] == tail["tid"] and e["ts"] <= tail["ts"] < e["ts"] + max(e["dur"], 1) for e in slices)


def test_every_slice_is_a_part_of_the_path(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    events = written(inferred, tmp_path / "annotated.json")
    check_slices(inferred, events)
    tracks = {event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    assert {"thread 0, as measured", "stream 7, as measured"} <= tracks


def test_the_original_stays_and_reads_as_before(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    before = events_of(tmp_path / "trace.json")
    after = written(inferred, tmp_path / "annotated.json.gz")
    assert after[: len(before)] == before
    again = trace_of(tmp_path / "annotated.json.gz")
    assert infer(again).plan.ops.equals(inferred.plan.ops)


def test_a_part_tells_why_it_ran_then_and_what_ran_beside_it(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    slices = [
        event for event in written(inferred, tmp_path / "a.json") if event["pid"] == PROCESS and event["ph"] == "X"
    ]
    launched = next(event for event in slices if event["args"]["reached by"] == "launch")
    assert launched["args"]["waited for"] == "cudaLaunchKernel" and launched["args"]["confidence"] == 1
    assert any("slack" in event["args"].get("beside it", "") for event in slices)


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    text = (tmp_path / "trace.json").read_bytes()
    with pytest.raises(AdviceError, match="stays as it is"):
        annotate_path(inferred, critical_path_of(inferred), tmp_path / "trace.json")
    assert (tmp_path / "trace.json").read_bytes() == text


def test_a_path_is_drawn_once(tmp_path: Path) -> None:
    inferred = two_streams(tmp_path)
    written(inferred, tmp_path / "a.json")
    again = trace_of(tmp_path / "a.json")
    twice = infer(again)
    with pytest.raises(AdviceError, match="already"):
        annotate_path(twice, critical_path_of(twice), tmp_path / "b.json")


def test_a_recorded_trace_is_annotated_slice_by_slice(tmp_path: Path) -> None:
    path = shared_data_folder() / "hta-event-sync-multi-stream.json.gz"
    if not path.exists():
        pytest.skip("no recorded traces here")
    trace = trace_of(path)
    inferred = infer(trace)
    check_slices(inferred, written(inferred, tmp_path / "annotated.json.gz"))


def test_arrows_to_a_thread_that_waited_already_go_forward(tmp_path: Path) -> None:
    path = shared_data_folder() / "hta-mi250-minitoy.json.gz"
    if not path.exists():
        pytest.skip("no recorded traces here")
    inferred = infer(trace_of(path))
    events = written(inferred, tmp_path / "annotated.json.gz")
    check_arrows(critical_path_of(inferred).path, [event for event in events if event["pid"] == PROCESS])
