"""For which ranks do the others wait longer than before, and what did these themselves do longer?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from weftrace.analysis.excluded_ranks import names_of
from weftrace.comparison.diffs import Diff
from weftrace.comparison.exact_changes import summed
from weftrace.comparison.runs import WAITING
from weftrace.notebook import InNotebook
from weftrace.units import duration

_BY = ("part", "cause", "family")
_MOST_OWN = 16  # ranks of which it is told what they did themselves


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class LateRank(InNotebook):
    """A rank for which others waited. Times in ns of a step, mean over ranks and over the steps that count.

    name: as `cause` of the part "waiting for late ranks". rank: its number, None where it has none or only one run has
    it. before_ns, after_ns: waiting of all ranks that began with it, exposed; before_raw_ns, after_raw_ns: with what
    computation hid of it, after which less is left to hide other communication. own: what changed on the rank itself,
    a row a part, cause and family as in `Diff.by`, of a step of this rank, the largest first, without its own waiting
    for others; None where only one run has it, and of all but the 16 ranks for which waiting changed most.
    """

    name: str
    rank: int | None
    before_ns: int
    after_ns: int
    before_raw_ns: int
    after_raw_ns: int
    own: pl.DataFrame | None

    @property
    def change_ns(self) -> int:
        return self.after_ns - self.before_ns

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rank", self.name
        yield "others wait for it", f"{duration(self.before_raw_ns)} → {duration(self.after_raw_ns)}"
        yield "of it exposed", f"{duration(self.before_ns)} → {duration(self.after_ns)}"


def straggler_attributions(found: Diff) -> tuple[LateRank, ...]:
    """The ranks for which others waited in either run, hidden or not, the largest change first; none where that is not
    known."""
    at = {name: at for at, name in enumerate(names_of(found.before.ranks))}
    waits = found.by("part", "cause").filter(pl.col("part") == WAITING)
    raw_ns = (pl.col(name).round().cast(pl.Int64) for name in ("before_raw_ns", "after_raw_ns"))
    rows = waits.select("cause", "before_ns", "after_ns", *raw_ns)
    rows = rows.sort((pl.col("after_raw_ns") - pl.col("before_raw_ns")).abs(), descending=True, maintain_order=True)
    return tuple(
        _late_rank(found, at.get(row["cause"]), row, with_own=number < _MOST_OWN)
        for number, row in enumerate(rows.iter_rows(named=True))
    )


def _late_rank(found: Diff, at: int | None, row: dict[str, Any], *, with_own: bool) -> LateRank:
    own = None if at is None or not with_own else summed(found.of_rank(at).filter(pl.col("part") != WAITING), _BY)
    times = {name: row[name] for name in ("before_ns", "after_ns", "before_raw_ns", "after_raw_ns")}
    return LateRank(
        name=row["cause"],
        rank=None if at is None else found.before.ranks[at].rank,
        own=None if own is None else own.filter(pl.col("change_ns") != 0),
        **times,
    )
