"""In which dtype does a kernel multiply, and on which units? What its name tells, by ordered rules in TOML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables
from weftrace.trace.kernels import classify, load_rules

RULES = Path(__file__).with_name("kernel_precision.toml")

PRECISION_SCHEMA: dict[str, pl.DataType] = {
    "name": pl.String(),
    "dtype": pl.String(),
    "tensor_cores": pl.Boolean(),
    "tile_m": pl.Int32(),
    "tile_n": pl.Int32(),
    "tile_k": pl.Int32(),
    "split_k": pl.Boolean(),
    "sparse": pl.Boolean(),
    "architecture": pl.String(),
}

#: Families of `trace/kernels.toml` whose kernels hold no product of matrices, unless a word of their name says one.
_WITHOUT_PRODUCTS = (
    "copy", "elementwise", "embedding", "index", "kv_cache", "loss", "memcpy", "memcpy_d2d", "memcpy_d2h", "memcpy_h2d",
    "memcpy_p2p", "memset", "nccl", "norm", "optimizer", "pool", "quantize", "reduction", "rng", "softmax", "sort",
)  # fmt: skip
_MAYBE_A_PRODUCT = (
    r"(?i)gemm|gemv|matmul|_mm|\b[hiw]?g?mma|_dot|attn|attention|linear|_proj|conv\dd|convolution|^triton_"
)
_ARCHITECTURE = re.compile(r"sm(\d+)\d")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPrecision:
    """What the name of a kernel tells; None, or False for the last two, where it does not.

    dtype: of the factors as they are multiplied, whatever is stored: one of `facts.DTYPES`.
    tensor_cores: whether tensor or matrix cores multiply. tile: (rows, columns, depth) of the result that one block
    computes at a time; of attention queries, keys and head dimension. split_k: the depth is cut among blocks, whose
    parts are added. sparse: 2:4 sparsity. architecture: "sm80", "gfx942": what the kernel was built for, at least.
    """

    dtype: str | None = None
    tensor_cores: bool | None = None
    tile: tuple[int, int, int | None] | None = None
    split_k: bool = False
    sparse: bool = False
    architecture: str | None = None


def kernel_precision(names: pl.Series) -> pl.DataFrame:
    """What each name tells, row by row (`PRECISION_SCHEMA`). names: strings or categoricals, repeated or not.

    Each distinct name is matched once. Nulls are what the name does not tell; nothing is taken from what a kernel
    usually does. `split_k` and `sparse` are false then.
    """
    text = names.cast(pl.String).rename("name")
    unique = text.unique(maintain_order=True)
    told = _told(tuple(unique.to_list()))
    if len(unique) == len(text):
        return told
    return text.to_frame().join(told, on="name", how="left", nulls_equal=True, maintain_order="left")


def precision_of(name: str) -> KernelPrecision:
    """What one kernel's name tells."""
    row = kernel_precision(pl.Series([name], dtype=pl.String)).row(0, named=True)
    return KernelPrecision(
        dtype=row["dtype"],
        tensor_cores=row["tensor_cores"],
        tile=None if row["tile_m"] is None else (row["tile_m"], row["tile_n"], row["tile_k"]),
        split_k=row["split_k"],
        sparse=row["sparse"],
        architecture=row["architecture"],
    )


def is_older(architecture: str | None, capability: tuple[int, int] | None) -> bool:
    """Whether a kernel was built for an older generation of NVIDIA's devices than the one that ran it.

    Generations are the major numbers: sm80 on (9, 0) is older, sm80 on (8, 6) is not. Unknown counts as not.
    """
    match = _ARCHITECTURE.fullmatch(architecture or "")
    return match is not None and capability is not None and int(match[1]) < capability[0]


@lru_cache(maxsize=16)
def _told(unique: tuple[str | None, ...]) -> pl.DataFrame:
    """A row per name. Reports of one trace ask for the same names several times."""
    names = pl.Series("name", unique, dtype=pl.String)
    family = classify(names, load_rules()).get_column("family")
    words = names.str.replace_all("fbgemm", "", literal=True)
    is_plain = (family.is_in(_WITHOUT_PRODUCTS) & ~words.str.contains(_MAYBE_A_PRODUCT)).fill_null(False)
    rest = names.filter(~is_plain)
    precision = _first("precision", rest)
    told = pl.DataFrame(
        {
            "name": rest,
            "dtype": precision.get_column("word"),
            "tensor_cores": precision.get_column("tensor_cores"),
            **_tiles(rest),
            "split_k": _first("split_k", rest).get_column("rule").is_not_null(),
            "sparse": _first("sparse", rest).get_column("rule").is_not_null(),
            "architecture": _first("architecture", rest).get_column("word"),
        },
        schema=PRECISION_SCHEMA,
    )
    return (
        pl.DataFrame({"name": names, "is_plain": is_plain})
        .join(told, on="name", how="left", nulls_equal=True, maintain_order="left")
        .with_columns(
            tensor_cores=pl.when("is_plain").then(False).otherwise("tensor_cores"),
            split_k=pl.col("split_k").fill_null(False),
            sparse=pl.col("sparse").fill_null(False),
        )
        .select(list(PRECISION_SCHEMA))
    )


def _first(tells: str, names: pl.Series) -> pl.DataFrame:
    """Of each name the first rule of that kind that matches: its number, what it says in words, tensor_cores."""
    rules = [(number, rule) for number, rule in enumerate(_rules()) if rule["tells"] == tells]
    found = pl.col("name").str
    columns = [
        pl.when(found.contains(rule["match"]))
        .then(
            pl.struct(
                pl.lit(number, pl.Int32).alias("rule"),
                _word(rule).alias("word"),
                pl.lit(rule.get("tensor_cores"), pl.Boolean).alias("tensor_cores"),
            )
        )
        .otherwise(None)
        for number, rule in rules
    ]
    return names.to_frame().select(pl.coalesce(columns).alias("told")).unnest("told")


def _word(rule: Mapping[str, Any]) -> pl.Expr:
    stated = rule.get("dtype", rule.get("value"))
    captured = pl.col("name").str.extract(rule["match"], 1)
    if isinstance(stated, Mapping):
        return captured.replace_strict(dict(stated), default=None, return_dtype=pl.String)
    if stated is None or "{}" not in stated:
        return pl.lit(stated, pl.String)
    return pl.format(stated, captured)


def _tiles(names: pl.Series) -> dict[str, pl.Series]:
    """tile_m, tile_n, tile_k of the first rule that matches, even where that says that there is none."""
    chosen = pl.coalesce(
        pl.when(pl.col("name").str.contains(rule["match"])).then(_tile(rule["match"]))
        for rule in _rules()
        if rule["tells"] == "tile"
    )
    table = names.to_frame().select(chosen.alias("tile")).unnest("tile")
    return {f"tile_{side}": table.get_column(side) for side in "mnk"}


def _tile(pattern: str) -> pl.Expr:
    groups = re.compile(pattern).groupindex
    found = pl.col("name").str.extract_groups(pattern).struct
    return pl.struct(
        (found.field(side) if side in groups else pl.lit(None, pl.String)).cast(pl.Int32).alias(side) for side in "mnk"
    )


@cache
def _rules() -> list[dict[str, Any]]:
    return read_tables(RULES, "rule", what="rules of kernels' precision", error=RulesError)
