"""Why did the device wait? Every nanosecond of its idle time, by cause, with what the host did then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, TypedDict

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.intervals import Array, Intervals, sums_by_group, union
from weftrace.analysis.waiting.gap_parts import PARTS
from weftrace.analysis.waiting.host_paths import FRAME, KINDS
from weftrace.analysis.waiting.idle_pieces import CAUSES, IdlePieces, idle_pieces
from weftrace.analysis.waiting.naming import NOTHING, may_name, names_of, outermost_operators
from weftrace.files.columns import Shown, frame_of, frame_schema
from weftrace.files.schemas import Count, Ns, Share
from weftrace.files.values import UNSAVED, As
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import duration

#: Gaps that are counted as those that make a cause: the longest, up to this part of it.
_MOST_OF_CAUSE = 0.9
#: Nodes of the tree that are kept: those with so much of the idle time, and no more than so many.
_LEAST_SHARE, _MOST_NODES = 0.01, 200
_MOST_PAIRS = 50

_UNRECORDED = ("unrecorded", "file_cut")


class IdleCauseRow(TypedDict):
    """One cause of idle time. The rows of all causes add up to it."""

    cause: Annotated[str, Meta(description="One of CAUSES, see docs/idle.md."), Shown("cause")]
    ns: Annotated[int, Meta(ge=0, description="Idle time charged to it."), Shown("time", style="time")]
    share: Annotated[Share, Meta(description="Of the idle time."), Shown("of idle", style="share")]
    num_gaps: Annotated[Count, Meta(description="Gaps with any of it."), Shown("gaps")]
    num_main: Annotated[Count, Meta(description="The longest of them, which hold 90 % of it.")]
    main_ns: Annotated[int, Meta(ge=0, description="Their median part in it.")]
    num_steps: Annotated[Count, Meta(description="Steps with any of it; 0 if no steps are recorded.")]
    name: Annotated[
        str,
        Meta(description="The deepest annotation, operator, function or call that holds 60 % of it; empty: none does."),
        Shown("where", wide=True),
    ]
    kind: Annotated[str, Meta(description="What `name` is: annotation, operator, frame or call.")]
    name_ns: Annotated[int, Meta(ge=0, description="The part of the cause that lies in it.")]
    within: Annotated[str, Meta(description="The deepest operator or annotation around it.")]
    child: Annotated[
        str,
        Meta(description="The largest event in it, or, without a name, of all."),
        Shown("most in", wide=True),
    ]
    child_ns: Annotated[int, Meta(ge=0, description="The part of the cause that lies in `child`.")]


class HostNodeRow(TypedDict):
    """A node of what the host did while the device waited; a parent comes before its children."""

    id: Count
    parent: Annotated[int, Meta(ge=-1, description="id of the node around it; -1 at the top.")]
    name: str
    kind: Annotated[str, Meta(description="annotation, operator, frame or call.")]
    ns: Annotated[int, Meta(ge=0, description="Idle time in it, including all that it contains.")]


class SeparatedRow(TypedDict):
    """Gaps between the same two kernels or copies."""

    before: Annotated[str, Meta(description="What ended before the gap."), Shown("after", wide=True)]
    after: Annotated[str, Meta(description="What started at its end."), Shown("before", wide=True)]
    num_gaps: Annotated[Count, Shown("gaps")]
    ns: Annotated[int, Meta(ge=0, description="Their idle time."), Shown("time", style="time")]
    host_ns: Annotated[
        int,
        Meta(ge=0, description="The part of it that is the host's or the launch call's."),
        Shown("of the host", style="time"),
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class IdleAccount(InNotebook):
    """Idle time of a device, cut at the launch of what ends each gap.

    The parts add up to `Breakdown.idle_ns`, and so do the causes; `unrecorded_ns` is taken out of the other parts.
    """

    idle_ns: Ns
    host_ns: Annotated[Ns, Meta(description="Until the launch call begins: the host's work.")]
    call_ns: Annotated[Ns, Meta(description="In the launch call.")]
    launch_latency_ns: Annotated[
        Ns, Meta(description="From the call's end, up to the median of such launches in this trace.")
    ]
    turnaround_ns: Annotated[Ns, Meta(description="Gaps up to 30 µs before what was launched in time.")]
    held_ns: Annotated[
        Ns, Meta(description="What is longer than both: queued, and held by something; never the host's.")
    ]
    unrecorded_ns: Annotated[Ns, Meta(description="Gaps, and parts of them, in which work ran that the file lacks.")]
    unknown_ns: Annotated[Ns, Meta(description="Gaps that end with an event without a launch.")]
    with_stacks: Annotated[bool, Meta(description="Whether Python frames were recorded, and read.")]
    causes: Annotated[pl.DataFrame, As(list[IdleCauseRow]), Meta(description="Largest first.")]
    operators: Annotated[
        list[tuple[str, int]],
        Meta(description="The outermost operators with most of the time that is charged to `operators`, and their ns."),
    ]
    host: Annotated[
        pl.DataFrame, As(list[HostNodeRow]), Meta(description="What the host did meanwhile: nodes with 1 % or more.")
    ]
    separated: Annotated[
        pl.DataFrame, As(list[SeparatedRow]), Meta(description="The neighbours of gaps, largest first, at most 50.")
    ]
    latency_ns: Annotated[dict[str, int], Meta(description="Launch call -> its usual latency, the median.")]
    pieces: Annotated[IdlePieces | None, UNSAVED] = None

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "idle", duration(self.idle_ns)
        for row in self.causes.head(5).iter_rows(named=True):
            yield (
                row["cause"],
                f"{duration(row['ns'])} in {row['num_gaps']:,} gaps{' · ' * bool(row['name'])}{row['name']}",
            )


def idle_account(source: Trace | Work) -> IdleAccount:
    """Why a device waited. By hand: cut each gap at the launch of the event that ends it; the host's part goes to what
    was innermost on the launching thread, by the rules of activities.toml and then by the kind of record.

    Python functions are named of a trace that was read with `frames=True`. Raises TraceError where a Trace holds
    several devices.
    """
    work = as_work(source)
    pieces = idle_pieces(work)
    length = pieces.length
    hidden = np.isin(pieces.cause, [CAUSES.index(cause) for cause in _UNRECORDED])
    parts = sums_by_group(pieces.part[~hidden], length[~hidden], len(PARTS)).tolist()
    frames = work.trace.frames
    operators = pieces.cause == CAUSES.index("operators")
    named = outermost_operators(pieces.paths, pieces.path[operators], length[operators])
    return IdleAccount(
        idle_ns=int(length.sum()),
        unrecorded_ns=int(length[hidden].sum()),
        with_stacks=frames is not None and frames.height > 0,
        causes=frame_of(IdleCauseRow, list(_causes(pieces))),
        operators=[(each.name, each.ns) for each in named],
        host=_host_tree(pieces),
        separated=_separated(pieces),
        latency_ns=pieces.gaps.latency_ns,
        pieces=pieces,
        **{f"{part}_ns": ns for part, ns in zip(PARTS, parts, strict=True)},
    )


def unrecorded_holes(source: Trace | Work) -> pl.DataFrame:
    """Gaps in which work ran that the file does not hold: `row` of the device event that ends each, and `before` of the
    one that ended last before it, rows of the trace's events."""
    pieces = idle_pieces(as_work(source))
    hidden = np.isin(pieces.cause, [CAUSES.index(cause) for cause in _UNRECORDED])
    return pieces.gaps.events.select("row", "before")[np.unique(pieces.gap[hidden])]


def unrecorded_time(source: Trace | Work) -> Intervals:
    """When work ran that the file does not hold, absolute ns."""
    pieces = idle_pieces(as_work(source))
    hidden = np.isin(pieces.cause, [CAUSES.index(cause) for cause in _UNRECORDED])
    return union(pieces.start[hidden], pieces.end[hidden])


def _causes(pieces: IdlePieces) -> Iterator[IdleCauseRow]:
    length, total = pieces.length, int(pieces.length.sum())
    sums = sums_by_group(pieces.cause, length, len(CAUSES))
    steps = pieces.gaps.events.get_column("step")
    for code in np.argsort(-sums, kind="stable").tolist():
        if not sums[code]:
            return
        mine = pieces.cause == code
        own = np.sort(np.bincount(pieces.gap[mine], length[mine]).astype(np.int64))[::-1]
        own = own[own > 0]
        num_main = int(np.searchsorted(np.cumsum(own), _MOST_OF_CAUSE * sums[code])) + 1
        name, within, child = names_of(pieces.paths, pieces.named[mine], length[mine])
        if name.kind == KINDS.index(FRAME) and CAUSES[code].startswith("blocking"):  # around several calls: name one
            name, within, child = names_of(pieces.paths, pieces.named[mine], length[mine], frames=False)
        yield {
            "cause": CAUSES[code],
            "ns": int(sums[code]),
            "share": float(sums[code] / total),
            "num_gaps": len(own),
            "num_main": num_main,
            "main_ns": int(np.median(own[:num_main])),
            "num_steps": steps.gather(np.unique(pieces.gap[mine])).drop_nulls().n_unique(),
            "name": name.name,
            "kind": KINDS[name.kind] if name is not NOTHING else "",
            "name_ns": name.ns,
            "within": within.name,
            "child": child.name,
            "child_ns": child.ns,
        }


def _host_tree(pieces: IdlePieces) -> pl.DataFrame:
    """A frame of `HostNodeRow`: what may be named, without what only passes calls on."""
    paths, total = pieces.paths, int(pieces.length.sum())
    known = pieces.path >= 0
    sums = sums_by_group(pieces.path[known], pieces.length[known], len(paths.name))
    for node in range(len(sums) - 1, -1, -1):  # children come after their parents
        if paths.parent[node] >= 0:
            sums[paths.parent[node]] += sums[node]
    names = paths.names.to_list()
    kept = np.flatnonzero(sums >= max(1, _LEAST_SHARE * total))
    kept = kept[[may_name(names[paths.name[node]], int(paths.kind[node])) for node in kept]] if len(kept) else kept
    kept = np.sort(kept[np.argsort(-sums[kept], kind="stable")][:_MOST_NODES])
    place = {int(node): at for at, node in enumerate(kept)}
    rows: list[HostNodeRow] = []
    for at, node in enumerate(kept.tolist()):
        above = int(paths.parent[node])
        while above >= 0 and above not in place:
            above = int(paths.parent[above])
        name, kind = names[paths.name[node]], KINDS[int(paths.kind[node])]
        rows.append({"id": at, "parent": place.get(above, -1), "name": name, "kind": kind, "ns": int(sums[node])})
    return frame_of(HostNodeRow, rows)


def _separated(pieces: IdlePieces) -> pl.DataFrame:
    num = pieces.gaps.events.height
    on_host = pieces.part <= PARTS.index("call")
    frame = pieces.gaps.events.select(
        pl.col("before_name").cast(pl.String).alias("before"), pl.col("name").cast(pl.String).alias("after"),
        pl.Series("ns", _by_gap(pieces, np.ones(len(on_host), np.bool_), num)),
        pl.Series("host_ns", _by_gap(pieces, on_host, num)),
    ).filter(pl.col("ns") > 0)  # fmt: skip
    pairs = frame.group_by("before", "after").agg(
        pl.len().cast(pl.Int64).alias("num_gaps"), pl.col("ns", "host_ns").sum()
    )
    pairs = pairs.sort("ns", "before", "after", descending=[True, False, False]).head(_MOST_PAIRS)
    return pairs.select(pl.col(name).cast(dtype) for name, dtype in frame_schema(SeparatedRow).items())


def _by_gap(pieces: IdlePieces, chosen: NDArray[np.bool_], num: int) -> Array:
    return sums_by_group(pieces.gap[chosen], pieces.length[chosen], num)
