"""How far a rank's numbers can be trusted: everything that was dropped, mended or guessed on the way to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import polars as pl
from msgspec import Meta

from weftrace.analysis.kernel_times import kernel_table
from weftrace.analysis.waiting.idle_account import IdleAccount, idle_account
from weftrace.files.parquet import UNCHECKED
from weftrace.files.schemas import Count, Ns, Share
from weftrace.files.values import OPTIONAL
from weftrace.notebook import InNotebook
from weftrace.trace.model import Trace
from weftrace.trace.work import Work, as_work
from weftrace.units import duration, percent

_FEW = 3  # events out of order that tell nothing
#: Of idle time: where more of it is unrecorded, no share of it is told as a fact.
MUCH_UNRECORDED = 0.2
_LEAST_UNRECORDED = 0.01  # of the span: below it, no number of the report is changed much


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality(InNotebook):
    """The verdict and what it rests on. Counts are events.

    verdict: "good"; "usable" when something small was lost or mended; "doubtful" when the numbers may mislead: a tenth
    of the events lost or outside the recording, a tenth of the device events without launch, a file cut short, no
    device events, several devices that seem to be merged into one, a third of compute time in kernels that no rule
    names, or a fifth of idle time (and a hundredth of the span) in which work ran that the file lacks.
    """

    verdict: Literal["good", "usable", "doubtful"]
    dropped: Count
    repaired: Count
    clipped: Count
    unlinked: Count
    unnamed_share: Share
    overlapping: Count
    out_of_window: Count
    skipped: Mapping[str, Count]
    truncated: str | None
    unused: Annotated[
        Mapping[str, Count], Meta(description="Device work of a kind that is not read: how many events by category.")
    ]
    notes: tuple[str, ...]
    unrecorded_ns: Annotated[
        Ns, OPTIONAL, Meta(description="Of the idle time, in which work ran that the file lacks: see IdleAccount.")
    ] = 0
    unrecorded_share: Annotated[Share, OPTIONAL, Meta(description="The same as a part of the idle time.")] = 0.0


def quality(source: Trace | Work, *, unnamed_share: float | None = None, account: IdleAccount | None = None) -> Quality:
    """Judge a device's numbers.

    unnamed_share: of its `KernelTable`; account: of its idle time. Both are made where they are not given.
    """
    work = as_work(source)
    if unnamed_share is None:
        unnamed_share = kernel_table(work).unnamed_share
    account = account or idle_account(work)
    read = work.trace.quality
    kept = len(work.trace)
    num_events = work.events.height
    doubts: list[str] = []
    remarks: list[str] = []
    if work.basis == "none":
        doubts.append("no device events and no host operators: nothing to account for")
    if work.basis == "host":
        doubts.append("no device events in this file: host operators replace them, each thread as a stream")
    if summary := merged_devices(work):
        doubts.append(summary)
    unused = _unused(work.trace)
    for category, count in unused.items():
        worth = remarks if work.basis == "device" else doubts
        worth.append(f"{_events(count)} of category {category} are not used: device work that is not read")
    if read.truncated:
        doubts.append(f"the file is incomplete: {read.truncated}; what it still held is shown")
    for reason, count in read.dropped.items():
        text = f"{_events(count)} dropped: {reason}; first: {read.examples.get(reason, '')}"
        (doubts if 10 * read.num_dropped > kept else remarks).append(text)
    for reason, count in read.repaired.items():
        remarks.append(f"{_events(count)} repaired: {reason}; first: {read.examples.get(reason, '')}")
    if work.num_clipped:
        clipped = "duration contradicts the recording and was" if work.num_clipped == 1 else None
        clipped = clipped or "durations contradict the recording and were"
        remarks.append(f"{work.num_clipped:,} {clipped} clipped")
    if work.num_out_of_window:
        text = f"{work.num_out_of_window:,} device events lie outside the recording and are left out"
        (doubts if 10 * work.num_out_of_window > num_events else remarks).append(text)
    if work.num_unlinked and not work.trace.simulated:
        text = (
            f"{work.num_unlinked:,} of {num_events:,} device events have no launch: counted in every time, in no phase"
        )
        (doubts if 10 * work.num_unlinked > num_events else remarks).append(text)
    if unnamed_share > 0.02:
        text = f"{percent(unnamed_share, 0)} of compute time is in kernels that no rule names: counted as other compute"
        (doubts if unnamed_share > 1 / 3 else remarks).append(text)
    unrecorded_ns = account.unrecorded_ns
    unrecorded_share = unrecorded_ns / account.idle_ns if account.idle_ns else 0.0
    if unrecorded_ns:
        matters = unrecorded_ns > _LEAST_UNRECORDED * (work.end_ns - work.start_ns)
        worth = doubts if matters and unrecorded_share > MUCH_UNRECORDED else remarks
        worth.append(
            f"{duration(unrecorded_ns)} ({percent(unrecorded_share)} of the time that looks idle) are unrecorded: work "
            f"ran that the file lacks; {_what_to_record(account)}"
        )
    notes = []
    if work.basis == "ranges":
        notes.append("a plain Chrome trace: ranges stand for work, each thread is a stream, and the rest is inferred")
        notes += work.trace.plain.notes if work.trace.plain else ()
    if work.num_overlapping and work.basis == "device":
        notes.append(
            f"{work.num_overlapping:,} events start before their predecessor on the stream ended "
            "(programmatic dependent launch, graph branches); times are unions, so nothing counts twice"
        )
    if read.unchecked:
        notes.append(f"the file cannot be checked: {UNCHECKED}")
    if work.trace.simulated:
        notes.append("simulated by weftrace, not measured")
    return Quality(
        verdict="doubtful" if doubts else "usable" if remarks else "good",
        dropped=read.num_dropped,
        repaired=read.num_repaired,
        clipped=work.num_clipped,
        unlinked=work.num_unlinked,
        unnamed_share=unnamed_share,
        overlapping=work.num_overlapping,
        out_of_window=work.num_out_of_window,
        skipped=dict(read.skipped),
        truncated=read.truncated,
        unused=unused,
        notes=tuple(doubts + remarks + notes),
        unrecorded_ns=unrecorded_ns,
        unrecorded_share=unrecorded_share,
    )


def _what_to_record(account: IdleAccount) -> str:
    """Graphs are replayed without a call for each kernel: an old profiler, or one within a loop on the device, misses
    some of them (github.com/pytorch/kineto/issues/1062)."""
    if any("graph" in call.lower() for call in account.latency_ns):
        return "record every event, with a newer CUDA or ROCm for those within graphs, or once without graphs"
    return "record every event, without sampling, from the first step to the last"


def merged_devices(work: Work) -> str | None:
    """What speaks for several devices in one, a clause; None where nothing does. A file may be put together of two
    processes', each of which called its own device 0.
    """
    evidence = _merged(work)
    return evidence and f"several devices may be merged onto device {work.device}: {evidence}"


def _merged(work: Work) -> str | None:
    """A stream finishes its events in order, whatever starts early; branches of a graph share a stream in the record,
    and so may what one call launched."""
    if work.basis != "device" or work.trace.simulated:
        return None
    columns = work.trace.events.select("pid", "graph_id", "correlation")[work.events.get_column("row")]
    events = work.events.select("stream", "end_ns", "launch_pid").hstack(columns)
    tracks, launching = (
        sorted(events.get_column(column).drop_nulls().unique().cast(pl.String).to_list())
        for column in ("pid", "launch_pid")
    )
    if len(tracks) > 1:
        return f"its events are in the tracks of devices {', '.join(tracks)}"
    if len(launching) > 1:
        return f"processes {', '.join(launching)} launch on it"
    alone = events.filter(
        pl.col("graph_id").is_null(), (pl.col("correlation") <= 0).fill_null(True) | (pl.len().over("correlation") == 1)
    )
    early = alone.select((pl.col("end_ns") < pl.col("end_ns").cum_max().shift(1).over("stream")).sum()).item()
    if early < max(_FEW, events.height / 10):
        return None
    return f"{early:,} of {events.height:,} events end before an earlier event of their stream does"


def _unused(trace: Trace) -> dict[str, int]:
    """Events of accelerators whose work is not read, by category: MTIA's (mtia_ccp_events and its like)."""
    found = trace.events.get_column("cat").value_counts().with_columns(pl.col("cat").cast(pl.String)).sort("cat")
    foreign = found.filter(pl.col("cat").str.starts_with("mtia_"), pl.col("cat") != "mtia_runtime")
    return dict(foreign.iter_rows())


def _events(count: int) -> str:
    return f"{count:,} event{'s' if count != 1 else ''}"
