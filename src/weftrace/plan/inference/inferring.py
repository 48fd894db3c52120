"""A trace's plan: its ops from the device and the host, its waits from what the file tells, then from what repeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import polars as pl

from weftrace.errors import TraceError
from weftrace.plan.as_traces import INVENTED_HOST
from weftrace.plan.inference.assembling import assembled, phases_of, together
from weftrace.plan.inference.hostless import without_host
from weftrace.plan.inference.phase_level import by_phase
from weftrace.plan.inference.streams.between import between_streams
from weftrace.plan.inference.streams.device import device_ops, median_gap_ns, told_overlaps
from weftrace.plan.inference.streams.graphs import graph_latency_ns, missing_kernels
from weftrace.plan.inference.streams.launch_order import in_launch_order
from weftrace.plan.inference.streams.launches import launch_latency_ns, launch_waits, origin_waits
from weftrace.plan.inference.streams.recorded import recorded_waits
from weftrace.plan.inference.streams.skew import later, skew_ns, told_skew
from weftrace.plan.inference.streams.unrecorded import unrecorded_waits
from weftrace.plan.inference.threads.host import Hosted, host_calls, host_waits, hosted, without_gaps
from weftrace.plan.inference.threads.operators import named_by_operator
from weftrace.plan.inference.values import Inferred, Kept
from weftrace.trace import Trace
from weftrace.trace.limits import REPLAYED_THREADS
from weftrace.trace.work import Work, as_work
from weftrace.units import counted


def infer(
    source: Trace | Work, *, level: Literal["kernel", "phase"] = "kernel", holes: pl.DataFrame | None = None
) -> Inferred:
    """The plan that one rank's run followed. level: whether its ops are kernels, or stretches of phases (`by_phase`).
    holes: where work ran that the file does not hold, as `weftrace.analysis.unrecorded_holes` finds them: they stay as
    long as they were.

    What a replay of it keeps is fixed: measured durations, the few medians of `Kept`, and the waits, of which only
    those for where the recording begins have a lag of their own. Raises `TraceError` where the trace shows no work on a
    device, and `PlanError` where it has no phases to tell.
    """
    work = as_work(source)
    if work.basis != "device":
        raise TraceError(
            f"{work.trace.path or 'this trace'}: no work on a device is recorded, so there is no plan to infer: "
            "launches and streams are what it is made of."
        )
    # what the file shows
    on_device = device_ops(work)
    skew = skew_ns(on_device)
    on_device = later(on_device, skew)
    calls = host_calls(work, on_device)
    threads = calls.select("pid", "tid").n_unique()
    if threads > REPLAYED_THREADS:
        raise TraceError(
            f"{work.trace.path or 'this trace'}: {threads:,} threads launch work, and a plan is "
            f"inferred from {REPLAYED_THREADS} at most."
        )
    recorded = recorded_waits(work.trace.events, later(work.events, skew), device=work.device)
    # what passes between two ops of a stream, and between a call and what it launched
    gap_ns = median_gap_ns(on_device)
    latency_ns = launch_latency_ns(on_device, calls)
    graph_ns = graph_latency_ns(on_device, calls, latency_ns)
    # the ops, and what each waited for
    is_invented = INVENTED_HOST.items() <= work.trace.info.items()
    host = hosted(work, on_device, calls, recorded, latency_ns)
    host = Hosted(ops=host.ops, waits=host.waits.clear()) if is_invented else host
    ops = together(on_device, named_by_operator(work, without_gaps(host, gap_ns)), gap_ns)
    launched = in_launch_order(ops, phases_of(work, ops), gap_ns, latency_ns)
    launches = launch_waits(ops, latency_ns, graph_ns)
    between = between_streams(work, ops, launched, recorded)
    origin = origin_waits(ops, latency_ns)
    origin = origin.clear() if is_invented else origin
    waits = [launches, between.crossings, between.for_sms, host_waits(ops, host), origin]
    waits += [] if holes is None else [unrecorded_waits(ops, holes)]
    kept = Kept(
        gap_ns=gap_ns, launch_latency_ns=latency_ns, wait_latency_ns=between.wait_latency_ns, drain_ns=between.drain_ns,
        graph_latency_ns=graph_ns if (launches.get_column("source") == "graph").any() else 0,
        quiet_latency_ns=host.quiet_latency_ns, num_pinned=len(origin),
    )  # fmt: skip
    notes = [*between.notes, *host.notes, *_pinned(work, origin), *missing_kernels(work, on_device)]
    notes += [*told_overlaps(work, on_device), *told_skew(skew), *_lost(work)]
    inferred = assembled(work, ops, waits, kept, notes)
    inferred = replace(inferred, sm_waits=between.sm_waits, num_open=between.num_open)
    if is_invented:
        inferred = without_host(inferred, "the host of this simulated run is invented, so the plan has none")
    return by_phase(inferred) if level == "phase" else inferred


def _pinned(work: Work, origin: pl.DataFrame) -> list[str]:
    summary = []
    if len(origin):
        what = (
            "1 stream begins with an op that was"
            if len(origin) == 1
            else f"{len(origin)} streams begin with ops that were"
        )
        summary.append(
            f"{what} held up by work from before the recording, or launched there: pinned to when it started."
        )
    if work.num_unlinked:
        summary.append(
            f"{work.num_unlinked:,} of {work.events.height:,} device events have no launch in the file: they follow "
            "what is before them on their stream, and where that was not what they waited for, they start too early."
        )
    return summary


def _lost(work: Work) -> list[str]:
    """That the file was cut, or events of it could not be used: what they did and held up is not in the plan."""
    quality = work.trace.quality
    summary = [f"incomplete: {quality.truncated}"] if quality.truncated else []
    if quality.num_dropped:
        summary.append(f"without {counted(quality.num_dropped, 'event')} that could not be read")
    if not summary:
        return []
    return [f"{work.trace.path or 'the trace'}: {', '.join(summary)}; the plan covers the rest."]
