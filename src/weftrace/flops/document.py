"""A FLOPs report as JSON values, versioned (`weftrace.flops/1`); flops.schema.json explains each field.

The document holds the report itself, and beside it what tools would otherwise compute again: totals, parameters,
coverage, the numbers of each module, and, where a device is given, roofline, utilization and prediction. Reading
(`read_document`) uses the report alone. FLOPs can pass 2^63 and stay whole numbers: a reader in a language without big
integers takes them as floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from weftrace.errors import FlopsError
from weftrace.facts import Hardware
from weftrace.flops.cost import COUNTED, PHASES, Cost, Tally
from weftrace.flops.derived.columns import Array, Columns, SumTable, add_up, columns, with_children
from weftrace.flops.derived.coverage import Coverage, coverage
from weftrace.flops.derived.findings import findings
from weftrace.flops.derived.module_time import Spread, exclusive_samples
from weftrace.flops.derived.params import Params, module_params, params
from weftrace.flops.derived.predict import predict
from weftrace.flops.derived.roofline import Roofline, RooflineRow, roofline
from weftrace.flops.derived.tally import GLOBAL, Totals, global_factor, sum_table, totals, totals_of
from weftrace.flops.derived.throughput import throughput
from weftrace.flops.derived.utilization import Utilization, utilization
from weftrace.flops.read_document import CLOCK, COST, MODULE, PARALLEL, PLAIN, SCHEMA
from weftrace.flops.read_document import read_flops as read_flops
from weftrace.flops.read_document import report_of as report_of
from weftrace.flops.values import FlopsReport, Module
from weftrace.version import __version__

SCHEMA_FILE = Path(__file__).with_name("flops.schema.json")

Document = dict[str, Any]


def flops_document(report: FlopsReport, hardware: Hardware | None = None) -> Document:
    """A report as JSON-able values.

    hardware: the device that roofline, utilization and prediction are of; without one they are null. Utilization is
    null too where no step was timed. Raises `FlopsError` where times do not fit together.
    """
    cols = columns(report.ops)
    own = sum_table(report, cols=cols)
    step = totals_of(own)
    covered = coverage(report, cols)
    is_timed = bool(report.clock.step_ns)
    line = None if hardware is None else roofline(report, hardware, cols)
    rates, no_rates = _throughput(report, step) if is_timed else (None, "")
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        **{name: getattr(report, name) for name in PLAIN},
        "parallel": _fields(report.parallel, PARALLEL),
        "settings": dict(report.settings),
        "notes": list(report.notes),
        "clock": _fields(report.clock, CLOCK) | {"step_ns": list(report.clock.step_ns)},
        "modules": [_module(module) for module in report.modules],
        **_operators(report, cols),
        "times": {
            "module": [timing.module for timing in report.times],
            "phase": [timing.phase.value for timing in report.times],
            "samples_ns": [list(timing.samples_ns) for timing in report.times],
        },
        "totals": {"local": _totals(step), "global": _global_totals(report, own)},
        "params": _params(params(report)),
        "coverage": _coverage(covered),
        "by_module": _by_module(report, own),
        "throughput": rates,
        "throughput_note": no_rates,
        "roofline": None if line is None else _roofline(line),
        "utilization": _utilization(utilization(report, hardware, cols=cols)) if hardware and is_timed else None,
        "prediction": None if hardware is None else _prediction(report, hardware, cols),
        "findings": list(findings(report, hardware, cols=cols, line=line, covered=covered, step=step)),
    }


def _fields(value: object, names: Sequence[str]) -> Document:
    return {name: getattr(value, name) for name in names}


_module_fields = attrgetter(*MODULE)


def _module(module: Module) -> Document:
    row = dict(zip(MODULE, _module_fields(module), strict=True))
    row["aliases"] = list(module.aliases)
    return row


def _operators(report: FlopsReport, cols: Columns) -> Document:
    """Distinct costs, distinct signatures, and the calls as columns that name them."""
    every = {"ops": (report.ops, cols), "global_ops": (report.global_ops, columns(report.global_ops))}
    number: dict[tuple[str, str, int], int] = {}
    costs: list[Cost] = []
    found = {}
    names = [phase.value for phase in PHASES]
    for name, (ops, of_ops) in every.items():
        keys = list(
            zip(
                map(attrgetter("op"), ops),
                map(attrgetter("signature"), ops),
                (of_ops.cost_K + len(costs)).tolist(),
                strict=True,
            )
        )
        costs += of_ops.costs
        number |= {key: index for index, key in enumerate(dict.fromkeys(keys), len(number))}
        modules, phases = np.divmod(of_ops.key_K, len(PHASES))
        found[name] = {
            "module": modules.tolist(),
            "phase": list(map(names.__getitem__, phases.tolist())),
            "signature": list(map(number.__getitem__, keys)),
            "calls": of_ops.calls_K.tolist(),
        }
    return {
        "costs": [_fields(cost, COST) | {"kind": cost.kind.value, "status": cost.status.value} for cost in costs],
        "signatures": [{"op": op, "signature": text, "cost": cost} for op, text, cost in number],
        **found,
    }


def _tally(tally: Tally) -> Document:
    return _fields(tally, COUNTED) | {"intensity": tally.intensity}


def _totals(step: Totals) -> Document:
    return {
        "flops": step.flops,
        "full_flops": step.full_flops,
        "executed_flops": step.executed_flops,
        "vector_flops": step.vector_flops,
        "macs": step.flops // 2,
        "moved_bytes": step.moved_bytes,
        "by_phase": {phase.value: _tally(tally) for phase, tally in step.by_phase.items()},
    }


def _global_totals(report: FlopsReport, own: SumTable) -> Document | None:
    """null where the ranks that were merged do not tell what all do."""
    if report.global_ops:
        return _totals(totals(report, GLOBAL))
    try:
        return _totals(totals_of(own, global_factor(report)))
    except FlopsError:
        return None


def _params(found: Params) -> Document:
    return _fields(found, tuple(Params.__dataclass_fields__))


def _coverage(found: Coverage) -> Document:
    return {
        "calls": found.calls,
        "moved_bytes": found.moved_bytes,
        "time": found.time,
        "calls_of_status": {status.value: calls for status, calls in found.calls_of_status.items()},
        "unattributed_ns": found.unattributed_ns,
        "unknown": [_fields(op, ("op", "calls", "moved_bytes", "note")) for op in found.unknown],
    }


def _by_module(report: FlopsReport, own: SumTable) -> Document:
    """Columns: one entry a module and phase in which anything ran or took time, in it or below it."""
    whole = with_children(report, own)
    own_MPS, whole_MPS, timed = _times(report)
    there = whole.there_MP | timed
    modules, phases = np.nonzero(there)
    of_params = module_params(report)
    names = [phase.value for phase in PHASES]
    return {
        "module": modules.tolist(),
        "phase": [names[phase] for phase in phases.tolist()],
        "params": [of_params[module].total for module in modules.tolist()],
        "inclusive": _columns(whole.values_MPF[there], COUNTED),
        "exclusive": _columns(own.values_MPF[there], COUNTED),
        "inclusive_ns": None if whole_MPS is None else _spreads(whole_MPS[there]),
        "exclusive_ns": None if own_MPS is None else _spreads(own_MPS[there]),
    }


def _columns(values: Array, names: Sequence[str]) -> Document:
    return {name: values[:, number].tolist() for number, name in enumerate(names)}


def _times(report: FlopsReport) -> tuple[Array | None, Array | None, Array]:
    """Samples [M, P, S] without and with children, None where nothing was timed; and [M, P] of what was."""
    samples = exclusive_samples(report)
    timed = np.zeros((len(report.modules), len(PHASES)), dtype=bool)
    if not samples:
        return None, None, timed
    own = np.zeros((*timed.shape, len(next(iter(samples.values())))), dtype=np.int64)  # 2^63 ns are 292 years
    of_phase = {phase: number for number, phase in enumerate(PHASES)}
    where = np.array([(module, of_phase[phase]) for module, phase in samples])
    own[where[:, 0], where[:, 1]] = np.array(list(samples.values()))
    timed[where[:, 0], where[:, 1]] = True
    whole = own.copy()
    add_up(report, whole)
    add_up(report, timed)
    return own, whole, timed


def _spreads(samples_KS: Array) -> Document:
    """As `module_time.spread`, of every row."""
    ordered = np.sort(samples_KS, axis=1)
    num = ordered.shape[1]
    return {
        "median": ((ordered[:, (num - 1) // 2] + ordered[:, num // 2]) // 2).tolist(),
        "lowest": ordered[:, 0].tolist(),
        "highest": ordered[:, -1].tolist(),
        "samples": num,
    }


def _spread(found: Spread | None) -> Document | None:
    return None if found is None else _fields(found, ("median", "lowest", "highest", "samples"))


def _throughput(report: FlopsReport, step: Totals) -> tuple[Document | None, str]:
    """(null where the layout contradicts itself, and how it does)."""
    try:
        found = throughput(report, step=step)
    except FlopsError as error:
        return None, str(error)
    return _fields(found, tuple(type(found).__dataclass_fields__)), ""


_ROW = tuple(name for name in RooflineRow.__dataclass_fields__ if name not in ("path", "phase", "measured"))


def _lines(rows: Sequence[RooflineRow]) -> Document:
    """Columns, one entry a row. above_ns and measured_ns (the median) are null where nothing was timed."""
    values = zip(*map(attrgetter(*_ROW), rows), strict=True) if rows else ([] for _ in _ROW)
    return {name: list(column) for name, column in zip(_ROW, values, strict=True)} | {
        "phase": [row.phase.value for row in rows],
        "bound": [row.bound for row in rows],
        "measured_ns": [None if row.measured is None else row.measured.median for row in rows],
        "above_ns": [row.above_ns for row in rows],
        "flops_per_s": [row.flops_per_s for row in rows],
    }


def _roofline(line: Roofline) -> Document:
    return {
        "hardware": line.hardware,
        "bound_ns": line.bound_ns,
        "by_phase": {phase.value: bound for phase, bound in line.by_phase.items()},
        "exclusive": _lines(line.rows),
        "inclusive": _lines(line.inclusive),
        "flags": list(line.flags),
        "notes": list(line.notes),
    }


def _utilization(found: Utilization) -> Document:
    names = ("hardware", "mfu", "mfu_full", "hfu", "step_ns", "flops_per_s", "executed_flops_per_s")
    return _fields(found, names) | {
        "time_at_peak_ns": dict(found.time_at_peak),
        "by_phase": {
            phase.value: _fields(part, ("mfu", "mfu_full", "hfu", "flops_per_s", "executed_flops_per_s"))
            | {"ns": _spread(part.time)}
            for phase, part in found.by_phase.items()
        },
        "flags": list(found.flags),
        "notes": list(found.notes),
    }


def _prediction(report: FlopsReport, hardware: Hardware, cols: Columns) -> Document:
    found = predict(report, hardware, cols=cols)
    return {
        "hardware": found.hardware,
        "bound_ns": found.bound_ns,
        "predicted_ns": found.predicted_ns,
        "by_phase": {
            phase.value: {"bound_ns": bound, "predicted_ns": likely}
            for phase, (bound, likely) in found.by_phase.items()
        },
        "assumptions": list(found.assumptions),
    }
