"""Whose is each moment of a host thread? The innermost operator's: one that lies in another interrupts it."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

import polars as pl

from weftrace.trace.work import Work

_SCHEMA = {
    "kind": pl.Categorical(), "start_ns": pl.Int64(), "end_ns": pl.Int64(), "count": pl.Int64(),
    "launch_ts_ns": pl.Int64(), "launch_pid": pl.Categorical(), "launch_tid": pl.Categorical(),
}  # fmt: skip


def operator_pieces(work: Work) -> pl.DataFrame:
    """The events of a work on a host basis, its operators cut where others begin and end in them.

    Columns kind, start_ns, end_ns, count (1 of an operator's first piece, 0 of the others), launch_ts_ns (the start of
    the piece's operator), launch_pid, launch_tid. The pieces of an operator that no other contains add up to it.
    """
    whole = work.around.events.sort("start_ns", maintain_order=True)
    tops = whole.filter(pl.col("kind") != "communication")
    ops = work.trace.events.select("cat", "pid", "tid", "ts_ns", "dur_ns").with_row_index("row")
    ops = ops.filter(pl.col("cat") == "cpu_op")
    ends = pl.col("ts_ns") + pl.col("dur_ns")
    ops = ops.select("row", "pid", "tid", pl.col("ts_ns").alias("start_ns"), ends.alias("end_ns"))
    ops = ops.sort("start_ns", "end_ns", descending=[False, True], maintain_order=True)
    parts = [whole.filter(pl.col("kind") == "communication").with_columns(pl.lit(1, pl.Int64).alias("count"))]
    threads = tops.select(pid="launch_pid", tid="launch_tid").unique(maintain_order=True).with_row_index("thread")
    of_tops = _by_thread(tops.select("row", "start_ns", "end_ns", pid="launch_pid", tid="launch_tid"), threads)
    of_ops = _by_thread(ops, threads)
    cut = [
        (*piece, thread)
        for thread, (own, others) in enumerate(zip(of_tops, of_ops, strict=True))
        for piece in _cut(own, others)
    ]
    columns = ("start_ns", "end_ns", "launch_ts_ns", "count", "thread")
    found = pl.DataFrame(cut, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    place = threads.select(launch_pid="pid", launch_tid="tid")[found.get_column("thread")]
    parts.append(found.hstack(place).with_columns(pl.lit("compute").cast(pl.Categorical()).alias("kind")))
    pieces = pl.concat([part.select(pl.col(name).cast(dtype) for name, dtype in _SCHEMA.items()) for part in parts])
    if work.window_ns is None:
        return pieces
    lo, hi = work.window_ns
    clipped = pieces.with_columns(pl.col("start_ns", "end_ns").clip(lo, hi))
    return clipped.filter(pl.col("start_ns") < pl.col("end_ns"))


def _by_thread(ranges: pl.DataFrame, threads: pl.DataFrame) -> Iterator[list[_Range]]:
    """The ranges of each thread: row, start_ns, end_ns."""
    found = ranges.join(threads, on=("pid", "tid"), maintain_order="left").sort("thread", maintain_order=True)
    rows = found.select("row", "start_ns", "end_ns").rows()
    bounds = found.get_column("thread").search_sorted(pl.Series(range(threads.height + 1)))
    return (rows[low:high] for low, high in pairwise(bounds.to_list()))


_Range = tuple[int, int, int]  # row, start, end
_Piece = tuple[int, int, int, int]


def _cut(tops: list[_Range], ops: list[_Range]) -> Iterator[_Piece]:
    """(start, end, start of the operator, whether it is its first piece) of one thread's operators that no other one
    contains, cut by all that lie in them; both in order of start."""
    at = 0
    for row, start, end in tops:
        stack = [[start, end, 1]]  # [start, end, whether none of its pieces was yielded yet]
        done = start
        while at < len(ops) and ops[at][1] < start:
            at += 1
        while at < len(ops) and ops[at][1] < end:
            inner, since, until = ops[at]
            at += 1
            if inner == row:
                continue
            done = yield from _until(stack, done, since)
            if since > done:
                yield done, since, stack[-1][0], stack[-1][2]
                stack[-1][2], done = 0, since
            stack.append([since, min(until, stack[-1][1]), 1])
        done = yield from _until(stack, done, end)
        if end > done or stack[0][2]:
            yield done, end, start, stack[0][2]


def _until(stack: list[list[int]], done: int, since: int) -> Generator[_Piece, None, int]:
    """What remains of those that end by a time, the outermost left alone."""
    while len(stack) > 1 and stack[-1][1] <= since:
        start, end, first = stack.pop()
        if end > done or first:
            yield done, max(end, done), start, first
            done = max(end, done)
    return done
