"""Replays of CUDA and HIP graphs, of which one call launches many kernels: since when, and are all in the file?"""

from __future__ import annotations

import polars as pl

from weftrace.plan.inference.streams.launches import MOST_LATENCY_NS, with_calls
from weftrace.trace.model import is_launch, on_device
from weftrace.trace.work import Work

_LAUNCH = r"GraphLaunch"
_ANY_LAUNCH = r"GraphLaunch|^(cuda|cu|hip)(Ext)?(Module)?Launch(Cooperative)?Kernel"
#: Where nodes have no number: a replay with fewer than this share of the kernels of its fullest lacks some.
FEWEST = 0.9
#: Of calls that launch a kernel, so many may have none in the file: the last are still to run as a recording ends.
MOST_LOST = 0.01


def graph_latency_ns(ops: pl.DataFrame, calls: pl.DataFrame, latency_ns: int) -> int:
    """From the start of a call that replays a graph to the start of its first kernel: kernels of a graph start while
    their call is still putting the others there. The median over replays whose stream was free; where none was, that of
    an ordinary launch: its call, the median, and its latency.

    ops: of `device_ops`. calls: of `host_calls`. latency_ns: of an ordinary launch.
    """
    free_ns = pl.col("end_ns").shift(1).over("stream")
    summary = with_calls(ops.with_columns(free_ns=free_ns), calls)
    first = summary.filter("in_graph").unique("call", keep="first", maintain_order=True)
    first = first.filter(pl.col("free_ns") <= pl.col("call_start_ns"))
    after = first.select(pl.col("start_ns") - pl.col("call_start_ns")).to_series()
    after = after.filter(after.is_between(0, MOST_LATENCY_NS))
    if len(after):
        return int(after.median())  # type: ignore[arg-type]
    usual = calls.filter(pl.col("what") == "launch", ~pl.col("name").str.contains(_LAUNCH))
    usual_ns = usual.select((pl.col("end_ns") - pl.col("start_ns")).median()).item() or 0
    return max(0, int(usual_ns) + latency_ns)


def missing_kernels(work: Work, ops: pl.DataFrame) -> list[str]:
    """Notes on launches, of graphs and others, of which kernels are not in the file. ops: of `device_ops`."""
    return [*_without_kernels(work, ops), *_with_few(work, ops)]


def _without_kernels(work: Work, ops: pl.DataFrame) -> list[str]:
    """Launches of graphs, and of single kernels, of which no device of the trace has anything."""
    events = work.trace.events.select("cat", "name", "pid", "tid", "ts_ns", "correlation")
    names = events.get_column("name").unique()
    launches = names.filter(names.cast(pl.String).str.contains(_ANY_LAUNCH)).implode()
    calls = events.filter(is_launch() & pl.col("name").is_in(launches))
    ran = events.filter(on_device()).get_column("correlation").drop_nulls().unique().implode()
    empty = calls.filter(~pl.col("correlation").is_in(ran).fill_null(False)).join(
        ops, left_on=("pid", "tid", "ts_ns"), right_on=("launch_pid", "launch_tid", "launch_ts_ns"), how="anti"
    )
    of_graphs = pl.col("name").cast(pl.String).str.contains(_LAUNCH)
    summary = []
    for what, which, most in (("graphs", of_graphs, 0.0), ("kernels", ~of_graphs, MOST_LOST)):
        num_empty, num_calls = empty.filter(which).height, calls.filter(which).height
        if num_empty > most * num_calls:
            summary.append(
                f"{num_empty:,} of {num_calls:,} launches of {what} have no kernel in the file: what they ran is "
                "missing here, and what came after it starts too early."
            )
    return summary


def _with_few(work: Work, ops: pl.DataFrame) -> list[str]:
    """Replays of one graph should have the same nodes; where these have no number, about as many kernels. A graph
    without a number is told by its first kernel."""
    launch = ("launch_pid", "launch_tid", "launch_ts_ns")
    node = work.trace.events.get_column("graph_node_id").gather(ops.get_column("row"))
    kernels = ops.with_columns(node.alias("node")).drop_nulls("launch_ts_ns")
    kernels = kernels.filter(pl.col("graph_id").is_not_null() | (pl.len().over(launch) > 1))
    replays = (
        kernels.sort("start_ns", maintain_order=True)
        .group_by(launch, maintain_order=True)
        .agg(
            pl.col("graph_id").first(), pl.col("name").first(), pl.len(), pl.col("node").n_unique().alias("nodes"),
            pl.col("node").null_count().alias("unnumbered"),
        )
        .with_columns(pl.when(pl.col("graph_id").is_null()).then("name").alias("name"))
    )  # fmt: skip
    most = pl.col("len").max().over("graph_id", "name")
    nodes = pl.col("nodes").max().over("graph_id", "name")
    numbered = pl.col("unnumbered") == 0
    few = pl.when(numbered).then(pl.col("nodes") < nodes).otherwise(pl.col("len") < most * FEWEST)
    summary = replays.with_columns(most=most, few=few)
    short = summary.filter("few")
    if short.is_empty():
        return []
    worst = short.row(short.select((pl.col("len") / pl.col("most")).arg_min()).item(), named=True)
    return [
        f"{short.height:,} of {summary.height:,} replays of graphs have fewer kernels in the file than others of the "
        "same "
        f"graph, at the least {worst['len']:,} of {worst['most']:,}: what is missing is missing here too."
    ]
