"""Memory over time, by pencil: the peak, what was alive there to the byte, fragmentation, and what a file may lack."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import weftrace as wt
from tests.memory.recordings import CPU, HIP, MemoryFile, training
from tests.saved_documents import run
from tests.tracefile import GEMM, TraceFile
from weftrace.analysis.memory import MemoryUse, memory_use
from weftrace.analysis.memory.curves import CHANGE_SCHEMA, bounded_curve
from weftrace.errors import TraceError
from weftrace.memory import memory_of
from weftrace.trace import read_chrome, work_of
from weftrace.units import US


def uses(file: TraceFile, folder: Path, **how: Any) -> tuple[MemoryUse, ...]:
    return memory_use(work_of(file.trace(folder), **how))


def test_the_peak_and_who_was_alive_there_to_the_byte(tmp_path: Path) -> None:
    (use,) = uses(training(), tmp_path)
    assert (use.device, use.num_events, use.first_bytes, use.last_bytes) == ("CUDA 0", 5, 1_000, 1_000)
    assert (use.peak_bytes, use.peak_ns, use.is_relative) == (1_500, 20 * US, False)
    assert use.alive.select("operator", "phase", "num_blocks", "alive_bytes").rows() == [
        ("(before the recording)", None, None, 700), ("aten::mm", "forward", 1, 600), ("aten::add", "forward", 1, 200),
    ]  # fmt: skip
    assert use.alive.get_column("share").sum() == pytest.approx(1)


def test_fragmentation_is_what_is_reserved_and_not_allocated(tmp_path: Path) -> None:
    (use,) = uses(training(), tmp_path)
    assert (use.reserved_bytes, use.fragmented_bytes, use.most_reserved_bytes) == (2_000, 500, 2_000)
    assert (use.most_fragmented_bytes, use.most_fragmented_ns) == (1_300, -5 * US)


def test_a_peak_at_the_beginning_is_told(tmp_path: Path) -> None:
    (use,) = uses(MemoryFile(before=900).change(20, 7, -400).kernel(GEMM, 20, 9), tmp_path)
    assert (use.peak_bytes, use.last_bytes) == (900, 500)
    assert use.alive.rows() == [("(before the recording)", None, None, 900, 1.0)]
    assert use.curve.get_column("allocated_bytes").to_list() == [900, 500]


def test_devices_of_cuda_hip_and_the_cpu_stand_apart(tmp_path: Path) -> None:
    file = MemoryFile().change(15, 1, 700, device_type=HIP).kernel(GEMM, 20, 9)
    file.allocated = 0
    hip, cpu = uses(file.change(16, 1, 50, device_type=CPU, device=-1), tmp_path)
    assert (hip.device, hip.peak_bytes, cpu.device, cpu.peak_bytes) == ("HIP 0", 700, "CPU", 50)
    assert cpu.reserved_bytes is cpu.fragmented_bytes is cpu.most_fragmented_ns is None
    assert cpu.alive.item(0, "operator") == "(no operator)"


def test_a_file_without_sums_counts_from_its_start_and_lost_frees_are_told(tmp_path: Path) -> None:
    file = MemoryFile().kernel(GEMM, 20, 9).change(15, 1, 100, sums=False).change(16, 1, -100, sums=False)
    (use,) = uses(file.change(17, 2, 40, sums=False), tmp_path)
    assert (use.is_relative, use.peak_bytes, use.last_bytes, use.reserved_bytes) == (True, 100, 40, None)
    lost = MemoryFile().kernel(GEMM, 20, 9).change(15, 1, 100)
    lost.allocated = 0  # its free was not recorded
    (use,) = uses(lost.change(16, 1, 80).change(17, 2, 70), tmp_path)
    assert (use.peak_bytes, use.alive.get_column("alive_bytes").sum()) == (150, 150)


def test_of_a_step_the_peak_is_within_it_and_its_blocks_may_be_older(tmp_path: Path) -> None:
    file = training().host("ProfilerStep#1", 5, 50).host("ProfilerStep#2", 55, 50).kernel(GEMM, 130, 9, launch=65)
    (use,) = uses(file, tmp_path, step=2)
    assert (use.num_events, use.first_bytes, use.peak_bytes) == (1, 900, 1_000)
    assert dict(use.alive.select("operator", "alive_bytes").rows()) == {
        "(before the recording)": 700, "aten::add": 200, "(no operator)": 100,
    }  # fmt: skip


def test_a_long_curve_is_bounded_and_keeps_its_highest_and_lowest() -> None:
    number = 50_000
    allocated = pl.int_range(number, eager=True) * 7919 % 100_003
    changes = pl.DataFrame(
        {"time_ns": pl.int_range(number, eager=True) * 1_000, "address": allocated, "bytes": allocated,
         "allocated_bytes": allocated, "reserved_bytes": allocated + 5}, schema=CHANGE_SCHEMA,
    )  # fmt: skip
    for most in (1_440, 60):
        curve = bounded_curve(changes, most)
        assert curve.height <= most
        assert curve.get_column("time_ns").is_sorted() and curve.item(-1, "time_ns") == 1_000 * (number - 1)
        for extreme in ("max", "min"):
            kept, whole = (getattr(each.get_column("allocated_bytes"), extreme)() for each in (curve, changes))
            assert kept == whole


def test_a_report_and_the_command_tell_it_and_only_where_there_is_any(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = training().write(tmp_path / "trace.json")
    run("report", path, "-o", tmp_path / "report.json")
    assert "At most 1.5 KiB allocated, 20.0 µs after the start of the span" in capsys.readouterr().out
    report = wt.load(tmp_path / "report.json")
    assert report.document["ranks"][0]["memory"][0]["peak_bytes"] == 1_500
    run("memory", path, "-o", tmp_path / "memory.json", "-o", tmp_path / "alive.csv", "-o", tmp_path / "memory.svg")
    text = " ".join(capsys.readouterr().out.split())
    assert "CUDA 0: at most 1.5 KiB allocated; 46.7 % of it was allocated before the recording." in text
    assert wt.load(tmp_path / "memory.json").devices[0].alive.equals(memory_of(str(path)).devices[0].alive)
    bare = TraceFile().kernel(GEMM, 20, 9).write(tmp_path / "bare.json")
    assert "memory" not in wt.analyze(bare).document["ranks"][0]
    with pytest.raises(TraceError, match="profile_memory=True"):
        memory_of(str(bare))


def test_the_peak_of_a_recorded_run_is_the_sum_of_known_tensors(tmp_path: Path) -> None:
    """Two tensors of 4 MB stand, a third of 8 MB comes and goes, then one of 2 MB comes: 16 MB at most."""
    torch = pytest.importorskip("torch")
    profiler = torch.profiler
    gc.collect()
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = [torch.empty(1_000_000, dtype=torch.float32) for _ in range(2)]
        with torch.autograd.profiler.record_function("largest"):
            largest = torch.zeros(2_000_000, dtype=torch.float32)
        del largest
        kept.append(torch.empty(500_000, dtype=torch.float32))
    recorded.export_chrome_trace(str(tmp_path / "trace.json"))
    (cpu,) = memory_of(str(tmp_path / "trace.json")).devices
    assert (cpu.device, cpu.peak_bytes - cpu.first_bytes) == ("CPU", 16_000_000)
    assert cpu.last_bytes - cpu.first_bytes == 10_000_000
    held = cpu.alive.filter(pl.col("operator").str.starts_with("aten::"))
    assert held.get_column("alive_bytes").sum() == 16_000_000
    assert ("aten::zeros", "largest", 8_000_000) in held.select("operator", "phase", "alive_bytes").rows()
    assert read_chrome(tmp_path / "trace.json").memory is not None
