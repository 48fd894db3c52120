"""What would each op of a job take at its peers' pace? And whose it is: rank, stage, step, micro-batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.slowdown.turns import with_turns
from weftrace.plan.inference.lanes.inferring import STEP_END
from weftrace.plan.inference.values import FIRST_THREAD, Inferred

#: What of an op can be at its peers' pace. transfer: of communication whose waiting is known. host: host threads, and
#: time between ranges. fixed: neither; it stays as measured.
PACES = ("compute", "transfer", "host", "fixed")

#: What the type is called of time in which nothing held a lane's next op, of the type that follows.
BEFORE = "before "

#: Columns of `paced`, a row an op of the plan.
PACED: dict[str, pl.DataType] = {
    "at": pl.Int32(),  # position of the rank
    "stage": pl.Int32(),  # of its pipeline; 0 where there is none
    "step": pl.Int64(),
    "micro_batch": pl.Int32(),
    "chunk": pl.Int32(),
    "pace": pl.Enum(PACES),
    "type": pl.String(),  # operation type, which has one ideal
    "track": pl.Int32(),  # kernels of one name, launched by one kind of thread; null of others (`turns`)
    "group": pl.Int64(),  # the meeting's members, numbered: one number for each set of ranks; null outside meetings
    "duration_ns": pl.Float64(),
    "ideal_ns": pl.Float64(),
}


def paced(inferred: Inferred, stages: Sequence[int] | None, is_open: NDArray[np.bool_]) -> pl.DataFrame:
    """A frame of `PACED`. stages: of each rank, None where no pipeline is known. is_open: of each op whether it may
    have waited for ranks that are not here: such communication stays as measured.

    Ideal, by hand (ByteDance's study of stragglers, OSDI 2025): of a computation the mean of all of its type in the
    job, over ranks, stages, micro-batches and steps; of communication the median of all transfers of its type. Of
    kernels, the type is the kernel's name and its place among those of that name in the micro-batch (`turns`), and the
    mean is over the ranks of the stage, micro-batches and steps; it is then scaled to the mean of all stages. Of time
    in which a lane was free and nothing that is known held its next op ("between ranges") the lower median at its place
    in the step, over steps and the ranks of the stage, or all ranks where a stage has one; zero where there is none.
    """
    ops = _ops(inferred, stages, is_open)
    ops = ops.with_columns(track=pl.lit(None, pl.Int32)) if are_ranges(inferred) else with_turns(ops, inferred)
    computed = _ranges(ops) if are_ranges(inferred) else _kernels(ops)
    parts = [_fixed(ops), _transfers(ops), computed, _between(ops, inferred.transfer_only)]
    rows = pl.concat([part.select("row", "type", "ideal_ns") for part in parts])
    every = ops.join(rows, on="row", how="left", maintain_order="left", suffix="_own")
    assert every.height == ops.height
    every = every.with_columns(pl.coalesce("type_own", "type").alias("type"), pl.col("ideal_ns").fill_null(0.0))
    return every.select(pl.col(name).cast(dtype) for name, dtype in PACED.items())


def are_ranges(inferred: Inferred) -> bool:
    """Whether a job is of plain ranges, not of work on devices."""
    return all(work.basis == "ranges" for work in inferred.works)


def _ops(inferred: Inferred, stages: Sequence[int] | None, is_open: NDArray[np.bool_]) -> pl.DataFrame:
    plan, measured = inferred.plan, inferred.measured
    what = pl.col("what").cast(pl.String)
    ops = plan.ops.select(
        "name",
        "rank",
        "stream",
        "step",
        "micro_batch",
        pl.col("layer").alias("chunk"),
        "meet",
        pl.col("duration_ns").cast(pl.Float64),
    ).hstack(measured.select("at", "what", "start_ns", "event", "family"))
    ops = ops.with_row_index("row")
    stage_of = pl.Series("stage", stages or [0] * len(inferred.works), dtype=pl.Int32)
    pace = (
        pl.when(what.is_in(("compute", "memory", "fused"))).then(pl.lit("compute"))
        .when((what == "communication") & _waiting_known(inferred) & ~pl.Series(is_open)).then(pl.lit("transfer"))
        .when(pl.col("name").cast(pl.String) == STEP_END).then(pl.lit("fixed"))
        .when(what.is_in(("host", "launch", "blocking"))).then(pl.lit("host"))
        .otherwise(pl.lit("fixed"))
    )  # fmt: skip
    name = pl.col("name").cast(pl.String)
    type_ = name if are_ranges(inferred) else pl.col("family").cast(pl.String).fill_null("")
    ops = ops.with_columns(
        pace.alias("pace"), name, type_.alias("type"), stage_of.gather(ops.get_column("at")).alias("stage")
    )
    ops = ops.with_columns(pl.when(pl.col("step").is_null()).then(-1).otherwise("step").alias("step"))
    return _with_groups(_with_comm_types(ops, inferred))


def _waiting_known(inferred: Inferred) -> pl.Expr:
    """Ranges that wait for nobody keep their time as transfer; kernels that meet nobody here may hold waiting."""
    return pl.lit(True) if are_ranges(inferred) else pl.col("meet").is_not_null()


def _with_comm_types(ops: pl.DataFrame, inferred: Inferred) -> pl.DataFrame:
    """Of kernels that communicate, the type: collective, payload and group size."""
    if are_ranges(inferred):
        return ops
    parts = []
    for at, work in enumerate(inferred.works):
        mine = ops.filter(pl.col("at") == at, pl.col("what") == "communication", pl.col("event").is_not_null())
        summary = work.events.select("collective", "payload_elems", "dtype", "group_size")[mine.get_column("event")]
        label = pl.concat_str(pl.all().cast(pl.String).fill_null("?"), separator=" ")
        parts.append(mine.select("row").hstack(summary.select(label.alias("comm"))))
    told = pl.concat(parts)
    ops = ops.join(told, on="row", how="left", maintain_order="left")
    return ops.with_columns(pl.coalesce("comm", "type").alias("type")).drop("comm")


def _with_groups(ops: pl.DataFrame) -> pl.DataFrame:
    met = ops.filter(pl.col("meet").is_not_null())
    groups = met.group_by("meet").agg(pl.col("at").unique().sort().cast(pl.String).str.join(",").alias("members"))
    groups = groups.with_columns(pl.col("members").rank("dense").cast(pl.Int64).alias("group") - 1)
    return ops.join(groups.select("meet", "group"), on="meet", how="left", maintain_order="left")


def _fixed(ops: pl.DataFrame) -> pl.DataFrame:
    return ops.filter(pl.col("pace") == "fixed").with_columns(pl.col("duration_ns").alias("ideal_ns"))


def _transfers(ops: pl.DataFrame) -> pl.DataFrame:
    mine = ops.filter(pl.col("pace") == "transfer")
    return mine.with_columns(pl.col("duration_ns").median().over("type").alias("ideal_ns"))


def _ranges(ops: pl.DataFrame) -> pl.DataFrame:
    """The parts of a range that was cut are one: each has its share of the whole's ideal."""
    mine = ops.filter(pl.col("pace") == "compute")
    whole = mine.group_by("at", "event").agg(pl.col("duration_ns").sum().alias("whole_ns"), pl.col("type").first())
    means = whole.group_by("type").agg(pl.col("whole_ns").mean().alias("mean_ns"))
    whole = whole.join(means, on="type").with_columns(factor=pl.col("mean_ns") / pl.col("whole_ns").clip(lower_bound=1))
    found = mine.join(whole.select("at", "event", "factor"), on=("at", "event"), how="left", maintain_order="left")
    at_pace = pl.when(_is_own(mine)).then(0.0).otherwise(pl.col("duration_ns") * pl.col("factor"))
    return found.with_columns(at_pace.alias("ideal_ns"))


def _is_own(mine: pl.DataFrame) -> pl.Series:
    """Of each range whether most peers of its rank have none of its type, in its step and in most others: at their pace
    it takes no time. Ranges that the rank has in the place of others of its peers do not count."""
    keys = ("at", "stage", "step")
    cells = mine.group_by(*keys, "type").agg(pl.col("duration_ns").sum())
    steps = mine.group_by(keys).agg(pl.col("duration_ns").sum().alias("whole_ns")).with_columns(
        pl.len().over("stage").alias("all"), pl.len().over("stage", "step").alias("here"),
        pl.col("whole_ns").quantile(0.5, interpolation="lower").over("stage", "step").alias("peers_ns"),
    )  # fmt: skip
    own = cells.join(steps, on=keys).filter(
        pl.col("here") > 1, 2 * pl.len().over("stage", "type") <= pl.col("all"),
        2 * pl.len().over("stage", "step", "type") <= pl.col("here"),
    )  # fmt: skip
    more = pl.col("duration_ns").sum().over(keys)
    own = own.filter(pl.col("whole_ns") - pl.col("peers_ns") >= 0.5 * more)
    flags = own.select(*keys, "type", is_own=pl.lit(True))
    joined = mine.select(*keys, "type").join(flags, on=(*keys, "type"), how="left", maintain_order="left")
    return joined.get_column("is_own").fill_null(False)


def _kernels(ops: pl.DataFrame) -> pl.DataFrame:
    mine = ops.filter(pl.col("pace") == "compute")
    place = ("stage", "track", "nth")
    mean = pl.col("duration_ns").mean().over(*place)
    mine = mine.with_columns(mean.alias("ideal_ns"))
    sums = mine.group_by("stage", "at").agg(pl.col("ideal_ns").sum())
    of_stage = sums.group_by("stage").agg(pl.col("ideal_ns").median().alias("stage_ns"))
    factor = of_stage.with_columns(factor=pl.col("stage_ns").mean() / pl.col("stage_ns").clip(lower_bound=1))
    mine = mine.join(factor.select("stage", "factor"), on="stage", how="left", maintain_order="left")
    return mine.with_columns((pl.col("ideal_ns") * pl.col("factor")).alias("ideal_ns"))


def _between(ops: pl.DataFrame, transfer_only: Sequence[str]) -> pl.DataFrame:
    """Each at the place, in its step, of the range before which it stands; before one that shows the transfer alone, it
    is the meeting's: the member that was ready last has it."""
    rows = ops.filter(pl.col("pace") == "host")
    before = _range_after(ops, rows)
    ranges = ops.filter(pl.col("pace") != "host").with_columns(
        nth=pl.int_range(pl.len()).over("at", "step", "name")
    ).select(pl.col("row").alias("next"), "at", "stage", "step", "type", "name", "nth", "meet")  # fmt: skip
    rows = rows.select("row", "duration_ns").hstack(before.alias("next").to_frame())
    table = ranges.join(rows, on="next", how="left").with_columns(pl.col("duration_ns").fill_null(0.0))
    of_meeting = pl.col("name").is_in(transfer_only) & pl.col("meet").is_not_null()
    late = pl.when(of_meeting).then(pl.col("duration_ns").max().over("meet")).otherwise("duration_ns")
    table = table.with_columns(late.alias("late_ns"))
    peers = pl.col("at").n_unique().over("stage", "name", "nth") > 1
    by = ("name", "nth", pl.when(peers).then("stage").otherwise(-1))
    table = table.with_columns(_lower_median("late_ns").over(*by).alias("peers_ns"))
    told = table.filter(pl.col("row").is_not_null())
    label = pl.when(pl.col("type").is_not_null()).then(pl.lit(BEFORE) + pl.col("type"))
    return told.select("row", label.alias("type"), pl.min_horizontal("duration_ns", "peers_ns").alias("ideal_ns"))


def _range_after(ops: pl.DataFrame, rows: pl.DataFrame) -> pl.Series:
    """Of each op between ranges, the range that began as it ended, on the lane of its thread."""
    starts = ops.filter(pl.col("pace") != "host").select("at", "stream", "start_ns", next="row")
    keys = rows.select(
        "at",
        (pl.col("stream") - FIRST_THREAD).alias("stream"),
        end=pl.col("start_ns") + pl.col("duration_ns").cast(pl.Int64),
    )
    found = keys.with_row_index("k").join(
        starts, left_on=("at", "stream", "end"), right_on=("at", "stream", "start_ns"), how="left"
    )
    return found.unique("k", keep="first").sort("k").get_column("next")


def _lower_median(column: str) -> pl.Expr:
    return pl.col(column).quantile(0.5, interpolation="lower")
