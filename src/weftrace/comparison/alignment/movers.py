"""Which kernels, families, operators or phases changed most, and what of it is sure?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

import polars as pl

from weftrace.comparison.alignment.partners import Partners
from weftrace.comparison.exact_changes import CHANGE_COLUMNS
from weftrace.comparison.noise import are_noise
from weftrace.comparison.runs import LABELS
from weftrace.errors import WeftraceError

if TYPE_CHECKING:
    from weftrace.comparison.diffs import Diff

Level = Literal["family", "kernel", "operator", "phase"]

#: Columns of `movers_of` beside `CHANGE_COLUMNS`.
MOVER_SCHEMA: dict[str, pl.DataType] = {
    "part": pl.String(),  # whose time it is; of "idle" a mover is what ends the gaps
    "cause": pl.String(),  # of idle time its cause, of communication its role
    "name": pl.String(),  # null where none is known; of "replaced", the largest of the kernels that went
    "kind": pl.String(),  # of most of its time
    "family": pl.String(),  # of most of its time
    "status": pl.String(),  # "both", "replaced", "new", "gone"
    "replaced_by": pl.String(),  # of "replaced", the largest of the kernels that came
    "matched_by": pl.String(),  # "name", or the rule; of "replaced", what both launch from; null of "new" and "gone"
    "before_names": pl.List(pl.String()),  # as the runs have them, the largest first
    "after_names": pl.List(pl.String()),
    **dict.fromkeys(CHANGE_COLUMNS, pl.Int64()),
    **dict.fromkeys(("before_num", "after_num", "before_raw_ns", "after_raw_ns"), pl.Float64()),
    "replaced_ns": pl.Int64(),  # of by_kernel_ns, what kernels in each other's place differ by
    "new_ns": pl.Int64(),  # of by_kernel_ns, what is new
    "gone_ns": pl.Int64(),  # of by_kernel_ns, what is gone
    "before_mean_ns": pl.Float64(),  # duration of a launch; of idle time, of a gap
    "after_mean_ns": pl.Float64(),
    "is_noise": pl.Boolean(),  # of its time in each step, asked of all rows at once; null where steps do not tell
}


def movers_of(diff: Diff, level: Level) -> pl.DataFrame:
    """A row a name, part and cause, the largest change first: a frame of `MOVER_SCHEMA`, times in ns of a step.

    change_ns adds up over all rows to the mean step's change, at every level; effects are the sums of kernels' effects.
    At level "kernel", kernels in each other's place are one row. Raises WeftraceError for another level.
    """
    if level not in get_args(Level):
        raise WeftraceError(f"level={level!r}: movers are listed by {', '.join(get_args(Level))}.")
    changes = diff.changes.with_columns(_keyed(level))
    movers = _summed(changes).join(_who(changes, level), on=_KEY, nulls_equal=True)
    names = _names(changes, diff.alignment.of(level), level)
    movers = movers.join(names, on=_KEY, how="left", nulls_equal=True)
    first = [pl.col(f"{side}_names").list.first() for side in ("before", "after")]
    is_replaced = pl.col("status") == "replaced"
    movers = movers.with_columns(
        pl.when(is_replaced).then(first[0]).otherwise("_name").alias("name"),
        pl.when(is_replaced).then(first[1]).alias("replaced_by"),
        pl.when(is_replaced)
        .then("replaced_in")
        .when(pl.col("status") == "both")
        .then(pl.coalesce("rule", pl.lit("name")))
        .alias("matched_by"),
        (pl.col("before_raw_ns") / pl.col("before_num")).alias("before_mean_ns"),
        (pl.col("after_raw_ns") / pl.col("after_num")).alias("after_mean_ns"),
    ).with_columns(pl.col("before_mean_ns", "after_mean_ns").replace(float("inf"), None).fill_nan(None))
    size = pl.col("change_ns").abs(), pl.max_horizontal("before_ns", "after_ns")
    movers = movers.sort(*size, "part", "cause", "name", descending=[True, True, *[False] * 3], nulls_last=True)
    movers = movers.with_columns(_noise(diff, changes, movers))
    return movers.select(pl.col(name).cast(dtype) for name, dtype in MOVER_SCHEMA.items())


_KEY = ("part", "cause", "_name", "replacement")


def _keyed(level: Level) -> tuple[pl.Expr, pl.Expr]:
    """What names the mover that a row of changes belongs to."""
    if level != "kernel":
        return pl.col(level).alias("_name"), pl.lit(None, dtype=pl.Int64).alias("replacement")
    return pl.when(pl.col("replacement").is_null()).then("kernel").alias("_name"), pl.col("replacement")


def _summed(changes: pl.DataFrame) -> pl.DataFrame:
    of_status = (
        pl.col("by_kernel_ns").filter(pl.col("status") == status).sum().alias(f"{status}_ns")
        for status in ("replaced", "new", "gone")
    )
    return changes.group_by(_KEY, maintain_order=True).agg(pl.col(CHANGE_COLUMNS).sum(), *of_status)


def _who(changes: pl.DataFrame, level: Level) -> pl.DataFrame:
    """Kind and family of most of a mover's time, its status and why its names are one."""
    largest = changes.sort(pl.max_horizontal("before_ns", "after_ns"), descending=True, maintain_order=True)
    who = largest.group_by(_KEY, maintain_order=True).agg(
        pl.col("kind", "family", "status", "replaced_in").drop_nulls().first()
    )
    if level != "kernel":
        seen = [changes.filter(pl.col(f"{side}_raw_ns") + pl.col(f"{side}_num") > 0) for side in ("before", "after")]
        is_before, is_after = (pl.col("_name").is_in(each.get_column("_name").unique().implode()) for each in seen)
        status = pl.when(is_before & is_after | pl.col("_name").is_null()).then(pl.lit("both"))
        who = who.with_columns(status.when(is_after).then(pl.lit("new")).otherwise(pl.lit("gone")).alias("status"))
    return who


def _names(changes: pl.DataFrame, found: Sequence[Partners], level: Level) -> pl.DataFrame:
    """The names that the two runs have for a mover, and the rule that took them for one."""
    rules = pl.DataFrame(
        [(each.name, each.rule, each.before, each.after) for each in found],
        schema={
            level: pl.String(), "rule": pl.String(), "before": pl.List(pl.String()), "after": pl.List(pl.String())
        },
        orient="row",
    )  # fmt: skip
    rows = changes.join(rules, on=level, how="left")
    summary: list[pl.DataFrame] = []
    for side in ("before", "after"):
        own = rows.filter(pl.col(f"{side}_raw_ns") + pl.col(f"{side}_num") > 0, pl.col(level).is_not_null())
        own = own.group_by(*_KEY, level, maintain_order=True).agg(
            pl.col(f"{side}_ns").sum(), pl.col(side).first(), pl.col("rule").first()
        )
        own = own.sort(f"{side}_ns", level, descending=[True, False])
        own = own.with_columns(pl.coalesce(side, pl.concat_list(level)).alias(f"{side}_names"))
        summary.append(
            own.group_by(_KEY, maintain_order=True).agg(pl.col(f"{side}_names").explode(), pl.col("rule").first())
        )
    return summary[0].join(summary[1].drop("rule"), on=_KEY, how="full", coalesce=True, nulls_equal=True)


def _noise(diff: Diff, changes: pl.DataFrame, movers: pl.DataFrame) -> pl.Series:
    """Whether what each mover takes in the steps of the two runs differs by no more than it does within a run."""
    steps = []
    for side in (diff.before, diff.after):
        table = changes.select(*LABELS, *(pl.col(name) for name in _KEY if name not in LABELS))
        shares = side.shares.join(table, on=LABELS, how="left", nulls_equal=True)
        rows = replace(side, shares=shares).per_step(_KEY)
        rows = movers.select(_KEY).join(rows, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        steps.append(rows.drop(_KEY).fill_null(0).to_numpy())
    summary = are_noise(*steps, num_asked=movers.height + 1) if movers.height else None  # the span is asked with them
    return pl.Series("is_noise", [None] * movers.height if summary is None else summary, dtype=pl.Boolean)
