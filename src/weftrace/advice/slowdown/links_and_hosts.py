"""Whose transfers are slow, and whose host is late?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.slowdown.found import BY_ONE, FEWEST_STEPS, OFTEN, Found, in_steps
from weftrace.units import duration

_AS_LONG = 0.15  # by which stops may differ that are as long each time
_A_STOP = 0.3  # of the longest stops of hosts: what is as long is one too
_FEWEST_STOPS = 4
_SLOW_LINK = 1.3  # times the transfers of its peers
_MOST_ONCE = 0.8  # of what a host loses that is lost in one step: then it happened once


def slow_links(rows: pl.DataFrame) -> Iterator[Found]:
    """Groups of ranks whose transfers take longer than those of other groups of that type."""
    mine = rows.filter(pl.col("pace") == "transfer", pl.col("group").is_not_null())
    if mine.is_empty():
        return
    typical = pl.col("duration_ns").median()
    groups = mine.group_by("type", "group").agg(typical, pl.len().alias("num"))
    lower = pl.col("duration_ns").quantile(0.5, interpolation="lower").over("type")
    groups = groups.with_columns(
        (pl.col("duration_ns") / lower.clip(lower_bound=1)).alias("ratio"), lower.alias("like_ns"),
        pl.len().over("type").alias("num_groups"),
    )  # fmt: skip
    slow = groups.filter(pl.col("num_groups") > 1, pl.col("ratio") >= _SLOW_LINK)
    if slow.is_empty():
        return
    total = slow.group_by("group").agg(
        ((pl.col("duration_ns") - pl.col("like_ns")) * pl.col("num")).sum().alias("lost"), pl.col("ratio").max(),
        pl.col("type").sort_by("ratio").last(),
    )  # fmt: skip
    total = total.sort("lost", descending=True)
    worst = total.filter(pl.col("lost") >= 0.3 * pl.col("lost").max()).head(8)
    joined = rows.join(slow.select("type", "group", "ratio"), on=("type", "group"), how="left", maintain_order="left")
    is_slow = (pl.col("pace") == "transfer") & pl.col("ratio").is_not_null()
    repaired = (
        joined.select(pl.col("duration_ns") / pl.when(is_slow).then("ratio").otherwise(1.0)).to_series().to_numpy()
    )
    members: list[int] = []
    for group in worst.get_column("group").head(2).to_list():
        members += [
            at for at in sorted(mine.filter(group=group).get_column("at").unique().to_list()) if at not in members
        ]
    yield Found(
        kind="slow link",
        repaired_ns=repaired,
        ranks=tuple(members),
        ratio=(float(worst.item(0, "ratio")),),
        evidence=str(worst.item(0, "type")),
        details={"groups": float(worst.height)},
    )


def host_collections(rows: pl.DataFrame) -> Iterator[Found]:
    """Long stops of hosts, now at one rank and now at another: Python's garbage collector ran there, or something as
    rare. A rank that stops before the same work in each step, as long each time, has a late host instead."""
    lost = pl.col("duration_ns") - pl.col("ideal_ns")
    mine = rows.filter(pl.col("pace") == "host").with_columns(lost.alias("lost")).filter(pl.col("lost") > 0)
    long = mine.filter(pl.col("lost") >= _A_STOP * pl.col("lost").quantile(0.99, interpolation="lower"))
    num_steps = rows.get_column("step").n_unique()
    like = pl.col("lost").median().over("at", "type")
    is_alike = (pl.col("lost") - like).abs() <= _AS_LONG * like
    is_regular = is_alike & (is_alike.sum().over("at", "type") >= max(2.0, OFTEN * num_steps))
    long = long.with_columns(is_regular.alias("is_regular"))
    regular = float(long.filter("is_regular").get_column("lost").median() or 0)  # type: ignore[arg-type]
    single = long.filter(~pl.col("is_regular"), pl.col("lost") > 1.3 * regular)
    counts = single.get_column("at").value_counts().get_column("count").to_numpy()
    if len(counts) < 2 or single.height < _FEWEST_STOPS or counts.max() > BY_ONE * single.height:
        return
    in_step = single.group_by("step").agg(pl.col("at").n_unique()).get_column("at").to_numpy()
    if 2 * in_step.max() > rows.get_column("at").n_unique() and in_step.max() >= BY_ONE * single.height:
        return  # all stop at once
    values = rows.get_column("duration_ns").to_numpy().copy()
    values[single.get_column("row").to_numpy()] = single.get_column("ideal_ns").to_numpy()
    extra = float(single.get_column("lost").median() or 0)  # type: ignore[arg-type]
    yield Found(
        kind="garbage collection",
        repaired_ns=values,
        evidence=f"{single.height:,} stops at {len(counts):,} ranks, {duration(extra)} each in the median",
        details={"extra": extra, "num": float(single.height), "ranks": float(len(counts)), "are_hosts": 1.0},
    )


def late_hosts(rows: pl.DataFrame, *, are_ranges: bool) -> Iterator[Found]:
    """Ranks whose host takes longer than its peers' before the same work."""
    mine = rows.filter(pl.col("pace") == "host")
    if mine.is_empty():
        return
    lost = mine.group_by("at").agg((pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost"))
    lost = lost.sort("lost", descending=True)
    most = float(lost.item(0, "lost"))
    if most <= 0:
        return
    late = lost.filter(pl.col("lost") >= 0.5 * most).get_column("at").to_list()
    is_host = (rows.get_column("pace") == "host").to_numpy()
    values = np.where(is_host, rows.get_column("ideal_ns").to_numpy(), rows.get_column("duration_ns").to_numpy())
    worst = mine.filter(pl.col("at") == late[0]).group_by("type").agg(
        (pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost")
    ).sort("lost", descending=True)  # fmt: skip
    steps = mine.filter(pl.col("at") == late[0]).group_by("step").agg(
        (pl.col("duration_ns") - pl.col("ideal_ns")).sum().alias("lost")
    ).sort("step")  # fmt: skip
    all_steps = np.sort(rows.get_column("step").unique().to_numpy())
    by_step = dict(steps.iter_rows())
    amounts = np.array([by_step.get(step, 0.0) for step in all_steps])
    sums = np.cumsum(amounts[::-1])[::-1]
    first = int(np.argmax(sums / np.sqrt(len(sums) - np.arange(len(sums)))))
    before = amounts[:first].mean() if first else amounts.mean()
    is_later = first > 0 and before < 0.5 * amounts[first:].mean()
    once = int(np.argmax(amounts))
    is_once = len(amounts) >= FEWEST_STEPS and amounts[once] >= _MOST_ONCE * amounts.sum()
    ranks = late if 2 * len(late) <= rows.get_column("at").n_unique() else []
    own, whose = rows.get_column("duration_ns").to_numpy(), rows.get_column("at")
    yield Found(
        kind="late host",
        repaired_ns=values,
        ranks=tuple(int(at) for at in ranks),
        each=tuple(np.where((whose == at).to_numpy(), values, own) for at in ranks) if len(ranks) > 1 else (),
        first_step=int(all_steps[first]) if is_later and not is_once else None,
        evidence=str(worst.item(0, "type")).replace("between ranges", "between operations"),
        details={
            "lost": float(amounts[once]) if is_once else most / max(1, len(all_steps)),
            "are_ranges": float(are_ranges),
            **({"when": in_steps([int(all_steps[once])], all_steps)} if is_once else {}),
        },
    )
