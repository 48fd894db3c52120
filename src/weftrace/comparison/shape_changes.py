"""Which operator became slower at the same work, and which does other work? Calls of one operator, shapes and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, TypedDict, cast

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.efficiency.values import STEP_SHAPES
from weftrace.comparison.noise import are_noise
from weftrace.comparison.sides import Side
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Amount
from weftrace.units import duration, signed, signed_duration

#: Rows that a comparison holds, those that changed most.
MOST_ROWS = 400
_KEY = ("operator", "shapes", "dtype")
_MOST_TOLD = 3
_WORTH = 0.01  # of the time of a call: by less, it is as fast
_SEEN = 0.0005  # of the time of all operators: of less nothing is said
_UNSURE = 0.05  # the same where one step tells nothing of noise

Status = Literal["both", "new", "gone"]


class ShapeChangeRow(TypedDict):
    """Calls of one operator with the same shapes and dtype, in a step, mean over the steps that count and the ranks."""

    operator: Annotated[str, Shown(wide=True)]
    shapes: Annotated[str, Meta(description="Sizes of its input tensors."), Shown(wide=True)]
    dtype: str
    status: Annotated[Status, Meta(description="Whether both runs have these shapes.")]
    before_ns: Annotated[int, Meta(description="Device time in a step, of each call the union of its events.")]
    after_ns: int
    change_ns: int
    before_num: Annotated[Amount, Meta(description="Calls in a step.")]
    after_num: Amount
    before_call_ns: Annotated[Amount | None, Meta(description="Of a call, mean; null if there is none.")]
    after_call_ns: Amount | None
    by_duration_ns: Annotated[
        int,
        Meta(description="Of change_ns, what calls that take longer or shorter make: the rest is their number."),
        Shown("by speed", term="by_speed"),
    ]
    is_noise: Annotated[
        bool | None,
        Meta(description="Whether a call's time differs by no more than steps of one run do; null if that is "
             "not known: of one step, or of a saved report."),
    ]  # fmt: skip


def shape_changes(before: Side, after: Side) -> pl.DataFrame:
    """A frame of `ShapeChangeRow`, the largest change first; empty where a run has no operators with shapes."""
    if not before.ranks or any(rank.shapes is None for side in (before, after) for rank in side.ranks):
        return pl.DataFrame(schema=frame_schema(ShapeChangeRow))
    by_step = all(side.steady.steps and not _is_saved(side) for side in (before, after))
    one, other = (_calls(side, by_step=by_step) for side in (before, after))
    rows = _sums(one, before, "before", by_step).join(
        _sums(other, after, "after", by_step), on=_KEY, how="full", coalesce=True, maintain_order="left_right"
    )
    rows = rows.with_columns(
        pl.when(pl.col("after_num").is_null()).then(pl.lit("gone")).when(pl.col("before_num").is_null())
        .then(pl.lit("new")).otherwise(pl.lit("both")).alias("status"),
        pl.col("before_ns", "after_ns", "before_num", "after_num").fill_null(0),
    )  # fmt: skip
    longer = pl.col("after_call_ns") - pl.col("before_call_ns")
    rows = rows.with_columns(
        pl.col("before_ns", "after_ns").round().cast(pl.Int64),
        (longer * (pl.col("before_num") + pl.col("after_num")) / 2).round().fill_null(0).alias("by_duration_ns"),
    ).with_columns((pl.col("after_ns") - pl.col("before_ns")).alias("change_ns"))
    rows = rows.join(_noise(one, other, before, after) if by_step else _NO_NOISE, on=_KEY, how="left")
    rows = rows.sort(pl.col("change_ns").abs(), *_KEY, descending=[True, False, False, False])
    return rows.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(ShapeChangeRow).items())


_NO_NOISE = pl.DataFrame(schema={**dict.fromkeys(_KEY, pl.String), "is_noise": pl.Boolean})


def _is_saved(side: Side) -> bool:
    return any(rank.saved is not None for rank in side.ranks)


def _calls(side: Side, *, by_step: bool) -> pl.DataFrame:
    """Calls by shapes and step of all ranks."""
    every = pl.concat([rank.shapes for rank in side.ranks if rank.shapes is not None] or [_NOTHING])
    if not by_step:
        return every.with_columns(pl.lit(None, dtype=pl.Int64).alias("step"))
    return every.filter(pl.col("step").is_in(side.steady.steps))


_NOTHING = pl.DataFrame(schema=STEP_SHAPES)


def _sums(calls: pl.DataFrame, side: Side, name: str, by_step: bool) -> pl.DataFrame:
    """Of each shape time and calls in a step of a rank, and the time of a call."""
    cells = side.num_cells if by_step else sum(max(1, rank.windows.height) for rank in side.ranks)
    busy, num = pl.col("busy_ns").sum(), pl.col("num_calls").sum()
    return calls.group_by(_KEY, maintain_order=True).agg(
        (busy / cells).alias(f"{name}_ns"), (num / cells).alias(f"{name}_num"), (busy / num).alias(f"{name}_call_ns")
    )


def _noise(one: pl.DataFrame, other: pl.DataFrame, before: Side, after: Side) -> pl.DataFrame:
    """Of the shapes that are called in each step of both, whether a call's time changed by no more than noise."""
    keys = [_in_all(calls, side).select(_KEY) for calls, side in ((one, before), (other, after))]
    asked = keys[0].join(keys[1], on=_KEY, how="semi")
    times = [_per_call(calls, asked, side) for calls, side in ((one, before), (other, after))]
    found = are_noise(*times) if asked.height else None
    return _NO_NOISE if found is None else asked.with_columns(pl.Series("is_noise", found))


def _in_all(calls: pl.DataFrame, side: Side) -> pl.DataFrame:
    steps = calls.group_by(_KEY, maintain_order=True).agg(pl.col("step").n_unique())
    return steps.filter(pl.col("step") == side.num_steps)


def _per_call(calls: pl.DataFrame, asked: pl.DataFrame, side: Side) -> NDArray[np.float64]:
    """Time of a call of each shape in each step: [shapes, steps]."""
    sums = calls.join(asked.with_row_index("at"), on=_KEY).group_by("at", "step").agg(
        pl.col("busy_ns").sum() / pl.col("num_calls").sum()
    )  # fmt: skip
    of_step = {step: at for at, step in enumerate(side.steady.steps)}
    values = np.zeros((asked.height, side.num_steps))
    steps = sums.get_column("step").replace_strict(of_step, return_dtype=pl.Int64).to_numpy()
    values[sums.get_column("at").to_numpy(), steps] = sums.get_column("busy_ns").to_numpy()
    return values


# --- in words ---------------------------------------------------------------------------------------------------------


def shape_sentences(rows: Sequence[ShapeChangeRow], each: str = "a step") -> list[str]:
    """Which shapes became slower at the same work, and which faster; then which operators run with other shapes.
    each: of what times are told."""
    return [*_speed_sentences(rows, each), *_other_shapes(rows, each)]


def _speed_sentences(rows: Sequence[ShapeChangeRow], each: str) -> Iterator[str]:
    least_ns = _SEEN * sum(row["before_ns"] for row in rows)
    sure = (row for row in rows if _is_sure(row) and abs(row["by_duration_ns"]) >= least_ns)
    changed = sorted(sure, key=lambda row: -abs(row["by_duration_ns"]))
    for word, sign in (("slower", 1), ("faster", -1)):
        found = [row for row in changed if row["by_duration_ns"] * sign > 0]
        if found:
            left = len(found) - _MOST_TOLD
            more = f"; and {left:,} more" if left > 0 else ""
            told = "; ".join(_speed(row, each) for row in found[:_MOST_TOLD])
            unsure = " Of one step, noise is not known." if found[0]["is_noise"] is None else ""
            yield f"At the same work {word}: {told}{more}.{unsure}"


def _is_sure(row: ShapeChangeRow) -> bool:
    """Whether a call takes another time, beyond noise."""
    before, after = row["before_call_ns"], row["after_call_ns"]
    if not before or after is None or row["is_noise"]:
        return False
    return abs(after - before) >= before * (_UNSURE if row["is_noise"] is None else _WORTH)


def _speed(row: ShapeChangeRow, each: str) -> str:
    before, after = cast(float, row["before_call_ns"]), cast(float, row["after_call_ns"])
    of_call = f"{duration(before)} → {duration(after)} a call, {signed(after / before - 1)}"
    return (
        f"{row['operator']} {row['shapes']}".rstrip() + f" ({of_call}, {signed_duration(row['by_duration_ns'])} {each})"
    )


def _other_shapes(rows: Sequence[ShapeChangeRow], each: str) -> Iterator[str]:
    by_operator: dict[str, list[ShapeChangeRow]] = {}
    for row in rows:
        if row["status"] != "both":
            by_operator.setdefault(row["operator"], []).append(row)
    found = []
    for operator, own in by_operator.items():
        sides = [[row for row in own if row["status"] == status] for status in ("gone", "new")]
        if all(sides):
            found.append((sum(row["change_ns"] for row in own), operator, sides))
    found.sort(key=lambda each: -max(sum(row["before_ns"] + row["after_ns"] for row in side) for side in each[2]))
    for change_ns, operator, (gone, new) in found[:_MOST_TOLD]:
        change = f"{signed_duration(change_ns)} {each}"
        yield f"{operator} does other work: {_named(new)} instead of {_named(gone)}, {change}."
    if (left := len(found) - _MOST_TOLD) > 0:
        yield f"{left:,} more operators run with other shapes."


def _named(rows: Sequence[ShapeChangeRow]) -> str:
    """The shapes with most time, and how many more."""
    first = max(rows, key=lambda row: row["before_ns"] + row["after_ns"])
    more = f" and {len(rows) - 1:,} more" if len(rows) > 1 else ""
    return f"{first['shapes'] or 'no tensors'} {first['dtype']}".rstrip() + more


def shape_rows(before: Side, after: Side) -> list[ShapeChangeRow]:
    """The rows of `shape_changes` that a document holds."""
    rows: list[dict[str, Any]] = shape_changes(before, after).head(MOST_ROWS).to_dicts()
    return cast(list[ShapeChangeRow], rows)
