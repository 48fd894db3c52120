"""Which module, or which Python function, does each device event belong to? To the one that was open at its launch.

The launching thread decides, and the innermost range wins. Autograd runs the backward outside the modules, mostly on a
thread of its own: what a backward operator launches belongs to where its forward operator was called. They share a
number ("Sequence number"), which each thread counts for itself ("Fwd thread id").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import TraceError
from weftrace.trace.code_names import By, Step, function_step, module_step, range_steps, stack_step
from weftrace.trace.containment import open_at_launch
from weftrace.trace.limits import CODE_DEPTH
from weftrace.trace.model import Trace, is_annotation

#: Where modules or functions are known from: the profiler's frames, operators of TorchScript, ranges named like
#: modules, operators of old files that state their call stack, nothing.
ToldBy = Literal["frames", "hierarchy", "ranges", "stacks", "nothing"]

Array = NDArray[np.int64]
_THREAD = ("pid", "tid")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallPaths:
    """A tree of modules or functions, and where in it each event belongs.

    names, parents: of each node; a parent comes before its children, -1 above a root. node: of each event, -1 outside.
    num_calls: ranges of each node in which, or for whose backward, an event was launched; what a checkpoint runs again
    is no call. backward: of each event, whether it has its place by the forward of a backward operator.
    """

    names: tuple[str, ...]
    parents: tuple[int, ...]
    node: Array
    num_calls: Array
    backward: NDArray[np.bool_]
    told_by: ToldBy


def call_paths(trace: Trace, launched: pl.DataFrame, by: By, *, num_counted: int | None = None) -> CallPaths:
    """Places of events. launched: launch_ts_ns, launch_pid, launch_tid of each; null where the launch is unknown.
    num_counted: only so many of them, the first, count in num_calls.

    Raises TraceError where the trace's file has Python frames that were not read.
    """
    ranges, steps, told_by = _ranges(trace, by)
    walked = _Walked.of(ranges, steps)
    backward = _backward(trace.events)
    starts = backward.get_column("ts_ns").to_list()
    around = [*zip(_open(backward, backward), _open(ranges, backward), strict=True)]  # of each one's forward operator
    nodes: list[int] = []
    frames: list[int] = []
    for outer, frame in around:  # in order of time, so what is around a forward operator is known by then
        nodes.append(walked.place(frame, nodes[outer] if outer >= 0 else None, starts[outer] if outer >= 0 else 0))
        frames.append(frames[outer] if outer >= 0 else frame)
    places, reached, by_forward = list[int](), set[int](), list[bool]()
    for at, (outer, frame) in enumerate(zip(_open(backward, launched), _open(ranges, launched), strict=True)):
        places.append(walked.place(frame, nodes[outer] if outer >= 0 else None, starts[outer] if outer >= 0 else 0))
        by_forward.append(outer >= 0)
        if num_counted is None or at < num_counted:
            reached.add(frames[outer] if outer >= 0 else frame)
    return CallPaths(
        names=tuple(walked.tree.names),
        parents=tuple(walked.tree.parents),
        node=np.array(places, np.int64),
        num_calls=walked.calls(reached, told_by),
        backward=np.array(by_forward, np.bool_),
        told_by=told_by,
    )


def _open(ranges: pl.DataFrame, launched: pl.DataFrame) -> list[int]:
    return open_at_launch(ranges, launched).fill_null(-1).to_list()


# --- ranges that tell where the host was ------------------------------------------------------------------------------


def _ranges(trace: Trace, by: By) -> tuple[pl.DataFrame, dict[str, Step], ToldBy]:
    """Ranges that tell modules or functions, by thread in order of time, and what each name adds to a path."""
    frames = trace.frames
    if frames is None:
        if num := trace.quality.skipped.get("python_function"):
            if trace.path.endswith(".parquet"):
                raise TraceError(
                    f"{trace.path}: Parquet keeps no Python frames. Its source had {num:,}. They are needed for "
                    f"time by {by}: give the profiler's own file."
                )
            raise TraceError(
                f"{trace.path}: its {num:,} Python frames were not read, and they tell time by {by}: open it with "
                "frames=True."
            )
        frames = trace.events.clear()
    told_by: ToldBy = "frames"
    step_of: Callable[[str, str], Step | None] = module_step if by == "module" else function_step
    kinds = frames.select("name", "cat").unique().cast(pl.String).rows()
    steps = {name: step for name, cat in kinds if (step := step_of(name, cat)) is not None}
    if by == "module" and not any(step.way == "inside" for step in steps.values()):
        told_by = "hierarchy"
    if by == "module" and not steps:
        told_by = "ranges"
        frames = trace.events.filter(is_annotation())
        steps = range_steps(frames.get_column("name").unique().cast(pl.String).to_list())
    if by == "line" and not steps:
        told_by = "stacks"
        frames = trace.events.filter(pl.col("call_stack").is_not_null()).with_columns(
            pl.col("call_stack").alias("name")
        )
        stacks = frames.get_column("name").unique().cast(pl.String).to_list()
        steps = {stack: step for stack in stacks if (step := stack_step(stack)) is not None}
    names = pl.Series(list(steps), dtype=pl.String).cast(pl.Categorical())
    ranges = frames.filter(pl.col("name").is_in(names.implode())).select(*_RANGE)
    order = (*_THREAD, "ts_ns", "dur_ns")
    ranges = ranges.sort(*order, descending=[False, False, False, True], maintain_order=True)
    return ranges, steps, told_by if steps else "nothing"


_RANGE = ("name", *_THREAD, "ts_ns", "dur_ns")


class _Tree:
    """Paths, each once. Who is in a path already is not entered again: recursion, and what a checkpoint runs again."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.parents: list[int] = []
        self._depths: list[int] = []
        self._known: dict[tuple[int, str], int] = {}

    def below(self, node: int, name: str) -> int:
        found = self._known.get((node, name))
        if found is None:
            found = self._above(node, name)
            depth = 1 if node < 0 else self._depths[node] + 1
            if found < 0 and depth > CODE_DEPTH:
                return node
            if found < 0:
                found = len(self.names)
                self.names.append(name)
                self.parents.append(node)
                self._depths.append(depth)
            self._known[node, name] = found
        return found

    def _above(self, node: int, name: str) -> int:
        while node >= 0 and self.names[node] != name:
            node = self.parents[node]
        return node

    def after(self, node: int, base: int, step: Step) -> int:
        """Where a step leads from a node. base: the last node on the way there that later steps go on from."""
        if step.way == "alone" and base >= 0:
            return node
        for name in step.names:
            base = self.below(base, name)
        return base


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walked:
    """Ranges with their place in the tree.

    start_ns, step, node: of each range. up: the range that it lies in, with its middle at least; -1 for none.
    """

    tree: _Tree
    start_ns: list[int]
    step: list[Step]
    node: list[int]
    up: list[int]

    @classmethod
    def of(cls, ranges: pl.DataFrame, steps: dict[str, Step]) -> _Walked:
        """ranges: by thread, in order of start, the longer first."""
        tree = _Tree()
        node, up, base = list[int](), list[int](), list[int]()
        open_ranges: list[int] = []
        starts = ranges.get_column("ts_ns").to_list()
        ends = (ranges.get_column("ts_ns") + ranges.get_column("dur_ns")).to_list()
        step = [steps[name] for name in ranges.get_column("name").cast(pl.String)]
        new_thread = ranges.select(pl.struct(_THREAD).rle_id()).to_series().to_list()
        for row, (start, own) in enumerate(zip(starts, step, strict=True)):
            middle = start + (ends[row] - start) // 2  # rounded times make neighbours overlap, and parts end late
            while open_ranges and (ends[open_ranges[-1]] <= middle or new_thread[open_ranges[-1]] != new_thread[row]):
                open_ranges.pop()
            above = open_ranges[-1] if open_ranges else -1
            up.append(above)
            around = (node[above], base[above]) if above >= 0 else (-1, -1)
            node.append(tree.after(*around, own))
            base.append(node[row] if own.way == "inside" else around[1])
            open_ranges.append(row)
        return cls(tree=tree, start_ns=starts, step=step, node=node, up=up)

    def place(self, row: int, of_forward: int | None, since_ns: int) -> int:
        """The node of what is launched in a range; -1 for none.

        of_forward: where the forward of the backward operator around it was, which began at since_ns: the ranges since
        then are what that operator calls (a hook, what a checkpoint runs again), the others only called it.
        """
        if of_forward is None:
            return self.node[row] if row >= 0 else -1
        inner: list[Step] = []
        while row >= 0 and self.start_ns[row] >= since_ns and len(inner) < CODE_DEPTH:
            inner.append(self.step[row])
            row = self.up[row]
        for step in reversed(inner):
            if step.way == "absolute":
                of_forward = -1
            of_forward = self.tree.after(of_forward, of_forward, step)
        return of_forward

    def calls(self, reached: set[int], told_by: ToldBy) -> Array:
        """Of each node, the ranges that stand for it in which one of those reached lies. An operator is no call."""
        num_calls = np.zeros(len(self.tree.names), np.int64)
        seen: set[int] = set()
        for first in reached:
            row = first
            while row >= 0 and row not in seen:
                seen.add(row)
                above, way = self.up[row], self.step[row].way
                opens = way == "inside" or (way == "alone" and (above < 0 or self.node[row] != self.node[above]))
                if opens or told_by == "ranges":
                    num_calls[self.node[row]] += 1
                row = above
        return num_calls


# --- autograd ---------------------------------------------------------------------------------------------------------


def _backward(events: pl.DataFrame) -> pl.DataFrame:
    """Backward operators whose forward operator is known, in order of start: pid, tid, ts_ns, dur_ns, and of the
    forward operator launch_pid, launch_tid, launch_ts_ns.

    The forward operator is the last one to begin with the same number, on the thread that has most of the numbers of
    that forward thread. Gradients that are added up (AccumulateGrad) have no number: autograd does that right after the
    operator that made the gradient, and so they belong to where that one belongs.
    """
    ops = events.filter(pl.col("cat") == "cpu_op").select(*_RANGE, "sequence", "forward_thread")
    adds = ops.get_column("name").unique().cast(pl.String)
    adds = adds.filter(adds.str.contains("AccumulateGrad")).cast(pl.Categorical())
    numbered = pl.col("sequence") >= 0
    forward = ops.filter(numbered, pl.col("forward_thread").fill_null(0) == 0)
    is_adding = pl.col("name").is_in(adds.implode())
    backward = ops.filter(is_adding | (numbered & (pl.col("forward_thread") > 0))).with_row_index("at")
    home = (
        backward.select("pid", "forward_thread", "sequence")
        .unique()
        .join(forward.select("sequence", *_THREAD).unique(), on=("pid", "sequence"))
        .group_by("pid", "forward_thread", "tid")
        .len()
        .sort("len", "tid", descending=[True, False])
        .unique(("pid", "forward_thread"), keep="first", maintain_order=True)
        .select("pid", "forward_thread", pl.col("tid").alias("launch_tid"))
    )
    began = forward.select("sequence", "pid", pl.col("tid").alias("launch_tid"), pl.col("ts_ns").alias("launch_ts_ns"))
    found = (
        backward.join(home, on=("pid", "forward_thread"))
        .sort("ts_ns")
        .join_asof(
            began.sort("launch_ts_ns"),
            left_on="ts_ns",
            right_on="launch_ts_ns",
            by=("sequence", "pid", "launch_tid"),
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .select("at", "launch_tid", "launch_ts_ns")
    )
    summary = backward.join(found, on="at", how="left").sort("ts_ns", "dur_ns", descending=[False, True])
    at = pl.when(~is_adding).then(pl.int_range(pl.len(), dtype=pl.Int64)).forward_fill().over(*_THREAD)
    summary = summary.with_columns(at.alias("last"))
    last = summary.get_column("last")
    summary = summary.select(
        *(name for name in _RANGE if name != "name"),
        pl.col("pid").alias("launch_pid"),
        *(summary.get_column(name).gather(last) for name in ("launch_tid", "launch_ts_ns")),
    )
    return summary.filter(pl.col("launch_ts_ns").is_not_null())
