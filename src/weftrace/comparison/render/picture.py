"""What the two lane pictures of a comparison are drawn from: steps of a rank, before and after, with their events.

Times of a step count from the start of its window.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, cast

import numpy as np
import polars as pl

from weftrace.analysis import account_of, lanes
from weftrace.analysis.activity import Stretches, fewer, stretches_of
from weftrace.analysis.lane_boxes import Lane, coarser
from weftrace.comparison.diffs import Diff
from weftrace.comparison.render.saved_lanes import saved_lanes
from weftrace.comparison.runs import RankRun, event_labels
from weftrace.comparison.sides import Side
from weftrace.errors import WeftraceError
from weftrace.render.lane_types import BoxDocument, PlannedPicture
from weftrace.render.packed import PackedColumn, packed
from weftrace.trace.job import open_trace
from weftrace.trace.model import Trace
from weftrace.trace.named_steps import with_steps
from weftrace.trace.work import Work, works_of

#: Steps of a run that a page holds at most: the median one, and others from the shortest to the longest.
MAX_STEPS = 9
#: Ranks that it holds at most, those first whose step changed most.
MAX_RANKS = 4
#: Events of one run that it holds at most, the longest of each step.
MAX_EVENTS = 60_000
#: Boxes of a lane of one step, and stretches of its busy time.
MAX_BOXES, MAX_STRETCHES = 4_000, 6_000
#: Names longer than this are cut.
MAX_NAME = 300

#: By what movers are named: columns of `RankRun.shares`.
LEVELS = ("family", "kernel", "operator", "phase")


class LabelRow(TypedDict):
    """Whose an event is, by all the names that a mover may have. name: of the kernel, as its run has it; the others are
    those by which both runs are aligned. replacement: a number that kernels in each other's place share.
    """

    name: str
    kind: str
    family: str
    kernel: str
    operator: str | None
    phase: str | None
    replacement: int | None


class EventRow(TypedDict):
    """A stream: its events in `StepPicture.start`, `dur` and `label`."""

    stream: int
    first: int
    count: int


class StepPicture(TypedDict):
    """A step of a rank: its lanes, and the events of its device by stream and start. start, dur: ns; label: position in
    `RunPicture.labels`. left_out: events that are not listed, the shortest."""

    step: int | None
    lanes: PlannedPicture
    rows: list[EventRow]
    start: PackedColumn
    dur: PackedColumn
    label: PackedColumn
    left_out: int


class RunPicture(TypedDict):
    """A rank of one of the two runs. shown: position in `steps` of the median step. num_steps: of how many."""

    steps: list[StepPicture]
    shown: int
    num_steps: int
    labels: list[LabelRow]


class RankPicture(TypedDict):
    """A rank, before and after. change_ns: of its mean step. missing: why one of them is not drawn."""

    name: str
    change_ns: int
    before: RunPicture | None
    after: RunPicture | None
    missing: list[str]


def rank_pictures(diff: Diff) -> list[RankPicture]:
    """The ranks that a page shows, those first whose mean step changed most."""
    spans = [_rank_spans(side) for side in (diff.before, diff.after)]
    order = np.argsort(-np.abs(spans[1] - spans[0]), kind="stable")[:MAX_RANKS].tolist() if len(spans[0]) else []
    return [_rank_picture(diff, at, round(spans[1][at] - spans[0][at])) for at in order]


def shown_steps(side: Side, most: int = MAX_STEPS) -> tuple[list[int | None], int]:
    """Steps that a page shows, by number, and the position of the median one. [None], 0 where there are none."""
    steps = side.steady.steps
    if not steps:
        return [None], 0
    by_length = np.argsort(side.spans_ns, kind="stable")
    middle = int(by_length[(len(steps) - 1) // 2])
    places = np.unique(np.linspace(0, len(steps) - 1, min(most, len(steps))).round().astype(int))
    chosen = sorted({middle, *by_length[places].tolist()})
    return [steps[at] for at in chosen], chosen.index(middle)


def _rank_spans(side: Side) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The mean step of each rank, [ranks]."""
    sums = side.shares.group_by("at").agg(pl.col("own_ns").sum()).sort("at").get_column("own_ns").to_numpy()
    return np.asarray(sums / side.num_steps, np.float64)


def _rank_picture(diff: Diff, at: int, change_ns: int) -> RankPicture:
    found: list[RunPicture | None] = []
    missing: list[str] = []
    for word, side in (("before", diff.before), ("after", diff.after)):
        rank = side.ranks[at]
        if rank.saved is not None:
            found.append(_saved_run(side, rank, rank.saved))
            missing.append(f"the streams of the run {word}: a saved report holds lanes and no events")
            continue
        work = _work_again(rank)
        found.append(None if isinstance(work, str) else run_picture(side, work, _labels(diff, side, work)))
        missing += [f"the run {word}: {work}"] if isinstance(work, str) else []
    name = _name(diff.after.ranks[at])
    return {"name": name, "change_ns": change_ns, "before": found[0], "after": found[1], "missing": missing}


def _name(rank: RankRun) -> str:
    device = f", device {rank.device}" if rank.device else ""
    return f"{'the only rank' if rank.rank is None else f'rank {rank.rank}'}{device}"


def _work_again(rank: RankRun) -> Work | str:
    """The work of a rank: as kept, or read again from its file; why not, where it cannot be."""
    if rank.work is not None:
        return rank.work
    try:
        trace = open_trace(rank.path)
        works = works_of(with_steps(trace, rank.steps_by)[0], rules=rank.rules) if isinstance(trace, Trace) else []
    except (WeftraceError, OSError) as error:
        return f"its events could not be read again ({error})"
    return next((w for w in works if w.device == rank.device and w.trace.rank == rank.rank), "its events are not kept")


def run_picture(side: Side, work: Work, labelled: pl.DataFrame) -> RunPicture:
    """The steps of a rank that a page shows. labelled: of each event of the device whose it is, by row."""
    steps, shown = shown_steps(side)
    names = [name for name in labelled.columns if name != "row"]
    labels = labelled.select(names).unique(maintain_order=True).with_row_index("label")
    coded = labelled.join(labels, on=names, nulls_equal=True, maintain_order="left").select("row", "label")
    most = MAX_EVENTS // len(steps)
    return {
        "steps": [_step_picture(work, step, coded, most) for step in steps],
        "shown": shown,
        "num_steps": max(1, len(side.steady.steps)),
        "labels": cast(list[LabelRow], labels.drop("label").to_dicts()),
    }


def _saved_run(side: Side, rank: RankRun, saved: Mapping[str, Any]) -> RunPicture:
    steps, shown = shown_steps(side)
    whole = (None, saved["start_ns"], saved["start_ns"] + saved["span_ns"])
    windows = {row[0]: row for row in (*rank.windows.iter_rows(), whole)}
    none = packed(np.zeros(0, np.int64))
    return {
        "steps": [
            {
                "step": step, "lanes": saved_lanes(saved, *windows[step][1:]), "rows": [], "start": none, "dur": none,
                "label": none, "left_out": 0,
            }
            for step in steps
        ],
        "shown": shown,
        "num_steps": max(1, len(side.steady.steps)),
        "labels": [],
    }  # fmt: skip


def _labels(diff: Diff, side: Side, work: Work) -> pl.DataFrame:
    """Of each event of the device whose it is: row, then the columns of `LabelRow`."""
    is_before = side is diff.before
    labels = event_labels(work).unique("row", maintain_order=True)  # of a plain range, several pieces
    labels = labels.select("row", pl.col("kind", *LEVELS).cast(pl.String), name="kernel")
    for level in LEVELS:
        partners = diff.alignment.of(level)
        names = {name: each.name for each in partners for name in (each.before if is_before else each.after)}
        labels = labels.with_columns(pl.col(level).replace(names))
    places = ("kernel", "operator", "phase")
    replaced = diff.changes.filter(pl.col("replacement").is_not_null()).select(*places, "replacement").unique(places)
    labels = labels.join(replaced, on=places, how="left", nulls_equal=True, maintain_order="left")
    cut = (pl.col(name).cast(pl.String).str.slice(0, MAX_NAME) for name in ("name", *LEVELS))
    return labels.select("row", "kind", *cut, "replacement")


def _step_picture(work: Work, step: int | None, coded: pl.DataFrame, most: int) -> StepPicture:
    part = work if step is None else work.of_step(step)
    zero = part.start_ns
    events = part.events.select(
        "row", "stream", start=pl.col("start_ns") - zero, dur=pl.col("end_ns") - pl.col("start_ns")
    )
    kept = events.sort("dur", descending=True, maintain_order=True).head(most).sort("stream", "start", "row")
    rows = kept.group_by("stream", maintain_order=True).len()
    counts = rows.get_column("len").to_list()
    firsts = np.cumsum([0, *counts[:-1]]).tolist() if counts else []
    streams = [-1 if stream is None else stream for stream in rows.get_column("stream").to_list()]
    labels = kept.join(coded, on="row", how="left", maintain_order="left").get_column("label")
    return {
        "step": step,
        "lanes": lane_picture(part),
        "rows": [
            {"stream": stream, "first": first, "count": count}
            for stream, first, count in zip(streams, firsts, counts, strict=True)
        ],
        "start": packed(kept.get_column("start").to_numpy()),
        "dur": packed(kept.get_column("dur").to_numpy()),
        "label": packed(labels.to_numpy()),
        "left_out": events.height - kept.height,
    }


def lane_picture(work: Work) -> PlannedPicture:
    """The lanes of a work, or of a part of it. Times count from its start."""
    account, zero = account_of(work), work.start_ns
    found = account.breakdown
    return {
        "rank": work.trace.rank,
        "name": "",
        "device": work.device,
        "device_name": "" if work.device is None else work.trace.device(work.device).name,
        "basis": work.basis,
        "simulated": work.trace.simulated,
        "span_ns": work.end_ns - zero,
        "communication_ns": found.communication_ns,
        "exposed_communication_ns": found.exposed_communication_ns,
        "hidden_fraction": found.hidden_fraction,
        "busy": _listed(stretches_of(account.busy), zero),
        "lanes": [
            {
                "lane": lane.lane, "sms": lane.sms, "sms_exact": lane.sms_exact, "sm_unit": lane.sm_unit,
                "busy_ns": lane.busy_ns, "busy": _listed(lane.busy, zero), "streams": list(lane.streams),
                "boxes": _boxes(lane, zero),
            }
            for lane in lanes(work)
        ],
        "exposed": _listed(stretches_of(account.exposed), zero),
        "num_exposed": len(account.exposed.starts),
        "hidden": _listed(stretches_of(account.hidden), zero),
        "arrows": [],
    }  # fmt: skip


def _boxes(lane: Lane, zero: int) -> list[BoxDocument]:
    boxes = coarser(lane.boxes, MAX_BOXES).with_columns(pl.col("start_ns", "end_ns") - zero)
    return cast(list[BoxDocument], boxes.to_dicts())


def _listed(stretches: Stretches, zero: int) -> list[list[int]]:
    starts, ends, busy_ns = fewer(stretches, MAX_STRETCHES)
    return [list(row) for row in zip((starts - zero).tolist(), (ends - zero).tolist(), busy_ns.tolist(), strict=True)]
