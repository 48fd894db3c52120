"""Frames of waits with all their columns, made of what is told of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from weftrace.plan.inference.values import EDGE_SCHEMA
from weftrace.plan.ops import WAIT_SCHEMA

#: A wait of a plan, with where it comes from.
WAITS: dict[str, pl.DataType] = {**WAIT_SCHEMA, **EDGE_SCHEMA}
_CERTAIN = {"since": "end", "lag_ns": 0, "why": "data", "confidence": 1.0}


def as_waits(summary: pl.DataFrame) -> pl.DataFrame:
    """A frame of `WAITS`: what is not told is for the end, without a lag, and certain; null in other columns."""
    return in_schema(summary, WAITS, _CERTAIN)


def in_schema(summary: pl.DataFrame, schema: Mapping[str, pl.DataType], default: Mapping[str, Any]) -> pl.DataFrame:
    """A frame with the columns of a schema and no others; those that it lacks have their default, or are null."""
    return summary.select(
        pl.col(name).cast(dtype) if name in summary.columns else pl.lit(default.get(name), dtype).alias(name)
        for name, dtype in schema.items()
    )
