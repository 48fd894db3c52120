"""Loads as a table, CSV or Parquet.

Long: a row has a layer, an expert and a count, and perhaps a step (`step,layer,expert,count`, and SGLang's
`layer_id,expert_id,count`); what is not named is 0. Wide: a row is a layer, a column an expert, with or without a
header; columns named step and layer say which.
"""

from __future__ import annotations

import io

import numpy as np
import polars as pl

from weftrace.errors import LoadsError
from weftrace.experts.arrays import Floats, Ints
from weftrace.experts.recorded.steps import Steps, numbered, refuse_size, scattered

_NAMES = {
    "step": ("step", "iteration", "iter", "window", "forward_pass_id", "time"),
    "layer": ("layer", "layer_id", "layer_idx"),
    "expert": ("expert", "expert_id", "expert_idx", "logical_expert"),
    "count": ("count", "counts", "load", "tokens", "num_tokens"),
}


def csv_steps(data: bytes, path: str, num_experts: int | None) -> Steps:
    """The loads of a CSV file; commas, semicolons or tabs. Raises `LoadsError`, naming the file."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    first = data.lstrip().split(b"\n", 1)[0]
    separator = max((",", "\t", ";"), key=lambda mark: first.count(mark.encode()))
    has_header = not all(_is_number(cell) for cell in first.split(separator.encode()))
    try:
        table = pl.read_csv(
            io.BytesIO(data.lstrip()), separator=separator, has_header=has_header, infer_schema_length=None
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        what = (str(error).splitlines() or [type(error).__name__])[0]
        raise LoadsError(f"{path}: not a readable CSV table: {what}") from error
    return table_steps(table, path, num_experts)


def table_steps(table: pl.DataFrame, path: str, num_experts: int | None) -> Steps:
    """The loads of a long or a wide table. Raises `LoadsError` where it is neither, or a value is missing."""
    table = table.rename({name: name.strip().lower() for name in table.columns})
    column = {role: next((name for name in names if name in table.columns), None) for role, names in _NAMES.items()}
    if not len(table):
        raise LoadsError(f"{path}: a table without a row holds no loads")
    for name in table.columns:
        if table[name].null_count():
            row = int(table[name].is_null().arg_max() or 0)
            raise LoadsError(f"{path}: row {row} of the table has no value for {name!r}")
        if not table[name].dtype.is_numeric():
            raise LoadsError(
                f"{path}: column {name!r} is {table[name].dtype}, not numbers; give step, layer, expert and count, "
                "or a row for each layer and a column for each expert"
            )
    step, layer, expert, count = (column[role] for role in ("step", "layer", "expert", "count"))
    step_K = np.zeros(len(table), dtype=np.int64) if step is None else _whole(table, step, path)
    if layer is None or expert is None or count is None:
        return _wide(table, step, layer, step_K, path)
    load_TLN, layers = scattered(
        step_K,
        _whole(table, layer, path),
        _whole(table, expert, path),
        table[count].cast(pl.Float64).to_numpy(),
        num_experts,
        path,
    )
    return Steps(format="table", load_TLN=load_TLN, layers=layers)


def _wide(table: pl.DataFrame, step: str | None, layer: str | None, step_K: Ints, path: str) -> Steps:
    experts = [name for name in table.columns if name not in (step, layer)]
    load_KN: Floats = table.select(pl.col(experts).cast(pl.Float64)).to_numpy().astype(np.float64)
    steps = np.unique(step_K)
    num_layers = len(table) // max(len(steps), 1)
    refuse_size((len(steps), num_layers, len(experts)), path)
    layer_K = _whole(table, layer, path) if layer is not None else _position_in_step(step_K)
    order = np.lexsort((layer_K, step_K))
    layers = np.unique(layer_K)
    is_full = len(layers) * len(steps) == len(table)
    if not is_full or (layer_K[order].reshape(len(steps), -1) != layers).any():
        raise LoadsError(
            f"{path}: {len(table)} rows for {len(steps)} steps of {len(layers)} layers; "
            "each step needs one row for each layer"
        )
    load_TLN = load_KN[order].reshape(len(steps), len(layers), len(experts))
    if layer is None:
        return numbered("table", load_TLN)
    return Steps(format="table", load_TLN=load_TLN, layers=tuple(int(number) for number in layers))


def _position_in_step(step_K: Ints) -> Ints:
    """How many rows of the same step come before each row."""
    order = np.argsort(step_K, kind="stable")
    _, start, length = np.unique(step_K[order], return_index=True, return_counts=True)
    position_K = np.empty_like(step_K)
    position_K[order] = np.arange(len(step_K)) - np.repeat(start, length)
    return position_K


def _whole(table: pl.DataFrame, name: str, path: str) -> Ints:
    column = table[name]
    if not column.dtype.is_integer():
        raise LoadsError(f"{path}: column {name!r} must be whole numbers, not {column.dtype}")
    return column.cast(pl.Int64).to_numpy().astype(np.int64)


def _is_number(cell: bytes) -> bool:
    try:
        float(cell.strip().strip(b'"'))
    except ValueError:
        return False
    return True
