"""What stops the host now and then: rules 26 and 27."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from weftrace.advice.findings.evidence import Evidence
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.rule_texts import rule_text
from weftrace.advice.findings.rules.host_idle import (
    UNUSED_SEARCH,
    Mask,
    Place,
    charged,
    open_on_any_thread,
    place_of,
    place_where,
    short,
    step_of,
    time_of,
    where_of,
)
from weftrace.analysis.findings import Confidence, Number
from weftrace.analysis.intervals import Array, sums_by_group, union
from weftrace.units import counted, duration, percent

#: What comes in more of the steps is periodic, and has another cause.
_MOST_STEPS = 0.25
#: Of these nothing is recorded but, at most, in which phase of the program they come.
SILENT = ("nothing_recorded", "annotation")
#: Fewer steps do not tell what is periodic.
_LEAST_STEPS = 3
#: A kernel that is tuned runs so many times as often as in other steps, and is so much of what runs meanwhile.
_BURST, _NEARLY_ALONE = 20, 0.4


def gc_pause(evidence: Evidence) -> Iterator[Found]:
    """26: Python's garbage collector stops the host, or something that nobody recorded does."""
    least = rule_text("gc-pause").thresholds["least_share"]
    collects = charged(evidence, ("garbage_collection",))
    longest = int(_stretches(evidence, collects).max(initial=0))
    share = evidence.share(time_of(evidence, collects))
    if share >= (least if longest >= _least_pause(evidence) else 2 * least):
        yield _paused(evidence, collects, "Python's garbage collector,", "high", "")
        return
    silent = charged(evidence, SILENT)
    silent = silent & is_pause(evidence, silent) & ~_compiles(evidence)
    if silent.any() and evidence.share(time_of(evidence, silent)) >= least:
        yield _paused(
            evidence, silent, "something unrecorded, perhaps a garbage collection", "low",
            "the host recorded nothing then: torch.profiler records a collection only if it is asked to",
        )  # fmt: skip


def is_pause(evidence: Evidence, silent: Mask) -> Mask:
    """Of the chosen pieces those in gaps that are long and come in few steps."""
    stretch = _stretches(evidence, silent)
    long = silent & (stretch[evidence.idle_pieces.gap] >= _least_pause(evidence))
    long &= ~open_on_any_thread(evidence, UNUSED_SEARCH)
    if len(evidence.steps) < _LEAST_STEPS:
        return np.zeros(len(silent), np.bool_)
    in_steps = len(np.unique(step_of(evidence)[long]))
    return long if in_steps <= max(1.0, _MOST_STEPS * len(evidence.steps)) else np.zeros(len(silent), np.bool_)


def _paused(evidence: Evidence, chosen: Mask, by: str, confidence: Confidence, reason: str) -> Found:
    ns, stretches = time_of(evidence, chosen), _stretches(evidence, chosen)
    longest, number = int(stretches.max()), int((stretches > 0).sum())
    place = place_of(evidence, chosen) if confidence == "high" else Place()
    what = f"for {duration(ns)}" if number == 1 else f"{counted(number, 'time')}, for up to {duration(longest)}"
    steps = np.unique(step_of(evidence)[chosen]).tolist()
    when = f" in step {steps[0]}" if len(steps) == 1 and steps[0] >= 0 else ""
    return Found(
        sentence=f"The host stops {what}{when}, because of {by}, and the device waits: "
        f"{percent(evidence.share(ns))} of the time.",
        cost_ns=ns,
        evidence=(
            Number(name="idle time in pauses", value=ns, unit="ns"),
            Number(name="longest pause", value=longest, unit="ns"),
            Number(name="pauses", value=number, unit="count"),
        ),
        where=where_of(evidence, chosen, place, step=steps[0] if when else None),
        saves_ns=(ns, ns),
        how="all of this idle time",
        confidence=confidence,
        reason=reason,
    )


def _stretches(evidence: Evidence, chosen: Mask) -> Array:
    """Of each gap the time of the chosen pieces in it."""
    pieces = evidence.idle_pieces
    return sums_by_group(pieces.gap[chosen], pieces.length[chosen], pieces.gaps.events.height)


def _least_pause(evidence: Evidence) -> float:
    """From how long on a stretch is a pause: 10 ms, or what makes a short step a fifth longer."""
    limits = rule_text("gc-pause").thresholds
    if len(evidence.steps) < _LEAST_STEPS:
        return limits["least_ns"]
    usual = float(np.median([step.breakdown.span_ns for step in evidence.steps]))
    return min(limits["least_ns"], (limits["least_step_ratio"] - 1) * usual)


def recompilation(evidence: Evidence) -> Iterator[Found]:
    """27: code is compiled, loaded or tuned after the first step."""
    limits, steps = rule_text("recompilation").thresholds, evidence.steps
    compiles = _compiles(evidence)
    ns = time_of(evidence, compiles)
    if not ns or evidence.share(ns) < limits["least_share"]:
        yield from _tuned(evidence, limits["least_share"])
        return
    place = place_of(evidence, compiles)
    in_steps = np.unique(step_of(evidence)[compiles]).tolist()
    when = f"step {in_steps[0]}" if len(in_steps) == 1 else f"{len(in_steps)} of {len(steps)} steps"
    yield Found(
        sentence=f"The device waits {duration(ns)} while the host compiles or loads code"
        f"{f' in {when}' * bool(steps)}, {percent(evidence.share(ns))} of the time"
        f"{f', most{place.words}' * bool(place.words)}.",
        cost_ns=ns,
        evidence=(Number(name="idle time while code was compiled or loaded", value=ns, unit="ns"),),
        where=where_of(evidence, compiles, place, step=in_steps[0] if steps and len(in_steps) == 1 else None),
        saves_ns=(ns, ns),
        how="all of this idle time",
        confidence="high" if len(steps) > 1 else "medium",
        reason="" if len(steps) > 1 else "without steps it may be the program's warm-up",
    )


def _compiles(evidence: Evidence) -> Mask:
    """Idle time while code was compiled or loaded after the first step, and pauses of the same steps: what compiles
    records little but the loading of what came of it."""
    compiles, of = charged(evidence, ("compilation", "first_use")), step_of(evidence)
    if len(evidence.steps) < 2:
        return compiles
    compiles &= (of != evidence.steps[0].step) & (of >= 0)
    silent = charged(evidence, SILENT)
    found: Mask = compiles | (silent & is_pause(evidence, silent) & np.isin(of, of[compiles]))
    return found


def _tuned(evidence: Evidence, least: float) -> Iterator[Found]:
    """27, where nothing but kernels tells it: one is launched again and again in a single step, nearly alone."""
    events = evidence.work.events.sort("start_ns").with_row_index("at").filter(pl.col("step").is_not_null())
    ran = events.group_by("step", "name").agg(
        pl.len().alias("count"), (pl.col("at").max() - pl.col("at").min() + 1).alias("within"),
        pl.col("start_ns").min(), pl.col("end_ns").max(), pl.col("row"), pl.col("kind").first(),
    )  # fmt: skip
    usual = (pl.col("count").sum() - pl.col("count")).over("name") / max(1, len(evidence.steps) - 1)
    tuned = ran.filter(
        pl.col("kind") == "compute", pl.col("count") >= _BURST * pl.max_horizontal(usual, 1),
        pl.col("count") >= _NEARLY_ALONE * pl.col("within"),
        pl.col("step").is_in([step.step for step in evidence.steps[1:]]),
    ).sort("count", "name", descending=[True, False])  # fmt: skip
    ns = union(tuned.get_column("start_ns"), tuned.get_column("end_ns")).total_ns
    if tuned.is_empty() or evidence.share(ns) < least:
        return
    first = tuned.row(0, named=True)
    yield Found(
        sentence=f"{short(first['name'])} is launched {first['count']:,} times in step {first['step']}, as where "
        f"kernels are tuned: {duration(ns)}, {percent(evidence.share(ns))} of the time.",
        cost_ns=ns,
        evidence=(
            Number(name="time of these bursts", value=ns, unit="ns"),
            Number(name="launches of one kernel", value=first["count"], unit="count"),
        ),
        where=replace(
            place_where(evidence, Place(), np.array(first["row"], np.int64), step=first["step"]),
            kernels=tuple(tuned.get_column("name").cast(pl.String).unique(maintain_order=True).head(3).to_list()),
        ),
        saves_ns=(ns, ns),
        how="all of this time",
        confidence="medium",
        reason="no range of a compiler is recorded: only the number of launches shows it",
    )
