"""The report document: an `Analysis` as plain JSON values, versioned. Every renderer draws from it, and only from it.

docs/report-json.md explains each field; document_types.py has their types, from which its JSON Schema is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import msgspec
import polars as pl

from weftrace.analysis.activity import Stretches, fewer, stretches_of
from weftrace.analysis.intervals import EMPTY
from weftrace.analysis.lane_boxes import Lane, coarser
from weftrace.analysis.rank import Analysis, RankAnalysis
from weftrace.analysis.step_shares_document import MOST_LABELS, MOST_STEPS, shares_document
from weftrace.analysis.step_times import Step
from weftrace.analysis.time_account import Breakdown
from weftrace.errors import DocumentError
from weftrace.files.values import document_type, to_document
from weftrace.report.code_document import code_document
from weftrace.report.document_types import (
    SCHEMA,
    JoinedDocument,
    JoinedPhaseDocument,
    RankDocument,
    ReportDocument,
    SlowWorkDocument,
    WindowDocument,
)
from weftrace.report.headline import headline, left_out
from weftrace.report.lateness_document import ahead_ns, file_name, lateness_document, zero_ns
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
        "source": file_name(analysis.source),
        "headline": headline(counted, lateness) + _slow(slow, ranks) + left_out(ranks),
        "world_size": analysis.world_size,
        "num_ranks": len(analysis.ranks),
        "failures": [{"path": file_name(f.path), "error": f.error} for f in analysis.failures],
        "clocks": to_document(analysis.clocks),
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
    zero = rank.breakdown.start_ns
    own = (
        "rank",
        "name",
        "device",
        "device_name",
        "num_sms",
        "sm_unit",
        "basis",
        "step",
        "step_by",
        "simulated",
        "apart",
    )
    document = {
        **{name: getattr(rank, name) for name in own},
        "path": file_name(rank.path),
        **to_document(rank.breakdown),
        "data_ns": rank.overlap.data_ns,
        "barrier_ns": rank.overlap.barrier_ns,
        "collectives": rank.overlap.collectives.to_dicts(),
        **to_document(rank.kernels),
        "phases": _relative(rank.phases.head(most_rows), zero).drop("phase").to_dicts(),
        "num_phases": rank.phases.height,
        "phase_means": rank.phase_means.to_dicts(),
        "overlap_matrix": to_document(rank.overlap.matrix),
        "busy": _busy(rank.busy, zero, most_stretches),
        "lanes": [_lane(lane, zero, most_rows, most_stretches) for lane in rank.lanes],
        "shift_ns": 0 if zero_ns is None else zero - zero_ns,
        "waits": _busy(stretches_of(EMPTY) if waits is None else waits, zero, most_stretches),
        "exposed": _busy(stretches_of(rank.overlap.exposed), zero, most_stretches),
        "num_exposed": len(rank.overlap.exposed.starts),
        "operators": rank.operators.operators.head(_MAX_OPERATORS).to_dicts(),
        "num_without_operator": rank.operators.num_without,
        "without_operator_ns": rank.operators.without_ns,
        "idle_causes": to_document(rank.idle),
        "launch": to_document(rank.queueing),
        "headroom": to_document(rank.headroom),
        "steps": [_step(step, zero) for step in rank.steps],
        "outside_steps": [{"place": part.place, **_window(part.breakdown)} for part in rank.outside_steps],
        "quality": to_document(rank.quality),
    }
    document["shares"] = shares_document(
        rank.shared,
        rank.waits,
        zero_ns=zero,
        kernels=[kernel["name"] for kernel in document["kernels"]],
        world_size=rank.world_size,
        steps_by=rank.steps_by,
        facts=rank.facts,
        most_labels=most_labels,
        most_steps=min(MOST_STEPS, most_steps),
    )
    if rank.tables:
        document["tables"] = to_document(rank.tables)
    if rank.configuration:
        document["configuration"] = dict(rank.configuration)
    if joined is not None:
        document["flops"] = flops_of_rank(joined)
    for times in rank.code:
        document["modules" if times.by == "module" else "lines"] = code_document(times, num_ranks=num_ranks)
    return cast(RankDocument, document)


def _lane(lane: Lane, zero_ns: int, most_rows: int, most_stretches: int) -> dict[str, Any]:
    own = ("lane", "sms", "sms_exact", "sm_unit", "busy_ns")
    return {
        **{name: getattr(lane, name) for name in own},
        "busy": _busy(lane.busy, zero_ns, most_stretches),
        "streams": list(lane.streams),
        "boxes": _relative(coarser(lane.boxes, most_rows), zero_ns).to_dicts(),
    }


def _step(step: Step, zero_ns: int) -> dict[str, Any]:
    return {
        "step": step.step,
        "start_ns": step.breakdown.start_ns - zero_ns,
        **_window(step.breakdown),
        "from_other_steps_ns": step.from_other_steps_ns,
        "ran_ahead_ns": step.ran_ahead_ns,
        "spilled_ns": step.spilled_ns,
    }


def _window(b: Breakdown) -> dict[str, Any]:
    return {name: getattr(b, name) for name in WindowDocument.__annotations__}


def report_document(document: Mapping[str, Any], what: str) -> ReportDocument:
    """A document that was read, checked against its type. what: names it in errors. Raises `DocumentError`."""
    try:
        msgspec.convert(document, document_type(ReportDocument))
    except msgspec.ValidationError as error:
        raise DocumentError(f"{what}: not a {SCHEMA} document: {error}") from error
    return cast(ReportDocument, document)


def _relative(frame: pl.DataFrame, zero_ns: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("start_ns", "end_ns") - zero_ns)


def _busy(stretches: Stretches, zero_ns: int, most: int) -> list[list[int]]:
    """[start, end, busy] of each stretch, of about `most` at most."""
    starts, ends, busy_ns = fewer(stretches, most)
    columns = (starts - zero_ns).tolist(), (ends - zero_ns).tolist(), busy_ns.tolist()
    return [list(row) for row in zip(*columns, strict=True)]


def flops_of_rank(joined: TraceJoin) -> JoinedDocument:
    """FLOPs joined to one device of one rank (`rank["flops"]`): counts of all joined steps, times of the trace."""
    document = {
        **{name: getattr(joined, name) for name in JoinedDocument.__annotations__},
        "hardware": joined.hardware or None,
        "phases": [_flops_of_phase(part) for part in joined.phases],
        "ranges": [
            {"path": part.path, "flops": part.tally.flops, "busy_ns": part.busy_ns, "mfu": part.mfu}
            for part in joined.ranges
        ],
        "notes": list(joined.notes),
    }
    return cast(JoinedDocument, document)


def _flops_of_phase(part: PhaseWork) -> dict[str, Any]:
    """Counts are those of its tally, times its own."""
    names = JoinedPhaseDocument.__annotations__
    own = {name: getattr(part if hasattr(part, name) else part.tally, name) for name in names}
    return {**own, "phase": str(part.phase)}
