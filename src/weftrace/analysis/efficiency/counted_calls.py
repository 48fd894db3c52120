"""Which call of an operator does each device event belong to, where its cost is asked for?

Operators call each other: aten::linear calls aten::addmm, which has the formula. The outermost operator with a formula
counts, as it does where a model is counted while it runs: what it calls is how it does its work. Where none has one,
it is the innermost operator.
"""

from __future__ import annotations

import msgspec
import polars as pl

from weftrace.costs.custom_ops import CustomOp
from weftrace.costs.recorded import is_counted
from weftrace.trace.containment import open_at_launch

_TAKEN_APART = "aten::_scaled_dot_product_attention_math"
_ENGINE = "autograd::engine::evaluate_function"
_RANGE = ("pid", "tid", "ts_ns", "dur_ns")


def counted_calls(
    events: pl.DataFrame,
    linked: pl.DataFrame,
    innermost: pl.Series | None = None,
    custom: tuple[CustomOp, ...] | None = None,
) -> pl.Series:
    """For each device event the row in `events` of the operator call that it belongs to; null where none was open.

    events: a trace's events. linked: device events with launch_ts_ns, launch_pid, launch_tid. innermost: of each of
    them the innermost operator (`operator_rows`), where it is known already.
    """
    operators = events.select("cat", *_RANGE)
    if innermost is None:
        innermost = open_at_launch(operators, linked, pl.col("cat") == "cpu_op")
    rows = outermost_counted(events, custom)
    found = open_at_launch(operators.select(_RANGE)[rows], linked)
    counted = rows.gather(found).cast(pl.Int64)
    return pl.select(pl.coalesce(counted, innermost.cast(pl.Int64))).to_series().alias("call")


def outermost_counted(events: pl.DataFrame, custom: tuple[CustomOp, ...] | None = None) -> pl.Series:
    """Rows of the operators that have a formula and lie in no other one that has, in order of thread and start."""
    ops = events.select("cat", "name", "input_types", *_RANGE).with_row_index("row").filter(pl.col("cat") == "cpu_op")
    kinds = ops.select("name", "input_types").unique()
    counted = [is_counted(name, types, custom) for name, types in kinds.cast(pl.String).iter_rows()]
    ops = ops.join(kinds.filter(pl.Series(counted, dtype=pl.Boolean)), on=["name", "input_types"], nulls_equal=True)
    ops = ops.sort("pid", "tid", "ts_ns", "dur_ns", descending=[False, False, False, True], maintain_order=True)
    before = (pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).over("pid", "tid")
    return ops.filter(before.is_null() | (pl.col("ts_ns") >= before)).get_column("row")


def in_masked_attention(events: pl.DataFrame, call: pl.Series) -> pl.Series:
    """Whether each operator call lies in attention under a mask that torch takes apart into products over all pairs.

    events: a trace's events. call: rows of operators in it, or null.
    """
    ranges = events.select("cat", "name", *_RANGE, "input_types", "input_values").filter(
        pl.col("cat") == "cpu_op", pl.col("name") == _TAKEN_APART
    )
    mask, causal = _entries(ranges.get_column("input_types"), 3), _entries(ranges.get_column("input_values"), 5)
    ranges = ranges.filter(((mask != "") | (causal == "True")).fill_null(True))
    if ranges.is_empty():
        return pl.repeat(False, len(call), eager=True)
    return open_at_launch(ranges, _as_launches(events, call)).is_not_null()


def _entries(texts: pl.Series, at: int) -> pl.Series:
    """One entry of each JSON list of texts; null where there is none, or the text is no such list."""
    found = {text: _entry(text, at) for text in texts.unique().drop_nulls().cast(pl.String)}
    return texts.cast(pl.String).replace_strict(found, default=None, return_dtype=pl.String)


def _entry(text: str, at: int) -> str | None:
    try:
        return msgspec.json.decode(text, type=list[str])[at]
    except (msgspec.MsgspecError, IndexError):
        return None


def _as_launches(events: pl.DataFrame, call: pl.Series) -> pl.DataFrame:
    """Operators as `open_at_launch` takes device events; all null where call is."""
    calls = events.select(
        pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid"), pl.col("ts_ns").alias("launch_ts_ns")
    )
    return calls.select(pl.all().gather(call))


def recomputed(events: pl.DataFrame, call: pl.Series) -> pl.Series:
    """Whether each operator call is one that a checkpoint ran again in the backward.

    events: a trace's events. call: rows of operators in it. Inside autograd's evaluation of a node an operator has a
    sequence number of its own, which only the forward gives, and no thread of a forward. (So has the backward itself
    where it is run to be differentiated again.)
    """
    engine = events.select("cat", "name", *_RANGE).filter(
        pl.col("cat") == "cpu_op", pl.col("name").cast(pl.String).str.starts_with(_ENGINE)
    )
    calls = events.select("sequence", "forward_thread")[call.cast(pl.UInt32)]
    forward = calls.get_column("sequence").is_not_null() & (calls.get_column("forward_thread").fill_null(0) == 0)
    if engine.is_empty() or not forward.any():
        return pl.repeat(False, len(call), eager=True)
    return forward & open_at_launch(engine, _as_launches(events, call)).is_not_null()
