"""When does a rank come to each of its collectives, and when does it leave? What other ranks are matched with."""

from __future__ import annotations

import polars as pl

from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work

#: Columns of `arrivals`, in order of start. Times are absolute nanoseconds on the rank's own clock.
ARRIVAL_SCHEMA: dict[str, pl.DataType] = {
    "group": pl.Categorical(),  # name of the process group and, where they are recorded, its ranks; "" unknown
    "group_size": pl.Int32(),
    "collective": pl.Categorical(),  # "?" unknown
    "seq": pl.Int64(),  # its number in the group, where the file records that
    "what": pl.Categorical(),  # kind and size, for files that number nothing
    "step": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "idle_since_ns": pl.Int64(),  # end of the rank's last earlier work, on any stream, or its own start
    "is_barrier": pl.Boolean(),
}


def arrivals(source: Trace | Work) -> pl.DataFrame:
    """The communication of one device, an event a collective: a frame of `ARRIVAL_SCHEMA`.

    Kernels of one number in one group that overlap are one collective (its channels): from the first start to the last
    end. Barriers are among them: to wait is what they do.
    """
    work = as_work(source)
    rows = work.started.with_columns(pl.min_horizontal(pl.col("end_ns").cum_max().shift(1), "start_ns").alias("idle"))
    rows = rows.filter(pl.col("kind") == "communication")
    text = {name: pl.col(name).cast(pl.String) for name in ("group", "group_ranks", "collective", "role")}
    named = rows.select(
        pl.concat_str(text["group"].fill_null(""), text["group_ranks"].fill_null(""), separator=" ")
        .str.strip_chars()
        .alias("group"),
        "group_size",
        text["collective"].fill_null("?").alias("collective"),
        pl.col("comm_seq").alias("seq"),
        pl.concat_str(
            text["collective"].fill_null("?"), pl.col("payload_elems").cast(pl.String).fill_null("?"), separator="/"
        ).alias("what"),
        "step",
        "start_ns",
        "end_ns",
        pl.coalesce("idle", "start_ns").alias("idle_since_ns"),
        (text["role"] == "barrier").fill_null(False).alias("is_barrier"),
    )
    return _of_channels(named).select(pl.col(name).cast(dtype) for name, dtype in ARRIVAL_SCHEMA.items())


def _of_channels(rows: pl.DataFrame) -> pl.DataFrame:
    """Overlapping kernels of one number become one."""
    key = ("group", "collective", "seq")
    begins = (pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).over(*key)).fill_null(True)
    numbered = rows.filter(pl.col("seq").is_not_null()).with_columns(begins.cum_sum().over(*key).alias("part"))
    if numbered.get_column("part").len() == numbered.select(*key, "part").n_unique():
        return rows
    merged = numbered.group_by(*key, "part", maintain_order=True).agg(
        pl.col("group_size", "what", "step", "start_ns", "idle_since_ns").first(),
        pl.col("end_ns").max(),
        pl.col("is_barrier").all(),
    )
    return pl.concat([merged.select(rows.columns), rows.filter(pl.col("seq").is_null())]).sort("start_ns")
