"""Calls that hold up the host for memory: allocations, pageable copies, FSDP's limit. Rules 18, 19 and 20."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.bounds import tried
from weftrace.advice.changes import Change, NoBlocking
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host import READS, inside, is_rate_limited, waiting_names
from weftrace.advice.findings.rules.host_idle import (
    Mask,
    by_step,
    calls_of,
    charged,
    of_step,
    pattern_of,
    place_of,
    place_where,
    step_of,
    time_of,
)
from weftrace.advice.op_times import op_times
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import Array, covered, of_events, sums_by_group
from weftrace.analysis.waiting.call_names import COPY, MAY_RETURN, PAGEABLE
from weftrace.errors import WeftraceError
from weftrace.trace.model import is_launch
from weftrace.units import US, counted, size

#: Calls for pinned memory of the host: another allocator's.
_OF_HOST = r"(?i)^(cuda|hip|cu)\w*host"
#: What FSDP waits in until fewer all-gathers are in flight.
_LIMITED = r"^(cuda|hip)EventSynchronize"
#: A copy to or from the host whose name does not say of which memory.
_UNSAID = r"(?i)(HtoD|DtoH).*\bHost\b"
#: A call that waits for a copy may return so long before the copy is recorded to end.
_RETURNS_NS = 20 * US
_END = pl.col("ts_ns") + pl.col("dur_ns")
#: Of the published rate of the link to the host, what copies of pinned memory reach.
_OF_PEAK = 0.8


# 18: allocations ----------------------------------------------------------------------------------------------------


def allocator(evidence: Evidence) -> Iterator[Found]:
    """18: the caching allocator asks the driver for memory, or gives some back, when it should have all it needs."""
    limits = rule_text("allocator").thresholds
    chosen = charged(evidence, ("allocation",)) & ~inside(evidence, _OF_HOST)
    numbers = [step.step for step in evidence.steps[int(limits["first_step"]) :]]
    if evidence.steps:
        chosen &= np.isin(step_of(evidence), numbers)
    steady_ns = time_of(evidence, chosen)
    ns = steady_ns * max(1, len(evidence.steps)) // max(1, len(numbers))  # as if each step were a steady one
    if not ns or evidence.share(ns) < limits["least_share"]:
        return
    place, calls = place_of(evidence, chosen), calls_of(evidence, chosen)
    steps = f" in {counted(len(numbers), 'step')} after warm-up" if evidence.steps else ""
    yield Found(
        sentence=f"The allocator asks the driver for memory or frees it{place.words}, {counted(len(calls), 'call')}"
        f"{steps}: {of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in these calls and after them", value=steady_ns, unit="ns"),
            Number(name="calls", value=len(calls), unit="count"),
        ),
        where=place_where(evidence, place, calls),
        saves_ns=(ns, ns),
        how="the idle time in these calls and after them",
        confidence="high" if evidence.steps else "medium",
        reason="" if evidence.steps else "no steps are recorded, so this may be a warm-up",
    )


# 19: copies ---------------------------------------------------------------------------------------------------------


def pageable_copies(evidence: Evidence) -> Iterator[Found]:
    """19: copies from or to pageable memory hold up the host, and nothing else runs on the device meanwhile."""
    limits = rule_text("pageable-copies").thresholds
    events = evidence.work.events.with_row_index("at")
    copies = _pageable(evidence, events)
    if copies.is_empty():
        return
    others = of_events(events.join(copies.select("at"), on="at", how="anti"))
    start, end = copies.get_column("start_ns").to_numpy(), copies.get_column("end_ns").to_numpy()
    alone = end - start - covered(others, start, end)
    waits = _around(evidence, copies.get_column("row").to_numpy())
    copying_ns, waiting_ns = int(alone.sum()), time_of(evidence, waits)
    ns = copying_ns + waiting_ns
    if evidence.share(ns) < limits["least_share"] or _usual(evidence, copies, alone, waits) < limits["least_share"]:
        return
    moved = int(copies.get_column("moved_bytes").sum())
    place = place_of(evidence, waits)
    longest = copies.get_column("row").to_numpy()[np.argsort(start - end, kind="stable")].astype(np.int64)
    least, most = _pinned(evidence, copies, waits)
    is_named = bool(copies.get_column("name").str.contains(PAGEABLE).any())
    a_step = " per step" * bool(evidence.num_steps)
    yield Found(
        sentence=f"Copies of pageable memory block the host{place.words}, {size(evidence.per_step(moved))}{a_step}: "
        f"{of_step(evidence, ns, 'copying and idle time')}.",
        cost_ns=ns,
        evidence=(
            Number(name="time in which only these copies run", value=copying_ns, unit="ns"),
            Number(name="idle time in which the host waits for them", value=waiting_ns, unit="ns"),
            Number(name="bytes", value=moved, unit="bytes"),
        ),
        where=place_where(evidence, place, longest),
        least=least,
        most=most,
        not_told="" if most else "the rate of the link to the host is not known",
        confidence="high" if is_named else "medium",
        reason="" if is_named else "calls blocked for these copies, but which memory was pinned is not recorded",
        key=place.operator,
    )


def _pageable(evidence: Evidence, events: pl.DataFrame) -> pl.DataFrame:
    """Large copies of pageable memory: their names say so; or, where names say nothing of the host's memory, as AMD's,
    their calls could not return before they had ended."""
    large = events.filter(pl.col("moved_bytes") >= rule_text("pageable-copies").thresholds["least_bytes"])
    large = large.with_columns(pl.col("name").cast(pl.String))
    calls = evidence.trace.events.select(
        "cat", call="name", launch_pid="pid", launch_tid="tid", launch_ts_ns="ts_ns", returned=_END
    )
    names = calls.get_column("call").unique().cast(pl.String)
    block = names.filter(names.str.contains(COPY) & ~names.str.contains(MAY_RETURN)).implode()
    calls = calls.filter(is_launch() & pl.col("call").cast(pl.String).is_in(block)).drop("cat", "call")
    place = ("launch_pid", "launch_tid", "launch_ts_ns")
    large = large.join(calls.unique(place), on=place, how="left", maintain_order="left")
    blocked = pl.col("name").str.contains(_UNSAID) & (pl.col("returned") >= pl.col("end_ns") - _RETURNS_NS)
    return large.filter(pl.col("name").str.contains(PAGEABLE) | blocked.fill_null(False)).drop("returned")


def _around(evidence: Evidence, copies: Array) -> Mask:
    """Idle time of waits for these copies, rows of the trace's events: it ends with one, or comes after one."""
    gaps = evidence.idle_pieces.gaps.events
    beside = np.isin(gaps.get_column("row").to_numpy(), copies)
    beside |= np.isin(gaps.get_column("before").fill_null(1 << 31).to_numpy(), copies)
    waits: Mask = charged(evidence, ("blocking_copy",)) & beside[evidence.idle_pieces.gap] & ~inside(evidence, READS)
    return waits


def _usual(evidence: Evidence, copies: pl.DataFrame, alone: Array, waits: Mask) -> float:
    """The median share over steps but the first; infinite where there are none."""
    idle = by_step(evidence, waits)
    if not len(idle):
        return float("inf")
    numbers = np.array([step.step for step in evidence.steps], np.int64)[-len(idle) :]
    mine = copies.get_column("step").fill_null(-1).to_numpy()
    known = np.isin(mine, numbers)
    copying = sums_by_group(np.searchsorted(numbers, mine[known]), alone[known], len(numbers))
    return float(np.median(idle + copying)) / max(1, evidence.step_ns)


def _pinned(evidence: Evidence, copies: pl.DataFrame, waits: Mask) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """Copies at the rate of pinned memory; and, of those to the device, without the host's waits for them."""
    from_device = copies.filter(pl.col("family").cast(pl.String) == "memcpy_d2h").height  # whose bytes the host needs
    names = set() if from_device else waiting_names(evidence, waits)
    free = (NoBlocking(pattern=pattern_of(names)),) if names else ()
    link = evidence.hardware.pcie_bytes_per_s if evidence.hardware else None
    if link is None:
        return (), free
    took = (copies.get_column("end_ns") - copies.get_column("start_ns")).to_numpy()
    pinned = np.minimum(took, copies.get_column("moved_bytes").to_numpy() / (_OF_PEAK * link) * 1e9)
    whose = "" if evidence.trace.rank is None else f" on rank {evidence.trace.rank}"
    change = op_times(
        f"pageable copies at {_OF_PEAK:.0%} of the link{whose}, device {evidence.work.device}",
        evidence.work, copies.get_column("at").to_numpy(), pinned,
    )  # fmt: skip
    return (change,), (change, *free)


# 20: FSDP's limit ---------------------------------------------------------------------------------------------------


def fsdp_rate_limiter(evidence: Evidence) -> Iterator[Found]:
    """20: FSDP waits for an earlier all-gather to be freed before it launches the next, and that comes too late."""
    if not len(waits := _before_gathers(evidence)):
        return
    change = NoBlocking(pattern=_LIMITED)
    chosen = is_rate_limited(evidence)
    ns = max(time_of(evidence, chosen), _saved(evidence, change))
    if evidence.share(ns) < rule_text("fsdp-rate-limiter").thresholds["least_share"]:
        return
    per_step = len(waits) / max(1, evidence.num_steps)
    times = f"{counted(max(1, round(per_step)), 'time')}{' per step' * bool(evidence.num_steps)}"
    yield Found(
        sentence=f"Before all-gathers, FSDP waits {times} until memory is free, and what follows is late: "
        f"{of_step(evidence, ns, 'the time')}.",
        cost_ns=ns,
        evidence=(
            Number(name="time that a replay without these waits saves, or idle time after them", value=ns, unit="ns"),
            Number(name="waits per step", value=per_step, unit="count"),
        ),
        where=place_where(evidence, place_of(evidence, chosen), waits),
        most=(change,),
        how="no waits for an earlier all-gather to be freed",
        is_bound=True,
    )


def _before_gathers(evidence: Evidence) -> Array:
    """Rows of waits for an event after which their thread launches an all-gather before all else, the longest first."""
    events = evidence.trace.events.select("name", "pid", "tid", "ts_ns", "dur_ns").with_row_index("row")
    names = events.get_column("name").unique()
    waiting = names.filter(names.cast(pl.String).str.contains(_LIMITED)).implode()
    waits = events.filter(pl.col("name").is_in(waiting)).sort("ts_ns")
    launched = evidence.work.events.select(
        "collective", pid="launch_pid", tid="launch_tid", ts_ns="launch_ts_ns"
    ).drop_nulls("ts_ns")  # fmt: skip
    following = waits.join_asof(
        launched.sort("ts_ns"), on="ts_ns", by=("pid", "tid"), strategy="forward", check_sortedness=False
    )
    gathers = following.filter(pl.col("collective").cast(pl.String).str.contains("(?i)all_?gather"))
    return gathers.sort("dur_ns", "row", descending=[True, False]).get_column("row").to_numpy().astype(np.int64)


def _saved(evidence: Evidence, change: NoBlocking) -> int:
    """What a replay with the change saves of the recording; 0 where none is to be trusted."""
    try:
        inferred = evidence.inferred
        if not inferred.replay.is_trustworthy:
            return 0
        return max(0, inferred.replay.replayed_ns - tried(inferred, [change]).low_ns)
    except WeftraceError:
        return 0
