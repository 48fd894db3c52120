"""How many routed rows did the experts of each layer get? From shapes of grouped GEMMs, else from launch grids.

A kernel that takes a block for each row, or for each few, is launched with a grid that follows the rows. A phase's
rows are those of the largest grid among the kernels whose grids stay in one proportion while they differ from layer to
layer; where grids of two phases stay in one proportion too, the larger counts for both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.moe.calibration.kernels import SAMPLE_KEY, samples_of
from weftrace.trace.work import Work

#: Grids that differ by less than this part stay in proportion: small ones are rounded up to whole blocks.
_ALIKE = 2e-3
_GROUPED = r"grouped_mm|grouped_gemm"
_LEAST_TOKENS = 64  # a smaller grid tells no tokens

_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rows:
    """The routed rows of a trace.

    table: a row a phase and sample, with `rows`; phases whose grids stay the same from layer to layer are not in it.
    grids: phase, name and slot of the kernels whose grids follow the rows. tokens: of a micro-batch, None where nothing
    tells. notes: how they were found.
    """

    table: pl.DataFrame
    grids: pl.DataFrame
    tokens: int | None
    notes: tuple[str, ...] = ()


def rows_of(kernels: pl.DataFrame, *, shaped: pl.DataFrame | None = None, tokens: int | None = None) -> Rows:
    """The routed rows of each layer.

    kernels: whose grids tell them. shaped: a row a phase and sample with `rows`, where shapes of operators tell them
    (`rows_in_shapes`), which count before grids. tokens: of a micro-batch, where known; else the commonest grid.
    """
    launched = kernels.filter(~pl.col("persistent"), pl.col("num_blocks") > 0)
    varying = (
        launched.group_by("phase", "name", "slot", maintain_order=True)
        .agg(pl.col("num_blocks").n_unique().alias("sizes"), pl.len().alias("samples"))
        .filter(pl.col("sizes") > 1)
    )
    found = {}
    for (phase,), part in launched.join(varying, on=["phase", "name", "slot"], how="semi").group_by(
        "phase", maintain_order=True
    ):
        if (summary := _of_phase(part)) is not None:
            found[str(phase)] = summary
    if shaped is not None and not shaped.is_empty():
        found = {str(phase): part for (phase,), part in shaped.group_by("phase", maintain_order=True)}
        notes = [f"routed rows of {', '.join(found)}: shapes of the grouped GEMMs"]
    elif found:
        blocks = "blocks of the kernels with grids that follow them, one per row, with the padding of experts' matrices"
        notes = [f"routed rows of {', '.join(found)}: {blocks}"]
    else:
        notes = ["no launch grid follows the routed rows: they are not known, or the same in every layer"]
    same = launched.join(varying, on=["phase", "name", "slot"], how="anti")
    if tokens is None and (tokens := _commonest_grid(same)):
        notes.append(f"assumed: {tokens:,} tokens per micro-batch, the most common launch grid")
    return Rows(
        table=_with_larger_unit(found), grids=varying.select("phase", "name", "slot"), tokens=tokens, notes=tuple(notes)
    )


def rows_in_shapes(work: Work) -> pl.DataFrame:
    """A row a phase and sample whose operators recorded the shapes of grouped GEMMs, `[[rows, k], [experts, k, n]]`."""
    recorded = pl.col("input_shapes").is_not_null() & pl.col("name").cast(pl.String).str.contains(_GROUPED)
    ops = work.trace.events.filter(pl.col("cat") == "cpu_op", recorded).select(
        "pid", "tid", pl.col("ts_ns").alias("host_start_ns"), pl.col("input_shapes").cast(pl.String).alias("shapes")
    )
    rows = ops.get_column("shapes").map_elements(_first_of_grouped, return_dtype=pl.Float64)
    ops = ops.with_columns(rows.alias("rows")).drop_nulls("rows").sort("host_start_ns")
    ranges = work.phases.select("pid", "tid", "host_start_ns", "host_end_ns", pl.col("phase").alias("number"))
    # Both are sorted, by time alone: polars cannot check that within `by`.
    begun = ops.join_asof(ranges.sort("host_start_ns"), on="host_start_ns", by=["pid", "tid"], check_sortedness=False)
    inside = begun.filter(pl.col("host_start_ns") < pl.col("host_end_ns"))
    samples = inside.join(samples_of(work), on="number", how="inner")
    return samples.group_by(SAMPLE_KEY, maintain_order=True).agg(pl.max("rows"))


def _first_of_grouped(shapes: str) -> float | None:
    """Rows of a grouped GEMM's operand: of [rows, k] by [experts, k, n]."""
    try:
        first, second = json.loads(shapes)[:2]
    except ValueError:
        return None
    return float(first[0]) if len(first) == 2 and len(second) == 3 else None


def _of_phase(part: pl.DataFrame) -> pl.DataFrame | None:
    """The samples of a phase with the grid that stands for its rows; of kernels that every sample has."""
    samples = part.select(SAMPLE_KEY).unique(maintain_order=True).with_row_index("at")
    grids = part.join(samples, on=SAMPLE_KEY, nulls_equal=True).group_by("name", "slot", maintain_order=True)
    whole = [
        each.sort("at").get_column("num_blocks").to_numpy().astype(np.float64)
        for _, each in grids
        if each.height == samples.height
    ]
    if not whole:
        return None
    blocks = np.stack(whole)
    shape = blocks / blocks.mean(axis=1, keepdims=True)
    _, family, sizes = np.unique(np.rint(shape / _ALIKE), axis=0, return_inverse=True, return_counts=True)
    alike = sizes[family.ravel()]
    most = np.flatnonzero(alike == alike.max())
    chosen = most[np.argmax(blocks[most].mean(axis=1))]
    return samples.drop("at").with_columns(rows=pl.Series(blocks[chosen]))


def _with_larger_unit(found: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """The phases' rows one below the other, those that stay in one proportion in the unit of the largest."""
    tables = [table.sort(*SAMPLE_KEY[1:]) for table in found.values()]
    for number, table in enumerate(tables):
        own = table.get_column("rows").to_numpy()
        largest = max((other for other in tables if _in_proportion(table, other)), key=_total)
        tables[number] = table.with_columns(rows=pl.Series(own * (_total(largest) / own.sum())))
    schema = {"phase": pl.String(), "micro_batch": pl.Int32(), "step": pl.Int64(), "layer": pl.Int32()}
    return pl.concat(tables) if tables else pl.DataFrame(schema={**schema, "rows": pl.Float64()})


def _total(table: pl.DataFrame) -> float:
    return float(table.get_column("rows").sum())


def _in_proportion(one: pl.DataFrame, other: pl.DataFrame) -> bool:
    """Whether both have the same samples, and rows that differ by a factor alone."""
    if one.height != other.height or not one.select(SAMPLE_KEY[1:]).equals(other.select(SAMPLE_KEY[1:])):
        return False
    shapes: Iterable[_Floats] = (t.get_column("rows").to_numpy() / (_total(t) / t.height) for t in (one, other))
    first, second = shapes
    return bool(np.abs(first - second).max() < _ALIKE)


def _commonest_grid(launched: pl.DataFrame) -> int | None:
    """The grid that most kernels have, of those of some size; None where none has a tenth of them."""
    large = launched.filter(pl.col("num_blocks") >= _LEAST_TOKENS)
    counts = large.group_by("num_blocks").len().sort("len", "num_blocks", descending=True)
    if counts.is_empty() or 10 * counts.item(0, "len") < large.height:
        return None
    return int(counts.item(0, "num_blocks"))
