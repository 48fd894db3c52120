"""Where does the answer to a what-if stop being valid? What a replay with other durations leaves out."""

from __future__ import annotations

from collections.abc import Iterator

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
from weftrace.advice.concurrency import concurrency_fraction
from weftrace.advice.contention import contention_of
from weftrace.advice.critical_paths import ON_DEVICE, CriticalPath
from weftrace.advice.idle_causes import of_host_gaps
from weftrace.advice.op_times import OpTimes
from weftrace.advice.selecting import selected
from weftrace.advice.swaps.placements import PlacementSwap
from weftrace.plan.contention import load_slowdowns
from weftrace.plan.inference.threads.host import WORK
from weftrace.plan.inference.threads.polling import SHORTEST_NS
from weftrace.plan.inference.values import Inferred
from weftrace.plan.times import Timetable
from weftrace.units import US, counted, duration, of_whole, percent

#: A wait on the new path that is less sure than this is named.
UNSURE = 0.5
#: The host is named from this share of the new path on.
MUCH_HOST = 0.1
#: Shares that differ by less are called the same.
NOTABLE = 0.02
#: What kernels on the new path lose or gain beside communication is told from this share of it on.
LEAST = 0.001
#: Kernels beside communication are named where the share of their time changes by more than this.
MUCH_BESIDE = 0.05


def limits_of(
    inferred: Inferred, changes: tuple[Change, ...], before: CriticalPath, after: CriticalPath
) -> tuple[str, ...]:
    """Sentences, those that apply: of the replay, the changes, then of the path after them."""
    found: list[str] = []
    found += _of_replay(inferred)
    for change in changes:
        found += _of_change(inferred, change)
    if (before.times.plan.ops.get_column("duration_ns") != after.times.plan.ops.get_column("duration_ns")).any():
        found += _of_sm_waits(inferred, after)
    found += _of_hidden_waits(inferred)
    found += _of_gaps(inferred, before, after)
    if contention_of(inferred).basis == "none":
        found += _of_contention(before, after)
    found += _of_host(before, after)
    found += _of_silence(after)
    found += _of_votes(after)
    return tuple(dict.fromkeys(found))


def _of_replay(inferred: Inferred) -> Iterator[str]:
    if doubts := inferred.replay.doubts:
        yield f"the replay is not to be trusted: {'; '.join(doubts)}. The plan lacks something that held the run back."


def _of_change(inferred: Inferred, change: Change) -> Iterator[str]:
    match change:
        case Scale():
            yield from _of_scale(inferred, change)
        case PerfectOverlap():
            yield (
                "perfect overlap is a bound: most of the waits that it drops are for data, and memory that is held "
                "longer for it is not counted."
            )
        case NoHostGaps():
            yield from of_host_gaps(inferred)
        case FreeStreams():
            yield (
                "free streams are a bound: no event lies between the launches of the waits that are dropped, but some "
                "of them may have been for data all the same."
            )
        case NoBlocking():
            yield (
                f"without blocking in {change.pattern}, the host uses no value before the device has computed it, and "
                "memory that is held longer for it is not counted."
            )
        case Remove():
            yield f"what {change.selector} made is taken to be needed by nothing, or to be had for nothing."
        case NoBarrierWait() | OpTimes() | SmSplit() | PlacementSwap():
            pass  # the last three say in their notes what they assume


def _of_scale(inferred: Inferred, change: Scale) -> Iterator[str]:
    """Families that a selector's name may be taken to mean; whether equal kernels were ever seen as fast, or as slow,
    as they are to be."""
    yield from _of_namesakes(inferred, change.selector)
    seen = _seen(inferred, change.selector)
    if change.factor == 1 or seen is None or seen[0] <= change.factor <= seen[1]:
        return
    yield (
        f"kernels of {change.selector} with one name in one phase took between ×{seen[0]:.2f} and ×{seen[1]:.2f} of "
        f"their median in this trace; ×{change.factor:g} is outside that range."
    )


def _of_namesakes(inferred: Inferred, selector: str) -> Iterator[str]:
    """That `gemm` is a family of its own, and gemm_fp8 another."""
    family = pl.col("family").cast(pl.String)
    ops = inferred.measured.select(family, "event").hstack(inferred.plan.ops.select("duration_ns"))
    times = ops.filter(pl.col("event").is_not_null(), family.eq(selector) | family.str.starts_with(f"{selector}_"))
    times = times.group_by("family", maintain_order=True).agg(pl.col("duration_ns").sum()).sort("family")
    summary = {name: duration(time_ns) for name, time_ns in times.iter_rows()}
    if len(summary) > 1 and selector in summary:
        own = summary.pop(selector)
        others = ", ".join(f"{name} ({time})" for name, time in summary.items())
        yield f"{selector} is one kernel family, {own} in all; not in it: {others}."


def _seen(inferred: Inferred, selector: str) -> tuple[float, float] | None:
    """The 5th and 95th percentile of a duration over the median of its name and phase, of what runs on a device three
    times or more; None where nothing does."""
    ops = inferred.plan.ops.select("name", "phase", "duration_ns").hstack(inferred.measured.select("event"))
    ops = ops.filter(pl.Series(selected(inferred, selector)), pl.col("event").is_not_null(), pl.col("duration_ns") > 0)
    same = ("name", "phase")
    median = pl.col("duration_ns").median().over(same)
    ratio = ops.filter(pl.len().over(same) >= 3).select(pl.col("duration_ns") / median).to_series()
    if ratio.is_empty():
        return None
    low, high = ratio.quantile(0.05), ratio.quantile(0.95)
    assert low is not None and high is not None
    return low, high


def _of_sm_waits(inferred: Inferred, after: CriticalPath) -> Iterator[str]:
    if num := int((inferred.edges.get_column("source") == "sm").sum()):
        on_path = int((after.path.get_column("source") == "sm").sum())
        yield (
            f"{counted(num, 'wait')} for free SMs {'stays' if num == 1 else 'stay'} with the same two kernels "
            f"({on_path} on the new path), though with other durations others may meet."
        )


def _of_hidden_waits(inferred: Inferred) -> Iterator[str]:
    """Waits between streams for which nothing votes are told by what is left, or not at all; then they may hold."""
    guessed = inferred.edges.filter(pl.col("source") == "voted", pl.col("votes_for") == 0).height
    summary = [f"{inferred.num_open:,} could not be placed"] if inferred.num_open else []
    summary += [f"{guessed:,} {'is' if guessed == 1 else 'are'} placed only by elimination"] if guessed else []
    if summary:
        yield (
            f"of the waits between streams that held nothing up, {' and '.join(summary)}: "
            "what they would hold up after "
            "the change is not known."
        )


def _of_gaps(inferred: Inferred, before: CriticalPath, after: CriticalPath) -> Iterator[str]:
    """Where no kernel was queued in time behind another, the gap between two is not in the file."""
    was, becomes = (_num_behind(path) for path in (before, after))
    if not inferred.kept.gap_ns and becomes > was and not _have_touched(inferred):
        yield (
            "no kernel was queued here until the one before it had ended, so the gap between two is not known, and "
            f"none is kept: on the new path {becomes:,} run right behind another; each µs between them would add "
            f"{duration(becomes * US)}."
        )


def _num_behind(path: CriticalPath) -> int:
    """How many ops on the path started as the one before on their stream had ended."""
    return path.path.filter(pl.col("what").is_in(ON_DEVICE), reached_by="stream order").height


def _have_touched(inferred: Inferred) -> bool:
    """Whether an op on a device was measured to start as the one before on its stream ended."""
    ops = inferred.plan.ops.select("rank", "stream").hstack(inferred.measured.select("event", "start_ns", "end_ns"))
    ops = ops.filter(pl.col("event").is_not_null())
    touches = pl.col("start_ns") == pl.col("end_ns").shift(1).over("rank", "stream")
    return bool(ops.select(touches.any()).item())


def _of_contention(before: CriticalPath, after: CriticalPath) -> Iterator[str]:
    """Kernels beside each other slow each other down: durations hold what that cost in the run, not afterwards."""
    was, becomes = (_beside(path.times, path.measured) for path in (before, after))
    computes = (after.measured.get_column("what") == "compute").to_numpy()
    lasted, lasts = (_duration_ns(path.times) * computes for path in (before, after))
    each = ((was, lasted), (becomes, lasts))
    shares = [float((beside * took).sum()) / max(float(took.sum()), 1) for beside, took in each]
    if abs(shares[1] - shares[0]) <= MUCH_BESIDE:
        return
    rows = after.path.get_column("op").unique().to_numpy()
    less = float(((was - becomes) * lasts * _lost(after))[rows].sum())
    if abs(less) < LEAST * after.span_ns:
        return
    worth = f"kernels on the new path are about {duration(abs(less))} too {'long' if less > 0 else 'short'} for it"
    yield (
        f"kernels compute beside communication for {percent(shares[1], 0)} of their time then, {percent(shares[0], 0)} "
        f"before, and what that costs them stays as measured: {worth}, if it costs what it does on DeepSeek's profile."
    )


def _beside(times: Timetable, measured: pl.DataFrame) -> NDArray[np.float64]:
    """Of each op, the part of its time during which its rank communicates."""
    communicates = (measured.get_column("what") == "communication").to_numpy()
    return concurrency_fraction(measured.get_column("at").to_numpy(), times.start_ns, times.end_ns, communicates)


def _duration_ns(times: Timetable) -> NDArray[np.int64]:
    durations: NDArray[np.int64] = times.plan.ops.get_column("duration_ns").to_numpy()
    return durations


def _lost(path: CriticalPath) -> NDArray[np.float64]:
    """Of each op, the share of its time that it loses while communication runs beside it: 1 - 1 / slowdown."""
    kernels = path.times.plan.ops.select("kind", path.measured.get_column("family").cast(pl.String))
    factor = pl.lit(1.0)
    for slowdown in reversed(load_slowdowns()):
        factor = pl.when(slowdown.of).then(slowdown.factor or 1.0).otherwise(factor)
    lost: NDArray[np.float64] = kernels.select(1 - 1 / factor).to_series().to_numpy()
    return lost


def _of_host(before: CriticalPath, after: CriticalPath) -> Iterator[str]:
    """Whether the host no longer runs ahead of the device."""
    was, becomes = (_share_of_host(path) for path in (before, after))
    if becomes > max(MUCH_HOST, was + NOTABLE):
        late = [int((path.path.filter(pl.col("what").is_in(ON_DEVICE)).get_column("reached_by") == "launch").sum())
                for path in (before, after)]  # fmt: skip
        yield (
            f"the host decides {percent(becomes, 0)} of the span then, {percent(was, 0)} before; on the path the "
            f"device waits {counted(late[1], 'time')} for a launch, {counted(late[0], 'time')} before. How the host "
            "would keep up is not in the trace."
        )


def _of_silence(after: CriticalPath) -> Iterator[str]:
    """Whether much of the new path is a thread's that recorded nothing: it may have waited for what is changed."""
    lasts = after.measured.select(pl.col("end_ns") - pl.col("start_ns")).to_series()
    parts = after.parts.filter(pl.col("name") == WORK, lasts.gather(after.parts.get_column("op")) >= SHORTEST_NS)
    silent = int(parts.select((pl.col("until_ns") - pl.col("from_ns")).sum()).item())
    if silent > MUCH_HOST * after.span_ns:
        yield (
            f"{of_whole(silent, after.span_ns)} are host time outside operators, in stretches of "
            f"{duration(SHORTEST_NS)} and more: it counts as work, and stays even where the thread waited for "
            "something that is faster or slower now."
        )


def _share_of_host(path: CriticalPath) -> float:
    return float(path.by_class.filter(pl.col("name").is_in(("host", "launch"))).get_column("share").sum())


def _of_votes(after: CriticalPath) -> Iterator[str]:
    edge = after.weakest
    if edge is not None and edge.confidence < UNSURE:
        through = after.path.filter(pl.col("confidence") < UNSURE)
        behind = int((through.get_column("end_ns") - through.get_column("start_ns")).sum())
        votes = "" if edge.votes_for is None else f", {edge.votes_for} for and {edge.votes_against} against"
        yield (
            f"{counted(through.height, 'wait')} on the new path {'is' if through.height == 1 else 'are'} unsure, the "
            f"least with a confidence of {edge.confidence:.2f} ({edge.source}{votes}); "
            f"{of_whole(behind, after.span_ns)} are reached by them."
        )
