"""When did a host thread record nothing, and was that waiting?

A thread that polls until the device has done something (DeepEP's dispatch polls for the number of tokens that it will
receive) records neither call nor operator. That it waited, and for which kernel, is told by repeats alone: the stretch
ends with the same kernel, each time.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.plan.inference.confidence import by_votes
from weftrace.trace.model import is_launch
from weftrace.units import MS, US, duration

Signs = dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]

#: Shorter stretches are not looked at.
SHORTEST_NS = 50 * US
#: Waiting for a device is looked for in stretches from here on: shorter ones end as some kernel does by chance.
LONG_NS = 1 * MS
#: A stretch that was waiting ends within this of the end of the awaited kernel: after it, or before it where the kernel
#: wrote what was polled for and had more to do.
SOON_NS = 100 * US
#: Kernels that a stretch may wait for: those launched last before it.
MOST_BACK = 8
#: Repeats of which this share must agree.
MOST_REPEATS = 0.75


def signs_of_life(events: pl.DataFrame, calls: pl.DataFrame) -> Signs:
    """Of each thread, when its operators and calls start, and when they end, each ascending.

    events: a trace's. calls: of `host_calls`.
    """
    threads = calls.select("thread", "pid", "tid").unique()
    busy = events.select("cat", "pid", "tid", "ts_ns", "dur_ns").filter(is_launch() | (pl.col("cat") == "cpu_op"))
    busy = busy.join(threads, on=("pid", "tid")).select("thread", "ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
    signs: Signs = {}
    for (thread,), part in busy.partition_by("thread", as_dict=True).items():
        starts, ends = (np.sort(part.get_column(name).to_numpy(), kind="stable") for name in ("ts_ns", "end_ns"))
        signs[int(thread)] = starts, ends
    return signs


def quiet_stretches(signs: Signs, calls: pl.DataFrame, begins_ns: int, ends_ns: int) -> pl.DataFrame:
    """Stretches of time, outside its calls, in which a thread recorded neither start nor end of an operator or call:
    thread, pid, from_ns, until_ns, inside (whether an operator was running). By thread, in order. The first of a thread
    begins at `begins_ns`; none after `ends_ns`.

    signs: of `signs_of_life`. calls: of `host_calls`.
    """
    threads = calls.select("thread", "pid", "tid").unique()
    schema: dict[str, pl.DataType] = {
        "thread": calls.schema["thread"], "from_ns": pl.Int64(), "until_ns": pl.Int64(), "inside": pl.Boolean()
    }  # fmt: skip
    parts = [pl.DataFrame(schema=schema)]
    for thread, (starts, ends) in signs.items():
        until = np.sort(np.concatenate([starts, ends]), kind="stable")
        since = np.concatenate([[begins_ns], until[:-1]])
        is_quiet = (until - np.maximum(since, begins_ns) >= SHORTEST_NS) & (until <= ends_ns)
        until, since, is_first = until[is_quiet], since[is_quiet], np.flatnonzero(is_quiet) == 0
        num_open = np.searchsorted(starts, since, "right") - np.searchsorted(ends, since, "right")
        found = {"from_ns": np.maximum(since, begins_ns), "until_ns": until, "inside": (num_open > 0) & ~is_first}
        parts.append(pl.DataFrame({"thread": [thread] * len(until), **found}, schema=schema))
    stretches = pl.concat(parts)
    around = calls.select("thread", pl.col("start_ns").alias("from_ns"), "end_ns").sort("from_ns")
    stretches = stretches.sort("from_ns").join_asof(around, on="from_ns", by="thread", check_sortedness=False)
    outside = pl.col("end_ns").is_null() | (pl.col("end_ns") <= pl.col("from_ns"))
    return (
        stretches.filter(outside)
        .join(threads, on="thread")
        .select("thread", "pid", "from_ns", "until_ns", "inside")
        .sort("thread", "from_ns")
    )


def waits_for_device(
    stretches: pl.DataFrame, calls: pl.DataFrame, on_device: pl.DataFrame
) -> tuple[pl.DataFrame, int | None, list[str]]:
    """Stretches that were waiting for a kernel: thread, from_ns, until_ns, on_event, votes_for, votes_against,
    confidence; from the kernel's end to theirs, the median, negative where they end before, None without any; notes.

    A repeat is a stretch before the launch of a kernel of the same name, with the same kernel launched so many before.
    It votes for that kernel if it ends within `SOON_NS` of it. stretches: of `quiet_stretches`. calls: of
    `host_calls`. on_device: of `device_ops`.
    """
    long = stretches.filter(pl.col("until_ns") - pl.col("from_ns") >= LONG_NS).with_row_index("stretch")
    voted = _votes(_candidates(long, calls, on_device))
    enough = (pl.col("votes_for") >= 2) & (
        pl.col("votes_for") >= MOST_REPEATS * (pl.col("votes_for") + pl.col("votes_against"))
    )
    best = voted.filter("is_for", enough).sort("stretch", "votes_against", "back").unique("stretch", keep="first")
    unsure = voted.filter("is_for", back=0).join(best, on="stretch", how="anti").unique("stretch")
    waits = best.sort("stretch").select(
        "thread", "from_ns", "until_ns", "on_event", "votes_for", "votes_against",
        confidence=by_votes(),
    )  # fmt: skip
    after = best.select(pl.col("until_ns") - pl.col("event_end_ns")).to_series()
    lag = after.quantile(0.5, "higher")  # of two in the middle the later: what is early hides what it waited for
    return waits, None if lag is None else int(lag), _unsure(unsure)


def _candidates(stretches: pl.DataFrame, calls: pl.DataFrame, on_device: pl.DataFrame) -> pl.DataFrame:
    """Each stretch with the kernels that its thread launched last before it: back (how many before), kernel, on_event,
    event_start_ns, event_end_ns, and next, the name of the kernel that the thread launched next."""
    launched = on_device.filter(pl.col("launch_ts_ns").is_not_null()).join(
        calls.select("thread", "pid", "tid").unique(), left_on=("launch_pid", "launch_tid"), right_on=("pid", "tid")
    )
    launched = launched.sort("thread", "launch_ts_ns", "event").select(
        "thread", pl.col("launch_ts_ns").alias("from_ns"), pl.col("event").alias("on_event"), "name",
        pl.col("start_ns").alias("event_start_ns"), pl.col("end_ns").alias("event_end_ns"),
        pl.int_range(pl.len()).over("thread").alias("place"),
    )  # fmt: skip
    last = stretches.sort("from_ns").join_asof(
        launched.select("thread", "from_ns", "place").sort("from_ns"), on="from_ns", by="thread", check_sortedness=False
    )
    after = launched.select("thread", "place", pl.col("name").alias("next"))
    following = last.with_columns(place=pl.col("place").fill_null(-1) + 1)
    last = last.hstack(following.join(after, on=("thread", "place"), how="left", maintain_order="left").select("next"))
    back = pl.DataFrame({"back": range(MOST_BACK)}, schema={"back": pl.Int64})
    tried = last.filter(pl.col("place").is_not_null()).join(back, how="cross")
    tried = tried.with_columns(place=pl.col("place") - pl.col("back"))
    return tried.join(launched.drop("from_ns").rename({"name": "kernel"}), on=("thread", "place"))


def _votes(tried: pl.DataFrame) -> pl.DataFrame:
    after = pl.col("until_ns") - pl.col("event_end_ns")
    held = (pl.col("event_end_ns") > pl.col("from_ns")) & (pl.col("event_start_ns") < pl.col("until_ns"))
    group = ("back", "kernel", "next")
    return tried.with_columns(is_for=held & after.is_between(-SOON_NS, SOON_NS)).with_columns(
        votes_for=pl.col("is_for").sum().over(group), votes_against=(~pl.col("is_for")).sum().over(group)
    )


def _unsure(stretches: pl.DataFrame) -> list[str]:
    if stretches.is_empty():
        return []
    number = "1 stretch" if stretches.height == 1 else f"{stretches.height:,} stretches"
    quiet_ns = int(stretches.select((pl.col("until_ns") - pl.col("from_ns")).sum()).item())
    return [
        f"{number} in which the host recorded nothing ({duration(quiet_ns)} together) may have been waiting for a "
        "kernel that ended just then, but too few repeats tell: taken as work of the host."
    ]
