"""Samples and tokens a second under every kind of parallelism, against a pencil."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.flops.small_reports import TINY, UNTIMED
from weftrace.errors import FlopsError
from weftrace.flops.derived.throughput import throughput
from weftrace.flops.values import Clock, Parallel

SECOND = 10**9
# 8 samples of 512 tokens in a step of 2 s
STEP = replace(TINY, samples=8, tokens=4096, clock=Clock(source="cpu clock", steps=1, step_ns=(2 * SECOND,)))


def test_one_gpu() -> None:
    found = throughput(STEP)
    assert (found.samples_per_s, found.tokens_per_s, found.world) == (4, 2048, 1)
    assert (found.flops_per_gpu, found.flops_per_s_per_gpu) == (672, 336)


def test_replicas_multiply_and_the_ranks_of_a_replica_do_not() -> None:
    found = throughput(STEP, parallel=Parallel(data=4, tensor=2, pipeline=3, context=2))
    assert found.world == 48
    assert (found.samples, found.tokens) == (32, 4 * 4096)
    assert (found.samples_per_s, found.tokens_per_s) == (16, 4 * 2048)
    assert found.tokens_per_s_per_gpu == pytest.approx(4 * 2048 / 48)


def test_expert_ranks_lie_inside_the_replicas() -> None:
    found = throughput(STEP, parallel=Parallel(data=8, expert=4))
    assert (found.world, found.samples_per_s) == (8, 32)
    with pytest.raises(FlopsError, match="3 expert-parallel ranks do not divide the 8 data-parallel ones"):
        throughput(STEP, parallel=Parallel(data=8, expert=3))


def test_micro_batches_count_once_each() -> None:
    accumulated = replace(STEP, micro_batches=4)
    assert throughput(accumulated).samples_per_s == 4  # the report's samples are of the whole step
    assert throughput(accumulated, samples=2, tokens=1024, accumulation=4).tokens_per_s == 2048
    with pytest.raises(FlopsError, match="accumulation over 8 micro-batches, but the counted step has 4"):
        throughput(accumulated, samples=2, accumulation=8)


def test_unknown_samples_stay_unknown() -> None:
    found = throughput(replace(STEP, samples=None, tokens=None))
    assert (found.samples_per_s, found.tokens_per_s, found.tokens_per_s_per_gpu) == (None, None, None)
    assert throughput(replace(STEP, samples=None), samples=6).samples_per_s == 3


def test_merged_ranks_give_the_mean_of_a_gpu() -> None:
    assert throughput(replace(STEP, ranks=2, parallel=Parallel(data=2))).flops_per_gpu == 336


@pytest.mark.parametrize(
    ("options", "summary"),
    [
        ({"samples": 0}, "samples is 0"),
        ({"tokens": -1}, "tokens is -1"),
        ({"parallel": Parallel(tensor=0)}, "tensor parallel over 0 ranks"),
        ({"step_ns": 0}, "must be above 0"),
    ],
)
def test_impossible_input_is_refused(options: dict[str, object], summary: str) -> None:
    with pytest.raises(FlopsError, match=summary):
        throughput(STEP, **options)  # type: ignore[arg-type]


def test_no_time_and_too_many_ranks_are_refused() -> None:
    with pytest.raises(FlopsError, match="no step was timed"):
        throughput(UNTIMED)
    with pytest.raises(FlopsError, match="4 ranks were merged, and the job has 2"):
        throughput(replace(STEP, ranks=4, parallel=Parallel(data=2)))
