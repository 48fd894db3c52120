"""Which idle stretches are no idle time: work that is not in the file?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array, covered, sums_by_group, union
from weftrace.analysis.waiting.call_names import COPY, SYNC
from weftrace.analysis.waiting.gap_parts import HELD, PARTS, TURNAROUND_NS, Gaps
from weftrace.trace.model import is_launch
from weftrace.trace.work import Work
from weftrace.units import US

#: A kernel that is queued while the device runs nothing is held by work that is not recorded, from here on.
HELD_NS = 100 * US
#: Holes at one place of each step that differ by no more than this part of their length are the same work.
_SAME = 0.02
_LEAST_STEPS = 3
#: A hole as long as so many iterations, by so much, is where iterations were cut out.
_OF_ITERATION, _MOST_ITERATIONS = 0.1, 3
_MOST_OF_GAP = 0.9
_FEW_UNLINKED = 0.1
_KERNEL_LAUNCH = r"(?i)launch.*kernel"
#: A function of the host in a stream: what follows waits for it.
_HOST_FUNCTION = r"(?i)LaunchHostFunc|StreamAddCallback"
#: A wait for the device returns so soon after its last work.
_RETURNS_NS = 100 * US


def unrecorded_gaps(
    work: Work, gaps: Gaps, gap: Array, part: Array, length: Array, silent: NDArray[np.bool_]
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """(cause, which pieces) of pieces of gaps in which work ran that the file does not hold.

    gap, part, length: of each piece, as in `IdlePieces`. silent: pieces in which the launching thread recorded nothing.
    """
    if work.basis != "device" or work.trace.simulated:  # all of a plan is in its trace
        return
    num = gaps.events.height
    total = sums_by_group(gap, length, num)
    held = part == PARTS.index(HELD)
    held_ns = sums_by_group(gap[held], length[held], num)
    explained = _other_devices(work, gaps) | (_launches_between(work, gaps, _HOST_FUNCTION) > 0)
    yield "unrecorded", held & (held_ns >= HELD_NS)[gap] & ~explained[gap]
    yield "unrecorded", ((total > TURNAROUND_NS) & _in_one_graph(work, gaps))[gap] & held
    yield "unrecorded", _with_lost_work(work, gaps, total)[gap]
    if (unlinked := _without_launch(gaps, total)).any():
        yield "unrecorded", (unlinked & _silent(work, gaps))[gap]
    told_ns = sums_by_group(gap[~silent], length[~silent], num)
    open_gaps = (told_ns <= (1 - _MOST_OF_GAP) * total) & (total >= HELD_NS)
    yield "unrecorded", (_repeated(gaps, total) & open_gaps & ~_after_a_wait(work, gaps) & ~explained)[gap]
    yield "file_cut", (_of_iterations(work, gaps, total) & open_gaps)[gap]
    yield "file_cut", (_between_windows(work, gaps, total) & ~explained)[gap]


def _other_devices(work: Work, gaps: Gaps) -> NDArray[np.bool_]:
    """Gaps in which another device of the process worked: it may have held what is queued here."""
    events = work.trace.events
    if len(work.trace.device_ids) < 2:
        return np.zeros(gaps.events.height, np.bool_)
    others = events.filter(pl.col("cat").is_in(("kernel", "gpu_memcpy")), pl.col("device") != work.device)
    start = others.get_column("ts_ns").to_numpy()
    begin, end = (gaps.events.get_column(name).to_numpy() for name in ("from_ns", "until_ns"))
    busy = covered(union(start, start + others.get_column("dur_ns").to_numpy()), begin, end)
    return np.asarray(busy >= (end - begin) / 2, np.bool_)


def _in_one_graph(work: Work, gaps: Gaps) -> NDArray[np.bool_]:
    """Gaps between two nodes of one launch of a graph."""
    launches = work.around.events.select(before="row", before_ts_ns="launch_ts_ns")
    sides = gaps.events.join(launches, on="before", how="left", maintain_order="left")
    replayed = pl.col("call").str.contains("(?i)graphlaunch") & (pl.col("before_ts_ns") == pl.col("launch_ts_ns"))
    return sides.select(replayed.fill_null(False)).to_series().to_numpy()


def _repeated(gaps: Gaps, total: Array) -> NDArray[np.bool_]:
    """Gaps between the same two kernels that are equally long in each step."""
    frame = gaps.events.select("step", pl.Series("total", total), before="before_name", after="name")
    frame = frame.with_row_index("gap").filter(pl.col("step").is_not_null(), pl.col("total") >= HELD_NS)
    num_steps = frame.get_column("step").n_unique()
    key = ("before", "after", "index")
    frame = frame.with_columns(index=pl.int_range(pl.len()).over("step", "before", "after"))
    middle = pl.col("total").median().over(key)
    same = ((pl.col("total") - middle).abs() <= _SAME * middle).all().over(key)
    found = frame.filter(same, pl.col("step").n_unique().over(key) >= max(_LEAST_STEPS, num_steps - 1))
    out = np.zeros(gaps.events.height, np.bool_)
    out[found.get_column("gap").to_numpy()] = True
    return out


def _of_iterations(work: Work, gaps: Gaps, total: Array) -> NDArray[np.bool_]:
    """Gaps as long as a few iterations, in which no thread of the host recorded anything. Where half of the steps have
    one, it is part of the iterations: a loop whose host works longer than its device is no file that was cut."""
    starts = (
        work.around.events.group_by("step").agg(pl.col("start_ns").min()).drop_nulls().get_column("start_ns").sort()
    )
    out = np.zeros(gaps.events.height, np.bool_)
    if len(starts) <= _LEAST_STEPS:
        return out
    period = float(starts.diff().median() or 0)  # type: ignore[arg-type]
    times = np.round(total / period) if period else np.zeros(len(total))
    like = (times >= 1) & (times <= _MOST_ITERATIONS) & (np.abs(total - times * period) <= _OF_ITERATION * period)
    if not like.any():
        return out
    found = like & _silent(work, gaps)
    return found if 2 * found.sum() < len(starts) else out


def _between_windows(work: Work, gaps: Gaps, total: Array) -> NDArray[np.bool_]:
    """Gaps over which the number of the step jumps, with nothing recorded: the profiler was off."""
    earlier = work.around.events.select(before="row", step_before="step")
    sides = gaps.events.join(earlier, on="before", how="left", maintain_order="left")
    jumps = sides.select((pl.col("step") > pl.col("step_before") + 1).fill_null(False)).to_series().to_numpy()
    jumps = jumps & (total >= HELD_NS)
    return jumps & _silent(work, gaps) if jumps.any() else jumps


def _after_a_wait(work: Work, gaps: Gaps) -> NDArray[np.bool_]:
    """Gaps at whose beginning the host had waited until the device, or a copy, was done: nothing was left on it."""
    waits = work.trace.events.select("cat", "name", "ts_ns", "dur_ns").filter(is_launch())
    waits = waits.filter(pl.col("name").cast(pl.String).str.contains(f"{SYNC}|{COPY}")).sort("ts_ns")
    begin = gaps.events.get_column("from_ns").to_numpy()
    if waits.is_empty():
        return np.zeros(len(begin), np.bool_)
    start = waits.get_column("ts_ns").to_numpy()
    end = start + waits.get_column("dur_ns").to_numpy()
    last = np.searchsorted(start, begin, "right") - 1
    returned = end[np.maximum(last, 0)]
    return np.asarray((last >= 0) & (returned >= begin) & (returned <= begin + _RETURNS_NS), np.bool_)


def _silent(work: Work, gaps: Gaps) -> NDArray[np.bool_]:
    """Gaps in which no thread of the host recorded anything, or next to nothing."""
    host = work.trace.events.filter(pl.col("cat").is_in(("cpu_op",)) | is_launch()).select("ts_ns", "dur_ns")
    start = host.get_column("ts_ns").to_numpy()
    begin, end = (gaps.events.get_column(name).to_numpy() for name in ("from_ns", "until_ns"))
    seen = covered(union(start, start + host.get_column("dur_ns").to_numpy()), begin, end)
    return np.asarray(seen <= (1 - _MOST_OF_GAP) * (end - begin), np.bool_)


def _without_launch(gaps: Gaps, total: Array) -> NDArray[np.bool_]:
    """Long gaps that end with an event whose launch is not in the file, where nearly all other launches are."""
    unknown = gaps.events.get_column("launch_ts_ns").is_null().to_numpy()
    return np.asarray(unknown & (total >= HELD_NS) & (unknown.sum() <= _FEW_UNLINKED * len(unknown)), np.bool_)


def _with_lost_work(work: Work, gaps: Gaps, total: Array) -> NDArray[np.bool_]:
    """Gaps that work without records would fill by half or more: it was launched after what ran before the gap, and
    before what ended it, and it is taken to be as long as other work is."""
    every = work.around.events
    num = _launches_between(work, gaps, _KERNEL_LAUNCH)
    if not num.any() or every.is_empty():
        return np.zeros(len(num), np.bool_)
    usual = float((every.get_column("end_ns") - every.get_column("start_ns")).mean() or 0)  # type: ignore[arg-type]
    return np.asarray((total >= HELD_NS) & (num * usual >= total / 2), np.bool_)


def _launches_between(work: Work, gaps: Gaps, pattern: str) -> Array:
    """Of each gap the number of launches of such names, without a record of what they launched, after the launch of
    what ran before the gap and before that of what ended it."""
    events = work.trace.events.select("cat", "name", "ts_ns", "correlation").filter(pl.col("correlation").is_not_null())
    names = events.get_column("name").unique()
    launching = names.filter(names.cast(pl.String).str.contains(pattern)).implode()
    launches = events.filter(is_launch() & pl.col("name").is_in(launching)).select("ts_ns", "correlation")
    launched = events.filter(~is_launch()).select("correlation")
    lost = launches.join(launched, on="correlation", how="anti").get_column("ts_ns")
    if lost.is_empty():
        return np.zeros(gaps.events.height, np.int64)
    earlier = work.around.events.select(pl.col("row").alias("before"), pl.col("launch_ts_ns").alias("after_ns"))
    found = gaps.events.join(earlier, on="before", how="left", maintain_order="left")
    bounds = found.select(pl.col("after_ns").fill_null(pl.col("from_ns")), pl.coalesce("launch_ts_ns", "until_ns"))
    times = lost.sort().to_numpy()
    after, until = (np.searchsorted(times, column.to_numpy()) for column in bounds)
    return np.asarray(np.maximum(until - after, 0), np.int64)
