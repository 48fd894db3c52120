"""What did each layer consist of? The kernels of a trace's phases, with what may explain how long they took.

A layer is an occurrence of a phase: the one that the trace states, else the number of the occurrence. Kernels of two
layers are the same kernel where their phase and name are, and their number among those of that name in the phase.
"""

from __future__ import annotations

import polars as pl

from weftrace.analysis.intervals import covered, of_events, totals_by_group
from weftrace.errors import TraceError
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work

#: Ranges in which weftrace's runtime waits for messages.
_WAITING = "wait for "

#: Kernel families whose time is matrix work, as in `plan/contention.toml`.
MATRIX = ("gemm", "gemm_fp8", "gemm_fp4", "gemm_grouped", "attention")

#: One row a kernel. A sample is one layer of one step.
KERNEL_SCHEMA: dict[str, pl.DataType] = {
    "phase": pl.String(),
    "micro_batch": pl.Int32(),
    "step": pl.Int64(),
    "layer": pl.Int32(),
    "name": pl.String(),
    "slot": pl.Int32(),  # number among the kernels of that name in the phase, from 0
    "group": pl.String(),  # a `values.Group`
    "family": pl.String(),
    "stream": pl.Int64(),
    "num_blocks": pl.Int64(),
    "persistent": pl.Boolean(),
    "start_ns": pl.Int64(),
    "dur_ns": pl.Int64(),
    "beside": pl.Float64(),  # share of its time in which a kernel of the group "data" ran
}

#: What tells a sample of a phase: the phase as one layer of one step ran it.
SAMPLE_KEY = ("phase", "micro_batch", "step", "layer")

_HINT = "Name ranges as DeepSeek's published profiles do, attn(F) or ATTN, or record with weftrace's runtime"


def kernels_of(source: Trace | Work) -> pl.DataFrame:
    """The kernels of all phases, in order of start: a frame of `KERNEL_SCHEMA`.

    Host operators stand in for kernels where nothing ran on a device. Raises `TraceError` where the trace has no
    phases, or none that launched anything.
    """
    work = as_work(source)
    path = work.trace.path or "the trace"
    if work.phases.is_empty():
        raise TraceError(f"{path}: it has no named ranges, so the purpose of its kernels is unknown. {_HINT}.")
    events = work.events.filter(pl.col("phase").is_not_null(), pl.col("end_ns") > pl.col("start_ns"))
    if events.is_empty():
        raise TraceError(f"{path}: its {work.phases.height} named ranges launched nothing that took time.")
    data = of_events(work.events.filter((pl.col("kind") == "communication") & (pl.col("role") == "data")))
    starts, ends = (events.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    text = pl.String()
    layered = events.rename({"phase": "number"}).join(samples_of(work), on="number", how="left", maintain_order="left")
    named = layered.select(
        "number", *SAMPLE_KEY, "stream", "num_blocks", "persistent", "start_ns",
        pl.col("name").cast(text), pl.col("family").cast(text), _group().alias("group"),
        dur_ns=pl.col("end_ns") - pl.col("start_ns"),
        beside=pl.Series(covered(data, starts, ends) / (ends - starts)),
    )  # fmt: skip
    kernels = named.sort("start_ns", maintain_order=True)
    slot = pl.int_range(pl.len()).over(*SAMPLE_KEY, "name").alias("slot")
    return kernels.with_columns(slot).select(pl.col(name).cast(dtype) for name, dtype in KERNEL_SCHEMA.items())


def busy_of(kernels: pl.DataFrame) -> pl.DataFrame:
    """The key of each sample of a phase with `busy_ns`, the union of its kernels over streams, and `serial_ns`, their
    sum; `data_ns`, `wait_ns`: the union of those of these groups."""
    keyed = kernels.with_columns(sample=pl.struct(SAMPLE_KEY).rank("dense").cast(pl.Int64) - 1)
    number = int(keyed.get_column("sample").max() or 0) + 1  # type: ignore[arg-type]

    def union(part: pl.DataFrame) -> pl.Series:
        starts = part.get_column("start_ns")
        ends = starts + part.get_column("dur_ns")
        return pl.Series(totals_by_group(part.get_column("sample"), starts, ends, number))

    totals = pl.DataFrame(
        {
            "sample": pl.Series(range(number), dtype=pl.Int64),
            "busy_ns": union(keyed),
            "data_ns": union(keyed.filter(pl.col("group") == "data")),
            "wait_ns": union(keyed.filter(pl.col("group") == "wait")),
        }
    )
    samples = keyed.group_by("sample", *SAMPLE_KEY).agg(
        serial_ns=pl.col("dur_ns").sum(), start_ns=pl.col("start_ns").min(),
        end_ns=(pl.col("start_ns") + pl.col("dur_ns")).max(),
    )  # fmt: skip
    return samples.join(totals, on="sample").sort("start_ns", "sample").drop("sample")


def _group() -> pl.Expr:
    communicates = pl.col("kind") == "communication"
    return (
        pl.when((communicates & (pl.col("role") == "barrier")) | pl.col("phase").str.starts_with(_WAITING))
        .then(pl.lit("wait"))
        .when(communicates)
        .then(pl.lit("data"))
        .when(pl.col("family").cast(pl.String).is_in(MATRIX))
        .then(pl.lit("matrix"))
        .otherwise(pl.lit("memory"))
    )


def samples_of(work: Work) -> pl.DataFrame:
    """Of each phase (`number`, its row of `work.phases`) the sample that it is of: name, micro-batch, step and layer,
    as stated or counted."""
    counted = pl.int_range(pl.len()).over("name", "micro_batch", "step")
    return work.phases.select(
        pl.col("phase").alias("number"), pl.col("name").alias("phase"), "micro_batch", "step",
        pl.coalesce(pl.col("layer"), counted).cast(pl.Int32).alias("layer"),
    )  # fmt: skip
