"""Which ranges of the host stand for steps, where a profiler was not told of steps?

An inference engine names each of its iterations (vLLM's `execute_context_0(0)_generation_16(16)`), a loop its passes. A
step is all that is launched from the start of one to the start of the next.
"""

from __future__ import annotations

import re
from dataclasses import replace

import polars as pl

from weftrace.errors import ComparisonError
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import Trace, is_annotation, is_launch
from weftrace.trace.phases import NOT_A_PHASE, find_steps

_LEAST = 0.2  # of all launches: a range that holds fewer is no step of a whole loop
_MOST_NAMED = 6


def with_steps(trace: Trace, steps_by: str | None = None) -> tuple[Trace, str | None]:
    """The trace with a `ProfilerStep` beside each range that stands for one, and what such ranges are called: numbers
    in their names tell them apart no more. As it is, and None, where its profiler recorded steps, or nothing repeats.

    steps_by: the ranges' name, `*` for any text, `#` for any number: annotations, operators or calls of the runtime
    (`cudaGraphLaunch`), whatever steps are recorded. Without it, annotations that lie in no other and whose names
    differ in numbers alone: of these the ones that hold most launches, a fifth of all or more. Raises ComparisonError
    where nothing, or but one range, is named so.
    """
    if trace.plain is not None or (steps_by is None and find_steps(trace.events).height):
        return trace, None
    events = trace.events.with_row_index("row")
    found = _repeated(events) if steps_by is None else _named(events, steps_by, trace.path)
    if found is None:
        return trace, None
    name, ranges = found
    last_ns = events.select((pl.col("ts_ns") + pl.col("dur_ns")).max()).item()
    to_next = pl.col("ts_ns").shift(-1).fill_null(last_ns) - pl.col("ts_ns")  # what follows a range is of its step
    steps = ranges.sort("ts_ns").with_columns(dur_ns=to_next).with_row_index("number").select(
        pl.format("ProfilerStep#{}", "number").cast(pl.Categorical()).alias("name"),
        pl.lit("user_annotation", pl.Categorical()).alias("cat"), "pid", "tid", "ts_ns", "dur_ns",
    )  # fmt: skip
    is_chosen = pl.col("row").is_in(ranges.get_column("row").implode()) & is_annotation()
    is_step = is_annotation() & pl.col("name").cast(pl.String).str.contains("^ProfilerStep#")
    kept = events.with_columns(  # rows stay where they are: others point at them
        pl.when(is_chosen).then(pl.lit(name, pl.Categorical())).otherwise("name").alias("name"),
        pl.when(is_step).then(pl.lit("replaced", pl.Categorical())).otherwise("cat").alias("cat"),
    ).drop("row")
    return replace(trace, events=pl.concat([kept, steps], how="diagonal_relaxed").select(kept.columns)), name


def _named(events: pl.DataFrame, steps_by: str, path: str) -> tuple[str, pl.DataFrame]:
    host = events.filter(is_annotation() | is_launch() | (pl.col("cat") == "cpu_op"))
    names = host.get_column("name").unique().cast(pl.String)
    pattern = re.compile(re.escape(steps_by).replace(r"\*", ".*").replace(r"\#", r"\d+"))
    matches = [name for name in names if pattern.fullmatch(name)]
    ranges = _outermost(host.filter(pl.col("name").cast(pl.String).is_in(matches)))
    if ranges.height < 2:
        num = "one range" if ranges.height else "nothing"
        raise ComparisonError(f"{path}: {num} is named {steps_by!r}: a step needs two.{_others(host)}")
    return steps_by, ranges


def _others(host: pl.DataFrame) -> str:
    keyed = host.filter(is_annotation()).with_columns(_key())
    often = keyed.group_by("key").len().filter(pl.col("len") > 1).sort("len", "key", descending=[True, False])
    names = often.get_column("key").head(_MOST_NAMED).to_list()
    return f" What repeats: {', '.join(names)}." if names else " No annotation repeats."


def _repeated(events: pl.DataFrame) -> tuple[str, pl.DataFrame] | None:
    ranges = events.filter(is_annotation()).with_columns(_key())
    ranges = _outermost(ranges.filter(~pl.col("key").str.contains(NOT_A_PHASE)))
    launches = events.filter(is_launch(), pl.col("correlation").is_not_null()).select(
        launch_ts_ns="ts_ns", launch_pid="pid", launch_tid="tid"
    )
    held = ranges.select(pl.col("key", "pid", "tid").gather(open_at_launch(ranges, launches).drop_nulls()))
    often = ranges.group_by("pid", "tid", "key").agg(pl.len().alias("num"), pl.col("ts_ns").min())
    often = often.join(held.group_by("pid", "tid", "key").len(), on=["pid", "tid", "key"])
    best = often.filter(pl.col("num") > 1, pl.col("len") >= _LEAST * launches.height)
    if best.is_empty():
        return None
    best = best.sort("len", "ts_ns", descending=[True, False]).head(1)
    return best.item(0, "key"), ranges.join(best, on=["pid", "tid", "key"], how="semi")


def _key() -> pl.Expr:
    """A name with its numbers left out."""
    return pl.col("name").cast(pl.String).str.replace_all(r"\d+", "#").alias("key")


def _outermost(ranges: pl.DataFrame) -> pl.DataFrame:
    """Ranges that lie in no other of their thread. One that begins a little before the last has ended does not."""
    ranges = ranges.sort("ts_ns", "dur_ns", descending=[False, True], maintain_order=True)
    end = pl.col("ts_ns") + pl.col("dur_ns")
    reach = end.cum_max().shift(1).over("pid", "tid")
    return ranges.filter(reach.is_null() | (end > reach) | (pl.col("ts_ns") >= reach))
