"""What did the ranks of a pipeline do, as ranges of forwards and backwards tell? Of timelines, and of runs on CPUs.

A range says its rank's place in the pipeline, its micro-batch and step (`weftrace.trace.plain`). Stages of ranks that
hold several chunks count rank by rank, then chunk by chunk, unless the file numbers them for the whole model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import polars as pl

from weftrace.errors import TraceError
from weftrace.pipeline.measured.runs import (
    RUN_SCHEMA,
    MeasuredRun,
    Replica,
    chosen_replica,
    has_actions,
    runs_of,
)
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule, stages_on
from weftrace.trace.host_ranges import clock_of_host, is_of_host, of_one_job, ranges_of_host
from weftrace.trace.job import Job
from weftrace.trace.model import Trace
from weftrace.trace.plain.values import PLACES, SHOWN
from weftrace.trace.work import Work, works_of

_KINDS: Final = {"forward": "F", "backward": "B", "weight_gradient": "W", "forward_backward": "B"}
_RECEIVES: Final = ("forward_recv", "backward_recv", "forward_send_backward_recv", "backward_send_forward_recv")


def measured_run(source: Trace | Job, *, replica: Replica = None, workers: int | None = None) -> MeasuredRun:
    """The run that traces tell of: of `measured_runs` the chosen one. Raises `TraceError` where they tell none."""
    return chosen_replica(measured_runs(source, workers=workers), replica)


def measured_runs(source: Trace | Job, *, workers: int | None = None) -> tuple[MeasuredRun, ...]:
    """The run of each replica, of traces of whichever kind: by the ranges that name actions (`runs_of`), or, of plain
    timelines and of runs on CPUs that name none, by `plain_runs`.

    Raises `TraceError` where they tell none.
    """
    first = source if isinstance(source, Trace) else next(iter(source.traces()))
    if first.plain is None and (first.device_ids or has_actions(first)):
        return runs_of(source, workers=workers)
    return plain_runs(source, workers=workers) or runs_of(source, workers=workers)  # which says what is missing


def plain_runs(source: Trace | Job, *, workers: int | None = None) -> tuple[MeasuredRun, ...]:
    """The run of each data-parallel replica, in order of its places; the first of its `notes` is its name.

    None where the traces are not plain, nor of CPUs that communicate, or tell no pipeline.

    workers: processes that read them, as `Job.map` has it. Raises `TraceError` where a trace cannot be read.
    """
    works, name = _works(source, workers)
    if not works or any(work.trace.plain is None for work in works):
        return ()
    if all(is_of_host(work) for work in works):
        works = of_one_job(works)
    replicas: dict[tuple[int, ...], dict[int, Work]] = {}
    for work in works:
        assert work.trace.plain is not None
        places = dict(work.trace.plain.workers[0].places)
        if "pp" not in places:
            return ()
        key = tuple(places.get(place, -1) for place in SHOWN if place != "pp")
        if replicas.setdefault(key, {}).setdefault(places["pp"], work) is not work:
            raise TraceError(f"{name}: two timelines are of the same place in the job; give one run.")
    several = [place for place in SHOWN if place != "pp"]
    found = []
    for key, stages in sorted(replicas.items()):
        label = " ".join(f"{PLACES[place]} {value}" for place, value in zip(several, key, strict=True) if value >= 0)
        run = _run([stages[at] for at in sorted(stages)], name)
        if run is not None:
            found.append(replace(run, notes=(label, "forwards and backwards are ranges of a timeline")))
    return tuple(found)


def on_stages_of(run: MeasuredRun, schedule: Schedule) -> MeasuredRun:
    """The run with stages as the schedule places them, where its ranges do not tell them.

    Where ranks number their chunks each for itself: V-shaped schedules place the second chunk of the last rank next to
    its first. Where ranges are told by order: the k-th range of a rank is the schedule's k-th action there, if both are
    of one kind.
    """
    if run.numbers == "order":
        return _in_order_of(run, schedule)
    if run.numbers == "named":
        return run
    chunks = run.actions.group_by("rank").agg(pl.col("stage").unique().sort()).sort("rank")
    ranks = dict(chunks.iter_rows())
    if len(ranks) != schedule.num_ranks or not all(
        stages == [rank + at * len(ranks) for at in range(len(stages))] for rank, stages in ranks.items()
    ):
        return run
    moved = {(rank, stage): placed for rank, stages in ranks.items()
             for stage, placed in zip(stages, sorted(stages_on(schedule, rank)), strict=False)}  # fmt: skip
    table = pl.DataFrame(
        [(*key, placed) for key, placed in moved.items()],
        schema={"rank": pl.Int32(), "stage": run.actions.schema["stage"], "placed": run.actions.schema["stage"]},
        orient="row",
    )
    actions = run.actions.join(table, on=("rank", "stage"), how="left", maintain_order="left")
    return replace(run, actions=actions.with_columns(pl.coalesce("placed", "stage").alias("stage")).drop("placed"))


def _in_order_of(run: MeasuredRun, schedule: Schedule) -> MeasuredRun:
    numbers = [name for name in ACTION_SCHEMA if name not in ("rank", "kind")]
    place = pl.int_range(pl.len(), dtype=pl.UInt32)
    planned = schedule.actions.select(*ACTION_SCHEMA, place=place.over("rank")).with_columns(
        pl.col("kind").cast(pl.String)
    )
    done = run.actions.with_columns(pl.col("kind").cast(pl.String), place=place.over("step", "rank"))
    both = done.join(planned, on=("rank", "kind", "place"), how="left", suffix="_planned", maintain_order="left")
    is_known = pl.col("stage_planned").is_not_null()
    told = [pl.when(is_known).then(f"{name}_planned").otherwise(name).alias(name) for name in numbers]
    actions = both.with_columns(told).select(pl.col(name).cast(dtype) for name, dtype in RUN_SCHEMA.items())
    return replace(run, actions=actions)


# --- one replica ------------------------------------------------------------------------------------------------------


def _works(source: Trace | Job, workers: int | None) -> tuple[list[Work], str]:
    if isinstance(source, Trace):
        return _ranged(source), source.path
    found: list[Work] = []
    for outcome in source.map(_ranged, workers=workers):
        if outcome.failure is not None:
            raise TraceError(outcome.failure.error)
        found += outcome.value or ()
    return found, source.source


def _ranged(trace: Trace) -> list[Work]:
    """Works of ranges; none of another trace."""
    if trace.plain is not None:
        return works_of(trace)
    work = ranges_of_host(trace)
    return [] if work is None else [work]


def _run(works: Sequence[Work], source: str) -> MeasuredRun | None:
    rows = pl.concat([frame for number, work in enumerate(works) for frame in _rows(work, number)])
    actions = rows.filter(pl.col("rule").is_in(list(_KINDS)))
    if not {"forward", "backward"} <= set(actions.get_column("rule")):
        return None
    splits = (actions.get_column("rule") == "weight_gradient").any()
    kinds = {**_KINDS, "backward": "I", "forward_backward": "I"} if splits else _KINDS
    actions = actions.with_columns(kind=pl.col("rule").replace_strict(kinds, return_dtype=pl.String))
    actions = _with_stages(actions, len(works))
    by = ("rank", "step", "kind", "stage")
    nth = pl.int_range(pl.len()).over(by)
    told = (pl.col("micro_batch").is_not_null() & (pl.col("micro_batch") >= 0)).all()
    number = pl.col("micro_batch").rank("dense").over("step").cast(pl.Int64) - 1
    actions = actions.with_columns(pl.when(told).then(number).otherwise(nth).alias("micro_batch"))
    receives = rows.filter(pl.col("rule").is_in(_RECEIVES))
    actions = _with_waits(actions.sort("rank", "start_ns", maintain_order=True), receives)
    actions = actions.with_columns(
        pl.lit(None, pl.Int32).alias("back_stage"), pl.lit(None, pl.Int32).alias("back_micro_batch"),
        pl.lit(False).alias("offload"), pl.lit(0).alias("stalled_ns"),
    )  # fmt: skip
    return MeasuredRun(
        actions=actions.select(pl.col(name).cast(dtype) for name, dtype in RUN_SCHEMA.items()),
        basis="host",
        has_waits=receives.height > 0,
        numbers="local",
        has_one_clock=len({clock_of_host(work) or work.trace.path for work in works}) == 1,
        source=source,
    )


def _rows(work: Work, rank: int) -> Iterator[pl.DataFrame]:
    """A rank's forwards, backwards and receives; pieces of one that was cut are one."""
    assert work.trace.plain is not None
    told = work.trace.plain.rows.select("micro_batch", "chunk").with_row_index("row")
    pieces = work.events.select("row", "step", "start_ns", "end_ns", pl.col("rule").cast(pl.String))
    whole = pieces.group_by("row", maintain_order=True).agg(
        pl.col("step", "rule").first(), pl.col("start_ns").min(), pl.col("end_ns").max()
    )
    whole = whole.join(told, on="row", how="left", maintain_order="left").with_columns(pl.col("step").fill_null(0))
    yield (
        whole.filter(pl.col("rule").is_in([*_KINDS, *_RECEIVES])).drop("row").with_columns(rank=pl.lit(rank, pl.Int32))
    )


def _with_stages(actions: pl.DataFrame, num_ranks: int) -> pl.DataFrame:
    """stage: the rank's, or of several chunks a rank as the file numbers them."""
    chunk = pl.col("chunk")
    if actions.get_column("chunk").null_count():
        return actions.with_columns(stage=pl.col("rank"))
    holders = actions.group_by("chunk").agg(pl.col("rank").n_unique().alias("num"))
    of_model = (
        num_ranks > 1 and holders.get_column("num").max() == 1
    )  # each is one rank's: numbered for the whole model
    local = chunk.rank("dense").cast(pl.Int32) - 1
    return actions.with_columns(stage=chunk if of_model else local * num_ranks + pl.col("rank"))


def _with_waits(actions: pl.DataFrame, receives: pl.DataFrame) -> pl.DataFrame:
    """Of each action: how long its rank received since the action before it, and until when."""
    before = pl.col("end_ns").shift(1).over("rank", "step")
    actions = actions.with_columns(free_ns=before).with_row_index("at")
    keys = actions.select("at", "rank", "step", "free_ns", on_ns="start_ns").sort("on_ns")
    found = receives.select("rank", "step", "start_ns", "end_ns").sort("end_ns").join_asof(
        keys, left_on="end_ns", right_on="on_ns", by=("rank", "step"), strategy="forward", check_sortedness=False,
        coalesce=False,
    ).filter(pl.col("at").is_not_null())  # fmt: skip
    since = pl.max_horizontal("start_ns", pl.col("free_ns").fill_null(pl.col("start_ns")))
    found = found.filter(pl.col("end_ns") > since).group_by("at").agg(
        waited_ns=(pl.col("end_ns").max() - since.min()).clip(lower_bound=0), waited_until_ns=pl.col("end_ns").max()
    )  # fmt: skip
    joined = actions.join(found, on="at", how="left", maintain_order="left")
    return joined.with_columns(pl.col("waited_ns").fill_null(0), pl.col("waited_until_ns").fill_null(-1))
