"""When does a rank come to each of its collectives, and when does it leave? What other ranks are matched with."""

from __future__ import annotations

import polars as pl

from weftrace.analysis.hidden_communication import DTYPE_BYTES
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work

#: Columns of `arrivals`, in order of start. Times are absolute nanoseconds on the rank's own clock.
ARRIVAL_SCHEMA: dict[str, pl.DataType] = {
    "group": pl.Categorical(),  # name of the process group and, where they are recorded, its ranks; "" unknown
    "group_size": pl.Int32(),
    "world_size": pl.Int32(),  # ranks of the job
    "collective": pl.Categorical(),  # "?" unknown
    "seq": pl.Int64(),  # its number in the group, where the file records that
    "what": pl.Categorical(),  # kind, size and ranks: what is alike on all ranks, for files that number nothing
    "step": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "idle_since_ns": pl.Int64(),  # end of the rank's last earlier work on any stream, own start at most
    "is_barrier": pl.Boolean(),
    "sends": pl.Boolean(),  # of point to point, whether it sends; null where the file tells neither partner nor way
    "recorded_since_ns": pl.Int64(),  # of the whole file: when its recording began, null where nothing tells
    "laid_ns": pl.Int64(),  # added to its times, where the steps of a plain trace were laid one after another
    "payload_bytes": pl.Int64(),  # the larger of what the rank gives and gets; null where no size is recorded
    "sized_by": pl.String(),  # "shapes" where the size is by those of the operator, as in WORK_SCHEMA
}

# Rules of plain ranges that send, and that receive; one that does both is neither.
_SENDS, _RECEIVES = ("forward_send", "backward_send"), ("forward_recv", "backward_recv")

#: Kinds of which each rank has a size of its own.
_UNEVEN = ("all_to_all", "dispatch", "combine", "send_recv", "gather", "scatter", "barrier", "coalesced")


def arrivals(source: Trace | Work) -> pl.DataFrame:
    """The communication of one device, a row a collective: a frame of `ARRIVAL_SCHEMA`.

    Kernels of one number in one group that overlap are one collective (its channels): from the first start to the last
    end. Barriers are among them: to wait is what they do. Sends and receives are numbered by each rank for itself:
    where they tell their partner, `what` does, and there is no number.
    """
    work = as_work(source)
    before = pl.col("end_ns").cum_max().shift(1)
    rows = work.started.sort("start_ns", maintain_order=True).with_columns(
        pl.min_horizontal(pl.coalesce(before, "start_ns"), "start_ns").alias("idle_since_ns")
    )
    group, ranks, collective = (
        pl.col(name).cast(pl.String).fill_null(missing)
        for name, missing in (("group", ""), ("group_ranks", ""), ("collective", "?"))
    )
    own = pl.lit(work.trace.rank, pl.Int32)  # a send tells its receiver, a receive its sender
    between = pl.concat_str(pl.coalesce("src_rank", own), pl.lit(">"), pl.coalesce("dst_rank", own))
    several = pl.col("group_size").fill_null(0) != 2
    is_between = pl.coalesce("src_rank", "dst_rank").is_not_null() & several
    # Numbered by each rank for itself, too; but a plan numbers its meets for all.
    is_peerless = (collective == "send_recv") & several & pl.lit(not work.trace.simulated)
    size = pl.when(~collective.is_in(_UNEVEN)).then(pl.col("payload_elems").cast(pl.String)).fill_null("")
    named = rows.filter(pl.col("kind") == "communication").select(
        pl.concat_str(group, ranks, separator=" ").str.strip_chars().alias("group"),
        "group_size",
        pl.lit(work.trace.world_size, pl.Int32).alias("world_size"),
        collective.alias("collective"),
        pl.when(~(is_between | is_peerless)).then("comm_seq").alias("seq"),  # each rank counts its own
        pl.concat_str(
            collective,
            pl.when(is_between).then(between).fill_null(size),
            pl.col("group_size"),
            separator="/",
            ignore_nulls=True,
        ).alias("what"),
        "step",
        "start_ns",
        "end_ns",
        "idle_since_ns",
        (pl.col("role") == "barrier").fill_null(False).alias("is_barrier"),
        pl.when(collective == "send_recv").then(_sends(rows)).alias("sends"),
        pl.lit(_recorded_since(work.trace), pl.Int64).alias("recorded_since_ns"),
        _laid(work.trace).alias("laid_ns"),
        _payload_bytes().alias("payload_bytes"),
        pl.col("sized_by").cast(pl.String),
    )
    return _of_channels(named).select(pl.col(name).cast(dtype) for name, dtype in ARRIVAL_SCHEMA.items())


def _sends(rows: pl.DataFrame) -> pl.Expr:
    """By the partner that the file names; of plain ranges whose partner is known by what they are called."""
    named = pl.when(pl.col("dst_rank").is_not_null()).then(True).when(pl.col("src_rank").is_not_null()).then(False)
    if "rule" not in rows.columns:
        return named
    rule = pl.col("rule").cast(pl.String)
    called = pl.when(rule.is_in(_SENDS)).then(True).when(rule.is_in(_RECEIVES)).then(False)
    return pl.coalesce(named, pl.when(pl.col("group_size") == 2).then(called))


def _recorded_since(trace: Trace) -> int | None:
    """Start of the recording, as the file says or its operators show; device events and their launches alone do not."""
    if trace.window_ns is not None:
        return trace.window_ns[0]
    first = trace.events.select("cat", "ts_ns").filter(pl.col("cat") == "cpu_op").get_column("ts_ns").min()
    return None if first is None or trace.simulated else int(first)  # type: ignore[arg-type]


def _laid(trace: Trace) -> pl.Expr:
    shifts = trace.plain.step_shifts if trace.plain else {}
    return (
        pl.col("step").replace_strict(dict(shifts), default=0, return_dtype=pl.Int64) if shifts else pl.lit(0, pl.Int64)
    )


def _payload_bytes() -> pl.Expr:
    return pl.col("payload_elems") * pl.col("dtype").cast(pl.String).replace_strict(
        DTYPE_BYTES, default=None, return_dtype=pl.Int64
    )


def _of_channels(rows: pl.DataFrame) -> pl.DataFrame:
    """Overlapping kernels of one number and size become one."""
    key = ("group", "what", "seq")
    numbered = rows.filter(pl.col("seq").is_not_null())
    if numbered.height == numbered.select(key).n_unique():
        return rows
    begins = (pl.col("start_ns") >= pl.col("end_ns").cum_max().shift(1).over(*key)).fill_null(True)
    parts = numbered.with_columns(begins.cum_sum().over(*key).alias("part")).group_by(*key, "part", maintain_order=True)
    merged = parts.agg(
        pl.col("group_size", "world_size", "collective", "step", "sized_by").first(),
        pl.col("start_ns", "idle_since_ns", "recorded_since_ns", "laid_ns").first(),
        pl.col("end_ns", "payload_bytes").max(),
        pl.col("is_barrier").all(),
        pl.col("sends").first(),
    )
    return pl.concat([merged.select(rows.columns), rows.filter(pl.col("seq").is_null())]).sort("start_ns")
