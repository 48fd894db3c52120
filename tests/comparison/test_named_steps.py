"""Where no steps are recorded, ranges that repeat stand for them: it is said, and only where both runs have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tracefile import GEMM, TraceFile
from weftrace.comparison import diff
from weftrace.comparison.explanations import headline
from weftrace.errors import ComparisonError
from weftrace.trace import Trace
from weftrace.trace.named_steps import with_steps
from weftrace.units import US

ENGINE = "execute_context_{0}({0})_generation_{1}({1})"


def decode(folder: Path, number: int, *, gemm_us: float = 10, named: str | None = ENGINE, inner: bool = False) -> Trace:
    """So many iterations of 100 µs: a copy of the input before two GEMMs, a sampler after the range has ended.

    host    [execute            ]      | 100
    device   [copy 5][gemm 10][gemm 10] [sampler 5]
    """
    file = TraceFile(rank=None)
    for iteration in range(number):
        at = 1000 + 100 * iteration
        if named:
            file.host(named.format(0, 16 + iteration), at, 50)
        if inner:
            file.host("layer", at + 2, 20).host("layer", at + 24, 20)
        file.kernel("Memcpy HtoD (Pinned -> Device)", at + 10, 5, launch=at + 1, cat="gpu_memcpy")
        for n in range(2):
            file.kernel(GEMM, at + 15 + gemm_us * n, gemm_us, launch=at + 3 + n)
        file.kernel("void at::native::reduce_kernel<512>(float)", at + 60, 5, launch=at + 55)
    folder.mkdir(exist_ok=True)
    return file.trace(folder)


def test_iterations_of_an_engine_are_steps(tmp_path: Path) -> None:
    """4 iterations against 7: a step of each is 100 µs, 20 of it GEMMs, 40 after."""
    found = diff(decode(tmp_path / "a", 4), decode(tmp_path / "b", 7, gemm_us=20))
    assert [len(side.steady.steps) + len(side.steady.dropped) for side in (found.before, found.after)] == [4, 7]
    assert [spread.median_ns for spread in found.spans] == [100 * US, 100 * US]
    gemm = found.by("part", "family").filter(part="compute", family="gemm").row(0, named=True)
    assert (gemm["before_ns"], gemm["after_ns"], gemm["by_duration_ns"]) == (20 * US, 40 * US, 20 * US)
    assert found.before.run.notes == (
        "a step is from one range 'execute_context_#(#)_generation_#(#)' to the next",
    )  # fmt: skip
    assert headline(found).startswith("A step takes as long as before")


def test_the_outermost_ranges_are_taken(tmp_path: Path) -> None:
    assert with_steps(decode(tmp_path, 3, inner=True))[1] == "execute_context_#(#)_generation_#(#)"


@pytest.mark.parametrize(
    ("name", "steps"), [("layer", 6), ("execute_*", 3), ("execute_context_#*", 3), ("cudaLaunchKernel", 12)]
)
def test_what_a_user_names(name: str, steps: int, tmp_path: Path) -> None:
    trace = decode(tmp_path, 3, inner=True)
    found = diff(trace, trace, steps_by=name)
    assert len(found.before.ranks[0].steps) == steps


def test_a_name_that_nothing_has_says_what_repeats(tmp_path: Path) -> None:
    trace = decode(tmp_path, 3, inner=True)
    with pytest.raises(ComparisonError, match=r"nothing is named 'forward': .* What repeats: layer, execute_context_"):
        diff(trace, trace, steps_by="forward")
    with pytest.raises(ComparisonError, match=r"one range is named 'execute_context_0.0._generation_16.16.'"):
        diff(trace, trace, steps_by=ENGINE.format(0, 16))


@pytest.mark.parametrize("named", [None, "forward {1}", "step"])
def test_ranges_of_another_name_stand_for_no_steps(named: str | None, tmp_path: Path) -> None:
    found = diff(decode(tmp_path / "a", 4), decode(tmp_path / "b", 4, named=named))
    assert found.before.steady.steps == found.after.steady.steps == ()
    assert found.before.run.notes == found.after.run.notes == ()
    assert found.changes["change_ns"].sum() == found.change_ns == 0


def test_a_profilers_own_steps_count(tmp_path: Path) -> None:
    file = TraceFile()
    for step in range(2):
        at = 1000 * (step + 1)
        file.host(f"ProfilerStep#{step + 5}", at, 1000).host("forward", at, 100).host("forward", at + 200, 100)
        file.kernel(GEMM, at + 20, 10, launch=at + 5).kernel(GEMM, at + 220, 10, launch=at + 205)
    trace = file.trace(tmp_path)
    assert with_steps(trace) == (trace, None)
    assert diff(trace, trace).before.steady.steps[0] == 5
    assert len(diff(trace, trace, steps_by="forward").before.ranks[0].steps) == 4
