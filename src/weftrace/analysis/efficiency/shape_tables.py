"""Calls, shapes and operators with their times and rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from weftrace.analysis.efficiency.launches import Launches
from weftrace.analysis.efficiency.least_times import LeastTime
from weftrace.analysis.efficiency.values import STEP_SHAPES, OperatorRateRow, ShapeRow
from weftrace.analysis.intervals import totals_by_group
from weftrace.costs.cost import Status
from weftrace.files.columns import frame_of, frame_schema
from weftrace.units import S

_MOST_NAME = 120  # characters of a kernel's name, which can have thousands
_FASTEST = 20e12  # bytes a second: no memory is faster


def calls_of(events: pl.DataFrame, rated: Sequence[LeastTime]) -> pl.DataFrame:
    """A row for each operator call: call, shape, total_ns, memset_ns, busy_ns, row, step, phase of its first event, and
    the FLOPs, bytes and least times of one call of its shape."""
    mine = events.filter(pl.col("shape") >= 0)
    calls = mine.group_by("call", "shape", maintain_order=True).agg(
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("dur_ns").filter(pl.col("is_memset")).sum().alias("memset_ns"),
        pl.col("row", "step", "phase").first(),
    )
    number = calls.select("call").with_row_index("number")
    busy = mine.filter(~pl.col("is_memset")).select("call", "start_ns", "end_ns").join(number, on="call")
    of, start, end = (busy.get_column(name).to_numpy() for name in ("number", "start_ns", "end_ns"))
    calls = calls.with_columns(pl.Series("busy_ns", totals_by_group(of, start, end, calls.height), dtype=pl.Int64))
    of_shape: dict[str, list[Any]] = {
        "flops": [r.cost.flops for r in rated], "executed_flops": [r.cost.executed_flops for r in rated],
        "moved_bytes": [r.cost.moved_bytes for r in rated],
        "needed_ns": [r.needed_ns for r in rated], "executed_ns": [r.executed_ns for r in rated],
        "peak_ns": [r.peak_ns for r in rated],
    }  # fmt: skip
    calls = calls.filter(pl.col("total_ns") > 0)  # of what took no time that is known no rate can be told
    types = {"flops": pl.Int64, "executed_flops": pl.Int64, "moved_bytes": pl.Int64}
    at = calls.get_column("shape")
    return calls.with_columns(
        pl.Series(name, values, dtype=types.get(name, pl.Float64)).gather(at).alias(name)
        for name, values in of_shape.items()
    )


def sums_of_shapes(calls: pl.DataFrame) -> pl.DataFrame:
    """A row for each shape: shape, num_calls, total_ns, busy_ns, memset_ns, and best_ns, of its fastest call."""
    return (
        calls.group_by("shape")
        .agg(
            pl.len().cast(pl.Int64).alias("num_calls"),
            pl.col("total_ns", "busy_ns", "memset_ns").sum(),
            pl.col("busy_ns").min().alias("best_ns"),
        )
        .sort("shape")
    )


def calls_in_steps(calls: pl.DataFrame, rated: Sequence[LeastTime]) -> pl.DataFrame:
    """A frame of `STEP_SHAPES`."""
    names = pl.DataFrame(
        [(at, each.shape.operator, each.shape.sizes, each.cost.dtype) for at, each in enumerate(rated)],
        schema={"shape": calls.schema["shape"], "operator": pl.String, "shapes": pl.String, "dtype": pl.String},
        orient="row",
    )
    sums = calls.group_by("shape", "step", maintain_order=True).agg(
        pl.len().cast(pl.Int64).alias("num_calls"), pl.col("busy_ns").sum()
    )
    named = sums.join(names, on="shape", maintain_order="left")
    key = ("operator", "shapes", "dtype", "step")
    return named.group_by(key, maintain_order=True).agg(pl.col("num_calls", "busy_ns").sum()).cast(STEP_SHAPES)  # type: ignore[arg-type]


def shape_table(
    sums: pl.DataFrame, rated: Sequence[LeastTime], launches: Launches, why: Mapping[int, str], total_ns: int
) -> pl.DataFrame:
    """A frame of `ShapeRow`, most device time first.

    sums: of `sums_of_shapes`. launches: of `launches_of`. why: shape -> a sentence. total_ns: of all device events.
    """
    rows = [
        {
            **_shape_row(rated[each["shape"]], each, total_ns),
            **_launch_fields(rated[each["shape"]], launches.get(each["shape"], {})),
            "why": why.get(each["shape"], ""),
        }
        for each in sums.to_dicts()
    ]
    order = ("total_ns", "operator", "shapes")
    return frame_of(ShapeRow, rows).sort(order, descending=[True, False, False], maintain_order=True)


def _shape_row(of: LeastTime, sums: Mapping[str, Any], whole: int) -> dict[str, Any]:
    cost, calls, busy = of.cost, sums["num_calls"], sums["busy_ns"]
    bytes_per_s = _rate(calls * cost.moved_bytes, busy) if of.shape.cost is not None and cost.moved_bytes else None
    peak_note = of.peak.note if of.peak else ""
    note = " ".join(filter(None, (cost.note, peak_note))) if of.shape.cost is not None else "recorded without shapes"
    if cost.status is Status.UNKNOWN and bytes_per_s and bytes_per_s > _FASTEST:
        bytes_per_s, note = None, "no formula; its inputs hold more than it can have read"
    return {
        "operator": of.shape.operator,
        "shapes": of.shape.sizes,
        "dtype": cost.dtype,
        "computes_in": of.kernel.dtype,
        "tensor_cores": of.kernel.tensor_cores,
        "kind": cost.kind,
        "num_calls": calls,
        "total_ns": sums["total_ns"],
        "busy_ns": busy,
        "memset_ns": sums["memset_ns"],
        "share": sums["total_ns"] / max(whole, 1),
        "flops": calls * cost.flops,
        "executed_flops": calls * cost.executed_flops,
        "vector_flops": calls * cost.vector_flops,
        "read_bytes": calls * cost.read_bytes,
        "written_bytes": calls * cost.written_bytes,
        "flops_per_s": _rate(calls * cost.flops, busy) if cost.flops else None,
        "bytes_per_s": bytes_per_s,
        "intensity": (cost.executed_flops + cost.vector_flops) / cost.moved_bytes if cost.moved_bytes else None,
        "peak": of.peak.dtype if of.peak else None,
        "peak_share": _share(calls * of.peak_ns, busy) if of.peak else None,
        "roofline_share": _share(calls * of.bound_ns, busy) if of.bound else None,
        "bound": of.bound,
        "best_flops_per_s": _rate(cost.flops, sums["best_ns"]) if cost.flops else None,
        "status": cost.status,
        "note": note,
    }


def _launch_fields(of: LeastTime, launch: Mapping[str, Any]) -> dict[str, Any]:
    names = ("num_waves", "last_wave_empty_share", "occupancy")
    name = of.kernel.name
    kernel = name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"
    return {"kernel": kernel, "tile": of.kernel.tile, **{name: launch.get(name) for name in names}}


def operator_table(shapes: pl.DataFrame) -> pl.DataFrame:
    """A frame of `OperatorRateRow`, most device time first."""
    sums = ("num_calls", "total_ns", "busy_ns", "share", "flops", "executed_flops", "vector_flops")
    rates = pl.col("busy_ns").filter(pl.col("peak_share").is_not_null()).sum()
    roofs = pl.col("busy_ns").filter(pl.col("roofline_share").is_not_null()).sum()
    table = shapes.group_by("operator").agg(
        pl.len().cast(pl.Int64).alias("num_shapes"),
        pl.col(sums).sum(),
        (pl.col("read_bytes") + pl.col("written_bytes")).sum().alias("moved_bytes"),
        _when(rates > 0, (pl.col("peak_share") * pl.col("busy_ns")).sum() / rates).alias("peak_share"),
        _when(roofs > 0, (pl.col("roofline_share") * pl.col("busy_ns")).sum() / roofs).alias("roofline_share"),
    )
    busy = pl.col("busy_ns")
    table = table.with_columns(
        pl.col("share").clip(0, 1),
        _when((pl.col("flops") > 0) & (busy > 0), pl.col("flops") / busy * S).alias("flops_per_s"),
        _when((pl.col("moved_bytes") > 0) & (busy > 0), pl.col("moved_bytes") / busy * S).alias("bytes_per_s"),
    )
    table = table.sort("total_ns", "operator", descending=[True, False])
    return table.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(OperatorRateRow).items())


def _when(condition: pl.Expr, value: pl.Expr) -> pl.Expr:
    return pl.when(condition).then(value)


def _rate(amount: float, ns: int) -> float | None:
    return amount / ns * S if ns else None


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
