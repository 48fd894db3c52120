"""Everything about one rank and about a job."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.analyses import analysed
from tests.analysis.random_traces import few_rules, random_work, traces
from tests.fuzz import examples
from tests.trace.strategies import traces as hostile_traces
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile, collective
from weftrace.analysis import Analysis, RankAnalysis, analyze_rank
from weftrace.errors import TraceError
from weftrace.report.document import document_of
from weftrace.trace import Trace, events_frame, open_trace, works_of


def rank_file(rank: int, *, world_size: int = 2, late: float = 0) -> TraceFile:
    file = TraceFile(rank=rank, world_size=world_size).kernel(GEMM, 100, 50 + rank)
    return file.kernel(ALL_REDUCE, 140 + late, 40, stream=20, **collective("allreduce"), Seq=1)


def job_of(folder: Path, *files: TraceFile) -> Analysis:
    for number, file in enumerate(files):
        file.write(folder / f"trace{number}.json")
    return analysed(open_trace(folder), workers=1)


def test_one_trace(tmp_path: Path) -> None:
    trace = rank_file(1).trace(tmp_path)
    analysis = analysed(trace)
    (rank,) = analysis.ranks
    assert (rank.rank, rank.world_size, rank.device, rank.num_sms, rank.device_name) == (1, 2, 0, 132, "NVIDIA H800")
    assert (rank.basis, rank.step, rank.simulated) == ("device", None, False)
    assert (analysis.failures, analysis.clocks) == ((), ())
    assert analysis.notes == ()
    assert analysed(tmp_path / "trace.json").ranks[0].breakdown == rank.breakdown == analyze_rank(trace).breakdown


def test_a_job_in_order_of_rank(tmp_path: Path) -> None:
    analysis = job_of(tmp_path, rank_file(1, late=30), rank_file(0))
    assert [rank.rank for rank in analysis.ranks] == [0, 1]
    assert analysis.world_size == 2
    assert [(clock.rank, clock.offset_ns) for clock in analysis.clocks] == [(0, 0), (1, 30_000)]
    assert analysis.notes == ()


def test_two_files_of_one_rank_are_both_told_and_noted(tmp_path: Path) -> None:
    analysis = job_of(tmp_path, rank_file(0), rank_file(1), rank_file(1, late=500))
    assert [rank.rank for rank in analysis.ranks] == [0, 1, 1]
    assert analysis.notes == (
        "several files say that they are rank 1: trace2.json is in no sum and shown by itself, "
        "the first by name counts",
    )
    assert [rank.apart is None for rank in analysis.ranks] == [True, True, False]
    assert [clock.offset_ns for clock in analysis.clocks] == [0, 0]  # the first of the two


def test_absent_ranks_and_files_of_different_runs_are_noted(tmp_path: Path) -> None:
    analysis = job_of(tmp_path, rank_file(0, world_size=4), rank_file(1, world_size=4))
    assert analysis.notes == ("2 of 4 ranks have no file here: sums and means are over those that have",)
    (note,) = job_of(tmp_path, rank_file(0, world_size=2), rank_file(1, world_size=4)).notes
    assert "world sizes 2, 4" in note


def test_ranks_of_another_world_and_files_without_device_work_are_in_no_sum(tmp_path: Path) -> None:
    # ranks 0 and 1 of 2 wait 30 of 90 µs exposed; rank 2 is of a world of 8, and rank 3's file holds the host alone
    host = TraceFile(rank=3, world_size=2).host("aten::mm", 0, 9_000, cat="cpu_op")
    files = (rank_file(0), rank_file(1), rank_file(2, world_size=8, late=9_000), host)
    analysis = job_of(tmp_path, *files)
    assert [rank.apart is None for rank in analysis.ranks] == [True, True, False, False]
    assert analysis.world_size == 2 and [clock.rank for clock in analysis.clocks] == [0, 1]
    assert analysis.notes == (
        "rank 3 (trace3.json) holds no device work: in no sum and shown by itself",
        "files of different jobs? they record world sizes 2, 8: rank 2 (trace2.json) is in no sum and shown by itself",
    )
    alone = tmp_path / "alone"
    alone.mkdir()
    two = job_of(alone, rank_file(0), rank_file(1))
    headline = document_of(analysis)["headline"]
    assert headline.startswith(document_of(two)["headline"])
    assert headline.endswith(" Left out: rank 2 (trace2.json), rank 3 (trace3.json).")


def test_a_job_of_the_host_alone_is_summed_up(tmp_path: Path) -> None:
    files = [TraceFile(rank=rank, world_size=2).host("aten::mm", 0, 50, cat="cpu_op") for rank in (0, 1)]
    assert [rank.apart for rank in job_of(tmp_path, *files).ranks] == [None, None]


def test_devices_of_one_process(tmp_path: Path) -> None:
    # stream 7 of device 0 and stream 7 of device 1 are different streams
    trace = TraceFile().kernel(GEMM, 100, 50).kernel(GEMM, 120, 50, device=1).trace(tmp_path)
    first, second = analysed(trace).ranks
    assert (first.device, second.device) == (0, 1)
    assert first.breakdown.span_ns == second.breakdown.span_ns == 50_000
    assert first.quality.overlapping == 0
    assert analysed(trace).notes == ()  # one file, whatever it says of its rank and of the world
    with pytest.raises(TraceError, match=r"trace\.json: holds work of devices 0, 1"):
        analyze_rank(trace)


def test_an_unknown_step_of_a_trace_is_an_error_and_of_a_job_a_failure(tmp_path: Path) -> None:
    trace = rank_file(0).host("ProfilerStep#3", 0, 500).trace(tmp_path)
    assert analysed(trace, step=3).ranks[0].step == 3
    with pytest.raises(TraceError, match="no step 4"):
        analysed(trace, step=4)
    rank_file(1).write(tmp_path / "trace1.json")
    analysis = analysed(open_trace(tmp_path), step=3, workers=1)
    assert [rank.rank for rank in analysis.ranks] == [0]
    assert "trace1.json: no step 3" in analysis.failures[0].error


def test_nothing_to_analyse() -> None:
    (rank,) = analysed(Trace(events=events_frame({}, 0))).ranks
    assert rank.basis == "none"
    assert rank.quality.verdict == "doubtful"


def test_a_cpu_only_trace_stands_on_its_operators(tmp_path: Path) -> None:
    # thread 1  [aten::linear 0-100, with aten::mm 10-90 inside]     [gloo:all_reduce 150-200]
    # thread 2                    [aten::add 60-160]                  hides 10 of it
    file = TraceFile().host("aten::linear", 0, 100, cat="cpu_op").host("aten::mm", 10, 80, cat="cpu_op")
    file.host("gloo:all_reduce", 150, 50).host("aten::add", 60, 100, cat="cpu_op", tid=2)
    (rank,) = analysed(file.trace(tmp_path)).ranks
    assert (rank.basis, rank.device) == ("host", None)
    b = rank.breakdown
    assert (b.compute_ns, b.communication_ns, b.hidden_communication_ns) == (160_000, 50_000, 10_000)
    assert b.span_ns == 200_000
    assert rank.kernels.kernels["name"].to_list() == ["aten::add", "aten::linear", "gloo:all_reduce"]
    assert rank.queueing.num_linked == 0 and rank.queueing.delay_p50_ns is None


def test_results_are_values_without_events(tmp_path: Path) -> None:
    file = rank_file(0)
    for number in range(3000):
        file.kernel(GEMM, 200 + number, 0.5)
    trace = file.trace(tmp_path)
    size = len(pickle.dumps(analyze_rank(trace)))
    # Two unions of 3,000 stretches among it: when the lane and the device ran.
    assert size < 6000 * 20 + 2 * 3000 * 24 < len(trace) * 100


def account(rank: RankAnalysis) -> None:
    """What must hold of every rank, whatever the trace."""
    b, o = rank.breakdown, rank.overlap
    assert b.span_ns == b.compute_ns + b.exposed_communication_ns + b.exposed_memory_ns + b.idle_ns
    assert b.hidden_communication_ns + b.exposed_communication_ns == b.communication_ns == o.communication_ns
    assert o.exposed.total_ns == o.exposed_ns == b.exposed_communication_ns
    assert rank.idle.idle_ns == b.idle_ns >= 0
    assert (rank.phases["hidden_ns"] + rank.phases["exposed_ns"]).to_list() == rank.phases["communication_ns"].to_list()
    assert all(sum(row) >= hidden for row, hidden in zip(o.matrix.ns, o.matrix.hidden_ns, strict=True))
    assert 0 <= rank.headroom.headroom_ns <= b.span_ns
    assert sum(rank.kernels.streams["num_events"]) == sum(rank.kernels.kernels["num_events"])


@settings(max_examples=examples(30))
@given(hostile_traces())
def test_no_trace_is_too_broken_to_account_for(trace: Trace) -> None:
    for work in works_of(trace, rules=few_rules()):
        account(analyze_rank(work))


@settings(max_examples=examples(15))
@given(traces())
def test_parts_agree_and_do_not_depend_on_chance(trace: Trace) -> None:
    first, second = (analyze_rank(random_work(trace)) for _ in range(2))
    account(first)
    assert pickle.dumps(first.breakdown) == pickle.dumps(second.breakdown)
    for part in ("phases", "phase_means", "arrivals"):
        assert getattr(first, part).equals(getattr(second, part))
    for table in ("kernels", "families", "streams", "unnamed"):
        assert getattr(first.kernels, table).equals(getattr(second.kernels, table))
    assert first.overlap.matrix.ns == second.overlap.matrix.ns
    assert first.overlap.collectives.equals(second.overlap.collectives)
    assert all(a.boxes.equals(b.boxes) for a, b in zip(first.lanes, second.lanes, strict=True))
    assert first.idle.by_stream.equals(second.idle.by_stream)
    assert first.queueing.host_blocked.equals(second.queueing.host_blocked)
    assert (first.headroom, first.steps, first.quality) == (second.headroom, second.steps, second.quality)
