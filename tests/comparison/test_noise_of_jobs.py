"""Noise through the whole house: jobs of plans with jittered durations, simulated, read, compared.

Few draws: many are in `test_noise`. Of 200 pairs of these runs 198 were within the
noise, and of 100 in which a family takes 5 % longer, it was named first in all.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import polars as pl
import pytest

from tests.fuzz import few
from weftrace.comparison import Diff, Run, diff, run_of
from weftrace.comparison.alignment.movers import movers_of
from weftrace.comparison.document import diff_report
from weftrace.comparison.explanations import headline
from weftrace.comparison.render.words import difference_words
from weftrace.comparison.runs import RankRun
from weftrace.plan import Op, Plan, Resource, simulate, simulate_ranks
from weftrace.units import US

RUNS, STEPS = 20, 10
#: Of a step of a rank: name, kind, how often, µs of each.
STEP = (
    ("flash_fwd_kernel", "compute", 4, 300),
    ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_cublas", "compute", 6, 500),
    ("all_reduce", "communication", 1, 250),
    ("layer_norm_kernel", "compute", 8, 40),
    ("multi_tensor_apply_kernel_adam", "compute", 1, 400),
)


@cache
def simulated(num: int, slower: str = "") -> tuple[RankRun, ...]:
    """A job of two ranks that is long enough for so many runs of ten steps, for it is quicker than as many jobs. Each
    op takes 2 % more or less by itself, one family 5 % more."""
    rng = np.random.default_rng(["", *(name for name, *_ in STEP)].index(slower))
    ops = [
        Op(name=name, kind="communication" if kind == "communication" else "compute", step=step,
           resource=Resource(rank=rank, stream=7), meet=step if kind == "communication" else None,
           duration_ns=round(us * US * (1 + 0.02 * rng.standard_normal()) * (1.05 if name == slower else 1)))
        for rank in range(2) for step in range(num * STEPS)
        for name, kind, often, us in STEP for _ in range(often)
    ]  # fmt: skip
    return run_of(simulate_ranks(Plan.of(ops, name="job"))).ranks


def runs(num: int, slower: str = "") -> list[Run]:
    """The runs: ten steps of it each."""
    return [Run(source="job", ranks=tuple(_cut(rank, at) for rank in simulated(num, slower))) for at in range(num)]


def _cut(rank: RankRun, at: int) -> RankRun:
    assert rank.waits is not None and rank.windows.height % STEPS == 0
    shares, waits, windows = (
        rows.filter(pl.col("step") // STEPS == at).with_columns(pl.col("step") % STEPS)
        for rows in (rank.shares, rank.waits, rank.windows)
    )
    return replace(rank, shares=shares, waits=waits, windows=windows)


def called(found: Diff) -> list[tuple[str, str]]:
    """Families whose time is called changed, the largest change first: name and part."""
    assert found.verdict.word == "comparable", found.verdict.reasons
    return list(movers_of(found, "family").filter(pl.col("is_noise") == False).select("name", "part").iter_rows())  # noqa: E712


def test_a_job_and_its_like_are_within_the_noise_in_95_of_100() -> None:
    quiet = 0
    every = runs(2 * RUNS)
    for before, after in zip(every[:RUNS], every[RUNS:], strict=True):
        found = diff(before, after)
        quiet += found.is_noise is True and not called(found) and headline(found).startswith("Within the noise")
    assert quiet >= 0.95 * RUNS


@pytest.mark.parametrize(("slower", "family"), few([(STEP[4][0], "optimizer"), (STEP[0][0], "attention")], 1))
def test_a_family_that_takes_five_percent_longer_is_found_and_named_first_in_95_of_100(
    slower: str, family: str
) -> None:
    """The optimizer has a single kernel a step."""
    named = 0
    for before, after in zip(runs(2 * RUNS)[:RUNS], runs(RUNS, slower), strict=True):
        found = diff(before, after)
        named += called(found)[:1] == [(family, "compute")] and f"{family} kernels +" in headline(found)
    assert named >= 0.95 * RUNS


def test_what_was_kept_of_ten_simulated_steps() -> None:
    one = runs(2 * RUNS)[0]
    found = diff(one, one)
    assert found.before.steady.steps == tuple(range(STEPS))
    assert not called(found) and found.change_ns == 0


def test_the_change_is_told_with_its_interval() -> None:
    """Six gemms of 500 µs take 5 % longer: 150 µs. Noise of a step is 2 % of each op by itself."""
    one = runs(2 * RUNS)[0]
    document = diff_report(diff(one, runs(1, STEP[1][0])[0]))
    summary = document.difference
    assert summary is not None and summary.low_ns < 150 * US < summary.high_ns
    assert difference_words(summary) == "+138 µs ± 29.5 µs of the mean step (98 % sure)"
    alone = diff_report(diff(run_of(simulate(Plan.of([Op(name="gemm", duration_ns=US)], name="one"))), one))
    assert alone.difference is None
