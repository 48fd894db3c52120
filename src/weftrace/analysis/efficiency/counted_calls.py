"""Which call of an operator does each device event belong to, where its cost is asked for?

Operators call each other: aten::linear calls aten::addmm, which has the formula. The outermost operator with a formula
counts, as it does where a model is counted while it runs: what it calls is how it does its work, unless it hands the
whole call on. Where none has one, it is the innermost operator.
"""

from __future__ import annotations

from typing import Any

import msgspec
import polars as pl

from weftrace.costs.custom_ops import CustomOp
from weftrace.costs.recorded import is_counted
from weftrace.trace.containment import open_at_launch

_TAKEN_APART = "aten::_scaled_dot_product_attention_math"
_ENGINE = "autograd::engine::evaluate_function"
_RANGE = ("pid", "tid", "ts_ns", "dur_ns")
_NUMBERS = frozenset({"Scalar", "ScalarList"})
#: Products that call no other one to compute, and those that they may hand theirs on to.
_PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::dot")
_COMPUTE = (*_PRODUCTS, "aten::_int_mm", "aten::_scaled_mm", "aten::_scaled_mm_v2", "aten::_weight_int4pack_mm")


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
    """Rows of the operators that have a formula and lie in no other one that has, in order of thread and start.

    One that only hands its call on (`_handing_on`) is none of them: what it hands it to counts.
    """
    columns = ("cat", "name", "input_types", "input_shapes", *_RANGE)
    ops = events.select(columns).with_row_index("row").filter(pl.col("cat") == "cpu_op").drop("cat")
    key = ["name"] if ops.get_column("input_types").null_count() == ops.height else ["name", "input_types"]
    kinds = ops.select(key).unique()
    texts = kinds.cast(pl.String).iter_rows()
    counted = [is_counted(kind[0], kind[1] if len(kind) > 1 else None, custom) for kind in texts]
    kinds = kinds.filter(pl.Series(counted, dtype=pl.Boolean))
    ops = ops.join(kinds, on=key, how="semi", nulls_equal=True, maintain_order="left")
    thread = [pl.col(name).to_physical() for name in ("pid", "tid")]  # in whichever order
    ops = ops.sort(*thread, "ts_ns", -pl.col("dur_ns"), maintain_order=True)
    before = (pl.col("ts_ns") + pl.col("dur_ns")).cum_max().shift(1).over("pid", "tid")
    while True:
        outermost = ops.select(before.is_null() | (pl.col("ts_ns") >= before)).to_series()
        again = _handing_on(ops, outermost)
        if again.is_empty():
            return ops.filter(outermost).get_column("row")
        ops = ops.filter(~pl.col("row").is_in(again.implode()))


def _handing_on(ops: pl.DataFrame, outermost: pl.Series) -> pl.Series:
    """Rows of the outermost operators that compute nothing themselves.

    Such a one calls the same operator with other tensors: autocast with those of another dtype, a DTensor with the part
    that this rank holds, vmap with all that it maps over. Or it is a product and calls another one: a tensor in FP8.
    """
    around = pl.when(outermost).then(pl.int_range(pl.len())).forward_fill()
    pairs = ops.select(around.alias("around"), "name", "input_types", "input_shapes").filter(~outermost)
    outer = ops.select("row", pl.col("name", "input_types", "input_shapes").name.prefix("outer_"))
    pairs = pl.concat([pairs, outer[pairs.get_column("around")]], how="horizontal")
    of_products = pl.col("outer_name").is_in(_PRODUCTS) & pl.col("name").is_in(_COMPUTE)
    pairs = pairs.filter((pl.col("name") == pl.col("outer_name")) | of_products)
    if pairs.is_empty():
        return pairs.get_column("row")
    texts = [f"{prefix}{name}" for prefix in ("outer_", "") for name in ("name", "input_types", "input_shapes")]
    alike = pairs.group_by(texts).agg("row")
    differ = [_differ(each[:3], each[3:]) for each in alike.select(pl.col(texts).cast(pl.String)).iter_rows()]
    return alike.filter(pl.Series(differ)).get_column("row").explode().unique()


def _differ(outer: tuple[str | None, ...], inner: tuple[str | None, ...]) -> bool:
    """Whether two operators' tensors do; each as (name, types, shapes). A number may have become a tensor, and what was
    not given a result; a nested tensor has no type.
    """
    if outer[0] != inner[0]:
        return True
    types, shapes = (list(zip(_list(outer[at]), _list(inner[at]), strict=False)) for at in (1, 2))
    return any(
        dtype != of_inner or shape != shape_of_inner
        for at, ((dtype, of_inner), (shape, shape_of_inner)) in enumerate(zip(types, shapes, strict=False))
        if not {dtype, of_inner} & _NUMBERS and (dtype or not at)
    )


def _list(text: str | None) -> list[Any]:
    try:
        return msgspec.json.decode(text or "[]", type=list)
    except msgspec.MsgspecError:
        return []


def in_masked_attention(events: pl.DataFrame, call: pl.Series) -> pl.Series:
    """Whether each operator call lies in attention under a mask that torch takes apart into products over all pairs, or
    is of the backward of such a product.

    events: a trace's events. call: rows of operators in it, or null.
    """
    ranges = events.select("cat", "name", *_RANGE, "input_types", "input_values").filter(
        pl.col("cat") == "cpu_op", pl.col("name") == _TAKEN_APART
    )
    mask, causal = _entries(ranges.get_column("input_types"), 3), _entries(ranges.get_column("input_values"), 5)
    ranges = ranges.filter(((mask != "") | (causal == "True")).fill_null(True))
    if ranges.is_empty():
        return pl.repeat(False, len(call), eager=True)
    calls = _as_launches(events, call)
    backwards = _backwards_of(events, ranges)
    return open_at_launch(ranges, calls).is_not_null() | open_at_launch(backwards, calls).is_not_null()


def _backwards_of(events: pl.DataFrame, ranges: pl.DataFrame) -> pl.DataFrame:
    """Autograd's nodes of the operators in some ranges: they have the sequence numbers of those."""
    nodes = events.select("cat", *_RANGE, "sequence", "forward_thread").with_row_index("row")
    nodes = nodes.filter(pl.col("cat") == "cpu_op", pl.col("sequence").is_not_null())
    is_forward = pl.col("forward_thread").fill_null(0) == 0
    forward = nodes.filter(is_forward)
    inside = open_at_launch(ranges, _as_launches(events, forward.get_column("row"))).is_not_null()
    of = forward.filter(inside).get_column("sequence").unique()
    return nodes.filter(~is_forward, pl.col("sequence").is_in(of.implode()))


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

    events: a trace's events. call: rows of operators in it, or null. Inside autograd's evaluation of a node an
    operator, or one around it that hands its call on, has a sequence number of its own, which only the forward gives,
    and no thread of a forward. (So has the backward itself where it is run to be differentiated again.)
    """
    if call.null_count() == len(call):
        return pl.repeat(False, len(call), eager=True)
    operators = events.select("cat", "name", *_RANGE, "sequence", "forward_thread").filter(pl.col("cat") == "cpu_op")
    names = operators.get_column("name").unique()
    is_engine = pl.col("name").is_in(names.filter(names.cast(pl.String).str.starts_with(_ENGINE)).implode())
    engine = operators.filter(is_engine)
    threads = engine.get_column("tid").unique().implode()
    forward = operators.filter(
        pl.col("sequence").is_not_null(), pl.col("forward_thread").fill_null(0) == 0, pl.col("tid").is_in(threads)
    ).filter(~is_engine)
    if forward.is_empty():
        return pl.repeat(False, len(call), eager=True)
    calls = _as_launches(events, call)
    return open_at_launch(engine, calls).is_not_null() & open_at_launch(forward, calls).is_not_null()
