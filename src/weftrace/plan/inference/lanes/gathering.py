"""Ranges that begin at one time on several ranks, as the last of them is ready: they met in what nobody recorded.

A barrier, or the sum of a norm over all ranks, that a trainer does not log: the ranks that were ready earlier waited.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from weftrace.plan.inference.lanes.votes import Ready
from weftrace.units import US

_TOGETHER_NS = 50 * US  # by which ranges that begin together may be apart
_LEAST_NS = 20 * US
_NEARLY = 0.1  # of how late the latest is: the last to be ready is no later than that
_MOST = 0.9  # of the times a name comes, at its place in the step

#: Columns of what `gathered` returns, a row an op that met others without a record.
GATHERED: dict[str, pl.DataType] = {"row": pl.UInt32(), "gathering": pl.Int64()}


def gathered(ops: pl.DataFrame, ready: Ready, places: Sequence[tuple[tuple[str, int], ...]]) -> pl.DataFrame:
    """A frame of `GATHERED`. ops: of `ops.OPS`. places: of each rank its coordinates in the job, as far as told.

    All ranks are tried, then those that share each place.
    """
    rows = ops.select("at", "name", "step", "start_ns", "meet").with_row_index("row")
    rows = rows.with_columns(
        pl.col("name").cast(pl.String),
        late=pl.Series(ready.late_ns),
        nth=pl.int_range(pl.len()).over("at", "step", "name"),
    ).filter(pl.col("meet").is_null())
    found = [pl.DataFrame(schema=GATHERED)]
    number = 0
    names = rows.filter(pl.col("late") > _TOGETHER_NS).select("name", "nth").unique()
    rows = rows.join(names, on=("name", "nth"), how="semi")
    for key in _partitions(places, int(ops.get_column("at").max() or 0) + 1):  # type: ignore[arg-type]
        if rows.is_empty():
            break
        each = rows.with_columns(part=pl.Series(key, dtype=pl.Int64).gather(rows.get_column("at")))
        sets = each.group_by("name", "nth", "step", "part").agg(
            spread=pl.col("start_ns").max() - pl.col("start_ns").min(), most=pl.col("late").max(),
            least=pl.col("late").min(), number=pl.len(),
        )  # fmt: skip
        most = pl.max_horizontal(_NEARLY * pl.col("most"), pl.lit(float(_LEAST_NS)))
        is_one = (pl.col("number") > 1) & (pl.col("spread") <= _TOGETHER_NS) & (pl.col("least") <= most)
        sets = sets.with_columns(is_one.mean().over("name", "nth").alias("often"))
        chosen = sets.filter(is_one, pl.col("often") >= _MOST, pl.col("most") > _TOGETHER_NS)
        chosen = chosen.select("name", "nth", "step", "part", gathering=number + pl.int_range(pl.len(), dtype=pl.Int64))
        number += chosen.height
        mine = each.join(chosen, on=("name", "nth", "step", "part"), nulls_equal=True)
        found.append(mine.select(pl.col(name).cast(dtype) for name, dtype in GATHERED.items()))
        rows = rows.join(mine.select("row"), on="row", how="anti")
    return pl.concat(found)


def _partitions(places: Sequence[tuple[tuple[str, int], ...]], number: int) -> list[list[int]]:
    """Of each rank the part that it is in: all ranks one, then by each place that tells some apart."""
    found = [[0] * number]
    told = [dict(each) for each in places]
    for place in dict.fromkeys(name for each in told for name in each):
        values = [each.get(place, -1) for each in told]
        if len(np.unique(values)) > 1:
            found.append(values)
    return found
