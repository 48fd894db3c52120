"""Where in a profiler trace were the FLOPs done? FLOPs by phase over device time by phase: MFU of each.

A trace has times and no FLOPs, a report has FLOPs; of the same run they make a utilization. `phases` says which
device event belongs to which phase, `match` whether trace and report are of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.analysis.efficiency import Efficiency, efficiency_or_none
from weftrace.analysis.intervals import of_events
from weftrace.costs.cost import NOTHING, Phase, Tally
from weftrace.facts import Hardware
from weftrace.flops.derived.columns import with_children
from weftrace.flops.derived.tally import Key, sum_table, tallies, total_of
from weftrace.flops.derived.utilization import utilization
from weftrace.flops.join.match import accelerator, steps_of
from weftrace.flops.join.phases import TRACE_PHASES, elapsed_ns, phase_codes, segments
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook
from weftrace.trace.containment import open_at_launch
from weftrace.trace.model import Trace, is_annotation
from weftrace.trace.work import Work, work_of
from weftrace.units import S, duration, percent, si

_COUNTED_IN = {
    Phase.FORWARD: (Phase.FORWARD,),
    Phase.BACKWARD: (Phase.BACKWARD, Phase.RECOMPUTE),
    Phase.OPTIMIZER: (Phase.OPTIMIZER,),
}
_OVERLAP = 0.01  # of the span, above which phases at the same time are told


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWork(InNotebook):
    """One phase of a trace and its FLOPs, over all joined steps.

    tally: the report's sums of the phase (recomputation with the backward), times the steps.
    busy_ns: union of the phase's device events over streams. elapsed_ns: how far its events moved the step on: each
        event adds what it ends later than all that started before it, the idle time before it included. Phases and
        the events in none add up to the span, exactly.
    flops_per_s: executed matrix FLOPs / elapsed time. mfu, mfu_full, hfu: time that the FLOPs take at the device's
        dense peaks / elapsed time; None where no peak is known or nothing was counted.
    traced_flops: executed FLOPs that the trace's own shapes tell of the phase; None where they tell none.
    """

    phase: Phase
    tally: Tally
    num_events: int
    busy_ns: int
    elapsed_ns: int
    flops_per_s: float | None = None
    mfu: float | None = None
    mfu_full: float | None = None
    hfu: float | None = None
    traced_flops: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWork(InNotebook):
    """A range that the program named by a module's path ("layers.0.attn"), in the forward, over all joined steps.

    tally: the module's inclusive forward sums, times the steps. busy_ns: union of the device events launched in the
    range. mfu: time that the model FLOPs take at the device's dense peaks / busy_ns; None where no peak is known.
    """

    path: str
    tally: Tally
    busy_ns: int
    mfu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceJoin(InNotebook):
    """A report's FLOPs and a trace's times, joined.

    model, hardware: names; hardware is "" where no peak is known. basis: as in `Work`: "host" where operators of the
        host stand in for a device. steps: of the report that the trace was taken for. span_ns: first start to last end.
    phases: those of `TRACE_PHASES` that have events or FLOPs. mfu, mfu_full, hfu: of all phases over the span.
    no_phase_ns, num_no_phase: elapsed time and number of events without a launch.
    segments: frame of `phase`, `start_ns`, `end_ns`: elapsed time as stretches of one phase, in order, absolute ns.
    traced_flops: executed FLOPs that the trace's own shapes tell, of all phases and outside of them; rated_share: of
        device time, what has known FLOPs. None where the trace has no shapes.
    notes: what is assumed, estimated, or does not agree, one sentence each.
    """

    model: str
    hardware: str
    basis: str
    steps: int
    span_ns: int
    phases: tuple[PhaseWork, ...]
    mfu: float | None
    mfu_full: float | None
    hfu: float | None
    ranges: tuple[RangeWork, ...] = ()
    no_phase_ns: int = 0
    num_no_phase: int = 0
    segments: pl.DataFrame = field(default_factory=pl.DataFrame)
    traced_flops: int | None = None
    rated_share: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def flops_per_s(self) -> float | None:
        """Executed matrix FLOPs of all phases over the span; None where there is none."""
        return sum(part.tally.executed_flops for part in self.phases) * S / self.span_ns if self.span_ns else None


def join(report: FlopsReport, source: Trace | Work, device: Hardware | str | None = None) -> TraceJoin:
    """A report's FLOPs over a trace's times, phase by phase.

    source: a trace of the same run; of a trace in which a process drove several devices, the `Work` of one of them.
        Of a step's work, what the step launched counts, however it was selected.
    device: the accelerator whose peaks count, or its name; by default the one that the trace names, else the report.
    Raises `WeftraceError` for an accelerator that weftrace does not know, and `TraceError` where a device must be
    chosen.
    """
    work = source if isinstance(source, Work) else work_of(source)
    chip, notes = accelerator(report, work, device)
    if work.step is not None and work.step_by == "window":  # a step's FLOPs are done by what it launched
        window_ns = work.end_ns - work.start_ns
        work = work.of_step(work.step, by="launch")
        if work.end_ns - work.start_ns != window_ns:
            notes.append(f"FLOPs are joined to the device events that step {work.step} launched, whenever they ran.")
    steps, more = steps_of(report, work)
    notes += more
    if work.step is None and work.steps:
        left = work.events.get_column("step").null_count()
        work = replace(work, events=work.events.filter(pl.col("step").is_not_null()))
        if left:
            notes.append(f"{left:,} device events outside the profiler's steps are left out.")
    codes = phase_codes(work)
    elapsed = elapsed_ns(work.events)
    own = sum_table(report)
    sums = tallies(own)
    parts = [_phase(sums, work, codes == number, elapsed, steps, phase) for number, phase in enumerate(TRACE_PHASES)]
    parts = [
        _utilized(part, report, chip, _COUNTED_IN[part.phase], steps)
        for part in parts
        if part.num_events or part.tally.calls
    ]
    span_ns = int(elapsed.sum())
    rates = _rates(report, chip, span_ns, steps)
    if any(part.phase is Phase.BACKWARD and total_of(sums, (Phase.RECOMPUTE,)).calls for part in parts):
        notes.append("What a checkpoint ran again is part of the backward here: a trace does not separate it.")
    notes += _oddities(work, parts, span_ns)
    traced = efficiency_or_none(work)
    if traced is not None and traced.executed_flops:
        parts = _with_traced(parts, work, codes, traced)
        notes.append(agreement(parts, traced))
    else:
        traced = None
    if work.basis == "host":
        notes.append("The trace has no device events: times are those of the host's top-level operators.")
    return TraceJoin(
        model=report.name,
        hardware=chip.name if chip else "",
        basis=work.basis,
        steps=steps,
        span_ns=span_ns,
        phases=tuple(parts),
        mfu=rates[0],
        mfu_full=rates[1],
        hfu=rates[2],
        ranges=_ranges(report, tallies(with_children(report, own)), work, codes, chip, steps),
        no_phase_ns=int(elapsed[codes < 0].sum()),
        num_no_phase=int((codes < 0).sum()),
        segments=segments(work.events, codes),
        traced_flops=None if traced is None else traced.executed_flops,
        rated_share=None if traced is None else traced.rated_share,
        notes=tuple(notes),
    )


def _with_traced(
    parts: Sequence[PhaseWork], work: Work, codes: NDArray[np.int64], traced: Efficiency
) -> list[PhaseWork]:
    """Phases with the FLOPs that the trace's own shapes tell: of a call in the phase of its first event."""
    if work.basis != "device":
        return list(parts)
    rows = work.events.select(pl.col("row").cast(pl.UInt32), pl.Series("code", codes))
    sums = traced.in_events.join(rows, on="row").group_by("code").agg(pl.col("executed_flops").sum())
    found = dict(sums.iter_rows())
    return [replace(part, traced_flops=found.get(TRACE_PHASES.index(part.phase), 0)) for part in parts]


def agreement(parts: Sequence[PhaseWork], traced: Efficiency) -> str:
    """How far the report's FLOPs and those of the trace's own shapes agree, in a sentence."""
    counted = sum(part.tally.executed_flops for part in parts)
    known = f"with known FLOPs for {percent(traced.rated_share)} of device time"
    told = f"The trace's own shapes give {si(traced.executed_flops, 'FLOP')} executed"
    if not counted:
        return f"{told}, {known}; the report has none."
    phases = [
        f"{part.phase} {percent(part.traced_flops / part.tally.executed_flops)}"
        for part in parts
        if part.traced_flops is not None and part.tally.executed_flops
    ]
    by_phase = f" ({', '.join(phases)})" if phases else ""
    return f"{told}, {percent(traced.executed_flops / counted)} of the report's{by_phase}, {known}."


def _phase(
    sums: Mapping[Key, Tally], work: Work, mine: NDArray[np.bool_], elapsed: NDArray[np.int64], steps: int, phase: Phase
) -> PhaseWork:
    return PhaseWork(
        phase=phase,
        tally=total_of(sums, _COUNTED_IN[phase]).times(steps),
        num_events=int(mine.sum()),
        busy_ns=of_events(work.events.filter(pl.Series(mine))).total_ns,
        elapsed_ns=int(elapsed[mine].sum()),
    )


def _utilized(
    part: PhaseWork, report: FlopsReport, chip: Hardware | None, phases: tuple[Phase, ...], steps: int
) -> PhaseWork:
    if not part.elapsed_ns:
        return part
    mfu, mfu_full, hfu = _rates(report, chip, part.elapsed_ns, steps, phases)
    rate = part.tally.executed_flops * S / part.elapsed_ns
    return replace(part, flops_per_s=rate, mfu=mfu, mfu_full=mfu_full, hfu=hfu)


def _rates(
    report: FlopsReport, chip: Hardware | None, time_ns: int, steps: int, phases: tuple[Phase, ...] | None = None
) -> tuple[float | None, float | None, float | None]:
    """(MFU, MFU by the PaLM convention, HFU) of these phases of `steps` steps within `time_ns`."""
    if chip is None or time_ns <= 0:
        return None, None, None
    ops = report.ops if phases is None else tuple(op for op in report.ops if op.phase in phases)
    if not any(op.cost.executed_flops for op in ops):
        return None, None, None
    found = utilization(replace(report, ops=ops, times=()), chip, step_ns=time_ns)
    return tuple(None if value is None else value * steps for value in (found.mfu, found.mfu_full, found.hfu))  # type: ignore[return-value]


def _ranges(
    report: FlopsReport,
    sums: Mapping[Key, Tally],
    work: Work,
    codes: NDArray[np.int64],
    chip: Hardware | None,
    steps: int,
) -> tuple[RangeWork, ...]:
    """Ranges named by a module's path. The innermost has an event; an outer one has what its submodules' have."""
    paths = {module.path: index for index, module in enumerate(report.modules) if module.path}
    ranges = work.trace.events.filter(is_annotation()).with_columns(pl.col("name").cast(pl.String))
    ranges = ranges.filter(pl.col("name").is_in(list(paths)))
    if ranges.is_empty():
        return ()
    inside = ranges.get_column("name").gather(open_at_launch(ranges, work.events))
    forward = codes == TRACE_PHASES.index(Phase.FORWARD)
    found = []
    for path in ranges.get_column("name").unique(maintain_order=True).to_list():
        mine = (inside == path) | inside.str.starts_with(f"{path}.")
        busy_ns = of_events(work.events.filter(mine.fill_null(False) & pl.Series(forward))).total_ns
        tally = sums.get((paths[path], Phase.FORWARD), NOTHING).times(steps)
        indices = {paths[path]}
        for index, module in enumerate(report.modules):
            if module.parent in indices:
                indices.add(index)
        part = replace(report, ops=tuple(op for op in report.ops if op.module in indices))
        mfu = _rates(part, chip, busy_ns, steps, (Phase.FORWARD,))[0]
        found.append(RangeWork(path=path, tally=tally, busy_ns=busy_ns, mfu=mfu))
    return tuple(found)


def _oddities(work: Work, parts: Sequence[PhaseWork], span_ns: int) -> list[str]:
    """Phases that one of the two lacks, and phases at the same time."""
    notes = [
        f"The report has FLOPs of the {part.phase}, the trace no event of it: MFU of the whole counts what did not run."
        for part in parts
        if part.tally.executed_flops and not part.num_events
    ]
    overlap_ns = sum(part.busy_ns for part in parts) - of_events(work.events).total_ns
    if overlap_ns > _OVERLAP * span_ns:
        notes.append(
            f"Phases ran at the same time for {duration(overlap_ns)}: elapsed time is then that of the one that ends "
            "later, so MFU of a phase is rough; MFU of the whole is not."
        )
    return notes
