"""Which rank, and what of it, decided how long each step took? Of step 7, rank 3, and of that its dispatch(F)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.advice.critical_paths import NO_PHASE, PART_SCHEMA, CriticalPath, weakest_of
from weftrace.errors import TraceError
from weftrace.files.columns import frame_schema


class StepRow(TypedDict):
    """A step, and what decided how long it took. Times are ns of the critical path."""

    step: Annotated[int | None, Meta(description="Null outside steps.")]
    path_ns: Annotated[int, Meta(description="Of the path in the step; all rows add up to its span.")]
    rank: Annotated[int, Meta(description="On which most of that is.")]
    rank_ns: int
    what: Annotated[str, Meta(description="Of that rank's part the phase, or kernel family, with the most time.")]
    time_ns: int


def decided_steps(path: CriticalPath) -> pl.DataFrame:
    """Of each step that the path crosses, in order: a frame of `StepRow`s.

    A launch counts to the step of what it launches; what else a host thread does, and time between ops, to that of the
    next part of the path that has one.
    """
    phase, family = (pl.col(name).cast(pl.String) for name in ("phase", "family"))
    parts = _in_steps(path).with_columns(
        pl.when(phase == NO_PHASE).then(family).otherwise(phase).alias("what"),
        time_ns=pl.col("until_ns") - pl.col("from_ns"),
    )
    time = pl.col("time_ns").sum()
    steps = parts.group_by("step", maintain_order=True).agg(path_ns=time)
    by_rank = parts.group_by("step", "rank", maintain_order=True).agg(rank_ns=time)
    by_what = parts.group_by("step", "rank", "what", maintain_order=True).agg(time)
    rank = by_rank.sort("rank_ns", descending=True, maintain_order=True).unique("step", maintain_order=True)
    what = by_what.sort("time_ns", descending=True, maintain_order=True).unique(("step", "rank"), maintain_order=True)
    summary = steps.join(rank, on="step", nulls_equal=True).join(what, on=("step", "rank"), nulls_equal=True)
    return summary.sort("step", nulls_last=True).select(
        pl.col(name).cast(dtype) for name, dtype in frame_schema(StepRow).items()
    )


def path_in_step(path: CriticalPath, step: int) -> CriticalPath:
    """What of a path is in one step, as `decided_steps` has it; its span is the time of these parts.

    Raises `TraceError`, naming those that there are, where the path crosses no such step.
    """
    parts = _in_steps(path)
    own = parts.filter(pl.col("step") == step)
    if own.is_empty():
        known = parts.get_column("step").drop_nulls().unique().sort().to_list()
        steps = f"it goes through {', '.join(map(str, known[:12]))}" if known else "this trace has no profiler steps"
        raise TraceError(f"step {step} is not on the critical path: {steps}.")
    on_path = path.path.filter(pl.col("op").is_in(own.get_column("op").implode()))
    return replace(
        path,
        parts=own.select(*PART_SCHEMA),
        path=on_path,
        span_ns=int(own.select((pl.col("until_ns") - pl.col("from_ns")).sum()).item()),
        before_ns=0,
        measured_ns=None,
        weakest=weakest_of(on_path),
    )


def _in_steps(path: CriticalPath) -> pl.DataFrame:
    """The parts, each with the step that it counts to."""
    return path.parts.join(_launched(path), on="op", how="left", maintain_order="left").with_columns(
        pl.coalesce("step", "launched").backward_fill().forward_fill().alias("step")
    )


def _launched(path: CriticalPath) -> pl.DataFrame:
    """Of each launch: op, and launched, the step of what it launches first."""
    plan = path.times.plan
    waits = plan.waits.filter(why="launch").select("op", "on")
    steps = waits.with_columns(plan.ops.get_column("step").gather(waits.get_column("op")).alias("launched"))
    first = steps.sort("op").group_by("on", maintain_order=True).agg(pl.col("launched").drop_nulls().first())
    return first.rename({"on": "op"})
