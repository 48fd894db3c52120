"""Where in a profiler trace were the FLOPs done? A report's FLOPs by phase over the trace's device time by phase: MFU
of each.

A trace has times and no FLOPs, a report has FLOPs; of the same run they make a utilization. A device event belongs to
the phase of its launch, by the first rule that fits:

1. optimizer: the innermost named range of the launching thread is `Optimizer.step#...`, `Optimizer.zero_grad#...`, or
   one that the program named so (`record_function("optimizer")`);
2. backward: the launch lies in an `autograd::engine::evaluate_function`, on a thread on which only autograd runs, or
   in a range named "backward". What a checkpoint runs again lies there too, and a trace does not tell it apart;
3. forward: all else that has a launch: the loss, the input's copies and what else the step does.

Events without a launch belong to no phase and are counted apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.flops.cost import MATRIX_KINDS, Phase, Tally
from weft.flops.tally import inclusive, total
from weft.flops.utilization import utilization
from weft.flops.values import FlopsReport
from weft.hardware import Hardware, hardware
from weft.trace.containment import open_at_launch
from weft.trace.model import Trace, is_annotation
from weft.trace.phases import find_steps
from weft.trace.work import Work, work_of
from weft.units import S, duration

TRACE_PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)

_COUNTED_IN = {
    Phase.FORWARD: (Phase.FORWARD,),
    Phase.BACKWARD: (Phase.BACKWARD, Phase.RECOMPUTE),
    Phase.OPTIMIZER: (Phase.OPTIMIZER,),
}
_WORD = r"^\W*(?:{})(?:[ _-]?(?:pass|step|\d+))*\W*$"
_NAMED = {
    Phase.FORWARD: _WORD.format("forward|fwd"),
    Phase.BACKWARD: _WORD.format("backward|bwd"),
    Phase.OPTIMIZER: r"^Optimizer\.(?:step|zero_grad)#|"
    + _WORD.format("optimi[sz]er|optim|optimizer.step|weight update"),
}
_ENGINE = "autograd::engine::evaluate_function"
_MOST_NAMES = 3
_OVERLAP = 0.01  # of the span, above which phases at the same time are told


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseWork:
    """One phase of a trace and its FLOPs, over all joined steps.

    tally: the report's sums of the phase (recomputation with the backward), times the steps.
    busy_ns: union of the phase's device events over streams. elapsed_ns: how far its events moved the step on: each
        event adds what it ends later than all that started before it, the idle time before it included. Phases and
        the events in none add up to the span, exactly.
    flops_per_s: executed matrix FLOPs / elapsed time. mfu, mfu_full, hfu: time that the FLOPs take at the device's
        dense peaks / elapsed time; None where no peak is known or nothing was counted.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeWork:
    """A range that the program named by a module's path ("layers.0.attn"), in the forward, over all joined steps.

    tally: the module's inclusive forward sums, times the steps. busy_ns: union of the device events launched in the
    range.
    """

    path: str
    tally: Tally
    busy_ns: int
    mfu: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TraceJoin:
    """A report's FLOPs and a trace's times, joined.

    model, hardware: names; hardware is "" where no peak is known. basis: as in `Work`: "host" where operators of the
        host stand in for a device. steps: of the report that the trace was taken for. span_ns: first start to last end.
    phases: those of `TRACE_PHASES` that have events or FLOPs. step: all of them together over the span; its phase is
    None. no_phase_ns, num_no_phase: elapsed time and number of events without a launch.
    segments: frame of `phase`, `start_ns`, `end_ns`: elapsed time as stretches of one phase, in order, absolute ns.
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
    notes: tuple[str, ...] = ()


def join(report: FlopsReport, source: Trace | Work, device: Hardware | str | None = None) -> TraceJoin:
    """A report's FLOPs over a trace's times, phase by phase.

    source: a trace of the same run; of a trace in which a process drove several devices, the `Work` of one of them.
    device: the accelerator whose peaks count, or its name; by default the one that the trace names, else the report.
    Raises `WeftError` for an accelerator that weft does not know, and `TraceError` where a device must be chosen.
    """
    work = source if isinstance(source, Work) else work_of(source)
    chip, notes = _accelerator(report, work, device)
    steps, more = _steps(report, work)
    notes += more
    if work.step is None and work.steps:
        left = work.events.get_column("step").null_count()
        work = replace(work, events=work.events.filter(pl.col("step").is_not_null()))
        if left:
            notes.append(f"{left:,} device events outside the profiler's steps are left out.")
    codes = phase_codes(work)
    elapsed = _elapsed(work.events)
    parts = [_phase(report, work, codes == number, elapsed, steps, phase) for number, phase in enumerate(TRACE_PHASES)]
    parts = [
        _utilized(part, report, chip, _COUNTED_IN[part.phase], steps)
        for part in parts
        if part.num_events or part.tally.calls
    ]
    span_ns = int(elapsed.sum())
    rates = _rates(report, chip, span_ns, steps)
    if any(part.phase is Phase.BACKWARD and total(report, (Phase.RECOMPUTE,)).calls for part in parts):
        notes.append("What a checkpoint ran again is part of the backward here: a trace does not tell it apart.")
    notes += _oddities(work, parts, span_ns)
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
        ranges=_ranges(report, work, codes, chip, steps),
        no_phase_ns=int(elapsed[codes < 0].sum()),
        num_no_phase=int((codes < 0).sum()),
        segments=_segments(work.events, codes),
        notes=tuple(notes),
    )


def phase_codes(work: Work) -> NDArray[np.int64]:
    """Index into `TRACE_PHASES` of the phase of each of the work's events, in their order; -1 where it has no
    launch."""
    events, linked = work.trace.events, work.events
    codes = np.full(linked.height, -1, np.int64)
    if linked.is_empty():
        return codes
    known = linked.get_column("launch_ts_ns").is_not_null().to_numpy()
    names = events.filter(is_annotation()).get_column("name").cast(pl.String)
    ranges = events.filter(is_annotation()).with_columns(
        pl.coalesce(
            pl.when(names.str.contains(f"(?i){pattern}")).then(pl.lit(number, dtype=pl.Int64))
            for number, pattern in enumerate(_NAMED[phase] for phase in TRACE_PHASES)
        ).alias("code")
    )
    ranges = ranges.filter(pl.col("code").is_not_null())
    named = ranges.get_column("code").gather(open_at_launch(ranges, linked)).fill_null(-1).to_numpy()
    backward, optimizer = TRACE_PHASES.index(Phase.BACKWARD), TRACE_PHASES.index(Phase.OPTIMIZER)
    codes[known] = TRACE_PHASES.index(Phase.FORWARD)
    codes[known & (_in_autograd(events, linked) | (named == backward))] = backward
    codes[known & (named == optimizer)] = optimizer
    return codes


def _in_autograd(events: pl.DataFrame, linked: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether each launch lies in an autograd node's evaluation, or on a thread with nothing outside of one."""
    operators = events.filter(pl.col("cat") == "cpu_op")
    names = operators.get_column("name").unique().cast(pl.String)
    engine_names = names.filter(names.str.starts_with(_ENGINE)).cast(pl.Categorical())
    engine = operators.filter(pl.col("name").is_in(engine_names.implode()))
    if engine.is_empty():
        return np.zeros(linked.height, np.bool_)
    found = open_at_launch(engine, linked).is_not_null().to_numpy().copy()
    threads = engine.select("pid", "tid").unique()
    mine = operators.join(threads, on=["pid", "tid"], how="semi").select(
        pl.col("ts_ns").alias("launch_ts_ns"), pl.col("pid").alias("launch_pid"), pl.col("tid").alias("launch_tid")
    )
    elsewhere = mine.filter(open_at_launch(engine, mine).is_null()).select("launch_pid", "launch_tid").unique()
    own = threads.rename({"pid": "launch_pid", "tid": "launch_tid"}).join(
        elsewhere, on=["launch_pid", "launch_tid"], how="anti"
    )
    on_own = linked.with_row_index("at").join(own, on=["launch_pid", "launch_tid"], how="semi").get_column("at")
    found[on_own.to_numpy()] = True
    return found


def _elapsed(events: pl.DataFrame) -> NDArray[np.int64]:
    """How much later each event (in order of start) ends than all before it; the sum is the span."""
    if events.is_empty():
        return np.zeros(0, np.int64)
    starts, ends = (events.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    frontier = np.maximum.accumulate(np.maximum(ends, starts))
    return np.diff(frontier, prepend=starts[0]).astype(np.int64)


def _segments(events: pl.DataFrame, codes: NDArray[np.int64]) -> pl.DataFrame:
    """Elapsed time as stretches of one phase. Events that move nothing on do not break a stretch."""
    schema = {"phase": pl.String(), "start_ns": pl.Int64(), "end_ns": pl.Int64()}
    moved = np.flatnonzero(_elapsed(events))
    if not len(moved):
        return pl.DataFrame(schema=schema)
    ends = np.maximum.accumulate(events.get_column("end_ns").to_numpy())[moved]
    starts = np.concatenate([[events.get_column("start_ns")[0]], ends[:-1]])
    kinds = codes[moved]
    first = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]]))
    last = np.concatenate([first[1:] - 1, [len(kinds) - 1]])
    words = [*(str(phase) for phase in TRACE_PHASES), ""]
    return pl.DataFrame(
        {"phase": [words[code] for code in kinds[first].tolist()], "start_ns": starts[first], "end_ns": ends[last]},
        schema=schema,
    )


def _phase(
    report: FlopsReport, work: Work, mine: NDArray[np.bool_], elapsed: NDArray[np.int64], steps: int, phase: Phase
) -> PhaseWork:
    return PhaseWork(
        phase=phase,
        tally=_times(total(report, _COUNTED_IN[phase]), steps),
        num_events=int(mine.sum()),
        busy_ns=_busy_ns(work.events.filter(pl.Series(mine))),
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
    part = report if phases is None else replace(report, ops=tuple(op for op in report.ops if op.phase in phases))
    if not total(part).executed_flops:
        return None, None, None
    found = utilization(part, chip, step_ns=time_ns)
    return tuple(None if value is None else value * steps for value in (found.mfu, found.mfu_full, found.hfu))  # type: ignore[return-value]


def _ranges(
    report: FlopsReport, work: Work, codes: NDArray[np.int64], chip: Hardware | None, steps: int
) -> tuple[RangeWork, ...]:
    """Ranges named by a module's path. The innermost of them has an event; an outer one has what its submodules'
    have."""
    paths = {module.path: index for index, module in enumerate(report.modules) if module.path}
    ranges = work.trace.events.filter(is_annotation()).with_columns(pl.col("name").cast(pl.String))
    ranges = ranges.filter(pl.col("name").is_in(list(paths)))
    if ranges.is_empty():
        return ()
    inside = ranges.get_column("name").gather(open_at_launch(ranges, work.events))
    forward = codes == TRACE_PHASES.index(Phase.FORWARD)
    sums, found = inclusive(report), []
    for path in ranges.get_column("name").unique(maintain_order=True).to_list():
        mine = (inside == path) | inside.str.starts_with(f"{path}.")
        busy_ns = _busy_ns(work.events.filter(mine.fill_null(False) & pl.Series(forward)))
        tally = _times(sums.get((paths[path], Phase.FORWARD), Tally()), steps)
        indices = {paths[path]}
        for index, module in enumerate(report.modules):
            if module.parent in indices:
                indices.add(index)
        part = replace(report, ops=tuple(op for op in report.ops if op.module in indices))
        mfu = _rates(part, chip, busy_ns, steps, (Phase.FORWARD,))[0]
        found.append(RangeWork(path=path, tally=tally, busy_ns=busy_ns, mfu=mfu))
    return tuple(found)


def _busy_ns(events: pl.DataFrame) -> int:
    """Length of the union of events that are in order of start."""
    if events.is_empty():
        return 0
    starts, ends = (events.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    before = np.concatenate([[starts[0]], np.maximum.accumulate(ends)[:-1]])
    return int(np.maximum(ends - np.maximum(starts, before), 0).sum())


def _times(tally: Tally, steps: int) -> Tally:
    return Tally(**{name: getattr(tally, name) * steps for name in Tally.__slots__})


# --- do they belong together? -------------------------------------------------------------------------------------


def _accelerator(report: FlopsReport, work: Work, wanted: Hardware | str | None) -> tuple[Hardware | None, list[str]]:
    """The chip whose peaks count, and in what the two differ."""
    notes: list[str] = []
    name = "" if work.device is None else work.trace.device(work.device).name
    counted_on = report.device.partition(": ")[2]
    if work.basis == "host" and report.device.startswith("cuda"):
        notes.append(f"The FLOPs were counted on {report.device}; the trace has no device events.")
    elif name and counted_on and name != counted_on:
        notes.append(f"The FLOPs were counted on {counted_on}, the trace was taken on {name}: kernels may differ.")
    if work.trace.rank is not None and report.ranks == 1 and work.trace.rank != report.rank:
        notes.append(
            f"The FLOPs are those of rank {report.rank}, the trace is of rank {work.trace.rank}: taken to do the same."
        )
    if report.ranks > 1:
        notes.append(
            f"The FLOPs are those of {report.ranks} ranks together, the trace is of one: use one rank's report."
        )
    if isinstance(wanted, Hardware):
        return wanted, notes
    if wanted:
        return hardware(wanted), notes
    for told in (name, report.hardware if work.basis != "host" else ""):
        try:
            if told:
                return hardware(told), notes
        except WeftError:
            notes.append(f"No peak rates are known for {told}: MFU is left out. Name an accelerator with --hardware.")
            return None, notes
    notes.append("Neither trace nor report names an accelerator: MFU is left out. Name one with --hardware.")
    return None, notes


def _steps(report: FlopsReport, work: Work) -> tuple[int, list[str]]:
    """How many of the report's steps the trace holds, and what speaks against it."""
    windows = 1 if work.step is not None else len(work.steps)
    calls, expected = _matrix_calls(report, work), _expected_calls(report)
    ratios = {calls[name] / number for name, number in expected.items() if name in calls}
    whole = len(ratios) == 1 and min(ratios).is_integer() and min(ratios) >= 1 and len(calls) == len(expected)
    optimizers = work.trace.events.filter(
        is_annotation(), pl.col("name").cast(pl.String).str.starts_with("Optimizer.step#")
    ).height
    notes: list[str] = []
    if windows:
        steps = windows
    elif whole:
        steps = int(min(ratios))
        notes.append(f"The trace marks no steps; by its matrix operators it holds {steps} of the report's (estimated).")
    else:
        steps = max(1, optimizers)
        why = f"it has {optimizers} optimizer steps" if optimizers else "nothing in it tells"
        notes.append(f"The trace marks no steps: taken for {steps} of the report's ({why}).")
    if not calls:
        if expected:
            notes.append(
                "None of the report's matrix operators is in the trace, so it cannot be told whether both are of "
                "one run."
            )
    else:
        wrong = [name for name, number in expected.items() if calls.get(name, 0) != number * steps]
        told = ", ".join(
            f"{name} {calls.get(name, 0):,} for {expected[name] * steps:,}" for name in wrong[:_MOST_NAMES]
        )
        if wrong:
            notes.append(
                f"Trace and report do not agree on the calls in {steps} steps: {told}. MFU may be of another run."
            )
    return steps, notes


def _oddities(work: Work, parts: Sequence[PhaseWork], span_ns: int) -> list[str]:
    """Phases that one of the two lacks, and phases at the same time."""
    notes = [
        f"The report has FLOPs of the {part.phase}, the trace no event of it: MFU of the whole counts what did not run."
        for part in parts
        if part.tally.executed_flops and not part.num_events
    ]
    overlap_ns = sum(part.busy_ns for part in parts) - _busy_ns(work.events)
    if overlap_ns > _OVERLAP * span_ns:
        notes.append(
            f"Phases ran at the same time for {duration(overlap_ns)}: elapsed time is then that of the one that ends "
            "later, so MFU of a phase is rough; MFU of the whole is not."
        )
    return notes


def _expected_calls(report: FlopsReport) -> Mapping[str, int]:
    """Matrix operators by the profiler's names ("aten::mm") -> calls in one step."""
    calls: dict[str, int] = {}
    for op in report.ops:
        if op.cost.kind in MATRIX_KINDS and op.op.count(".") >= 1:
            namespace, name = op.op.split(".")[:2]
            calls[f"{namespace}::{name}"] = calls.get(f"{namespace}::{name}", 0) + op.calls
    return calls


def _matrix_calls(report: FlopsReport, work: Work) -> Mapping[str, int]:
    """The same operators -> calls in the trace, within its steps where it marks some."""
    ops = work.trace.events.filter(pl.col("cat") == "cpu_op").with_columns(pl.col("name").cast(pl.String))
    ops = ops.filter(pl.col("name").is_in(list(_expected_calls(report))))
    wanted = work.steps if work.step is None else (work.step,)
    windows = find_steps(work.trace.events).filter(pl.col("step").is_in(list(wanted)))
    if windows.height:
        bounds = windows.select("host_start_ns", "host_end_ns").rows()
        within = partial(pl.col("ts_ns").is_between, closed="left")
        ops = ops.filter(pl.any_horizontal(*(within(start, end) for start, end in bounds)))
    return dict(ops.group_by("name").len().iter_rows())
