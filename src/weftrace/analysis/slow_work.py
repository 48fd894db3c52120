"""Which rank computes longer than those that do the same? Lateness tells who was waited for; this tells what it did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount, Count, Ns, Share
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.units import duration

_SLOWER = 1.1  # times its peers: what is less is not reported
_OFTEN = 2 / 3  # of the steps in which a slow rank is slower than its peers
_OUTSIDE = 5.0  # times the median deviation of all ranks: a rank that is as far out as that is no chance
_VARIES = 1.2  # the slowest of a step against its peers, median over steps

#: Columns of what `slow_work` takes of each rank, a row a step (null: no steps are known) and phase.
TIMES_SCHEMA: dict[str, pl.DataType] = {"step": pl.Int64(), "phase": pl.String(), "compute_ns": pl.Int64()}
ALL = ""  # the phase that stands for all compute of the step


class SlowRankRow(TypedDict):
    """How long a rank computes in a step, against its peers: the ranks of its stage if stages are known, else all."""

    rank: Annotated[Count | None, Meta(description="As in `ranks`; so are device, path and name.")]
    device: Count | None
    path: str
    name: str
    stage: Annotated[Count | None, Meta(description="Pipeline stage; null if unknown.")]
    compute_ns: Annotated[Ns, Meta(description="Mean over the steps that all ranks tell; else of the whole trace.")]
    peers_ns: Annotated[Ns, Meta(description="Mean over the steps of the lower median of its peers', itself included.")]
    ratio: Annotated[Amount, Meta(description="compute_ns / peers_ns.")]
    share_of_steps: Annotated[Share, Meta(description="Steps in which it computes longer than that median.")]
    phase: Annotated[str | None, Meta(description="The phase in which it loses most; null if unknown.")]
    phase_ratio: Amount | None
    is_slow: Annotated[
        bool,
        Meta(description="ratio of 1.1 or more, in two thirds of the steps, and far beyond how the others differ."),
    ]


class SlowStageRow(TypedDict):
    """How long the ranks of a pipeline stage compute in a step, against those of the other stages."""

    stage: Count
    compute_ns: Annotated[Ns, Meta(description="Lower median of its ranks.")]
    ratio: Annotated[float, Meta(ge=0, description="To the lower median of the stages.")]
    is_slow: Annotated[bool, Meta(description="ratio of 1.1 or more.")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class SlowWork(InNotebook):
    """Who computes longer than those that do the same."""

    ranks: Annotated[
        pl.DataFrame,
        As(list[SlowRankRow]),
        Meta(description="Those in the sums of the job, in the order of `ranks`."),
    ]
    stages: Annotated[pl.DataFrame, As(list[SlowStageRow]), Meta(description="Where two stages or more are known.")]
    varies: Annotated[
        Amount | None,
        Meta(
            description="The slowest of a step against its peers, median over steps, if no rank is slow in all and "
            "the slowest one usually changes; null otherwise."
        ),
    ]
    num_slowest: Annotated[Count, Meta(description="How many ranks are the slowest of a step.")]
    num_steps: Annotated[Count, Meta(description="Steps the means are over; 0 if no step is known.")]

    def _describe(self) -> Iterator[tuple[str, str]]:
        for at, row in enumerate(self.ranks.iter_rows(named=True)):
            if row["is_slow"]:
                yield f"rank at {at}", f"{row['ratio']:.2f}× its peers, {duration(row['compute_ns'])} a step"
        for row in self.stages.filter("is_slow").iter_rows(named=True):
            yield f"stage {row['stage']}", f"{row['ratio']:.2f}× the other stages"


def slow_work(times: Sequence[pl.DataFrame], stages: Sequence[int | None] | None = None) -> SlowWork | None:
    """Compare the ranks of a job; None of fewer than two, or where none computes. `ranks` has the position of each rank
    (`at`) in place of what it is called.

    times: of each rank a frame of `TIMES_SCHEMA`, with phase `ALL` for all that it computes in a step. stages: of each
    rank its pipeline stage, None where it is not known.
    """
    summary = stages if stages and all(stage is not None for stage in stages) else [0] * len(times)
    frames = [
        frame.with_columns(pl.lit(at, dtype=pl.Int64).alias("at"), pl.lit(summary[at], dtype=pl.Int64).alias("stage"))
        for at, frame in enumerate(times)
    ]
    rows = pl.concat([pl.DataFrame(schema={**TIMES_SCHEMA, "at": pl.Int64(), "stage": pl.Int64()}), *frames])
    rows = _in_all_steps(rows, len(times))
    if len(times) < 2 or not rows.get_column("compute_ns").sum():
        return None
    peers = rows.group_by("stage", "step", "phase").agg(_lower_median("compute_ns").alias("peers_ns"))
    rows = rows.join(peers, on=("stage", "step", "phase"), nulls_equal=True)
    ranks = _ranks(rows)
    whole = rows.filter(pl.col("phase") == ALL)
    varies, num_slowest = _varies(whole, ranks)
    return SlowWork(
        ranks=ranks,
        stages=_stages(ranks, summary),
        varies=varies,
        num_slowest=num_slowest,
        num_steps=whole.get_column("step").drop_nulls().n_unique(),
    )


def _in_all_steps(rows: pl.DataFrame, num_ranks: int) -> pl.DataFrame:
    """The steps that every rank tells: what one rank did not record, it did not do faster."""
    whole = rows.filter(pl.col("phase") == ALL).group_by("step").agg(pl.col("at").n_unique())
    return rows.join(whole.filter(pl.col("at") == num_ranks).select("step"), on="step", how="semi", nulls_equal=True)


def _ranks(rows: pl.DataFrame) -> pl.DataFrame:
    sums = rows.group_by("at", "stage", "phase").agg(
        pl.col("compute_ns").mean(),
        pl.col("peers_ns").mean(),
        (pl.col("compute_ns") > pl.col("peers_ns")).mean().alias("share_of_steps"),
    )
    sums = sums.with_columns((pl.col("compute_ns") / pl.col("peers_ns").clip(lower_bound=1)).alias("ratio"))
    lost = sums.filter(pl.col("phase") != ALL).sort(
        pl.col("compute_ns") - pl.col("peers_ns"), "phase", descending=[True, False]
    )
    most = lost.group_by("at", maintain_order=True).agg(
        pl.col("phase").first(), pl.col("ratio").first().alias("phase_ratio")
    )
    whole = sums.filter(pl.col("phase") == ALL).drop("phase")
    deviation = (pl.col("ratio") - 1).abs()
    far = _OUTSIDE * deviation.sort().slice((pl.len() - 1) // 2, 1).first()
    slow = ((pl.col("ratio") >= _SLOWER) & (pl.col("ratio") - 1 >= far) & (pl.col("share_of_steps") >= _OFTEN)).alias(
        "is_slow"
    )
    return (
        whole.with_columns(slow)
        .join(most, on="at", how="left")
        .sort("at")
        .select(
            "at", "stage", pl.col("compute_ns", "peers_ns").round().cast(pl.Int64), "ratio", "share_of_steps",
            "phase", "phase_ratio", "is_slow",
        )
    )  # fmt: skip


def _stages(ranks: pl.DataFrame, summary: Sequence[int | None]) -> pl.DataFrame:
    stages = ranks.group_by("stage").agg(_lower_median("compute_ns")).sort("stage")
    stages = stages.with_columns(
        (pl.col("compute_ns") / _lower_median("compute_ns").clip(lower_bound=1)).alias("ratio")
    ).with_columns((pl.col("ratio") >= _SLOWER).alias("is_slow"))
    return stages if stages.height > 1 else stages.clear()


def _varies(whole: pl.DataFrame, ranks: pl.DataFrame) -> tuple[float | None, int]:
    """How far the slowest of a step stands out, where no rank is it in most steps."""
    ratio = pl.col("compute_ns") / pl.col("peers_ns").clip(lower_bound=1)
    slowest = (
        whole.with_columns(ratio.alias("ratio")).sort("ratio", "at", descending=[True, False])
        .group_by("step", maintain_order=True).agg(pl.col("at", "ratio").first())
    )  # fmt: skip
    num_slowest = slowest.get_column("at").n_unique()
    if slowest.height < 2 or ranks.get_column("is_slow").any():
        return None, num_slowest
    often = slowest.group_by("at").len().get_column("len").max()
    typical = float(slowest.get_column("ratio").median())  # type: ignore[arg-type]
    moves = typical >= _VARIES and isinstance(often, int) and 2 * often <= slowest.height
    return (typical if moves else None), num_slowest


def _lower_median(column: str) -> pl.Expr:
    """The lower of the middle two, so that it is some rank's own."""
    values = pl.col(column).sort()
    return values.get((pl.len() - 1) // 2)
