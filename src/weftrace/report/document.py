"""The report document: an `Analysis` as plain JSON values, versioned. Every renderer draws from it, and only from it.

docs/report-json.md explains each field; document_types.py has their types, from which its JSON Schema is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

import msgspec
import polars as pl

from weftrace.analysis.activity import Stretches, fewer, stretches_of
from weftrace.analysis.intervals import EMPTY
from weftrace.analysis.lane_boxes import coarser
from weftrace.analysis.rank import Analysis, RankAnalysis
from weftrace.analysis.step_shares_document import MOST_LABELS, MOST_STEPS, shares_document
from weftrace.analysis.step_times import Step
from weftrace.analysis.time_account import Breakdown
from weftrace.errors import DocumentError
from weftrace.report.code_document import code_document
from weftrace.report.document_types import (
    SCHEMA,
    JoinedDocument,
    JoinedPhaseDocument,
    RankDocument,
    ReportDocument,
    SlowWorkDocument,
    StepDocument,
    WindowDocument,
)
from weftrace.report.headline import headline, left_out
from weftrace.report.lateness_document import ahead_ns, lateness_document, zero_ns
from weftrace.report.slow_work_document import slow_sentence, slow_work_document
from weftrace.version import __version__

if TYPE_CHECKING:
    from weftrace.flops.join.join import PhaseWork, TraceJoin

_MAX_OPERATORS = 500
#: Phases, and boxes of a lane, that a document lists of a rank; of a job's ranks fewer, so that 64 fit a page.
_MAX_ROWS, _ROWS_OF_JOB, _LEAST_ROWS = 20_000, 100_000, 1_000
#: Stretches of busy time that a document holds of each lane: as many as a wide screen has columns, and fewer of the
#: lanes of a job.
MOST_STRETCHES, _LEAST_STRETCHES = 4_000, 1_000
#: Rows of labels, and steps, of which a document holds the times, of each rank of a job.
_LEAST_LABELS, _LEAST_STEPS = 200, 10


def document_of(
    analysis: Analysis, *, flops: Sequence[TraceJoin | None] = (), most_stretches: int = MOST_STRETCHES
) -> ReportDocument:
    """The whole report as JSON-able values.

    flops: of each rank of the analysis, what was joined to it, if anything. most_stretches: of busy time of each lane;
    of a job's, fewer.
    """
    joined = [*flops, *[None] * (len(analysis.ranks) - len(flops))]
    most = max(min(most_stretches, _LEAST_STRETCHES), most_stretches // max(1, len(joined)))
    most_rows = min(_MAX_ROWS, max(_LEAST_ROWS, _ROWS_OF_JOB // max(1, len(joined))))
    most_labels = max(_LEAST_LABELS, MOST_LABELS // max(1, len(joined)))
    zero, lateness = zero_ns(analysis), lateness_document(analysis)
    ranks = [
        rank_document(
            rank,
            found,
            most_stretches=most,
            most_rows=most_rows,
            zero_ns=zero + ahead,
            waits=waits,
            num_ranks=len(joined),
            most_labels=most_labels,
            most_steps=max(_LEAST_STEPS, MOST_STEPS * MOST_LABELS // max(1, len(joined) * most_labels)),
        )
        for rank, found, ahead, waits in zip(analysis.ranks, joined, ahead_ns(analysis), _waits(analysis), strict=True)
    ]
    slow, counted = slow_work_document(analysis), [rank for rank in ranks if rank["apart"] is None]
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": _file_name(analysis.source),
        "headline": headline(counted, lateness) + _slow(slow, ranks) + left_out(ranks),
        "world_size": analysis.world_size,
        "num_ranks": len(analysis.ranks),
        "failures": [{"path": _file_name(f.path), "error": f.error} for f in analysis.failures],
        "clocks": [
            {
                "rank": c.rank,
                "offset_ns": c.offset_ns,
                "spread_ns": c.spread_ns,
                "num_matched": c.num_matched,
                "applied": c.applied,
                "drift_ppm": c.drift_ppm,
            }
            for c in analysis.clocks
        ],
        "lateness": lateness,
        "slow_work": slow,
        "notes": list(analysis.notes),
        "ranks": ranks,
    }


def _waits(analysis: Analysis) -> list[Stretches | None]:
    """Of each rank when it waited for others; None of those that are in no sum."""
    counted = iter(analysis.lateness.waits if analysis.lateness else ())
    return [next(counted, None) if rank.apart is None else None for rank in analysis.ranks]


def _slow(slow: SlowWorkDocument | None, ranks: Sequence[RankDocument]) -> str:
    """In the headline of plain traces, where it is most of what they tell."""
    return slow_sentence(slow) if any(rank["basis"] == "ranges" for rank in ranks) else ""


def rank_document(
    rank: RankAnalysis,
    joined: TraceJoin | None = None,
    *,
    most_stretches: int = MOST_STRETCHES,
    most_rows: int = _MAX_ROWS,
    zero_ns: int | None = None,
    waits: Stretches | None = None,
    num_ranks: int = 1,
    most_labels: int = MOST_LABELS,
    most_steps: int = MOST_STEPS,
) -> RankDocument:
    """One device of one rank. Starts and ends are relative to its first device start. most_stretches: see `_busy`.
    most_rows: phases that are listed, and boxes of a lane: of more, neighbours are merged. most_labels,
    most_steps: see `shares_document`.
    zero_ns: the job's zero on its own clock, its own start by default. waits: when it waited for other ranks.
    """
    b, o, k = rank.breakdown, rank.overlap, rank.kernels
    zero = b.start_ns
    told: RankDocument = {
        "rank": rank.rank,
        "name": rank.name,
        "device": rank.device,
        "device_name": rank.device_name,
        "num_sms": rank.num_sms,
        "sm_unit": rank.sm_unit,
        "path": _file_name(rank.path),
        "basis": rank.basis,
        "step": rank.step,
        "step_by": rank.step_by,
        "simulated": rank.simulated,
        "apart": rank.apart,
        "start_ns": zero,
        "span_ns": b.span_ns,
        "busy_ns": b.busy_ns,
        "idle_ns": b.idle_ns,
        "compute_ns": b.compute_ns,
        "fused_ns": b.fused_ns,
        "communication_ns": b.communication_ns,
        "hidden_communication_ns": b.hidden_communication_ns,
        "exposed_communication_ns": b.exposed_communication_ns,
        "hidden_fraction": b.hidden_fraction,
        "memory_ns": b.memory_ns,
        "exposed_memory_ns": b.exposed_memory_ns,
        "serial_ns": b.serial_ns,
        "overlap_speedup": b.overlap_speedup,
        "data_ns": o.data_ns,
        "barrier_ns": o.barrier_ns,
        "streams": _rows(k.streams),
        "families": _rows(k.families),
        "collectives": _rows(o.collectives),
        "phases": _rows(_relative(rank.phases.head(most_rows), zero).drop("phase")),
        "num_phases": rank.phases.height,
        "phase_means": _rows(rank.phase_means),
        "overlap_matrix": {
            "communication": list(o.matrix.communication),
            "compute": list(o.matrix.compute),
            "ns": [list(row) for row in o.matrix.ns],
            "hidden_ns": list(o.matrix.hidden_ns),
            "exposed_ns": list(o.matrix.exposed_ns),
        },
        "busy": _busy(rank.busy, zero, most_stretches),
        "lanes": [
            {
                "lane": lane.lane,
                "sms": lane.sms,
                "sms_exact": lane.sms_exact,
                "sm_unit": lane.sm_unit,
                "busy_ns": lane.busy_ns,
                "busy": _busy(lane.busy, zero, most_stretches),
                "streams": list(lane.streams),
                "boxes": _rows(_relative(coarser(lane.boxes, most_rows), zero)),
            }
            for lane in rank.lanes
        ],
        "shift_ns": 0 if zero_ns is None else zero - zero_ns,
        "waits": _busy(stretches_of(EMPTY) if waits is None else waits, zero, most_stretches),
        "exposed": _busy(stretches_of(o.exposed), zero, most_stretches),
        "num_exposed": len(o.exposed.starts),
        "kernels": _rows(k.kernels),
        "operators": _rows(rank.operators.operators.head(_MAX_OPERATORS)),
        "num_without_operator": rank.operators.num_without,
        "without_operator_ns": rank.operators.without_ns,
        "unnamed": _rows(k.unnamed),
        "unnamed_share": k.unnamed_share,
        "idle_causes": {
            "threshold_ns": rank.idle.threshold_ns,
            "host_wait_ns": rank.idle.host_wait_ns,
            "dependency_wait_ns": rank.idle.dependency_wait_ns,
            "kernel_gap_ns": rank.idle.kernel_gap_ns,
            "unknown_ns": rank.idle.unknown_ns,
            "by_stream": _rows(rank.idle.by_stream),
        },
        "launch": {
            "num_linked": rank.queueing.num_linked,
            "delay_p50_ns": rank.queueing.delay_p50_ns,
            "delay_p99_ns": rank.queueing.delay_p99_ns,
            "delay_max_ns": rank.queueing.delay_max_ns,
            "queue_max": rank.queueing.queue_max,
            "queue_mean": rank.queueing.queue_mean,
            "host_blocked": _rows(rank.queueing.host_calls),
            "host_stalls": _rows(rank.queueing.host_stalls),
        },
        "headroom": {
            "ideal_ns": rank.headroom.ideal_ns,
            "headroom_ns": rank.headroom.headroom_ns,
            "bound_by": rank.headroom.bound_by,
            "longest_chain_ns": rank.headroom.longest_chain_ns,
            "assumption": rank.headroom.assumption,
        },
        "steps": [_step(step, zero) for step in rank.steps],
        "outside_steps": [{"place": part.place, **_window(part.breakdown)} for part in rank.outside_steps],
        "quality": {
            "verdict": rank.quality.verdict,
            "dropped": rank.quality.dropped,
            "repaired": rank.quality.repaired,
            "clipped": rank.quality.clipped,
            "unlinked": rank.quality.unlinked,
            "unnamed_share": rank.quality.unnamed_share,
            "overlapping": rank.quality.overlapping,
            "out_of_window": rank.quality.out_of_window,
            "skipped": dict(rank.quality.skipped),
            "truncated": rank.quality.truncated,
            "unused": dict(rank.quality.unused),
            "notes": list(rank.quality.notes),
        },
    }
    told["shares"] = shares_document(
        rank.shared,
        rank.waits,
        zero_ns=zero,
        kernels=[kernel["name"] for kernel in told["kernels"]],
        world_size=rank.world_size,
        steps_by=rank.steps_by,
        facts=rank.facts,
        most_labels=most_labels,
        most_steps=min(MOST_STEPS, most_steps),
    )
    if rank.configuration:
        told["configuration"] = dict(rank.configuration)
    if joined is not None:
        told["flops"] = flops_of_rank(joined)
    for times in rank.code:
        told["modules" if times.by == "module" else "lines"] = code_document(times, num_ranks=num_ranks)
    return told


def _step(step: Step, zero_ns: int) -> StepDocument:
    return {
        "step": step.step,
        "start_ns": step.breakdown.start_ns - zero_ns,
        **_window(step.breakdown),
        "from_other_steps_ns": step.from_other_steps_ns,
        "ran_ahead_ns": step.ran_ahead_ns,
        "spilled_ns": step.spilled_ns,
    }


def _window(b: Breakdown) -> WindowDocument:
    return {
        "span_ns": b.span_ns,
        "compute_ns": b.compute_ns,
        "exposed_communication_ns": b.exposed_communication_ns,
        "exposed_memory_ns": b.exposed_memory_ns,
        "idle_ns": b.idle_ns,
        "hidden_fraction": b.hidden_fraction,
    }


def report_document(document: Mapping[str, Any], what: str) -> ReportDocument:
    """A document that was read, checked against its type. what: names it in errors. Raises `DocumentError`."""
    try:
        msgspec.convert(document, ReportDocument)
    except msgspec.ValidationError as error:
        raise DocumentError(f"{what}: not a {SCHEMA} document: {error}") from error
    return cast(ReportDocument, document)


def _rows(frame: pl.DataFrame) -> Any:
    """A row an object; the frame's columns are the fields of the document's type."""
    return frame.to_dicts()


def _relative(frame: pl.DataFrame, zero_ns: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns", "end_ns") - zero_ns)


def _busy(stretches: Stretches, zero_ns: int, most: int) -> list[list[int]]:
    """[start, end, busy] of each stretch, of about `most` at most."""
    starts, ends, busy_ns = fewer(stretches, most)
    columns = (starts - zero_ns).tolist(), (ends - zero_ns).tolist(), busy_ns.tolist()
    return [list(row) for row in zip(*columns, strict=True)]


def _file_name(path: str) -> str:
    """The last part: reports are passed around, and where a file lay is nobody's business."""
    return PurePath(path).name or path


def flops_of_rank(joined: TraceJoin) -> JoinedDocument:
    """FLOPs joined to one device of one rank (`rank["flops"]`): counts of all joined steps, times of the trace."""
    return {
        "model": joined.model,
        "hardware": joined.hardware or None,
        "basis": joined.basis,
        "steps": joined.steps,
        "span_ns": joined.span_ns,
        "flops_per_s": joined.flops_per_s,
        "mfu": joined.mfu,
        "mfu_full": joined.mfu_full,
        "hfu": joined.hfu,
        "phases": [_flops_of_phase(part) for part in joined.phases],
        "ranges": [
            {"path": part.path, "flops": part.tally.flops, "busy_ns": part.busy_ns, "mfu": part.mfu}
            for part in joined.ranges
        ],
        "no_phase_ns": joined.no_phase_ns,
        "num_no_phase": joined.num_no_phase,
        "notes": list(joined.notes),
    }


def _flops_of_phase(part: PhaseWork) -> JoinedPhaseDocument:
    return {
        "phase": str(part.phase),
        "flops": part.tally.flops,
        "full_flops": part.tally.full_flops,
        "executed_flops": part.tally.executed_flops,
        "vector_flops": part.tally.vector_flops,
        "moved_bytes": part.tally.moved_bytes,
        "num_events": part.num_events,
        "busy_ns": part.busy_ns,
        "elapsed_ns": part.elapsed_ns,
        "flops_per_s": part.flops_per_s,
        "mfu": part.mfu,
        "mfu_full": part.mfu_full,
        "hfu": part.hfu,
    }
