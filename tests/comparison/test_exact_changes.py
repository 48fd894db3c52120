"""Changes in whole nanoseconds: each effect by pencil, and sums that leave nothing over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.comparison.written import Step, run
from weftrace.comparison import diff
from weftrace.comparison.exact_changes import CHANGE_COLUMNS, _apportioned
from weftrace.units import US

EFFECTS = tuple(name for name in CHANGE_COLUMNS if name.startswith("by_"))


@pytest.mark.parametrize(
    ("after", "family", "number", "length", "overlap", "kernel"),
    [
        # 3 gemms of 100 µs become 5 of 120: (5 - 3) x (100 + 120) / 2, and (3 + 5) / 2 x (120 - 100)
        (Step(gemms_us=(120,) * 5), "gemm", 220, 80, 0, 0),
        # an all-reduce of 100 µs, 80 exposed, becomes 200, 150 exposed: 100 x (0.8 + 0.75) / 2, the rest is hiding
        (Step(all_reduce_us=200, hidden_us=50), "all_reduce", 0, 77.5, -7.5, 0),
        (Step(gemm="sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x32_cublas"), "gemm", 0, 0, 0, 0),
    ],
)
def test_effects_by_pencil(
    tmp_path: Path, after: Step, family: str, number: float, length: float, overlap: float, kernel: float
) -> None:
    found = diff(run(tmp_path, [Step()] * 2, name="before"), run(tmp_path, [after] * 2, name="after"))
    row = found.by("part", "family").filter(pl.col("part") != "idle", family=family).row(0, named=True)
    assert [row[name] / US for name in EFFECTS] == [number, length, overlap, kernel]
    assert row["change_ns"] == sum(row[name] for name in EFFECTS)


def test_what_one_side_alone_has_is_new_or_gone(tmp_path: Path) -> None:
    before, after = Step(extra={"old_kernel": 40.0}), Step(extra={"new_kernel": 50.0})
    found = diff(run(tmp_path, [before] * 2, name="before"), run(tmp_path, [after] * 2, name="after"))
    rows = {row["kernel"]: row for row in found.by("part", "kernel").iter_rows(named=True) if row["part"] == "compute"}
    assert rows["old_kernel"]["by_kernel_ns"] == rows["old_kernel"]["change_ns"] == -40 * US
    assert rows["new_kernel"]["by_kernel_ns"] == rows["new_kernel"]["change_ns"] == 50 * US
    assert found.change_ns == 10 * US and found.remainder_ns == 0


def test_steps_that_differ_leave_a_remainder_that_is_told(tmp_path: Path) -> None:
    """The median of three steps against their mean: 615, 615, 645 have the mean 625."""
    steps = [Step(), Step(), replace(Step(), attention_us=230), Step()]
    found = diff(run(tmp_path, [Step()] * 4, name="before"), run(tmp_path, steps, name="after"))
    assert found.after.steady.steps == (0, 1, 2)  # the last has no next step to end it
    assert found.change_ns == 0 and found.by("part").item(0, "change_ns") == 10 * US
    assert found.remainder_ns == -10 * US


def test_means_in_whole_numbers_add_up() -> None:
    seeds = np.random.default_rng(7)
    for _ in range(200):
        totals, cells = seeds.integers(0, 1_000, seeds.integers(1, 30)), int(seeds.integers(1, 20))
        whole = _apportioned(totals, cells)
        assert whole.sum() == (2 * int(totals.sum()) + cells) // (2 * cells)  # the mean, halves up
        assert (np.abs(whole - totals / cells) < 1).all()
