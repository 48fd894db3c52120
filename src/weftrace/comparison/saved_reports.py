"""A saved report stands for the trace or the job that it was made of."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

import polars as pl

from weftrace.analysis.efficiency.values import STEP_SHAPES
from weftrace.analysis.excluded_ranks import Apart, excluded_words
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.step_shares_document import SharesDocument, shares_from
from weftrace.comparison.run_values import RankRun, Run
from weftrace.errors import DocumentError
from weftrace.files.documents import broken, read_document
from weftrace.files.schemas import Count
from weftrace.files.sources import open_bytes
from weftrace.files.standard_input import located
from weftrace.files.values import from_document
from weftrace.render.lane_types import LanePicture
from weftrace.trace.job import Failure
from weftrace.units import counted

_REPORT: Final = "weftrace.report/1"
_HEAD = re.compile(rb'"schema"\s*:\s*"weftrace\.report/')
_HEAD_BYTES = 4_096  # the schema is the first field of what weftrace writes
_IN_NO_SUM = re.compile("|".join(map(excluded_words, (1, 2))))  # of one, of several


class _Kernel(TypedDict):
    name: str


class _Shape(TypedDict):
    operator: str
    shapes: str
    dtype: str
    num_calls: Count
    busy_ns: Count


class _Efficiency(TypedDict):
    shapes: list[_Shape]


class _Rank(LanePicture):
    path: str
    apart: Apart | None
    start_ns: int
    kernels: list[_Kernel]
    shares: NotRequired[SharesDocument]
    efficiency: NotRequired[_Efficiency]


class _Failure(TypedDict):
    path: str
    error: str


class _Lateness(TypedDict):
    notes: list[str]


class _Report(TypedDict):
    """What of a report is needed here."""

    schema: Literal["weftrace.report/1"]
    weftrace: str
    source: str
    failures: list[_Failure]
    lateness: _Lateness | None
    notes: list[str]
    ranks: list[_Rank]
    advice: NotRequired[AdviceReport]


def is_report(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a report's JSON rather than a trace, told by its head; False where it cannot be read."""
    if os.path.isdir(path) or any(sign in str(path) for sign in "*?["):
        return False
    stream = open_bytes(path)
    head = next(stream.chunks, b"") if os.path.exists(located(path)) or "://" in str(path) else b""
    return bool(_HEAD.search(head[:_HEAD_BYTES]))


def read_report(path: str | os.PathLike[str], *, ranks: Collection[int] | None = None) -> Run:
    """What of a saved report is compared. ranks: only these; who waited for whom is then not known. Raises
    DocumentError where it is damaged, or holds too little."""
    run = run_of_report(read_document(path, schema=_REPORT), str(path))
    chosen = [rank for rank in run.ranks if ranks is None or rank.rank in ranks]
    if len(chosen) == len(run.ranks):
        return run
    return replace(run, ranks=tuple(replace(rank, waits=None) for rank in chosen), advice=None)


def run_of_report(document: Mapping[str, Any], what: str) -> Run:
    """What of a report is compared. what: how errors name it. Raises as `read_report` does."""
    report = from_document(_Report, document, schema=_REPORT, what=what)
    notes = [_IN_NO_SUM.sub("left out", note) for note in report["notes"]]
    notes += report["lateness"]["notes"] if report["lateness"] else []
    counting = [rank for rank in report["ranks"] if rank["apart"] is None]
    seen: set[tuple[object, ...]] = set()
    for at, rank in enumerate(report["ranks"]):
        own = (rank["rank"], rank["device"], rank["name"], rank["path"])
        if own in seen:
            raise broken(what, _REPORT, "the same rank a second time", f"$.ranks[{at}]")
        seen.add(own)
    return Run(
        source=what,
        ranks=tuple(
            _rank(rank, what, report["weftrace"], f"$.ranks[{at}].shares")
            for at, rank in enumerate(report["ranks"])
            if rank["apart"] is None
        ),
        failures=tuple(Failure(path=each["path"], error=each["error"]) for each in report["failures"]),
        notes=(*notes, *_left_out(counting)),
        advice=report.get("advice"),
    )


def _rank(rank: _Rank, what: str, version: str, place: str) -> RankRun:
    if "shares" not in rank:
        raise DocumentError(
            f"{what}: a report without what a comparison needs: weftrace {version} wrote it before reports held that. "
            "Compare its trace instead, or report on that again: weftrace report TRACE -o report.json"
        )
    saved = rank["shares"]
    kernels = [kernel["name"] for kernel in rank["kernels"]]
    try:
        shared, waits = shares_from(saved, zero_ns=rank["start_ns"], kernels=kernels)
    except ValueError as error:
        why, _, within = str(error).partition(" - at `")
        raise broken(what, _REPORT, why, place + within.rstrip("`")) from error
    return RankRun(
        rank=rank["rank"],
        device=rank["device"],
        world_size=saved["world_size"],
        path=rank["path"],
        basis=rank["basis"],
        simulated=rank["simulated"],
        span_ns=rank["span_ns"],
        shares=shared.shares,
        windows=shared.windows,
        waits=waits,
        name=rank["name"],
        facts=saved["facts"],
        seam_ns=saved["seam_ns"],
        steps_by=saved["steps_by"],
        num_merged=saved["num_merged"],
        shapes=_shapes(rank),
        saved=cast(Mapping[str, Any], rank),
    )


def _shapes(rank: _Rank) -> pl.DataFrame | None:
    """Calls by shapes of the whole recording: a report does not hold them by step."""
    if "efficiency" not in rank:
        return None
    rows = [{name: row.get(name) for name in STEP_SHAPES} for row in rank["efficiency"]["shapes"]]
    return pl.DataFrame(rows, schema=STEP_SHAPES)


def _left_out(ranks: list[_Rank]) -> list[str]:
    """What the report was too small for."""
    notes = []
    if merged := max((rank["shares"]["num_merged"] for rank in ranks if "shares" in rank), default=0):
        notes.append(f'a report, which names the largest kernels: {counted(merged, "smaller row")} are "other"')
    steps = max(ranks, key=lambda rank: rank["shares"]["num_steps"], default=None)
    if steps is not None and steps["shares"]["num_steps"] > len(steps["shares"]["steps"]) > 0:
        notes.append(f"a report, which holds {len(steps['shares']['steps'])} of {steps['shares']['num_steps']:,} steps")
    return notes
