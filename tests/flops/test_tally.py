"""Sums of a report's operators, against a pencil; and that they add up whatever the report is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flops.small_reports import FREE, MODULES, OPS, TINY, UNTIMED, B, F, O, R, huge, matmul, op, unknown
from tests.fuzz import examples
from weftrace.costs.cost import NOTHING, PHASES, Phase, Status
from weftrace.errors import FlopsError
from weftrace.flops.derived.coverage import coverage
from weftrace.flops.derived.params import module_params, params
from weftrace.flops.derived.tally import exclusive, global_factor, inclusive, total, totals
from weftrace.flops.values import FlopsReport, Module, OpCount, Parallel


def test_exclusive_by_pencil() -> None:
    own = exclusive(TINY)
    assert set(own) == {(1, F), (1, B), (2, F), (2, B), (3, F), (3, B), (4, F), (4, O)}
    assert (own[1, F].flops, own[1, F].moved_bytes, own[1, F].calls) == (192, 272, 1)  # the view is no call
    assert (own[3, B].flops, own[3, B].read_bytes, own[3, B].written_bytes, own[3, B].calls) == (192, 320, 128, 2)
    assert (own[2, F].flops, own[2, F].vector_flops) == (0, 24)
    assert (own[4, F].calls, own[4, F].unknown_calls, own[4, F].moved_bytes) == (1, 1, 28)
    assert (own[4, O].vector_flops, own[4, O].calls) == (96, 2)


def test_inclusive_by_pencil() -> None:
    whole = inclusive(TINY)
    assert (whole[0, F].flops, whole[0, B].flops) == (288, 384)
    assert whole[0, F].vector_flops == 24
    assert whole[0, F].macs == 144
    assert (0, O) not in whole  # the optimizer is outside the model's tree
    assert whole[4, F] == exclusive(TINY)[4, F]


def test_totals_by_pencil() -> None:
    step = totals(TINY)
    assert (step.flops, step.full_flops, step.executed_flops, step.vector_flops) == (672, 672, 672, 24 + 24 + 96)
    assert step.moved_bytes == 272 + 272 + 192 + 288 + 184 + 448 + 28 + 768
    assert set(step.by_phase) == {F, B, O}
    assert total(TINY, [F]).flops == 288
    assert total(TINY) == step.step


def test_recomputation_is_executed_and_is_not_the_models() -> None:
    again = replace(TINY, ops=(*OPS, op(1, R, "aten.mm.default", matmul(192, 176, 96))))
    assert (totals(again).flops, totals(again).executed_flops) == (672, 672 + 192)


def test_four_totals_stay_apart() -> None:
    cost = matmul(10, 0, 0, full_flops=20, executed_flops=12)
    step = totals(replace(TINY, ops=(op(1, F, "attention", cost, calls=3),)))
    assert (step.flops, step.full_flops, step.executed_flops, step.vector_flops) == (30, 60, 36, 0)


def test_sums_beyond_64_bits_are_exact() -> None:
    cost = matmul(2**62 + 1, 2**62 + 3, 0)
    step = totals(replace(TINY, ops=(op(1, F, "mm", cost, calls=2**10 + 1),)))
    assert step.flops == (2**62 + 1) * (2**10 + 1)
    assert step.moved_bytes == (2**62 + 3) * (2**10 + 1)


def test_global_work_of_replicas_and_of_shards() -> None:
    replicas = replace(TINY, parallel=Parallel(data=4))
    assert totals(replicas, "global").flops == 4 * 672
    sharded = replace(TINY, parallel=Parallel(tensor=4), global_ops=(op(1, F, "mm", matmul(768, 0, 0)),))
    assert totals(sharded, "global").flops == 768
    assert totals(sharded).flops == 672


def test_global_work_of_merged_ranks() -> None:
    assert global_factor(replace(TINY, ranks=4, parallel=Parallel(data=2, tensor=4))) == 2
    assert global_factor(replace(TINY, ranks=4)) == 1  # nothing is known of other ranks
    with pytest.raises(FlopsError, match="3 of 8 ranks were merged"):
        total(replace(TINY, ranks=3, parallel=Parallel(data=8)), scope="global")


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(FlopsError, match="no scope 'everywhere'"):
        exclusive(TINY, "everywhere")


def test_coverage_by_pencil() -> None:
    found = coverage(TINY)
    known = 272 + 272 + 192 + 288 + 184 + 448 + 768
    assert found.calls == pytest.approx(9 / 10)
    assert found.moved_bytes == pytest.approx(known / (known + 28))
    # the step of median length: fc1 110+110, act 20+30, fc2 60+90, outside forward 5 (all of it unknown), optimizer
    # 41; root 12: no operator
    assert found.time == pytest.approx(1 - 5 / (110 + 110 + 20 + 30 + 60 + 90 + 5 + 41))
    assert found.unattributed_ns == 12
    assert [(x.op, x.calls, x.moved_bytes, x.note) for x in found.unknown] == [
        ("mylib.loss.default", 1, 28, "no formula")
    ]
    assert found.calls_of_status[Status.EXACT] == 9
    assert found.calls_of_status[Status.UNKNOWN] == 1
    assert not found.is_complete


def test_coverage_shares_a_modules_time_by_bytes() -> None:
    ops = (op(1, F, "known", matmul(1, 60, 15)), op(1, F, "mystery", unknown(20, 5)), op(1, F, "view", FREE, calls=100))
    times = tuple(timing for timing in TINY.times if (timing.module, timing.phase) == (1, F))
    found = coverage(replace(TINY, ops=ops, times=times))
    assert found.time == pytest.approx(0.75)
    assert found.calls == pytest.approx(0.5)


def test_coverage_of_nothing_is_undefined_and_not_full() -> None:
    found = coverage(replace(TINY, ops=(), times=()))
    assert (found.calls, found.moved_bytes, found.time) == (None, None, None)
    assert coverage(UNTIMED).time is None


def test_params_by_pencil() -> None:
    frozen = replace(MODULES[1], own_trainable_params=0)
    experts = replace(MODULES[3], own_active_params=4, own_global_params=32)
    model = replace(TINY, modules=(MODULES[0], frozen, MODULES[2], experts, MODULES[4]))
    found = params(model)
    assert (found.total, found.trainable, found.active, found.bytes, found.global_total) == (48, 16, 36, 192, 64)
    assert found.trainable_share == pytest.approx(1 / 3)
    assert found.active_share == pytest.approx(3 / 4)
    by_module = module_params(model)
    assert by_module[0] == found
    assert by_module[2].total == 0
    assert by_module[2].trainable_share is None


@st.composite
def reports(draw: st.DrawFn) -> FlopsReport:
    """Any tree, any operators."""
    parents = [None, *(draw(st.integers(0, index)) for index in range(draw(st.integers(0, 8))))]
    modules = tuple(
        Module(
            path=f"m{index}",
            name=f"m{index}",
            class_name="M",
            parent=parent,
            depth=0,
            own_params=draw(st.integers(0, 9)),
        )
        for index, parent in enumerate(parents)
    )
    number = st.integers(0, 2**70)
    ops: tuple[OpCount, ...] = tuple(
        op(
            draw(st.integers(0, len(modules) - 1)),
            draw(st.sampled_from(PHASES)),
            "op",
            draw(st.sampled_from([FREE, unknown(3, 4), matmul(draw(number), draw(number), draw(number))])),
            calls=draw(st.integers(1, 2**40)),
        )
        for _ in range(draw(st.integers(0, 12)))
    )
    return replace(TINY, modules=modules, ops=ops, times=())


@settings(max_examples=examples(60), deadline=None)
@given(reports())
def test_children_and_self_make_the_parent_exactly(report: FlopsReport) -> None:
    own, whole = exclusive(report), inclusive(report)
    for index in range(len(report.modules)):
        for phase in Phase:
            expected = own.get((index, phase), NOTHING)
            for child, module in enumerate(report.modules):
                if module.parent == index:
                    expected = expected.plus(whole.get((child, phase), NOTHING))
            assert whole.get((index, phase), NOTHING) == expected
    assert totals(report).step == total(report)
    assert module_params(report)[0] == params(report)


def test_a_large_report() -> None:
    """1000 modules, four phases, ten signatures each: every module does the same, so sums are products."""
    report = huge()
    step = totals(report)
    one = sum((1 + index % 2) * (2**40 + index) for index in range(10) if index % 3 == 0)
    assert step.flops == 2 * 1000 * one
    assert step.executed_flops == 4 * 1000 * one
    assert inclusive(report)[0, F].flops == 1000 * one
