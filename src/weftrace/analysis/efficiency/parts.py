"""What is known of the device's time? FLOPs, bytes alone, no shapes, or not even an operator. All of it adds up."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weftrace.analysis.efficiency.costs_of_calls import Shape
from weftrace.analysis.efficiency.values import PARTS, PartRow
from weftrace.costs.cost import Cost, Kind, Status
from weftrace.files.columns import frame_schema

_WITHOUT_SHAPES = "recorded without shapes"
_GRAPH = "graph replay: no operator is recorded in it"
_BEFORE = "its launch is not in the file"
_OUTSIDE = "launched outside of every operator"
_COPY = "copy or set of memory: bytes are its measure"
_COLLECTIVE = "collective: see its bandwidth"


def parts_of(events: pl.DataFrame, shapes: Sequence[Shape]) -> pl.DataFrame:
    """A frame of `PartRow`, in the order of `PARTS`, most time first; total_ns add up to all durations.

    events: device events with dur_ns, kind, moved_bytes, payload_elems, link, is_graph, shape (index into shapes or -1)
    and call.
    """
    words = [_of_shape(shape.cost) for shape in shapes] + [("", "")]
    shape = events.get_column("shape")
    at = shape.set(shape < 0, len(shapes))
    of_shape = {
        name: pl.Series([word[of] for word in words], dtype=pl.String).gather(at)
        for of, name in enumerate(("shape_part", "shape_reason"))
    }
    copies = (pl.col("kind") == "memory") & pl.col("moved_bytes").is_not_null()
    collective = (pl.col("kind") == "communication") & pl.col("payload_elems").is_not_null()
    known = pl.col("shape_part").is_in(("flops", "bytes"))
    rows = events.select("dur_ns", "kind", "moved_bytes", "payload_elems", "link", "is_graph", "call").with_columns(
        **of_shape
    )
    operator = pl.col("call").is_not_null()
    part = (
        pl.when(known).then("shape_part")
        .when(copies | collective).then(pl.lit("bytes"))
        .when(operator).then(pl.lit("no shapes"))
        .otherwise(pl.lit("no operator"))
    )  # fmt: skip
    reason = (
        pl.when(known).then("shape_reason")
        .when(copies).then(pl.lit(_COPY))
        .when(collective).then(pl.lit(_COLLECTIVE))
        .when(operator).then(pl.col("shape_reason").replace("", _WITHOUT_SHAPES))
        .when(pl.col("is_graph")).then(pl.lit(_GRAPH))
        .when(pl.col("link").is_null()).then(pl.lit(_BEFORE))
        .otherwise(pl.lit(_OUTSIDE))
    )  # fmt: skip
    table = rows.group_by(part.alias("part"), reason.alias("reason")).agg(
        pl.len().cast(pl.Int64).alias("num_events"), pl.col("dur_ns").sum().alias("total_ns")
    )
    order = pl.col("part").replace_strict({name: at for at, name in enumerate(PARTS)}, return_dtype=pl.Int64)
    whole = max(1, int(table.get_column("total_ns").sum()))
    table = table.sort(order, "total_ns", "reason", descending=[False, True, False])
    return table.with_columns((pl.col("total_ns") / whole).alias("share")).select(list(frame_schema(PartRow)))


def _of_shape(cost: Cost | None) -> tuple[str, str]:
    """(part, reason) of the calls of one shape."""
    if cost is None:
        return "no shapes", _WITHOUT_SHAPES
    if cost.flops or cost.executed_flops:
        return "flops", ""
    if cost.status is Status.UNKNOWN:
        if not cost.moved_bytes:
            return "no shapes", cost.note or _WITHOUT_SHAPES
        why = cost.note or "bytes of its inputs alone"
        return "bytes", why if why.startswith("no formula") else f"no formula: {why}"
    if cost.kind is Kind.COMM:
        return "bytes", _COLLECTIVE
    return "bytes", "moves data" if cost.kind is Kind.MOVE else "no matrix product: bytes are its measure"
