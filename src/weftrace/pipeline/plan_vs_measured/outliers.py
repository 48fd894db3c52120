"""Which actions took much longer than others that do the same? Rare events, which a median leaves out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count, Positive
from weftrace.pipeline.measured.runs import TOOK, MeasuredRun
from weftrace.pipeline.schedule import ACTION_SCHEMA, Action
from weftrace.units import counted, duration

_LEAST_PEERS: Final = 3
_SPREADS, _PART, _OF_STEP = 6, 0.25, 0.005  # beyond the usual by all three: of the spread, the median, the makespan
_NORMAL: Final = 1.4826  # a median deviation times this is the standard deviation of a normal distribution
MOST_NAMED: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """One action that took much longer than its peers: those of its rank, kind and stage in the same step."""

    rank: Count
    action: Annotated[str, Meta(description="As a schedule writes it: 3F5, 0F4&7B1.")]
    took_ns: Count
    usual_ns: Annotated[Count, Meta(description="The median of its peers.")]
    longer_ns: Annotated[int, Meta(description="took - usual.")]
    num_peers: Positive
    on_path: Annotated[bool, Meta(description="Whether it is on the critical path of the measured step.")]

    @property
    def sentence(self) -> str:
        """0F4 took 0.9 s longer than its 7 peers, which take 0.1 s."""
        return (
            f"{self.action} on rank {self.rank} took {duration(self.longer_ns)} longer than its "
            f"{counted(self.num_peers, 'peer')} ({duration(self.usual_ns)})"
        )


def outliers(step: MeasuredRun, path: pl.DataFrame) -> tuple[Outlier, ...]:
    """The actions of a step that took much longer than their peers, the longest first, at most `MOST_NAMED`.

    By hand: with m the median of an action's peers and d the median of their distances from m, it took longer than m by
    more than 6 x 1.4826 d, m / 4 and 1/200 of the makespan. Fewer than three peers tell nothing.

    step: one step's actions. path: those on its critical path, with the columns of actions.
    """
    alike = ("rank", "kind", "stage", "back_stage")
    took = step.actions.with_columns(took_ns=TOOK)
    usual = pl.median("took_ns").over(alike)
    found = took.with_columns(num_peers=pl.len().over(alike).cast(pl.Int64) - 1, usual_ns=usual).with_columns(
        longer_ns=pl.col("took_ns") - pl.col("usual_ns")
    )
    spread = pl.col("longer_ns").abs().median().over(alike) * _NORMAL
    least = pl.max_horizontal(_SPREADS * spread, _PART * pl.col("usual_ns"), pl.lit(_OF_STEP * step.makespan_ns))
    found = found.filter(pl.col("num_peers") >= _LEAST_PEERS, pl.col("longer_ns") > least)
    key = ("rank", "kind", "stage", "micro_batch")
    reached = path.select(key).with_columns(pl.lit(True).alias("on_path")).unique()
    found = found.join(reached, on=key, how="left", maintain_order="left").sort(
        "longer_ns", "rank", descending=[True, False], maintain_order=True
    )
    return tuple(
        Outlier(
            rank=row["rank"],
            action=str(Action(**{name: row[name] for name in ACTION_SCHEMA})),
            took_ns=row["took_ns"],
            usual_ns=round(row["usual_ns"]),
            longer_ns=row["took_ns"] - round(row["usual_ns"]),
            num_peers=row["num_peers"],
            on_path=bool(row["on_path"]),
        )
        for row in found.head(MOST_NAMED).iter_rows(named=True)
    )
