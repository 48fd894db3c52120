"""Which kernel does most of a shape's work, and what does its name tell of how it computes?"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from weftrace.analysis.efficiency.precision import kernel_precision
from weftrace.trace.work import in_lane

_CROSSING = ("memcpy_h2d", "memcpy_d2h")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeKernel:
    """The kernel that took most of a shape's device time.

    row: of its longest event in the trace's events. dtype, tensor_cores, sparse, split_k, architecture: as
    `KernelPrecision` has them. to_host: whether most of the shape's time is copies between host and device.
    """

    name: str = ""
    row: int | None = None
    dtype: str | None = None
    tensor_cores: bool | None = None
    sparse: bool = False
    split_k: bool = False
    architecture: str | None = None
    to_host: bool = False


NO_KERNEL = ShapeKernel()


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
    told = kernels.with_columns(pl.col("name").cast(pl.String)).hstack(kernel_precision(kernels["name"]).drop("name"))
    table = sums.join(told, on="shape", how="left")
    return {
        each["shape"]: ShapeKernel(
            name=each["name"] or "",
            row=each["row"],
            dtype=each["dtype"],
            tensor_cores=each["tensor_cores"],
            sparse=bool(each["sparse"]),
            split_k=bool(each["split_k"]),
            architecture=each["architecture"],
            to_host=each["to_host"],
        )
        for each in table.to_dicts()
    }
