"""Which stages of a pipeline compute longer than the others?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl

from weftrace.advice.slowdown.found import LEAST, SLOW_TOO, SURELY, UNEVEN, Found, listed
from weftrace.advice.slowdown.slow_ranks import excess_of


def long_stages(clean: pl.DataFrame, rows: pl.DataFrame, *, are_ranges: bool) -> Iterator[Found]:
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
    long = whole.filter(pl.col("ratio") - 1 >= max(LEAST, SURELY * error)).sort("ratio", descending=True)
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
        len(single) == 1 and stages[0] not in (0, last) and len(stages) == 1 and num_stages > 2 and spread < UNEVEN
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
    rows = table.with_columns(lost).filter(pl.col("lost") >= SLOW_TOO * pl.col("lost").max()).head(2).rows(named=True)
    own = [row["type"] for row in rows if not row["m"]]
    told = [f"{row['type']} {row['duration_ns'] / row['m']:.2f}×" for row in rows if row["m"]]
    return ", ".join([*told, *([f"{listed(own)}, which others do not have"] if own else [])])


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
