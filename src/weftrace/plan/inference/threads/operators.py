"""Which operator did a host thread prepare, in the time between two of its calls?"""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.threads.host import WORK
from weftrace.trace.work import Work


def named_by_operator(work: Work, host: pl.DataFrame) -> pl.DataFrame:
    """The ops of host threads, their work named by the outermost operator that was open as it ended, at the next call:
    "host work: aten::linear"; plain "host work" between operators, and where the file has none.

    host: frame of `HOST_OPS`.
    """
    threads = host.select("thread", "pid", "tid").drop_nulls().unique("thread")
    operators = (
        work.trace.events.select("cat", "pid", "tid", "ts_ns", "dur_ns", operator="name")
        .filter(pl.col("cat") == "cpu_op")
        .select("pid", "tid", "ts_ns", "operator", until_ns=pl.col("ts_ns") + pl.col("dur_ns"))
        .join(threads, on=("pid", "tid"))
        .sort("thread", "ts_ns", "until_ns", descending=[False, False, True])
    )
    covered_ns = pl.col("until_ns").cum_max().shift(1).over("thread")
    outermost = operators.filter(covered_ns.is_null() | (pl.col("ts_ns") >= covered_ns)).drop("pid", "tid")
    outermost = outermost.with_columns(pl.col("operator").cast(pl.String))
    ends = host.select("thread", at_ns=pl.col("end_ns") - 1).with_row_index("place").sort("at_ns")
    found = ends.join_asof(
        outermost.sort("ts_ns"), left_on="at_ns", right_on="ts_ns", by="thread", check_sortedness=False
    ).sort("place")  # fmt: skip
    operator = found.select(pl.when(pl.col("at_ns") < pl.col("until_ns")).then("operator")).to_series()
    is_named = (pl.col("name") == WORK) & operator.is_not_null()
    return host.with_columns(pl.when(is_named).then(pl.lit(f"{WORK}: ") + operator).otherwise("name").alias("name"))
