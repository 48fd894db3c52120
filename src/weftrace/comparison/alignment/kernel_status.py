"""Is a kernel that one run has in a place new there, moved there, or in another's place? Changes told apart."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from weftrace.comparison.exact_changes import effects_of

#: Columns that `with_status` adds to the changes.
STATUS_COLUMNS = ("status", "replacement", "replaced_in")

_KERNEL = ("part", "kind", "family", "kernel")
# Where work of one kernel may have moved from and to, the nearest first. Gaps before it may have another cause.
_PLACES = (
    (*_KERNEL, "cause", "phase"),
    (*_KERNEL, "cause", "operator"),
    (*_KERNEL, "cause"),
    (*_KERNEL, "operator", "phase"),
    _KERNEL,
)
_BEFORE, _AFTER = pl.col("before_num") + pl.col("before_raw_ns") > 0, pl.col("after_num") + pl.col("after_raw_ns") > 0


def with_status(changes: pl.DataFrame) -> pl.DataFrame:
    """Changes with what is of one side alone told apart; added are

    status: "both" where both runs have the kernel, if elsewhere; else "replaced" where an operator has kernels that
    only the one run has and others that only the other has, in one phase; else "new" or "gone".
    replacement: a number for kernels that are in each other's place, null for others; replaced_in: what they share,
    "operator and phase" or "operator".

    What a kernel that both runs have does in a place (operator, phase) of one run alone is no other kernel: work that
    moved from place to place is by_number_ns in both places, and between them its change is split as any other. So is
    that of gaps before kernels in each other's place. by_kernel_ns is left to kernels of one run alone, and to gaps
    before new ones and gone ones.
    """
    rows = changes.with_row_index("_row")
    known = [rows.filter(each).get_column("kernel").unique().implode() for each in (_BEFORE, _AFTER)]
    is_both = pl.col("kernel").is_in(known[0]) == pl.col("kernel").is_in(known[1])
    rows = _moved(rows.with_columns(is_both.fill_null(value=True).alias("_both")))
    status = pl.when("_both").then(pl.lit("both")).when(_AFTER).then(pl.lit("new")).otherwise(pl.lit("gone"))
    rows = _replaced(rows.with_columns(status.alias("status")))
    rows = _gaps_of_replaced(rows)
    return rows.sort("_row").select(*changes.columns, *STATUS_COLUMNS)


def _moved(rows: pl.DataFrame) -> pl.DataFrame:
    """Effects of what kernels of both runs do in places of one run alone."""
    alone = rows.filter("_both", _BEFORE != _AFTER).with_columns(
        by_number_ns="change_ns", by_kernel_ns=pl.lit(0, pl.Int64)
    )
    rest = rows.join(alone, on="_row", how="anti")
    of_both = pl.when("_both").then("by_kernel_ns").otherwise(0)  # no launch of it began here, yet it ran
    rest = rest.with_columns(pl.col("by_number_ns") + of_both, pl.col("by_kernel_ns") - of_both)
    return pl.concat([rest, *_split_where_both(alone, _PLACES)])


def _split_where_both(rows: pl.DataFrame, places: Sequence[Sequence[str]]) -> list[pl.DataFrame]:
    """Rows of one run each, split by effects in the first kind of place that both runs have; the others as they are."""
    done = []
    for place in places:
        if rows.is_empty():
            break
        sides = [rows.filter(each).select(place).unique() for each in (_BEFORE, _AFTER)]
        pairs = sides[0].join(sides[1], on=place, how="semi", nulls_equal=True)
        there = rows.join(pairs, on=place, how="semi", nulls_equal=True)
        rows = rows.join(there, on="_row", how="anti")
        done.append(_split(there, place))
    return [rows, *done]


def _split(rows: pl.DataFrame, place: Sequence[str]) -> pl.DataFrame:
    """The change of each place, as a whole, split by effects; they stand in the rows of the later run."""
    if rows.is_empty():
        return rows
    sums = ("before_ns", "after_ns", "before_num", "after_num", "before_raw_ns", "after_raw_ns")
    whole = effects_of(rows.group_by(place, maintain_order=True).agg(pl.col(sums).sum()))
    rows = rows.sort(*place, "_row", nulls_last=True)
    rows = rows.join(
        whole.select(*place, pl.col("by_duration_ns", "by_overlap_ns").name.prefix("_")),
        on=place, how="left", nulls_equal=True, maintain_order="left",
    )  # fmt: skip
    weight = pl.when(_AFTER).then(pl.col("after_ns").clip(1)).otherwise(0)
    reached = weight.cum_sum().over(place) / weight.sum().over(place)
    for name in ("by_duration_ns", "by_overlap_ns"):  # rounded where they are cumulated, they add up
        to = (pl.col(f"_{name}") * reached).round().cast(pl.Int64)
        rows = rows.with_columns((to - to.shift(1, fill_value=0).over(place)).alias(name))
    number = pl.col("change_ns") - pl.col("by_duration_ns") - pl.col("by_overlap_ns")
    return rows.with_columns(number.alias("by_number_ns")).drop("_by_duration_ns", "_by_overlap_ns")


def _gaps_of_replaced(rows: pl.DataFrame) -> pl.DataFrame:
    """A gap before a kernel in another's place is as a gap before that other: more of them, or longer ones."""
    gaps = rows.filter(pl.col("part") == "idle", pl.col("replacement").is_not_null())
    gaps = gaps.with_columns(by_number_ns="change_ns", by_kernel_ns=pl.lit(0, pl.Int64))
    rest = rows.join(gaps, on="_row", how="anti")
    return pl.concat([rest, *_split_where_both(gaps, (("part", "cause", "replacement"), ("part", "replacement")))])


def _replaced(rows: pl.DataFrame) -> pl.DataFrame:
    """Kernels of one run alone that launch from one operator stand in each other's place.

    Collectives of different families do different things, whatever launches them.
    """
    alone = rows.filter(pl.col("status") != "both", pl.col("operator").is_not_null(), pl.col("part") != "idle")
    family = pl.when(pl.col("kind") == "communication").then("family")
    left = alone.select("kernel", "operator", "phase", "kind", family, "status").unique(maintain_order=True).rows()
    phases = [set(rows.filter(each).get_column("phase").drop_nulls()) for each in (_BEFORE, _AFTER)]
    found: list[tuple[str, str, str | None, str]] = []
    together: list[list[str]] = []
    for summary in ("operator and phase", "operator"):
        places: dict[tuple[str | None, ...], list[tuple[str, str, str | None, str]]] = {}
        for kernel, operator, phase, kind, of_family, status in left:
            if summary == "operator and phase":
                places.setdefault((kind, of_family, operator, phase), []).append((kernel, operator, phase, status))
            elif phase not in phases[0] & phases[1]:
                places.setdefault((kind, of_family, operator), []).append((kernel, operator, phase, status))
        for members in places.values():
            if len({member[3] for member in members}) == 2:
                found += [(*member[:3], summary) for member in members]
                together.append([member[0] for member in members])
        done = {each[:3] for each in found}
        left = [row for row in left if row[:3] not in done]
    number = _components(together)
    schema = {"kernel": pl.String(), "operator": pl.String(), "phase": pl.String(), "replaced_in": pl.String()}
    table = pl.DataFrame(found, schema=schema, orient="row").unique(
        ["kernel", "operator", "phase"], maintain_order=True
    )
    table = table.with_columns(
        pl.Series("replacement", [number[kernel] for kernel in table.get_column("kernel")], dtype=pl.Int64)
    )
    rows = rows.join(table, on=["kernel", "operator", "phase"], how="left", nulls_equal=True)
    is_replaced = pl.col("replacement").is_not_null()
    return rows.with_columns(pl.when(is_replaced).then(pl.lit("replaced")).otherwise("status").alias("status"))


def _components(together: Sequence[Sequence[str]]) -> dict[str, int]:
    """Numbers from 0: names that stand together anywhere have one."""
    group: dict[str, list[str]] = {}
    for names in together:
        whole = list(dict.fromkeys(other for name in names for other in group.get(name, [name])))
        group |= dict.fromkeys(whole, whole)
    numbers: dict[int, int] = {}
    return {name: numbers.setdefault(id(whole), len(numbers)) for name, whole in group.items()}
