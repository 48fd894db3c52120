"""What does each recorded call cost? Calls that were recorded alike are asked for once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.efficiency.counted_calls import in_masked_attention
from weftrace.analysis.efficiency.sizes import sizes_text
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.costs.custom_ops import CustomOp
from weftrace.costs.recorded import RecordedCall, cost_of

#: Columns of a trace that say how an operator was called.
SIGNATURE = ("name", "input_shapes", "input_types", "input_strides", "input_values")

_FLOATS = {"float": "float32", "c10::BFloat16": "bfloat16", "c10::Half": "float16", "double": "float64"}

#: Bytes and FLOPs of one call from which on its shapes cannot be right: no device holds a pebibyte.
_MOST_BYTES, _MOST_FLOPS = 1 << 50, 1 << 60
_ALL_PAIRS = "all pairs: a product of masked attention that torch took apart; its mask was not read"
_STATED = "FLOPs as torch.compile states them of the kernel; bytes of each tensor once"
_UNBELIEVABLE = "its recorded shapes are larger than any device: not counted"


@dataclass(frozen=True, slots=True)
class Shape:
    """One row of the table of shapes: an operator, the sizes of its tensors as text, what a call costs.

    cost: None where its shapes were not recorded.
    """

    operator: str
    sizes: str
    cost: Cost | None


def shapes_of_calls(
    events: pl.DataFrame, call: pl.Series, custom: tuple[CustomOp, ...] | None = None
) -> tuple[list[Shape], NDArray[np.int64]]:
    """The different shapes among some calls, and for each call the index of its own; -1 where call is null.

    events: a trace's events. call: rows of operators in it, or null. custom: rules of other libraries' operators.
    """
    calls = events.select(*SIGNATURE, "stated_flops")[call.fill_null(0).cast(pl.UInt32)].with_columns(
        call.alias("call")
    )
    calls = calls.with_columns(in_masked_attention(events, call).alias("masked"))
    known = calls.with_row_index("at").filter(pl.col("call").is_not_null())
    alike = known.group_by(*SIGNATURE, "stated_flops", "masked", maintain_order=True).agg("at")
    dtype = _usual_dtype(alike)
    number: dict[Shape, int] = {}
    of_signature = []
    for *row, stated, masked in alike.select(pl.col(SIGNATURE).cast(pl.String), "stated_flops", "masked").iter_rows():
        call_cost = (_known_cost if custom is None else cost_of)(RecordedCall(*row), dtype, custom)
        cost = _believable(_as_stated(call_cost, stated))
        if masked and cost is not None and cost.kind is Kind.MATMUL:
            cost = replace(cost, status=Status.UPPER_BOUND, note=_ALL_PAIRS)
        shape = Shape(row[0], sizes_text(row[1]), cost)
        of_signature.append(number.setdefault(shape, len(number)))
    index = np.full(len(call), -1, np.int64)
    lengths = alike.get_column("at").list.len().to_numpy()
    index[alike.get_column("at").explode().to_numpy()] = np.repeat(np.array(of_signature, np.int64), lengths)
    return list(number), index


@lru_cache(maxsize=1 << 14)  # ranks of a job make the same calls
def _known_cost(call: RecordedCall, dtype: str, custom: None) -> Cost | None:
    return cost_of(call, dtype, custom)


def _usual_dtype(alike: pl.DataFrame) -> str:
    """torch's name of the floating-point dtype that most calls have among their tensors: lists of tensors, whose dtype
    no trace records, are taken to be of it."""
    types = alike.select(pl.col("input_types").cast(pl.String), pl.col("at").list.len().alias("calls"))
    sums = types.drop_nulls().group_by("input_types").agg(pl.col("calls").sum())
    counts = {
        dtype: int(sums.filter(pl.col("input_types").str.contains(f'"{name}"', literal=True)).get_column("calls").sum())
        for name, dtype in _FLOATS.items()
    }
    return max(counts, key=lambda dtype: counts[dtype])


def _as_stated(cost: Cost | None, stated_flops: int | None) -> Cost | None:
    """The cost of a kernel of torch.compile with the FLOPs that it states, where its shapes do not tell them."""
    if not stated_flops or (cost is not None and cost.status is Status.EXACT):
        return cost
    return replace(
        cost or Cost(), flops=stated_flops, full_flops=stated_flops, executed_flops=stated_flops,
        kind=Kind.MATMUL, status=Status.ESTIMATE, note=_STATED,
    )  # fmt: skip


def _believable(cost: Cost | None) -> Cost | None:
    if cost is None:
        return None
    flops = max(cost.flops, cost.full_flops, cost.executed_flops, cost.vector_flops)
    if min(cost.read_bytes, cost.written_bytes, flops) < 0 or cost.moved_bytes > _MOST_BYTES or flops > _MOST_FLOPS:
        return Cost(kind=Kind.UNKNOWN, status=Status.UNKNOWN, note=_UNBELIEVABLE)
    return cost
