"""Iterations of serving engines: their device work, gaps and rates, by pencil. Times of the pictures are µs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import weftrace as wt
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis import Intervals, engine_kinds, engine_steps
from weftrace.trace import work_of
from weftrace.units import US


def engine() -> TraceFile:
    """host    0 prefill 20   100 decode 120  122-123 sampling   200 decode 220
    device        50 ████ 90       150 ████ 190  195 █ 200            250 ██ 270  280 ██ 290"""
    file = TraceFile().host("execute_context_2(6000)_generation_0(0)", 0, 20)
    file.kernel(GEMM, 50, 40, launch=10)  # runs after the range of the host has ended
    file.host("execute_context_0(0)_generation_32(32)", 100, 20)
    file.kernel(GEMM, 150, 40, launch=110, call="cudaGraphLaunch").kernel(GEMM, 195, 5, launch=122)
    file.host("execute_context_0(0)_generation_16(16)", 200, 20)
    file.kernel(GEMM, 250, 20, launch=205).kernel(GEMM, 280, 10, launch=206)
    return file


def told(frame: pl.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Rows of some columns, times in µs."""
    times = [pl.col(name) // US for name in names if name.endswith("_ns")]
    return frame.with_columns(times).select(names).rows()


def test_device_work_is_of_the_iteration_that_launched_it(tmp_path: Path) -> None:
    rows = engine_steps(engine().trace(tmp_path))
    assert told(rows, "kind", "start_ns", "window_ns", "busy_ns", "num_launches", "num_graphs", "gap_ns") == [
        ("prefill", 0, 40, 40, 1, 0, 60),
        ("decode", 100, 40, 40, 1, 1, 60),
        ("decode", 200, 40, 30, 2, 0, None),
    ]
    assert rows.get_column("unrecorded_ns").null_count() == 3
    assert wt.analysis.engine_steps is engine_steps


def test_rates_of_each_kind(tmp_path: Path) -> None:
    kinds = engine_kinds(engine().trace(tmp_path))
    assert told(kinds, "kind", "num_steps", "device_ns", "median_ns", "busy_ns", "gap_ns") == [
        ("decode", 2, 80, 40, 70, 60),
        ("prefill", 1, 40, 40, 40, 60),
        ("outside", 0, 5, None, 5, None),  # the sampler, launched between two iterations
    ]
    decode, prefill = kinds.row(0, named=True), kinds.row(1, named=True)
    assert decode["output_tokens_per_s"] == pytest.approx(48 / 80e-6)
    assert prefill["prefill_tokens_per_s"] == pytest.approx(6_000 / 40e-6)
    assert (
        decode["most_output_tokens_per_s"] is decode["prefill_tokens_per_s"] is prefill["output_tokens_per_s"] is None
    )


def test_unrecorded_time_is_left_out_of_rates(tmp_path: Path) -> None:
    work = work_of(engine().trace(tmp_path))
    lost = Intervals(*(np.array([work.start_ns + at * US]) for at in (130, 160)))  # from 130: 10 in the decode's window
    assert told(engine_steps(work, unrecorded=lost), "unrecorded_ns") == [(0,), (10,), (0,)]
    decode = engine_kinds(work, unrecorded=lost).row(0, named=True)
    assert decode["output_tokens_per_s"] == pytest.approx(48 / 70e-6)


def test_a_window_that_overlaps_the_one_before_counts_once(tmp_path: Path) -> None:
    """█████████ 50-90: the first decode; its successor's copy runs from 60, its kernel 90-130. 80 µs for 64 tokens."""
    file = TraceFile().host("step[DECODE bs=32]", 0, 20).kernel(GEMM, 50, 40, launch=10)
    file.host("step[DECODE bs=32]", 30, 20)
    file.kernel("Memcpy HtoD (Pinned -> Device)", 60, 2, cat="gpu_memcpy", stream=9, launch=31)
    trace = file.kernel(GEMM, 90, 40, launch=35).trace(tmp_path)
    assert told(engine_steps(trace), "window_ns", "overlap_ns", "gap_ns") == [(40, None, 0), (70, 30, None)]
    assert engine_kinds(trace).item(0, "output_tokens_per_s") == pytest.approx(64 / 80e-6)


def test_with_speculation_the_rate_has_two_ends(tmp_path: Path) -> None:
    file = TraceFile().host("decode[bs=32 tok=128 d=32 spec=3]", 0, 20).kernel(GEMM, 50, 100, launch=10)
    (row,) = engine_kinds(file.trace(tmp_path)).to_dicts()
    assert row["kind"] == "verify"
    assert (row["output_tokens_per_s"], row["most_output_tokens_per_s"]) == pytest.approx((320_000, 1_280_000))


def test_what_names_do_not_tell_is_in_no_rate(tmp_path: Path) -> None:
    """Two steps of 100 µs, one of which does not tell how many of its requests decode."""
    file = TraceFile().host("step[MIXED bs=4 c=1 g=3 c_sq=500 g_sq=3]", 0, 20).kernel(GEMM, 50, 100, launch=10)
    file.host("step[MIXED bs=4]", 200, 20).kernel(GEMM, 250, 100, launch=210)
    file.host("execute_new_1_cached_3", 400, 20).kernel(GEMM, 450, 100, launch=410)
    mixed, unknown = engine_kinds(file.trace(tmp_path)).to_dicts()
    assert (mixed["prefill_tokens_per_s"], mixed["output_tokens_per_s"]) == pytest.approx((5_000_000, 30_000))
    assert (unknown["kind"], unknown["requests"], unknown["output_tokens_per_s"]) == ("not told", 4, None)


def test_nothing_without_an_engine_or_a_device(tmp_path: Path) -> None:
    plain = TraceFile().host("forward", 0, 20).kernel(GEMM, 50, 10, launch=5).trace(tmp_path)
    host = TraceFile().host("step[DECODE bs=32]", 0, 20).host("aten::mm", 1, 2, cat="cpu_op").trace(tmp_path)
    for trace in (plain, host):
        assert engine_steps(trace).is_empty() and engine_kinds(trace).is_empty()


def test_of_a_stretch_of_time_only_its_iterations(tmp_path: Path) -> None:
    work = work_of(engine().trace(tmp_path))
    part = work.between(work.start_ns + 90 * US, work.start_ns + 160 * US)
    assert told(engine_steps(part), "kind", "start_ns") == [("decode", 10)]


def test_unrecorded_time_is_that_of_the_account(tmp_path: Path) -> None:
    """A decode step of two kernels in one graph, with 300 µs between them that no node fills."""
    file = TraceFile().host("execute_context_0(0)_generation_4(4)", 0, 50)
    file.kernel(GEMM, 20, 100, launch=5, call="cudaGraphLaunch")
    file.events.append({**file.events[-1], "ts": 420, "dur": 80})
    (row,) = engine_steps(file.trace(tmp_path)).to_dicts()
    assert (row["window_ns"], row["unrecorded_ns"]) == (480_000, 300_000)
