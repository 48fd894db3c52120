"""The verdict on a rank's numbers, and what it rests on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.analysis import Quality, quality
from weftrace.trace import ReadQuality, Trace, events_frame, job, work_of, works_of


def twenty(*, unlinked: int = 0) -> TraceFile:
    file = TraceFile()
    for number in range(20):
        file.kernel(GEMM, 100 + 10 * number, 5, linked=number >= unlinked)
    return file


def verdict(trace: Trace, unnamed_share: float | None = None) -> tuple[str, str]:
    q = quality(trace, unnamed_share=unnamed_share)
    return q.verdict, "; ".join(q.notes)


def test_good(tmp_path: Path) -> None:
    trace = twenty().trace(tmp_path)
    assert quality(trace) == Quality(
        verdict="good", dropped=0, repaired=0, clipped=0, unlinked=0, unnamed_share=0.0, overlapping=0, out_of_window=0,
        skipped={}, truncated=None, unused={}, notes=(),
    )  # fmt: skip


@pytest.mark.parametrize(("unlinked", "expected"), [(1, "usable"), (2, "usable"), (3, "doubtful")])
def test_unlinked_events_are_told_and_a_tenth_is_too_many(tmp_path: Path, unlinked: int, expected: str) -> None:
    found, notes = verdict(twenty(unlinked=unlinked).trace(tmp_path))
    assert found == expected
    assert f"{unlinked} of 20 device events have no launch" in notes


def test_a_simulated_trace_needs_no_launches(tmp_path: Path) -> None:
    trace = replace(twenty(unlinked=20).trace(tmp_path), simulated=True)
    assert verdict(trace) == ("good", "simulated by weftrace, not measured")


def test_of_a_step_only_its_own_events_count(tmp_path: Path) -> None:
    file = twenty(unlinked=3).host("ProfilerStep#1", 200, 60)  # launches of the last events, from 210 on
    q = quality(work_of(file.trace(tmp_path), step=1))
    assert (q.verdict, q.unlinked) == ("good", 0)


@pytest.mark.parametrize(("dropped", "expected"), [(3, "usable"), (5, "doubtful")])
def test_dropped_events(tmp_path: Path, dropped: int, expected: str) -> None:
    read = ReadQuality(dropped={"negative duration": dropped}, examples={"negative duration": "mm dur=-1"})
    found, notes = verdict(replace(twenty().trace(tmp_path), quality=read))  # 40 are kept
    assert found == expected
    assert notes == f"{dropped} events dropped: negative duration; first: mm dur=-1"


def test_one_event_is_told_in_the_singular(tmp_path: Path) -> None:
    read = ReadQuality(dropped={"negative duration": 1}, examples={"negative duration": "mm dur=-1"})
    assert verdict(replace(twenty().trace(tmp_path), quality=read))[1].startswith("1 event dropped: ")


def test_repaired_and_truncated(tmp_path: Path) -> None:
    trace = twenty().trace(tmp_path)
    assert verdict(replace(trace, quality=ReadQuality(repaired={"NaN": 2})))[0] == "usable"
    found, notes = verdict(replace(trace, quality=ReadQuality(truncated="gzip ends early")))
    assert found == "doubtful" and "gzip ends early" in notes


@pytest.mark.parametrize(("share", "expected"), [(0.0, "good"), (0.02, "good"), (0.1, "usable"), (0.4, "doubtful")])
def test_unnamed_share(tmp_path: Path, share: float, expected: str) -> None:
    found, notes = verdict(twenty().trace(tmp_path), unnamed_share=share)
    assert found == expected
    assert expected == "good" or f"{100 * share:.0f} % of compute time" in notes


def test_clipped_and_out_of_window(tmp_path: Path) -> None:
    file = TraceFile(window=True)  # 0 to 1 s
    for number in range(20):
        file.kernel(GEMM, 100 + 10 * number, 5)
    q = quality(file.kernel(GEMM, 5_000_000, 1).kernel(GEMM, 90_000_000, 1).trace(tmp_path))
    assert (q.out_of_window, q.verdict) == (2, "usable")
    q = quality(file.kernel(GEMM, 90_000_010, 1).trace(tmp_path))
    assert (q.out_of_window, q.verdict) == (3, "doubtful")
    file = TraceFile(window=True).kernel(GEMM, 100, 9_000_000).kernel(GEMM, 200, 5)
    q = quality(file.trace(tmp_path))
    assert (q.clipped, q.verdict) == (1, "usable")


def test_overlap_on_a_stream_is_a_remark_and_no_fault(tmp_path: Path) -> None:
    found, notes = verdict(TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 108, 10).trace(tmp_path))
    assert found == "good"
    assert "1 events start before their predecessor" in notes


def test_host_operators_and_nothing(tmp_path: Path) -> None:
    host = TraceFile().host("aten::mm", 0, 10, cat="cpu_op").trace(tmp_path)
    assert verdict(host)[0] == "doubtful"
    assert "host operators replace them" in verdict(host)[1]
    assert verdict(Trace(events=events_frame({}, 0))) == (
        "doubtful", "no device events and no host operators: nothing to account for",
    )  # fmt: skip


def two_in_one(**second: object) -> TraceFile:
    """Two devices' GEMMs of 10 µs, one after the other on each; all events say device 0 and stream 7."""
    file = TraceFile()
    for number in range(10):
        file.kernel(GEMM, 100 + 10 * number, 10)
        file.kernel(GEMM, 103 + 10 * number, 4)
        file.events[-1] |= second
    return file


def test_two_devices_merged_onto_one_are_doubted_aloud(tmp_path: Path) -> None:
    # stream 7   [GEMM 100-110][GEMM 110-120] ...   a stream finishes its events in order,
    # stream 7      [103-107]     [113-117]   ...   so these ran elsewhere
    result = quality(two_in_one().trace(tmp_path))
    assert result.verdict == "doubtful"
    assert result.notes[0] == (
        "several devices may be merged onto device 0: 10 of 20 events end before an earlier event of their stream does"
    )
    notes = quality(two_in_one(pid=1).trace(tmp_path)).notes[0]
    assert notes == "several devices may be merged onto device 0: its events are in the tracks of devices 0, 1"


def test_a_device_that_two_processes_launch_on_is_doubted(tmp_path: Path) -> None:
    file = TraceFile().kernel(GEMM, 100, 10).kernel(GEMM, 110, 10)
    for event in file.events:
        if event["cat"] == "cuda_runtime" and event["ts"] == 100:
            event["pid"] = 2
    (note,) = quality(file.trace(tmp_path)).notes
    assert note == "several devices may be merged onto device 0: processes 1, 2 launch on it"


def test_overlap_that_a_device_has_by_itself_is_not_doubted(tmp_path: Path) -> None:
    # Programmatic dependent launch: each starts before its predecessor has ended, and ends after it.
    file = TraceFile()
    for number in range(20):
        file.kernel(GEMM, 100 + 10 * number, 14)
    assert quality(file.trace(tmp_path)).verdict == "good"
    # Branches of a graph share a stream in the record.
    file = TraceFile().host("cudaGraphLaunch", 0, 1, cat="cuda_runtime", correlation=5)
    for number in range(10):
        for start, dur, node in ((100, 10, number), (103, 4, 90 + number)):
            file.kernel(GEMM, start + 10 * number, dur, linked=False)
            file.events[-1]["args"] |= {"correlation": 5, "graph id": 1, "graph node id": node}
    assert quality(file.trace(tmp_path)).verdict == "good"


def test_no_recorded_trace_is_taken_for_several_devices(recorded_traces: list[Path]) -> None:
    for path in recorded_traces:
        for work in works_of(job.read(path)):
            assert not any("merged" in note for note in quality(work).notes), path


@pytest.mark.parametrize(("late_us", "expected"), [(0, "doubtful"), (4_000, "usable")])
def test_unrecorded_time_is_counted_and_a_fifth_of_idle_is_too_much(
    tmp_path: Path, late_us: int, expected: str
) -> None:
    """A kernel that was launched at 20 µs starts at 600, and nothing tells why; the last one is launched late."""
    file = TraceFile().kernel(GEMM, 50, 50, launch=10).kernel(GEMM, 600, 100, launch=20)
    q = quality(file.kernel(GEMM, 720 + late_us, 100, launch=710 + late_us).trace(tmp_path))
    assert (q.verdict, q.unrecorded_ns) == (expected, 500_000)
    assert q.unrecorded_share == pytest.approx(500 / (520 + late_us))
    assert "of the time that looks idle) are unrecorded" in q.notes[0] and "record every event" in q.notes[0]
