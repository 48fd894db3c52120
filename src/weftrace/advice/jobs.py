"""From the traces of a job to one plan: each rank's is inferred, collectives are matched, plans are joined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import polars as pl

from weftrace.analysis import unrecorded_holes
from weftrace.analysis.arrival_times import arrivals
from weftrace.analysis.excluded_ranks import apart_of, by_rank, placed
from weftrace.analysis.meetings import is_peerless, meetings_of
from weftrace.errors import TraceError
from weftrace.plan.inference.inferring import infer
from weftrace.plan.inference.joining import joined
from weftrace.plan.inference.lanes.circles import without_circles
from weftrace.plan.inference.lanes.inferring import infer_lanes
from weftrace.plan.inference.values import Inferred
from weftrace.trace.host_ranges import clock_of_host, is_of_host, of_one_job, ranges_of_host
from weftrace.trace.job import Failure, Job
from weftrace.trace.model import Trace
from weftrace.trace.plain.groups import resolved, wrapped
from weftrace.trace.plain.values import PLACES
from weftrace.trace.work import Basis, Work, works_of


def infer_job(source: Job | Trace | Iterable[Trace | Work], *, workers: int | None = None) -> Inferred:
    """The plan that the ranks of a job followed together; of one rank, its own.

    Ranks are matched by their collectives, and laid on one clock where their clocks differ. Files that cannot be used,
    hold no work on a device, or are of a rank that is there already, are left out and named in `notes`. workers:
    processes that infer, see `Job.map`.
    Raises `TraceError` where no rank is left.
    """
    return join_ranks(*_inferred(source, workers))


def join_ranks(found: Sequence[Inferred | Work], failures: Sequence[Failure] = ()) -> Inferred:
    """The same of ranks that `infer_devices` has been called for."""
    notes = [f"left out: {failure.error}" for failure in failures]
    ranges = [each for each in found if isinstance(each, Work)]
    ranks, repeats = _one_each([each for each in found if not isinstance(each, Work)])
    if ranges and not ranks:
        return lanes_of(_as_one(ranges), notes)
    notes += [*repeats, *(f"left out: {work.trace.path}, which holds no work on a device" for work in ranges)]
    if not ranks:
        raise TraceError(failures[0].error if failures else "there is no trace to infer a plan from.")
    if len(ranks) == 1:
        return replace(ranks[0], notes=(*notes, *ranks[0].notes))
    works = [rank.works[0] for rank in ranks]
    files = ["(simulated)" if work.trace.simulated else work.trace.path or f"({at})" for at, work in enumerate(works)]
    meetings = meetings_of([arrivals(work) for work in works], files)
    if meetings.members.is_empty():
        notes.append("no collective is shared by two ranks here, so nothing holds them together in the plan")
    notes += [*meetings.notes, *_absent(works)]
    unsure = meetings.members.select(is_peerless().alias("unsure")).get_column("unsure")
    if unsure.any():
        notes.append(
            f"{int(unsure.sum()):,} sends and receives have no partner that a file names, so they link no "
            "ranks: their waits are as measured"
        )
    numbers = [work.trace.rank for work in works]
    if len(set(numbers)) < len(works) or None in numbers:
        notes.append("some files have the same rank or none: ranks count from 0, in order of rank, then device")
        numbers = list(range(len(works)))
    return joined(
        ranks,
        meetings.members.filter(~unsure),
        numbers=[number or 0 for number in numbers],
        to_common=meetings.clocks.to_common,
        notes=notes,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _RankOfLanes:
    """A rank, with what tells its place in the job (`weftrace.analysis.excluded_ranks.OneRank`)."""

    work: Work
    rank: int | None
    name: str
    places: tuple[tuple[str, int], ...]
    path: str
    device: int | None
    basis: Basis
    world_size: int | None = None


def lanes_of(works: Sequence[Work], notes: Sequence[str] = ()) -> Inferred:
    """The plan of a job whose ops are what its lanes show, without hosts: of plain ranges, or of work on devices.

    works: of each rank. notes: more to be said of it. See `weftrace.plan.inference.lanes`.
    """
    ranks = []
    for work in works:
        worker = work.trace.plain.workers[0] if work.trace.plain else None
        ranks.append(
            _RankOfLanes(
                work=work, rank=work.trace.rank, path=work.trace.path, name=worker.name if worker else "",
                places=worker.places if worker else (), device=work.device, basis=work.basis,
                world_size=work.trace.world_size,
            )
        )  # fmt: skip
    ordered, renumbered = placed(sorted(ranks, key=by_rank))
    reasons = apart_of(ordered)
    ranks = [rank for rank, why in zip(ordered, reasons, strict=True) if why is None]
    left = [f"left out: {rank.path}" for rank, why in zip(ordered, reasons, strict=True) if why is not None]
    numbers = [rank.rank for rank in ranks]
    if None in numbers or len(set(numbers)) < len(numbers):
        numbers = list(range(len(ranks)))
    works = _wrapped([rank.work for rank in ranks])
    files = [
        f"({at})" if rank.work.trace.simulated else clock_of_host(rank.work) or rank.path
        for at, rank in enumerate(ranks)
    ]
    meetings = meetings_of([arrivals(work) for work in works], files)
    unsure = meetings.members.select(is_peerless().alias("unsure")).get_column("unsure")
    found = infer_lanes(
        works,
        meetings.members.filter(~unsure),
        numbers=[number or 0 for number in numbers],
        names=_called(ranks, numbers),
        to_common=meetings.clocks.to_common,
        notes=[*notes, *left, *renumbered, *meetings.notes],
    )
    return without_circles(found)


def _called(ranks: Sequence[_RankOfLanes], numbers: Sequence[int | None]) -> list[str]:
    """What each is called; devices of one file by their device."""
    several = Counter(rank.path for rank in ranks)
    devices = [f"device {rank.device}" if several[rank.path] > 1 and rank.device is not None else "" for rank in ranks]
    found = []
    for rank, number, device in zip(ranks, numbers, devices, strict=True):
        known = rank.name or f"rank {rank.rank if device else number}"
        found.append(device if device and len(several) == 1 else ", ".join(filter(None, (known, device))))
    return found


def _wrapped(works: Sequence[Work]) -> list[Work]:
    """The works of files a rank, in which the last stage's sends to the first are of one group with its receives."""
    stages = [dict(work.trace.plain.workers[0].places).get("pp") for work in works if work.trace.plain is not None]
    known = [stage for stage in stages if stage is not None]
    if len(known) < len(works) or len({work.trace.path for work in works}) < 2:
        return list(works)
    if (both := _both_ways(works)) is not None:
        return both
    last = max(known) + 1
    groups = [wrapped(work.events.get_column("group"), last).cast(pl.Categorical()) for work in works]
    return [
        replace(work, events=work.events.with_columns(group.alias("group")))
        for work, group in zip(works, groups, strict=True)
    ]


def _both_ways(works: Sequence[Work]) -> list[Work] | None:
    """Works of files a rank whose model runs through the pipeline in both directions, with the groups of sends and
    receives that only all files together tell; None of other works."""
    places = [dict(work.trace.plain.workers[0].places) if work.trace.plain else {} for work in works]
    told = [place for place in PLACES if all(place in each for each in places)]
    parts = []
    for at, (work, place_of) in enumerate(zip(works, places, strict=True)):
        parts.append(
            work.events.with_row_index("event").select(
                "event", pl.col("rule").cast(pl.String), "step", lane="stream", worker=pl.lit(at), ts_ns="start_ns",
                end_ns="end_ns", **{place: pl.lit(place_of[place], pl.Int64) for place in told},
            )
        )  # fmt: skip
    rows = pl.concat(parts).with_row_index("row")
    found = resolved(rows, told)
    if found is None:
        return None
    found = rows.select("row", "worker", "event").join(found, on="row", how="left", maintain_order="left")
    mended = []
    for at, work in enumerate(works):
        mine = found.filter(worker=at)
        mended.append(
            replace(
                work,
                events=work.events.with_columns(
                    pl.coalesce(mine.get_column("group"), pl.col("group").cast(pl.String)).cast(pl.Categorical()),
                    pl.coalesce(mine.get_column("comm_seq"), "comm_seq").alias("comm_seq"),
                ),
            )
        )
    return mended


def infer_lanes_of(source: Job | Trace | Iterable[Trace | Work], *, workers: int | None = None) -> Inferred:
    """The plan of a job without its hosts, see `lanes_of`: what `slowdown_of` replays.

    workers: processes that read, see `Job.map`. Files that cannot be used are named in `notes`.
    Raises `TraceError` where no rank ran anything on a device, or holds ranges.
    """
    failures: list[Failure] = []
    if isinstance(source, Job):
        outcomes = source.map(works_to_replay, workers=workers)
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        works = [work for outcome in outcomes for work in outcome.value or ()]
    else:
        each = [source] if isinstance(source, Trace) else list(source)
        works = [work for one in each for work in ([one] if isinstance(one, Work) else works_to_replay(one))]
    notes = [f"left out: {failure.error}" for failure in failures]
    used = [work for work in works if work.basis in ("device", "ranges")]
    if not used:
        raise TraceError(failures[0].error if failures else "no rank here ran anything on a device, or holds ranges.")
    return lanes_of(_as_one(used), notes)


def works_to_replay(trace: Trace) -> list[Work]:
    """As `works_of`; a rank on CPUs that communicates is one of ranges."""
    ranged = ranges_of_host(trace)
    return works_of(trace) if ranged is None else [ranged]


def _as_one(works: Sequence[Work]) -> Sequence[Work]:
    """Ranges of hosts tell no stages, and begin one by one."""
    return of_one_job(works) if all(is_of_host(work) for work in works) else works


def source_of(inferred: Inferred) -> str:
    """The trace's file, or the first of a job's and how many there are. A process may drive several devices."""
    traces = {id(work.trace): work.trace.path or "trace" for work in inferred.works}
    paths = list(traces.values())
    return paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1:,} more"


def _inferred(
    source: Job | Trace | Iterable[Trace | Work], workers: int | None
) -> tuple[list[Inferred | Work], list[Failure]]:
    """Of each device its plan; of ranks that ranges tell, their work."""
    if isinstance(source, Job):
        outcomes = source.map(infer_devices, workers=workers)
        failures = [outcome.failure for outcome in outcomes if outcome.failure is not None]
        return [rank for outcome in outcomes for rank in outcome.value or ()], failures
    each = [source] if isinstance(source, Trace) else list(source)
    found: list[Inferred | Work] = []
    for one in each:
        if isinstance(one, Work):
            found.append(one if one.basis == "ranges" else infer_work(one))
        else:
            found += infer_devices(one)
    return found, []


def infer_devices(trace: Trace) -> list[Inferred | Work]:
    """The plan of each device that a trace's process drove; of a plain trace the work of each rank, whose plan is made
    of all together."""
    return [work if work.basis == "ranges" else infer_work(work) for work in works_to_replay(trace)]


def infer_work(work: Work) -> Inferred:
    """The plan of one device, in which what was not recorded stays as long as it was."""
    return infer(work, holes=unrecorded_holes(work) if work.basis == "device" else None)


def _absent(works: Sequence[Work]) -> Iterator[str]:
    """That ranks of the job have no trace here."""
    present, world = len({work.trace.rank for work in works}), max(work.trace.world_size or 0 for work in works)
    if present < world:
        yield (
            f"traces of {present:,} of {world:,} ranks: what these waited for the others, in their collectives, is as "
            "measured"
        )


def _one_each(ranks: Sequence[Inferred]) -> tuple[list[Inferred], list[str]]:
    """In order of rank, then device; another file of the same rank is left out."""
    ordered = sorted(ranks, key=lambda one: (one.works[0].trace.rank is None, *_key(one), one.works[0].trace.path))
    first: dict[tuple[int, int], str] = {}
    kept, again = [], Counter[str]()
    for one in ordered:
        path = one.works[0].trace.path
        if one.works[0].trace.rank is not None and first.setdefault(_key(one), path) != path:
            again[path] += 1
        else:
            kept.append(one)
    return kept, list(_notes_on_repeats(again))


def _key(one: Inferred) -> tuple[int, int]:
    return one.works[0].trace.rank or 0, one.works[0].device or 0


def _notes_on_repeats(again: Counter[str]) -> Iterator[str]:
    if again:
        yield f"left out: {', '.join(list(again)[:5])}, of a rank that has another trace here"
