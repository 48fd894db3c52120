"""Which host call launched each device event.

Joined by correlation id; then by External id, flow arrow and CUDA graph, for what correlation cannot join. A device
event that nothing joins stays in every time account and is counted as unlinked.
"""

from __future__ import annotations

import polars as pl

from weftrace.trace.model import is_launch

_FOUND = ("row", "launch_ts_ns", "launch_dur_ns", "launch_pid", "launch_tid")


def link_launches(events: pl.DataFrame, device_rows: pl.DataFrame) -> pl.DataFrame:
    """Launch of each device event.

    events: a trace's events with their `row` number. device_rows: the device events among them.
    Returns `device_rows` with launch_ts_ns, launch_dur_ns (ns, of the host call), launch_pid, launch_tid and
    link ("correlation", "external id", "flow", "graph"; null where nothing joins).
    """
    found: list[pl.DataFrame] = []
    left = device_rows.select("row", "correlation", "external_id", "flow_id", "graph_id", "ts_ns")
    wanted = pl.col("correlation").is_in(left.get_column("correlation").implode())
    left = _note(found, left, _by_correlation(left, _launches(events, wanted)), "correlation")
    if not left.is_empty():
        launches = _launches(events, pl.lit(True))
        left = _note(found, left, _by_external_id(left, launches), "external id")
        left = _note(found, left, _by_flow(left, launches), "flow")
        left = _note(found, left, _by_graph(left, launches, device_rows, found), "graph")
    schema = {
        "row": pl.UInt32(), "launch_ts_ns": pl.Int64(), "launch_dur_ns": pl.Int64(),
        "launch_pid": pl.Categorical(), "launch_tid": pl.Categorical(), "link": pl.String(),
    }  # fmt: skip
    links = pl.concat(found) if found else pl.DataFrame(schema=schema)
    return device_rows.join(links, on="row", how="left", maintain_order="left")


def _note(found: list[pl.DataFrame], left: pl.DataFrame, linked: pl.DataFrame, link: str) -> pl.DataFrame:
    """Append what one way of joining found; what is left for the next."""
    if linked.is_empty():
        return left
    found.append(linked.select(_FOUND).with_columns(pl.lit(link).alias("link")))
    return left.join(linked, on="row", how="anti")


def _launches(events: pl.DataFrame, wanted: pl.Expr) -> pl.DataFrame:
    """Calls of the runtime that meet a condition. Rows are chosen before columns are copied: there are many calls."""
    rows = events.select((is_launch() & wanted).fill_null(False).arg_true()).to_series()
    return events.select(
        "correlation",
        "external_id",
        "flow_id",
        "name",
        pl.col("ts_ns").alias("launch_ts_ns"),
        pl.col("dur_ns").alias("launch_dur_ns"),
        pl.col("pid").alias("launch_pid"),
        pl.col("tid").alias("launch_tid"),
    )[rows]


def _by_correlation(left: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    calls = launches.filter(pl.col("correlation") > 0).unique("correlation", keep="first", maintain_order=True)
    return left.filter(pl.col("correlation") > 0).select("row", "correlation").join(calls, on="correlation")


def _by_external_id(left: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The id is the operator's: it tells the launch only where the operator made one."""
    calls = launches.filter(pl.col("external_id") > 0, _starts_work())
    calls = calls.filter(pl.len().over("external_id") == 1)
    return left.filter(pl.col("external_id") > 0).select("row", "external_id").join(calls, on="external_id")


def _by_flow(left: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    calls = launches.filter(pl.col("flow_id").is_not_null()).unique("flow_id", keep="first", maintain_order=True)
    return left.filter(pl.col("flow_id").is_not_null()).select("row", "flow_id").join(calls, on="flow_id")


def _by_graph(
    left: pl.DataFrame, launches: pl.DataFrame, device_rows: pl.DataFrame, found: list[pl.DataFrame]
) -> pl.DataFrame:
    """The last launch of a graph before the event: one that joined a sibling in the same graph, else any."""
    nodes = left.filter(pl.col("graph_id").is_not_null()).select("row", "graph_id", "ts_ns").sort("ts_ns")
    if nodes.is_empty():
        return nodes
    calls = launches.filter(pl.col("name").cast(pl.String).str.contains("GraphLaunch")).sort("launch_ts_ns")
    linked = []
    if found:
        siblings = (
            pl.concat(found)
            .join(device_rows.select("row", "graph_id").drop_nulls(), on="row")
            .unique(("graph_id", "launch_ts_ns"), keep="first", maintain_order=True)
            .drop("row", "link")
            .sort("launch_ts_ns")
        )
        near = nodes.join_asof(
            siblings, left_on="ts_ns", right_on="launch_ts_ns", by="graph_id", check_sortedness=False
        )
        linked.append(near.filter(pl.col("launch_ts_ns").is_not_null()).select(_FOUND))
        nodes = nodes.join(linked[0], on="row", how="anti", maintain_order="left")
    near = nodes.join_asof(calls, left_on="ts_ns", right_on="launch_ts_ns")
    linked.append(near.filter(pl.col("launch_ts_ns").is_not_null()).select(_FOUND))
    return pl.concat(linked)


def _starts_work() -> pl.Expr:
    """Runtime calls that put work on a device, and not those that query, wait or set attributes."""
    return pl.col("name").cast(pl.String).str.contains(r"(?i)launch|memcpy|memset")


def in_graphs(linked: pl.DataFrame, events: pl.DataFrame) -> pl.Series:
    """Whether each device event ran in a graph (CUDA, HIP): launched by a call that replays one, or numbered as of one.

    linked: device events with row, launch_ts_ns, launch_pid, launch_tid. events: the trace's events.
    """
    calls = events.select("cat", "name", "pid", "tid", "ts_ns").filter(is_launch())
    numbered = events.get_column("graph_id").gather(linked.get_column("row")).is_not_null()
    names = calls.get_column("name").unique()
    names = names.filter(names.cast(pl.String).str.contains("GraphLaunch"))
    if names.is_empty():
        return numbered.alias("is_graph")
    calls = calls.filter(pl.col("name").is_in(names.implode()))
    replays = calls.select(pl.col("pid", "tid", "ts_ns").name.prefix("launch_")).unique()
    launch = ["launch_pid", "launch_tid", "launch_ts_ns"]
    replayed = linked.select("row", *launch).join(replays, on=launch, how="semi").get_column("row")
    return (numbered | linked.get_column("row").is_in(replayed.implode())).alias("is_graph")
