"""The first sentence names the largest change and its cause: a run changed in one known way, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.jobs import Job
from tests.comparison.written import ATTENTION, Step, run
from tests.tracefile import ALL_REDUCE, GEMM, TraceFile
from weftrace.comparison import diff
from weftrace.comparison.explanations import _as_long, causes, headline
from weftrace.trace import Trace
from weftrace.units import US

BEFORE = Step()

SAID = {
    "nothing": (
        BEFORE,
        "Nothing changed: a step takes 615 µs in both.",
    ),
    "gemm longer": (
        replace(BEFORE, gemms_us=(130, 130, 130)),
        "A step takes 90.0 µs longer (615 µs → 705 µs, +14.6 %): gemm kernels +90.0 µs, they take 1.30 times as long.",
    ),
    "fewer gemms": (
        replace(BEFORE, gemms_us=(100, 100)),
        "A step takes 100 µs less (615 µs → 515 µs, −16.3 %): gemm kernels −100 µs, 3 → 2 kernels a step.",
    ),
    "hidden": (
        replace(BEFORE, hidden_us=90),
        "A step takes 70.0 µs less (615 µs → 545 µs, −11.4 %): exposed all-reduce −70.0 µs, more of it hidden: "
        "20.0 % → 90.0 %, the kernels take as long as before.",
    ),
    "host": (
        replace(BEFORE, host_us=80),
        "A step takes 50.0 µs longer (615 µs → 665 µs, +8.1 %): idle time in which the host had launched nothing, "
        "before gemm kernels: +50.0 µs, they last 2.43 times as long.",
    ),
    "gemm longer, and hides more": (
        replace(BEFORE, gemms_us=(130, 130, 130), hidden_us=60),
        "A step takes 50.0 µs longer (615 µs → 665 µs, +8.1 %): gemm kernels +90.0 µs, they take 1.30 times as long; "
        "against it, exposed all-reduce −40.0 µs, more of it hidden: 20.0 % → 60.0 %, the kernels take as long as "
        "before.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_is_said(name: str, tmp_path: Path) -> None:
    after, said = SAID[name]
    found = diff(run(tmp_path, [BEFORE] * 4, name="before"), run(tmp_path, [after] * 4, name="after"))
    assert headline(found) == said
    assert found.remainder_ns == 0
    assert sum(cause.change_ns for cause in causes(found)) == found.change_ns


def test_what_makes_up_for_a_change_is_told_where_a_step_is_as_long(tmp_path: Path) -> None:
    after = replace(BEFORE, gemms_us=(80, 80, 80), attention_us=260)
    found = diff(*(run(tmp_path, _varied(s), name=name) for s, name in ((BEFORE, "before"), (after, "after"))))
    assert headline(found).split("; ", 1)[1] == (
        "but attention kernels +60.0 µs, they take 1.30 times as long; against it, gemm kernels −60.0 µs, they take "
        "0.80 times as long."
    )


def _varied(step: Step) -> list[Step]:
    """Ten steps whose all-reduces scatter."""
    return [replace(step, all_reduce_us=100 + 7 * (at * 3 % 5), hidden_us=20) for at in range(10)]


def test_another_copy_is_named(tmp_path: Path) -> None:
    after = replace(BEFORE, copy_us=50)
    found = diff(run(tmp_path, [BEFORE] * 4, name="before"), run(tmp_path, [after] * 4, name="after"))
    assert headline(found).endswith(": copies (memcpy-h2d) with no kernel beside them +50.0 µs: Memcpy HtoD new.")


def _job(folder: Path, late: dict[int, int], *, number: int = 4) -> Path:
    """late: rank -> µs that it works longer in each step; -1: another rank in each step."""
    job = Job(number)
    for job.step in range(8):
        for rank in range(number):
            one = job.step % number if -1 in late else rank
            job.work(rank, (1000 + (late.get(-1, 0) if one == rank and -1 in late else late.get(rank, 0))) * US)
        job.meet(range(number), 100 * US)
    return job.write(folder)


def test_another_rank_late_in_each_step_is_told_without_a_name(tmp_path: Path) -> None:
    found = diff(_job(tmp_path / "before", {}), _job(tmp_path / "after", {-1: 400}), workers=1)
    assert headline(found).split(": ", 1)[1].startswith("ranks wait 300 µs more for late ones, most for rank ")


def test_a_rank_that_is_late_in_the_place_of_another(tmp_path: Path) -> None:
    found = diff(_job(tmp_path / "before", {1: 400}), _job(tmp_path / "after", {3: 400}), workers=1)
    assert headline(found).endswith(
        "but ranks wait 300 µs less for rank 1, which was late; against it, ranks wait 300 µs more for rank 3, which "
        "is late."
    )


def _behind(folder: Path, late_us: int) -> Path:
    """Four ranks, each step, in µs; rank 1 begins its second gemm later, and the second all-reduce waits behind the
    first, in which the others wait for it.

             0 [gemm 100][gemm 300]        400
    0, 2, 3            [all-reduce][200]                as the first ends, 200 later with rank 1
    """
    folder.mkdir()
    for rank in range(4):
        file = TraceFile(rank=rank, world_size=4)
        for step in range(6):
            at = 1000.0 + (410 + late_us) * step
            own = 100 + (late_us if rank == 1 else 0)
            meets = 100 + late_us
            file.kernel(GEMM, at, own, launch=at)
            file.kernel(GEMM, at + own, 300, launch=at)
            for number, (start, end) in enumerate(((own, meets + 100), (meets + 100, meets + 300))):
                names: dict[str, Any] = {
                    "Collective name": "allreduce", "In msg nelems": 1024, "Group size": 4, "Process Group Name": "0",
                    "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 2 * step + number,
                }  # fmt: skip
                file.kernel(ALL_REDUCE, at + start, end - start, launch=at + 1, stream=20, **names)
            file.host(f"ProfilerStep#{step}", at - 1, 400 + late_us)
        file.write(folder / f"rank{rank}.json")
    return folder


def test_waiting_behind_computation_is_told_where_it_leaves_other_communication_exposed(tmp_path: Path) -> None:
    """The last all-reduce of the others is exposed as rank 1 is late, though all of their waiting is hidden."""
    found = diff(_behind(tmp_path / "before", 0), _behind(tmp_path / "after", 200), workers=1)
    assert headline(found).startswith(
        "A step takes 200 µs longer (410 µs → 610 µs, +48.8 %): exposed all-reduce +150 µs, less of it hidden: "
    )
    second = headline(found).partition(" as long as before. ")[2]
    assert second == (
        "Behind computation, ranks wait 150 µs more for rank 1, which is late: that leaves less of it to hide other "
        "communication."
    )


def _with_gaps(folder: Path, gap_us: int, host_us: int) -> Trace:
    """Steps of six kernels of two families, gap_us before each, launched in time; before the first, a late host."""
    file, at = TraceFile(), 1000.0
    for step in range(4):
        start = at
        at += host_us
        file.kernel(GEMM, at, 100, launch=at - 1)
        for name in (GEMM, ATTENTION) * 3:
            at += 100 + gap_us
            file.kernel(name, at, 100, launch=start + host_us)
        at += 100
        file.host(f"ProfilerStep#{step}", start, at - start - 2)
    folder.mkdir()
    return file.trace(folder)


def test_the_length_told_of_gaps_is_theirs_and_not_that_of_all_idle_time(tmp_path: Path) -> None:
    """Six gaps of 20 µs become 5 µs, −90 µs; the host is late by 7 µs more, so idle time is 83 µs less."""
    found = diff(_with_gaps(tmp_path / "before", 20, 50), _with_gaps(tmp_path / "after", 5, 57))
    assert "idle time between kernels that follow each other −90.0 µs, most of it before " in headline(found)


def test_all_that_changed_is_told_where_no_effect_leads(tmp_path: Path) -> None:
    """An all-reduce that takes 2.5 times as long, more of it hidden: 80 µs exposed, then 105 µs."""
    after = replace(BEFORE, all_reduce_us=250, hidden_us=145)
    found = diff(run(tmp_path, [BEFORE] * 4, name="before"), run(tmp_path, [after] * 4, name="after"))
    assert headline(found).endswith(
        ": exposed all-reduce +25.0 µs, they take 2.50 times as long, 20.0 % → 58.0 % of it hidden."
    )


def test_a_small_change_is_not_told_as_one_time_as_long() -> None:
    assert _as_long(100, 130) == "1.30 times as long"
    assert _as_long(100_000, 100_200) == "1.0020 times as long"
    assert _as_long(100_000, 100_200, same="as long as before") == "as long as before"
