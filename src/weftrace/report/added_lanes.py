"""What `weftrace annotate` adds to a trace: lanes, phases and counters, for chrome://tracing and Perfetto."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import polars as pl

from weftrace.analysis.lane_boxes import lanes
from weftrace.analysis.launch_delays import queue_length
from weftrace.analysis.phase_times import phases, with_sms
from weftrace.analysis.time_account import account_of
from weftrace.errors import TraceError
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.trace.chrome.annotate import Annotated, annotate, file_base_ns, is_annotated
from weftrace.trace.chrome.lane_events import lane_events, running_total
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.work import StepBy, Work, works_of


def annotate_trace(
    trace: Trace,
    out: str | os.PathLike[str],
    *,
    rules: KernelRules | None = None,
    step: int | None = None,
    step_by: StepBy = "window",
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> Annotated:
    """Copy the file that `trace` was read from, byte for byte, with weftrace's lanes, phases and counters added.

    rules: kernel rules. step, step_by: draw only ProfilerStep N, as in `analyze`. max_bytes: limit on the decompressed
    size. With several devices in the file, each has its lanes.
    Raises TraceError when the file has them already, has no work to draw or is not Chrome JSON; OutputError when `out`
    cannot be written.
    """
    if is_annotated(trace):
        raise TraceError(
            f"{trace.path}: has weftrace's lanes already. Annotate the original, or report on this one as it is."
        )
    if trace.plain is not None:
        raise TraceError(
            f"{trace.path}: is a plain Chrome trace: its ranges are what lanes would show. Try: weftrace lanes"
        )
    works = [work for work in works_of(trace, rules=rules, step=step, step_by=step_by) if work.basis != "none"]
    if not works:
        raise TraceError(f"{trace.path}: no device events and no host operators: there is nothing to draw.")
    return annotate(trace.path, overlay(works), out, max_bytes=max_bytes)


def overlay(works: list[Work]) -> Iterator[dict[str, Any]]:
    """Trace-viewer events for the lanes of each device, in the time base of the file that they came from.

    Boxes carry index, busy_us, hidden_us and sms. Counters: SMs that persistent kernels hold, launches waiting in the
    queue, and whether communication is exposed.
    """
    boxes, exposed, counters, sms = [], [], {}, {}
    for work in works:
        device = f"device {work.device} " if len(works) > 1 else ""
        account = account_of(work)
        hidden = phases(account).select(pl.col("phase").cast(pl.Int64), "hidden_ns")
        for lane in lanes(work, all_boxes=True):
            name = f"{device}{lane.lane}"
            sms[name] = f"{lane.sms} {lane.sm_unit}" if lane.sms_exact else None
            drawn = lane.boxes.join(hidden, on="phase", how="left", maintain_order="left")
            boxes.append(drawn.with_columns(pl.lit(name).alias("lane")))
        exposed.append(pl.DataFrame({"start_ns": account.exposed.starts, "end_ns": account.exposed.ends}))
        held = with_sms(work.events, work.num_sms).filter("persistent", pl.col("sms").is_not_null())
        counters[f"{device}{work.sm_unit} held"] = running_total(held, "sms")
        queued = queue_length(work)
        counters[f"{device}queue length"] = queued.rename({"queue_length": "value"})
        counters[f"{device}exposed communication"] = running_total(exposed[-1])
    return lane_events(
        pl.concat(boxes),
        pl.concat(exposed).sort("start_ns"),
        {name: frame for name, frame in counters.items() if not frame.is_empty()},
        base_ns=file_base_ns(works[0].trace),
        lane_sms=sms,
    )
