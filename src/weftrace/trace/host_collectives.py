"""Which records of the host are one collective, for a run without device events.

A collective leaves several: the operator that the program called (`c10d::allreduce_`), the record of its parameters
(`record_param_comms`) and the range of the backend that runs it (`gloo:all_reduce`), one within the other or, where the
backend has threads of its own, the last beside the others.
"""

from __future__ import annotations

import polars as pl

from weftrace.trace.containment import METADATA
from weftrace.trace.kernels import HOST_FAMILY

_IS_OPERATOR = pl.col("cat") == "cpu_op"
_BEFORE_ALL = -(1 << 63)


def one_each(records: pl.DataFrame) -> pl.DataFrame:
    """A row a collective: from the start of its outermost record to its last end.

    records: communication on the host, with stream (a thread), start_ns, end_ns, class and metadata; a range that a
    user named (no rule of c10d or a backend knows it) is a phase and none of them. What the collective is, the
    innermost record that names one says; metadata is that of any.
    Adds launch_ts_ns, launch_pid, launch_tid: of the operator that issued it, where the backend ran it on another
    thread. That operator is then a launch, not a collective.
    """
    records = records.filter(_IS_OPERATOR | (pl.col("family") == HOST_FAMILY))
    merged = _merged(records)
    issued = _issued(merged)
    return (
        merged.join(issued, left_on="row", right_on="operator", how="anti", maintain_order="left")
        .join(issued, on="row", how="left", maintain_order="left")
        .select(*records.columns, "launch_ts_ns", "launch_pid", "launch_tid")
    )


def _merged(records: pl.DataFrame) -> pl.DataFrame:
    """Records that begin within an operator of their thread are part of it. A range may outlast it: asynchronous."""
    records = records.sort(
        "stream", "start_ns", _IS_OPERATOR, "end_ns", "row", descending=[False, False, True, True, False]
    )
    reach = pl.when(_IS_OPERATOR).then("end_ns").otherwise(_BEFORE_ALL).cum_max().shift(1).over("stream")
    begins = (pl.col("start_ns") >= reach).fill_null(True)
    named = pl.col("collective").is_not_null()
    by_name = ("name", "kind", "family", "rule", "collective", "role")
    parts = records.with_columns(begins.cum_sum().over("stream").alias("part"))
    return parts.group_by("stream", "part", maintain_order=True).agg(
        pl.col("end_ns").max(),
        *(pl.coalesce(pl.col(column).filter(named).last(), pl.col(column).first()).alias(column) for column in by_name),
        *(pl.col(column).drop_nulls().last() for column in (*METADATA, "sized_by") if column not in by_name),
        *(
            pl.col(column).first()
            for column in records.columns
            if column not in {"stream", "end_ns", *by_name, *METADATA, "sized_by"}
        ),
        _IS_OPERATOR.all().alias("is_operator"),
    )


def _issued(merged: pl.DataFrame) -> pl.DataFrame:
    """Ranges of a backend's threads and the operators that asked for them: row, operator (its row), launch_*.

    A backend runs collectives of a kind in the order in which they were asked for.
    """
    pairs: list[tuple[int, int, int, str, str]] = []
    for (_,), mine in merged.filter(pl.col("collective").is_not_null()).group_by("collective", maintain_order=True):
        operators = mine.filter("is_operator").sort("start_ns").select("row", "start_ns", "pid", "tid").rows()
        following = 0
        for row, start in (
            mine.filter(pl.col("cat") == "user_annotation").sort("start_ns").select("row", "start_ns").rows()
        ):
            if following < len(operators) and operators[following][1] <= start:
                pairs.append((row, *operators[following]))
                following += 1
    schema = {
        "row": pl.UInt32(), "operator": pl.UInt32(), "launch_ts_ns": pl.Int64(),
        "launch_pid": pl.Categorical(), "launch_tid": pl.Categorical(),
    }  # fmt: skip
    return pl.DataFrame(pairs, schema=schema, orient="row")
