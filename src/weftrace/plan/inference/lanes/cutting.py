"""Communication that begins in the midst of a range of computation: it waits for the part before, not for the end."""

from __future__ import annotations

import numpy as np
import polars as pl

from weftrace.plan.inference.lanes.ops import Grain
from weftrace.plan.inference.lanes.votes import Ready

_OFTEN = 0.5  # of the late ones of a name: they begin in the midst of a computation


def cut_where_others_began(
    ops: pl.DataFrame, edges: pl.DataFrame, ready: Ready, grain: Grain
) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """The ops and waits with computations cut where late communication of their rank begins; and how many were cut.

    A bucket of gradients is reduced while the backward that fills it goes on: what launched it is the part before.
    """
    hidden = ~pl.col("begins_meeting")
    late_ns = pl.when(hidden).then(pl.Series(ready.since_ready_ns)).otherwise(pl.Series(ready.late_ns))
    rows = ops.with_row_index("row").with_columns(late=late_ns)
    late = rows.filter(pl.col("kind") == "communication", pl.col("late") > grain.late_ns)
    compute = rows.filter(pl.col("kind") == "compute").select(
        "at", pl.col("row").alias("on"), pl.col("lane").alias("on_lane"), pl.col("start_ns").alias("from_ns"),
        pl.col("end_ns").alias("to_ns"),
    )  # fmt: skip
    found = late.sort("start_ns").join_asof(
        compute.sort("from_ns"), left_on="start_ns", right_on="from_ns", by="at", strategy="backward",
        check_sortedness=False,
    )  # fmt: skip
    least = grain.late_ns
    inside = (
        (pl.col("start_ns") < pl.col("to_ns") - least) & (pl.col("from_ns") + least < pl.col("start_ns"))
        & (pl.col("lane") != pl.col("on_lane"))
    ).fill_null(False)  # fmt: skip
    found = found.with_columns(
        inside=inside,
        part=(pl.col("start_ns") - pl.col("from_ns")) / (pl.col("to_ns") - pl.col("from_ns")).clip(lower_bound=1),
    )
    found = found.filter("inside", pl.col("inside").mean().over("name") >= _OFTEN)
    is_last = (pl.col("part") == pl.col("part").min().over("meet")) | ~hidden  # who had come least far held the others
    found = found.filter(is_last).unique("row", keep="first", maintain_order=True)
    if found.is_empty():
        return ops, edges, 0
    cuts = found.group_by("on").agg(pl.col("start_ns").unique().sort().alias("cut_ns"))
    parts = rows.drop("late").join(cuts, left_on="row", right_on="on", how="left", maintain_order="left")
    parts = parts.with_columns(
        pl.concat_list(pl.concat_list("start_ns"), pl.col("cut_ns").fill_null(pl.lit([], pl.List(pl.Int64)))).alias("b")
    )
    parts = parts.with_columns(num_parts=pl.col("b").list.len()).explode("b", empty_as_null=True)
    nth = pl.int_range(pl.len()).over("row")
    is_cut = pl.col("num_parts") > 1
    stop = pl.col("b").shift(-1).over("row").fill_null(pl.col("end_ns"))
    parts = parts.with_columns(
        pl.when(is_cut).then("b").otherwise("start_ns").alias("start_ns"),
        pl.when(is_cut).then(stop).otherwise("end_ns").alias("end_ns"),
        nth=nth,
    )
    parts = parts.with_columns(
        pl.when(is_cut).then(pl.col("end_ns") - pl.col("start_ns")).otherwise("duration_ns").alias("duration_ns")
    ).sort("start_ns", "end_ns", "at", "lane", maintain_order=True)
    parts = parts.with_row_index("new")
    ends = parts.group_by("row").agg(
        pl.col("new").sort_by("nth").first().alias("first"), pl.col("new").sort_by("nth").last()
    )
    first, last = (np.zeros(ops.height, np.int64) for _ in range(2))
    at = ends.get_column("row").to_numpy()
    first[at], last[at] = ends.get_column("first").to_numpy(), ends.get_column("new").to_numpy()
    moved = edges.with_columns(
        pl.Series("op", first[edges.get_column("op").to_numpy()], dtype=pl.UInt32),
        pl.Series("on", last[edges.get_column("on").to_numpy()], dtype=pl.UInt32),
    )
    before = parts.select("row", "end_ns", pl.col("new").alias("part")).join(
        found.select(pl.col("on").alias("row"), pl.col("start_ns").alias("end_ns"), pl.col("row").alias("waiter")),
        on=("row", "end_ns"),
    )  # fmt: skip
    none = pl.lit(None, pl.Int32)
    launched = before.select(
        pl.Series("op", first[before.get_column("waiter").to_numpy()], dtype=pl.UInt32),
        pl.col("part").cast(pl.UInt32).alias("on"), none.alias("votes_for"), none.alias("votes_against"),
    )  # fmt: skip
    return parts.select(ops.columns), pl.concat([moved, launched.select(moved.columns)]), cuts.height
