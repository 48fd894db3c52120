"""Which range of the host was open at a moment: for phases, operators and records of collectives alike."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.kernels import HOST_FAMILY, KernelRules, classify

_AT_ONCE = 1 << 18  # host events that are looked at together
_MOST_ROUNDS = 64  # of looking at all at once: ranges lie in each other less deep than that, as a rule
#: Threads up to which each is looked at for itself; of more, all at once.
FEW_THREADS = 16
_LONGEST = 1 << 60  # ns: of the threads that follow one another
_RANGE = ("pid", "tid", "ts_ns", "dur_ns")

#: What a collective's host record says of its kernels.
METADATA = ("collective", "in_elems", "out_elems", "dtype", "group", "group_size", "group_ranks", "comm_seq",
            "src_rank", "dst_rank")  # fmt: skip


def open_at_launch(ranges: pl.DataFrame, linked: pl.DataFrame, which: pl.Expr | None = None) -> pl.Series:
    """For each device event the row in `ranges` of the innermost one that was open at its launch; null without one.

    ranges: host events with pid, tid, ts_ns, dur_ns. linked: device events with launch_ts_ns, launch_pid, launch_tid.
    which: of the ranges, those that count. Only ranges of the launching thread do.
    """
    launches = (
        linked.select(pl.col("launch_pid").alias("pid"), pl.col("launch_tid").alias("tid"), "launch_ts_ns")
        .with_row_index("at")
        .drop_nulls()
    )
    ranges = _held(ranges, launches.get_column("launch_ts_ns"), pl.lit(True) if which is None else which)
    key = ["pid", "tid"]
    if launches.select(key).n_unique() > FEW_THREADS:
        ends = ranges.select(*key, start_ns="ts_ns", end_ns=pl.col("ts_ns") + pl.col("dur_ns"))
        lanes = lanes_of(launches.select(*key, start_ns="launch_ts_ns", end_ns="launch_ts_ns"), ends)
        launches, ranges = in_lanes(launches, lanes, "launch_ts_ns"), in_lanes(ranges, lanes, "ts_ns")
        key = ["batch"]
    ranges = ranges.sort("ts_ns", "dur_ns", descending=[False, True], maintain_order=True)
    out = np.full(linked.height, -1, np.int64)
    by_thread = ranges.partition_by(key, as_dict=True)
    for thread, mine in launches.partition_by(key, as_dict=True).items():
        if (candidates := by_thread.get(thread)) is None:
            continue
        starts = candidates.get_column("ts_ns").to_numpy()
        ends = starts + candidates.get_column("dur_ns").to_numpy()
        found = innermost(starts, ends, mine.get_column("launch_ts_ns").to_numpy())
        rows = candidates.get_column("place").cast(pl.Int64).to_numpy()
        out[mine.get_column("at").to_numpy()] = np.where(found >= 0, rows[np.maximum(found, 0)], -1)
    return pl.Series("range", out).set(pl.Series(out < 0), None)


def lanes_of(*extents: pl.DataFrame) -> pl.DataFrame:
    """Of each thread when it begins and ends, and what to add to its times so that threads follow one another, for work
    on all of them at once: pid, tid, low_ns, high_ns, shift_ns and batch. Only threads of one batch follow one another:
    all of them, but in a broken trace with times that are years apart.

    extents: frames of pid, tid, start_ns, end_ns.
    """
    threads = pl.concat(extents).group_by("pid", "tid", maintain_order=True)
    lanes = threads.agg(low_ns=pl.col("start_ns").min(), high_ns=pl.col("end_ns").max())
    shifts, batches, batch, taken = [], [], 0, 0
    for low, high in lanes.select("low_ns", "high_ns").iter_rows():
        length = high - low + 2
        if taken and taken + length > _LONGEST:
            batch, taken = batch + 1, 0
        shifts.append(taken - low if length <= _LONGEST else 0)
        batches.append(batch)
        taken += length
    return lanes.with_columns(shift_ns=pl.Series(shifts, dtype=pl.Int64), batch=pl.Series(batches, dtype=pl.Int64))


def in_lanes(frame: pl.DataFrame, lanes: pl.DataFrame, *times: str) -> pl.DataFrame:
    """The rows of a frame, with pid and tid, that are of these lanes (`lanes_of`), with the columns of their lane; the
    times in some columns are shifted."""
    if lanes.height == 1:  # most often: soon done
        pid, tid = lanes.select("pid", "tid").row(0)
        own = frame.filter(pl.col("pid") == pid, pl.col("tid") == tid)
        found = own.with_columns(pl.lit(each.item(), each.dtype).alias(each.name) for each in lanes.drop("pid", "tid"))
    else:
        found = frame.join(lanes, on=("pid", "tid"), maintain_order="left")
    return found.with_columns(pl.col(time) + pl.col("shift_ns") for time in times)


def _held(ranges: pl.DataFrame, times_ns: pl.Series, which: pl.Expr) -> pl.DataFrame:
    """Those of the ranges in which one of the times lies: few, in place of a copy of all. place: where they stand."""
    times = np.sort(times_ns.to_numpy())
    held = [pl.DataFrame(schema={"place": pl.UInt32, **{name: ranges.schema[name] for name in _RANGE}})]
    for number, part in enumerate(ranges.iter_slices(_AT_ONCE)):
        part = part.with_row_index("place", number * _AT_ONCE).filter(which)
        starts = part.get_column("ts_ns").to_numpy()
        ends = starts + part.get_column("dur_ns").to_numpy()
        holds = np.searchsorted(times, starts) < np.searchsorted(times, ends)
        held.append(part.select("place", *_RANGE).filter(pl.Series(holds, dtype=pl.Boolean)))
    return pl.concat(held)


def innermost(starts: NDArray[np.int64], ends: NDArray[np.int64], points: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each point the index of the range [start, end) that contains it and started last; -1 where none does.

    starts must ascend; of ranges that start together the later index counts as inner.
    """
    found: NDArray[np.int64] = np.searchsorted(starts, points, "right") - 1
    left = np.flatnonzero(found >= 0)
    left = left[ends[found[left]] <= points[left]]
    if not len(left):  # as of ranges that do not lie in each other
        return found
    if (around := _ending_later(ends)) is None:
        return _one_by_one(starts, ends, points)
    for _ in range(_MOST_ROUNDS):
        left = left[ends[found[left]] <= points[left]]  # those have ended; what they lie in ends later
        if not len(left):
            return found
        found[left] = around[found[left]]
        left = left[found[left] >= 0]
    return _one_by_one(starts, ends, points)


def _ending_later(ends: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """For each range the last one before it that ends later; -1 where none does. None where this takes too long."""
    around = np.arange(-1, len(ends) - 1)
    left = np.flatnonzero(around >= 0)
    for _ in range(_MOST_ROUNDS):
        left = left[ends[around[left]] <= ends[left]]  # none from there on ends later, nor do those that it passed over
        if not len(left):
            return around
        around[left] = around[around[left]]
        left = left[around[left] >= 0]
    return None


def _one_by_one(starts: NDArray[np.int64], ends: NDArray[np.int64], points: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same, in a time that does not depend on how deep ranges lie in each other."""
    order = np.argsort(points, kind="stable")
    found = np.full(len(points), -1, np.int64)
    start_list, end_list, point_list = starts.tolist(), ends.tolist(), points[order].tolist()
    open_ranges: list[int] = []
    following = 0
    result = []
    for point in point_list:
        while following < len(start_list) and start_list[following] <= point:
            open_ranges.append(following)
            following += 1
        while open_ranges and end_list[open_ranges[-1]] <= point:
            open_ranges.pop()
        result.append(open_ranges[-1] if open_ranges else -1)
    found[order] = result
    return found


def with_host_metadata(rows: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Fill the metadata of kernels that have none from the record that was open at their launch, on the same thread.

    Newer profilers copy the metadata of a collective (name, sizes, process group) onto its kernel. Older ones leave it
    on the `record_param_comms` operator that was open when the kernel was launched.

    rows: device events with launch_ts_ns, launch_pid, launch_tid and `eligible`, whether a record may speak for them.
    events: the trace's events.
    """
    records = events.filter(pl.col("cat") == "cpu_op", pl.col("collective").is_not_null())
    if records.is_empty():
        return rows
    bare = rows.with_row_index("at").filter(pl.col("collective").is_null(), pl.col("eligible").fill_null(False))
    said = bare.select("at").hstack(records.select(pl.col(METADATA).gather(open_at_launch(records, bare))))
    joined = rows.with_row_index("at").join(said, on="at", how="left", suffix="_said", maintain_order="left")
    return joined.with_columns(pl.coalesce(name, f"{name}_said").alias(name) for name in METADATA).select(rows.columns)


def collective_of_range(launched: pl.DataFrame, events: pl.DataFrame, rules: KernelRules) -> pl.Series:
    """The collective that the innermost range open at each launch names: `c10d::alltoall_base_`, `nccl:all_gather`.

    Ranges that name none (`nccl:coalesced`, `record_param_comms`) leave the word to those around them. A range that
    the user named is a phase and no record. launched: as in `open_at_launch`. Null where no range names one.
    """
    hosts = KernelRules(rules=tuple(r for r in rules.rules if r.family == HOST_FAMILY and _is_one(r.collective)))
    ranges = events.select("cat", "name", "pid", "tid", "ts_ns", "dur_ns")
    wanted = pl.col("cat").is_in(("cpu_op", "user_annotation"))
    names = ranges.select(pl.col("name").filter(wanted).unique()).to_series()
    classes = classify(names, hosts).filter(pl.col("rule").is_not_null())
    named = pl.DataFrame({"name": classes.get_column("name").cast(pl.Categorical()), "says": classes["collective"]})
    at = open_at_launch(ranges, launched, wanted & pl.col("name").is_in(named.get_column("name").implode()))
    said = ranges.select(pl.col("name").gather(at)).join(named, on="name", how="left", maintain_order="left")
    return said.get_column("says").alias("ranged")


def _is_one(collective: str | None) -> bool:
    return collective not in (None, "coalesced")
