"""Copies and fills, by pencil: bytes over the time in which one ran, beside the peak that bounds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.copy_rates import copies
from weftrace.facts import hardware
from weftrace.trace import work_of
from weftrace.units import MIB, US

H800 = hardware("H800")
PINNED = "Memcpy HtoD (Pinned -> Device)"
WITHIN = "Memcpy DtoD (Device -> Device)"


def copied(file: TraceFile, name: str, ts: float, dur: float, num_bytes: int | None, stream: int = 7) -> TraceFile:
    args: dict[str, Any] = {} if num_bytes is None else {"bytes": num_bytes}
    category = "gpu_memset" if name.startswith("Memset") else "gpu_memcpy"
    return file.kernel(name, ts, dur, cat=category, stream=stream, **args)


def rows(file: TraceFile, folder: Path) -> list[dict[str, Any]]:
    return copies(work_of(file.trace(folder))).to_dicts()


def test_bytes_over_the_time_in_which_one_ran(tmp_path: Path) -> None:
    """Two copies of 2 MiB overlap, 20 to 120 and 70 to 170: 150 µs. A small one of 100 bytes takes 10 µs more, and one
    without a size 40 µs."""
    file = copied(copied(TraceFile(), PINNED, 20, 100, 2 * MIB), PINNED, 70, 100, 2 * MIB, stream=8)
    copied(copied(file, PINNED, 200, 10, 100), PINNED, 300, 40, None).kernel(GEMM, 400, 10)
    (row,) = rows(file, tmp_path)
    assert (row["direction"], row["memory"], row["num_calls"], row["num_unsized"]) == ("HtoD", "Pinned -> Device", 4, 1)
    assert (row["moved_bytes"], row["median_bytes"], row["busy_ns"]) == (4 * MIB + 100, 2 * MIB, 200 * US)
    assert row["GBps"] == pytest.approx((4 * MIB + 100) / 160_000)
    assert row["large_GBps"] == pytest.approx(4 * MIB / 150_000)
    assert row["bound"] == "PCIe" and row["note"] is None


def test_a_copy_within_the_device_is_read_and_written(tmp_path: Path) -> None:
    file = copied(copied(TraceFile(), WITHIN, 20, 10, 8 * MIB), "Memset (Device)", 50, 20, 8 * MIB)
    fill, within = rows(file, tmp_path)
    assert within["peak_share"] == pytest.approx(2 * 8 * MIB / 10e-6 / H800.hbm_bytes_per_s)
    assert fill["peak_share"] == pytest.approx(8 * MIB / 20e-6 / H800.hbm_bytes_per_s)
    assert (fill["direction"], fill["peak_GBps"]) == ("memset", H800.hbm_bytes_per_s / 1e9)


def test_small_copies_have_no_share_and_a_rate_above_the_peak_has_its_sentence(tmp_path: Path) -> None:
    """512 KiB in 0.1 µs, as rounded times may say: twice that is 10,486 GB/s."""
    (row,) = rows(copied(TraceFile(), WITHIN, 20, 0.1, MIB // 2), tmp_path)
    assert row["peak_share"] is None and "above the peak" in row["note"]


def test_directions_of_peers_and_names_that_do_not_tell(tmp_path: Path) -> None:
    file = copied(copied(TraceFile(), "Memcpy PtoP (Device -> Device)", 20, 10, MIB), "Memcpy HtoH", 50, 20, MIB)
    file.kernel("__amd_rocclr_copyBuffer.kd", 100, 30)
    found = {(row["direction"], row["bound"]): row for row in rows(file, tmp_path)}
    assert found.keys() == {("PtoP", "link"), ("other", None)}
    other = found["other", None]
    assert (other["num_calls"], other["num_unsized"], other["peak_GBps"]) == (2, 1, None)


def test_nothing_is_told_of_an_unknown_chip_or_a_host(tmp_path: Path) -> None:
    file = copied(TraceFile(), PINNED, 20, 0, 2 * MIB)  # no time either
    file.facts["deviceProperties"][0]["name"] = "Some Accelerator"
    (row,) = rows(file, tmp_path)
    assert row["GBps"] is row["peak_GBps"] is row["peak_share"] is None
    assert rows(TraceFile().host("aten::mm", 0, 10, cat="cpu_op"), tmp_path) == []


def test_a_copy_that_is_cut_by_a_window_counts_whole(tmp_path: Path) -> None:
    work = work_of(copied(copied(TraceFile(), PINNED, 20, 100, 2 * MIB), PINNED, 220, 100, MIB).trace(tmp_path))
    start = work.start_ns
    (row,) = copies(work.between(start, start + 50 * US)).to_dicts()
    assert (row["moved_bytes"], row["busy_ns"]) == (2 * MIB, 100 * US)
