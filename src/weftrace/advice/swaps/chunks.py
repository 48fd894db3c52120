"""Which chunks did a measured pipeline run, when, and of which micro-batch? Read from the names of its phases."""

from __future__ import annotations

import re

import polars as pl

from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred

#: What ranges of a pipeline's chunks are called: stage3(F), of an F&B stage0(F)&stage7(B).
_CHUNK = re.compile(r"stage(\d+)\((F|B|I|W)\)(?:&stage(\d+)\(B\))?")
#: The same as whole actions, as weftrace's runtime and torch's write them: 3F5, 0F4&7B1, PP:(0F4;7B1)OVERLAP_F_B.
_ACTION = re.compile(r"(?:PP:)?\(?(\d+)(F|B|I|W)(\d+)\^?(?:[&;](\d+)B(\d+))?(?:\)OVERLAP_F_B)?")


def pipeline_actions(inferred: Inferred) -> pl.DataFrame:
    """The chunks of a measured pipeline, from phases that are called as they are ("stage3(F)", with a micro-batch, or
    "3F5"): the columns of `weftrace.pipeline.measured.runs.RUN_SCHEMA`, by rank and in order of start.

    A chunk lasts from the first start to the last end of what its range launched. Where a phase tells no backward's
    micro-batch, the backwards of a stage on a rank are taken to be in the order of its forwards.
    Raises `AdviceError` where no phase is such, or some of the pipeline are missing.
    """
    phases = _occurrences(inferred)
    rows = [_read(str(name)) for name in phases.get_column("phase")]
    known = pl.Series([row is not None for row in rows])
    if not known.any():
        summary = ", ".join(phases.get_column("phase").unique(maintain_order=True).head(6)) or "none"
        raise AdviceError(
            "another schedule needs phases of a pipeline's chunks with their micro-batches, stage0(F) and stage0(B), "
            f"or ranges of its actions, 0F3; the phases here are {summary}. weftrace's and torch's pipeline "
            "runtimes write such ranges."
        )
    read = pl.DataFrame(
        [row for row in rows if row is not None],
        schema={"kind": pl.String, "stage": pl.Int32, "told": pl.Int32, "back_stage": pl.Int32, "back": pl.Int32},
        orient="row",
    )
    chunks = phases.filter(known).hstack(read).with_columns(pl.coalesce("told", "micro_batch").alias("micro_batch"))
    _check_complete(chunks)
    return _with_waits(_with_micro_batches(chunks))


def _occurrences(inferred: Inferred) -> pl.DataFrame:
    """Phases as they ran on the device, or the actions that hold them: rank, phase, micro_batch, step, start_ns,
    end_ns, by rank and in order of start."""
    ops = inferred.plan.ops.select("rank", "phase", "micro_batch", "step").with_columns(pl.col("phase").cast(pl.String))
    ops = ops.hstack(inferred.measured.select("at", "phase_number", "event", "start_ns", "end_ns"))
    ops = ops.filter(pl.col("phase_number").is_not_null(), pl.col("event").is_not_null())
    around = [
        _actions_around(work.phases).with_columns(pl.lit(at, pl.Int32).alias("at"))
        for at, work in enumerate(inferred.works)
    ]
    ops = ops.join(pl.concat(around), on=("at", "phase_number"), how="left", maintain_order="left").with_columns(
        pl.coalesce("outer", "phase_number").alias("phase_number"), pl.coalesce("action", "phase").alias("phase")
    )
    phases = ops.group_by("at", "phase_number", maintain_order=True).agg(
        pl.col("rank", "phase", "micro_batch", "step").first(), pl.col("start_ns").min(), pl.col("end_ns").max()
    )
    return phases.sort("rank", "start_ns", maintain_order=True)


def _actions_around(phases: pl.DataFrame) -> pl.DataFrame:
    """Of each phase within the range of a whole action (3F5 around stage3(F)): phase_number, outer (the action's
    number) and action (its name)."""
    is_action = phases.get_column("name").str.contains(f"^(?:{_ACTION.pattern})$")
    actions = phases.filter(is_action).select(
        "pid", "tid", "host_start_ns", pl.col("host_end_ns").alias("until_ns"),
        pl.col("phase").alias("outer"), pl.col("name").alias("action"),
    ).sort("host_start_ns")  # fmt: skip
    inner = phases.select("pid", "tid", "host_start_ns", "host_end_ns", pl.col("phase").alias("phase_number"))
    held = inner.sort("host_start_ns").join_asof(actions, on="host_start_ns", by=["pid", "tid"], check_sortedness=False)
    return held.filter(pl.col("until_ns") >= pl.col("host_end_ns")).select("phase_number", "outer", "action")


def _read(name: str) -> tuple[str, int, int | None, int | None, int | None] | None:
    """Kind, stage, micro-batch, and of an F&B the backward's stage and micro-batch; None of another name."""
    if found := _CHUNK.fullmatch(name):
        back = None if found[3] is None else int(found[3])
        return ("F&B" if back is not None else found[2]), int(found[1]), None, back, None
    if found := _ACTION.fullmatch(name):
        back, back_batch = (None if each is None else int(each) for each in found.group(4, 5))
        return ("F&B" if back is not None else found[2]), int(found[1]), int(found[3]), back, back_batch
    return None


def _check_complete(chunks: pl.DataFrame) -> None:
    """Raise `AdviceError` for what of a pipeline is missing."""
    both = pl.col("kind") == "F&B"
    forward = set(chunks.filter((pl.col("kind") == "F") | both).get_column("stage"))
    backward = set(chunks.filter(pl.col("kind").is_in(("B", "I"))).get_column("stage"))
    backward |= set(chunks.filter(both).get_column("back_stage"))
    every = range(max(forward | backward, default=0) + 1)
    for what, found in (("forward (F)", forward), ("backward (B, or I and W)", backward)):
        if missing := [str(stage) for stage in every if stage not in found]:
            raise AdviceError(
                f"no {what} phase of stage {', '.join(missing[:8])} is here, and another schedule needs all of a step: "
                "give the traces of all ranks of one pipeline."
            )
    if (without := chunks.filter(pl.col("micro_batch").is_null())).height:
        raise AdviceError(
            f"{without.height:,} phases, {without.get_column('phase')[0]} for one, have no micro-batch, and another "
            "schedule needs to know which is which: write it in the range's name, stage0(F) {micro_batch=3}."
        )


def _with_micro_batches(chunks: pl.DataFrame) -> pl.DataFrame:
    """The backward's micro-batch of each F&B that does not tell it, by the order of forwards."""
    chunks = chunks.with_columns(pl.col("step").fill_null(0)).with_row_index("row")
    unknown = chunks.filter(pl.col("kind") == "F&B", pl.col("back").is_null())
    if unknown.is_empty():
        return chunks
    key = ("rank", "step", "stage")
    nth = pl.int_range(pl.len()).over(key).alias("nth")
    forward = chunks.filter(pl.col("kind").is_in(("F", "F&B"))).select(*key, pl.col("micro_batch").alias("batch"), nth)
    own = chunks.filter(pl.col("kind").is_in(("B", "I"))).select("row", *key)
    beside = chunks.filter(kind="F&B").select("row", "rank", "step", pl.col("back_stage").alias("stage"))
    backward = pl.concat([own, beside]).sort("row").with_columns(nth)
    batches = backward.join(forward, on=[*key, "nth"], how="left").select("row", "batch")
    chunks = chunks.join(batches, on="row", how="left", maintain_order="left")
    return chunks.with_columns(pl.when(pl.col("kind") == "F&B").then(pl.coalesce("back", "batch")).alias("back"))


def _with_waits(chunks: pl.DataFrame) -> pl.DataFrame:
    """In the columns of a run's actions. A rank waited from the end of the chunk before until its next."""
    from weftrace.pipeline.measured.runs import RUN_SCHEMA

    before = pl.col("end_ns").shift(1).over("rank", "step")
    waited = (pl.col("start_ns") - before).clip(lower_bound=0).fill_null(0)
    frame = chunks.with_columns(
        pl.col("back").alias("back_micro_batch"),
        pl.lit(False).alias("offload"),
        pl.lit(0).alias("stalled_ns"),
        waited.alias("waited_ns"),
        pl.when(waited > 0).then("start_ns").otherwise(-1).alias("waited_until_ns"),
    )
    return frame.select(pl.col(name).cast(dtype) for name, dtype in RUN_SCHEMA.items())
