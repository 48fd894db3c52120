"""A plain Chrome trace, read as a job: its ranks, what they do, in which step, and with whom.

Taken only for files in which no event is of a category that a profiler of devices writes, and in which something tells
a training job: ranks, stages, steps or micro-batches, or names of its operations. All that is inferred is said.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weftrace.trace.limits import RANKS
from weftrace.trace.model import Track
from weftrace.trace.plain.groups import find_groups
from weftrace.trace.plain.laying import lay_steps
from weftrace.trace.plain.ops import WAITING, WHOLE, classes, parsed_names, without_count
from weftrace.trace.plain.values import PLAIN_SCHEMA, Plain
from weftrace.trace.plain.workers import find_ranks

_TELLING = ("rank", "pp", "dp", "tp", "step", "micro_batch")


def read_plain(
    events: pl.DataFrame, stated: pl.DataFrame, tracks: Sequence[Track], *, rank: int | None
) -> Plain | None:
    """What the events of a plain trace are; None where nothing tells that they are a job's.

    events: `Trace.events`. stated: what the arguments of each say, a row an event. rank: as the file's name tells it.
    """
    rows = _named(events, stated)
    if not _is_job(rows):
        return None
    ranks = find_ranks(rows, tracks, rank=rank)
    if len(ranks.workers) > RANKS:
        return None
    rows = rows.with_columns(ranks.worker)
    if ranks.chunk is not None:
        rows = rows.with_columns(pl.coalesce("chunk", ranks.chunk).alias("chunk"))
    rows, step_notes = _steps_of_ranges(rows)
    laid = lay_steps(rows)
    rows = rows.with_columns(laid.shift_ns).with_columns(
        pl.when(pl.col("shift_ns").is_not_null()).then("worker").alias("worker"), pl.col("shift_ns").fill_null(0)
    )
    rows = rows.with_columns(pl.col("ts_ns") + pl.col("shift_ns"), pl.col("end_ns") + pl.col("shift_ns"))
    rows, left_out = _own_work(rows)
    groups, group_notes = find_groups(rows, ranks.workers)
    if (rows.get_column("chunk").drop_nulls().n_unique()) < 2:
        rows = rows.with_columns(pl.lit(None, dtype=pl.Int64).alias("chunk"))
    stream = pl.concat_str(pl.col("pid", "tid"), separator="/").rank("dense").over("worker").cast(pl.Int64) - 1
    rows = rows.with_columns(stream.alias("stream")).hstack(groups)
    used = rows.get_column("worker").drop_nulls().unique()
    summary = [_classes_note(rows)]
    return Plain(
        workers=ranks.workers,
        rows=rows.select(pl.col(name).cast(dtype) for name, dtype in PLAIN_SCHEMA.items()),
        notes=(*ranks.notes, *step_notes, *laid.notes, *summary, *group_notes, *left_out),
        moved=laid.moved,
    ) if len(used) else None  # fmt: skip


def _named(events: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    """Each event with its phase, class and numbers: those of its arguments, else those in its name."""
    keys = events.select(pl.col("name", "cat", "pid", "tid").cast(pl.String), "ts_ns", "dur_ns")
    parsed = parsed_names(keys.get_column("name"))
    kinds = keys.select("name", "cat").unique(maintain_order=True)
    named = kinds.join(parsed, on="name", how="left", maintain_order="left")
    named = named.hstack(classes(named, named.get_column("cat")))
    phase = pl.col("phase").map_elements(without_count, return_dtype=pl.String)
    named = named.with_columns(pl.when(kind="communication").then(phase).otherwise("phase").alias("phase"))
    rows = keys.join(named, on=("name", "cat"), how="left", maintain_order="left", nulls_equal=True)
    in_name = ("micro_batch", "pp", "chunk", "step", "rank")
    return rows.with_columns(
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        *(pl.coalesce(stated.get_column(c), pl.col(c)).alias(c) for c in in_name),
        *(stated.get_column(c) for c in stated.columns if c not in in_name),
    )


def _is_job(rows: pl.DataFrame) -> bool:
    """Whether events tell a place, a step or a micro-batch, or most time is in operations that training has."""
    if any(rows.get_column(field).drop_nulls().len() >= rows.height / 4 for field in _TELLING):
        return True
    known = rows.filter(pl.col("rule").is_not_null()).get_column("dur_ns").sum()
    return 2 * known > rows.get_column("dur_ns").sum()


def _steps_of_ranges(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Where only ranges around all of a step tell it ("iteration 5"), what starts within one is of that step."""
    around = pl.col("words").str.contains(WHOLE)
    inside = rows.filter(~around)
    if inside.is_empty() or inside.get_column("step").null_count() < inside.height:
        return rows, []
    steps = rows.filter(around, pl.col("step").is_not_null()).select("worker", "step", from_ns="ts_ns", to_ns="end_ns")
    if steps.is_empty():
        return rows, []
    found = (
        rows.with_row_index("row")
        .sort("ts_ns")
        .join_asof(
            steps.sort("from_ns"),
            left_on="ts_ns",
            right_on="from_ns",
            by="worker",
            strategy="backward",
            suffix="_around",
            check_sortedness=False,
        )
    )
    within = pl.when(pl.col("ts_ns") < pl.col("to_ns")).then("step_around")
    summary = found.with_columns(pl.coalesce("step", within).alias("step")).sort("row").get_column("step")
    return rows.with_columns(summary), ["steps are identified by the range around each"]


def _own_work(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Ranges that stand for work, each once: `worker` is null of the others, which are told.

    Left out are ranges for waiting; those around all of a step; and of compute within compute on a thread, the inner.
    """
    waiting = pl.col("words").str.contains(WAITING)
    thread = ("worker", "pid", "tid")
    reach = pl.col("end_ns").cum_max().shift(1).over(*thread)
    inside = (pl.col("ts_ns") < reach) & (pl.col("end_ns") <= reach)  # those that only touch, by rounding, are not
    holds = (pl.col("end_ns") >= pl.col("end_ns").shift(-1).over(*thread)).fill_null(False)
    rows = rows.with_row_index("row").sort("ts_ns", "end_ns", descending=[False, True], maintain_order=True)
    whole = pl.col("words").str.contains(WHOLE) & holds & (pl.col("kind") == "compute")
    rows = rows.with_columns((waiting | whole).fill_null(False).alias("is_left_out"))
    num_whole = rows.select((pl.col("is_left_out") & ~waiting).sum()).item()
    num_waiting = rows.select(waiting.sum()).item()
    kept = rows.filter(~pl.col("is_left_out"))
    compute = kept.filter(pl.col("kind") == "compute").with_columns(inside.fill_null(False).alias("is_inner"))
    inner = compute.filter("is_inner").select("row", pl.lit(True).alias("is_inner"))
    rows = rows.join(inner, on="row", how="left").sort("row")
    unused = pl.col("is_left_out") | pl.col("is_inner").fill_null(False)
    rows = rows.with_columns(pl.when(~unused).then("worker").alias("worker"))
    summary = {
        "ranges around all of a step": num_whole,
        "ranges for waiting": num_waiting,
        "ranges within others of their thread": inner.height,
    }
    return rows.drop("row", "is_left_out", "is_inner"), [
        f"{count:,} {what} are not counted as work" for what, count in summary.items() if count
    ]


def _classes_note(rows: pl.DataFrame) -> str:
    """Which names were taken for communication, so that a wrong one is seen."""
    named = rows.filter(pl.col("worker").is_not_null(), pl.col("kind") == "communication").get_column("phase")
    names = named.unique(maintain_order=True).to_list()
    if not names:
        return "no name says that it is communication: all is compute"
    more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
    return f"communication, by name: {', '.join(names[:12])}{more}; all else is compute"
