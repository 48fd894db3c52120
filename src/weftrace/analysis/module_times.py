"""Which module, or which Python function, took the device's time? And what of it was exposed, and what was idle?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, NotRequired, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.call_paths import Array, CallPaths, ToldBy, call_paths
from weftrace.analysis.host_pieces import operator_pieces
from weftrace.analysis.intervals import covered, grouped_union, sums_by_group, totals_by_group
from weftrace.analysis.time_account import Account, Source, account_of
from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.analysis.waiting.idle_pieces import idle_pieces
from weftrace.files.columns import Shown, frame_schema
from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook
from weftrace.trace.code_names import By, each_of, kind_of
from weftrace.trace.launches import in_graphs
from weftrace.trace.model import Trace
from weftrace.trace.work import Work
from weftrace.units import S, duration

OUTSIDE = "(outside)"
_MOST_FUNCTIONS = 300  # listed once each, whoever calls them: those with most time, own or total


class CodeNode(TypedDict):
    """A module or a function at its place in the tree, with all below it unless a field says otherwise."""

    name: Annotated[str, Shown(wide=True)]
    parent: Annotated[Count | None, Meta(description="Position of the node above, which comes before; null of a root.")]
    num_members: Annotated[Count, Meta(description="Nodes in it: more than 1 if siblings are folded.")]
    num_calls: Annotated[Count, Meta(description="Calls that launched something; 0 if no call is recorded.")]
    num_events: Count
    self_ns: Annotated[
        Ns,
        Meta(description="Sum of durations of the work that it launched itself, without the nodes below."),
        Shown("own"),
    ]
    total_ns: Annotated[Ns, Meta(description="Sum of durations.")]
    backward_ns: Annotated[Ns, Meta(description="Of total_ns, what backward operators launched.")]
    busy_ns: Annotated[Ns, Meta(description="Union of its events.")]
    exposed_ns: Annotated[Ns, Meta(description="Its communication during which no compute ran.")]
    idle_ns: Annotated[
        Ns,
        Meta(description="Idle time of the device while it was open on the thread that launched what ended the gap."),
        Shown("idle in it", term="module_idle"),
    ]
    idle_before_ns: Annotated[Ns, Meta(description="Gaps of the device that its events ended."), Shown("idle before")]
    flops: NotRequired[
        Annotated[
            Count,
            Meta(description="Matrix FLOPs that the model needs, of its operators with known FLOPs: at least so many."),
            Shown("FLOP, at least", term="module_flops"),
        ]
    ]
    flops_per_s: NotRequired[
        Annotated[
            Annotated[float, Meta(ge=0)] | None,
            Meta(description="flops / busy_ns; null if no FLOPs are known."),
            Shown("FLOP/s", term="module_flops"),
        ]
    ]


#: Columns of `CodeTimes.nodes`; there the parent of a root is -1.
NODE_SCHEMA = frame_schema(CodeNode)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodeTimes(InNotebook):
    """Device time by module (nn.Module) or by Python function.

    An event belongs to the innermost module (function) that was open on the launching thread when it was launched; what
    a backward operator launched, to where its forward operator was called. By function, those of torch, triton and
    Python's own library are passed over: the innermost other one counts. On a host basis the events are operators, and
    one that lies in another interrupts it, so that each piece of time belongs to one operator.

    nodes: a row per place in the tree, a frame of `NODE_SCHEMA`. A call counts where an event was launched in it, or
    for its backward.
    outside: the same of events that lie in no module (function) or whose launch is unknown; one row, OUTSIDE.
    self_ns of all nodes and of outside add up to the serial sum (`Breakdown.serial_ns`), as total_ns of the roots and
    of outside does; idle_ns and idle_before_ns of the roots and of outside to `Breakdown.idle_ns`: idle time is that of
    who was open meanwhile (`idle_account`), or, the other way, of who ended the gap. busy_ns and exposed_ns are unions:
    two modules that run at once have more together than the device.
    folded: by module the same tree with siblings of one class in one row (members of a list too); by function each
    function once, wherever it was called from, without parents, the 300 with most time, own or total.
    told_by: where modules are known from. graph_ns: of the outside's total, what ran in graphs (CUDA, HIP): launched by
    a call that replays one, or with the number of one. Whoever replays a graph is in no module of it.
    """

    by: By
    told_by: ToldBy
    nodes: pl.DataFrame
    outside: pl.DataFrame
    folded: pl.DataFrame
    graph_ns: int

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "by", f"{self.by}, from {self.told_by}"
        top = self.nodes.filter(pl.col("parent") < 0).sort("total_ns", descending=True).head(8)
        yield from ((name, duration(total_ns)) for name, total_ns in top.select("name", "total_ns").iter_rows())
        yield OUTSIDE, duration(self.outside.get_column("total_ns").item())


def code_times(source: Source, by: By = "module", flops: pl.DataFrame | None = None) -> CodeTimes:
    """Time by module or by function. flops: of events, `Efficiency.in_events` of the same work.

    Raises TraceError where the file's Python frames were not read (`frames=True`).
    """
    (by,) = each_of(by)
    account = account_of(source)
    work = account.work
    events = operator_pieces(work) if work.basis == "host" else work.events.with_columns(pl.lit(1).alias("count"))
    gaps = _idle(work)
    launched = pl.concat([events.select(_LAUNCH), gaps.select(_LAUNCH)])
    paths = call_paths(work.trace, launched, by, num_counted=events.height)
    parts = _Parts.of(account, events, gaps, paths, _flops_of(events, flops))
    nodes = parts.tree(paths.names, np.array(paths.parents, np.int64))
    return CodeTimes(
        by=by,
        told_by=paths.told_by,
        nodes=_used(nodes),
        outside=parts.outside(),
        folded=_by_function(parts, nodes) if by == "line" else _by_class(parts, paths),
        graph_ns=_of_graphs(events.filter(pl.Series(parts.node < 0)), work.trace) if work.basis == "device" else 0,
    )


def _idle(work: Work) -> pl.DataFrame:
    """Idle time: what of it belongs to who was open (`open`), and what to who ended the gap. Of the first each piece
    with its thread and its start, of the second each gap with its launch; ns of each, and is_open."""
    pieces = idle_pieces(work)
    ends = pieces.gaps.events.select(_LAUNCH)
    on_host = pieces.part <= PARTS.index("call")
    begin = pl.Series("start", pieces.start).set(pl.Series(~on_host), None)
    during = ends[pieces.gap].with_columns(
        pl.coalesce(begin, "launch_ts_ns").alias("launch_ts_ns"), pl.Series("ns", pieces.length), is_open=pl.lit(True)
    )
    after = sums_by_group(pieces.gap, pieces.length, ends.height)
    return pl.concat([during, ends.with_columns(pl.Series("ns", after), is_open=pl.lit(False))])


def _of_graphs(outside: pl.DataFrame, trace: Trace) -> int:
    """Sum of durations of those events that ran in graphs. Events of one operator can share a launch without one."""
    inside = outside.filter(in_graphs(outside, trace.events))
    return int(inside.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item())


def _flops_of(events: pl.DataFrame, flops: pl.DataFrame | None) -> Array:
    """FLOPs of each event."""
    if flops is None:
        return np.zeros(events.height, np.int64)
    rows = events.select("row") if "row" in events.columns else events.select(pl.int_range(pl.len()).alias("row"))
    found = rows.cast(pl.UInt32).join(flops, on="row", how="left", maintain_order="left")
    return found.get_column("flops").fill_null(0).to_numpy()


_LAUNCH = ("launch_pid", "launch_tid", "launch_ts_ns")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Parts:
    """What is known of events and gaps, an array each, with the node of each; -1 outside.

    count: 1 for an event, 0 for a further piece of one. communicates: whether it does. gap, is_open: as in `_idle`.
    """

    account: Account
    node: Array
    count: Array
    start: Array
    end: Array
    backward: NDArray[np.bool_]
    communicates: NDArray[np.bool_]
    flops: Array
    gap_node: Array
    gap: Array
    is_open: NDArray[np.bool_]
    num_calls: Array

    @classmethod
    def of(cls, account: Account, events: pl.DataFrame, gaps: pl.DataFrame, paths: CallPaths, flops: Array) -> _Parts:
        return cls(
            account=account,
            node=paths.node[: events.height],
            count=events.get_column("count").cast(pl.Int64).to_numpy(),
            start=events.get_column("start_ns").to_numpy(),
            end=events.get_column("end_ns").to_numpy(),
            backward=paths.backward[: events.height],
            communicates=(events.get_column("kind") == "communication").to_numpy(),
            flops=flops,
            gap_node=paths.node[events.height :],
            gap=gaps.get_column("ns").to_numpy(),
            is_open=gaps.get_column("is_open").to_numpy(),
            num_calls=paths.num_calls,
        )

    def moved(self, to: Array) -> _Parts:
        """The same with other nodes: to[n] in place of n."""
        along = np.append(to, -1)  # what is outside stays there
        num_calls = sums_by_group(to, self.num_calls, int(to.max(initial=-1)) + 1)
        return replace(self, node=along[self.node], gap_node=along[self.gap_node], num_calls=num_calls)

    def tree(self, names: Sequence[str], parents: Array) -> pl.DataFrame:
        """Numbers of every node with all below it."""
        num = len(names)
        inside, gaps_inside = self.node >= 0, self.gap_node >= 0
        own = {
            "num_events": sums_by_group(self.node[inside], self.count[inside], num),
            "total_ns": sums_by_group(self.node[inside], (self.end - self.start)[inside], num),
            "flops": sums_by_group(self.node[inside], self.flops[inside], num),
            "backward_ns": sums_by_group(
                self.node[inside & self.backward], (self.end - self.start)[inside & self.backward], num
            ),
            **{
                name: sums_by_group(self.gap_node[gaps_inside & chosen], self.gap[gaps_inside & chosen], num)
                for name, chosen in (("idle_ns", self.is_open), ("idle_before_ns", ~self.is_open))
            },
        }
        busy, exposed = np.zeros(num, np.int64), np.zeros(num, np.int64)
        for level, nodes_of_events, events in _levels(self.node, parents):
            busy[level] = totals_by_group(nodes_of_events, self.start[events], self.end[events], num)[level]
            exposed[level] = self._exposed(nodes_of_events, events, num)[level]
        tree = pl.DataFrame(
            {
                "name": list(names),
                "parent": parents,
                "num_members": np.ones(num, np.int64),
                "num_calls": self.num_calls,
                "num_events": _with_below(own["num_events"], parents),
                "self_ns": own["total_ns"],
                "total_ns": _with_below(own["total_ns"], parents),
                "backward_ns": _with_below(own["backward_ns"], parents),
                "busy_ns": busy,
                "exposed_ns": exposed,
                "idle_ns": _with_below(own["idle_ns"], parents),
                "idle_before_ns": _with_below(own["idle_before_ns"], parents),
                "flops": _with_below(own["flops"], parents),
                "flops_per_s": np.zeros(num),
            },
            schema=NODE_SCHEMA,
        )
        return tree.with_columns(_RATE)

    def outside(self) -> pl.DataFrame:
        """What belongs to no node."""
        at = np.where(self.node < 0, 0, -1)
        gap_at = np.where(self.gap_node < 0, 0, -1)
        alone = replace(self, node=at, gap_node=gap_at, num_calls=np.zeros(1, np.int64))
        return alone.tree([OUTSIDE], np.array([-1]))

    def unions(self, nodes: NDArray[np.bool_]) -> tuple[int, int]:
        """busy_ns and exposed_ns of the events of some nodes together."""
        events = np.flatnonzero(np.append(nodes, False)[self.node])
        one = np.zeros(len(events), np.int64)
        busy = totals_by_group(one, self.start[events], self.end[events], 1)
        return int(busy[0]), int(self._exposed(one, events, 1)[0])

    def _exposed(self, node: Array, events: Array, num: int) -> Array:
        moving = self.communicates[events]
        group, merged = grouped_union(node[moving], self.start[events][moving], self.end[events][moving])
        alone = merged.ends - merged.starts - covered(self.account.compute, merged.starts, merged.ends)
        return sums_by_group(group, alone, num)


_RATE = (
    pl.when((pl.col("flops") > 0) & (pl.col("busy_ns") > 0))
    .then(pl.col("flops") / pl.col("busy_ns") * S)
    .alias("flops_per_s")
)


def _levels(node: Array, parents: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Level by level of a tree, leaves first: its nodes, and for each event below, the node there and its position.

    An event stands in one node of a level, so that what is held at once does not grow with the tree's depth.
    """
    depth = _depths(parents)
    at_node = node.copy()
    for level in range(int(depth.max(initial=-1)), -1, -1):
        events = np.flatnonzero(at_node >= 0)
        events = events[depth[at_node[events]] == level]
        yield np.flatnonzero(depth == level), at_node[events], events
        at_node[events] = parents[at_node[events]]


def _depths(parents: Array) -> Array:
    depths: list[int] = []
    for parent in parents.tolist():
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return np.array(depths, np.int64)


def _with_below(own: Array, parents: Array) -> Array:
    """Each node's value with those of all below it."""
    values = own.tolist()
    for at in range(len(values) - 1, -1, -1):
        if parents[at] >= 0:
            values[parents[at]] += values[at]
    return np.array(values, np.int64)


def _used(nodes: pl.DataFrame) -> pl.DataFrame:
    """Without the nodes that have no time in them: modules that launched nothing here."""
    used = ((pl.col("num_events") > 0) | (pl.col("idle_ns") > 0)).alias("used")
    rows = nodes.with_columns(used)
    place = rows.select(pl.col("used").cast(pl.Int64).cum_sum() - 1).to_series().to_numpy()
    parent = nodes.get_column("parent").to_numpy()
    at = pl.Series("parent", np.where(parent >= 0, place[np.maximum(parent, 0)], -1) if len(place) else parent)
    return rows.with_columns(at).filter("used").drop("used")


# --- folded -----------------------------------------------------------------------------------------------------------


def _by_class(parts: _Parts, paths: CallPaths) -> pl.DataFrame:
    """The tree with siblings of one class in one node, all the way down."""
    known: dict[tuple[int, str], int] = {}
    names, parents, to, members = list[str](), list[int](), list[int](), list[int]()
    counted = np.unique(np.concatenate((parts.node, parts.gap_node)))
    used = np.zeros(len(paths.names), np.int64)
    used[counted[counted >= 0]] = 1
    used = np.minimum(_with_below(used, np.array(paths.parents, np.int64)), 1)
    for at, (name, parent) in enumerate(zip(paths.names, paths.parents, strict=True)):
        key = (to[parent] if parent >= 0 else -1, kind_of(name))
        if key not in known:
            known[key] = len(names)
            names.append(key[1])
            parents.append(key[0])
            members.append(0)
        to.append(known[key])
        members[to[at]] += int(used[at])
    tree = parts.moved(np.array(to, np.int64)).tree(names, np.array(parents, np.int64))
    return _used(tree.with_columns(pl.Series("num_members", members, dtype=pl.Int64)))


def _by_function(parts: _Parts, nodes: pl.DataFrame) -> pl.DataFrame:
    """Each function once, wherever it was called from. None is in its own path, so its places add up."""
    added = (
        "num_members",
        "num_calls",
        "num_events",
        "self_ns",
        "total_ns",
        "backward_ns",
        "idle_ns",
        "idle_before_ns",
        "flops",
    )
    rows = nodes.group_by("name", maintain_order=True).agg(pl.col(added).sum())
    rows = rows.filter((pl.col("num_events") > 0) | (pl.col("idle_ns") > 0))
    places = (pl.col(column).rank("ordinal", descending=True) for column in ("self_ns", "total_ns"))
    rows = rows.sort(pl.min_horizontal(*places), "name").head(_MOST_FUNCTIONS)
    rows = rows.sort("total_ns", "idle_ns", "name", descending=[True, True, False])
    names, parents = nodes.get_column("name"), nodes.get_column("parent").to_numpy()
    depth = _depths(parents)
    levels = [np.flatnonzero(depth == level) for level in range(1, int(depth.max(initial=0)) + 1)]
    unions = []
    for name in rows.get_column("name"):
        is_below = (names == name).to_numpy().copy()
        for level in levels:
            is_below[level] |= is_below[parents[level]]
        unions.append(parts.unions(is_below))
    found = pl.DataFrame(unions, schema={"busy_ns": pl.Int64, "exposed_ns": pl.Int64}, orient="row")
    whole = rows.hstack(found).with_columns(pl.lit(-1, dtype=pl.Int64).alias("parent"))
    return whole.with_columns(_RATE).select(list(NODE_SCHEMA))
