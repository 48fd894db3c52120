"""Which ranges of the host are iterations of a serving engine, and what do their names say of requests and tokens?

Engines wrap each iteration in an annotation whose name describes its batch (vLLM's
`execute_context_2(6144)_generation_3(3)`, SGLang's `step[DECODE bs=64]`). The names are data, with sources, in
`engine_steps.toml`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Literal

import polars as pl

from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables
from weftrace.trace.model import is_annotation

EngineKind = Literal["prefill", "decode", "mixed", "verify", "draft", "idle"]

_RULES = Path(__file__).with_name("engine_steps.toml")
_NUMBERS = (
    "requests",
    "padded_requests",  # of the graph that was captured for more
    "tokens",
    "context_requests",
    "context_tokens",
    "context_kv_tokens",
    "generation_requests",
    "generation_tokens",
    "generation_kv_tokens",
)

#: What names of iterations tell; null where a name does not tell it.
ENGINE_NAMES: dict[str, pl.DataType] = {
    "engine": pl.String(),
    "kind": pl.String(),  # `EngineKind`
    **dict.fromkeys(_NUMBERS, pl.Int64()),
}

_RANGE = ("pid", "tid", "ts_ns", "dur_ns")


def read_engine_names(names: pl.Series) -> pl.DataFrame:
    """What each name tells, in the order of `names` [n]: a frame of `ENGINE_NAMES`; engine is null where it is no
    iteration of a known engine. Source of each spelling: `engine_steps.toml`.
    """
    frame = names.cast(pl.String).alias("name").to_frame()
    if frame.is_empty():
        return pl.DataFrame(schema=ENGINE_NAMES)
    rule = pl.coalesce(
        *(pl.when(pl.col("name").str.contains(each["match"])).then(number) for number, each in enumerate(_rules()))
    )
    columns = {name: _picked(name) for name in ("engine", "kind", *_NUMBERS)}
    read = frame.with_columns(rule.alias("rule")).select(
        value.cast(ENGINE_NAMES[name], strict=False).alias(name) for name, value in columns.items()
    )
    return read.with_columns(*_completed()).with_columns(pl.coalesce("kind", _kind()).alias("kind"))


def find_engine_steps(events: pl.DataFrame) -> pl.DataFrame:
    """The iterations in a trace's events, in order of their start: pid, tid, ts_ns, dur_ns and `ENGINE_NAMES`.

    Of ranges that lie in each other on one thread the outermost is the iteration; what its name does not tell, the
    names within it do.
    """
    ranges = events.select("name", "cat", *_RANGE).filter(is_annotation()).drop("cat")
    names = ranges.get_column("name").unique()
    known = "|".join(f"(?:{rule['match']})" for rule in _rules())
    names = names.filter(names.cast(pl.String).str.contains(known))
    read = names.to_frame().hstack(read_engine_names(names))
    ranges = ranges.join(read, on="name").drop("name")
    ranges = ranges.sort("ts_ns", "dur_ns", descending=[False, True], maintain_order=True)
    end = pl.col("ts_ns") + pl.col("dur_ns")
    reach = end.cum_max().shift(1).over("pid", "tid")
    is_outer = reach.is_null() | (end > reach) | (pl.col("ts_ns") >= reach)
    groups = ranges.with_columns(is_outer.cum_sum().over("pid", "tid").alias("iteration"))
    told = [pl.col(name).drop_nulls().first() for name in ENGINE_NAMES]
    merged = groups.group_by("pid", "tid", "iteration", maintain_order=True).agg(
        pl.col("ts_ns", "dur_ns").first(), *told
    )
    return merged.sort("ts_ns", maintain_order=True).select(*_RANGE, *ENGINE_NAMES)


def _picked(column: str) -> pl.Expr:
    """What the rule of each name says of a column."""
    value = pl.lit(None, dtype=ENGINE_NAMES[column])
    for number, rule in enumerate(_rules()):
        if column in rule:
            stated = pl.lit(rule[column]) if column in ("engine", "kind") else _number(rule[column])
            value = pl.when(pl.col("rule") == number).then(stated).otherwise(value)
    return value


def _number(patterns: str | list[str]) -> pl.Expr:
    found = [
        pl.col("name").str.extract(pattern, 1).cast(pl.Int64, strict=False)
        for pattern in ([patterns] if isinstance(patterns, str) else patterns)
    ]
    return pl.sum_horizontal(found, ignore_nulls=False)


def _completed() -> list[pl.Expr]:
    """Tokens that follow from others: of both groups, or of one where there is no other."""
    context, generation = pl.col("context_tokens"), pl.col("generation_tokens")
    alone = {"context": pl.col("kind") == "prefill", "generation": pl.col("kind").is_in(("decode", "verify"))}
    whole = pl.when(alone["context"]).then(context).when(alone["generation"]).then(generation)
    return [pl.coalesce("tokens", whole.otherwise(context + generation)).alias("tokens")]


def _kind() -> pl.Expr:
    context, generation = pl.col("context_requests"), pl.col("generation_requests")
    return (
        pl.when((context > 0) & (generation > 0))
        .then(pl.lit("mixed"))
        .when((context > 0) & (generation == 0))
        .then(pl.lit("prefill"))
        .when((context == 0) & (generation > 0))
        .then(pl.lit("decode"))
        .when((context == 0) & (generation == 0))
        .then(pl.lit("idle"))
    )


@cache
def _rules() -> tuple[dict[str, Any], ...]:
    rules = read_tables(_RULES, "engine_step", what="names of engines' iterations", error=RulesError)
    for rule in rules:
        known = {"match", "source", *ENGINE_NAMES}
        assert {"engine", "match", "source"} <= rule.keys() <= known, rule
    return tuple(rules)
