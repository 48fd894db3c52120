"""Everything about a report that the terminal, the page and the figures show, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weftrace.errors import FlopsError
from weftrace.facts import Hardware
from weftrace.flops.cost import NOTHING, PHASES, Kind, Phase, Status, Tally, tally_of
from weftrace.flops.derived.columns import Columns, columns, with_children
from weftrace.flops.derived.coverage import Coverage, coverage
from weftrace.flops.derived.device import device_of, named
from weftrace.flops.derived.module_time import Spread, exclusive_ns, inclusive_ns, phase_ns, step_spread
from weftrace.flops.derived.params import Params, module_params, params
from weftrace.flops.derived.roofline import COMPUTE, MEMORY, Roofline, RooflineRow, roofline
from weftrace.flops.derived.tally import Key, Totals, children_of, sum_table, tallies, totals_of
from weftrace.flops.derived.throughput import Throughput, throughput
from weftrace.flops.derived.utilization import Utilization, utilization
from weftrace.flops.values import FlopsReport
from weftrace.units import S


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One operator in one phase, over all modules and signatures. status: the least certain of its formulas'."""

    op: str
    phase: Phase
    kind: Kind
    status: Status
    note: str
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A report and what follows from it. device is None, and with it what needs peaks, where no accelerator is known.

    cols: the local operators as arrays. exclusive, inclusive, times, own_times: by (module, phase). modules:
    parameters of each module with all below it. step: wall time; where the clock has none, None. bounds: of modules
    with all below them. notes: what could not be worked out, and why. Of merged ranks, counts are of all of them
    together; rates, bounds and utilization of one, the mean.
    """

    report: FlopsReport
    cols: Columns
    device: Hardware | None
    totals: Totals
    coverage: Coverage
    params: Params
    modules: Sequence[Params]
    children: Mapping[int | None, Sequence[int]]
    exclusive: Mapping[Key, Tally]
    inclusive: Mapping[Key, Tally]
    times: Mapping[Key, Spread]
    own_times: Mapping[Key, Spread]
    phase_times: Mapping[Phase, Spread]
    step: Spread | None
    throughput: Throughput | None
    roofline: Roofline | None
    utilization: Utilization | None
    bounds: Mapping[Key, RooflineRow]
    ops: Sequence[OpRow]
    notes: Sequence[str]
    other_machine: bool

    @property
    def timed(self) -> bool:
        return bool(self.times)

    @property
    def flops_per_s(self) -> float | None:
        """Executed FLOPs of a step over its wall time, on one rank."""
        return None if self.step is None else self.rate(self.totals.executed_flops, self.step.median)

    def rate(self, flops: int, time_ns: float) -> float | None:
        """FLOPs a second on one rank, of FLOPs that all merged ranks did in that time; None where there is no time."""
        return flops * S / (time_ns * self.report.ranks) if time_ns else None

    def time_of(self, module: int) -> int | None:
        """A module's median time with all below it, all phases together, ns; None where it was not timed."""
        found = [spread.median for phase in PHASES if (spread := self.times.get((module, phase))) is not None]
        return sum(found) if found else None


def numbers_of(report: FlopsReport, device: Hardware | str | None = None) -> Numbers:
    """What follows from a report.

    device: the accelerator whose peaks count, by default the report's own where weftrace knows it. Raises
    `WeftraceError` where one is named that weftrace does not know.
    """
    chip, why = device_of(report, device)
    notes = [why] if why else []
    cols = columns(report.ops)
    own = sum_table(report, cols=cols)
    totals = totals_of(own)
    roofs = None if chip is None else roofline(report, chip, cols)
    step = step_spread(report)
    is_used = chip is not None and step is not None and step.median > 0
    return Numbers(
        report=report,
        cols=cols,
        device=chip,
        totals=totals,
        coverage=coverage(report, cols),
        params=params(report),
        modules=module_params(report),
        children=children_of(report),
        exclusive=tallies(own),
        inclusive=tallies(with_children(report, own)),
        times=inclusive_ns(report),
        own_times=exclusive_ns(report),
        phase_times=phase_ns(report),
        step=step,
        throughput=_throughput(report, step, totals, notes),
        roofline=roofs,
        utilization=utilization(report, chip, cols=cols) if chip is not None and is_used else None,
        bounds={} if roofs is None else {(row.module, row.phase): row for row in roofs.inclusive},
        ops=op_rows(report),
        notes=tuple(notes),
        other_machine=chip is not None and _other_machine(report, chip),
    )


def op_rows(report: FlopsReport) -> list[OpRow]:
    """Operators that did something, by name and phase, most executed FLOPs first, then most vector FLOPs and bytes."""
    trust, rows = list(Status), dict[tuple[str, Phase], OpRow]()
    for op in report.ops:
        cost = op.cost
        if cost.kind is Kind.FREE:
            continue
        tally = tally_of(cost, op.calls)
        key = (op.op, op.phase)
        row = rows.get(key)
        if row is None:
            rows[key] = OpRow(op=op.op, phase=op.phase, kind=cost.kind, status=cost.status, note=cost.note, tally=tally)
            continue
        worse = trust.index(cost.status) > trust.index(row.status)
        rows[key] = replace(
            row,
            status=cost.status if worse else row.status,
            note=cost.note if cost.note and (worse or not row.note) else row.note,
            tally=row.tally.plus(tally),
        )
    return sorted(
        rows.values(),
        key=lambda row: (-row.tally.executed_flops, -row.tally.vector_flops, -row.tally.moved_bytes, row.op),
    )


def over_phases(tallies: Mapping[Key, Tally], module: int) -> Tally:
    """A module's sums over all phases."""
    result = NOTHING
    for phase in PHASES:
        result = result.plus(tallies.get((module, phase), NOTHING))
    return result


def bound_of(numbers: Numbers, module: int) -> tuple[float, str | None]:
    """The roofline bound of a module with all below it, all phases together, ns, and what holds it, if anything."""
    if numbers.roofline is None:
        return 0.0, None
    rows = [row for phase in PHASES if (row := numbers.bounds.get((module, phase))) is not None]
    compute, memory = sum(row.compute_ns for row in rows), sum(row.memory_ns for row in rows)
    return compute + memory, None if compute + memory == 0 else COMPUTE if compute >= memory else MEMORY


def _throughput(report: FlopsReport, step: Spread | None, totals: Totals, notes: list[str]) -> Throughput | None:
    """None where no step was timed, or the report contradicts itself, which the notes then say."""
    if step is None:
        return None
    try:
        return throughput(report, step=totals)
    except FlopsError as error:
        notes.append(f"There is no throughput: {error}")
        return None


def _other_machine(report: FlopsReport, chip: Hardware) -> bool:
    """Whether times are of another machine than the peaks."""
    if not report.times:
        return False
    own, _ = named(report.hardware)
    return own is None or own.name != chip.name
