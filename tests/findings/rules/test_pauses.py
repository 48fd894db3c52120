"""Pauses of the host, on small made traces: single ones count, periodic ones and those of the first step do not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.findings.rules.test_host import US, evidence_of, fired, launch
from tests.tracefile import TraceFile
from weftrace.advice.findings.advising import replays_of
from weftrace.advice.findings.rules.host import host_bound
from weftrace.advice.findings.rules.pauses import gc_pause, recompilation


def paused(pauses: Mapping[int, float], *, name: str = "", cat: str = "cpu_op", steps: int = 8) -> TraceFile:
    """Steps of two kernels of 5 ms, launched 50 µs after the one before has ended; before the second one of some steps
    the host does something else for so many µs."""
    file, at = TraceFile(), 0.0
    for step in range(steps):
        begin = at
        for kernel in range(2):
            at += 49
            us = pauses.get(step, 0.0) if kernel else 0.0
            if us and name:
                file.host(name, at - 20, us, cat=cat)
            at += us
            launch(file, at, at + 1, 5_000, op=5)
            at += 5_001
        file.host(f"ProfilerStep#{step}", begin, at - begin - 10)
    return file


def test_a_recorded_collection(tmp_path: Path) -> None:
    evidence = evidence_of(paused({4: 12_000}, name="Python GC", cat="python_gc"), tmp_path)
    one = fired(list(gc_pause(evidence)))
    assert one.cost_ns == 12_000 * US and one.confidence == "high"
    assert "for 12 ms in step 4" in one.sentence.replace("12.0", "12")
    assert one.where.step == 4
    gain, _ = replays_of(evidence).gain_of(one)
    assert gain is not None and gain.high_ns == 12_000 * US // 8
    assert list(host_bound(evidence)) == []


def test_a_single_silent_stretch_is_likely_a_collection(tmp_path: Path) -> None:
    evidence = evidence_of(paused({5: 14_000}), tmp_path)
    one = fired(list(gc_pause(evidence)))
    assert 14_000 * US <= one.cost_ns <= 14_050 * US and one.confidence == "low"
    assert list(host_bound(evidence)) == []


def test_a_pause_within_a_phase_is_no_work_of_the_host(tmp_path: Path) -> None:
    file = paused({2: 14_000}, steps=3)
    file.host("DistributedDataParallel.forward", 0, 60_000)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(gc_pause(evidence)))
    assert 14_000 * US <= one.cost_ns <= 14_050 * US and one.where.step == 2
    assert list(host_bound(evidence)) == []


def test_silence_that_is_periodic_has_another_cause(tmp_path: Path) -> None:
    often = {step: 9_000 + 1_000.0 * step for step in range(1, 8, 2)}
    assert list(gc_pause(evidence_of(paused(often), tmp_path))) == []


def test_short_collections_are_not_told(tmp_path: Path) -> None:
    assert list(gc_pause(evidence_of(paused({4: 300}, name="Python GC", cat="python_gc"), tmp_path))) == []


def test_code_is_compiled_again(tmp_path: Path) -> None:
    evidence = evidence_of(paused({0: 20_000, 6: 8_000}, name="_compile.compile_inner (dynamo_timed)"), tmp_path)
    one = fired(list(recompilation(evidence)))
    assert one.cost_ns == 8_000 * US and one.where.step == 6 and "in step 6" in one.sentence


def test_compilation_in_the_first_step_is_warm_up(tmp_path: Path) -> None:
    file = paused({0: 20_000}, name="_compile.compile_inner (dynamo_timed)")
    assert list(recompilation(evidence_of(file, tmp_path))) == []


def test_a_module_is_loaded_in_the_sample(tmp_path: Path) -> None:
    file = paused({3: 5_000}, name="cuModuleLoadData", cat="cuda_driver")
    assert fired(list(recompilation(evidence_of(file, tmp_path)))).cost_ns == 5_000 * US


def test_a_kernel_is_tuned_in_the_sample(tmp_path: Path) -> None:
    """60 launches of 50 µs, with the cache cleared before each, in step 5 alone."""
    file, at = TraceFile(), 0.0
    for step in range(8):
        begin = at
        for _ in range(60 if step == 5 else 1):
            file.kernel("Memset (Device)", at + 10, 10, launch=at + 1, cat="gpu_memset")
            file.kernel("_flash_fwd", at + 20, 50, launch=at + 3)
            at += 60
        launch(file, at + 5, at + 11, 2_000, op=4)
        at += 2_020
        file.host(f"ProfilerStep#{step}", begin, at - begin - 10)
    evidence = evidence_of(file, tmp_path)
    one = fired(list(recompilation(evidence)))
    assert one.sentence.startswith("_flash_fwd is launched 60 times in step 5")
    assert one.cost_ns == (59 * 60 + 50) * US and one.where.step == 5 and one.where.kernels == ("_flash_fwd",)


def test_a_kernel_of_every_layer_is_not_tuned(tmp_path: Path) -> None:
    file, at = TraceFile(), 0.0
    for step in range(6):
        begin = at
        for _ in range(30):
            for name in ("a", "b", "c") if step == 4 else ("d", "e", "f"):
                file.kernel(f"triton_{name}", at + 10, 50, launch=at + 3)
                at += 60
        file.host(f"ProfilerStep#{step}", begin, at - begin - 10)
    assert list(recompilation(evidence_of(file, tmp_path))) == []


def test_silence_before_a_module_is_loaded_is_its_compilation(tmp_path: Path) -> None:
    file = paused({4: 14_000})
    loads = next(event["ts"] for event in file.events if event["name"] == "ProfilerStep#4") + 14_000 + 5_000
    file.host("cuModuleLoadData", loads, 60, cat="cuda_driver")
    evidence = evidence_of(file, tmp_path)
    one = fired(list(recompilation(evidence)))
    assert 14_000 * US <= one.cost_ns <= 14_050 * US and one.where.step == 4
    assert list(gc_pause(evidence)) == []
