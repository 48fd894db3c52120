"""What keeps the device waiting for the host: rules 1, 2, 6 and 16."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import NoBlocking, NoHostGaps, Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import (
    Mask,
    Place,
    by_step,
    calls_of,
    charged,
    of_step,
    pattern_of,
    place_of,
    place_where,
    short,
    step_of,
    time_of,
    where_of,
)
from weftrace.advice.findings.rules.pauses import is_pause
from weftrace.advice.findings.values import Confidence, Number
from weftrace.analysis.intervals import covered, of_events, union
from weftrace.analysis.waiting.activities import activities, activity_of_names
from weftrace.analysis.waiting.gap_parts import CALL, HOST, PARTS
from weftrace.analysis.waiting.host_paths import KINDS, OPERATOR, RUNTIME_CALL
from weftrace.analysis.waiting.host_ranges import host_ranges
from weftrace.errors import WeftraceError
from weftrace.units import counted

#: The host's own work: what a captured graph, or fewer launches, would do without.
OWN = ("operators", "python", "launch_call", "launch_latency", "annotation", "backward_thread", "zero_grad", "logging")
#: Own work of which nothing but a name, or not even that, is recorded.
_UNNAMED = ("annotation", "backward_thread", "nothing_recorded")
#: Operators whose result has a size, or a value, that the host needs to go on.
_READS = (
    r"^aten::(_local_scalar_dense|item|is_nonzero|equal|nonzero\w*|masked_select|_?unique\w*|index|where|bincount)$"
)
_RATE_LIMITER = r"(?i)FSDP|FullySharded"
_WORKERS = "MultiProcessing"
#: Other idle time of the host up to this share of its own work's is none to speak of.
_FEW = 0.2
#: Unrecorded work from this share of the time on casts doubt.
_FEW_RECORDS = 0.01
#: What happens so often is no accident, where no steps tell.
_OFTEN = 3


# 1: the host is slower than the device ---------------------------------------------------------------------------


def host_bound(evidence: Evidence) -> Iterator[Found | Missing]:
    """1: the host's own work decides, and the device waits for it."""
    work = evidence.work
    if work.num_unlinked == work.events.height:
        yield Missing(what="no launch calls are recorded")
        return
    own = _own(evidence)
    ns = time_of(evidence, own)
    if not is_host_bound(evidence, ns):
        return
    place, unnamed = place_of(evidence, own), time_of(evidence, own & charged(evidence, _UNNAMED))
    calls = work.events.select("launch_pid", "launch_tid", "launch_ts_ns").drop_nulls().n_unique()
    per_step = calls / max(1, evidence.num_steps)
    alone = _of_host(evidence) - ns <= _FEW * ns
    confidence, reason = _sureness(evidence, unnamed / ns)
    yield Found(
        sentence=f"The device waits for the host{f', most{place.words}' * bool(place.words)}: "
        f"{of_step(evidence, ns)}, with {round(per_step):,} launches{' a step' * bool(evidence.num_steps)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in which the host did its own work", value=ns, unit="ns"),
            Number(name="share of the critical path on the host", value=_path_share(evidence), unit="share"),
            Number(name="launches per step", value=per_step, unit="count"),
        ),
        where=where_of(evidence, own, place),
        least=(Scale(selector="host", factor=0.5), Scale(selector="launch", factor=0.5)) if alone else (),
        most=(NoHostGaps(),) if alone else (),
        saves_ns=None if alone else (ns // 2, ns),
        how="" if alone else "half to all of this idle time",
        confidence=confidence,
        reason=reason,
    )


def is_host_bound(evidence: Evidence, own_ns: int) -> bool:
    """Whether the host decides for so much of the time by its own work, and keeps the device waiting. Where more seems
    idle as work is not recorded, nobody knows."""
    limits = rule_text("host-bound").thresholds
    if evidence.share(own_ns) < limits["least_share"] or evidence.idle.unrecorded_ns > own_ns:
        return False
    return _path_share(evidence) * own_ns / max(1, _of_host(evidence)) >= limits["least_share_of_path"]


def _sureness(evidence: Evidence, unnamed: float) -> tuple[Confidence, str]:
    """How sure it is that the host decides, and why. unnamed: share of its time that nothing names."""
    if evidence.share(evidence.idle.unrecorded_ns) >= _FEW_RECORDS:
        return "low", "work of the device is not in the file, so some of this time may not be idle"
    if unnamed > 0.5:
        return "medium", "what the host does in most of it is not recorded"
    return "high", ""


def _own(evidence: Evidence) -> Mask:
    """Idle time that no more special rule explains; silence counts but for single pauses and starts of steps."""
    silent = charged(evidence, ("nothing_recorded",))
    return charged(evidence, OWN) | (silent & ~at_step_starts(evidence, silent) & ~is_pause(evidence, silent))


def _of_host(evidence: Evidence) -> int:
    """Idle time until what ends it was launched, whatever the cause, and latency after that."""
    of_host = np.isin(evidence.idle_pieces.part, [PARTS.index(part) for part in (HOST, CALL)])
    known = ~charged(evidence, ("unrecorded", "file_cut"))
    return time_of(evidence, (of_host & known) | charged(evidence, ("launch_latency",)))


def _path_share(evidence: Evidence) -> float:
    """Of the critical path, what the host and its launches take; where there is no plan, of the time that it idles."""
    try:
        parts = evidence.path.by_class
    except WeftraceError:
        return evidence.share(_of_host(evidence))
    return float(parts.filter(pl.col("name").is_in(("host", "launch"))).get_column("share").sum())


# 2: the host waits for the device ---------------------------------------------------------------------------------


def sync_every_step(evidence: Evidence) -> Iterator[Found | Missing]:
    """2: the host waits until the device is done, and the device then for the host."""
    if evidence.trace.events.select(pl.col("cat").cast(pl.String).str.contains("runtime|driver").any()).item() is False:
        yield Missing(what="no calls of the device's runtime are recorded")
        return
    limits = rule_text("sync-every-step").thresholds
    waits = _waits(evidence)
    ns = time_of(evidence, waits)
    if evidence.share(ns) < limits["least_share"]:
        return
    calls = calls_of(evidence, waits)
    per_step = len(calls) / max(1, evidence.num_steps)
    idle = by_step(evidence, waits)
    if len(idle):
        usual = float(np.median(idle)) / max(1, evidence.step_ns)
        if usual < limits["least_share"]:
            return
    elif per_step < _OFTEN * limits["least_per_step"]:
        return
    place = place_of(evidence, waits)
    times = counted(max(1, round(per_step)), "time")
    yield Found(
        sentence=f"The host waits for the device {times}{' a step' * bool(evidence.num_steps)}{place.words}: "
        f"{of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time after these waits", value=ns, unit="ns"),
            Number(name="waits per step", value=per_step, unit="count"),
        ),
        where=place_where(evidence, place, calls),
        most=(NoBlocking(pattern=pattern_of(_waiting_names(evidence, waits))),),
        confidence="high" if evidence.is_training else "medium",
        reason="" if evidence.is_training else "what is launched next may need what was read",
        key=place.operator or place.name,
    )


def _waits(evidence: Evidence) -> Mask:
    """Idle time after waits for the device, but for copies of other memory and FSDP's limit on what is in flight."""
    pieces = evidence.idle_pieces
    reads = charged(evidence, ("blocking_copy",)) & _inside(evidence, _READS)
    return (charged(evidence, ("blocking_sync",)) | reads) & ~_inside(evidence, _RATE_LIMITER) & (pieces.named >= 0)


def _inside(evidence: Evidence, pattern: str) -> Mask:
    """Pieces within a range of a name that the pattern finds."""
    paths, named = evidence.idle_pieces.paths, evidence.idle_pieces.named
    found = paths.names.str.contains(pattern).to_numpy()[paths.name] if len(paths.name) else np.zeros(0, np.bool_)
    for at in range(len(found)):  # parents come first; distinct paths are few
        found[at] |= paths.parent[at] >= 0 and found[paths.parent[at]]
    inside: Mask = np.append(found, False)[named]
    return inside


def _waiting_names(evidence: Evidence, chosen: Mask) -> set[str]:
    """The operators around the waits; of those in none the calls."""
    paths = evidence.idle_pieces.paths
    found = set()
    for node in np.unique(evidence.idle_pieces.named[chosen]).tolist():
        at = node
        while at >= 0 and paths.kind[at] != KINDS.index(OPERATOR):
            at = int(paths.parent[at])
        found.add(str(paths.names[int(paths.name[at if at >= 0 else node])]))
    return found


# 6: data loading --------------------------------------------------------------------------------------------------


def data_loading(evidence: Evidence) -> Iterator[Found | Missing]:
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
        place = place_of(evidence, loads)
        yield Found(
            sentence=f"The device waits for the data loader{f', most{place.words}' * bool(place.words)}: "
            f"{of_step(evidence, ns)}.",
            cost_ns=ns,
            evidence=(Number(name="idle time in the data loader", value=ns, unit="ns"),),
            where=where_of(evidence, loads, place),
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
            reason="the host recorded nothing then: with_stack=True tells what it did",
        )


def at_step_starts(evidence: Evidence, chosen: Mask) -> Mask:
    """The chosen pieces that lie before the first work of a step; none unless most steps have some."""
    gaps = evidence.idle_pieces.gaps.events
    step = gaps.get_column("step").fill_null(-1).to_numpy()
    firsts = evidence.work.events.filter(pl.col("step").is_not_null()).group_by("step").agg(pl.col("start_ns").min())
    first = np.isin(gaps.get_column("until_ns").to_numpy(), firsts.get_column("start_ns").to_numpy()) & (step >= 0)
    found: Mask = chosen & first[evidence.idle_pieces.gap]
    if 2 * len(np.unique(step_of(evidence)[found])) < max(4, len(evidence.steps)):
        return np.zeros(len(found), np.bool_)
    return found


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
        sentence=f"The main thread waits for data in {short(place.name)}: {of_step(evidence, ns, 'time')}.",
        cost_ns=ns,
        evidence=(Number(name="time in the data loader", value=ns, unit="ns"),),
        where=place_where(evidence, place, rows),
        saves_ns=(low, ns),
        how="one worker process, to as many as it takes",
    )
