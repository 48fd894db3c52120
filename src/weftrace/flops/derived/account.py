"""What follows from a report, worked out once: totals, coverage, parameters, times, bounds, utilization, prediction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from weftrace.costs.cost import NOTHING, PHASES, Cost, Kind, Phase, Status, Tally, tally_of
from weftrace.errors import FlopsError
from weftrace.facts import Hardware
from weftrace.flops.derived.columns import Columns, SumTable, columns, sums, with_children
from weftrace.flops.derived.coverage import Coverage, coverage_of
from weftrace.flops.derived.device import device_of, named
from weftrace.flops.derived.module_time import Spread, Times, times_of
from weftrace.flops.derived.params import Params, module_params, params
from weftrace.flops.derived.predict import Efficiencies, Prediction, prediction_of
from weftrace.flops.derived.roofline import COMPUTE, MEMORY, Roofline, RooflineRow, roofline_of
from weftrace.flops.derived.tally import Key, Totals, children_of, global_factor, global_sums, tallies, totals_of
from weftrace.flops.derived.throughput import Throughput, throughput
from weftrace.flops.derived.utilization import Utilization, utilization_of
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook, in_words
from weftrace.units import S, duration, percent, si, size


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One operator in one phase, over all modules and signatures. status: the least certain of its formulas'."""

    op: str
    phase: Phase
    kind: Kind
    status: Status
    note: str
    tally: Tally


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Account(InNotebook):
    """A report and what follows from it, worked out once: what every document, table and picture is made of.

    device: the accelerator whose peaks count; None, and with it what needs peaks, where none is known. device_note: why
        the one that the report names is not known, "" else.
    cols, global_cols: the local and the global operators as arrays; the latter None where nothing is a DTensor.
    own, whole: sums by module and phase, without and with what is below; exclusive, inclusive: the same by key.
    global_own: as own, of the global operators. global_totals: of all ranks; None where those merged do not tell it.
    module_params: parameters of each module with all below it. children: of each module, and of None: the roots.
    repeated: a number for each module, equal where class, parameters, calls, counts and all below are.
    throughput_note: why a timed report has no throughput, "" else. bounds: of modules with all below them.
    other_machine: times were measured on another than the peaks' one.
    Of merged ranks, counts are of all of them together; rates, bounds and utilization of one, the mean.
    """

    report: FlopsReport
    device: Hardware | None
    device_note: str
    cols: Columns
    global_cols: Columns | None
    own: SumTable
    whole: SumTable
    global_own: SumTable | None
    exclusive: Mapping[Key, Tally]
    inclusive: Mapping[Key, Tally]
    totals: Totals
    global_totals: Totals | None
    coverage: Coverage
    params: Params
    module_params: Sequence[Params]
    children: Mapping[int | None, Sequence[int]]
    repeated: Sequence[int]
    times: Times
    throughput: Throughput | None
    throughput_note: str
    roofline: Roofline | None
    bounds: Mapping[Key, RooflineRow]
    utilization: Utilization | None
    prediction: Prediction | None
    ops: Sequence[OpRow]
    other_machine: bool

    def _describe(self) -> Iterable[tuple[str, str]]:
        """The few numbers that a person looks for first."""
        yield "model", f"{in_words(self.report.name)}, {len(self.report.modules):,} modules"
        yield "device", self.device.name if self.device is not None else self.report.device or "not known"
        yield "model FLOPs", si(self.totals.flops)
        yield "executed FLOPs", si(self.totals.executed_flops)
        yield "vector FLOPs", si(self.totals.vector_flops)
        yield "bytes moved", size(self.totals.moved_bytes)
        yield "parameters", f"{si(self.params.total)} ({size(self.params.bytes)})"
        if self.step is not None:
            yield "step", duration(self.step.typical)
        if self.utilization is not None:
            yield "MFU, HFU", f"{percent(self.utilization.mfu)}, {percent(self.utilization.hfu)}"
        if self.roofline is not None:
            yield "roofline bound", duration(self.roofline.bound_ns)
        if self.untimed_prediction is not None:
            yield "predicted", duration(self.untimed_prediction.predicted_ns)
        yield "calls with a formula", percent(self.coverage.calls)

    @property
    def timed(self) -> bool:
        return bool(self.times.exclusive)

    @property
    def untimed_prediction(self) -> Prediction | None:
        """The prediction where it is what there is to know of the time: nothing was timed."""
        return None if self.timed else self.prediction

    @property
    def step(self) -> Spread | None:
        """Wall time of a step; None where the clock has none."""
        return self.times.step

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be worked out, and why."""
        no_rates = f"There is no throughput: {self.throughput_note}" if self.throughput_note else ""
        return tuple(filter(None, [self.device_note, no_rates]))

    @property
    def flops_per_s(self) -> float | None:
        """Executed FLOPs of a step over its wall time, on one rank."""
        return None if self.step is None else self.rate(self.totals.executed_flops, self.step.typical)

    def rate(self, flops: int, time_ns: float) -> float | None:
        """FLOPs a second on one rank, of FLOPs that all merged ranks did in that time; None where there is no time."""
        return flops * S / (time_ns * self.report.ranks) if time_ns else None

    def time_of(self, module: int, *, own: bool = False) -> int | None:
        """A module's typical time, all phases together, ns, with all below it unless it is its own that is asked; None
        where it was not timed."""
        times = self.times.exclusive if own else self.times.inclusive
        found = [times[module, phase].typical for phase in PHASES if (module, phase) in times]
        return sum(found) if found else None

    def over_phases(self, tallies: Mapping[Key, Tally], module: int) -> Tally:
        """A module's sums over all phases, of `exclusive` or `inclusive`."""
        return reduce(Tally.plus, (tallies.get((module, phase), NOTHING) for phase in PHASES), NOTHING)

    def bound_of(self, module: int) -> tuple[float, str | None]:
        """The roofline bound of a module with all below it, all phases together, ns, and what holds it, if anything."""
        rows = [row for phase in PHASES if (row := self.bounds.get((module, phase))) is not None]
        compute, memory = sum(row.compute_ns for row in rows), sum(row.memory_ns for row in rows)
        return compute + memory, None if compute + memory == 0 else COMPUTE if compute >= memory else MEMORY


def account_of(report: FlopsReport | Account, device: Hardware | str | None = None) -> Account:
    """What follows from a report. An account is given back as it is, unless another device is named.

    device: the accelerator whose peaks count, by default the report's own where weftrace knows it. Raises
    `WeftraceError` where one is named that weftrace does not know, `FlopsError` where times do not fit together.
    """
    if isinstance(report, Account):
        if device is None:
            return report
        report = report.report
    chip, why = device_of(report, device)
    cols, times = columns(report.ops), times_of(report)
    own = sums(report, cols)
    whole = with_children(report, own)
    exclusive, children, totals = tallies(own), children_of(report), totals_of(own)
    global_cols = columns(report.global_ops) if report.global_ops else None
    global_own = None if global_cols is None else global_sums(report, global_cols)
    roofs = None if chip is None else roofline_of(report, chip, cols, times)
    is_used = times.step is not None and times.step.typical > 0
    rates, no_rates = _throughput(report, totals)
    return Account(
        report=report,
        device=chip,
        device_note=why,
        cols=cols,
        global_cols=global_cols,
        own=own,
        whole=whole,
        global_own=global_own,
        exclusive=exclusive,
        inclusive=tallies(whole),
        totals=totals,
        global_totals=_global_totals(report, own, global_own),
        coverage=coverage_of(report, cols, times),
        params=params(report),
        module_params=module_params(report),
        children=children,
        repeated=_equal_modules(report, children, exclusive),
        times=times,
        throughput=rates,
        throughput_note=no_rates,
        roofline=roofs,
        bounds={} if roofs is None else {(row.module, row.phase): row for row in roofs.inclusive},
        utilization=utilization_of(report, chip, cols, times) if chip is not None and is_used else None,
        prediction=None if chip is None else prediction_of(report, chip, cols, Efficiencies()),
        ops=_op_rows(report),
        other_machine=chip is not None and _other_machine(report, chip),
    )


def _op_rows(report: FlopsReport) -> list[OpRow]:
    """Operators that did something, by name and phase, most executed FLOPs first, then most vector FLOPs and bytes."""
    calls: dict[tuple[str, Phase, int], int] = {}  # by the cost's identity: operators share them
    costs: dict[int, Cost] = {}
    for op in report.ops:
        key = (op.op, op.phase, id(op.cost))
        calls[key] = calls.get(key, 0) + op.calls
        costs[id(op.cost)] = op.cost
    trust, rows = list(Status), dict[tuple[str, Phase], OpRow]()
    for (name, phase, identity), number in calls.items():
        cost = costs[identity]
        if cost.kind is Kind.FREE:
            continue
        tally = tally_of(cost, number)
        row = rows.get((name, phase))
        if row is None:
            rows[name, phase] = OpRow(
                op=name, phase=phase, kind=cost.kind, status=cost.status, note=cost.note, tally=tally
            )
            continue
        worse = trust.index(cost.status) > trust.index(row.status)
        rows[name, phase] = replace(
            row,
            status=cost.status if worse else row.status,
            note=cost.note if cost.note and (worse or not row.note) else row.note,
            tally=row.tally.plus(tally),
        )
    return sorted(
        rows.values(),
        key=lambda row: (-row.tally.executed_flops, -row.tally.vector_flops, -row.tally.moved_bytes, row.op),
    )


def _global_totals(report: FlopsReport, own: SumTable, global_own: SumTable | None) -> Totals | None:
    if global_own is not None:
        return replace(totals_of(global_own), partial=report.global_partial)
    try:
        return totals_of(own, global_factor(report))
    except FlopsError:
        return None


def _throughput(report: FlopsReport, totals: Totals) -> tuple[Throughput | None, str]:
    """(None where no step was timed, or the report contradicts itself; how it does)."""
    if not report.clock.step_ns:
        return None, ""
    try:
        return throughput(report, step=totals), ""
    except FlopsError as error:
        return None, str(error)


def _other_machine(report: FlopsReport, chip: Hardware) -> bool:
    """Whether times are of another machine than the peaks."""
    if not report.times:
        return False
    own, _ = named(report.hardware)
    return own is None or own.name != chip.name


def _equal_modules(
    report: FlopsReport, children: Mapping[int | None, Sequence[int]], exclusive: Mapping[Key, Tally]
) -> list[int]:
    """A number per module: equal for modules whose class, parameters, calls, counts and everything below are equal.

    Their children have the same names too; their own names and their times may differ.
    """
    known = dict[Any, int]()
    numbers = [0] * len(report.modules)
    for index in range(len(report.modules) - 1, -1, -1):  # children come after their parents
        module = report.modules[index]
        below = tuple((report.modules[child].name, numbers[child]) for child in children.get(index, ()))
        costs = tuple(exclusive.get((index, phase)) for phase in PHASES)
        key = (
            module.class_name,
            module.calls,
            module.own_params,
            module.own_trainable_params,
            module.own_active_params,
            costs,
            below,
        )
        numbers[index] = known.setdefault(key, len(known))
    return numbers
