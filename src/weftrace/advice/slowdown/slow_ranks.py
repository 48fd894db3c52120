"""Which ranks compute longer than their peers, from when on, or in which steps?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.slowdown.found import (
    FEWEST_STEPS,
    LEAST,
    OFTEN,
    SLOW_TOO,
    SURELY,
    Floats,
    Found,
    added_to,
    in_steps,
    listed,
    with_durations,
)

_MUCH = 0.3  # of the slowest rank's excess that others must have to be named with it
_AS_QUICK = 0.03  # by which single operations may differ and be as quick
_LEAST_ONCE = 0.05  # by which it must be slower then
_MOST_TIMES = 3  # kinds of steps in which ranks are slow that are told apart
_ALIKE = 0.25  # of the mean excess by which types differ: then all of a rank's operations are slower alike


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excess:
    """excess: by which part each rank computes longer than its peers, [ranks, steps], 0 where is_known is False: the
    rank, or all of its peers, have no such step. ats: positions. error: standard error of one step's excess."""

    ats: NDArray[np.int64]
    steps: NDArray[np.int64]
    excess: Floats
    is_known: NDArray[np.bool_]
    error: float

    def means(self) -> Floats:
        found: Floats = self.excess.sum(axis=1) / np.maximum(self.is_known.sum(axis=1), 1)
        return found


def excess_of(rows: pl.DataFrame) -> _Excess:
    """Of the computation of each rank in each step, against the lower median of the ranks of its stage. Of kernels,
    steps may hold more of one than of another, for hosts launch ahead: each step's time is over what as many of these
    kernels take in the mean of the ranks."""
    compute = rows.filter(pl.col("pace") == "compute")
    kinds = ("stage", "type", "track")
    of_all = pl.col("at").n_unique().over(*kinds) == pl.col("at").n_unique().over("stage")
    like = pl.when(of_all, pl.col("track").is_not_null()).then(pl.col("duration_ns").mean().over(*kinds)).otherwise(0.0)
    sums = compute.with_columns(like.alias("like_ns")).group_by("at", "stage", "step").agg(
        pl.col("duration_ns", "like_ns").sum()
    )  # fmt: skip
    sums = sums.with_columns(pl.col("duration_ns") / pl.col("like_ns").clip(lower_bound=1))
    lower = pl.col("duration_ns").quantile(0.5, interpolation="lower")
    has_peers = (pl.len().over("stage", "step") > 1) | (pl.col("at").n_unique().over("stage") == 1)
    ratio = pl.col("duration_ns") / lower.over("stage", "step").clip(lower_bound=1e-9)
    sums = sums.with_columns(pl.when(has_peers).then(ratio - 1).alias("e"))
    if sums.is_empty():
        none = np.empty(0, np.int64)
        return _Excess(ats=none, steps=none, excess=np.empty((0, 0)), is_known=np.empty((0, 0), bool), error=0.0)
    wide = sums.sort("step").pivot(on="step", index="at", values="e").sort("at")
    told = wide.drop("at").cast(pl.Float64).fill_null(np.nan).to_numpy()
    is_known = ~np.isnan(told)
    steps = np.array([int(name) for name in wide.columns[1:]])
    ats = wide.get_column("at").to_numpy().astype(np.int64)
    return _Excess(ats=ats, steps=steps, excess=np.where(is_known, told, 0.0), is_known=is_known, error=_error_of(told))


def _error_of(excess: Floats) -> float:
    """The noise of one step: of the differences of steps that follow one another, robustly; of one step, of ranks."""
    if excess.shape[1] > 2:
        apart = np.abs(np.diff(excess, axis=1)) / np.sqrt(2)
        apart = apart[~np.isnan(apart)]
        apart = apart if apart.size else np.zeros(1)
    else:
        excess = np.nan_to_num(excess)
        middle = np.quantile(excess, 0.5, axis=0, method="lower")
        low = excess[excess <= middle]
        apart = np.abs(low - middle.mean()) if low.size else np.zeros(1)
    return float(1.4826 * np.median(apart))


def slow_beside_lengths(rows: pl.DataFrame, lengths: Found) -> list[Found]:
    """Slow ranks where micro-batches differ: told by computation that does not grow with them, as the optimizer's,
    where there is some, and what does grow is longer too."""
    even = with_durations(rows, lengths.repaired_ns)
    is_fixed = (rows.get_column("pace") == "compute").to_numpy() & (
        lengths.repaired_ns == rows.get_column("duration_ns").to_numpy()
    )
    fixed = rows.filter(pl.Series(is_fixed))
    error = float(lengths.details["error"])  # of how long a rank's micro-batches are in the mean
    if fixed.get_column("at").n_unique() < rows.get_column("at").n_unique():
        return [added_to(rows, even, each) for each in slow_workers(even, SURELY * error)]
    means = excess_of(even)
    longer = dict(zip(means.ats.tolist(), means.means().tolist(), strict=True))
    slow = [
        each for each in _slow_ranks(excess_of(fixed), 0.0)
        if longer.get(each.at, 0.0) >= min(0.5 * each.mean, each.mean - SURELY * np.sqrt(2) * error)
    ]  # fmt: skip
    return _slow_compute(rows, slow, are_alike=True)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _Slow:
    """A slow rank. mean: by which part it computes longer than its peers in these steps. is_later: from the first of
    them on, not before."""

    mean: float
    at: int
    steps: tuple[int, ...]
    is_later: bool


def slow_workers(rows: pl.DataFrame, least: float) -> list[Found]:
    """Ranks that compute longer than the other ranks of their stage, by this part of it at least, from some step on."""
    return _slow_compute(rows, _slow_ranks(excess_of(rows), least))


def _slow_ranks(seen: _Excess, least: float) -> list[_Slow]:
    """The slowest first; those that are much less slow than it are left out."""
    if not seen.excess.size:
        return []
    spread = _spread(seen.means())
    slow: list[_Slow] = []
    for at in range(len(seen.ats)):
        excess, steps = seen.excess[at][seen.is_known[at]], seen.steps[seen.is_known[at]]
        num = len(steps)
        if not num:
            continue
        sums = np.cumsum(excess[::-1])[::-1]
        lengths = num - np.arange(num)
        first = int(np.argmax((sums / np.sqrt(lengths))[: max(1, num - 1)]))  # one step alone shows no change
        mean = float(sums[first] / lengths[first])
        before = float(excess[:first].mean()) if first else mean
        if before > 0.5 * mean:
            first, mean = 0, float(excess.mean())
        error = 1.25 * seen.error / np.sqrt(num - first)
        if (excess[first:] >= 0.5 * mean).mean() < OFTEN:
            continue
        if mean >= max(LEAST, least, SURELY * error, SURELY * spread):
            since = seen.steps[seen.steps >= steps[first]] if first else seen.steps
            slow.append(_Slow(mean=mean, at=int(seen.ats[at]), steps=tuple(since.tolist()), is_later=first > 0))
    slow.sort(reverse=True)
    return [each for each in slow if each.mean >= _MUCH * slow[0].mean]


def _slow_compute(rows: pl.DataFrame, slow: Sequence[_Slow], *, are_alike: bool = False) -> list[Found]:
    """The cause that they are. are_alike: all operations of a rank are slower by one factor."""
    if not slow:
        return []
    ats = [each.at for each in slow]
    factors = _factors(rows, {each.at: each.steps for each in slow})
    if are_alike:
        means = pl.DataFrame({"at": ats, "factor": [1 + each.mean for each in slow]}, schema_overrides={"at": pl.Int32})
        factors = factors.drop("factor").join(means, on="at")
    repaired = _divided(rows, factors)
    each = tuple(_divided(rows, factors.filter(pl.col("at") == at)) for at in ats) if len(ats) > 1 else ()
    since = min(slow, key=lambda each: (each.is_later, each.steps[0]))
    by_type = factors.filter(pl.col("at") == ats[0], pl.col("share") > 0.02).sort("lost", descending=True)
    return [
        Found(
            kind="slow compute",
            repaired_ns=repaired,
            ranks=tuple(ats),
            each=each,
            first_step=since.steps[0] if since.is_later else None,
            ratio=tuple(1 + each.mean for each in slow),
            evidence=_operations(by_type),
        )
    ]


def slow_at_times(rows: pl.DataFrame) -> list[Found]:
    """Ranks that are slow in single steps, or in a few. rows: with those repaired that are slow throughout."""
    seen = excess_of(rows)
    if len(seen.steps) < FEWEST_STEPS:
        return []
    apart = np.abs(np.diff(np.where(seen.is_known, seen.excess, np.nan), axis=1))
    apart = apart[~np.isnan(apart)] / np.sqrt(2)
    error = float(np.quantile(apart, 0.4)) / 0.524 if apart.size else 0.0  # steps that differ are no noise
    least = max(_LEAST_ONCE, SURELY * 1.25 * error)
    groups: dict[tuple[int, ...], list[_Slow]] = {}
    for at, excess, is_known in zip(seen.ats.tolist(), seen.excess, seen.is_known, strict=True):
        stands_out = is_known & (excess >= max(least, _MUCH * float(excess.max())))
        if not stands_out.any():
            continue
        steps = tuple(seen.steps[stands_out].tolist())
        slow = _Slow(mean=float(excess[stands_out].mean()), at=at, steps=steps, is_later=False)
        lost = _factors(rows, {at: steps}).sort("lost", descending=True).row(0, named=True)
        if set(steps) <= {int(seen.steps[0]), int(seen.steps[-1])} and _are_more(lost):
            continue  # the recording begins or ends in the midst of the step of another
        groups.setdefault(steps, []).append(slow)
    if not groups:
        return []
    most = max(each.mean for mine in groups.values() for each in mine)
    near = {steps: [one for one in mine if one.mean >= _MUCH * most] for steps, mine in groups.items()}
    groups = {steps: mine for steps, mine in near.items() if mine}
    for mine in groups.values():
        mine.sort(reverse=True)
    every = [step for steps in groups for step in steps]
    takes_turns = len(groups) > 1 and len(every) == len(set(every)) and len(every) >= OFTEN * len(seen.steps)
    if not takes_turns and len(groups) <= _MOST_TIMES:
        return [_at_times(rows, mine, seen.steps) for mine in groups.values()]
    ordered = sorted(groups.items())
    found = _slow_compute(rows, [each for _, mine in ordered for each in mine])[0]
    turns = tuple((tuple(sorted(each.at for each in mine)), in_steps(steps, seen.steps)) for steps, mine in ordered)
    when = "another rank in each step" if takes_turns else "single ranks in single steps"
    details: dict[str, float | str] = {"when": when, "how": found.evidence, "takes_turns": float(takes_turns)}
    return [replace(found, turns=turns, each=(), evidence=f"{when}; {found.evidence}", details=details)]


def _at_times(rows: pl.DataFrame, slow: Sequence[_Slow], steps: NDArray[np.int64]) -> Found:
    """Ranks that are slow in the same steps."""
    found = _slow_compute(rows, slow)[0]
    when = in_steps(slow[0].steps, steps)
    return replace(found, evidence=f"{when}; {found.evidence}", details={"when": when, "how": found.evidence})


def _spread(means: Floats) -> float:
    """How far ranks lie apart that are not slow: those up to the lower median, around it."""
    middle = np.quantile(means, 0.5, method="lower")
    low = np.abs(means[means <= middle] - middle)
    return float(1.4826 * np.median(low)) if len(low) > 2 else 0.0


def _factors(rows: pl.DataFrame, steps_of: Mapping[int, Sequence[int]]) -> pl.DataFrame:
    """Of each slow rank and type, how many times its peers' time it takes in the steps in which it is slow; of a type
    that most of its peers do not have there, all of its time is more than theirs. num, peers_num: how many a step; one
    takes each, peers_each."""
    of_one = pl.struct("micro_batch", "chunk").n_unique()  # a range may be cut into parts
    number = pl.when(pl.col("micro_batch").null_count() == 0).then(of_one).otherwise(pl.len())
    means = (
        rows.filter(pl.col("pace") == "compute")
        .group_by("at", "stage", "type", "step")
        .agg(pl.col("duration_ns").sum(), number.alias("num"))
    )
    parts = []
    for slow, steps in steps_of.items():
        stage = int(rows.filter(pl.col("at") == slow).get_column("stage")[0])
        mine = means.filter(pl.col("step").is_in(list(steps)), pl.col("stage") == stage)
        num_steps = mine.group_by("at").agg(pl.col("step").n_unique().alias("steps"))
        mean = num_steps.join(mine.select("type").unique(), how="cross").join(
            mine.group_by("at", "type").agg(pl.col("duration_ns", "num").sum()), on=("at", "type"), how="left"
        )  # fmt: skip
        mean = mean.with_columns(pl.col("duration_ns", "num").fill_null(0) / pl.col("steps"))
        lower = pl.col("duration_ns", "num").quantile(0.5, interpolation="lower").name.prefix("peers_")
        own = mean.filter(pl.col("at") == slow, pl.col("num") > 0).join(mean.group_by("type").agg(lower), on="type")
        own = own.rename({"peers_duration_ns": "peers_ns"})
        more = pl.col("duration_ns") - pl.col("peers_ns")
        is_own = pl.col("peers_ns") <= 0
        swapped = more.filter(is_own).sum() > 1.1 * more.sum()  # it has them in the place of others of its peers
        factor = pl.col("duration_ns") / pl.col("peers_ns").clip(lower_bound=1)
        own = own.with_columns(
            pl.when(is_own & swapped).then(1.0).otherwise(factor.clip(lower_bound=1.0)).alias("factor"),
            more.alias("lost"),
            (pl.col("duration_ns") / pl.col("duration_ns").sum()).alias("share"),
        )  # fmt: skip
        parts.append(own.select("at", "type", "factor", "lost", "share", "num", "peers_num", "duration_ns", "peers_ns"))
    whose = pl.DataFrame(
        {"at": list(steps_of), "steps": [list(each) for each in steps_of.values()]},
        schema={"at": pl.Int32, "steps": pl.List(pl.Int64)},
    )
    return pl.concat(parts).join(whose, on="at", how="left", maintain_order="left")


def _divided(rows: pl.DataFrame, factors: pl.DataFrame) -> Floats:
    slower = factors.select("at", "type", "factor", step="steps").explode("step")
    joined = rows.select("at", "type", "step", "pace", "duration_ns").join(
        slower, on=("at", "type", "step"), how="left", maintain_order="left"
    )
    applies = (pl.col("pace") == "compute") & pl.col("factor").is_not_null()
    values: Floats = joined.select(
        pl.col("duration_ns") / pl.when(applies).then("factor").otherwise(1.0)
    ).to_series().to_numpy()  # fmt: skip
    return values


def _operations(by_type: pl.DataFrame) -> str:
    """Whether all operations are slower alike, or which are, or whether there are more of them."""
    most = float(by_type.get_column("lost").max() or 0)  # type: ignore[arg-type]
    worst = by_type.filter(pl.col("lost") >= SLOW_TOO * most).rows(named=True)
    more = [row for row in worst if _are_more(row)]
    if more and len(more) == len(worst):
        names = listed([f"{row['num']:,.4g} × {row['type']}" for row in more[:2]])
        return f"more of them, not slower: {names} a step, peers {min(row['peers_num'] for row in more):,.4g}"
    own = [row for row in worst if row["peers_ns"] <= 0]
    if own:
        return f"{listed([row['type'] for row in own[:2]])}, which its peers do not have"
    factors = by_type.get_column("factor").to_numpy()
    if len(factors) > 1 and np.ptp(factors) <= _ALIKE * max(factors.mean() - 1, 1e-9) + 0.01:
        return "all operations alike"
    return ", ".join(f"{row['type']} {row['factor']:.2f}×" for row in worst[:2])


def _are_more(row: Mapping[str, float]) -> bool:
    if row["num"] <= 1.03 * row["peers_num"] or row["peers_num"] <= 0:
        return False
    return abs(row["duration_ns"] / row["num"] / (row["peers_ns"] / row["peers_num"]) - 1) <= _AS_QUICK
