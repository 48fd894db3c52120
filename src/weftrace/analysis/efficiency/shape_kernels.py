"""Which kernel does most of a shape's work, and what does its name tell of how it computes?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from weftrace.analysis.efficiency.costs_of_calls import Shape
from weftrace.analysis.efficiency.precision import kernel_precision
from weftrace.trace.work import in_lane

_CROSSING = ("memcpy_h2d", "memcpy_d2h")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeKernel:
    """The kernel that took most of a shape's device time.

    row: of its longest event in the trace's events. tile: "128x256x64", what a block computes at a time, or None.
    dtype, tensor_cores, sparse, split_k, architecture: as `KernelPrecision` has them. to_host: whether most of the
    shape's time is copies between host and device.
    """

    name: str = ""
    row: int | None = None
    tile: str | None = None
    dtype: str | None = None
    tensor_cores: bool | None = None
    sparse: bool = False
    split_k: bool = False
    architecture: str | None = None
    to_host: bool = False


NO_KERNEL = ShapeKernel()


def by_precision(events: pl.DataFrame, shapes: Sequence[Shape]) -> tuple[pl.DataFrame, list[Shape]]:
    """The events and shapes where products of one shape that computed in other dtypes, or on other units, are apart.

    events: with shape (index into shapes, or -1), call, name, kind, dur_ns.
    """
    if "family" not in events.columns:  # operators of a host
        return events, list(shapes)
    products = [at for at, shape in enumerate(shapes) if shape.cost is not None and shape.cost.executed_flops]
    told = kernel_precision(events.get_column("name")).select(computes_in="dtype", on_cores="tensor_cores")
    mine = events.select("call", "shape", "kind", "dur_ns").hstack(told).filter(pl.col("shape").is_in(products))
    longest = mine.filter(in_lane("compute")).sort("dur_ns", descending=True, maintain_order=True)
    of_call = longest.unique("call", keep="first", maintain_order=True).select("call", "computes_in", "on_cores")
    keyed = events.join(of_call, on="call", how="left", maintain_order="left")
    key = ["shape", "computes_in", "on_cores"]
    apart = keyed.select(key).filter(pl.col("shape") >= 0).unique(maintain_order=True).sort("shape")
    apart = apart.with_row_index("variant").with_columns(pl.col("variant").cast(pl.Int64))
    keyed = keyed.join(apart, on=key, how="left", nulls_equal=True, maintain_order="left")
    variant = pl.col("variant").fill_null(-1).alias("shape")
    return keyed.select(*(name for name in events.columns if name != "shape"), variant), [
        shapes[at] for at in apart.get_column("shape").to_list()
    ]


def shape_kernels(events: pl.DataFrame) -> dict[int, ShapeKernel]:
    """Shape -> its main kernel, of events with shape, name, kind, family, row and dur_ns; no kernel, no entry."""
    if "family" not in events.columns:  # operators of a host
        return {}
    mine = events.filter(pl.col("shape") >= 0)
    crossing = pl.col("dur_ns").filter(pl.col("family").cast(pl.String).is_in(_CROSSING)).sum()
    sums = mine.group_by("shape").agg((crossing * 2 > pl.col("dur_ns").sum()).alias("to_host"))
    kernels = (
        mine.filter(in_lane("compute"))
        .sort("dur_ns", descending=True, maintain_order=True)
        .group_by("shape", "name", maintain_order=True)
        .agg(pl.col("row").first(), pl.col("dur_ns").sum())
        .sort("dur_ns", descending=True, maintain_order=True)
        .unique("shape", keep="first", maintain_order=True)
    )
    told = kernel_precision(events.get_column("name")).unique("name")  # of all names, as they were asked for before
    kernels = kernels.with_columns(pl.col("name").cast(pl.String)).join(told, on="name", how="left")
    table = sums.join(kernels, on="shape", how="left")
    return {
        each["shape"]: ShapeKernel(
            name=each["name"] or "",
            row=each["row"],
            tile="x".join(str(side) for name in "mnk" if (side := each[f"tile_{name}"]) is not None) or None,
            dtype=each["dtype"],
            tensor_cores=each["tensor_cores"],
            sparse=bool(each["sparse"]),
            split_k=bool(each["split_k"]),
            architecture=each["architecture"],
            to_host=each["to_host"],
        )
        for each in table.to_dicts()
    }
