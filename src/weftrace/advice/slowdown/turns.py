"""Of which micro-batch is a kernel, where files tell none? Kernels of one name come as often for each micro-batch."""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.values import Inferred

_MOST_TIME = 0.8  # of a step's computation that must come as often for each micro-batch


def with_turns(ops: pl.DataFrame, inferred: Inferred) -> pl.DataFrame:
    """Adds track and nth, and fills micro_batch, of kernels that compute.

    track: one number for all kernels of one name that were launched by the rank's main thread, or by others (as
    autograd's). nth: which of its track it is, in its micro-batch. micro_batch: counted over the recording, for
    hosts are ahead of devices at a step's end. By hand: a name that comes 24 times, where there are 8 micro-batches,
    comes 3 times in each, first in the first. The number of micro-batches is the largest that divides how often kernels
    come which take four fifths of the computation. Others, as the optimizer's, have none, and nth counts in the step.
    """
    mine = ops.filter(pl.col("pace") == "compute").select("row", "at", "step", "type", "name", "duration_ns", "event")
    mine = mine.join(_threads(inferred), on=("at", "event"), how="left", maintain_order="left")
    track = pl.struct("name", pl.col("is_main").fill_null(True)).rank("dense").cast(pl.Int32)
    mine = mine.with_columns(track.alias("track"), in_step=pl.int_range(pl.len()).over("at", "step", "name"))
    mine = mine.with_columns(nth=pl.int_range(pl.len()).over("at", "track"))
    counts = mine.filter(pl.col("type") != "optimizer").group_by("at", "track").agg(
        pl.len().cast(pl.Int64).alias("num"), pl.col("duration_ns").sum()
    )  # fmt: skip
    counts = counts.join(_num_micro_batches(counts), on="at")
    each = pl.col("num") // pl.col("micro_batches")
    counts = counts.filter(pl.col("num") % pl.col("micro_batches") == 0).select("at", "track", each.alias("each"))
    mine = mine.join(counts, on=("at", "track"), how="left", maintain_order="left").select(
        "row", "track",
        pl.when(pl.col("each").is_null()).then("in_step").otherwise(pl.col("nth") % pl.col("each")).alias("nth"),
        (pl.col("nth") // pl.col("each")).cast(pl.Int32).alias("turn"),
    )  # fmt: skip
    ops = ops.join(mine, on="row", how="left", maintain_order="left")
    return ops.with_columns(pl.coalesce("micro_batch", "turn").alias("micro_batch")).drop("turn")


def _threads(inferred: Inferred) -> pl.DataFrame:
    """at, event, is_main: whether the thread launched it that launched the rank's first kernel."""
    parts = []
    for at, work in enumerate(inferred.works):
        tids = work.events.get_column("launch_tid").cast(pl.String)
        first = tids.drop_nulls().head(1).to_list()
        is_main = tids == first[0] if first else pl.repeat(None, len(tids), dtype=pl.Boolean, eager=True)
        event = pl.int_range(len(tids), dtype=pl.UInt32, eager=True)
        parts.append(pl.DataFrame({"event": event, "is_main": is_main}).with_columns(pl.lit(at, pl.Int32).alias("at")))
    return pl.concat(parts)


def _num_micro_batches(counts: pl.DataFrame) -> pl.DataFrame:
    """at, micro_batches; without ranks whose kernels come in no such order."""
    whole = counts.group_by("at").agg(pl.col("duration_ns").sum().alias("whole"))
    tried = counts.select("at", pl.col("num").alias("micro_batches")).unique()
    divided = tried.join(counts, on="at").filter(pl.col("num") % pl.col("micro_batches") == 0)
    times = divided.group_by("at", "micro_batches").agg(pl.col("duration_ns").sum())
    enough = times.join(whole, on="at").filter(pl.col("duration_ns") >= _MOST_TIME * pl.col("whole"))
    return enough.group_by("at").agg(pl.col("micro_batches").max())
