"""A cause before it is weighed: what each op would take without it; and repairs that were found apart, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.job_slowdown import CauseKind

LEAST = 0.015  # by how much a rank, or a stage, must be slower than its peers
SURELY = 5.0  # standard errors
OFTEN = 2 / 3  # of the steps since then it must be slower
UNEVEN = 0.03  # by which micro-batches of one rank must differ, standard deviation over mean
BY_ONE = 0.7  # of the stops that one rank has: then it is late, and no garbage is collected now here, now there
SLOW_TOO = 0.15  # of the most that a type loses: others that lose as much are named with it
FEWEST_STEPS = 3  # in which one that is slow once is told from the others
_MOST_LISTED = 4  # steps that are listed
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A cause before it is weighed. repaired_ns: of each op, [ops]. each: of each rank, or stage, that it is of, the
    same with this one alone repaired. words: `{who}` is put in where ranks are named."""

    kind: CauseKind
    repaired_ns: Floats
    ranks: tuple[int, ...] = ()  # positions
    stages: tuple[int, ...] = ()
    each: tuple[Floats, ...] = ()
    first_step: int | None = None
    ratio: tuple[float, ...] = ()
    turns: tuple[tuple[tuple[int, ...], str], ...] = ()  # of those that are slow in other steps each: ranks, and when
    evidence: str = ""
    details: Mapping[str, float | str] = field(default_factory=dict)


def with_durations(rows: pl.DataFrame, durations_ns: Floats) -> pl.DataFrame:
    """The rows with other durations."""
    return rows.with_columns(pl.Series("duration_ns", durations_ns))


def scaled(rows: pl.DataFrame, others: pl.DataFrame, found: Found) -> Floats:
    """Durations of rows with a repair of others."""
    own, before = (each.get_column("duration_ns").to_numpy() for each in (rows, others))
    durations: Floats = own * found.repaired_ns / np.maximum(before, 1e-9)
    return durations


def added_to(rows: pl.DataFrame, others: pl.DataFrame, found: Found, *, back: bool = False) -> Found:
    """A repair that was found in rows with other durations, as one of the rows as they are. back: the other way."""
    own, before = (each.get_column("duration_ns").to_numpy() for each in (rows, others))
    scale = before / np.maximum(own, 1e-9) if back else own / np.maximum(before, 1e-9)
    return replace(found, repaired_ns=found.repaired_ns * scale, each=tuple(each * scale for each in found.each))


def added_by(rows: pl.DataFrame, others: pl.DataFrame, found: Found) -> Found:
    """The same, where what the other rows take less is time of its own."""
    more = rows.get_column("duration_ns").to_numpy() - others.get_column("duration_ns").to_numpy()
    return replace(found, repaired_ns=found.repaired_ns + more, each=tuple(each + more for each in found.each))


def in_steps(mine: Sequence[int], every: NDArray[np.int64]) -> str:
    """In which steps, in words."""
    if len(mine) == 1:
        return f"in step {mine[0]} alone"
    at = np.searchsorted(every, mine)
    if at[-1] - at[0] == len(mine) - 1:
        return f"in steps {mine[0]} {'and' if len(mine) == 2 else 'to'} {mine[-1]}"
    if len(mine) <= _MOST_LISTED:
        return f"in steps {', '.join(map(str, mine[:-1]))} and {mine[-1]}"
    return f"in {len(mine)} of {len(every)} steps"


def listed(names: Sequence[str]) -> str:
    """Names as an enumeration."""
    return " and ".join(names)
