"""A plan of kernels as one of phases: small enough to look at, and free of what happens inside a phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import PlanError
from weftrace.plan.inference.values import EDGE_SCHEMA, MEASURED_SCHEMA, Inferred
from weftrace.plan.ops import OP_SCHEMA, WAIT_SCHEMA

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_FOR_ONE = ("launch", "graph")  # waits of each kernel of its own, of which a phase keeps that of its first


def by_phase(inferred: Inferred) -> Inferred:
    """The plan with an op for each stretch of one phase on one stream, from its first start to its last end.

    A stretch ends where another phase comes between on its stream, where work of another phase waits for a part of it,
    and before a part that waits for work of another phase; so each wait between phases stays as it is. What launches a
    stretch is what launches its first kernel. Other launches, and waits between the streams of one phase, are inside
    the measured time; only that a stream joined the phase after it had begun is kept. Ops that meet stay by themselves.
    Host threads become stretches in the same way, between the calls that matter. A stretch has the kind, family and
    role of most of its time, and the first event of it.
    Raises `PlanError` where no op has a phase.
    """
    if not inferred.measured.get_column("phase_number").is_not_null().any():
        raise PlanError(
            f"{inferred.plan.name}: it has no phases, so there is no plan of them; name parts of the step with "
            'record_function: "attn(F)", "mlp(B)".'
        )
    order, begins = _runs(inferred)
    waits = inferred.plan.waits.hstack(inferred.edges)
    stretch = _stretches(inferred, waits, order, begins)
    pieces = _pieces(inferred, stretch)
    kept = _kept_waits(inferred, waits, stretch)
    plan = replace(inferred.plan, ops=pieces.select(*OP_SCHEMA), waits=kept.select(*WAIT_SCHEMA))
    return replace(
        inferred, plan=plan, measured=pieces.select(*MEASURED_SCHEMA), edges=kept.select(*EDGE_SCHEMA),
        sm_waits=_of_heads(inferred.sm_waits, stretch), kernels=inferred.kernels or inferred,
    )  # fmt: skip


def _runs(inferred: Inferred) -> tuple[_Ints, _Bools]:
    """Ops in the order of each stream, [ops]; and whether each of these, in that order, must begin a stretch."""
    ops = inferred.plan.ops.select("rank", "stream", "kind", "meet").with_row_index("op")
    ops = ops.with_columns(inferred.measured.get_column("phase_number").fill_null(-1)).sort(
        "rank", "stream", maintain_order=True
    )
    phase = pl.when(pl.col("kind") == "host").then(-1).otherwise("phase_number")
    stream = ("rank", "stream")
    begins = (pl.int_range(pl.len()).over(stream) == 0) | (phase != phase.shift(1)).fill_null(True)
    alone = pl.col("meet").is_not_null()
    begins = begins | alone | alone.shift(1).fill_null(False)
    return ops.get_column("op").to_numpy().astype(np.int64), ops.select(begins).to_series().to_numpy()


def _stretches(inferred: Inferred, waits: pl.DataFrame, order: _Ints, begins: _Bools) -> _Ints:
    """The number of each op's stretch, [ops], in order of each stream.

    Runs are cut where waits between phases begin and end, then where a call launches the head of a stretch.
    """
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    op, on = (place[waits.get_column(name).to_numpy()] for name in ("op", "on"))
    after = on + (waits.get_column("since") == "end").to_numpy()  # a stretch begins there, behind or at what it is on
    is_for_one = waits.get_column("source").cast(pl.String).is_in(_FOR_ONE).to_numpy()
    begins = np.append(begins, True)
    counts = ~is_for_one & ~_inside(inferred, waits)
    begins[op[counts]] = True
    begins[after[counts]] = True
    begins[after[is_for_one & begins[op]]] = True
    stretch = np.empty(len(order), np.int64)
    stretch[order] = np.cumsum(begins[:-1]) - 1
    return stretch


def _inside(inferred: Inferred, waits: pl.DataFrame) -> _Bools:
    """Of each wait, whether both ops are of one occurrence of a phase."""
    phase = inferred.measured.select("at", pl.col("phase_number").fill_null(-1)).to_numpy()
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    inside: _Bools = (phase[op] == phase[on]).all(axis=1) & (phase[op, 1] >= 0)
    return inside


def _pieces(inferred: Inferred, stretch: _Ints) -> pl.DataFrame:
    """A row a stretch, in its number: the columns of ops and of what was measured."""
    gap = inferred.plan.gap_ns
    device_only = [name for name in MEASURED_SCHEMA if name not in inferred.plan.ops.columns]
    rows = inferred.plan.ops.hstack(inferred.measured.select(device_only)).with_columns(stretch=pl.Series(stretch))
    lasts = pl.col("duration_ns").sum() + (pl.len().cast(pl.Int64) - 1) * gap
    extent = pl.col("end_ns").max() - pl.col("start_ns").min()
    is_host = (pl.col("kind") == "host").first()
    pieces = (
        rows.group_by("stretch")
        .agg(
            pl.col("name", "phase", "rank", "stream", "num_kernels", "meet", "layer", "micro_batch", "step", "event",
                   "call", "at", "phase_number").first(),
            pl.lit(None, pl.String).alias("id"),
            pl.lit(None, pl.Int32).alias("num_sms"),
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            pl.when(is_host).then(lasts).when(pl.len() == 1).then(pl.col("duration_ns").first()).otherwise(extent)
            .alias("duration_ns"),
            pl.col("start_bytes", "end_bytes").sum(),
            num_ops=pl.len(),
        )
        .sort("stretch")
    )  # fmt: skip
    for name in ("kind", "what", "family", "role"):
        pieces = pieces.join(_of_most_time(rows, name), on="stretch", how="left", maintain_order="left")
    several = pl.col("num_ops") > 1
    called = pl.coalesce(pl.when(several).then(pl.col("phase").cast(pl.String)), pl.col("name").cast(pl.String))
    return pieces.with_columns(
        pl.when(several & (pl.col("kind") == "host")).then(pl.lit("host work")).otherwise(called)
        .cast(pl.Categorical()).alias("name"),
        pl.when(several).then(1).otherwise("num_kernels").cast(pl.Int32).alias("num_kernels"),
    )  # fmt: skip


def _of_most_time(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Of each stretch the value of a column that most of its time has."""
    by_value = rows.group_by("stretch", name, maintain_order=True).agg(pl.col("duration_ns").sum())
    most = by_value.sort("duration_ns", descending=True, maintain_order=True).unique("stretch", maintain_order=True)
    return most.select("stretch", name)


def _kept_waits(inferred: Inferred, waits: pl.DataFrame, stretch: _Ints) -> pl.DataFrame:
    """Waits of heads of stretches, one of a kind for each two: the latest; of equals, the surest.

    One for a part of the own phase on another stream becomes one for the start of the stretch that holds the part.
    """
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    heads, lasts = np.zeros(len(stretch), np.bool_), np.zeros(len(stretch), np.bool_)
    heads[np.unique(stretch, return_index=True)[1]] = True
    lasts[len(stretch) - 1 - np.unique(stretch[::-1], return_index=True)[1]] = True
    for_end = (waits.get_column("since") == "end").to_numpy()
    inside = _inside(inferred, waits) & ~(for_end & lasts[on])
    mapped = waits.with_columns(
        pl.Series("op", stretch[op]).cast(pl.UInt32),
        pl.Series("on", stretch[on]).cast(pl.UInt32),
        pl.when(pl.Series(inside)).then(pl.lit("start", WAIT_SCHEMA["since"])).otherwise("since").alias("since"),
        pl.when(pl.Series(inside)).then(0).otherwise("lag_ns").alias("lag_ns"),
    ).filter(pl.Series(heads[op] & (stretch[op] != stretch[on])))
    best = mapped.sort("lag_ns", "confidence", descending=True, maintain_order=True)
    return best.unique(("op", "on", "since"), keep="first", maintain_order=True).sort("op", maintain_order=True)


def _of_heads(sm_waits: pl.DataFrame, stretch: _Ints) -> pl.DataFrame:
    """Those between stretches, where it is the first kernel of one that waited for SMs."""
    op, on = (sm_waits.get_column(name).to_numpy() for name in ("op", "on"))
    first = np.full(int(stretch.max()) + 1, len(stretch))
    np.minimum.at(first, stretch, np.arange(len(stretch)))
    outer = (first[stretch[op]] == op) & (stretch[op] != stretch[on])
    mapped = sm_waits.with_columns(
        pl.Series("op", stretch[op]).cast(pl.UInt32), pl.Series("on", stretch[on]).cast(pl.UInt32)
    )
    return mapped.filter(pl.Series(outer))
