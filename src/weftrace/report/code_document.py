"""Time by module or by function as JSON values: the tree in a bounded number of nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from weftrace.analysis.module_times import CodeTimes
from weftrace.report.document_types import CodeDocument

#: Nodes of a tree that a document holds: those with most time. Of the trees of a job, fewer.
MOST_NODES = 5_000
#: What roots that are left out are called together. Their busy and exposed times are sums, at most too long.
SMALLER = "(smaller ones)"


def code_document(times: CodeTimes, most: int = MOST_NODES) -> CodeDocument:
    """What `CodeTimes` tells, in at most so many nodes."""
    return {
        "told_by": times.told_by,
        "num_nodes": times.nodes.height,
        "nodes": _rows(_largest(times.nodes, most)),
        "folded": _rows(_largest(times.folded, most) if times.by == "module" else times.folded),
        "outside": _rows(times.outside)[0],
        "graph_ns": times.graph_ns,
    }


def _largest(nodes: pl.DataFrame, most: int) -> pl.DataFrame:
    """The nodes with most time, in their order; time of the others is own time of the one above that remains. Roots of
    which none remains stand together in one more, SMALLER, the last."""
    if nodes.height <= most:
        return nodes
    total = nodes.get_column("total_ns").to_numpy()
    kept = np.sort(np.argsort(-total, kind="stable")[:most])  # a node has no more than its parent, and comes after it
    place = np.full(nodes.height, -1, np.int64)
    place[kept] = np.arange(most)
    parent = nodes.get_column("parent").to_numpy()[kept]
    above = np.where(parent >= 0, place[np.maximum(parent, 0)], -1)
    below = np.zeros(most, np.int64)
    np.add.at(below, above[above >= 0], total[kept][above >= 0])
    rows = nodes[kept].with_columns(pl.Series("parent", above), pl.Series("self_ns", total[kept] - below))
    small = nodes.filter(pl.col("parent") < 0, ~pl.int_range(pl.len()).is_in(kept.tolist()))
    if small.is_empty():
        return rows
    sums = small.select(pl.col(pl.Int64).sum()).with_columns(
        pl.lit(SMALLER).alias("name"), pl.lit(-1, pl.Int64).alias("parent"), pl.col("total_ns").alias("self_ns"),
        pl.lit(None, pl.Float64).alias("flops_per_s"),
    )  # fmt: skip
    return pl.concat([rows, sums.select(rows.columns)])


def _rows(nodes: pl.DataFrame) -> Any:
    parent = pl.when(pl.col("parent") >= 0).then(pl.col("parent")).alias("parent")
    return nodes.with_columns(parent).to_dicts()
