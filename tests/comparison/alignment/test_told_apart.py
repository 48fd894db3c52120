"""What one run alone has: kernels in each other's place, new ones, gone ones; work that only moved is none of it."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings

from tests.comparison.alignment.frames import Row, diff_of, gap, random_rows, work
from tests.fuzz import examples
from weftrace.comparison.exact_changes import CHANGE_COLUMNS
from weftrace.comparison.explanations import causes

EFFECTS = ("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns")


def summary(before: list[Row], after: list[Row]) -> dict[tuple[str, str], tuple[str, int]]:
    """(kernel, part) -> (status, change_ns)."""
    changes = diff_of(before, after).changes.group_by("kernel", "part", "status").agg(pl.col("change_ns").sum())
    return {(kernel, part): (status, change) for kernel, part, status, change in changes.iter_rows()}


def effects(before: list[Row], after: list[Row]) -> tuple[int, ...]:
    """By number, duration, overlap, kernel; over all."""
    return diff_of(before, after).changes.select(pl.col(EFFECTS).sum()).row(0)


def test_kernels_of_one_operator_and_phase_replace_each_other_and_others_are_new_or_gone() -> None:
    """aten::mm runs b in place of a; aten::add is gone with c; d is new, and launched by nobody known."""
    before = [work("a", "aten::mm", 2, 100), work("c", "aten::add", 1, 30)]
    after = [work("b", "aten::mm", 2, 80), work("d", None, 1, 7)]
    assert summary(before, after) == {
        ("a", "compute"): ("replaced", -200), ("b", "compute"): ("replaced", 160),
        ("c", "compute"): ("gone", -30), ("d", "compute"): ("new", 7),
    }  # fmt: skip


def test_a_kernel_of_another_phase_replaces_nothing_where_both_runs_have_the_phases() -> None:
    before = [work("a", "aten::mm", 1, 100, phase="F"), work("x", "aten::mm", 1, 1, phase="B")]
    after = [work("x", "aten::mm", 1, 1, phase="F"), work("b", "aten::mm", 1, 80, phase="B")]
    assert summary(before, after)["a", "compute"] == ("gone", -100)
    one, other = (
        diff_of(before, [work("b", "aten::mm", 1, 80, phase=None)])
        .changes.filter(pl.col("status") == "replaced")["replaced_in"]
        .unique(),
        ["operator"],
    )  # the later run has no phases: its operator tells
    assert one.to_list() == other


def test_an_all_gather_is_not_replaced_by_an_all_reduce_whoever_launches_both() -> None:
    place = (0, "exposed communication", "data")
    before: list[Row] = [(*place, "all_gather", "g", "record_param_comms", None, 1, 9, 9)]
    after: list[Row] = [(*place, "all_reduce", "r", "record_param_comms", None, 1, 9, 9)]
    assert {status for status, _ in summary(before, after).values()} == {"gone", "new"}


def test_work_that_moved_to_another_operator_is_longer_work_and_no_new_kernel() -> None:
    """Twice 100 ns under aten::mm, then twice 130 under no operator: a CUDA graph, say. + 60 by duration."""
    before, after = [work("a", "aten::mm", 2, 100)], [work("a", None, 2, 130)]
    assert effects(before, after) == (0, 60, 0, 0)
    by_operator = diff_of(before, after).by("operator").sort("change_ns")
    assert by_operator.select("change_ns", "by_number_ns", "by_duration_ns").rows() == [(-200, -200, 0), (260, 200, 60)]


def test_what_moved_within_a_phase_is_told_before_what_moved_between_phases() -> None:
    """F: 100 under mm -> 110 under none; B: 500 under mm -> 400 under none."""
    before = [work("a", "aten::mm", 1, 100), work("a", "aten::mm", 1, 500, phase="B")]
    after = [work("a", None, 1, 110), work("a", None, 1, 400, phase="B")]
    by_phase = diff_of(before, after).by("phase").sort("phase")
    assert by_phase.select("change_ns", "by_number_ns", "by_duration_ns").rows() == [(-100, 0, -100), (10, 0, 10)]


def test_one_more_operator_that_launches_a_known_kernel_is_more_launches() -> None:
    before = [work("a", "aten::mm", 2, 100)]
    after = [work("a", "aten::mm", 2, 100), work("a", "aten::addmm", 1, 100)]
    assert effects(before, after) == (100, 0, 0, 0)


def test_a_gap_before_a_kernel_that_both_have_is_one_more_gap() -> None:
    before = [work("a", "aten::mm", 2, 100)]
    assert effects(before, [*before, gap("a", "aten::mm", 1, 40)]) == (40, 0, 0, 0)


def test_gaps_before_a_kernel_in_anothers_place_are_longer_gaps() -> None:
    """Two gaps of 40 before a; b in its place, two gaps of 70 before it: + 60 by duration. a -> b itself: - 40."""
    before = [work("a", "aten::mm", 2, 100), gap("a", "aten::mm", 2, 40)]
    after = [work("b", "aten::mm", 2, 80), gap("b", "aten::mm", 2, 70)]
    assert effects(before, after) == (0, 60, 0, -40)


def test_gaps_of_another_cause_before_a_kernel_are_no_more_gaps_than_before() -> None:
    """Two gaps of 40 for the host, then two of 25 between kernels: - 30 by duration."""
    before, after = [gap("a", "aten::mm", 2, 40)], [gap("a", "aten::mm", 2, 25, cause="kernel_gap")]
    assert effects(before, after) == (0, -30, 0, 0)
    by_cause = diff_of(before, after).by("cause").sort("change_ns")
    assert by_cause.select("change_ns", "by_number_ns", "by_duration_ns").rows() == [(-80, -80, 0), (50, 80, -30)]


def test_the_end_of_a_step_is_no_kernel() -> None:
    assert effects([gap(None, None, 1, 5)], []) == (-5, 0, 0, 0)


@settings(max_examples=examples(40), deadline=None)
@given(random_rows(), random_rows())
def test_nothing_is_added_or_lost_whatever_both_runs_hold(before: list[Row], after: list[Row]) -> None:
    diff = diff_of(before, after, num_steps=2)
    changes = diff.changes
    assert (changes.select(pl.sum_horizontal(EFFECTS)).to_series() == changes["change_ns"]).all()
    assert (changes["after_ns"] - changes["before_ns"] == changes["change_ns"]).all()
    total = [sum(row[-1] for row in rows) for rows in (before, after)]
    assert [changes["before_ns"].sum(), changes["after_ns"].sum()] == [(each + 1) // 2 for each in total]
    assert changes.select(pl.exclude(*CHANGE_COLUMNS)).is_duplicated().sum() == 0
    of_both = changes.filter(pl.col("status") == "both")
    assert of_both["by_kernel_ns"].to_list() == [0] * of_both.height
    alone = changes.filter(pl.col("status") != "both")
    assert alone.filter((pl.col("before_raw_ns") > 0) & (pl.col("after_raw_ns") > 0)).is_empty()
    replaced = changes.filter(pl.col("status") == "replaced", pl.col("part") != "idle")
    for rows in replaced.partition_by("replacement"):  # someone went, someone came
        assert (rows["before_num"] + rows["before_raw_ns"] > 0).any()
        assert (rows["after_num"] + rows["after_raw_ns"] > 0).any()


@settings(max_examples=examples(15), deadline=None)
@given(random_rows())
def test_a_run_beside_itself_has_no_change_and_nothing_replaced(rows: list[Row]) -> None:
    diff = diff_of(rows, rows, num_steps=2)
    assert diff.changes.filter((pl.col("status") != "both") | (pl.col("change_ns") != 0)).is_empty()
    assert not (diff.alignment.kernels or diff.alignment.operators or diff.alignment.phases)


def test_the_sentence_of_a_cause_says_what_replaced_what_and_what_is_new_or_gone() -> None:
    def said(before: list[Row], after: list[Row]) -> str:
        return causes(diff_of(before, after))[0].sentence

    a, b = work("a_kernel", "aten::mm", 2, 100), work("b_kernel", "aten::mm", 2, 50)
    assert said([a], [b]) == "gemm kernels −100 ns: other kernels of the same operators do it, b_kernel for a_kernel"
    assert said([a], []) == "gemm kernels −200 ns: a_kernel gone"
    elsewhere = work("b_kernel", "aten::addmm", 2, 50)
    assert said([a], [elsewhere]) == "gemm kernels −100 ns: b_kernel new, a_kernel gone"
