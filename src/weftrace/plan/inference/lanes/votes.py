"""What else did a range wait for? Ends on other lanes of its rank just before it began, where that repeats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.lanes.ops import Grain, Voters

_EXPLAINS = 0.1  # of how late it is, or twice as little as counts: a cause leaves less unexplained
_SURELY = 0.95  # of the votes are for the n-th
_LEAST = 2  # times that a name was held by another
_SHARE = 0.2  # of the times that it was late
_AT_ONCE = 0.05  # of how late it is: one that began that soon after another ended waited for it, though it is once
_IN_ORDER = 0.8  # of the votes are for one that is as many steps and places away: then it is so for all

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """By when each op could begin, by what is known: ready_ns, [ops]; late_ns, how much later it began, [ops].

    Of a meeting whose ranges show the transfer alone, only the member that was ready last is late. since_ready_ns: how
    much later each member began, waiting for the others included.
    """

    ready_ns: _Ints
    late_ns: _Ints
    since_ready_ns: _Ints


def ready_of(ops: pl.DataFrame, waits: pl.DataFrame, since_ns: _Ints) -> Ready:
    """ops: of `ops.OPS`, in order of start. waits: rows op, on. since_ns: of each op, before which it cannot begin."""
    start, end = (ops.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    before = ops.select(pl.col("end_ns").cum_max().shift(1).over("at", "lane")).to_series()
    ready = np.maximum(since_ns, before.fill_null(np.iinfo(np.int64).min).to_numpy())
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    np.maximum.at(ready, op, end[on])
    since_ready = np.maximum(start - ready, 0)
    late = np.where(_is_last(ops, since_ready), since_ready, 0)
    return Ready(ready_ns=ready, late_ns=late, since_ready_ns=since_ready)


def _is_last(ops: pl.DataFrame, waited_ns: _Ints) -> NDArray[np.bool_]:
    """Of each op whether its start tells when it came: of a meeting that shows the transfer alone, the member that
    waited least."""
    frame = ops.select("meet", "begins_meeting").with_columns(waited=pl.Series(waited_ns), row=pl.int_range(pl.len()))
    hidden = frame.filter(~pl.col("begins_meeting"))
    last = hidden.sort("waited", "row").unique("meet", keep="first", maintain_order=True)
    found = ops.get_column("begins_meeting").to_numpy().copy()
    found[last.get_column("row").to_numpy()] = True
    return found


def voted(ops: pl.DataFrame, ready: Ready, grain: Grain, by: Voters) -> pl.DataFrame:
    """Rows `op`, `on`, votes_for and votes_against: names that repeatedly began as others on other lanes ended.

    by: who votes together: ops of one name; of one name at one place in the step; or of one name, of which on a rank
    the n-th waits for the n-th of another name, and nothing else is told.
    """
    rows = ops.select("at", "lane", "event", "step", "start_ns", "end_ns", pl.col("name").cast(pl.String)).with_columns(
        row=pl.int_range(pl.len()), late=pl.Series(ready.since_ready_ns)
    )
    part_of = ("at", "name") if by == "order" else ("at", "step", "name")
    rows = rows.with_columns(  # parts of what was cut are in one place
        (pl.col("event").rank("dense").cast(pl.Int64) - 1).over(part_of).alias("nth"),
        pl.col("step").fill_null(-1).rank("dense").cast(pl.Int64).alias("turn"),
    )
    if by == "order":
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("turn"))
    if by == "place":
        rows = rows.with_columns(pl.concat_str("name", pl.col("nth").cast(pl.String), separator=" #").alias("name"))
        rows = rows.with_columns(pl.lit(0, pl.Int64).alias("nth"))
    nothing = pl.DataFrame(
        schema={"op": pl.UInt32(), "on": pl.UInt32(), "votes_for": pl.Int32(), "votes_against": pl.Int32()}
    )
    part = pl.int_range(pl.len()).over("at", "event")
    ends = rows.filter(part == pl.len().over("at", "event") - 1).drop("event")
    rows = rows.filter(part == 0).drop("event")
    late = rows.filter(pl.col("late") > grain.late_ns)
    held = _last_before(late, ends, grain.early_ns).with_columns(left=pl.col("start_ns") - pl.col("end_ns_on"))
    waited = ready.since_ready_ns.copy()
    waited[held.get_column("row").to_numpy()] = np.minimum(
        waited[held.get_column("row").to_numpy()], held.get_column("left").to_numpy()
    )
    came = pl.Series(_is_last(ops, waited))  # of a meeting, the member for which something is nearest
    late = late.filter(came.gather(late.get_column("row")))
    held = held.filter(
        came.gather(held.get_column("row")),
        pl.col("left") < pl.max_horizontal(_EXPLAINS * pl.col("late"), pl.lit(2.0 * grain.late_ns)),
        pl.col("lane") != pl.col("lane_on"),
    )
    held = held.with_columns(turns=pl.col("turn_on") - pl.col("turn"), places=pl.col("nth_on") - pl.col("nth"))
    apart = held.group_by("name", "name_on", "turns", "places").len().sort("len", descending=True)
    most = apart.unique(("name", "name_on"), keep="first", maintain_order=True)
    votes = held.group_by("name", "name_on").agg(votes_for=pl.len())
    votes = votes.join(most, on=("name", "name_on"))
    votes = votes.join(late.group_by("name").agg(num_late=pl.len()), on="name")
    votes = votes.filter(pl.col("votes_for") >= _LEAST, pl.col("votes_for") >= _SHARE * pl.col("num_late"))
    found = [nothing]
    rows, ends = (
        each.join(votes.select(name=pl.col(key)).unique(), on="name", how="semi")
        for each, key in ((rows, "name"), (ends, "name_on"))
    )
    waiting, making = (each.partition_by("name", as_dict=True) for each in (rows, ends))
    for vote in votes.sort("name", "name_on").iter_rows(named=True):
        waiters, makers = waiting[vote["name"],], making[vote["name_on"],]
        if by == "order" and (vote["places"] != 0 or vote["len"] < _SURELY * vote["votes_for"]):
            continue
        if vote["len"] >= _IN_ORDER * vote["votes_for"]:
            pairs = _so_far_apart(waiters, makers, vote["turns"], vote["places"], grain.early_ns)
        else:
            pairs = held.filter(name=vote["name"], name_on=vote["name_on"])
        pairs = pairs.filter(pl.col("lane") != pl.col("lane_on"))
        found.append(
            pairs.select(
                pl.col("row").cast(pl.UInt32).alias("op"), pl.col("row_on").cast(pl.UInt32).alias("on"),
                pl.lit(vote["votes_for"], pl.Int32).alias("votes_for"),
                pl.lit(max(0, vote["num_late"] - vote["votes_for"]), pl.Int32).alias("votes_against"),
            )
        )  # fmt: skip
    return pl.concat(found).unique(("op", "on"), keep="first", maintain_order=True)


def at_once(ops: pl.DataFrame, ready: Ready, grain: Grain) -> pl.DataFrame:
    """Rows as of `voted`: late ops that began just as another lane's op ended, once or often."""
    rows = ops.select("at", "lane", "start_ns", "end_ns").with_columns(
        row=pl.int_range(pl.len()), late=pl.Series(ready.late_ns)
    )
    late = rows.filter(pl.col("late") > grain.late_ns)
    held = _last_before(late, rows.drop("late"), grain.early_ns)
    apart = (pl.col("start_ns") - pl.col("end_ns_on")).abs()
    near = pl.min_horizontal(_AT_ONCE * pl.col("late"), pl.lit(float(grain.late_ns)))
    held = held.filter(apart <= near, pl.col("lane") != pl.col("lane_on"))
    return held.select(
        pl.col("row").cast(pl.UInt32).alias("op"), pl.col("row_on").cast(pl.UInt32).alias("on"),
        pl.lit(1, pl.Int32).alias("votes_for"), pl.lit(0, pl.Int32).alias("votes_against"),
    )  # fmt: skip


def _last_before(waiters: pl.DataFrame, makers: pl.DataFrame, early_ns: int) -> pl.DataFrame:
    """Each waiter with the maker of its rank that ended last before it began; those without one are left out. One that
    began with it, and is as short as stamps are rough, is none."""
    ends = makers.select("at", pl.all().exclude("at").name.suffix("_on")).sort("end_ns_on")
    found, left = [], waiters
    for early in (early_ns, 0):
        looked = left.with_columns((pl.col("start_ns") + early).alias("until")).sort("until")
        each = looked.join_asof(
            ends, left_on="until", right_on="end_ns_on", by="at", strategy="backward", coalesce=False,
            check_sortedness=False,
        ).filter(pl.col("row_on").is_not_null(), pl.col("start_ns_on") < pl.col("start_ns")).drop("until")  # fmt: skip
        found.append(each)
        left = left.join(each.select("row"), on="row", how="anti")
    return pl.concat(found)


def _so_far_apart(waiters: pl.DataFrame, makers: pl.DataFrame, turns: int, places: int, early_ns: int) -> pl.DataFrame:
    """Each waiter with the maker that is so many steps and places from it; but for those that ended too late."""
    keys = ("at", "turn", "nth")
    shifted = makers.with_columns(pl.col("turn") - turns, pl.col("nth") - places)
    pairs = waiters.join(shifted, on=keys, suffix="_on")
    return pairs.filter(pl.col("end_ns_on") <= pl.col("start_ns") + early_ns)
