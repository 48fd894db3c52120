"""Reports of several ranks as one: what is summed, whose time counts, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flops.small_reports import MODULES, OPS, TINY, UNTIMED, B, F, matmul, op
from weftrace.errors import FlopsError
from weftrace.flops.deepspeed.numbers import Sizes, module_lines, step_line
from weftrace.flops.derived.module_time import times_of
from weftrace.flops.derived.params import params
from weftrace.flops.derived.tally import inclusive, totals
from weftrace.flops.derived.throughput import throughput
from weftrace.flops.several.merge import merge, rank_rows, rank_spread
from weftrace.flops.values import FlopsReport, Parallel, Timing

BASE = replace(TINY, parallel=Parallel(data=2))
# Rank 1 is slower in steps 0 and 2.
OTHER = replace(
    BASE,
    rank=1,
    ops=(*OPS, op(1, F, "extra", matmul(8, 0, 0))),
    times=(Timing(module=1, phase=F, samples_ns=(1000, 1001, 1002)), Timing(module=4, phase=B, samples_ns=(7, 8, 9))),
    clock=replace(BASE.clock, step_ns=(600, 300, 600), own_ns=9),
)


def test_operators_are_summed() -> None:
    both = merge([OTHER, BASE])
    assert (both.ranks, both.rank) == (2, 0)
    assert totals(both).flops == 2 * 672 + 8
    assert totals(both, "global").flops == 2 * 672 + 8
    assert inclusive(both)[0, F].flops == 2 * 288 + 8
    one = next(x for x in both.ops if x.op == "aten.mm.default" and x.module == 1 and x.phase is F)
    assert one.calls == 2
    assert len(both.ops) == len(OPS) + 1


def test_times_are_those_of_the_slowest_rank_of_each_step() -> None:
    both = merge([BASE, OTHER])
    assert both.clock.step_ns == (600, 490, 600)
    assert times_of(both).inclusive_samples[0, F] == (1000, 202, 1002)  # rank 1, rank 0, rank 1
    assert times_of(both).phase_samples[B] == (7, 230, 9)
    assert both.clock.own_ns == 9


def test_parameters_are_not_multiplied() -> None:
    assert params(merge([BASE, OTHER])) == params(TINY)


def test_how_far_ranks_differ() -> None:
    rows = rank_rows([OTHER, BASE])
    assert [row.rank for row in rows] == [0, 1]
    assert [row.flops for row in rows] == [672, 680]
    spread = rank_spread(rows, "step_ns")
    assert spread is not None
    assert (spread.lowest, spread.median, spread.highest, spread.highest_rank) == (490, 545, 600, 1)
    assert rank_spread(rank_rows([UNTIMED]), "step_ns") is None
    notes = " ".join(merge([BASE, OTHER]).notes)
    assert "Executed FLOPs of a rank: lowest 672, median 676, highest 680 (rank 1)." in notes
    assert "slowest 600 ns (rank 1)" in notes
    assert merge([BASE, OTHER]).notes.count("made by hand") == 1


def test_rates_are_of_one_gpu() -> None:
    both = merge([BASE, replace(BASE, rank=1)])
    assert throughput(both).flops_per_gpu == 672
    assert throughput(both).samples == 6


def test_global_operators_come_from_one_rank() -> None:
    whole = replace(BASE, parallel=Parallel(tensor=2), global_ops=(op(1, F, "mm", matmul(384, 0, 0)),))
    assert totals(merge([whole, replace(whole, rank=1)]), "global").flops == 384


def stage(rank: int, keep: int, step: int) -> FlopsReport:
    """Of a pipeline of two stages: stage 0 holds fc1, stage 1 fc2."""
    return replace(
        TINY,
        rank=rank,
        parallel=Parallel(pipeline=2),
        modules=(MODULES[0], MODULES[keep]),
        ops=(op(1, F, "mm", matmul(100 * keep, 0, 0)),),
        times=(Timing(module=1, phase=F, samples_ns=(10 * keep,)),),
        clock=replace(TINY.clock, steps=1, step_ns=(step,)),
    )


def test_pipeline_stages_make_the_union_of_their_trees() -> None:
    both = merge([stage(0, 1, 50), stage(1, 3, 40)])
    assert [module.path for module in both.modules] == ["", "fc1", "fc2"]
    assert params(both).total == 48
    assert inclusive(both)[0, F].flops == 400
    assert times_of(both).inclusive_samples[2, F] == (30,)  # from the one rank that has it, though the other is slower
    assert any("union" in note for note in both.notes)


def test_one_report_is_itself() -> None:
    assert merge([TINY]) is TINY


@pytest.mark.parametrize(
    ("other", "summary"),
    [
        (BASE, "rank 0 comes twice"),
        (replace(BASE, rank=1, name="Other"), "name of rank 0 is 'Tiny' and of rank 1 'Other'"),
        (replace(BASE, rank=1, parallel=Parallel(data=4)), "parallel of rank 0"),
        (replace(BASE, rank=1, ranks=2), "merged already"),
        (replace(BASE, rank=1, times=(), clock=UNTIMED.clock), "rank 0 timed 3 steps and rank 1 0"),
        (
            replace(BASE, rank=1, modules=(MODULES[0], replace(MODULES[1], class_name="Conv"), *MODULES[2:])),
            "fc1 is a Linear on rank 0 and a Conv on rank 1",
        ),
        (
            replace(BASE, rank=1, modules=MODULES[:3], ops=OPS[:3], times=()),
            "rank 0 timed 3 steps|rank 1 has no module 'fc2'",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(other: FlopsReport, summary: str) -> None:
    with pytest.raises(FlopsError, match=summary):
        merge([BASE, other])


def test_different_trees_are_refused_by_name() -> None:
    a = replace(UNTIMED, modules=MODULES[:3], ops=())
    with pytest.raises(FlopsError, match="rank 0 has no module 'fc2' and other ranks have one"):
        merge([a, replace(UNTIMED, rank=1)])


def test_no_report_is_refused() -> None:
    with pytest.raises(FlopsError, match="no report"):
        merge([])


def test_untimed_ranks_merge() -> None:
    both = merge([UNTIMED, replace(UNTIMED, rank=1, tokens=13)])
    assert (both.times, both.clock.step_ns, both.tokens, both.samples) == ((), (), None, 3)
    assert any("different tokens" in note for note in both.notes)


def test_deepspeeds_numbers_of_merged_ranks_are_of_one_gpu() -> None:
    ranks = [replace(BASE, rank=rank) for rank in range(2)]
    assert step_line(merge(ranks), Sizes(world=2, data=2)) == step_line(ranks[0], Sizes(world=2, data=2))
    assert module_lines(merge(ranks)) == module_lines(ranks[0])
