"""How much does a collective move, where its record does not say? By the shapes of the operator that called it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from weftrace.costs.tensors import RECORDED_DTYPES
from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables
from weftrace.trace.containment import open_at_launch

#: What `Work.events` says of the size of a collective: null, or that it is by shapes.
BY_SHAPES = "shapes"
_FILE = Path(__file__).with_name("collective_sizes.toml")

#: What each kind of collective does with a tensor of which only one side is recorded.
_DOES = {"all_gather": "gather", "gather": "gather", "reduce_scatter": "scatter", "scatter": "scatter",
         "all_to_all": "exchange"}  # fmt: skip
#: torch's name of a dtype -> the name in NCCL's metadata (`DTYPE_BYTES`).
_NCCL_DTYPES = {
    "float64": "Double", "float32": "Float", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool", "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2", "float8_e4m3fnuz": "Float8_e4m3fnuz", "float8_e5m2fnuz": "Float8_e5m2fnuz",
}  # fmt: skip
#: A kernel of NCCL that reduces names its dtype: ..._Sum_float(, ..._Sum_bf16_RING_LL(. One that copies has int8_t.
_REDUCES = re.compile(
    r"_(?:Sum|Prod|Min|Max|MinMax|PreMulSum|SumPostDiv)_+(\w+?)(?:_(?:RING|TREE|NVLS|COLL|PAT)\w*)?\("
)
_KERNEL_DTYPES = {
    "float": "Float", "f32": "Float", "half": "Half", "f16": "Half", "nv_bfloat16": "BFloat16", "bf16": "BFloat16",
    "hip_bfloat16": "BFloat16", "rccl_bfloat16": "BFloat16", "double": "Double", "f64": "Double",
}  # fmt: skip

_MOST_ELEMENTS = 1 << 50  # of more, a shape is broken

_CALL = ("name", "input_shapes", "input_types", "input_values")
#: What shapes tell of a collective, in the columns of NCCL's metadata; group_size where the sides tell it.
_TOLD: dict[str, Any] = {"in_elems": pl.Int64, "out_elems": pl.Int64, "dtype": pl.String, "group_size": pl.Int32}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    """An entry of collective_sizes.toml."""

    names: re.Pattern[str]
    does: str
    given: int | None
    got: int | None
    ranks: int | None


class _Told(NamedTuple):
    in_elems: int | None
    out_elems: int | None
    dtype: str | None
    group_size: int | None


_NOTHING = _Told(None, None, None, None)


def with_sizes_of_operators(rows: pl.DataFrame, events: pl.DataFrame, group_size: int | None) -> pl.DataFrame:
    """Kernels that move data and record no size, with that of the innermost operator of torch.distributed, of an
    engine or of a record that was open at their launch, and `sized_by` of those. An operator that launched several
    such kernels tells the size of none.

    rows: device events with their class and launch. group_size: ranks of each process group, where all have as
    many.
    """
    rows = rows.with_columns(pl.lit(None, pl.String).alias("sized_by"))
    bare = (pl.col("kind") == "communication") & (pl.col("role") == "data")
    bare &= pl.coalesce("in_elems", "out_elems").is_null()
    left = rows.with_row_index("at").filter(bare.fill_null(False))
    names = [name for name in events.get_column("name").unique().cast(pl.String) if name and _rule_of(name)]
    if left.is_empty() or not names:
        return rows
    records = [name for name in names if name == "record_param_comms"]
    found = []
    for chosen in ([name for name in names if name not in records], records):  # a record has the inputs alone
        calls = pl.Series(chosen, dtype=pl.String).cast(pl.Categorical())
        is_call = pl.col("name").is_in(calls.implode()) & (pl.col("cat") == "cpu_op")
        is_call &= pl.col("input_shapes").is_not_null()
        call = open_at_launch(events.select("pid", "tid", "ts_ns", "dur_ns", *_CALL, "cat"), left, is_call)
        called = left.with_columns(call.alias("call")).filter(pl.col("call").is_not_null())
        arguments = events.select(pl.col(_CALL).gather(called.get_column("call")))
        sizes = sizes_of(arguments, called.get_column("collective"), called.get_column("name"), group_size)
        told = called.select("at", "call").hstack(sizes)
        told = told.filter(pl.coalesce("in_elems", "out_elems").is_not_null(), pl.len().over("call") == 1)
        found.append(told.drop("call"))
        left = left.join(called, on="at", how="anti", maintain_order="left")
    return filled(rows, pl.concat(found))


def with_sizes_of_ranges(rows: pl.DataFrame, group_size: int | None) -> pl.DataFrame:
    """The same of a run on CPUs, where a backend's ranges ("gloo:all_reduce") record shapes of their own. Those of the
    operator that the program called are not theirs: it may return before."""
    rows = rows.with_columns(pl.lit(None, pl.String).alias("sized_by"))
    is_range = (pl.col("cat") == "user_annotation") & pl.col("input_shapes").is_not_null()
    is_range &= pl.coalesce("in_elems", "out_elems").is_null()
    mine = rows.with_row_index("at").filter(is_range & (pl.col("kind") == "communication"))
    if mine.is_empty():
        return rows
    sizes = sizes_of(mine.select(_CALL), mine.get_column("collective"), mine.get_column("name"), group_size)
    return filled(rows, mine.select("at").hstack(sizes).filter(pl.coalesce("in_elems", "out_elems").is_not_null()))


def filled(rows: pl.DataFrame, told: pl.DataFrame) -> pl.DataFrame:
    """Rows with what is told of some (`at`: which), where they have nothing of their own."""
    told = told.with_columns(pl.col("dtype").cast(pl.Categorical()), pl.lit(BY_SHAPES).alias("sized_by"))
    joined = rows.with_row_index("at").join(told, on="at", how="left", suffix="_told", maintain_order="left")
    columns = (*_TOLD, "sized_by")
    return joined.with_columns(pl.coalesce(name, f"{name}_told").alias(name) for name in columns).select(rows.columns)


def sizes_of(calls: pl.DataFrame, collective: pl.Series, kernel: pl.Series, group_size: int | None) -> pl.DataFrame:
    """What each call tells: a frame of in_elems, out_elems, dtype and group_size. calls: name, input_shapes,
    input_types, input_values. collective, kernel: of the event that each call made."""
    asked = calls.cast(pl.String).with_columns(
        collective.cast(pl.String).alias("made"), kernel.cast(pl.String).alias("by")
    )
    told = [_told(*row, group_size) for row in asked.iter_rows()]
    return pl.DataFrame(told, schema=_TOLD, orient="row")


@lru_cache(10_000)
def _told(
    name: str, shapes: str | None, types: str | None, values: str | None, made: str | None, kernel: str | None,
    group_size: int | None,
) -> _Told:  # fmt: skip
    rule = _rule_of(name)
    lists = [_list(text) for text in (shapes, types, values)]
    if rule is None:
        return _NOTHING
    given, got = (_elements(lists[0], lists[1], place) for place in (rule.given, rule.got))
    does = rule.does if rule.does != "collective" else _DOES.get(made or "", "same")
    number = _number(lists[2], rule.ranks) or (group_size if made != "send_recv" else None)
    if given is not None and got is not None and does in ("gather", "scatter"):
        least, most = sorted((given, got))
        number = most // least if least and most % least == 0 else number
    elif does == "gather":  # what one rank gives tells what it gets where their number is known
        got = given * number if given is not None and number else None
        given = given if got is not None else None
    elif does == "scatter" and given is None:
        given = got * number if got is not None and number else None
        got = got if given is not None else None
    place = rule.given if rule.given is not None else rule.got
    dtype = _NCCL_DTYPES.get(RECORDED_DTYPES.get(str(_at(lists[1], place)), ""))
    if dtype is None and kernel and (reduced := _REDUCES.search(kernel)):
        dtype = _KERNEL_DTYPES.get(reduced[1])
    if (given is None and got is None) or dtype is None:
        return _NOTHING
    return _Told(given, got if got is not None else given, dtype, number)


def _elements(shapes: Sequence[Any], types: Sequence[Any], place: int | None) -> int | None:
    """Elements of a tensor, or of all in a list; None where neither was recorded."""
    dims, kind = _at(shapes, place), _at(types, place)
    if not isinstance(dims, list):
        return None
    tensors = [dims] if kind in RECORDED_DTYPES else dims
    if not tensors or not all(isinstance(each, list) and all(type(size) is int for size in each) for each in tensors):
        return None
    elements = sum(math.prod(each) for each in tensors)
    return elements if 0 < elements < _MOST_ELEMENTS else None


def _number(values: Sequence[Any], place: int | None) -> int | None:
    text = str(_at(values, place))
    return int(text) if text.isdecimal() and 0 < len(text) < 7 else None


def _at(values: Sequence[Any], place: int | None) -> Any:
    return values[place] if place is not None and place < len(values) else None


def _list(text: str | None) -> list[Any]:
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return []
    return found if isinstance(found, list) else []


@lru_cache(50_000)
def _rule_of(name: str) -> _Operator | None:
    return next((rule for rule in _operators() if rule.names.fullmatch(name)), None)


@cache
def _operators() -> tuple[_Operator, ...]:
    tables = read_tables(_FILE, "operator", what="operators that communicate", error=RulesError)
    assert all(table.get("source") for table in tables), _FILE
    return tuple(
        _Operator(
            names=re.compile("|".join(f"(?:{name})" for name in table["names"])),
            does=table["does"], given=table.get("given"), got=table.get("got"), ranks=table.get("ranks"),
        )
        for table in tables
    )  # fmt: skip
