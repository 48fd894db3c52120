"""The report document: an `Analysis` as plain JSON values, versioned. Every renderer draws from it, and only from it.

docs/report-json.md explains each field; document_types.py has their types, from which its JSON Schema is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import polars as pl

from weftrace.analysis.activity import Stretches, fewer, stretches_of
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.intervals import EMPTY
from weftrace.analysis.job_slowdown import JobSlowdown
from weftrace.analysis.lane_boxes import Lane, coarser
from weftrace.analysis.memory.curves import bounded_curve
from weftrace.analysis.rank import Analysis, RankAnalysis
from weftrace.analysis.rank_tables import table_notes
from weftrace.analysis.step_shares_document import MOST_LABELS, MOST_STEPS, shares_document
from weftrace.analysis.step_times import Step
from weftrace.errors import DocumentError
from weftrace.files.documents import broken
from weftrace.files.sources import file_name
from weftrace.files.values import document_type, to_document
from weftrace.report.code_document import MOST_NODES, code_document
from weftrace.report.document_types import (
    SCHEMA,
    Block,
    JoinedDocument,
    JoinedPhaseDocument,
    JoinedRangeDocument,
    RankDocument,
    ReportDocument,
    WindowDocument,
)
from weftrace.report.lateness_document import ahead_ns, lateness_document, zero_ns
from weftrace.report.sentences.headline import headline, left_out
from weftrace.report.sentences.slow_work_sentence import slow_sentence
from weftrace.version import __version__

if TYPE_CHECKING:
    from weftrace.flops.join.join import TraceJoin

_MAX_OPERATORS = 500
#: Phases, and boxes of a lane, that a document lists of a rank; of a job's ranks fewer, so that 64 fit a page.
_MAX_ROWS, _ROWS_OF_JOB, _LEAST_ROWS = 20_000, 100_000, 1_000
#: Of a job of more ranks than `_MANY` fewer, so that its document stays below 10 MB.
_MANY, _ROWS_OF_MANY, _LEAST_OF_MANY = 64, 4_000, 24
#: Stretches of busy time that a document holds of each lane: as many as a wide screen has columns, and fewer of the
#: lanes of a job.
MOST_STRETCHES, _LEAST_STRETCHES = 4_000, 1_000
#: Rows of labels, and steps, of which a document holds the times, of each rank of a job.
_LEAST_LABELS, _LEAST_STEPS = 200, 10
_LEAST_NODES = 500
#: Rows of a table of efficiency, of each rank of a job.
_MOST_RATES, _RATES_OF_JOB, _LEAST_RATES = 500, 2_000, 5


def document_of(
    analysis: Analysis,
    *,
    flops: Sequence[TraceJoin | None] = (),
    slowdown: JobSlowdown | None = None,
    most_stretches: int = MOST_STRETCHES,
    advice: AdviceReport | None = None,
) -> ReportDocument:
    """The whole report as JSON-able values.

    flops: of each rank of the analysis, what was joined to it, if anything. slowdown: of a job that was replayed.
    most_stretches: of busy time of each lane;
    of a job's, fewer. advice: what to do about the run, where that was looked for.
    """
    joined = [*flops, *[None] * (len(analysis.ranks) - len(flops))]
    most = _Most.of(len(joined), most_stretches)
    zero, lateness = zero_ns(analysis), lateness_document(analysis)
    slow: Block | None = to_document(analysis.slow_work)
    each = zip(analysis.ranks, joined, ahead_ns(analysis), _waits(analysis), strict=True)
    ranks = [_rank(rank, work, most, zero + ahead, waits) for rank, work, ahead, waits in each]
    counted = [rank for rank in ranks if rank["apart"] is None]
    replayed: Block | None = to_document(slowdown)
    document: ReportDocument = {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": file_name(analysis.source),
        "headline": (_slow(slow, ranks) if replayed is None else "")
        + headline(counted, lateness, replayed)
        + left_out(ranks),
        "world_size": analysis.world_size,
        "num_ranks": len(analysis.ranks),
        "failures": [{"path": file_name(f.path), "error": f.error} for f in analysis.failures],
        "clocks": to_document(analysis.clocks),
        "lateness": lateness,
        "slow_work": slow,
        "slowdown": replayed,
        "bandwidth": to_document(analysis.bandwidth),
        "notes": list(analysis.notes),
        "ranks": ranks,
    }
    return document if advice is None else {**document, "advice": to_document(advice)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Most:
    """How much a document holds of a rank at most. stretches: of busy time of each lane. rows: phases, and boxes of a
    lane: of more, neighbours are merged. labels, steps: see `shares_document`. nodes: of time by module. rates: of a
    table of efficiency."""

    stretches: int
    rows: int
    labels: int
    steps: int
    nodes: int
    rates: int

    @classmethod
    def of(cls, num_ranks: int, stretches: int) -> _Most:
        """num_ranks: of the document, which share the room."""
        number = max(1, num_ranks)
        many = number > _MANY
        labels = max(_LEAST_LABELS, MOST_LABELS // number)
        return cls(
            stretches=max(min(stretches, _LEAST_OF_MANY if many else _LEAST_STRETCHES), stretches // number),
            rows=max(_LEAST_OF_MANY, _ROWS_OF_MANY // number)
            if many
            else min(_MAX_ROWS, max(_LEAST_ROWS, _ROWS_OF_JOB // number)),
            labels=labels,
            steps=min(MOST_STEPS, max(_LEAST_STEPS, MOST_STEPS * MOST_LABELS // (number * labels))),
            nodes=max(_LEAST_NODES, MOST_NODES // number),
            rates=min(_MOST_RATES, max(_LEAST_RATES, _RATES_OF_JOB // number)),
        )


def _waits(analysis: Analysis) -> list[Stretches]:
    """When each rank waited for others; empty for those that are in no sum."""
    counted = iter(analysis.lateness.waits if analysis.lateness else ())
    nothing = stretches_of(EMPTY)
    return [next(counted, nothing) if rank.apart is None else nothing for rank in analysis.ranks]


def _slow(slow: Block | None, ranks: Sequence[RankDocument]) -> str:
    """At the head of plain traces' headline: who is slow is why the others have no range recorded."""
    return slow_sentence(slow) if any(rank["basis"] == "ranges" for rank in ranks) else ""


#: Fields of a rank that are its analysis' own.
_OWN = (
    "rank", "name", "device", "device_name", "num_sms", "sm_unit", "basis", "step", "step_by", "simulated", "apart",
    "phase_means", "headroom", "quality",
)  # fmt: skip


def _rank(
    rank: RankAnalysis, joined: TraceJoin | None, most: _Most, job_zero_ns: int, waits: Stretches
) -> RankDocument:
    """One device of one rank. Starts and ends are relative to its first device start. job_zero_ns: the job's zero on
    its own clock. waits: when it waited for other ranks."""
    zero = rank.breakdown.start_ns
    document = {
        **_of(rank, _OWN),
        "path": file_name(rank.path),
        **to_document(rank.breakdown),
        **_of(rank.overlap, ("data_ns", "barrier_ns", "collectives")),
        **to_document(rank.kernels),
        "phases": _relative(rank.phases.head(most.rows), zero).drop("phase").to_dicts(),
        "num_phases": rank.phases.height,
        "overlap_matrix": to_document(rank.overlap.matrix),
        "busy": _busy(rank.busy, zero, most.stretches),
        "lanes": [_lane(lane, zero, most) for lane in rank.lanes],
        "shift_ns": zero - job_zero_ns,
        "waits": _busy(waits, zero, most.stretches),
        "exposed": _busy(stretches_of(rank.overlap.exposed), zero, most.stretches),
        "num_exposed": len(rank.overlap.exposed.starts),
        "operators": rank.operators.operators.head(_MAX_OPERATORS).to_dicts(),
        "num_without_operator": rank.operators.num_without,
        "without_operator_ns": rank.operators.without_ns,
        "idle_causes": to_document(rank.idle),
        "idle_account": to_document(rank.idle_account),
        "launch": to_document(rank.queueing),
        "steps": [_step(step, zero) for step in rank.steps],
        "outside_steps": [{"place": part.place, **_of(part.breakdown, _WINDOW)} for part in rank.outside_steps],
    }
    document["shares"] = shares_document(
        rank.shared,
        rank.waits,
        zero_ns=zero,
        kernels=[kernel["name"] for kernel in document["kernels"]],
        world_size=rank.world_size,
        steps_by=rank.steps_by,
        facts=rank.facts,
        most_labels=most.labels,
        most_steps=most.steps,
    )
    if rank.efficiency is not None:
        document["efficiency"] = to_document(rank.efficiency.first(most.rates if rank.efficiency.num_rated else 0))
    if rank.tables:
        document["tables"] = to_document(rank.tables)
        if notes := table_notes(document["tables"], document["span_ns"]):
            document["table_notes"] = notes
    if rank.memory:
        uses = (replace(use, curve=bounded_curve(use.curve, most.stretches)) for use in rank.memory)
        document["memory"] = [to_document(use) for use in uses]
    if rank.configuration:
        document["configuration"] = dict(rank.configuration)
    if joined is not None:
        document["flops"] = flops_of_rank(joined)
    for times in rank.code:
        document["modules" if times.by == "module" else "lines"] = code_document(times, most.nodes)
    return cast(RankDocument, document)


def _of(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: to_document(getattr(value, name)) for name in names}


def _lane(lane: Lane, zero_ns: int, most: _Most) -> dict[str, Any]:
    return {
        **_of(lane, ("lane", "sms", "sms_exact", "sm_unit", "busy_ns", "streams")),
        "busy": _busy(lane.busy, zero_ns, most.stretches),
        "boxes": _relative(coarser(lane.boxes, most.rows), zero_ns).to_dicts(),
    }


_WINDOW = tuple(WindowDocument.__annotations__)


def _step(step: Step, zero_ns: int) -> dict[str, Any]:
    own = _of(step, ("step", "from_other_steps_ns", "ran_ahead_ns", "spilled_ns"))
    return {**own, "start_ns": step.breakdown.start_ns - zero_ns, **_of(step.breakdown, _WINDOW)}


def report_document(document: Mapping[str, Any], what: str) -> ReportDocument:
    """A document that was read, checked against its type. what: names it in errors. Raises `DocumentError`."""
    try:
        msgspec.convert(document, document_type(ReportDocument))
    except msgspec.ValidationError as error:
        raise DocumentError(f"{what}: not a {SCHEMA} document: {error}") from error
    found = cast(ReportDocument, document)
    _need_positions(found, what)
    return found


def _need_positions(document: ReportDocument, what: str) -> None:
    """Raise `DocumentError` where a position names none of the ranks that are in the sums of the job."""
    num = sum(rank["apart"] is None for rank in document["ranks"])
    lateness, slow = document["lateness"], document["slow_work"]
    if slow is not None and len(slow["ranks"]) > num:
        raise broken(what, SCHEMA, f"{len(slow['ranks'])} elements for {num} ranks", "$.slow_work.ranks")
    if lateness is None:
        return
    if len(lateness["ranks"]) != num:
        raise broken(what, SCHEMA, f"{len(lateness['ranks'])} elements for {num} ranks", "$.lateness.ranks")
    positions: list[tuple[str, int]] = [
        *((f"pairs[{at}]", max(pair[:2])) for at, pair in enumerate(lateness["pairs"])),
        *((f"collectives[{at}].last", each["last"]) for at, each in enumerate(lateness["collectives"])),
        *((f"worst[{at}].last", each["last"]) for at, each in enumerate(lateness["worst"])),
        *([] if lateness["late"] is None else [("late", lateness["late"])]),
        *(
            (f"{name}[{at}].origin", each.get("origin") or 0)
            for name in ("collectives", "worst")
            for at, each in enumerate(lateness[name])
        ),
    ]
    for place, position in positions:
        if position >= num:
            raise broken(what, SCHEMA, f"position {position} among {num} ranks", f"$.lateness.{place}")
    for at, step in enumerate(lateness["steps"]):
        lists = {"caused_ns": step["caused_ns"], "origin_ns": step.get("origin_ns"), "suffered_ns": step["suffered_ns"]}
        for name, values in lists.items():
            if values is not None and len(values) != num:
                place = f"$.lateness.steps[{at}].{name}"
                raise broken(what, SCHEMA, f"{len(values)} elements for {num} ranks", place)


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
        "phases": [
            {**_of_work(part, part.tally, JoinedPhaseDocument), "phase": str(part.phase)} for part in joined.phases
        ],
        "ranges": [_of_work(part, part.tally, JoinedRangeDocument) for part in joined.ranges],
        "notes": list(joined.notes),
    }
    return cast(JoinedDocument, document)


def _of_work(part: Any, tally: Any, kind: type) -> dict[str, Any]:
    """Counts are those of the tally, times the part's own."""
    return {name: getattr(part if hasattr(part, name) else tally, name) for name in kind.__annotations__}
