"""The ops of device and host as one table, and that table and its waits as a plan."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from weftrace.plan.inference.threads.host import WAITING, ready_for_gaps
from weftrace.plan.inference.values import EDGE_SCHEMA, MEASURED_SCHEMA, Inferred, Kept
from weftrace.plan.inference.waits import as_waits
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.trace.work import Work


def together(on_device: pl.DataFrame, on_host: pl.DataFrame, gap_ns: int) -> pl.DataFrame:
    """All ops in order of start, numbered `op`; times from the first start of all, which is `origin_ns`."""
    host = ready_for_gaps(on_host, gap_ns).rename({"thread": "stream"}).with_columns(kind=pl.lit("host"))
    device = on_device.with_columns(
        pl.col("name", "kind").cast(pl.String),
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        what=pl.col("kind").cast(pl.String),
    )
    both = pl.concat([host, device], how="diagonal_relaxed")
    origin = int(both.get_column("start_ns").min())  # type: ignore[arg-type]
    return (
        both.sort("start_ns", "end_ns", maintain_order=True)
        .with_columns(pl.lit(origin).alias("origin_ns"), pl.col("start_ns", "end_ns") - origin)
        .with_row_index("op")
    )


def phases_of(work: Work, ops: pl.DataFrame) -> pl.DataFrame:
    """Of each op: phase_name, layer, index and micro_batch of its phase."""
    phases = work.phases.select("phase", "name", "layer", "index", "micro_batch").rename({"name": "phase_name"})
    return ops.select("phase").join(phases, on="phase", how="left", maintain_order="left")


def assembled(
    work: Work, ops: pl.DataFrame, waits: Iterable[pl.DataFrame], kept: Kept, notes: Iterable[str]
) -> Inferred:
    """The plan of these ops and waits, but for waits whose effect began before its cause.

    ops: of `together`. waits: frames of op and on, and of the other columns of `WAITS` those that are told.
    """
    edges = pl.concat([as_waits(frame) for frame in waits]).sort("op", maintain_order=True)
    edges, contradicted = _causal(ops, edges)
    summary = phases_of(work, ops)
    plan_ops = ops.select(
        "name", "kind", "stream", "duration_ns", pl.lit(work.trace.rank or 0).alias("rank"),
        summary.get_column("phase_name").alias("phase"), summary.get_column("micro_batch"),
        pl.coalesce(summary.get_column("layer"), summary.get_column("index")).alias("layer"), "step",
        _sms(work).alias("num_sms"),
    )  # fmt: skip
    plan = Plan(
        name=work.trace.path or "trace",
        source="inferred from a measured trace",
        device_name=work.trace.device(work.device or 0).name or "device",
        num_sms=work.num_sms,
        world_size=work.trace.world_size,
        gap_ns=kept.gap_ns,
        ops=plan_ops.with_columns(pl.col("name").cast(pl.Categorical()), pl.col("step").cast(pl.Int32)),
        waits=edges.select(*WAIT_SCHEMA),
    )
    measured = ops.select(
        "start_ns", "end_ns", "event", "call", "what", "role", pl.lit(0).alias("at"),
        pl.coalesce("family", pl.col("name").cast(pl.Categorical())).alias("family"),
        pl.col("phase").alias("phase_number"),
    )  # fmt: skip
    measured = measured.select(pl.col(name).cast(dtype) for name, dtype in MEASURED_SCHEMA.items())
    return Inferred(
        plan=plan,
        works=(work,),
        measured=measured,
        edges=edges.select(*EDGE_SCHEMA),
        origin_ns=int(ops.item(0, "origin_ns")),
        kept=kept,
        notes=(*notes, *contradicted),
    )


def _causal(ops: pl.DataFrame, edges: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The waits whose cause began before its effect, by the stamps: so no ops wait for each other in a circle.

    What a thread waited in, a call that blocks or a stretch without one, counts with its end, anything else with its
    start.
    """
    waited = (pl.col("what") == "blocking") | (pl.col("name") == WAITING)
    at = pl.when(waited).then("end_ns").otherwise("start_ns")
    order = ops.select(pl.struct(at.alias("at"), "op").rank("ordinal")).to_series().to_numpy()
    fits = order[edges.get_column("on").to_numpy()] < order[edges.get_column("op").to_numpy()]
    num_odd = int((~fits).sum())
    if not num_odd:
        return edges, []
    waits = "1 wait is" if num_odd == 1 else f"{num_odd:,} waits are"
    return edges.filter(pl.Series(fits)), [
        f"{waits} left out, since by the stamps the effect began before its cause: clocks of host and device differ."
    ]


def _sms(work: Work) -> pl.Expr:
    """SMs that a kernel holds, where it holds one a block."""
    return pl.when(pl.col("persistent") & (pl.col("num_blocks") <= (work.num_sms or 0))).then("num_blocks")
