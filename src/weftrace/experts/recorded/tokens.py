"""Token-level routing, Parquet: which experts each token chose, counted into loads.

FLAME-MoE's traces are `iter_5473/layer_02.parquet`: a row is a token, its column `indices` the list of chosen experts;
row i is the same token in every layer. One file a layer and iteration; or one file with columns layer and step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from weftrace.errors import LoadsError, TraceTooLarge
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.recorded.files import RecordedFile
from weftrace.experts.recorded.steps import Steps, scattered
from weftrace.experts.recorded.tables import table_steps
from weftrace.files.apart import Apart, ApartError
from weftrace.files.parquet import BROKEN, decoded, scanned

_CHOICES = ("indices", "topk_ids", "topk_indices", "topk_idx", "expert_ids", "expert_indices", "experts")
_LAYER_IN_NAME = re.compile(r"layers?[_.=-]?(\d+)", re.IGNORECASE)
_STEP_IN_NAME = re.compile(r"(?:iter|iteration|step|window)[_.=-]?(\d+)", re.IGNORECASE)


def parquet_steps(
    files: Sequence[RecordedFile], num_experts: int | None, tokens_per_window: int | None, *, max_bytes: int
) -> Steps | list[Steps]:
    """The loads of Parquet files: one `Steps` of all files of tokens, or one of each file where they are tables.

    tokens_per_window: rows that make a window, of each iteration; None makes a window of an iteration's every token.
    num_experts: N; None takes the highest that any token chose, plus 1, so that unused last experts would be missed.
    max_bytes: limit on the rows of a file in memory. Another process reads them, which a broken file may end.
    """
    parts: list[pl.DataFrame] = []
    tables: list[Steps] = []
    left_over = 0
    with Apart(max_bytes) as apart:
        for file in files:
            try:
                rows, cut = apart(_read, file, tokens_per_window, max_bytes, num_bytes=len(file.data))
                if cut is None:
                    tables.append(table_steps(rows, file.path, num_experts))
                    continue
            except (*BROKEN, ApartError) as error:
                what = (str(error).splitlines() or [type(error).__name__])[0]
                raise LoadsError(f"{file.path}: not a readable Parquet file: {what}") from error
            except TraceTooLarge as error:
                raise LoadsError(f"{file.path}: {error}") from error
            parts.append(rows)
            left_over += cut
    if tables and parts:
        raise LoadsError(f"{files[0].path}: files of tokens and of tables are mixed; give one kind at a time")
    return tables if tables else _joined(parts, num_experts, left_over, files[0].path)


def _read(file: RecordedFile, tokens_per_window: int | None, max_bytes: int) -> tuple[pl.DataFrame, int | None]:
    """What `_counted` gives of a file of tokens; the rows of another, and None."""
    tokens = scanned(file.data, max_bytes)
    schema = tokens.collect_schema()
    if (choice := _choice(schema)) is None:
        return decoded(file.data, max_bytes)[0], None
    return _counted(tokens, file.path, schema, choice, tokens_per_window)


def _choice(schema: Mapping[str, pl.DataType]) -> str | None:
    """The column with the chosen experts: a list of whole numbers, under a known name or alone of its kind."""
    lists = [
        name
        for name, dtype in schema.items()
        if isinstance(dtype, pl.List | pl.Array) and dtype.inner is not None and dtype.inner.is_integer()
    ]
    return next((name for name in _CHOICES if name in lists), lists[0] if len(lists) == 1 else None)


def _counted(
    tokens: pl.LazyFrame, path: str, schema: Mapping[str, pl.DataType], choice: str, tokens_per_window: int | None
) -> tuple[pl.DataFrame, int]:
    """Rows (step, window, layer, expert, count) of one file, and tokens that fill no window."""
    layer, step = _LAYER_IN_NAME.findall(path), _STEP_IN_NAME.findall(path)
    if "layer" not in schema and not layer:
        raise LoadsError(f"{path}: names no layer: rename it to layer_<n>.parquet, or add a column layer")
    layer_of = pl.col("layer").cast(pl.Int64) if "layer" in schema else pl.lit(int(layer[-1]), pl.Int64)
    step_of = pl.col("step").cast(pl.Int64) if "step" in schema else pl.lit(int(step[-1]) if step else 0, pl.Int64)
    tokens = tokens.select(expert=pl.col(choice).cast(pl.List(pl.Int64)), layer=layer_of, step=step_of).with_columns(
        window=pl.lit(0, pl.Int64)
    )
    cut = 0
    if tokens_per_window is not None:
        row = pl.int_range(pl.len(), dtype=pl.Int64).over("step", "layer")
        window, full = row // tokens_per_window, pl.len().over("step", "layer") // tokens_per_window
        tokens = tokens.with_columns(window=window, full=full.cast(pl.Int64))
        cut = int(tokens.select((pl.col("window") >= pl.col("full")).sum()).collect().item())
        tokens = tokens.filter(pl.col("window") < pl.col("full")).drop("full")
    counts = tokens.explode("expert").drop_nulls().group_by("step", "window", "layer", "expert").len("count").collect()
    return counts, cut


def _joined(parts: list[pl.DataFrame], num_experts: int | None, left_over: int, path: str) -> Steps:
    rows = pl.concat(parts).sort("step", "window", "layer", "expert")
    if not len(rows):
        raise LoadsError(f"{path}: no window is full: there are fewer tokens than tokens_per_window")
    window_K = _ints(rows["window"])
    step_K = np.unique(_ints(rows["step"]), return_inverse=True)[1] * (window_K.max() + 1) + window_K
    counts: Floats = rows["count"].to_numpy().astype(np.float64)
    load_TLN, layers = scattered(step_K, _ints(rows["layer"]), _ints(rows["expert"]), counts, num_experts, path)
    total_TL = load_TLN.sum(axis=2)
    if (total_TL == 0).any():
        step, layer = (int(i) for i in np.argwhere(total_TL == 0)[0])
        raise LoadsError(f"{path}: window {step} has no token of layer {layers[layer]}; is a file missing?")
    notes = [f"{left_over} token rows at the ends of iterations fill no window and are left out"] if left_over else []
    if num_experts is None:
        notes.append(f"{load_TLN.shape[2]} experts were chosen at least once; say num_experts if there are more")
    return Steps(format="tokens", load_TLN=load_TLN, layers=layers, notes=tuple(notes))


def _ints(column: pl.Series) -> Ints:
    return column.to_numpy().astype(np.int64)
