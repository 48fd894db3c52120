"""The two sides of a comparison: the ranks that both have, and of each run the steps that are as it usually is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.excluded_ranks import names_of
from weftrace.analysis.step_shares_document import OTHER, in_other
from weftrace.comparison.runs import LABELS, SHARE_SCHEMA, SUMS, RankRun, Run, with_waits
from weftrace.comparison.steady_steps import SteadySteps, steady_steps
from weftrace.units import duration

_MOST_NAMED = 8
_NO_WINDOWS = pl.DataFrame(schema={"step": pl.Int64, "start_ns": pl.Int64, "end_ns": pl.Int64})
_NOTHING = pl.DataFrame(schema={"at": pl.Int32(), **SHARE_SCHEMA})


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
        steps = pl.Series("step", self.steady.steps or (None,), dtype=pl.Int64)
        order = steps.to_frame().with_row_index("at_step")
        sums = self.shares.group_by(*by, "step", maintain_order=True).agg(pl.col(column).sum())
        sums = sums.join(order, on="step", nulls_equal=True, maintain_order="left")
        at = np.zeros(sums.height, np.intp)
        groups = pl.DataFrame()
        if by:
            groups = sums.select(by).unique(maintain_order=True)
            numbered = groups.with_row_index("at_group")
            at = sums.join(numbered, on=by, nulls_equal=True, maintain_order="left").get_column("at_group").to_numpy()
        found = np.zeros((groups.height if by else 1, len(steps)))
        found[at, sums.get_column("at_step").to_numpy()] = sums.get_column(column).to_numpy() / max(1, len(self.ranks))
        values = pl.DataFrame(found, schema=[f"step {step}" for step in steps], orient="row")
        return groups.hstack(values) if by else values


def sides_of(before: Run, after: Run) -> tuple[Side, Side]:
    """Both sides, with the ranks that both have: by number (and device, where a process drove several), or the only one
    of each. Waiting for late ranks is a part of its own where it is known of all of them."""
    pairs = _pairs(before, after)
    one, other = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if len({rank.steps_by for rank in (*one, *other)}) > 1:  # ranges of one name stand for no others
        one, other = _without_named_steps(one), _without_named_steps(other)
    if len({rank.world_size for rank in (*one, *other)}) == 1:  # files are missing, so who waited for whom is asked
        one, other = _among(one, before), _among(other, after)  # of those alone that both have
    one, other = list(map(_folded_like, one, other)), list(map(_folded_like, other, one))
    is_split = all(rank.waits is not None for rank in (*one, *other))
    return _side(before, one, is_split=is_split), _side(after, other, is_split=is_split)


def _without_named_steps(ranks: list[RankRun]) -> list[RankRun]:
    """Whole recordings, where ranges stand for steps."""
    whole = {"windows": _NO_WINDOWS, "seam_ns": None, "steps_by": None}
    return [replace(rank, **whole) if rank.steps_by else rank for rank in ranks]  # type: ignore[arg-type]


def _among(ranks: list[RankRun], run: Run) -> list[RankRun]:
    return list(with_waits(ranks)[0]) if len(ranks) < len(run.ranks) else ranks


def notes_of(before: Side, after: Side) -> tuple[str, ...]:
    """What the two runs say of themselves, and the ranks that one alone has, with their time."""
    names = "before", "after"
    summary = [f"{name}: {note}" for name, side in zip(names, (before, after), strict=True) for note in side.run.notes]
    summary += [note for name, side in zip(names, (before, after), strict=True) for note in _unpaired(name, side)]
    is_known = [all(rank.waits is not None for rank in side.ranks) for side in (before, after)]
    if any(is_known) and not all(is_known):
        summary.append(
            f"{names[is_known.index(False)]}: it is unknown which rank waited for which, so neither run shows it"
        )
    return tuple(summary)


def _pairs(before: Run, after: Run) -> list[tuple[RankRun, RankRun]]:
    if len(before.ranks) == len(after.ranks) == 1:
        return [(before.ranks[0], after.ranks[0])]
    with_device = any(len({rank.rank for rank in run.ranks}) < len(run.ranks) for run in (before, after))
    one, other = ({_key(rank, with_device): rank for rank in run.ranks} for run in (before, after))
    return [(one[key], other[key]) for key in one if key in other]


def _key(rank: RankRun, with_device: bool) -> tuple[object, ...]:
    number = PurePath(rank.path).name if rank.rank is None else rank.rank
    return (number, rank.device) if with_device else (number,)


def _unpaired(name: str, side: Side) -> Iterator[str]:
    """Ranks that the other run does not have, a few at a time."""
    compared = {(rank.path, rank.rank, rank.device) for rank in side.ranks}
    left = [rank for rank in side.run.ranks if (rank.path, rank.rank, rank.device) not in compared]
    if not left:
        return
    times = [f"{called} ({duration(_step_ns(rank))} a step)" for called, rank in zip(names_of(left), left, strict=True)]
    shown = ", ".join(times[:_MOST_NAMED]) + (f" and {len(left) - _MOST_NAMED:,} more" * (len(left) > _MOST_NAMED))
    yield f"{name} alone has {shown}: compared with nothing"


def _step_ns(rank: RankRun) -> int:
    """The mean step of a rank; the whole recording where it has none."""
    steps = rank.windows.height
    return round((rank.windows["end_ns"] - rank.windows["start_ns"]).sum() / steps) if steps else rank.span_ns


def _side(run: Run, ranks: Sequence[RankRun], *, is_split: bool) -> Side:
    steady = steady_steps(ranks)
    schema = {"at": pl.Int32(), **SHARE_SCHEMA}
    every = pl.concat([_rows(rank, at, steady.steps, is_split) for at, rank in enumerate(ranks)] or [_NOTHING])
    summed = every.select(*schema).group_by("at", "step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum())
    named = {rank.steps_by for rank in ranks if rank.steps_by}
    notes = tuple(f"a step is from one range {name!r} to the next" for name in named)
    run = replace(run, notes=(*run.notes, *notes))
    return Side(run=run, ranks=tuple(ranks), steady=steady, shares=summed)


def _rows(rank: RankRun, at: int, steps: tuple[int, ...], is_split: bool) -> pl.DataFrame:
    rows = rank.shares if rank.waits is None or not is_split else pl.concat((rank.shares, rank.waits))
    step = {} if steps else {"step": pl.lit(None, dtype=pl.Int64)}
    chosen = rows.filter(pl.col("step").is_in(steps) if steps else pl.lit(True))
    return chosen.with_columns(at=pl.lit(at, dtype=pl.Int32), **step)


def of_rank(side: Side, at: int) -> Side:
    """One rank of a side, by its position."""
    return replace(side, ranks=side.ranks[at : at + 1], shares=side.shares.filter(pl.col("at") == at))


def renamed(side: Side, names: Mapping[str, Mapping[str, str]]) -> Side:
    """A side with kernels, operators and phases under the names by which they are aligned: label -> its own -> that."""
    changed = [pl.col(label).replace(dict(each)) for label, each in names.items() if each]
    if not changed:
        return side
    shares = side.shares.with_columns(changed)
    return replace(side, shares=shares.group_by("at", "step", *LABELS, maintain_order=True).agg(pl.col(SUMS).sum()))


def _folded_like(rank: RankRun, like: RankRun) -> RankRun:
    """A rank with those rows folded that a report of `like`, which kept its largest rows, would fold: rows that it does
    not name, and that take less time in a step than any that it names. So what is new and large is shown as new."""
    if not like.num_merged:
        return rank
    named = _sizes(like)
    least_ns = named.filter(pl.col("kernel").ne_missing(OTHER)).get_column("raw_ns").min()
    small = _sizes(rank).filter(pl.col("raw_ns") <= least_ns)
    small = small.join(named, on=LABELS, how="anti", nulls_equal=True).select(LABELS)
    waits = None if rank.waits is None else in_other(rank.waits, small)
    return replace(rank, shares=in_other(rank.shares, small), waits=waits)


def _sizes(rank: RankRun) -> pl.DataFrame:
    """Durations of each row of labels in a step."""
    steps = max(1, rank.windows.height)
    return rank.shares.group_by(LABELS).agg(pl.col("raw_ns").sum() / steps)
