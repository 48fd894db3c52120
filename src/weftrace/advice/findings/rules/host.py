"""What keeps the device waiting for the host: its own work, and its waits for the device. Rules 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl

from weftrace.advice.changes import NoBlocking, NoHostGaps, Scale
from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found, Missing
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.cpu import waits_to_read
from weftrace.advice.findings.rules.graphs import in_regions
from weftrace.advice.findings.rules.host_idle import (
    OWN,
    Mask,
    at_step_starts,
    by_step,
    calls_of,
    charged,
    of_step,
    pattern_of,
    place_of,
    place_where,
    searched_by_ddp,
    time_of,
    where_of,
)
from weftrace.advice.findings.rules.pauses import SILENT, is_pause
from weftrace.advice.findings.rules.serving import NO_REQUESTS, between_steps, may_lack_requests, outside_graphs
from weftrace.analysis.findings import Confidence, Number
from weftrace.analysis.intervals import Array
from weftrace.analysis.waiting.call_names import SYNC
from weftrace.analysis.waiting.gap_parts import CALL, HOST, PARTS
from weftrace.analysis.waiting.host_paths import KINDS, OPERATOR
from weftrace.errors import WeftraceError

#: Own work of which nothing but a name, or not even that, is recorded.
_UNNAMED = ("annotation", "backward_thread", "nothing_recorded")
#: What a run does once, and a long one hardly pays for.
_ONCE = ("compilation", "first_use", "checkpoint")
#: Operators whose result has a size, or a value, that the host needs to go on.
READS = r"^aten::(_local_scalar_dense|item|is_nonzero|equal|nonzero\w*|masked_select|_?unique\w*|index|where|bincount)$"
_COPIES = r"^aten::(copy_|_to_copy|_foreach_copy_)$"
_FSDP, _LIMITER, _OF_EVENTS = r"(?i)FSDP|FullySharded", r"rate_limiter", r"^(cuda|hip)EventSynchronize"
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
    own = own_idle(evidence)
    ns = time_of(evidence, own)
    if not is_host_bound(evidence, ns):
        return
    place, unnamed = place_of(evidence, own), time_of(evidence, own & charged(evidence, _UNNAMED))
    calls = work.events.select("launch_pid", "launch_tid", "launch_ts_ns").drop_nulls().n_unique()
    per_step = calls / max(1, evidence.num_steps)
    alone = _of_host(evidence) - ns <= _FEW * ns
    confidence, reason = _sureness(evidence, unnamed / ns)
    alone, low_ns, how = alone and not place.in_python, ns // 2, "half to all of this idle time"
    if place.in_python and confidence == "high":
        confidence, reason = "medium", "most of it is Python's work, which a compiler leaves: move it out of the step"
    if place.in_python:
        low_ns, how = 0, "all of this idle time"
    if unloaded := may_lack_requests(evidence, own):
        alone, low_ns, how, confidence, reason = False, 0, "all of this idle time", "low", NO_REQUESTS
    yield Found(
        sentence=f"The device waits for the host{f', most{place.words}' * bool(place.words)}: "
        f"{of_step(evidence, ns)}, with {round(per_step):,} launches{' per step' * bool(evidence.num_steps)}"
        f"{'; it may have had no requests' * unloaded}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in which the host did its own work", value=ns, unit="ns"),
            Number(name="share of the critical path on the host", value=_path_share(evidence), unit="share"),
            Number(name="launches per step", value=per_step, unit="count"),
        ),
        where=where_of(evidence, own, place),
        least=(Scale(selector="host", factor=0.5), Scale(selector="launch", factor=0.5)) if alone else (),
        most=(NoHostGaps(),) if alone else (),
        saves_ns=None if alone else (low_ns, ns),
        how="" if alone else how,
        is_bound=not alone and not low_ns,
        confidence=confidence,
        reason=reason,
    )


def is_host_bound(evidence: Evidence, own_ns: int) -> bool:
    """Whether the host decides for so much of the time by its own work, and keeps the device waiting; what happens once
    is left out of that time. Where more seems idle as work is not recorded, nobody knows."""
    limits = rule_text("host-bound").thresholds
    if evidence.share(own_ns) < limits["least_share"] or evidence.idle.unrecorded_ns > own_ns:
        return False
    of_host, once = _of_host(evidence), time_of(evidence, charged(evidence, _ONCE))
    share = _path_share(evidence) * own_ns / of_host
    return share >= limits["least_share_of_path"] * (1 - evidence.share(once))


def _sureness(evidence: Evidence, unnamed: float = 0) -> tuple[Confidence, str]:
    """How sure it is that the host decides, and why. unnamed: share of its time that nothing names."""
    if evidence.share(evidence.idle.unrecorded_ns) >= _FEW_RECORDS:
        return "low", "work of the device is not in the file, so some of this time may not be idle"
    if unnamed > 0.5:
        return "medium", "what the host does in most of it is not recorded"
    return "high", ""


def own_idle(evidence: Evidence) -> Mask:
    """Idle time that no more special rule explains; silence counts but for single pauses and starts of steps."""
    silent = charged(evidence, ("nothing_recorded",))
    own = charged(evidence, OWN) | (silent & ~at_step_starts(evidence, silent))
    return own & ~_pauses(evidence) & ~after_waits(evidence) & ~_told_by_others(evidence)


def _pauses(evidence: Evidence) -> Mask:
    return is_pause(evidence, charged(evidence, SILENT))


def _told_by_others(evidence: Evidence) -> Mask:
    """What the rules of serving engines, compiled regions and DDP find, and have a better remedy for."""
    of_engines = between_steps(evidence) | outside_graphs(evidence)[0]
    return of_engines | in_regions(evidence)[0] | searched_by_ddp(evidence)


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
    """2: the host waits until the device is done, and the device then for the host; on CPUs, for other ranks."""
    if evidence.work.basis == "host":
        yield from waits_to_read(evidence, READS)
        return
    if evidence.trace.events.select(pl.col("cat").cast(pl.String).str.contains("runtime|driver").any()).item() is False:
        yield Missing(what="no calls of the device's runtime are recorded")
        return
    limits = rule_text("sync-every-step").thresholds
    waits, named, idle_after = _waits(evidence), _calls(evidence), after_waits(evidence)
    ns = time_of(evidence, idle_after)
    if evidence.share(ns) < limits["least_share"]:
        return
    calls = calls_of(evidence, waits, named)
    per_step = len(calls) / max(1, evidence.num_steps)
    idle = by_step(evidence, idle_after)
    if len(idle):
        usual = float(np.median(idle)) / max(1, evidence.step_ns)
        if usual < limits["least_share"]:
            return
    elif per_step < _OFTEN * limits["least_per_step"]:
        return
    place = place_of(evidence, waits, named)
    confidence, reason = _sureness(evidence)
    if confidence == "high" and not evidence.is_training:
        confidence, reason = "medium", "what is launched next may need what was read"
    times = "once" if round(per_step) <= 1 else f"{round(per_step):,} times"
    yield Found(
        sentence=f"The host waits for the device {times}{' per step' * bool(evidence.num_steps)}{place.words}: "
        f"{of_step(evidence, ns)}.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time after these waits", value=ns, unit="ns"),
            Number(name="waits per step", value=per_step, unit="count"),
        ),
        where=place_where(evidence, place, calls),
        most=(NoBlocking(pattern=pattern_of(waiting_names(evidence, waits, named))),),
        confidence=confidence,
        reason=reason,
        key=place.operator or place.name,
    )


def after_waits(evidence: Evidence) -> Mask:
    """Idle time that waits for the device bring about. A host that waits is so much later with all that it does next:
    until its next wait, idle time up to what it waited is charged to the wait, whatever the host did then."""
    pieces, waits = evidence.idle_pieces, _waits(evidence)
    charged_to_waits = waits & ~_own_after_waits(evidence)
    calls = np.sort(calls_of(evidence, waits, _calls(evidence)))
    if not len(calls):
        return charged_to_waits
    silent = charged(evidence, ("nothing_recorded",))
    work = (charged(evidence, OWN) | silent) & ~_pauses(evidence)
    gaps = pieces.gaps.events.select("until_ns").with_row_index("gap").with_columns(
        ns=pl.Series(np.bincount(pieces.gap, np.where(work | waits, pieces.length, 0), pieces.gaps.events.height))
    )  # fmt: skip
    waited = evidence.trace.events.select("ts_ns", "dur_ns")[calls].sort("ts_ns").with_row_index("wait")
    gaps = gaps.join_asof(waited, left_on="until_ns", right_on="ts_ns").drop_nulls("wait")
    most = pl.col("ns").cum_sum().over("wait") - pl.col("ns") / 2  # a gap is charged where half of it is the wait's
    late = gaps.filter(most <= pl.col("dur_ns")).get_column("gap").to_numpy()
    found: Mask = charged_to_waits | (work & np.isin(pieces.gap, late))
    return found


def _waits(evidence: Evidence) -> Mask:
    """Idle time that is charged to waits, but for copies of other memory and FSDP's limit on what is in flight; and
    what the host worked right after them."""
    pieces = evidence.idle_pieces
    reads = charged(evidence, ("blocking_copy",)) & (inside(evidence, READS) | _after_small_copies(evidence))
    waits = charged(evidence, ("blocking_sync",)) | reads
    waits = waits & ~is_rate_limited(evidence) & (pieces.named >= 0) | _own_after_waits(evidence)
    return waits & ~between_steps(evidence)


def _own_after_waits(evidence: Evidence) -> Mask:
    """The host's own work, of which nothing is recorded, right after it waited for the device; silence at starts of
    steps is a loader's."""
    waited, silent = evidence.idle_pieces.waited, charged(evidence, (*SILENT, "python", "backward_thread"))
    syncs = inside(evidence, SYNC, waited) & ~inside(evidence, _COPIES, waited) & ~inside(evidence, _FSDP, waited)
    waits = syncs | inside(evidence, READS, waited) | _after_small_copies(evidence)
    own = silent & (waited >= 0) & waits & ~_pauses(evidence)
    return own & ~at_step_starts(evidence, own)


def _calls(evidence: Evidence) -> Array:
    """Of each piece the call that the host waited in during it, or right before."""
    pieces = evidence.idle_pieces
    return np.where(_own_after_waits(evidence), pieces.waited, pieces.named)


def _after_small_copies(evidence: Evidence) -> Mask:
    """Idle time after copies to the host that are too small to be told as copies: numbers that it reads."""
    small = pl.col("moved_bytes") < rule_text("pageable-copies").thresholds["least_bytes"]
    copies = evidence.work.events.filter(
        small, pl.col("kind") == "memory", ~pl.col("name").cast(pl.String).str.contains("HtoD")
    )
    after = evidence.idle_pieces.gaps.events.get_column("before").is_in(copies.get_column("row").implode())
    found: Mask = after.fill_null(False).to_numpy()[evidence.idle_pieces.gap]
    return found


def is_rate_limited(evidence: Evidence) -> Mask:
    """Idle time after waits of FSDP until fewer all-gathers are in flight."""
    limiter = inside(evidence, _LIMITER) | (inside(evidence, _OF_EVENTS) & inside(evidence, _FSDP))
    return charged(evidence, ("blocking_sync",)) & limiter


def inside(evidence: Evidence, pattern: str, named: Array | None = None) -> Mask:
    """Pieces within a range of a name that the pattern finds. named: as in `place_of`."""
    paths = evidence.idle_pieces.paths
    named = evidence.idle_pieces.named if named is None else named
    found = paths.names.str.contains(pattern).to_numpy()[paths.name] if len(paths.name) else np.zeros(0, np.bool_)
    for at in range(len(found)):  # parents come first; distinct paths are few
        found[at] |= paths.parent[at] >= 0 and found[paths.parent[at]]
    inside: Mask = np.append(found, False)[named]
    return inside


def waiting_names(evidence: Evidence, chosen: Mask, named: Array | None = None) -> set[str]:
    """The operators around the waits; of those in none the calls."""
    paths = evidence.idle_pieces.paths
    found = set()
    named = evidence.idle_pieces.named if named is None else named
    for node in np.unique(named[chosen]).tolist():
        at = node
        while at >= 0 and paths.kind[at] != KINDS.index(OPERATOR):
            at = int(paths.parent[at])
        found.add(str(paths.names[int(paths.name[at if at >= 0 else node])]))
    return found
