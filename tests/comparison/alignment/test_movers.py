"""Movers: who changed, at every level, in rows that add up to the step's change."""

from __future__ import annotations

import io
import re
from typing import get_args

import polars as pl
import pytest
from hypothesis import given, settings
from rich.console import Console

from tests.comparison.alignment.frames import Row, diff_of, gap, random_rows, work
from tests.fuzz import examples
from weftrace.comparison.alignment.movers import MOVER_SCHEMA, Level, movers_of
from weftrace.comparison.document import diff_report
from weftrace.comparison.render.terminal import print_diff
from weftrace.errors import WeftraceError

LEVELS = get_args(Level)
SAID = ("name", "status", "replaced_by", "matched_by", "change_ns")


def said(before: list[Row], after: list[Row], level: Level = "kernel") -> list[tuple[object, ...]]:
    return movers_of(diff_of(before, after), level).select(SAID).rows()


def test_kernels_in_each_others_place_are_one_row_with_what_the_operator_gained() -> None:
    """Under aten::mm, 2 x 100 of a and 1 x 10 of b went, 3 x 50 of c came: - 60."""
    before = [work("a", "aten::mm", 2, 100), work("b", "aten::mm", 1, 10)]
    row = movers_of(diff_of(before, [work("c", "aten::mm", 3, 50)]), "kernel").row(0, named=True)
    assert {name: row[name] for name in SAID} == {
        "name": "a", "status": "replaced", "replaced_by": "c", "matched_by": "operator and phase", "change_ns": -60,
    }  # fmt: skip
    assert (row["before_names"], row["after_names"]) == (["a", "b"], ["c"])
    assert (row["before_ns"], row["after_ns"], row["by_kernel_ns"], row["replaced_ns"]) == (210, 150, -60, -60)
    assert (row["before_num"], row["after_num"], row["before_mean_ns"], row["after_mean_ns"]) == (3, 3, 70, 50)


def test_a_kernel_replaced_in_one_operator_and_gone_in_another_is_two_rows() -> None:
    before = [work("a", "aten::mm", 2, 100), work("a", "aten::addmm", 1, 100)]
    assert said(before, [work("b", "aten::mm", 2, 90)]) == [
        ("a", "gone", None, None, -100), ("a", "replaced", "b", "operator and phase", -20)
    ]  # fmt: skip


def test_a_kernel_with_another_tile_is_one_kernel_and_the_rule_is_said() -> None:
    one, other = "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_NTT"
    assert said([work(one, "aten::mm", 2, 100)], [work(other, "aten::mm", 2, 90)]) == [
        (other, "both", None, "tile sizes", -20)
    ]


def test_kernels_that_a_compiler_counted_anew_are_summed_and_not_paired() -> None:
    """One more kernel at the front moves all numbers: 3 of 10 ns and 4 of 100 become 4 and 5."""
    names = [f"triton_poi_fused_add_{number}" for number in (3, 4, 5)]
    before = [work(names[0], names[0], 1, 10), work(names[1], names[1], 1, 100)]
    after = [work(names[1], names[1], 1, 10), work(names[2], names[2], 1, 100)]
    assert said(before, after) == [("triton_poi_fused_add_…", "both", None, "compile number", 0)]
    assert said(before, after, "operator") == [("triton_poi_fused_add_…", "both", None, "compile number", 0)]


def test_a_compilers_kernel_more_is_new() -> None:
    before = [work("triton_poi_fused_add_3", None, 1, 10)]
    found = said(before, [*before, work("triton_poi_fused_add_4", None, 1, 7)])
    assert ("triton_poi_fused_add_4", "new", None, None, 7) in found


def test_names_that_differ_in_what_may_be_another_operation_need_an_operator_that_both_have() -> None:
    """softmax and log_softmax differ in a template argument."""
    one, other = "void softmax_warp<float, false>(int)", "void softmax_warp<float, true>(int)"
    assert said([work(one, "aten::softmax", 1, 9)], [work(other, "aten::softmax", 1, 9)])[0][3] == "template arguments"
    for operators in (("aten::softmax", "aten::log_softmax"), (None, None), ("aten::softmax", None)):
        rows = said([work(one, operators[0], 1, 9)], [work(other, operators[1], 1, 9)])
        assert {row[1] for row in rows} == {"new", "gone"}


def test_a_name_under_operators_that_contradict_is_not_matched() -> None:
    before = [work("void f<4, int>(int)", "aten::add", 1, 9)]
    assert {row[1] for row in said(before, [work("void f<8, int>(int)", "aten::sub", 1, 9)])} == {"new", "gone"}


def test_phases_and_operators_that_carry_numbers_of_steps_are_one() -> None:
    before = [work("a", "aten::mm", 1, 10, phase=f"iteration {at}") for at in (1, 2)]
    after = [work("a", "aten::mm", 1, 11, phase=f"iteration {at}") for at in (2, 3)]
    assert said(before, after, "phase") == [("iteration …", "both", None, "step number", 2)]


def test_a_run_of_more_steps_has_no_new_phase_by_their_numbers_but_by_another_part_of_the_model() -> None:
    before = [work("a", "aten::mm", 1, 10, phase=name) for name in ("step 1", "step 2", "conv1")]
    after = [*before, *(work("a", "aten::mm", 1, 10, phase=name) for name in ("step 3", "conv2"))]
    assert sorted(said(before, after, "phase")) == [
        ("conv1", "both", None, "name", 0), ("conv2", "new", None, None, 10),
        ("step …", "both", None, "step number", 10),
    ]  # fmt: skip


def test_layers_that_one_model_has_more_are_new() -> None:
    before = [work("a", "aten::mm", 1, 10, phase=f"layer {at}") for at in (0, 1)]
    after = [work("a", "aten::mm", 1, 10, phase=f"layer {at}") for at in (0, 1, 2)]
    assert said(before, after, "phase")[0] == ("layer 2", "new", None, None, 10)


def test_gaps_stand_under_what_ends_them_apart_from_its_work() -> None:
    before = [work("a", "aten::mm", 2, 100), gap("a", "aten::mm", 2, 40)]
    after = [work("a", "aten::mm", 2, 100), gap("a", "aten::mm", 2, 70)]
    movers = movers_of(diff_of(before, after), "family")
    assert movers.select("part", "cause", "name", "change_ns", "by_duration_ns").rows() == [
        ("idle", "host_wait", "gemm", 60, 60), ("compute", None, "gemm", 0, 0)
    ]  # fmt: skip


def test_what_varies_more_within_a_run_is_noise_and_one_step_does_not_tell() -> None:
    before = [work("a", "aten::mm", 1, 1000 + at % 3, step=at) for at in range(9)]
    before += [work("b", "aten::mm", 1, 1000 + 300 * (at % 3), step=at) for at in range(9)]
    after = [work("a", "aten::mm", 1, 1100 + at % 3, step=at) for at in range(9)]
    after += [work("b", "aten::mm", 1, 1010 + 300 * (at % 3), step=at) for at in range(9)]
    movers = movers_of(diff_of(before, after, num_steps=9), "kernel")
    assert dict(movers.select("name", "is_noise").iter_rows()) == {"a": False, "b": True}
    one = movers_of(diff_of(before[:1], after[:1]), "kernel")
    assert one.get_column("is_noise").to_list() == [None]


def test_of_rows_that_did_not_change_the_largest_stand_first() -> None:
    rows = [work("a", "aten::mm", 1, 10), work("b", "aten::mm", 1, 30), work("c", "aten::mm", 1, 20)]
    assert movers_of(diff_of(rows, rows), "kernel")["name"].to_list() == ["b", "c", "a"]


def test_another_level_is_refused() -> None:
    with pytest.raises(WeftraceError, match="level='stream': movers are listed by family, kernel, operator, phase"):
        movers_of(diff_of([], []), "stream")  # type: ignore[arg-type]


@settings(max_examples=examples(25), deadline=None)
@given(random_rows(), random_rows())
def test_rows_add_up_to_the_nanosecond_at_every_level(before: list[Row], after: list[Row]) -> None:
    diff = diff_of(before, after, num_steps=2)
    parts = diff.by("part", "cause").select("part", "cause", "change_ns").sort("part", "cause").rows()
    for level in LEVELS:
        movers = movers_of(diff, level)
        assert movers.schema == MOVER_SCHEMA
        assert movers.select("part", "cause", "name", "status").is_unique().all()
        assert movers.group_by("part", "cause").agg(pl.col("change_ns").sum()).sort("part", "cause").rows() == parts
        effects = movers.select(pl.sum_horizontal("by_number_ns", "by_duration_ns", "by_overlap_ns", "by_kernel_ns"))
        assert effects.to_series().to_list() == movers["change_ns"].to_list()
        summary = movers.select(pl.sum_horizontal("replaced_ns", "new_ns", "gone_ns")).to_series()
        assert summary.to_list() == movers["by_kernel_ns"].to_list()
        for side, rows in (("before", before), ("after", after)):
            known = {row[{"family": 3, "kernel": 4, "operator": 5, "phase": 6}[level]] for row in rows}
            assert set(movers[f"{side}_names"].explode().drop_nulls()) <= known


def test_the_terminal_names_both_of_kernels_in_each_others_place_however_long() -> None:
    one, other = (f"void library::{word}<{'128, ' * 30}128>(int)" for word in ("first", "second"))
    found = diff_of([work(one, "aten::mm", 2, 100_000)], [work(other, "aten::mm", 2, 80_000)])
    console = Console(width=90, file=io.StringIO())
    print_diff(diff_report(found), console)
    summary = console.file.getvalue()  # type: ignore[attr-defined]
    assert re.search(r"first.* → .*second.* −40", summary)
