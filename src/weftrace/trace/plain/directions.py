"""Which sends and receives belong to which direction of a model that runs through the pipeline both ways at once?

DualPipe holds the model twice: one direction runs from the first stage to the last, the other, here called turned, from
the last to the first. Ranks record the sends and receives of each direction on a lane of its own. No name tells the
direction, so lanes of neighbouring stages are paired by their ends: both sides of a transfer end together.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

_TOLD_BY_STEP = 3  # transfers of a lane in a step: their ends tell how far the clocks are apart in that step
#: Way of each rule, and whether it sends.
_SIDES = {
    "forward_send": ("forward", True),
    "forward_recv": ("forward", False),
    "backward_send": ("backward", True),
    "backward_recv": ("backward", False),
}
_LANE = ("worker", "rule", "lane")


def in_two_lanes(rows: pl.DataFrame) -> pl.DataFrame:
    """worker and rule of sends or receives of which a worker has two lanes with as many in each.

    rows: worker, rule, lane.
    """
    lanes = rows.filter(pl.col("rule").is_in(list(_SIDES))).group_by(_LANE).len()
    two = (pl.len() == 2) & (pl.col("len").n_unique() == 1)
    return lanes.group_by("worker", "rule").agg(two=two).filter("two").select("worker", "rule")


def lane_names() -> pl.Expr:
    """A group's name where its direction is not known: no other rank has it."""
    return pl.concat_str(pl.lit("PP "), "pp", pl.lit(" "), "rule", pl.lit(" "), "lane")


def both_ways(rows: pl.DataFrame, others: Sequence[str], *, one_clock: bool) -> pl.DataFrame | None:
    """row, stages, way, step and k of each send and receive; None where the model runs in one direction only.

    stages: "PP 1-2", or "PP 2-1" of the turned direction, the stage of the forward's sender first; of a lane without a
    partner here a name that no other has. k: its number on the lane in its step.

    rows: row, worker, rule, lane, step, ts_ns, end_ns, pp and the other places. one_clock: whether times of workers can
    be compared; else they may be any time apart.
    """
    if in_two_lanes(rows).is_empty():
        return None
    side = pl.col("rule").replace_strict({rule: way for rule, (way, _) in _SIDES.items()}, default=None)
    sends = pl.col("rule").replace_strict({rule: is_send for rule, (_, is_send) in _SIDES.items()}, default=None)
    rows = rows.with_columns(side.alias("way"), sends.alias("sends")).filter(pl.col("sends").is_not_null())
    rows = rows.sort("ts_ns", "row").with_columns(
        k=pl.int_range(pl.len()).over(*_LANE, "step"), num=pl.len().over(*_LANE, "step")
    )
    paired = _paired(_scored(rows, others, one_clock=one_clock))
    turned = (pl.col("upward") != (pl.col("way") == "forward")).alias("turned")
    paired = paired.with_columns(turned)
    if not paired.get_column("turned").any():
        return None
    lanes = pl.concat([
        paired.select("worker", "rule", "lane", "low", "turned"),
        paired.select(
            worker="worker_on", rule="rule_on", lane="lane_on", low="low", turned="turned"
        ),
    ])  # fmt: skip
    found = rows.join(lanes, on=_LANE, how="left", maintain_order="left")
    ends = (pl.col("low") + pl.col("turned").cast(pl.Int64), pl.col("low") + 1 - pl.col("turned").cast(pl.Int64))
    stages = pl.coalesce(pl.concat_str(pl.lit("PP "), ends[0], pl.lit("-"), ends[1]), lane_names())
    return found.select("row", "way", "step", "k", stages.alias("stages"))


def _scored(rows: pl.DataFrame, others: Sequence[str], *, one_clock: bool) -> pl.DataFrame:
    """Lanes of senders with lanes of receivers at neighbouring stages that have as many transfers: worker, rule, lane,
    and those of the other side; way; low, the lower stage; upward, whether it goes to the higher; apart_ns."""
    sends, receives = rows.filter("sends"), rows.filter(~pl.col("sends"))
    keys = [*others, "way", "step", "k", "num"]
    parts = []
    for way in (1, -1):
        moved = receives.with_columns(pl.col("pp") - way)
        joined = sends.join(moved, on=[*keys, "pp"], suffix="_on", nulls_equal=True)
        low = pl.col("pp") if way > 0 else pl.col("pp") - 1
        apart = way * (pl.col("end_ns_on") - pl.col("end_ns"))  # the higher stage's clock less the lower's
        parts.append(joined.with_columns(low.alias("low"), apart.alias("apart"), pl.lit(way > 0).alias("upward")))
    lane = ["worker", "rule", "lane", "worker_on", "rule_on", "lane_on"]
    pair = [*others, "low"]
    every = pl.concat(parts)
    if not one_clock:
        by_step = pl.col("apart").median().over(*lane, "step")
        offset = pl.when(pl.col("num") >= _TOLD_BY_STEP).then(by_step).otherwise(pl.col("apart").median().over(lane))
        every = every.with_columns(offset.alias("offset"))
        spread = (pl.col("apart") - pl.col("offset")).abs().median().over(lane)
        every = every.with_columns(spread.alias("spread"))
        surest = pl.col("offset").sort_by("spread").first().over(*pair, "step")
        every = every.with_columns(pl.col("apart") - surest)
    return every.group_by(*lane, "way", "low", "upward", maintain_order=True).agg(
        pl.col("apart").abs().median().alias("apart_ns")
    )


def _paired(scored: pl.DataFrame) -> pl.DataFrame:
    """Of all pairs of lanes those that agree best, each lane in one."""
    taken: set[tuple[object, ...]] = set()
    chosen = []
    scored = scored.sort("apart_ns", *_LANE)
    for row, (*lane, worker, rule, other) in enumerate(scored.select(*_LANE, "worker_on", "rule_on", "lane_on").rows()):
        sides = (tuple(lane), (worker, rule, other))
        if taken.isdisjoint(sides):
            taken.update(sides)
            chosen.append(row)
    return scored[chosen]
