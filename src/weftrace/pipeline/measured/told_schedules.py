"""Which schedule did a run follow? The one of the known families whose actions stand in its order on every rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import polars as pl

from weftrace.errors import ScheduleError, TraceError
from weftrace.pipeline.generators.families import family_of, generate
from weftrace.pipeline.measured.one_clock import on_one_clock
from weftrace.pipeline.measured.plain_runs import on_stages_of
from weftrace.pipeline.measured.runs import MeasuredRun
from weftrace.pipeline.rules import check
from weftrace.pipeline.schedule import ACTION_SCHEMA, Schedule

#: Families that are tried, by the stages that a rank holds and those that there are for each rank: the commoner first.
_TRIED: dict[tuple[int, int], tuple[str, ...]] = {
    (1, 1): ("1f1b", "gpipe", "zb1p", "zb2p"),
    (2, 2): ("interleaved", "zbv", "dualpipev", "interleaved-fb", "v-half", "v-min", "interleaved-zb"),
    (2, 1): ("dualpipe",),
}
_SEVERAL = ("interleaved", "interleaved-fb", "interleaved-zb")
_MOST_CHUNKS = 8  # of a rank, that ranges without a stage are tried as
_ORDER = ("kind", "stage", "micro_batch", "back_stage", "back_micro_batch")


def told_schedule(run: MeasuredRun, step: int | None = None) -> Schedule:
    """The schedule that a step of the run followed: of a family where all actions are in its order, else as it ran.

    step: by default the last of those that hold most actions, because the first and last of a recording are often cut,
    and forwards alone, as an evaluation runs them, are steps too.

    Raises `TraceError` where the actions make no schedule, where none is known and the ranges do not tell stages, and
    where a rank of the pipeline has no trace.
    """
    need_all_ranks(run)
    chosen = run.of_step(_fullest(run) if step is None else step)
    for schedule in _candidates(chosen):
        if _alike(on_stages_of(chosen, schedule), schedule):
            return schedule
    if run.numbers == "order" and chosen.num_ranks > 1:
        raise TraceError(
            f"{run.source}: its ranges name no stage, and their order on {chosen.num_ranks} ranks is that of no known "
            "schedule, so which rank has which stage is unknown. Give the schedule that was run as a file, and the "
            "traces of one rank of each stage (--ranks)."
        )
    return _as_it_ran(chosen)


def need_all_ranks(run: MeasuredRun) -> None:
    """Raises `TraceError` where a rank of the pipeline has no trace: what it did would look like messages."""
    if run.absent is not None and run.absent.takes_part:
        raise TraceError(
            f"{run.source}: {run.absent.sentence}. What it did would be taken for time of messages; give the trace of "
            "each rank of the pipeline."
        )


def _fullest(run: MeasuredRun) -> int:
    """The last of the steps that hold most actions."""
    counts = run.actions.group_by("step").len().sort("len", "step")
    return int(counts.get_column("step")[-1])


def with_told_schedule(run: MeasuredRun) -> tuple[MeasuredRun, Schedule | None]:
    """The whole steps of a run, with the stages and on the clock of the schedule that it followed, and that schedule.
    Where that is not known, the run as it is, and None: if its ranges name no stage, each rank is one, as a note says.
    """
    try:
        schedule = told_schedule(run)
        whole = on_stages_of(run, schedule).of_schedule(schedule)
        return on_one_clock(whole, schedule)[0], schedule
    except TraceError:
        why = "" if run.is_partial else "their order is that of no known schedule: "
        note = f"{why}each rank is taken as one stage"
        return (replace(run, notes=(*run.notes, note)) if run.numbers == "order" else run), None


def _candidates(run: MeasuredRun) -> Iterator[Schedule]:
    actions, ranks = run.actions, run.num_ranks
    batches = int(actions.select(pl.max_horizontal(pl.max("micro_batch"), pl.max("back_micro_batch"))).item()) + 1
    held = int(actions.group_by("rank").agg(pl.col("stage").n_unique()).get_column("stage").max())  # type: ignore[arg-type]
    each = int(actions.get_column("stage").n_unique()) // max(1, ranks)
    tried = [(name, each, batches) for name in _TRIED.get((held, each), _SEVERAL if held == each else ())]
    if run.numbers == "order":  # as many forwards may be of several chunks
        tried += [
            (name, chunks, batches // chunks)
            for name in _SEVERAL
            for chunks in range(2, _MOST_CHUNKS + 1)
            if batches % chunks == 0
        ]
    for name, chunks, number in tried:
        options = {"stages_per_rank": chunks} if "stages_per_rank" in family_of(name).options else {}
        with suppress(ScheduleError):  # not for these numbers
            yield generate(name, num_ranks=ranks, num_micro_batches=number, **options)


def _as_it_ran(chosen: MeasuredRun) -> Schedule:
    """The step's own order."""
    actions = chosen.actions
    batches = int(actions.select(pl.max_horizontal(pl.max("micro_batch"), pl.max("back_micro_batch"))).item()) + 1
    placement = actions.group_by("rank").agg(pl.col("stage").unique()).sort("rank")
    held = {stage: rank for rank, stages in placement.iter_rows() for stage in stages}
    try:
        schedule = Schedule(
            name="as it ran",
            rank_of=(tuple(held[stage] for stage in range(max(held) + 1)),),
            num_micro_batches=batches,
            actions=actions.sort("rank", "start_ns", maintain_order=True).select(*ACTION_SCHEMA),
        )
        check(schedule)
    except (ScheduleError, KeyError) as error:
        reason = f"no trace has stage {error}" if isinstance(error, KeyError) else error
        raise TraceError(
            f"{chosen.source}: forwards and backwards of step {chosen.steps[0]} make no schedule ({reason}); give the "
            "one that was run as a file."
        ) from error
    return schedule


def _alike(run: MeasuredRun, schedule: Schedule) -> bool:
    own = run.actions.sort("rank", "start_ns", maintain_order=True).select("rank", *_ORDER)
    planned = schedule.actions.select("rank", *_ORDER)
    return own.height == planned.height and own.cast(pl.String).equals(planned.cast(pl.String))
