"""Where the time went: by pencil, and on random traces against a bitmap."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from tests.analysis.random_traces import bits, device_events, of_kind, random_work, traces
from tests.fuzz import examples
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.analysis import breakdown
from weftrace.analysis.time_account import account_of
from weftrace.trace import Trace, events_frame
from weftrace.units import US


def test_by_pencil(tmp_path: Path) -> None:
    # µs          100  110  120  130  140  150  160  170  180
    # stream 7      [GEMM 100-120]      [GEMM 140-150]
    # stream 20          [all-reduce 110-135]
    # stream 0                                [copy 145-160]        [copy 170-180]
    file = TraceFile().kernel(GEMM, 100, 20).kernel(ALL_REDUCE, 110, 25, stream=20).kernel(GEMM, 140, 10)
    file.kernel("Memcpy DtoH (Device -> Pinned)", 145, 15, stream=0, cat="gpu_memcpy")
    file.kernel("Memcpy HtoD (Pinned -> Device)", 170, 10, stream=0, cat="gpu_memcpy")
    b = breakdown(file.trace(tmp_path))
    assert b.start_ns == 100 * US
    assert b.span_ns == 80 * US
    assert b.compute_ns == 30 * US
    assert b.communication_ns == 25 * US
    assert b.hidden_communication_ns == 10 * US  # 110-120
    assert b.exposed_communication_ns == 15 * US  # 120-135
    assert b.memory_ns == 25 * US
    assert b.exposed_memory_ns == 20 * US  # 150-160, 170-180
    assert b.busy_ns == 65 * US
    assert b.idle_ns == 15 * US  # 135-140, 160-170
    assert b.serial_ns == 80 * US
    assert b.hidden_fraction == 10 / 25
    assert b.overlap_speedup == 80 / 65


def test_memory_under_communication_is_not_exposed(tmp_path: Path) -> None:
    # stream 20  [all-reduce 0-10]
    # stream 7        [memset 5-15]     only 10-15 is exposed memory
    b = breakdown(
        TraceFile()
        .kernel(ALL_REDUCE, 100, 10, stream=20)
        .kernel("Memset (Device)", 105, 10, cat="gpu_memset")
        .trace(tmp_path)
    )
    assert (b.compute_ns, b.exposed_communication_ns, b.exposed_memory_ns, b.idle_ns) == (0, 10 * US, 5 * US, 0)


def test_without_communication_the_hidden_part_is_undefined(tmp_path: Path) -> None:
    b = breakdown(TraceFile().kernel(GEMM, 0, 10, linked=False).trace(tmp_path))
    assert b.hidden_fraction is None
    assert b.overlap_speedup == 1
    assert b.span_ns == b.compute_ns == 10 * US


def test_only_copies(tmp_path: Path) -> None:
    b = breakdown(TraceFile().kernel("Memset (Device)", 100, 3, cat="gpu_memset").trace(tmp_path))
    assert b.span_ns == b.exposed_memory_ns == b.memory_ns == 3 * US
    assert b.compute_ns == b.communication_ns == b.idle_ns == 0


def test_only_communication_is_all_exposed(tmp_path: Path) -> None:
    b = breakdown(TraceFile().kernel(ALL_REDUCE, 100, 3).kernel(ALL_REDUCE, 110, 3).trace(tmp_path))
    assert b.exposed_communication_ns == b.communication_ns == 6 * US
    assert b.hidden_fraction == 0
    assert b.idle_ns == 7 * US


def test_events_of_no_length_extend_the_span_and_nothing_else(tmp_path: Path) -> None:
    b = breakdown(TraceFile().kernel(GEMM, 100, 0).kernel(GEMM, 110, 5).kernel(GEMM, 120, 0).trace(tmp_path))
    assert (b.span_ns, b.busy_ns, b.idle_ns) == (20 * US, 5 * US, 15 * US)
    nothing = breakdown(TraceFile().kernel(GEMM, 100, 0).trace(tmp_path))
    assert (nothing.span_ns, nothing.busy_ns, nothing.overlap_speedup) == (0, 0, None)


def test_an_empty_trace_accounts_for_nothing() -> None:
    b = breakdown(Trace(events=events_frame({}, 0)))
    assert (b.span_ns, b.busy_ns, b.idle_ns, b.serial_ns) == (0, 0, 0, 0)
    assert b.hidden_fraction is b.overlap_speedup is None


@pytest.mark.parametrize("stream", [0, 7])
def test_stream_0_is_a_stream_as_any_other(tmp_path: Path, stream: int) -> None:
    assert breakdown(TraceFile().kernel(GEMM, 100, 5, stream=stream).trace(tmp_path)).compute_ns == 5 * US


@settings(max_examples=examples(30))
@given(traces())
def test_accounts_agree_with_a_bitmap_and_add_up(trace: Trace) -> None:
    work = random_work(trace)
    events = device_events(trace)
    compute, communication, memory = (of_kind(events, kind) for kind in ("compute", "communication", "memory"))
    b = breakdown(work)
    assert b.span_ns == events["end_ns"].max() - events["start_ns"].min()  # type: ignore[operator]
    assert b.busy_ns == bits(events).sum()
    assert b.compute_ns == compute.sum()
    assert b.communication_ns == communication.sum()
    assert b.memory_ns == memory.sum()
    assert b.hidden_communication_ns == (communication & compute).sum()
    assert b.exposed_communication_ns == (communication & ~compute).sum()
    assert b.exposed_memory_ns == (memory & ~compute & ~communication).sum()
    assert b.serial_ns == sum(events["end_ns"] - events["start_ns"])
    assert b.span_ns == b.compute_ns + b.exposed_communication_ns + b.exposed_memory_ns + b.idle_ns
    assert account_of(work).busy.total_ns == b.busy_ns
    assert work.events.height == events.height  # nothing lost, nothing twice
