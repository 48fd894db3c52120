"""The two sides of a comparison: the ranks that both have, and of each run the steps that are as it usually is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.comparison.runs import LABELS, SUMS, RankRun, Run
from weftrace.comparison.steady_steps import SteadySteps, steady_steps


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Side:
    """One run, as far as it is compared. Times in ns.

    ranks: those that the other side has too, in the same order. steady: its steps that count. shares: of these ranks
    and steps, as `RankRun.shares` with a column `at`, the position in ranks. Without steps, step is null and the whole
    recording is the one step.
    """

    run: Run
    ranks: tuple[RankRun, ...]
    steady: SteadySteps
    shares: pl.DataFrame

    @property
    def num_steps(self) -> int:
        return max(1, len(self.steady.steps))

    @property
    def spans_ns(self) -> NDArray[np.float64]:
        """The length of each step that counts, mean over ranks: [num_steps]."""
        return self.per_step(()).to_numpy().reshape(-1)

    @property
    def num_cells(self) -> int:
        """Steps of ranks: what sums are divided by, to be of a step of a rank."""
        return self.num_steps * len(self.ranks)

    def per_step(self, by: Sequence[str], column: str = "own_ns") -> pl.DataFrame:
        """Sums of a column in each step that counts, mean over ranks: the columns `by`, then one a step, in order."""
        steps = self.steady.steps or (None,)
        names = [f"step {step}" for step in steps]
        value = [
            pl.col(column).filter(pl.col("step").eq_missing(step)).sum().truediv(len(self.ranks)).alias(name)
            for step, name in zip(steps, names, strict=True)
        ]
        return self.shares.group_by(by, maintain_order=True).agg(value) if by else self.shares.select(value)


def sides_of(before: Run, after: Run) -> tuple[Side, Side]:
    """Both sides, with the ranks that both have: by number, or the only one of each."""
    if len(before.ranks) == len(after.ranks) == 1:
        return _side(before, before.ranks), _side(after, after.ranks)
    key = [{(rank.rank, rank.device): rank for rank in run.ranks} for run in (before, after)]
    common = [each for each in key[0] if each in key[1]]
    return _side(before, [key[0][each] for each in common]), _side(after, [key[1][each] for each in common])


def _side(run: Run, ranks: Sequence[RankRun]) -> Side:
    steady = steady_steps(ranks)
    schema = {"at": pl.Int32(), **(ranks[0].shares.schema if ranks else {})}
    shares = [
        rank.shares.filter(pl.col("step").is_in(steady.steps) if steady.steps else pl.lit(True)).with_columns(
            **({} if steady.steps else {"step": pl.lit(None, dtype=pl.Int64)}), at=pl.lit(at, dtype=pl.Int32)
        )
        for at, rank in enumerate(ranks)
    ]
    every = pl.concat([each.select(*schema) for each in shares]) if shares else pl.DataFrame(schema=schema)
    summed = every.group_by("at", "step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum())
    return Side(run=run, ranks=tuple(ranks), steady=steady, shares=summed)


def renamed(side: Side, names: Mapping[str, Mapping[str, str]]) -> Side:
    """A side with kernels, operators and phases under the names by which they are aligned: label -> its own -> that."""
    changed = [pl.col(label).replace(dict(each)) for label, each in names.items() if each]
    if not changed:
        return side
    shares = side.shares.with_columns(changed)
    return replace(side, shares=shares.group_by("at", "step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum()))
