"""Which schedule did a run follow? The one of the known families whose actions stand in its order on every rank."""

from __future__ import annotations

import polars as pl

from weftrace.errors import ScheduleError, TraceError
from weftrace.pipeline.generators.families import family_of, generate
from weftrace.pipeline.measured.plain_runs import on_stages_of
from weftrace.pipeline.measured.runs import MeasuredRun
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule

#: Families that are tried, by the chunks of a rank: the commoner first.
_TRIED = {1: ("1f1b", "gpipe", "zb1p", "zb2p"), 2: ("interleaved", "zbv", "v-half", "v-min", "interleaved-zb")}
_ORDER = ("kind", "stage", "micro_batch")


def told_schedule(run: MeasuredRun, step: int | None = None) -> Schedule:
    """The schedule that a step of the run followed: of a family where all actions are in its order, else as it ran.

    Raises `TraceError` where the actions make no schedule.
    """
    chosen = run.of_step(step)
    actions = chosen.actions
    ranks, batches = chosen.num_ranks, int(actions.get_column("micro_batch").n_unique())
    chunks = int(actions.get_column("stage").n_unique()) // max(1, ranks)
    for name in _TRIED.get(min(chunks, 2), ()):
        try:
            options = {"stages_per_rank": chunks} if "stages_per_rank" in family_of(name).options else {}
            schedule = generate(name, num_ranks=ranks, num_micro_batches=batches, **options)
        except ScheduleError:
            continue  # not for these numbers
        if _alike(on_stages_of(chosen, schedule), schedule):
            return schedule
    placement = actions.group_by("rank").agg(pl.col("stage").unique()).sort("rank")
    held = {stage: rank for rank, stages in placement.iter_rows() for stage in stages}
    try:
        return Schedule(
            name="as it ran",
            rank_of=(tuple(held[stage] for stage in sorted(held)),),
            num_micro_batches=batches,
            actions=actions.sort("rank", "start_ns", maintain_order=True).select(*ACTION_SCHEMA),
        )
    except (ScheduleError, KeyError) as error:
        raise TraceError(
            f"{run.source}: forwards and backwards of step {chosen.steps[0]} make no schedule ({error}); give the one "
            "that was run as a file."
        ) from error


def _alike(run: MeasuredRun, schedule: Schedule) -> bool:
    own = run.actions.sort("rank", "start_ns", maintain_order=True).select("rank", *_ORDER)
    planned = schedule.actions.select("rank", *_ORDER)
    return own.height == planned.height and own.cast(pl.String).equals(planned.cast(pl.String))
