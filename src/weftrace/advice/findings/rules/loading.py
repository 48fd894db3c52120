"""Does the device wait for data? Rule 6, of devices and of trainings on CPUs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import (
    Mask,
    Place,
    at_step_starts,
    charged,
    in_step_alone,
    of_step,
    pattern_of,
    place_of,
    place_where,
    short,
    time_of,
    where_of,
)
from weftrace.analysis.findings import Number
from weftrace.analysis.intervals import covered, of_events, union
from weftrace.analysis.waiting.activities import activities, activity_of_names
from weftrace.analysis.waiting.host_paths import KINDS, RUNTIME_CALL
from weftrace.analysis.waiting.host_ranges import host_ranges
from weftrace.units import duration

#: In the name of a loader that has worker processes.
_WORKERS = "MultiProcessing"


def data_loading(evidence: Evidence) -> Iterator[Found]:
    """6: the next batch is not there when the step could begin."""
    limits = rule_text("data-loading").thresholds
    if evidence.work.basis == "host":
        yield from _loading_on_cpus(evidence, limits["least_share"])
        return
    loads = charged(evidence, ("data_loading",))
    ns = time_of(evidence, loads)
    if evidence.share(ns) >= limits["least_share"]:
        names = _loaders(evidence, loads)
        factor = 1 - _one_worker_hides(evidence, ns, names) / ns
        change = "host:" + pattern_of(names)
        least = (Scale(selector=change, factor=round(factor, 3)),) if factor > 0 else ()
        place, step = place_of(evidence, loads), in_step_alone(evidence, loads)
        took = of_step(evidence, ns) if step is None else f"{duration(ns)} of idle time, in step {step} alone"
        yield Found(
            sentence=f"The device waits for the data loader{f', most{place.words}' * bool(place.words)}: {took}.",
            cost_ns=ns,
            evidence=(Number(name="idle time in the data loader", value=ns, unit="ns"),),
            where=where_of(evidence, loads, place, step=step),
            least=least,
            most=(Scale(selector=change, factor=0),),
        )
        return
    silent = charged(evidence, ("nothing_recorded",))
    silent = silent & at_step_starts(evidence, silent)
    ns = time_of(evidence, silent)
    if evidence.share(ns) >= limits["least_share"]:
        yield Found(
            sentence=f"The device waits at the start of steps, likely for data: {of_step(evidence, ns)}; the host "
            "recorded nothing.",
            cost_ns=ns,
            evidence=(Number(name="silent time at starts of steps", value=ns, unit="ns"),),
            where=where_of(evidence, silent, Place()),
            saves_ns=(0, ns),
            how="all of this idle time",
            is_bound=True,
            confidence="low",
            reason="the host recorded nothing then: with_stack=True records what it did",
        )


def _loaders(evidence: Evidence, chosen: Mask) -> set[str]:
    """The outermost ranges around the chosen pieces that are known to load data."""
    paths, names = evidence.idle_pieces.paths, evidence.idle_pieces.paths.names.to_list()
    loads = _load_data(names)
    found = set()
    for node in np.unique(evidence.idle_pieces.path[chosen]).tolist():
        outermost = ""
        while node >= 0:
            outermost = names[paths.name[node]] if loads[paths.name[node]] else outermost
            node = int(paths.parent[node])
        found.add(outermost)
    return found - {""}


def _load_data(names: list[str]) -> Mask:
    rules = activities()
    of_loading = np.array([rule.cause == "data_loading" for rule in rules] + [False])
    found: Mask = of_loading[activity_of_names(names)]
    return found


def _one_worker_hides(evidence: Evidence, loading_ns: int, names: set[str]) -> int:
    """What one worker process would hide, or twice as many where there are some: it works while the step does."""
    rest = evidence.span_ns - loading_ns
    if any(_WORKERS in name for name in names):
        return min(loading_ns, evidence.span_ns // 2)
    return min(loading_ns, rest)


def _loading_on_cpus(evidence: Evidence, least: float) -> Iterator[Found]:
    """The same of a training on CPUs: the main thread's time in the loader, but for what others work meanwhile."""
    work = evidence.work
    ranges = host_ranges(evidence.trace)
    names = ranges.get_column("name").unique().cast(pl.String).to_list()
    loading = [name for name, loads in zip(names, _load_data(names), strict=True) if loads]
    threads = work.events.select(pid="launch_pid", tid="launch_tid").unique()
    inside = ranges.filter(pl.col("name").cast(pl.String).is_in(loading), pl.col("kind") != KINDS.index(RUNTIME_CALL))
    inside = inside.join(threads, on=("pid", "tid"), how="semi").sort("dur_ns", descending=True)
    if inside.is_empty():
        return
    main = inside.row(0, named=True)
    inside = inside.filter(pid=main["pid"], tid=main["tid"])
    start = inside.get_column("ts_ns").to_numpy()
    spans = union(start, start + inside.get_column("dur_ns").to_numpy())
    spans &= union([work.start_ns], [work.end_ns])
    others = of_events(work.events.filter(pl.col("launch_tid") != main["tid"]))
    ns = int(spans.total_ns - covered(others, spans.starts, spans.ends).sum())
    if evidence.share(ns) < least:
        return
    low = _one_worker_hides(evidence, ns, set(loading))
    place = Place(name=str(main["name"]))
    rows = (
        evidence.trace.events.select("name", "pid", "tid", "dur_ns").with_row_index("row")
        .filter(pl.col("name").cast(pl.String).is_in(loading), pid=main["pid"], tid=main["tid"])
        .sort("dur_ns", "row", descending=[True, False]).get_column("row").to_numpy().astype(np.int64)
    )  # fmt: skip
    yield Found(
        sentence=f"The main thread waits for data in {short(place.name)}: {of_step(evidence, ns, '')}.",
        cost_ns=ns,
        evidence=(Number(name="time in the data loader", value=ns, unit="ns"),),
        where=place_where(evidence, place, rows),
        saves_ns=(low, ns),
        how="one worker process, to as many as it takes",
    )
