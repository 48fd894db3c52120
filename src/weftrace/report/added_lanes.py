"""What `weftrace annotate` adds to a trace: lanes, phases and counters, for chrome://tracing and Perfetto."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import polars as pl

from weftrace.analysis.lane_boxes import lanes
from weftrace.analysis.launch_delays import queue_length
from weftrace.analysis.phase_times import phases, with_sms
from weftrace.analysis.serving_steps import engine_steps
from weftrace.analysis.time_account import account_of
from weftrace.analysis.waiting.cause_words import WORDS
from weftrace.analysis.waiting.gap_parts import TURNAROUND_NS
from weftrace.analysis.waiting.idle_pieces import CAUSES, idle_pieces
from weftrace.errors import TraceError
from weftrace.files.sources import DEFAULT_MAX_BYTES
from weftrace.trace.chrome.annotate import Annotated, annotate, file_base_ns, is_annotated
from weftrace.trace.chrome.lane_events import lane_events, running_total
from weftrace.trace.kernels import KernelRules
from weftrace.trace.model import Trace
from weftrace.trace.work import StepBy, Work, works_of

#: Gaps of a device that are drawn: the longest.
_MOST_GAPS = 5_000


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
            f"{trace.path}: already has weftrace's lanes. Annotate the original, or report on this file as it is."
        )
    if trace.plain is not None:
        raise TraceError(
            f"{trace.path}: this is a plain Chrome trace, and its ranges are already what lanes would "
            "show. Try: weftrace lanes"
        )
    works = [work for work in works_of(trace, rules=rules, step=step, step_by=step_by) if work.basis != "none"]
    if not works:
        raise TraceError(f"{trace.path}: no device events and no host operators: there is nothing to draw.")
    return annotate(trace.path, overlay(works), out, max_bytes=max_bytes)


def overlay(works: list[Work]) -> Iterator[dict[str, Any]]:
    """Trace-viewer events for the lanes of each device, in the time base of the file that they came from.

    Boxes carry index, busy_us, hidden_us and sms. A lane has the longest gaps of the device with what it waited for,
    another the iterations of a serving engine, by the device work that each launched. Counters: SMs that persistent
    kernels hold, launches waiting in the queue, and whether communication is exposed.
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
        boxes += [_boxes(f"{device}idle", _waits(work)), _boxes(f"{device}serving", _iterations(work))]
        exposed.append(pl.DataFrame({"start_ns": account.exposed.starts, "end_ns": account.exposed.ends}))
        held = with_sms(work.events, work.num_sms).filter("persistent", pl.col("sms").is_not_null())
        counters[f"{device}{work.sm_unit} held"] = running_total(held, "sms")
        queued = queue_length(work)
        counters[f"{device}queue length"] = queued.rename({"queue_length": "value"})
        counters[f"{device}exposed communication"] = running_total(exposed[-1])
    return lane_events(
        pl.concat(boxes, how="diagonal"),
        pl.concat(exposed).sort("start_ns"),
        {name: frame for name, frame in counters.items() if not frame.is_empty()},
        base_ns=file_base_ns(works[0].trace),
        lane_sms=sms,
    )


def _boxes(lane: str, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("name", "start_ns", "end_ns", pl.lit(lane).alias("lane"))


def _waits(work: Work) -> pl.DataFrame:
    """Gaps with the cause that has most of each, the longest: name, start_ns, end_ns (absolute)."""
    if work.basis != "device":
        return pl.DataFrame(schema={"name": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64})
    pieces = idle_pieces(work)
    names = pl.Series([WORDS[cause] for cause in CAUSES])
    frame = pl.DataFrame(
        {"gap": pieces.gap, "name": names[pieces.cause], "start_ns": pieces.start, "end_ns": pieces.end}
    ).with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    sums = frame.group_by("gap", "name").agg(pl.col("ns").sum(), pl.col("start_ns").min(), pl.col("end_ns").max())
    whole = pl.col("start_ns").min().over("gap"), pl.col("end_ns").max().over("gap")
    gaps = sums.with_columns(*whole).sort("gap", "ns", "name").unique("gap", keep="last", maintain_order=True)
    length = pl.col("end_ns") - pl.col("start_ns")
    return gaps.filter(length > TURNAROUND_NS).top_k(_MOST_GAPS, by=length)


def _iterations(work: Work) -> pl.DataFrame:
    """Iterations of a serving engine with what is known of each: name, start_ns, end_ns (absolute)."""
    known = [
        pl.format(f"{{}} {words}", column)
        for column, words in (("requests", "requests"), ("context_tokens", "prompt tokens"))
    ]
    name = pl.concat_str(pl.col("kind").fill_null("step"), *known, separator=", ", ignore_nulls=True)
    start = pl.col("start_ns") + work.start_ns
    rows = engine_steps(work).filter(pl.col("window_ns").is_not_null())
    return rows.select(name.alias("name"), start.alias("start_ns"), (start + pl.col("window_ns")).alias("end_ns"))
