"""What was rated of each step, and of each phase?"""

from __future__ import annotations

import polars as pl

from weftrace.analysis.efficiency.values import WindowRateRow
from weftrace.analysis.intervals import of_events
from weftrace.facts import Hardware
from weftrace.files.columns import frame_schema
from weftrace.trace.device_windows import step_windows
from weftrace.trace.work import Work
from weftrace.units import S


def step_rates(work: Work, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A row for each step, where the whole of a device's work is at hand."""
    if work.basis != "device" or work.step is not None:
        return pl.DataFrame(schema=frame_schema(WindowRateRow))
    windows = step_windows(work.events).with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("span_ns"))
    spans = windows.select(pl.format("step {}", "step").alias("name"), pl.col("step").alias("key"), "span_ns")
    return _windows(spans, events.with_columns(key="step"), calls.with_columns(key="step"), chip)


def phase_rates(work: Work, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A row for each name of a phase."""
    names = work.phases.select(pl.col("phase").cast(pl.Int32), pl.col("name").alias("key"))
    named = events.join(names, on="phase", how="left", maintain_order="left")
    spans = [
        {"name": str(key), "key": str(key), "span_ns": of_events(part).total_ns}
        for (key,), part in named.filter(pl.col("key").is_not_null()).group_by("key", maintain_order=True)
    ]
    frame = pl.DataFrame(spans, schema={"name": pl.String, "key": pl.String, "span_ns": pl.Int64})
    of_calls = calls.join(names, on="phase", how="left", maintain_order="left")
    found = _windows(
        frame, named.with_columns(pl.col("key").cast(pl.String)), of_calls.with_columns(pl.col("key").cast(pl.String)),
        chip,
    )  # fmt: skip
    return found.sort("total_ns", "name", descending=[True, False])


def _windows(spans: pl.DataFrame, events: pl.DataFrame, calls: pl.DataFrame, chip: Hardware | None) -> pl.DataFrame:
    """A frame of `WindowRateRow`. spans: name, key, span_ns; events and calls have the same key."""
    times = events.group_by("key").agg(pl.col("dur_ns").sum().alias("total_ns"))
    sums = calls.group_by("key").agg(
        pl.col("total_ns").filter(pl.col("executed_flops") > 0).sum().alias("rated_ns"),
        pl.col("flops", "executed_flops", "moved_bytes", "needed_ns", "executed_ns").sum(),
    )
    rows = spans.join(times, on="key", how="left").join(sums, on="key", how="left", maintain_order="left")
    rows = rows.with_columns(pl.col("total_ns", "rated_ns", "flops", "executed_flops", "moved_bytes").fill_null(0))
    span = pl.col("span_ns")
    peak = pl.lit(chip is not None) & (span > 0)
    rows = rows.with_columns(
        (pl.col("rated_ns") / pl.col("total_ns").clip(1)).clip(0, 1).alias("rated_share"),
        _when((span > 0) & (pl.col("flops") > 0), pl.col("flops") / span * S).alias("flops_per_s"),
        _when(peak, pl.col("needed_ns").fill_null(0) / span).alias("mfu"),
        _when(peak, pl.col("executed_ns").fill_null(0) / span).alias("hfu"),
    )
    return rows.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(WindowRateRow).items())


def _when(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value)
