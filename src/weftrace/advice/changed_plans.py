"""From changes to the plan that they lead to."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.advice.changes import Change, NoBarrierWait, NoHostGaps, PerfectOverlap, Scale, SmSplit
from weftrace.advice.selecting import WHATS, selected
from weftrace.advice.swaps.placements import PlacementSwap, placed_durations
from weftrace.advice.swaps.sm_splits import split_durations
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import EDGE_SCHEMA, FIRST_THREAD, Inferred
from weftrace.plan.inference.waits import as_waits
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.plan.times import timetable
from weftrace.units import counted, duration

#: Streams on which communication goes on beside the stream that it was on, from this number on.
APART = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """A plan while it is changed: what a change may touch, as arrays over the inferred plan's ops and waits.

    duration_ns: float64, [ops]; stream: [ops]; lag_ns: float64, [waits]; is_kept: whether a wait still holds, [waits].
    gap_ns: of device streams. thread_gap_ns: float64, [ops], between the call before and this one of a host thread,
    once threads are held by waits instead of streams; None before. notes: what was done, for the reader.
    """

    inferred: Inferred
    duration_ns: NDArray[np.float64]
    stream: NDArray[np.int32]
    lag_ns: NDArray[np.float64]
    is_kept: NDArray[np.bool_]
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
    waits, edges = waits.filter(kept), inferred.edges.filter(kept)
    if draft.thread_gap_ns is not None:
        waits, edges = _with_threads(draft, waits, edges)
    named = replace(plan, name=f"{plan.name}, {name}" if name else plan.name, gap_ns=draft.gap_ns, ops=ops, waits=waits)
    return Changed(plan=named, measured=inferred.measured, edges=edges, notes=draft.notes)


def _check_once(changes: tuple[Change, ...]) -> None:
    seen: set[Any] = set()
    for change in changes:
        key = change.selector if isinstance(change, Scale) else type(change)
        if key in seen:
            raise AdviceError(f"{change} is asked for beside another change of the same: say once what to try.")
        seen.add(key)


def _scaled(draft: Draft, change: Scale) -> Draft:
    if not (math.isfinite(change.factor) and change.factor >= 0):
        raise AdviceError(f"{change}: durations are multiplied by a number of 0 or more.")
    launches = _is_launch(draft.inferred)
    if change.selector == "launch" and launches.any():  # their latency is there, whether or not the calls are
        mask = (draft.inferred.measured.get_column("what") == "launch").to_numpy()
    else:
        mask = selected(draft.inferred, change.selector)
    if change.selector in ("host", "launch"):
        draft = _with_thread_gaps(draft)
    factor = np.where(mask, change.factor, 1.0)
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
