"""Ranks whose clocks nothing links: do their steps lie where those of the others do, and if not, where?"""

from __future__ import annotations

import polars as pl

from weftrace.analysis.clocks import Clocks

_FEWEST = 2  # communications that tell when a step was


def laid_over_others(events: pl.DataFrame, clocks: Clocks) -> tuple[dict[int, int], int]:
    """By root of such ranks, how much later their steps lie than those of the ranks that are the most; and how many
    ranks those are. None where they lie over at least half of the shorter of both: the clocks may well agree.

    events: at, step, start_ns, ahead_ns and end, of communications, end on the common clock. Compared are steps of one
    number; where no file tells steps, all that was recorded.
    """
    root = {at: clocks.root(at) for at in events.get_column("at").unique().to_list()}
    if len(set(root.values())) < 2:
        return {}, 0
    spans = (
        events.with_columns(
            pl.col("at").replace_strict(root, return_dtype=pl.Int64).alias("root"),
            (pl.col("start_ns") - pl.col("ahead_ns")).alias("start"),
        )
        .filter(pl.col("step").is_not_null() | pl.col("step").is_null().all())
        .group_by("root", "step")
        .agg(pl.col("start").min(), pl.col("end").max(), pl.len().alias("num"))
        .filter(pl.col("num") >= _FEWEST)
    )
    sizes = {one: sum(each == one for each in root.values()) for one in set(root.values())}
    usual = max(sorted(sizes), key=lambda one: sizes[one])
    both = spans.filter(pl.col("root") != usual).join(
        spans.filter(pl.col("root") == usual).drop("root"), on="step", suffix="_usual", nulls_equal=True
    )
    over = pl.min_horizontal("end", "end_usual") - pl.max_horizontal("start", "start_usual")
    shorter = pl.min_horizontal(pl.col("end") - pl.col("start"), pl.col("end_usual") - pl.col("start_usual"))
    later = (pl.col("start") - pl.col("start_usual") + pl.col("end") - pl.col("end_usual")) // 2
    apart = (
        both.group_by("root")
        .agg((2 * over < shorter).mean().alias("share"), later.sort().get((pl.len() - 1) // 2).alias("later"))
        .filter(pl.col("share") > 0.5)
        .sort("root")
    )
    found = dict(apart.select("root", "later").rows())
    return found, sum(sizes[one] for one in found)
