"""Lateness of a job as plain JSON values: a part of the report document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import polars as pl

from weftrace.analysis.activity import Stretches
from weftrace.analysis.excluded_ranks import names_of
from weftrace.analysis.intervals import union
from weftrace.analysis.rank import Analysis, RankAnalysis
from weftrace.analysis.stragglers import Lateness
from weftrace.files.sources import file_name
from weftrace.files.values import to_document
from weftrace.report.document_types import LatenessDocument

_MOST_PAIRS = 10_000
_MOST_WORST = 100
_MOST_STEP_VALUES = 100_000
#: Fields that are the analysis' own.
_OWN = (
    "num_matched",
    "num_unmatched",
    "not_the_same",
    "clocks_applied",
    "uncertainty_ns",
    "late",
    "collectives",
    "notes",
)


def lateness_document(analysis: Analysis) -> LatenessDocument | None:
    """Lateness of the ranks that are in sums. Times of `worst` count from the job's zero."""
    found = analysis.lateness
    if found is None:
        return None
    ranks = [rank for rank in analysis.ranks if rank.apart is None]
    pairs = found.pairs.select("waiter", "last", "waiting_ns", "count")
    return cast(
        LatenessDocument,
        {
            **{name: to_document(getattr(found, name)) for name in _OWN},
            "by": {"sequence": found.num_by_sequence, "order": found.num_matched - found.num_by_sequence},
            "ranks": _ranks(ranks, found),
            "pairs": [list(row) for row in pairs.head(_MOST_PAIRS).iter_rows()],
            "pairs_left_ns": int(pairs[_MOST_PAIRS:].get_column("waiting_ns").sum()),
            "worst": _worst(found, zero_ns(analysis)),
            "steps": _steps(found, len(ranks)),
        },
    )


def zero_ns(analysis: Analysis) -> int:
    """The job's zero: the first start of a rank that is in sums, on the common clock."""
    pairs = zip(analysis.ranks, ahead_ns(analysis), strict=True)
    return min((rank.breakdown.start_ns - ahead for rank, ahead in pairs if rank.apart is None), default=0)


def ahead_ns(analysis: Analysis) -> list[int]:
    """Of each rank how far its clock is ahead of the common one, where that is subtracted from its times."""
    summary = iter(analysis.lateness.ahead_ns if analysis.lateness else ())
    return [0 if rank.apart is not None else next(summary, 0) for rank in analysis.ranks]


def _worst(found: Lateness, zero: int) -> list[dict[str, Any]]:
    start = (pl.col("last_start") - zero).alias("start_ns")
    columns = ("collective", "group", "seq", "step", start, "last", "caused_ns", "origin", "origin_ns",
               "waiting_ns", "transfer_ns")  # fmt: skip
    return found.worst.head(_MOST_WORST).select(*columns).to_dicts()


def _ranks(ranks: Sequence[RankAnalysis], found: Lateness) -> list[dict[str, Any]]:
    rows = found.ranks.drop("at").to_dicts()
    return [
        {"rank": r.rank, "device": r.device, "path": file_name(r.path), "name": name, **row,
         "exposed_ns": min(row["suffered_ns"], _exposed(r, waits))}
        for r, name, row, waits in zip(ranks, names_of(ranks), rows, found.waits, strict=True)
    ]  # fmt: skip


def _exposed(rank: RankAnalysis, waits: Stretches) -> int:
    """Waiting that nothing was computed beside: in exposed communication, or in idle time."""
    waited, busy = (union(part.starts, part.ends) for part in (waits, rank.busy))
    return (waited & rank.overlap.exposed).total_ns + (waited - busy).total_ns


def _steps(found: Lateness, number: int) -> list[dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    names = ("caused_ns", "origin_ns", "suffered_ns")
    for step, at, *values in found.steps.select("step", "at", *names).iter_rows():
        if step not in rows:
            if (len(rows) + 1) * len(names) * number > _MOST_STEP_VALUES:
                break
            rows[step] = {"step": step, **{name: [0] * number for name in names}}
        for name, value in zip(names, values, strict=True):
            rows[step][name][at] = value
    return list(rows.values())
