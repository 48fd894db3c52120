"""In which dtype does a kernel multiply, and on which units? What its name tells, by ordered rules in TOML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables
from weftrace.trace.ascii_patterns import ascii_pattern, is_ascii
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
#: What rules of kernel_precision.toml tell.
_TELLS = ("precision", "tile", "split_k", "sparse", "architecture")
#: What names that were met so far tell: compiling the rules takes longer than all else.
_KNOWN: dict[str | None, tuple[Any, ...]] = {}
_MAX_KNOWN = 200_000
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
    unique = names.rename("name").unique(maintain_order=True)
    told = _told(tuple(unique.cast(pl.String).to_list()))
    if len(unique) == len(names):
        return told
    at = names.to_frame("name").join(
        unique.to_frame().with_row_index("at"), on="name", how="left", nulls_equal=True, maintain_order="left"
    )
    return told[at.get_column("at")]


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
    """A row per name. Reports of one trace ask for the same names several times, ranks of a job for most of them."""
    new = [name for name in unique if name not in _KNOWN]
    if len(_KNOWN) + len(new) > _MAX_KNOWN:
        _KNOWN.clear()
        new = list(unique)
    if new:
        _KNOWN.update(zip(new, _matched(pl.Series("name", new, dtype=pl.String)).iter_rows(), strict=True))
    return pl.DataFrame([_KNOWN[name] for name in unique], schema=PRECISION_SCHEMA, orient="row")


def _matched(names: pl.Series) -> pl.DataFrame:
    """What rules tell of each name."""
    family = classify(names, load_rules()).get_column("family")
    words = names.str.replace_all("fbgemm", "", literal=True)
    is_plain = (family.is_in(_WITHOUT_PRODUCTS) & ~words.str.contains(_MAYBE_A_PRODUCT)).fill_null(False)
    rest = names.filter(~is_plain)
    patterns = _patterns(is_ascii(rest.drop_nulls()))
    chosen = _first_rules(rest, patterns)
    cores = [rule.get("tensor_cores") for rule in _rules()] + [None]
    told = pl.DataFrame(
        {
            "name": rest,
            "dtype": _words(rest, chosen["precision"], patterns),
            "tensor_cores": [cores[number] for number in chosen["precision"].tolist()],
            **_tiles(rest, chosen["tile"], patterns),
            "split_k": chosen["split_k"] >= 0,
            "sparse": chosen["sparse"] >= 0,
            "architecture": _words(rest, chosen["architecture"], patterns),
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


def _first_rules(names: pl.Series, patterns: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """What rules tell -> of each name the first such rule that matches; -1 where none does."""
    name = pl.col("name").str
    found = (name.contains(pattern).fill_null(False).alias(str(at)) for at, pattern in enumerate(patterns))
    hits = names.to_frame().select(found).to_numpy()
    of = np.array([rule["tells"] for rule in _rules()])
    first = {}
    for tells in _TELLS:
        mine = np.flatnonzero(of == tells)
        matches = hits[:, mine]
        first[tells] = np.where(matches.any(axis=1), mine[matches.argmax(axis=1)], -1)
    return first


def _rows_of_rules(chosen: NDArray[np.int64]) -> Iterator[tuple[int, list[int]]]:
    """Each rule that is chosen, and where."""
    for number in np.unique(chosen[chosen >= 0]).tolist():
        yield number, np.flatnonzero(chosen == number).tolist()


def _words(names: pl.Series, chosen: NDArray[np.int64], patterns: Sequence[str]) -> list[str | None]:
    """What the rule that is chosen for each name says in words."""
    words: list[str | None] = [None] * len(names)
    for number, rows in _rows_of_rules(chosen):
        stated = _rules()[number].get("dtype", _rules()[number].get("value"))
        if isinstance(stated, Mapping) or "{}" in (stated or ""):
            captured = names.gather(rows).str.extract(patterns[number], 1).to_list()
        else:
            captured = [""] * len(rows)
        for row, text in zip(rows, captured, strict=True):
            if text is not None and stated is not None:
                words[row] = stated.get(text) if isinstance(stated, Mapping) else stated.replace("{}", text)
    return words


def _tiles(names: pl.Series, chosen: NDArray[np.int64], patterns: Sequence[str]) -> dict[str, list[int | None]]:
    """tile_m, tile_n, tile_k of the first rule that matches, even where that says that there is none."""
    tiles: dict[str, list[int | None]] = {f"tile_{side}": [None] * len(names) for side in "mnk"}
    for number, rows in _rows_of_rules(chosen):
        found = names.gather(rows).str.extract_groups(patterns[number]).struct.unnest()
        for side in set("mnk") & set(found.columns):
            values = found.get_column(side).cast(pl.Int32, strict=False)
            for row, value in zip(rows, values, strict=True):
                tiles[f"tile_{side}"][row] = value
    return tiles


@cache
def _patterns(ascii_only: bool) -> list[str]:
    return [ascii_pattern(rule["match"]) if ascii_only else rule["match"] for rule in _rules()]


@cache
def _rules() -> list[dict[str, Any]]:
    return read_tables(RULES, "rule", what="rules of kernels' precision", error=RulesError)
