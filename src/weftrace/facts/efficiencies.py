"""What part of its peak does real work reach? Published rates, a source beside each in `efficiency.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from weftrace.errors import WeftraceError
from weftrace.facts.tables import read_tables

BUILT_IN = Path(__file__).with_name("efficiency.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedGemm:
    """A product [rows, inner] x [inner, columns] of DeepSeek-V3 for each of `groups` equal groups of rows, FP8 in and
    BF16 out, and the rate in TFLOP/s that DeepGEMM publishes for it on H800 (the middle where a range is given).
    """

    name: str
    rows: int
    inner: int
    columns: int
    tflops: float
    groups: int = 1


def efficiency(work: str) -> float:
    """The part of its peak that a kind of work reaches: "matrix", "attention", "grouped gemm", "nic", ...

    The kinds are the names in `efficiency.toml` that have an `efficiency`. Raises KeyError for another.
    """
    return float(_facts()[work]["efficiency"])


def sustained_flops_per_s(work: str) -> float:
    """The FLOP/s that a kind of work sustains, where what is published is a rate: "expert gemm"."""
    return float(_facts()[work]["sustained_tflops"]) * 1e12


def bytes_per_token(work: str) -> float:
    """Bytes that memory-bound kernels of DeepSeek-V3 move for a token: "attention glue", "mlp glue"."""
    return float(_facts()[work]["bytes_per_token"])


def backward_factor(work: str) -> float:
    """How much more than the forward's glue that of the backward moves: "attention glue", "mlp glue"."""
    return float(_facts()[f"{work} backward"]["factor"])


def num_kernels(work: str) -> int:
    """In how many kernels DeepSeek-V3's profile moves them: "attention glue", "mlp glue", the same and " backward"."""
    return int(_facts()[work]["kernels"])


def fixed_seconds(work: str) -> float:
    """Time of work that takes the same whatever its shape: "small operators of decode"."""
    return float(_facts()[work]["microseconds"]) / 1e6


@cache
def published_gemms() -> tuple[PublishedGemm, ...]:
    """The products of DeepSeek-V3 whose rates DeepGEMM publishes."""
    return tuple(
        PublishedGemm(**{name: value for name, value in fact.items() if name != "source"})
        for fact in _facts().values()
        if "tflops" in fact
    )


@cache
def _facts() -> Mapping[str, Mapping[str, Any]]:
    return {fact["name"]: fact for fact in read_tables(BUILT_IN, "fact", what="published rates", error=WeftraceError)}
