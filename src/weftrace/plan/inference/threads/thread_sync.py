"""Which host thread waited for which other? Autograd's threads run a backward while the thread that asked for it waits.

A thread that is quiet while another one works, and goes on when that one goes quiet, waited for it. Of autograd's
threads that is known, from the ranges in which they run a node; of others it must happen again and again, both ways.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.confidence import by_votes
from weftrace.plan.inference.threads.polling import LONG_NS, MOST_REPEATS, SHORTEST_NS, SOON_NS, Signs

_NODE = "autograd::engine::evaluate_function"
#: So many times must two threads hand over each way, where nothing else says that they do.
LEAST_TURNS = 3

#: Columns: a row a stretch of a thread in which it waited for another.
HAND_OVERS: dict[str, pl.DataType] = {
    "thread": pl.Int32(),
    "from_ns": pl.Int64(),
    "until_ns": pl.Int64(),
    "on_thread": pl.Int32(),
    "since_ns": pl.Int64(),  # the other's last sign before
    "source": pl.String(),
    "votes_for": pl.Int32(),
    "votes_against": pl.Int32(),
    "confidence": pl.Float64(),
}

_Ints = NDArray[np.int64]


def handed_over(events: pl.DataFrame, signs: Signs, calls: pl.DataFrame, stretches: pl.DataFrame) -> pl.DataFrame:
    """Stretches in which a thread, outside operators, waited for another of its process: frame of `HAND_OVERS`.

    events: a trace's. signs: of `signs_of_life`. calls: of `host_calls`. stretches: of `quiet_stretches`.
    """
    threads = calls.select("thread", "pid", "tid").unique().sort("thread")
    if threads.get_column("pid").is_duplicated().sum() == 0:
        return pl.DataFrame(schema=HAND_OVERS)
    names = events.get_column("name").unique()
    nodes = names.filter(names.cast(pl.String).str.starts_with(_NODE)).implode()
    begins = events.select("name", "pid", "tid", "ts_ns").filter(pl.col("name").is_in(nodes))
    begins = begins.join(threads, on=("pid", "tid"))
    begins = begins.select("thread", pl.col("ts_ns").alias("until_ns"), wakes=True).unique()
    workers = begins.get_column("thread").unique()
    points = {thread: np.sort(np.concatenate(both), kind="stable") for thread, both in signs.items()}
    found = _turns(stretches.filter(~pl.col("inside")), points, threads)
    found = found.join(begins, on=("thread", "until_ns"), how="left", maintain_order="left")
    found = found.with_columns(since_ns=pl.col("until_ns") - pl.col("after_ns"))
    node = pl.col("wakes").fill_null(False) & (pl.col("ends_quiet") | (pl.col("after_ns") <= SOON_NS))
    back = pl.col("ends_quiet") & pl.col("on_thread").is_in(workers.implode())
    autograd = found.filter(node | back).sort("after_ns").unique(("thread", "from_ns"), keep="first")
    rest = found.join(autograd, on=("thread", "from_ns"), how="anti")
    summary = autograd.with_columns(
        source=pl.lit("autograd"), votes_for=None, votes_against=None, confidence=pl.lit(1.0)
    )
    both = [
        frame.select(pl.col(name).cast(dtype) for name, dtype in HAND_OVERS.items())
        for frame in (summary, _voted(rest))
    ]
    return pl.concat(both).sort("thread", "from_ns")


def _turns(stretches: pl.DataFrame, points: dict[int, _Ints], threads: pl.DataFrame) -> pl.DataFrame:
    """Stretches with each other thread of the process that was active in them: on_thread, after_ns (from its last sign
    to the end of the stretch), begins_quiet and ends_quiet (whether it was quiet as the stretch began, as it ended)."""
    pid_of = dict(threads.select("thread", "pid").rows())
    parts = []
    for (thread,), part in stretches.partition_by("thread", as_dict=True).items():
        start, end = part.get_column("from_ns").to_numpy(), part.get_column("until_ns").to_numpy()
        for other, at in points.items():
            if other == thread or pid_of[other] != pid_of[thread]:
                continue
            last, is_quiet = _signs(at, end)
            _, was_quiet = _signs(at, start)
            seen = at[np.maximum(last, 0)]
            parts.append(part.with_columns(
                pl.lit(other, pl.Int32).alias("on_thread"), pl.Series("after_ns", end - seen),
                pl.Series("begins_quiet", was_quiet), pl.Series("ends_quiet", is_quiet),
            ).filter(pl.Series((last >= 0) & (seen >= start))))  # fmt: skip
    summary: dict[str, pl.DataType] = {
        "on_thread": pl.Int32(), "after_ns": pl.Int64(), "begins_quiet": pl.Boolean(), "ends_quiet": pl.Boolean()
    }  # fmt: skip
    nothing = stretches.clear().with_columns(pl.lit(None, dtype).alias(name) for name, dtype in summary.items())
    return pl.concat([nothing, *parts])


def _signs(at: _Ints, moments: _Ints) -> tuple[_Ints, NDArray[np.bool_]]:
    """The last sign of a thread by each moment, -1 for none, and whether the moment is in a quiet stretch of it."""
    last = np.searchsorted(at, moments, "right") - 1
    before = np.where(last >= 0, at[np.maximum(last, 0)], np.iinfo(np.int64).min // 2)
    after = np.where(last + 1 < len(at), at[np.minimum(last + 1, len(at) - 1)], np.iinfo(np.int64).max // 2)
    return last, after - before >= SHORTEST_NS


def _voted(turns: pl.DataFrame) -> pl.DataFrame:
    """Of pairs of threads that take turns: the stretches in which the other began, and went quiet just before their
    end, or as long before it each time: what it did in between is not recorded."""
    pair = ("thread", "on_thread")
    is_turn = pl.col("begins_quiet") & pl.col("ends_quiet") & (pl.col("after_ns") <= LONG_NS)
    usual_ns = pl.col("after_ns").filter(is_turn).median().over(pair)
    soon = pl.col("after_ns").is_between(usual_ns - SHORTEST_NS, usual_ns + SHORTEST_NS)
    turns = turns.with_columns(is_for=is_turn & (soon | (pl.col("after_ns") <= SHORTEST_NS)))
    turns = turns.with_columns(
        votes_for=pl.col("is_for").sum().over(pair), votes_against=(~pl.col("is_for")).sum().over(pair)
    )
    share = pl.col("votes_for") / (pl.col("votes_for") + pl.col("votes_against"))
    sure = turns.filter("is_for", pl.col("votes_for") >= LEAST_TURNS, share >= MOST_REPEATS)
    ways = sure.select(pl.col("on_thread").alias("thread"), pl.col("thread").alias("on_thread")).unique()
    sure = sure.join(ways, on=pair, how="semi").sort("after_ns").unique(("thread", "from_ns"), keep="first")
    return sure.with_columns(
        source=pl.lit("thread"),
        confidence=by_votes(),
    )
