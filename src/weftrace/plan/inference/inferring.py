"""A trace's plan: its ops from the device and the host, its waits from what the file tells, then from what repeats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import polars as pl

from weftrace.errors import TraceError
from weftrace.plan.as_traces import INVENTED_HOST
from weftrace.plan.inference.hostless import without_host
from weftrace.plan.inference.phase_level import by_phase
from weftrace.plan.inference.streams.crossings import wait_latency_ns
from weftrace.plan.inference.streams.device import device_ops, median_gap_ns
from weftrace.plan.inference.streams.free_sms import drain_ns, in_plan, sm_waits, told_sm_waits, waits_for_sms
from weftrace.plan.inference.streams.graphs import graph_latency_ns, missing_kernels
from weftrace.plan.inference.streams.launch_order import held_until, in_launch_order
from weftrace.plan.inference.streams.launches import launch_latency_ns, launch_waits, origin_waits
from weftrace.plan.inference.streams.recorded import recorded_waits, stream_waits
from weftrace.plan.inference.streams.skew import later, skew_ns, told_skew
from weftrace.plan.inference.streams.votes import stream_wait_calls, voted_waits
from weftrace.plan.inference.threads.host import WAITING, host_calls, host_waits, hosted, ready_for_gaps, without_gaps
from weftrace.plan.inference.threads.operators import named_by_operator
from weftrace.plan.inference.values import EDGE_SCHEMA, MEASURED_SCHEMA, Inferred, Kept
from weftrace.plan.model import Plan
from weftrace.plan.ops import WAIT_SCHEMA
from weftrace.trace import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import counted

#: What the steps of inference hand each other: a wait with where it comes from.
WAITS = {**WAIT_SCHEMA, **EDGE_SCHEMA}
_CERTAIN: dict[str, Any] = {
    "since": "end", "lag_ns": 0, "why": "data", "votes_for": None, "votes_against": None, "confidence": 1.0,
}  # fmt: skip


def infer(source: Trace | Work, *, level: Literal["kernel", "phase"] = "kernel") -> Inferred:
    """The plan that one rank's run followed. level: whether its ops are kernels, or stretches of phases (`by_phase`).

    What a replay of it keeps is fixed: measured durations, one gap, one launch latency, and waits without lags of their
    own. Raises `TraceError` where the trace shows no work on a device, and `PlanError` where it has no phases to tell.
    """
    work = as_work(source)
    if work.basis != "device":
        raise TraceError(
            f"{work.trace.path or 'this trace'}: no work on a device is recorded, so there is no plan to infer: "
            "launches and streams are what it is made of."
        )
    on_device = device_ops(work)
    skew = skew_ns(on_device)
    on_device = later(on_device, skew)
    gap_ns = median_gap_ns(on_device)
    calls = host_calls(work, on_device)
    latency_ns = launch_latency_ns(on_device, calls)
    graph_ns = graph_latency_ns(on_device, calls, latency_ns)
    recorded = recorded_waits(work.trace.events, later(work.events, skew), device=work.device)
    host = hosted(work, on_device, calls, recorded, latency_ns)
    ops = _together(on_device, named_by_operator(work, without_gaps(host, gap_ns)), gap_ns)
    launched = in_launch_order(ops, _phases(work, ops), gap_ns, latency_ns)
    launches, between = launch_waits(ops, latency_ns, graph_ns), stream_waits(ops, recorded)
    ready_ns, num_open = held_until(launched, between), 0
    if recorded.tells_streams:
        wait_ns = wait_latency_ns(ops, pl.concat([launches.select(between.columns), between]), gap_ns, latency_ns)
    else:
        voted = voted_waits(launched, stream_wait_calls(work.trace.events, int(ops.item(0, "origin_ns"))))
        ready_ns, wait_ns, num_open = voted.ready_ns, voted.latency_ns or 0, voted.num_open
    sms = waits_for_sms(launched, ready_ns, work.num_sms)
    if not recorded.tells_streams:
        between = voted.counted(launched, sms.get_column("waiter"))
    invented = INVENTED_HOST.items() <= work.trace.info.items()
    origin = origin_waits(ops, latency_ns)
    origin = origin.clear() if invented else origin
    threads = host_waits(ops, host)
    threads = threads.clear() if invented else threads
    between = between.with_columns(lag_ns=pl.lit(wait_ns))
    waits = [launches, between, sm_waits(launched, sms), threads, origin]
    kept = Kept(
        gap_ns=gap_ns, launch_latency_ns=latency_ns, wait_latency_ns=wait_ns, drain_ns=drain_ns(sms),
        graph_latency_ns=graph_ns if (launches.get_column("source") == "graph").any() else 0,
        quiet_latency_ns=host.quiet_latency_ns, num_pinned=len(origin),
    )  # fmt: skip
    notes = [*_open_calls(num_open), *told_sm_waits(sms), *(() if invented else host.notes), *_pinned(work, origin)]
    notes += [*missing_kernels(work, on_device), *told_skew(skew), *_lost(work)]
    inferred = _inferred(work, ops, waits, kept, notes)
    inferred = replace(inferred, sm_waits=in_plan(launched, sms), num_open=num_open)
    if invented:
        inferred = without_host(inferred, "the host of this simulated run is invented, so the plan has none")
    return by_phase(inferred) if level == "phase" else inferred


def _together(on_device: pl.DataFrame, on_host: pl.DataFrame, gap_ns: int) -> pl.DataFrame:
    """All ops in order of start, numbered `op`; times from the first start of all, which is `origin_ns`."""
    host = ready_for_gaps(on_host, gap_ns).rename({"thread": "stream"}).with_columns(kind=pl.lit("host"))
    device = on_device.with_columns(
        pl.col("name", "kind").cast(pl.String),
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        what=pl.col("kind").cast(pl.String),
    )
    both = pl.concat([host, device], how="diagonal_relaxed")
    origin = int(both.get_column("start_ns").min())  # type: ignore[arg-type]
    return (
        both.sort("start_ns", "end_ns", maintain_order=True)
        .with_columns(pl.lit(origin).alias("origin_ns"), pl.col("start_ns", "end_ns") - origin)
        .with_row_index("op")
    )


def _pinned(work: Work, origin: pl.DataFrame) -> list[str]:
    told = []
    if len(origin):
        what = (
            "1 stream begins with an op that was"
            if len(origin) == 1
            else f"{len(origin)} streams begin with ops that were"
        )
        told.append(f"{what} held up by work from before the recording, or launched there: pinned to when it started.")
    if work.num_unlinked:
        told.append(
            f"{work.num_unlinked:,} of {work.events.height:,} device events have no launch in the file: they follow "
            "what is before them on their stream, and where that was not what they waited for, they start too early."
        )
    return told


def _lost(work: Work) -> list[str]:
    """That the file was cut, or events of it could not be used: what they did and held up is not in the plan."""
    quality = work.trace.quality
    told = [f"incomplete: {quality.truncated}"] if quality.truncated else []
    if quality.num_dropped:
        told.append(f"without {counted(quality.num_dropped, 'event')} that could not be read")
    if not told:
        return []
    return [f"{work.trace.path or 'the trace'}: {', '.join(told)}; the plan is of what is left."]


def _open_calls(number: int) -> list[str]:
    calls = "1 call that makes a stream wait" if number == 1 else f"{number:,} calls that make a stream wait"
    return [f"{calls} could not be placed: measured times do not tell which streams they join."] if number else []


def _phases(work: Work, ops: pl.DataFrame) -> pl.DataFrame:
    """Of each op: phase_name, layer, index and micro_batch of its phase."""
    phases = work.phases.select("phase", "name", "layer", "index", "micro_batch").rename({"name": "phase_name"})
    return ops.select("phase").join(phases, on="phase", how="left", maintain_order="left")


def _inferred(
    work: Work, ops: pl.DataFrame, waits: Iterable[pl.DataFrame], kept: Kept, notes: Iterable[str]
) -> Inferred:
    edges = pl.concat([_in_schema(frame) for frame in waits]).sort("op", maintain_order=True)
    edges, contradicted = _causal(ops, edges)
    told = _phases(work, ops)
    plan_ops = ops.select(
        "name", "kind", "stream", "duration_ns", pl.lit(work.trace.rank or 0).alias("rank"),
        told.get_column("phase_name").alias("phase"), told.get_column("micro_batch"),
        pl.coalesce(told.get_column("layer"), told.get_column("index")).alias("layer"), "step",
        _sms(work).alias("num_sms"),
    )  # fmt: skip
    plan = Plan(
        name=work.trace.path or "trace",
        source="inferred from a measured trace",
        device_name=work.trace.device(work.device or 0).name or "device",
        num_sms=work.num_sms,
        world_size=work.trace.world_size,
        gap_ns=kept.gap_ns,
        ops=plan_ops.with_columns(pl.col("name").cast(pl.Categorical()), pl.col("step").cast(pl.Int32)),
        waits=edges.select(*WAIT_SCHEMA),
    )
    measured = ops.select(
        "start_ns", "end_ns", "event", "call", "what", "role", pl.lit(0).alias("at"),
        pl.coalesce("family", pl.col("name").cast(pl.Categorical())).alias("family"),
        pl.col("phase").alias("phase_number"),
    )  # fmt: skip
    measured = measured.select(pl.col(name).cast(dtype) for name, dtype in MEASURED_SCHEMA.items())
    return Inferred(
        plan=plan,
        works=(work,),
        measured=measured,
        edges=edges.select(*EDGE_SCHEMA),
        origin_ns=int(ops.item(0, "origin_ns")),
        kept=kept,
        notes=(*notes, *contradicted),
    )


def _causal(ops: pl.DataFrame, edges: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The waits whose cause began before its effect, by the stamps: so no ops wait for each other in a circle.

    What a thread waited in, a call that blocks or a stretch without one, counts with its end, anything else with its
    start.
    """
    waited = (pl.col("what") == "blocking") | (pl.col("name") == WAITING)
    at = pl.when(waited).then("end_ns").otherwise("start_ns")
    order = ops.select(pl.struct(at.alias("at"), "op").rank("ordinal")).to_series().to_numpy()
    fits = order[edges.get_column("on").to_numpy()] < order[edges.get_column("op").to_numpy()]
    num_odd = int((~fits).sum())
    if not num_odd:
        return edges, []
    waits = "1 wait is" if num_odd == 1 else f"{num_odd:,} waits are"
    return edges.filter(pl.Series(fits)), [
        f"{waits} left out, since by the stamps the effect began before its cause: clocks of host and device differ."
    ]


def _sms(work: Work) -> pl.Expr:
    """SMs that a kernel holds, where it holds one a block."""
    return pl.when(pl.col("persistent") & (pl.col("num_blocks") <= (work.num_sms or 0))).then("num_blocks")


def _in_schema(waits: pl.DataFrame) -> pl.DataFrame:
    """Waits with all columns of `WAITS`; what is not told is certain, without a lag."""
    columns = [
        pl.col(name).cast(dtype) if name in waits.columns else pl.lit(_CERTAIN[name], dtype).alias(name)
        for name, dtype in WAITS.items()
    ]
    return waits.select(columns)
