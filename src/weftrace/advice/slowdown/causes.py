"""Which kinds of cause slow a job down? Each is found in the durations, and repaired: what they would be without it.

A finding never rests on times of waiting: durations of computation, transfers apart from waiting, and the time between
ranges, or of host threads, are each rank's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.job_slowdown import CauseKind
from weftrace.units import counted, duration

_LEAST = 0.015  # by how much a rank, or a stage, must be slower than its peers
_SURELY = 5.0  # standard errors
_MUCH = 0.3  # of the slowest rank's excess that others must have to be named with it
_OFTEN = 2 / 3  # of the steps since then it must be slower
_TOGETHER = 0.9  # correlation from which forward and backward grow together
_MOST_GROW = 0.8  # of the time of kernels that must grow together
_FEW = 8  # micro-batches
_UNEVEN = 0.03  # by which micro-batches of one rank must differ, standard deviation over mean
_LONG = 1.15  # times its like: a single stretch that is longer, and
_OUTSIDE = 6.0  # deviations of logarithms away from it, stands alone
_FEW_A_STEP = 3  # micro-batches: of fewer in a step a long one is not told from a slow step
_NEARLY_ALL = 0.8  # of the micro-batches of a step: what is long in more is slow there
_GARBAGE = r"(?i)\bgc\b|gc[._ -]?collect|garbage"
_RARE = 0.25  # of the forwards: what is more frequent is no garbage collection
_AS_LONG = 0.15  # by which stops may differ that are as long each time
_A_STOP = 0.3  # of the longest stops of hosts: what is as long is one too
_FEWEST_STOPS = 4
_BY_ONE = 0.7  # of the stops that one rank has: then it is late, and no garbage is collected now here, now there
_SLOW_LINK = 1.3  # times the transfers of its peers
_SLOW_TOO = 0.15  # of the most that a type loses: others that lose as much are named with it
_AS_QUICK = 0.03  # by which single operations may differ and be as quick
_FEWEST_STEPS = 3  # in which one that is slow once is told from the others
_LEAST_ONCE = 0.05  # by which it must be slower then
_MOST_LISTED = 4  # steps that are listed
_MOST_ONCE = 0.8  # of what a host loses that is lost in one step: then it happened once
_MOST_TIMES = 3  # kinds of steps in which ranks are slow that are told apart
_ALIKE = 0.25  # of the mean excess by which types differ: then all of a rank's operations are slower alike

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A cause before it is weighed. repaired_ns: of each op, [ops]. each: of each rank, or stage, that it is of, the
    same with this one alone repaired. words: `{who}` is put in where ranks are named."""

    kind: CauseKind
    repaired_ns: _Floats
    ranks: tuple[int, ...] = ()  # positions
    stages: tuple[int, ...] = ()
    each: tuple[_Floats, ...] = ()
    first_step: int | None = None
    ratio: tuple[float, ...] = ()
    turns: tuple[tuple[tuple[int, ...], str], ...] = ()  # of those that are slow in other steps each: ranks, and when
    evidence: str = ""
    details: Mapping[str, float | str] = field(default_factory=dict)


def found_causes(ops: pl.DataFrame, *, is_pipeline: bool, are_ranges: bool) -> list[Found]:
    """All causes that the durations tell. ops: frame of `pace.PACED`."""
    for named in _named_collections(ops) if are_ranges else ():
        even = _with_durations(ops, named.repaired_ns)
        return [named, *(_added_by(ops, even, each) for each in _others(even, is_pipeline, are_ranges))]
    return _others(ops, is_pipeline, are_ranges)


def _others(ops: pl.DataFrame, is_pipeline: bool, are_ranges: bool) -> list[Found]:
    """All but collections of garbage that ranges name."""
    rows = ops.with_row_index("row").with_columns(pl.col("type").fill_null(""))
    lengths_of = _lengths if are_ranges else _lengths_of_kernels
    collections = list(_collections(rows, rows)) if are_ranges else []
    base = rows
    for each in collections:
        base = _with_durations(base, _scaled(base, rows, each))
    lengths, slow = list(lengths_of(base)), _slow_workers(base, 0.0)
    even = base
    if lengths:
        slow = _slow_beside_lengths(base, lengths[0])
        repaired = _with_durations(base, slow[0].repaired_ns) if slow else base
        lengths = [_added_to(base, repaired, each) for each in lengths_of(repaired, by="stage")] or lengths
        even = _with_durations(base, lengths[0].repaired_ns)
    clean = _with_durations(base, _added_to(base, even, slow[0], back=True).repaired_ns) if slow else even
    if are_ranges and not collections:
        collections = list(_collections(clean, rows))
        for each in collections:
            clean = _with_durations(clean, _scaled(clean, rows, each))
    at_times = _slow_at_times(clean)
    found = [_added_to(rows, base, each) for each in (*lengths, *slow)] + collections
    found += [_added_to(rows, clean, each) for each in at_times]
    for each in at_times:
        clean = _with_durations(clean, _scaled(clean, clean, each))
    if is_pipeline:
        found += _uneven_stages(clean, rows, are_ranges=are_ranges)
    found += _slow_links(rows)
    stops = [] if are_ranges else list(_host_collections(rows))
    running = _with_durations(rows, stops[0].repaired_ns) if stops else rows
    return [*found, *stops, *(_added_by(rows, running, each) for each in _late_hosts(running, are_ranges=are_ranges))]


def _with_durations(rows: pl.DataFrame, durations_ns: _Floats) -> pl.DataFrame:
    return rows.with_columns(pl.Series("duration_ns", durations_ns))


def _scaled(rows: pl.DataFrame, others: pl.DataFrame, found: Found) -> _Floats:
    """Durations of rows with a repair of others."""
    own, before = (each.get_column("duration_ns").to_numpy() for each in (rows, others))
    scaled: _Floats = own * found.repaired_ns / np.maximum(before, 1e-9)
    return scaled


def _added_to(rows: pl.DataFrame, others: pl.DataFrame, found: Found, *, back: bool = False) -> Found:
    """A repair that was found in rows with other durations, as one of the rows as they are. back: the other way."""
    own, before = (each.get_column("duration_ns").to_numpy() for each in (rows, others))
    scale = before / np.maximum(own, 1e-9) if back else own / np.maximum(before, 1e-9)
    return replace(found, repaired_ns=found.repaired_ns * scale, each=tuple(each * scale for each in found.each))


def _added_by(rows: pl.DataFrame, others: pl.DataFrame, found: Found) -> Found:
    """The same, where what the other rows take less is time of its own."""
    more = rows.get_column("duration_ns").to_numpy() - others.get_column("duration_ns").to_numpy()
    return replace(found, repaired_ns=found.repaired_ns + more, each=tuple(each + more for each in found.each))


# --- ranks ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excess:
    """excess: by which part each rank computes longer than its peers, [ranks, steps], 0 where is_known is False: the
    rank, or all of its peers, have no such step. ats: positions. error: standard error of one step's excess."""

    ats: NDArray[np.int64]
    steps: NDArray[np.int64]
    excess: _Floats
    is_known: NDArray[np.bool_]
    error: float

    def means(self) -> _Floats:
        found: _Floats = self.excess.sum(axis=1) / np.maximum(self.is_known.sum(axis=1), 1)
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


def _error_of(excess: _Floats) -> float:
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


def _slow_beside_lengths(rows: pl.DataFrame, lengths: Found) -> list[Found]:
    """Slow ranks where micro-batches differ: told by computation that does not grow with them, as the optimizer's,
    where there is some, and what does grow is longer too."""
    even = _with_durations(rows, lengths.repaired_ns)
    is_fixed = (rows.get_column("pace") == "compute").to_numpy() & (
        lengths.repaired_ns == rows.get_column("duration_ns").to_numpy()
    )
    fixed = rows.filter(pl.Series(is_fixed))
    error = float(lengths.details["error"])  # of how long a rank's micro-batches are in the mean
    if fixed.get_column("at").n_unique() < rows.get_column("at").n_unique():
        return [_added_to(rows, even, each) for each in _slow_workers(even, _SURELY * error)]
    means = excess_of(even)
    longer = dict(zip(means.ats.tolist(), means.means().tolist(), strict=True))
    slow = [
        each for each in _slow_ranks(excess_of(fixed), 0.0)
        if longer.get(each.at, 0.0) >= min(0.5 * each.mean, each.mean - _SURELY * np.sqrt(2) * error)
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


def _slow_workers(rows: pl.DataFrame, least: float) -> list[Found]:
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
        if (excess[first:] >= 0.5 * mean).mean() < _OFTEN:
            continue
        if mean >= max(_LEAST, least, _SURELY * error, _SURELY * spread):
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


def _slow_at_times(rows: pl.DataFrame) -> list[Found]:
    """Ranks that are slow in single steps, or in a few. rows: with those repaired that are slow throughout."""
    seen = excess_of(rows)
    if len(seen.steps) < _FEWEST_STEPS:
        return []
    apart = np.abs(np.diff(np.where(seen.is_known, seen.excess, np.nan), axis=1))
    apart = apart[~np.isnan(apart)] / np.sqrt(2)
    error = float(np.quantile(apart, 0.4)) / 0.524 if apart.size else 0.0  # steps that differ are no noise
    least = max(_LEAST_ONCE, _SURELY * 1.25 * error)
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
    takes_turns = len(groups) > 1 and len(every) == len(set(every)) and len(every) >= _OFTEN * len(seen.steps)
    if not takes_turns and len(groups) <= _MOST_TIMES:
        return [_at_times(rows, mine, seen.steps) for mine in groups.values()]
    ordered = sorted(groups.items())
    found = _slow_compute(rows, [each for _, mine in ordered for each in mine])[0]
    turns = tuple((tuple(sorted(each.at for each in mine)), _when(steps, seen.steps)) for steps, mine in ordered)
    when = "another rank in each step" if takes_turns else "single ranks in single steps"
    details: dict[str, float | str] = {"when": when, "how": found.evidence, "takes_turns": float(takes_turns)}
    return [replace(found, turns=turns, each=(), evidence=f"{when}; {found.evidence}", details=details)]


def _at_times(rows: pl.DataFrame, slow: Sequence[_Slow], steps: NDArray[np.int64]) -> Found:
    """Ranks that are slow in the same steps."""
    found = _slow_compute(rows, slow)[0]
    when = _when(slow[0].steps, steps)
    return replace(found, evidence=f"{when}; {found.evidence}", details={"when": when, "how": found.evidence})


def _when(mine: Sequence[int], every: NDArray[np.int64]) -> str:
    """In which steps, in words."""
    if len(mine) == 1:
        return f"in step {mine[0]} alone"
    at = np.searchsorted(every, mine)
    if at[-1] - at[0] == len(mine) - 1:
        return f"in steps {mine[0]} {'and' if len(mine) == 2 else 'to'} {mine[-1]}"
    if len(mine) <= _MOST_LISTED:
        return f"in steps {', '.join(map(str, mine[:-1]))} and {mine[-1]}"
    return f"in {len(mine)} of {len(every)} steps"


def _spread(means: _Floats) -> float:
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


def _divided(rows: pl.DataFrame, factors: pl.DataFrame) -> _Floats:
    slower = factors.select("at", "type", "factor", step="steps").explode("step")
    joined = rows.select("at", "type", "step", "pace", "duration_ns").join(
        slower, on=("at", "type", "step"), how="left", maintain_order="left"
    )
    applies = (pl.col("pace") == "compute") & pl.col("factor").is_not_null()
    values: _Floats = joined.select(
        pl.col("duration_ns") / pl.when(applies).then("factor").otherwise(1.0)
    ).to_series().to_numpy()  # fmt: skip
    return values


def _operations(by_type: pl.DataFrame) -> str:
    """Whether all operations are slower alike, or which are, or whether there are more of them."""
    most = float(by_type.get_column("lost").max() or 0)  # type: ignore[arg-type]
    worst = by_type.filter(pl.col("lost") >= _SLOW_TOO * most).rows(named=True)
    more = [row for row in worst if _are_more(row)]
    if more and len(more) == len(worst):
        names = _listed([f"{row['num']:,.4g} × {row['type']}" for row in more[:2]])
        return f"more of them, not slower: {names} a step, peers {min(row['peers_num'] for row in more):,.4g}"
    own = [row for row in worst if row["peers_ns"] <= 0]
    if own:
        return f"{_listed([row['type'] for row in own[:2]])}, which its peers do not have"
    factors = by_type.get_column("factor").to_numpy()
    if len(factors) > 1 and np.ptp(factors) <= _ALIKE * max(factors.mean() - 1, 1e-9) + 0.01:
        return "all operations alike"
    return ", ".join(f"{row['type']} {row['factor']:.2f}×" for row in worst[:2])


def _are_more(row: Mapping[str, float]) -> bool:
    if row["num"] <= 1.03 * row["peers_num"] or row["peers_num"] <= 0:
        return False
    return abs(row["duration_ns"] / row["num"] / (row["peers_ns"] / row["peers_num"]) - 1) <= _AS_QUICK


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)


# --- stages -----------------------------------------------------------------------------------------------------------


def _uneven_stages(clean: pl.DataFrame, rows: pl.DataFrame, *, are_ranges: bool) -> Iterator[Found]:
    """Stages that compute longer than others. clean: with slow ranks at their peers' pace."""
    compute = clean.filter(pl.col("pace") == "compute")
    if compute.get_column("stage").n_unique() < 2:
        return
    by_rank = compute.group_by("stage", "at", "type", "step").agg(pl.col("duration_ns").sum())
    num_steps = compute.group_by("at").agg(pl.col("step").n_unique().alias("steps"))
    by_rank = by_rank.group_by("stage", "at", "type").agg(pl.col("duration_ns").sum()).join(num_steps, on="at")
    by_rank = by_rank.with_columns(pl.col("duration_ns") / pl.col("steps"))
    lower = pl.col("duration_ns").quantile(0.5, interpolation="lower")
    table = by_rank.group_by("stage", "type").agg(lower)
    num_stages = table.get_column("stage").n_unique()
    by_type = pl.col("duration_ns").sum().over("type") / num_stages
    if are_ranges:
        table = table.with_columns((by_type / pl.col("duration_ns").clip(lower_bound=1)).alias("factor"))
    whole = table.group_by("stage").agg(pl.col("duration_ns").sum()).sort("stage")
    whole = whole.with_columns((pl.col("duration_ns") / pl.col("duration_ns").mean()).alias("ratio"))
    if not are_ranges:
        table = table.join(whole.select("stage", factor=1 / pl.col("ratio")), on="stage")
    error = excess_of(clean).error / np.sqrt(max(1, clean.get_column("step").n_unique()))
    long = whole.filter(pl.col("ratio") - 1 >= max(_LEAST, _SURELY * error)).sort("ratio", descending=True)
    if long.is_empty():
        return
    stages = tuple(long.get_column("stage").to_list())
    last = int(whole.get_column("stage").max() or 0)  # type: ignore[arg-type]
    alone = compute.get_column("at").n_unique() == num_stages  # one rank a stage
    if len(stages) > 1 and alone and num_stages > len(stages):
        yield from (_long_alone(rows, table, stage, stages, last) for stage in stages)
        return
    joined = rows.join(table.select("stage", "type", "factor"), on=("stage", "type"), how="left", maintain_order="left")
    scale = pl.when(pl.col("pace") == "compute").then(pl.col("factor").fill_null(1.0)).otherwise(1.0)
    repaired = joined.select(pl.col("duration_ns") * scale).to_series().to_numpy()
    single = rows.filter(pl.col("stage") == stages[0]).get_column("at").unique().to_list()
    others = whole.filter(~pl.col("stage").is_in(list(stages))).get_column("duration_ns")
    ratio = long.item(0, "duration_ns") / float(others.mean() or 1)  # type: ignore[arg-type]
    tops = table.filter(pl.col("stage") == stages[0]).sort("duration_ns", descending=True)
    means = (
        table.filter(~pl.col("stage").is_in(list(stages))).group_by("type").agg(pl.col("duration_ns").mean().alias("m"))
    )
    parts = _longer(tops.join(means, on="type", how="left", maintain_order="left"))
    spread = float(np.ptp(others.to_numpy()) / max(1.0, float(others.mean() or 1))) if len(others) else 1.0  # type: ignore[arg-type]
    in_midst = (
        len(single) == 1 and stages[0] not in (0, last) and len(stages) == 1 and num_stages > 2 and spread < _UNEVEN
    )
    yield Found(
        kind="slow compute" if in_midst else "uneven stages",
        repaired_ns=repaired,
        ranks=tuple(single) if in_midst else (),
        stages=stages,
        ratio=(ratio,),
        evidence=parts,
        details={"last": last, "no_peers": len(single) == 1},
    )


def _longer(table: pl.DataFrame) -> str:
    """Which types of a stage are longer than m, those of the others."""
    lost = (pl.col("duration_ns") - pl.col("m").fill_null(0)).alias("lost")
    rows = table.with_columns(lost).filter(pl.col("lost") >= _SLOW_TOO * pl.col("lost").max()).head(2).rows(named=True)
    own = [row["type"] for row in rows if not row["m"]]
    told = [f"{row['type']} {row['duration_ns'] / row['m']:.2f}×" for row in rows if row["m"]]
    return ", ".join([*told, *([f"{_listed(own)}, which others do not have"] if own else [])])


def _long_alone(rows: pl.DataFrame, table: pl.DataFrame, stage: int, long: Sequence[int], last: int) -> Found:
    """One of several long stages of one rank each: a slow rank, or in the first and last place a stage with more work.
    The latter's work is divided evenly over the stages, where they are as long as those that are not long."""
    like = (
        table.filter(~pl.col("stage").is_in(list(long))).group_by("type").agg(pl.col("duration_ns").mean().alias("m"))
    )
    mine = table.filter(stage=stage).join(like, on="type", maintain_order="left")
    longer = table.filter(stage=stage).join(like, on="type", how="left", maintain_order="left")
    is_rank = stage not in (0, last)
    shares = 0 if is_rank else 1 / table.get_column("stage").n_unique()
    more = mine.select("type", more=(pl.col("duration_ns") - pl.col("m")) * shares)
    parts = table.select("stage", "type", "duration_ns").join(more, on="type").join(like, on="type")
    base = pl.when(pl.col("stage") == stage).then("m").otherwise("duration_ns")
    factor = (base + pl.col("more")) / pl.col("duration_ns").clip(lower_bound=1)
    joined = rows.join(
        parts.select("stage", "type", factor=factor), on=("stage", "type"), how="left", maintain_order="left"
    )  # fmt: skip
    scale = pl.when(pl.col("pace") == "compute").then(pl.col("factor").fill_null(1.0)).otherwise(1.0)
    return Found(
        kind="slow compute" if is_rank else "uneven stages",
        repaired_ns=joined.select(pl.col("duration_ns") * scale).to_series().to_numpy(),
        ranks=tuple(rows.filter(stage=stage).get_column("at").unique().to_list()) if is_rank else (),
        stages=(stage,),
        ratio=(float(mine.get_column("duration_ns").sum()) / max(1.0, float(mine.get_column("m").sum())),),
        evidence=_longer(longer.sort("duration_ns", descending=True)),
        details={"last": last, "no_peers": True},
    )


# --- micro-batches ----------------------------------------------------------------------------------------------------


def _roles(rows: pl.DataFrame) -> pl.DataFrame:
    """The forwards and backwards among computations, each with role ("f" or "b") and mb, its micro-batch, or where the
    file tells none its place in the step."""
    words = pl.col("type").str.to_lowercase()
    is_b = words.str.contains(r"b(?:ack)?wa?r?d|^b|bprop|backward")
    is_f = words.str.contains(r"f(?:or)?wa?r?d|^f|fprop|forward")
    role = pl.when(is_b).then(pl.lit("b")).when(is_f).then(pl.lit("f"))
    mine = rows.filter(pl.col("pace") == "compute").with_columns(role.alias("role")).drop_nulls("role")
    order = pl.int_range(pl.len()).over("at", "step", "chunk", "role")
    key = pl.when(pl.col("micro_batch").is_null().any()).then(order).otherwise(pl.col("micro_batch").cast(pl.Int64))
    return mine.with_columns(key.alias("mb"))


def _pairs(rows: pl.DataFrame, by: str = "at") -> pl.DataFrame:
    """Forward and backward of each micro-batch and rank: their times over the median of their rank (ratio, ratio_b), or
    of their stage,
    and over that of the step (own, own_b; of one micro-batch a step, of the rank)."""
    whole = (
        _roles(rows)
        .group_by("at", "stage", "step", "chunk", "mb", "role")
        .agg(pl.col("duration_ns").sum(), pl.col("row").first())
    )
    typical = pl.col("duration_ns").median().over(by, "chunk", "role").clip(lower_bound=1)
    several = pl.len().over("at", "step", "chunk", "role") > 2
    in_step = pl.col("duration_ns").median().over("at", "step", "chunk", "role").clip(lower_bound=1)
    own = pl.when(several).then(in_step).otherwise(typical)
    whole = whole.with_columns(
        (pl.col("duration_ns") / typical).alias("ratio"), (pl.col("duration_ns") / own).alias("own")
    )
    keys = ["at", "stage", "step", "chunk", "mb"]
    f, b = (whole.filter(role=each).drop("role").sort(keys) for each in ("f", "b"))
    return f.join(b, on=keys, suffix="_b", nulls_equal=True)


def _lengths(rows: pl.DataFrame, by: str = "at") -> Iterator[Found]:
    """Micro-batches of different lengths: forward and backward grow together, within steps, at most of the ranks."""
    pairs = _pairs(rows, by)
    if pairs.height < _FEW:
        return
    uneven = pairs.group_by("at").agg(pl.min_horizontal(pl.col("own").std(), pl.col("own_b").std()).alias("sd"))
    if (uneven.get_column("sd").fill_null(0).to_numpy() >= _UNEVEN).mean() < 0.5:
        return
    correlation = float(np.corrcoef(pairs.get_column("own"), pairs.get_column("own_b"))[0, 1])
    if correlation < _TOGETHER:
        return
    factor = pairs.select("at", "step", "chunk", "mb", length=(pl.col("ratio") + pl.col("ratio_b")) / 2)
    mean = float(factor.get_column("length").mean() or 1)  # type: ignore[arg-type]
    factor = factor.with_columns(pl.col("length") / mean)
    mine = _roles(rows).join(factor, on=("at", "step", "chunk", "mb"), nulls_equal=True)
    repaired = rows.get_column("duration_ns").to_numpy().copy()
    at = mine.get_column("row").to_numpy()
    repaired[at] /= np.maximum(mine.get_column("length").to_numpy(), 1e-3)
    spread = float(np.std(factor.get_column("length").to_numpy()))
    yield Found(
        kind="uneven sequence lengths",
        repaired_ns=repaired,
        evidence=f"forwards and backwards grow together, correlation {correlation:.2f}",
        details={"spread": spread, "error": spread / np.sqrt(pairs.height / pairs.get_column("at").n_unique())},
    )


def _lengths_of_kernels(rows: pl.DataFrame, by: str = "at") -> Iterator[Found]:
    """The same of kernels, whose names tell no forward and backward: nearly all of a micro-batch grow together, each
    with the others. by: at, or stage: whose kernels of that name are its like."""
    mine = rows.filter(pl.col("pace") == "compute", pl.col("track").is_not_null(), pl.col("micro_batch").is_not_null())
    mine = mine.with_columns(pl.col("step").min().over("at", "micro_batch"))
    keys = ["at", "stage", "step", "micro_batch"]
    parts = mine.group_by(*keys, "track").agg(pl.col("duration_ns").sum())
    typical = pl.col("duration_ns").median().over(by, "track").clip(lower_bound=1)
    several = pl.len().over("at", "step", "track") > 2
    in_step = pl.col("duration_ns").median().over("at", "step", "track").clip(lower_bound=1)
    parts = parts.with_columns(
        typical.alias("typical"),
        (pl.col("duration_ns") / pl.when(several).then(in_step).otherwise(typical)).alias("own"),
    )
    whole, length = pl.col("typical").sum().over(keys), (pl.col("typical") * pl.col("own")).sum().over(keys)
    others = (length - pl.col("typical") * pl.col("own")) / (whole - pl.col("typical")).clip(lower_bound=1)
    parts = parts.with_columns(others.alias("others"), (length / whole).alias("length"))
    lengths = parts.unique(keys)
    uneven = lengths.group_by("at").agg(pl.col("length").std().alias("sd")).get_column("sd").fill_null(0).to_numpy()
    if lengths.height < _FEW or (uneven >= _UNEVEN).mean() <= 0.5:
        return
    weighed = parts.group_by("track").agg(
        pl.corr("own", "others").alias("r"), pl.col("typical").sum(), pl.len().alias("num")
    )  # fmt: skip
    weighed = weighed.with_columns(pl.col("r").fill_nan(0).fill_null(0))
    together = weighed.filter(pl.col("r") >= _TOGETHER)
    if float(together.get_column("typical").sum()) < _MOST_GROW * float(weighed.get_column("typical").sum()):
        return
    parts = parts.join(together.select("track"), on="track", how="semi")
    factor = parts.group_by(*keys).agg(
        pl.col("duration_ns").sum().alias("own_ns"), pl.col("typical").sum().alias("like_ns")
    ).with_columns(pl.col("own_ns") / pl.col("like_ns").clip(lower_bound=1))  # fmt: skip
    mean = float(factor.get_column("own_ns").mean() or 1)  # type: ignore[arg-type]
    factor = factor.select(*keys, length=pl.col("own_ns") / mean)
    repaired = rows.get_column("duration_ns").to_numpy().copy()
    growing = mine.join(together.select("track"), on="track", how="semi", maintain_order="left")
    growing = growing.join(factor, on=keys, maintain_order="left")
    repaired[growing.get_column("row").to_numpy()] /= np.maximum(growing.get_column("length").to_numpy(), 1e-3)
    spread = float(np.std(factor.get_column("length").to_numpy()))
    correlation = float(np.average(together.get_column("r"), weights=together.get_column("typical")))
    yield Found(
        kind="uneven sequence lengths",
        repaired_ns=repaired,
        evidence=f"all their kernels grow together, correlation {correlation:.2f}",
        details={"spread": spread, "error": spread / np.sqrt(lengths.height / lengths.get_column("at").n_unique())},
    )


def _named_collections(ops: pl.DataFrame) -> Iterator[Found]:
    """Ranges that say that they collect garbage, where few ranks do so in that step: where all do it costs each the
    same."""
    is_one = (pl.col("pace") == "compute") & pl.col("type").fill_null("").str.contains(_GARBAGE)
    num_ranks = ops.get_column("at").n_unique()
    mine = ops.select("at", "step", "type", "duration_ns", is_one=is_one.fill_null(False))
    at_once = pl.when("is_one").then("at").n_unique().over("step", "is_one")
    alone = mine.select(pl.col("is_one") & (2 * at_once <= num_ranks)).to_series().fill_null(False)
    single = mine.filter(alone)
    if single.is_empty():
        return
    ranks = single.get_column("at").unique().sort().to_list()
    names = single.get_column("type").unique().sort().to_list()
    extra = float(single.get_column("duration_ns").median() or 0)  # type: ignore[arg-type]
    own = ops.get_column("duration_ns").to_numpy()
    told = f"{counted(single.height, 'range')} of {_listed(names[:2])} at {counted(len(ranks), 'rank')}"
    few = ranks if 2 * len(ranks) <= num_ranks else []
    yield Found(
        kind="garbage collection",
        repaired_ns=np.where(alone.to_numpy(), 0.0, own),
        ranks=tuple(few),
        evidence=f"{told}, {duration(extra)} each in the median",
        details={"is_named": 1.0, "extra": extra, "num": float(single.height), "ranks": float(len(ranks))},
    )


def _collections(clean: pl.DataFrame, rows: pl.DataFrame) -> Iterator[Found]:
    """Single long forwards, whose backward is as ever: Python's garbage collector ran in their host's midst. Or single
    long backwards, whose forward is."""
    pairs = _pairs(clean)
    if pairs.is_empty():
        return
    yield from _long(pairs, rows, "forward")
    yield from _long(pairs, rows, "backward")


def _long(pairs: pl.DataFrame, rows: pl.DataFrame, way: str) -> Iterator[Found]:
    """Of one way. What is long in nearly all of a step is slow there."""
    end, other = ("", "_b") if way == "forward" else ("_b", "")
    f, b = pairs.get_column(f"ratio{end}").to_numpy(), pairs.get_column(f"ratio{other}").to_numpy()
    middle = float(np.median(f))
    apart = np.log(np.maximum(f, 1e-9) / middle)
    deviation = 1.4826 * float(np.median(np.abs(apart)))
    is_long = (f > _LONG * middle) & (apart > _OUTSIDE * deviation)
    is_long &= (f - np.median(f)) > 2 * (b - np.median(b))
    number, num_long = pl.len().over("at", "step"), pl.col("long").sum().over("at", "step")
    in_step = pairs.select("at", "step", long=pl.Series(is_long)).select(
        few=(number < _FEW_A_STEP) | (num_long <= _NEARLY_ALL * number)
    )
    is_long &= in_step.get_column("few").to_numpy()
    share = float(is_long.mean())
    num_ranks = pairs.filter(pl.Series(is_long)).get_column("at").n_unique()
    if not is_long.any() or share > _RARE or is_long.sum() < 2 or num_ranks < 2:
        return
    long = pairs.filter(pl.Series(is_long))
    if way == "backward" and long.get_column("at").value_counts().get_column("count").max() > _BY_ONE * long.height:  # type: ignore[operator]
        return
    like = long.get_column(f"duration_ns{end}").to_numpy() / f[is_long]
    values = rows.get_column("duration_ns").to_numpy().copy()
    at = long.get_column(f"row{end}").to_numpy()
    extra = long.get_column(f"duration_ns{end}").to_numpy() - like
    values[at] = np.maximum(values[at] - extra, 0)
    yield Found(
        kind="garbage collection",
        repaired_ns=values,
        ranks=(),
        evidence=f"{int(is_long.sum()):,} of {len(is_long):,}, at {num_ranks} ranks, by "
        f"{duration(float(np.median(extra)))}; not their {'backwards' if way == 'forward' else 'forwards'}",
        details={
            "way": way,
            "extra": float(np.median(extra)),
            "num": float(is_long.sum()),
            "ranks": float(num_ranks),
        },
    )


# --- links and hosts --------------------------------------------------------------------------------------------------


def _slow_links(rows: pl.DataFrame) -> Iterator[Found]:
    """Groups of ranks whose transfers take longer than those of other groups of that type."""
    mine = rows.filter(pl.col("pace") == "transfer", pl.col("group").is_not_null())
    if mine.is_empty():
        return
    typical = pl.col("duration_ns").median()
    groups = mine.group_by("type", "group").agg(typical, pl.len().alias("num"))
    lower = pl.col("duration_ns").quantile(0.5, interpolation="lower").over("type")
    groups = groups.with_columns(
        (pl.col("duration_ns") / lower.clip(lower_bound=1)).alias("ratio"), lower.alias("like_ns"),
        pl.len().over("type").alias("num_groups"),
    )  # fmt: skip
    slow = groups.filter(pl.col("num_groups") > 1, pl.col("ratio") >= _SLOW_LINK)
    if slow.is_empty():
        return
    total = slow.group_by("group").agg(
        ((pl.col("duration_ns") - pl.col("like_ns")) * pl.col("num")).sum().alias("lost"), pl.col("ratio").max(),
        pl.col("type").sort_by("ratio").last(),
    )  # fmt: skip
    total = total.sort("lost", descending=True)
    worst = total.filter(pl.col("lost") >= 0.3 * pl.col("lost").max()).head(8)
    joined = rows.join(slow.select("type", "group", "ratio"), on=("type", "group"), how="left", maintain_order="left")
    is_slow = (pl.col("pace") == "transfer") & pl.col("ratio").is_not_null()
    repaired = (
        joined.select(pl.col("duration_ns") / pl.when(is_slow).then("ratio").otherwise(1.0)).to_series().to_numpy()
    )
    members: list[int] = []
    for group in worst.get_column("group").head(2).to_list():
        members += [
            at for at in sorted(mine.filter(group=group).get_column("at").unique().to_list()) if at not in members
        ]
    yield Found(
        kind="slow link",
        repaired_ns=repaired,
        ranks=tuple(members),
        ratio=(float(worst.item(0, "ratio")),),
        evidence=str(worst.item(0, "type")),
        details={"groups": float(worst.height)},
    )


def _host_collections(rows: pl.DataFrame) -> Iterator[Found]:
    """Long stops of hosts, now at one rank and now at another: Python's garbage collector ran there, or something as
    rare. A rank that stops before the same work in each step, as long each time, has a late host instead."""
    lost = pl.col("duration_ns") - pl.col("ideal_ns")
    mine = rows.filter(pl.col("pace") == "host").with_columns(lost.alias("lost")).filter(pl.col("lost") > 0)
    long = mine.filter(pl.col("lost") >= _A_STOP * pl.col("lost").quantile(0.99, interpolation="lower"))
    num_steps = rows.get_column("step").n_unique()
    like = pl.col("lost").median().over("at", "type")
    is_alike = (pl.col("lost") - like).abs() <= _AS_LONG * like
    is_regular = is_alike & (is_alike.sum().over("at", "type") >= max(2.0, _OFTEN * num_steps))
    long = long.with_columns(is_regular.alias("is_regular"))
    regular = float(long.filter("is_regular").get_column("lost").median() or 0)  # type: ignore[arg-type]
    single = long.filter(~pl.col("is_regular"), pl.col("lost") > 1.3 * regular)
    counts = single.get_column("at").value_counts().get_column("count").to_numpy()
    if len(counts) < 2 or single.height < _FEWEST_STOPS or counts.max() > _BY_ONE * single.height:
        return
    in_step = single.group_by("step").agg(pl.col("at").n_unique()).get_column("at").to_numpy()
    if 2 * in_step.max() > rows.get_column("at").n_unique() and in_step.max() >= _BY_ONE * single.height:
        return  # all stop at once
    values = rows.get_column("duration_ns").to_numpy().copy()
    values[single.get_column("row").to_numpy()] = single.get_column("ideal_ns").to_numpy()
    extra = float(single.get_column("lost").median() or 0)  # type: ignore[arg-type]
    yield Found(
        kind="garbage collection",
        repaired_ns=values,
        evidence=f"{single.height:,} stops at {len(counts):,} ranks, {duration(extra)} each in the median",
        details={"extra": extra, "num": float(single.height), "ranks": float(len(counts)), "are_hosts": 1.0},
    )


def _late_hosts(rows: pl.DataFrame, *, are_ranges: bool) -> Iterator[Found]:
    """Ranks whose host takes longer than its peers' before the same work."""
    mine = rows.filter(pl.col("pace") == "host")
    if mine.is_empty():
        return
    lost = mine.group_by("at").agg((pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost"))
    lost = lost.sort("lost", descending=True)
    most = float(lost.item(0, "lost"))
    if most <= 0:
        return
    late = lost.filter(pl.col("lost") >= 0.5 * most).get_column("at").to_list()
    is_host = (rows.get_column("pace") == "host").to_numpy()
    values = np.where(is_host, rows.get_column("ideal_ns").to_numpy(), rows.get_column("duration_ns").to_numpy())
    worst = mine.filter(pl.col("at") == late[0]).group_by("type").agg(
        (pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost")
    ).sort("lost", descending=True)  # fmt: skip
    steps = mine.filter(pl.col("at") == late[0]).group_by("step").agg(
        (pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost")
    ).sort("step")  # fmt: skip
    all_steps = np.sort(rows.get_column("step").unique().to_numpy())
    by_step = dict(steps.iter_rows())
    amounts = np.array([by_step.get(step, 0.0) for step in all_steps])
    sums = np.cumsum(amounts[::-1])[::-1]
    first = int(np.argmax(sums / np.sqrt(len(sums) - np.arange(len(sums)))))
    before = amounts[:first].mean() if first else amounts.mean()
    is_later = first > 0 and before < 0.5 * amounts[first:].mean()
    once = int(np.argmax(amounts))
    is_once = len(amounts) >= _FEWEST_STEPS and amounts[once] >= _MOST_ONCE * amounts.sum()
    ranks = late if 2 * len(late) <= rows.get_column("at").n_unique() else []
    own, whose = rows.get_column("duration_ns").to_numpy(), rows.get_column("at")
    yield Found(
        kind="late host",
        repaired_ns=values,
        ranks=tuple(int(at) for at in ranks),
        each=tuple(np.where((whose == at).to_numpy(), values, own) for at in ranks) if len(ranks) > 1 else (),
        first_step=int(all_steps[first]) if is_later and not is_once else None,
        evidence=str(worst.item(0, "type")).replace("between ranges", "between operations"),
        details={
            "lost": float(amounts[once]) if is_once else most / max(1, len(all_steps)),
            "are_ranges": float(are_ranges),
            **({"when": _when([int(all_steps[once])], all_steps)} if is_once else {}),
        },
    )
