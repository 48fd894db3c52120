"""From changes to the plan that they lead to."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import (
    Change,
    FreeStreams,
    NoBarrierWait,
    NoBlocking,
    NoHostGaps,
    PerfectOverlap,
    Remove,
    Scale,
    SmSplit,
)
from weftrace.advice.named_ranges import began_inside, device_rows, finds
from weftrace.advice.op_times import OpTimes, ratios_of
from weftrace.advice.removing import host_shares, launches_of
from weftrace.advice.selecting import WHATS, by_kernel, shares_of
from weftrace.advice.swaps.placements import PlacementSwap, placed_durations
from weftrace.advice.swaps.sm_splits import split_durations
from weftrace.errors import AdviceError
from weftrace.plan.inference.threads.blocking import BLOCKS
from weftrace.plan.inference.values import EDGE_SCHEMA, FIRST_THREAD, Inferred
from weftrace.plan.inference.waits import as_waits
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.plan.times import timetable
from weftrace.units import counted, duration

#: Streams on which communication goes on beside the stream that it was on, from this number on.
APART = 1_000_000_000
#: Streams of ops that are not done, one each, from this number on.
_GONE = 1_500_000_000
_STREAM_WAITS = r"(?i)^(cuda|hip|cu)StreamWaitEvent"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """A plan while it is changed: what a change may touch, as arrays over the inferred plan's ops and waits.

    duration_ns: float64, [ops]; stream: [ops]; lag_ns: float64, [waits]; is_kept: whether a wait still holds, [waits];
    waiter: the op that it holds, [waits].
    is_gone: whether an op on a device is not done at all, [ops]. gap_ns: of device streams. thread_gap_ns: float64,
    [ops], between the call before and this one of a host thread, once threads are held by waits instead of streams;
    None before. notes: what was done, for the reader.
    """

    inferred: Inferred
    duration_ns: NDArray[np.float64]
    stream: NDArray[np.int32]
    lag_ns: NDArray[np.float64]
    is_kept: NDArray[np.bool_]
    waiter: NDArray[np.uint32]
    is_gone: NDArray[np.bool_]
    gap_ns: int
    thread_gap_ns: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Changed:
    """A changed plan. measured, edges: as in `Inferred`, in the order of its ops and waits. notes: what was done."""

    plan: Plan
    measured: pl.DataFrame
    edges: pl.DataFrame
    notes: tuple[str, ...] = field(default=())


def changed(inferred: Inferred, changes: Iterable[Change]) -> Changed:
    """The plan after the changes, made one after the other: what two of them scale is scaled by both.

    Raises `AdviceError` where a change selects nothing, or the same is asked for twice.
    """
    listed = tuple(changes)
    _check_once(listed)
    draft = draft_of(inferred)
    for change in listed:
        draft = applied(draft, change)
    return plan_of(draft, ", ".join(map(str, listed)))


def draft_of(inferred: Inferred) -> Draft:
    """The inferred plan as it stands, to be changed."""
    plan = inferred.plan
    return Draft(
        inferred=inferred,
        duration_ns=plan.ops.get_column("duration_ns").to_numpy().astype(np.float64),
        stream=plan.ops.get_column("stream").to_numpy(),
        lag_ns=plan.waits.get_column("lag_ns").to_numpy().astype(np.float64),
        is_kept=np.ones(plan.waits.height, np.bool_),
        waiter=plan.waits.get_column("op").to_numpy(),
        is_gone=np.zeros(len(plan), np.bool_),
        gap_ns=plan.gap_ns,
    )


def applied(draft: Draft, change: Change) -> Draft:
    """The draft after one more change. Raises `AdviceError` where it selects nothing."""
    match change:
        case Scale():
            return _scaled(draft, change)
        case NoBarrierWait():
            return _scaled(draft, Scale(selector="communication.barrier", factor=0))
        case NoHostGaps():
            return _without_host_gaps(draft)
        case PerfectOverlap():
            return _overlapped(draft)
        case NoBlocking():
            return _without_blocking(draft, change)
        case FreeStreams():
            return _with_free_streams(draft)
        case Remove():
            return _removed(draft, change)
        case OpTimes():
            return _retimed(draft, change)
        case SmSplit():
            return _taking(draft, *split_durations(draft.inferred, change.compute, change.communication))
        case PlacementSwap():
            return _taking(draft, *placed_durations(draft.inferred, change))


def without(inferred: Inferred, class_: str) -> Draft:
    """The plan with no time for one class of a critical path (`weftrace.advice.critical_paths.CLASSES`) anywhere.

    idle: no gaps on a device. dependency: no latency after the op that another waited for. SM wait: no waits for SMs.
    Raises `AdviceError` where the plan has nothing of the class.
    """
    draft = draft_of(inferred)
    if class_ == "idle":
        return replace(_with_thread_gaps(draft), gap_ns=0)
    if class_ == "host":  # with the gaps between calls, which may be all that there is
        takes = (~inferred.measured.get_column("what").is_in(WHATS["host"])).to_numpy()
        draft = _with_thread_gaps(draft)
        return replace(draft, duration_ns=draft.duration_ns * takes, thread_gap_ns=np.zeros(len(takes)))
    source = inferred.edges.get_column("source")
    if class_ == "SM wait":
        return replace(draft, is_kept=(source != "sm").to_numpy())
    if class_ == "dependency":
        latent = (~source.is_in(("launch", "graph", "origin", "sm", "unrecorded"))).to_numpy()
        return replace(draft, lag_ns=np.where(latent, np.minimum(draft.lag_ns, 0.0), draft.lag_ns))
    return applied(draft, Scale(selector=class_, factor=0))


def span_ns(changed: Changed) -> int:
    """From the first start on a device to the last end, replayed."""
    times = timetable(changed.plan)
    on_device = changed.measured.get_column("event").is_not_null().to_numpy()
    return int(times.end_ns[on_device].max()) - int(times.start_ns[on_device].min())


def plan_of(draft: Draft, name: str = "") -> Changed:
    """The plan of a draft: durations and lags rounded, waits that no longer hold left out."""
    inferred, plan = draft.inferred, draft.inferred.plan
    durations = np.rint(draft.duration_ns).astype(np.int64)
    ops = plan.ops.with_columns(duration_ns=pl.Series(durations), stream=pl.Series(draft.stream))
    waits = plan.waits.with_columns(lag_ns=pl.Series(np.rint(draft.lag_ns).astype(np.int64)))
    kept = pl.Series(draft.is_kept)
    both = waits.with_columns(op=pl.Series(draft.waiter)).hstack(inferred.edges).filter(kept)
    both = both.sort("op", maintain_order=True)
    waits, edges = both.select(*WAIT_SCHEMA), both.select(*EDGE_SCHEMA)
    if draft.thread_gap_ns is not None:
        waits, edges = _with_threads(draft, waits, edges)
    if draft.is_gone.any():
        ops, waits, edges = _with_gone(draft, ops, waits, edges)
    named = replace(plan, name=f"{plan.name}, {name}" if name else plan.name, gap_ns=draft.gap_ns, ops=ops, waits=waits)
    return Changed(plan=named, measured=inferred.measured, edges=edges, notes=draft.notes)


def _check_once(changes: tuple[Change, ...]) -> None:
    seen: set[Any] = set()
    for change in changes:
        match change:
            case Scale() | Remove():
                key: Any = (type(change), change.selector)
            case NoBlocking():
                key = (NoBlocking, change.pattern)
            case OpTimes():
                key = (OpTimes, change.label)
            case _:
                key = type(change)
        if key in seen:
            raise AdviceError(f"{change} is asked for beside another change of the same: say once what to try.")
        seen.add(key)


def _scaled(draft: Draft, change: Scale) -> Draft:
    if not (math.isfinite(change.factor) and change.factor >= 0):
        raise AdviceError(f"{change}: durations are multiplied by a number of 0 or more.")
    launches = _is_launch(draft.inferred)
    if change.selector == "launch" and launches.any():  # their latency is there, whether or not the calls are
        shares = (draft.inferred.measured.get_column("what") == "launch").to_numpy().astype(np.float64)
    else:
        shares = shares_of(draft.inferred, change.selector)
    if change.selector in ("host", "launch") or change.selector.startswith("host:"):
        draft = _with_thread_gaps(draft)
    factor = 1 + shares * (change.factor - 1)
    lag_ns, gaps = draft.lag_ns, draft.thread_gap_ns
    if change.selector == "launch":
        lag_ns = np.where(launches, lag_ns * change.factor, lag_ns)
    return replace(
        draft,
        duration_ns=draft.duration_ns * factor,
        lag_ns=lag_ns,
        thread_gap_ns=None if gaps is None else gaps * factor,
    )


def _without_host_gaps(draft: Draft) -> Draft:
    what = draft.inferred.measured.get_column("what")
    if not what.is_in(("launch", "host")).any():
        raise AdviceError("this trace shows no host thread, so there are no host gaps to leave out.")
    draft = _with_thread_gaps(draft)
    assert draft.thread_gap_ns is not None
    takes = (~what.is_in(("launch", "host"))).to_numpy().astype(np.float64)
    return replace(
        draft,
        duration_ns=draft.duration_ns * takes,
        thread_gap_ns=draft.thread_gap_ns * takes,
        lag_ns=np.where(_is_launch(draft.inferred), np.minimum(draft.lag_ns, 0.0), draft.lag_ns),
    )


def _overlapped(draft: Draft) -> Draft:
    inferred = draft.inferred
    on_device = inferred.measured.get_column("event").is_not_null().to_numpy()
    communicates = (inferred.measured.get_column("what") == "communication").to_numpy()
    if not communicates.any() or not (on_device & ~communicates).any():
        raise AdviceError("perfect overlap needs communication and other work on a device; this trace has one of them.")
    op, on = (inferred.plan.waits.get_column(name).to_numpy() for name in ("op", "on"))
    between = on_device[op] & on_device[on] & (communicates[op] != communicates[on])
    dropped = int((between & draft.is_kept).sum())
    streams = np.where(communicates, draft.stream + APART, draft.stream).astype(np.int32)
    longest = pl.DataFrame({"rank": inferred.plan.ops.get_column("rank"), "stream": streams, "ns": draft.duration_ns})
    longest = longest.filter(pl.Series(on_device)).group_by("rank", "stream").agg(pl.col("ns").sum())
    note = (
        f"perfect overlap drops {counted(dropped, 'wait')} between communication and other work; "
        f"the longest stream alone takes {duration(float(longest.get_column('ns').max()))}"  # type: ignore[arg-type]
    )
    return replace(
        draft,
        is_kept=draft.is_kept & ~between,
        stream=streams,
        notes=(*draft.notes, note),
    )


def _without_blocking(draft: Draft, change: NoBlocking) -> Draft:
    inferred = draft.inferred
    own = inferred.plan.ops.select(finds("name", change.pattern)).to_series().to_numpy()
    inside = by_kernel(inferred, lambda kernels: began_inside(kernels, change.pattern).astype(np.float64)) > 0
    source, since = inferred.edges.get_column("source"), inferred.plan.waits.get_column("since")
    blocks = (source.is_in(("blocking", "quiet")) & (since == "end")).to_numpy()
    dropped = draft.is_kept & blocks & (own | inside)[draft.waiter]
    if not dropped.any():
        raise AdviceError(
            f"no call that blocks here, and nothing around one, is called {change.pattern!r}; these block: "
            f"{_blocking_names(inferred)}."
        )
    waiter = _next_to_wait(draft, dropped, own | inside)
    return replace(draft, is_kept=draft.is_kept & (~dropped | (waiter != draft.waiter)), waiter=waiter)


def _next_to_wait(draft: Draft, dropped: NDArray[np.bool_], chosen: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """The op that each wait holds, where the next call on the thread that synchronises waited for nothing, since the
    one that no longer waits had: it does now. chosen: ops that no longer wait, [ops]."""
    plan, still = draft.inferred.plan, np.bincount(draft.waiter[draft.is_kept & ~dropped], minlength=len(chosen)) > 0
    syncs = finds("name", BLOCKS) & (draft.inferred.measured.get_column("what") == "blocking") & ~pl.Series(chosen)
    ops = plan.ops.select("rank", "stream", syncs=syncs).with_row_index("op").with_columns(
        next=pl.col("op"), waits=pl.Series(still)
    )  # fmt: skip
    waits = pl.DataFrame({"wait": np.flatnonzero(dropped), "op": draft.waiter[dropped]})
    waits = waits.join(ops.select("op", "rank", "stream"), on="op").sort("op")
    after = ops.filter("syncs").select("op", "rank", "stream", "next", "waits")
    found = waits.join_asof(
        after, on="op", by=("rank", "stream"), strategy="forward", allow_exact_matches=False, check_sortedness=False
    ).filter(~pl.col("waits"))
    waiter = draft.waiter.copy()
    waiter[found.get_column("wait").to_numpy()] = found.get_column("next").to_numpy()
    return waiter


def _blocking_names(inferred: Inferred) -> str:
    ops = inferred.plan.waits.filter(inferred.edges.get_column("source").is_in(("blocking", "quiet")))
    names = inferred.plan.ops.get_column("name").cast(pl.String).gather(ops.get_column("op")).unique().sort()
    return ", ".join(names.head(8)) or "none"


def _with_free_streams(draft: Draft) -> Draft:
    inferred = draft.inferred
    ops, waits = inferred.plan.ops.select("rank", "stream"), inferred.plan.waits
    op, on = (waits.get_column(name).to_numpy() for name in ("op", "on"))
    rank, stream = (ops.get_column(name).to_numpy() for name in ("rank", "stream"))
    voted = (inferred.edges.get_column("source") == "voted").to_numpy() & (rank[op] == rank[on])
    voted &= draft.is_kept & (stream[op] != stream[on]) & ~_has_call_between(inferred, op, on)
    if not voted.any():
        raise AdviceError(
            "no wait between streams here may be of the launch order alone: all are recorded, or follow a call that "
            "makes a stream wait."
        )
    note = f"free streams drop {counted(int(voted.sum()), 'voted wait')} between streams of one device"
    return replace(draft, is_kept=draft.is_kept & ~voted, notes=(*draft.notes, note))


def _has_call_between(inferred: Inferred, op: NDArray[Any], on: NDArray[Any]) -> NDArray[np.bool_]:
    """Of each wait whether, on the host, a call that makes a stream wait lies between the launches of the two, or may
    lie there, as a launch is not known."""
    num_before = np.full(len(inferred.plan), -1)
    for at, work in enumerate(inferred.works):
        rows, events = device_rows(inferred, at)
        names = work.trace.events.get_column("name").unique()
        names = names.filter(names.cast(pl.String).str.contains(_STREAM_WAITS))
        calls = work.trace.events.filter(pl.col("name").is_in(names.implode())).get_column("ts_ns").sort().to_numpy()
        launched = work.events.get_column("launch_ts_ns").gather(events)
        before = np.searchsorted(calls, launched.fill_null(0).to_numpy(), "right")
        num_before[rows] = np.where(launched.is_null().to_numpy(), -1, before)
    between: NDArray[np.bool_] = (num_before[op] != num_before[on]) | (num_before[op] < 0)
    return between


def _removed(draft: Draft, change: Remove) -> Draft:
    inferred = draft.inferred
    on_device = inferred.measured.get_column("event").is_not_null().to_numpy()
    shares = shares_of(inferred, change.selector) * on_device
    if not shares.any():
        raise AdviceError(f"{change.selector!r} names no work on a device, and nothing else is removed.")
    return _without(draft, shares, lambda kernels: shares_of(kernels, change.selector))


def _without(draft: Draft, shares: NDArray[np.float64], of_kernels: Callable[[Inferred], NDArray[np.float64]]) -> Draft:
    """Without so much of ops on a device, [ops], and of what goes with those that are gone; of_kernels: the same of the
    plan of kernels, where ops are phases."""
    inferred = draft.inferred
    of_host = by_kernel(inferred, lambda kernels: host_shares(kernels, of_kernels(kernels) >= 1))
    gone = shares >= 1
    draft = _with_thread_gaps(draft)
    assert draft.thread_gap_ns is not None
    op, call = (inferred.plan.waits.get_column(name).to_numpy() for name in ("op", "on"))
    blocks = (inferred.edges.get_column("source") == "blocking").to_numpy() & (of_host[op] >= 1) & gone[call]
    return replace(
        draft,
        duration_ns=draft.duration_ns * (1 - shares) * (1 - of_host),
        thread_gap_ns=draft.thread_gap_ns * (1 - of_host),
        lag_ns=np.where(launches_of(inferred) & gone[op], np.minimum(draft.lag_ns, 0.0), draft.lag_ns),
        is_kept=draft.is_kept & ~blocks,
        is_gone=draft.is_gone | gone,
    )


def _retimed(draft: Draft, change: OpTimes) -> Draft:
    inferred = draft.inferred
    ratios = by_kernel(inferred, lambda kernels: ratios_of(kernels, change))
    draft = replace(draft, notes=tuple(dict.fromkeys((*draft.notes, *change.notes))))
    if not change.frees_launches:
        return replace(draft, duration_ns=draft.duration_ns * ratios)
    on_device = inferred.measured.get_column("event").is_not_null().to_numpy()
    gone = on_device & (ratios <= 0)
    draft = replace(draft, duration_ns=draft.duration_ns * np.where(gone, 1.0, ratios))
    return _without(
        draft, gone.astype(np.float64), lambda kernels: (ratios_of(kernels, change) <= 0).astype(np.float64)
    )


def _taking(draft: Draft, then: NDArray[np.float64], notes: tuple[str, ...]) -> Draft:
    """With durations changed as much as those of the inferred plan are in `then`, [ops]."""
    now = draft.inferred.plan.ops.get_column("duration_ns").to_numpy()
    factor = np.divide(then, now, out=np.ones_like(then), where=now > 0)
    return replace(draft, duration_ns=draft.duration_ns * factor, notes=(*draft.notes, *notes))


def _is_launch(inferred: Inferred) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (inferred.plan.waits.get_column("why") == "launch").to_numpy()
    return mask


def _with_thread_gaps(draft: Draft) -> Draft:
    """Host threads held in order by waits, so that the gap between their calls can be scaled as well."""
    if draft.thread_gap_ns is not None:
        return draft
    is_host = (draft.inferred.plan.ops.get_column("kind") == "host").to_numpy()
    apart = np.where(is_host, FIRST_THREAD + np.arange(len(is_host)), draft.stream)
    gaps = np.full(len(is_host), float(draft.gap_ns))
    return replace(draft, stream=apart.astype(np.int32), thread_gap_ns=gaps)


def _with_threads(draft: Draft, waits: pl.DataFrame, edges: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Waits and edges with one more for each op of a host thread, on the op before it; its source is null."""
    ops = draft.inferred.plan.ops.select("kind", "rank", "stream").with_row_index("op")
    order = ops.filter(kind="host").select("op", on=pl.col("op").shift(1).over("rank", "stream"))
    assert draft.thread_gap_ns is not None
    gaps = np.rint(draft.thread_gap_ns).astype(np.int64)
    order = order.drop_nulls("on").with_columns(lag_ns=pl.lit(pl.Series(gaps)).gather("op"), why=pl.lit("host"))
    both = pl.concat([as_waits(order), waits.hstack(edges)]).sort("op", maintain_order=True)
    return both.select(*WAIT_SCHEMA), both.select(*EDGE_SCHEMA)


def _with_gone(
    draft: Draft, ops: pl.DataFrame, waits: pl.DataFrame, edges: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Ops that are not done off their streams and meets, so that no gap is kept for them; each still waits for the op
    before it there, and the next that is done for it. The source of these waits is null."""
    gone = draft.is_gone
    rows = ops.select("rank", "stream").with_row_index("op").with_columns(gone=pl.Series(gone))
    rows = rows.with_columns(pl.col("op", "gone").shift(1).over("rank", "stream").name.prefix("last_"))
    order = rows.filter(pl.col("last_op").is_not_null(), pl.col("gone") | pl.col("last_gone"))
    order = order.select("op", on="last_op", lag_ns=pl.lit(0), why=pl.lit("data"), source=pl.lit(None, pl.String))
    both = pl.concat([waits.hstack(edges), as_waits(order)]).sort("op", maintain_order=True)
    apart = np.where(gone, _GONE + np.arange(len(gone)), draft.stream).astype(np.int32)
    met = pl.when(~pl.Series(gone)).then("meet")
    ops = ops.with_columns(stream=pl.Series(apart), meet=met)
    return ops, both.select(*WAIT_SCHEMA), both.select(*EDGE_SCHEMA)
