"""Ranges of a job as ops: one clock, a lane for what runs one after another, meetings and their transfers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.work import Work
from weftrace.units import US

Voters: TypeAlias = Literal["name", "place", "order"]

_Ints = NDArray[np.int64]
_ROUNDING_NS = 20 * US  # by which ranges that follow each other may overlap
_ASYNC = 0.2  # of the sends whose receiver came later: they ended before it came, so a send waits for nobody
_START_TOGETHER = 0.9  # of the meetings of a name: their ranges begin when the last rank has come
_TOGETHER_NS = 50 * US
_STAMP_NS = 5 * US

#: Columns of `ops_of`, a row an op, in order of start. Times are ns from the first start, on one clock.
OPS: dict[str, pl.DataType] = {
    "at": pl.Int32(),  # position of the rank
    "lane": pl.Int32(),  # of the rank: what runs one after another
    "event": pl.UInt32(),  # row of the rank's `Work.events`
    "phase_number": pl.Int32(),
    "name": pl.Categorical(),  # without numbers of step, stage and micro-batch
    "kind": pl.Categorical(),
    "family": pl.Categorical(),
    "role": pl.Categorical(),
    "rule": pl.Categorical(),
    "step": pl.Int64(),
    "micro_batch": pl.Int32(),
    "chunk": pl.Int32(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "is_turned": pl.Boolean(),  # of a send or receive, whether the forward that it belongs to runs to lower stages
    "meet": pl.Int64(),  # which meeting; null where the op waits for no other rank
    "after_send": pl.Int64(),  # of a receive whose send waits for nobody: the pair
    "sends": pl.Int64(),  # of such a send: the pair
    "duration_ns": pl.Int64(),  # without waiting for other ranks
    "begins_meeting": pl.Boolean(),  # whether its start is when it came; else the range shows the transfer only
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Grain:
    """How fine stamps are. late_ns: an op that begins that much after all it is known to wait for is late. early_ns: by
    which an effect may begin before its cause ends. mark_ns: a computation that is shorter marks a moment, and has no
    part in a plan. rounds: who votes together for what they waited for, in turn (`votes.voted`). shows_waiting: whether
    communication begins when its rank comes, as kernels of NCCL do; ranges may begin when the last rank has come."""

    late_ns: int
    early_ns: int
    mark_ns: int
    rounds: tuple[Voters, ...]
    shows_waiting: bool


#: Of ranges, which hosts stamp; and of work on devices.
RANGES = Grain(late_ns=20 * US, early_ns=20 * US, mark_ns=20 * US, rounds=("name", "name"), shows_waiting=False)
KERNELS = Grain(late_ns=1 * US, early_ns=2 * US, mark_ns=0, rounds=("order", "place", "place"), shows_waiting=True)


def ops_of(
    works: Sequence[Work], members: pl.DataFrame, to_common: Callable[[int, _Ints], _Ints], grain: Grain
) -> tuple[pl.DataFrame, int]:
    """A frame of `OPS`, and the absolute time of its 0.

    works: of each rank its ranges. members: `weftrace.analysis.meetings.Meetings.members` of these ranks. to_common:
    from a rank's clock to the common one. grain: how fine the stamps are.
    """
    ranges = pl.concat([_ranges(work, at, to_common) for at, work in enumerate(works)])
    ranges = _laid_alike(ranges, members)
    length = pl.col("end_ns") - pl.col("start_ns")
    ranges = ranges.filter((pl.col("kind") != "compute") | (length > grain.mark_ns))
    origin = int(ranges.get_column("start_ns").min() or 0)  # type: ignore[arg-type]
    ranges = ranges.with_columns(pl.col("start_ns", "end_ns") - origin)
    ops = _in_lanes(_met(ranges, members, grain)).sort("start_ns", "end_ns", "at", "lane", maintain_order=True)
    return ops.select(pl.col(name).cast(dtype) for name, dtype in OPS.items()), origin


def _ranges(work: Work, at: int, to_common: Callable[[int, _Ints], _Ints]) -> pl.DataFrame:
    """One rank's. own_start, own_end, own_group: as `arrivals` has them, by which meetings are found."""
    mine = work.events.with_row_index("event").rename({"phase": "phase_number"})
    if work.trace.plain is not None:
        rows = work.trace.plain.rows.select("micro_batch", "chunk", "phase").with_row_index("row")
        mine = mine.join(rows, on="row", how="left", maintain_order="left")
    else:
        none = pl.lit(None, pl.Int32)
        own = work.trace.rank or 0  # forward and backward go opposite ways, by kernels of one name
        to, of = (
            pl.format(text, pl.col(name) - own)
            for text, name in ((" (send {})", "dst_rank"), (" (receive {})", "src_rank"))
        )
        way = pl.when(pl.col("dst_rank").is_not_null()).then(to).when(pl.col("src_rank").is_not_null()).then(of)
        phase = pl.concat_str(pl.col("name").cast(pl.String), way.otherwise(pl.lit("")))
        mine = mine.with_columns(none.alias("micro_batch"), none.alias("chunk"), phase.alias("phase"))
    times = (mine.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    common = [pl.Series(name, to_common(at, ns)) for name, ns in zip(("start_ns", "end_ns"), times, strict=True)]
    parts = (pl.col(name).cast(pl.String).fill_null("") for name in ("group", "group_ranks"))
    group = pl.concat_str(*parts, separator=" ").str.strip_chars()
    stages = group.str.extract_groups(r"PP (?<from>\d+)-(?<to>\d+) ")
    is_turned = stages.struct.field("from").cast(pl.Int32) > stages.struct.field("to").cast(pl.Int32)
    return mine.select(
        pl.lit(at, pl.Int32).alias("at"), "event", "phase_number", pl.col("phase").cast(pl.Categorical()).alias("name"),
        "kind", "family", "role", "rule", "collective", "stream", "step", "micro_batch", "chunk",
        pl.col("dst_rank").is_not_null().alias("to_rank"),
        *common, pl.col("start_ns").alias("own_start"), pl.col("end_ns").alias("own_end"), group.alias("own_group"),
        is_turned.alias("is_turned"),
    )  # fmt: skip


def _laid_alike(ranges: pl.DataFrame, members: pl.DataFrame) -> pl.DataFrame:
    """Steps that files laid each for itself, where the meetings have laid them."""
    moved = members.filter(pl.col("moved_ns") != 0).group_by("at", "step").agg(pl.col("moved_ns").first())
    if moved.is_empty():
        return ranges
    ranges = ranges.join(moved, on=("at", "step"), how="left", maintain_order="left")
    return ranges.with_columns(pl.col("start_ns", "end_ns") + pl.col("moved_ns").fill_null(0)).drop("moved_ns")


# --- what meets -------------------------------------------------------------------------------------------------------


def _met(ranges: pl.DataFrame, members: pl.DataFrame, grain: Grain) -> pl.DataFrame:
    """The ranges with meet, after_send, sends, duration_ns and begins_meeting."""
    keys = members.select(
        "meeting", "at", pl.col("start_ns") - pl.col("moved_ns"), pl.col("end_ns") - pl.col("moved_ns"),
        pl.col("group").cast(pl.String).alias("own_group"),
    )  # fmt: skip
    keys = keys.unique(("at", "start_ns", "end_ns", "own_group"), keep="first", maintain_order=True)
    ranges = ranges.with_row_index("row")
    moved = ranges.filter(pl.col("kind") == "communication").join(
        keys, left_on=("at", "own_end", "own_group"), right_on=("at", "end_ns", "own_group"), suffix="_met"
    )  # of the channels of one collective, which are one member, the first that ends it meets
    moved = moved.filter(pl.col("own_start") >= pl.col("start_ns_met")).sort("own_start", "row")
    moved = moved.unique(("at", "meeting"), keep="first", maintain_order=True).unique("row", keep="first")
    ranges = ranges.join(moved.select("row", "meeting"), on="row", how="left", maintain_order="left").drop("row")
    size = pl.len().over("meeting")
    ranges = ranges.with_columns(pl.when(size > 1).then("meeting").alias("meeting"))
    ranges = _batched(ranges)
    came = pl.col("start_ns").max().over("meeting")
    is_async = pl.col("meeting").is_not_null() & _is_async(ranges)
    left_before = pl.col("end_ns") < came - _TOGETHER_NS  # the root of a broadcast waits for nobody
    meets = pl.col("meeting").is_not_null() & ~is_async & ~left_before
    sender = is_async & _sends()
    receiver = is_async & ~_sends()
    sent = pl.when(_sends()).then("end_ns").max().over("meeting")
    duration = (
        pl.when(meets).then((pl.col("end_ns") - came).clip(lower_bound=0))
        .when(receiver).then((pl.col("end_ns") - pl.max_horizontal("start_ns", sent)).clip(lower_bound=0))
        .otherwise(pl.col("end_ns") - pl.col("start_ns"))
    )  # fmt: skip
    spread = pl.col("start_ns").max().over("meeting") - pl.col("start_ns").min().over("meeting")
    ranges = ranges.with_columns(spread.alias("spread"))  # a window within a window would be of the outer's rows alone
    met = pl.col("meeting").is_not_null()
    often = (pl.col("spread").filter(met) <= _TOGETHER_NS).mean().over("name").fill_null(0.0) >= _START_TOGETHER
    together = often & (pl.col("spread") <= _TOGETHER_NS) & pl.lit(not grain.shows_waiting)
    return ranges.with_columns(
        pl.when(meets).then("meeting").alias("meet"),
        pl.when(receiver).then("meeting").alias("after_send"),
        pl.when(sender).then("meeting").alias("sends"),
        duration.alias("duration_ns"),
        (~meets | ~together).alias("begins_meeting"),
    )


def _batched(ranges: pl.DataFrame) -> pl.DataFrame:
    """Meetings of which a rank began and ended some at once are one: sends and receives that were issued as a batch."""
    met = ranges.filter(pl.col("meeting").is_not_null(), pl.col("end_ns") > pl.col("start_ns"))
    batches = met.filter(pl.len().over("at", "start_ns", "end_ns") > 1)
    if batches.is_empty():
        return ranges
    label = met.select("meeting", one=pl.col("meeting")).unique()
    while True:  # as often as the longest chain of meetings that batches link
        linked = batches.join(label, on="meeting", maintain_order="left")
        least = linked.select("one", least=pl.col("one").min().over("at", "start_ns", "end_ns"))
        lower = least.filter(pl.col("least") < pl.col("one")).group_by("one").agg(pl.col("least").min())
        if lower.is_empty():
            break
        label = label.join(lower, on="one", how="left").select("meeting", pl.coalesce("least", "one").alias("one"))
    joined = ranges.join(label, on="meeting", how="left", maintain_order="left")
    return joined.with_columns(pl.col("one").alias("meeting")).drop("one")


def _sends() -> pl.Expr:
    """Whether a range's name, or a kernel's metadata, tells that it sends, and does nothing else."""
    return pl.col("rule").cast(pl.String).is_in(("forward_send", "backward_send")).fill_null(False) | pl.col("to_rank")


def _is_async(ranges: pl.DataFrame) -> pl.Series:
    """Of each range, whether it is of sends that wait for nobody: some ended before their receivers came."""
    pairs = ranges.filter(pl.col("meeting").is_not_null(), pl.col("collective").cast(pl.String) == "send_recv")
    sides = pairs.group_by("meeting").agg(
        pl.col("start_ns", "end_ns").filter(_sends()).first().name.prefix("sent_"),
        pl.col("start_ns").filter(~_sends()).first().alias("came_ns"),
        pl.col("name").filter(_sends()).first().alias("way"),
    )
    half = (pl.col("sent_end_ns") - pl.col("sent_start_ns")) // 2
    late = sides.filter(pl.col("came_ns") > pl.col("sent_start_ns") + pl.min_horizontal(half, pl.lit(_TOGETHER_NS)))
    left = late.group_by("way").agg((pl.col("sent_end_ns") <= pl.col("came_ns") + _STAMP_NS).mean().alias("left"))
    ways = left.filter(pl.col("left") >= _ASYNC).get_column("way")
    found = sides.filter(pl.col("way").is_in(ways.implode())).get_column("meeting")
    return ranges.get_column("meeting").is_in(found.implode()).fill_null(False)


# --- lanes ------------------------------------------------------------------------------------------------------------


def _in_lanes(ranges: pl.DataFrame) -> pl.DataFrame:
    """The ranges with lane: a stream, or where its ranges overlap a name on it, or what of that runs in turn."""
    ranges = ranges.sort("start_ns", "end_ns", "event", maintain_order=True)
    by_stream = ("at", "stream")
    name = pl.col("name").cast(pl.String)
    key = pl.when(_overlap(by_stream).any().over(by_stream)).then(name).otherwise(pl.lit(""))
    ranges = ranges.with_columns(key.alias("key"), pl.lit(0).alias("turn"))
    by_name = (*by_stream, "key")
    crowded = ranges.select(_overlap(by_name).any().over(by_name)).to_series()
    if crowded.any():
        parts = [ranges.filter(~crowded)]
        for _, part in ranges.filter(crowded).group_by(by_name, maintain_order=True):
            parts.append(part.with_columns(pl.Series("turn", _turns(part), dtype=pl.Int32)))
        ranges = pl.concat(parts)
    lane = pl.struct("stream", "key", "turn").rank("dense").over("at").cast(pl.Int32) - 1
    return ranges.with_columns(lane.alias("lane")).drop("key", "turn")


def _overlap(by: Sequence[str]) -> pl.Expr:
    reached = pl.col("end_ns").cum_max().shift(1).over(*by)
    rounding = pl.min_horizontal(pl.lit(_ROUNDING_NS), (pl.col("end_ns") - pl.col("start_ns")) // 2)
    return (pl.col("start_ns") < reached - rounding).fill_null(False)


def _turns(ranges: pl.DataFrame) -> list[int]:
    """Of ranges in order of start, the first of several lanes that is free."""
    free: list[int] = []
    found = []
    for start, end in ranges.select("start_ns", "end_ns").iter_rows():
        rounding = min(_ROUNDING_NS, (end - start) // 2)
        turn = next((at for at, until in enumerate(free) if until <= start + rounding), len(free))
        free[turn : turn + 1] = [end]
        found.append(turn)
    return found
