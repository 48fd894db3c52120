"""A FLOPs report as JSON values, versioned (`weftrace.flops/1`), written; `types` says what each field is.

The document holds the report itself, and beside it what tools would otherwise compute again: totals, parameters,
coverage, the numbers of each module, and, where an accelerator is known, roofline, utilization and prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

from weftrace.facts import Hardware
from weftrace.flops.cost import COUNTED, PHASES, Cost, Tally
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.columns import Array, add_up
from weftrace.flops.derived.coverage import Coverage
from weftrace.flops.derived.findings import findings
from weftrace.flops.derived.module_time import Spread
from weftrace.flops.derived.params import Params
from weftrace.flops.derived.predict import Prediction
from weftrace.flops.derived.roofline import Roofline, RooflineRow
from weftrace.flops.derived.tally import Totals
from weftrace.flops.derived.throughput import Throughput
from weftrace.flops.derived.utilization import Utilization
from weftrace.flops.document.types import SCHEMA, FlopsDocument
from weftrace.flops.values import Clock, FlopsReport, Module, Parallel
from weftrace.version import __version__

# The fields that a document has of a value, in order.
COST = tuple(Cost.__dataclass_fields__)
MODULE = tuple(Module.__dataclass_fields__)
CLOCK = tuple(Clock.__dataclass_fields__)
PARALLEL = tuple(Parallel.__dataclass_fields__)
PLAIN = ("name", "device", "hardware", "tf32", "samples", "tokens", "micro_batches", "rank", "ranks", "torch_version")

Columns = dict[str, Any]


def flops_document(report: FlopsReport | Account, hardware: Hardware | str | None = None) -> FlopsDocument:
    """A report as JSON-able values.

    hardware: the accelerator that roofline, utilization and prediction are of, by default the report's own where
    weftrace knows it; without one they are null. Utilization is null too where no step was timed. Raises `FlopsError`
    where times do not fit together.
    """
    account = account_of(report, hardware)
    report = account.report
    document = {
        "schema": SCHEMA,
        "weftrace": __version__,
        **{name: getattr(report, name) for name in PLAIN},
        **({"global_partial": report.global_partial} if report.global_partial else {}),
        "parallel": _fields(report.parallel, PARALLEL),
        "settings": dict(report.settings),
        "notes": list(report.notes),
        "clock": _fields(report.clock, CLOCK) | {"step_ns": list(report.clock.step_ns)},
        "modules": [_module(module) for module in report.modules],
        **_operators(account),
        "times": {
            "module": [timing.module for timing in report.times],
            "phase": [timing.phase.value for timing in report.times],
            "samples_ns": [list(timing.samples_ns) for timing in report.times],
        },
        "totals": {"local": _totals(account.totals), "global": _or_none(_totals, account.global_totals)},
        "params": _params(account.params),
        "coverage": _coverage(account.coverage),
        "by_module": _by_module(account),
        "throughput": _or_none(_throughput, account.throughput),
        "throughput_note": account.throughput_note,
        "roofline": _or_none(_roofline, account.roofline),
        "utilization": _or_none(_utilization, account.utilization),
        "prediction": _or_none(_prediction, account.prediction),
        "findings": list(findings(account)),
    }
    return cast(FlopsDocument, document)


def _or_none(write: Callable[[Any], Columns], value: object) -> Columns | None:
    return None if value is None else write(value)


def _fields(value: object, names: Sequence[str]) -> Columns:
    return {name: getattr(value, name) for name in names}


_module_fields = attrgetter(*MODULE)


def _module(module: Module) -> Columns:
    row = dict(zip(MODULE, _module_fields(module), strict=True))
    row["aliases"] = list(module.aliases)
    return row


def _operators(account: Account) -> Columns:
    """Distinct costs, distinct signatures, and the calls as columns that name them."""
    report = account.report
    every = {"ops": (report.ops, account.cols), "global_ops": (report.global_ops, account.global_cols)}
    number: dict[tuple[str, str, int], int] = {}
    costs: list[Cost] = []
    found: Columns = {}
    names = [phase.value for phase in PHASES]
    for name, (ops, cols) in every.items():
        if cols is None:
            found[name] = {"module": [], "phase": [], "signature": [], "calls": []}
            continue
        keys = list(
            zip(
                map(attrgetter("op"), ops),
                map(attrgetter("signature"), ops),
                (cols.cost_K + len(costs)).tolist(),
                strict=True,
            )
        )
        costs += cols.costs
        number |= {key: index for index, key in enumerate(dict.fromkeys(keys), len(number))}
        modules, phases = np.divmod(cols.key_K, len(PHASES))
        found[name] = {
            "module": modules.tolist(),
            "phase": list(map(names.__getitem__, phases.tolist())),
            "signature": list(map(number.__getitem__, keys)),
            "calls": cols.calls_K.tolist(),
        }
    return {
        "costs": [_fields(cost, COST) | {"kind": cost.kind.value, "status": cost.status.value} for cost in costs],
        "signatures": [{"op": op, "signature": text, "cost": cost} for op, text, cost in number],
        **found,
    }


def _tally(tally: Tally) -> Columns:
    return _fields(tally, COUNTED) | {"intensity": tally.intensity}


def _totals(step: Totals) -> Columns:
    return {
        "flops": step.flops,
        "full_flops": step.full_flops,
        "executed_flops": step.executed_flops,
        "vector_flops": step.vector_flops,
        "macs": step.flops // 2,
        "moved_bytes": step.moved_bytes,
        "by_phase": {phase.value: _tally(tally) for phase, tally in step.by_phase.items()},
    }


def _params(found: Params) -> Columns:
    return _fields(found, tuple(Params.__dataclass_fields__))


def _coverage(found: Coverage) -> Columns:
    return {
        "calls": found.calls,
        "moved_bytes": found.moved_bytes,
        "time": found.time,
        "calls_of_status": {status.value: calls for status, calls in found.calls_of_status.items()},
        "flops_of_status": {status.value: flops for status, flops in found.flops_of_status.items()},
        "unattributed_ns": found.unattributed_ns,
        "unknown": [_fields(op, ("op", "calls", "moved_bytes", "note")) for op in found.unknown],
    }


def _by_module(account: Account) -> Columns:
    """Columns: one entry a module and phase in which anything ran or took time, in it or below it."""
    own, whole = account.own, account.whole
    own_MPS, whole_MPS, timed = _times(account)
    there = whole.there_MP | timed
    modules, phases = np.nonzero(there)
    names = [phase.value for phase in PHASES]
    return {
        "module": modules.tolist(),
        "phase": [names[phase] for phase in phases.tolist()],
        "params": [account.module_params[module].total for module in modules.tolist()],
        "inclusive": _columns(whole.values_MPF[there], COUNTED),
        "exclusive": _columns(own.values_MPF[there], COUNTED),
        "inclusive_ns": None if whole_MPS is None else _spreads(whole_MPS[there]),
        "exclusive_ns": None if own_MPS is None else _spreads(own_MPS[there]),
    }


def _columns(values: Array, names: Sequence[str]) -> Columns:
    return {name: values[:, number].tolist() for number, name in enumerate(names)}


def _times(account: Account) -> tuple[Array | None, Array | None, Array]:
    """Samples [M, P, S] without and with children, None where nothing was timed; and [M, P] of what was."""
    report, samples = account.report, account.times.exclusive_samples
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


def _spreads(samples_KS: Array) -> Columns:
    """As `module_time.spread`, of every row."""
    ordered = np.sort(samples_KS, axis=1)
    num = ordered.shape[1]
    return {
        "median": ((ordered[:, (num - 1) // 2] + ordered[:, num // 2]) // 2).tolist(),
        "lowest": ordered[:, 0].tolist(),
        "highest": ordered[:, -1].tolist(),
        "samples": num,
    }


def _spread(found: Spread) -> Columns:
    return _fields(found, ("median", "lowest", "highest", "samples"))


def _throughput(found: Throughput) -> Columns:
    return _fields(found, tuple(Throughput.__dataclass_fields__))


_ROW = tuple(name for name in RooflineRow.__dataclass_fields__ if name not in ("path", "phase", "measured"))


def _lines(rows: Sequence[RooflineRow]) -> Columns:
    """Columns, one entry a row. above_ns, measured_ns (in the step of median length): null where nothing was timed."""
    values = zip(*map(attrgetter(*_ROW), rows), strict=True) if rows else ([] for _ in _ROW)
    return {name: list(column) for name, column in zip(_ROW, values, strict=True)} | {
        "phase": [row.phase.value for row in rows],
        "bound": [row.bound for row in rows],
        "measured_ns": [None if row.measured is None else row.measured.typical for row in rows],
        "above_ns": [row.above_ns for row in rows],
        "flops_per_s": [row.flops_per_s for row in rows],
    }


def _roofline(line: Roofline) -> Columns:
    return {
        "hardware": line.hardware,
        "bound_ns": line.bound_ns,
        "by_phase": {phase.value: bound for phase, bound in line.by_phase.items()},
        "exclusive": _lines(line.rows),
        "inclusive": _lines(line.inclusive),
        "flags": list(line.flags),
        "notes": list(line.notes),
    }


def _utilization(found: Utilization) -> Columns:
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


def _prediction(found: Prediction) -> Columns:
    return {
        "hardware": found.hardware,
        "bound_ns": found.bound_ns,
        "predicted_ns": found.predicted_ns,
        "by_phase": {
            phase.value: {"bound_ns": bound, "predicted_ns": likely}
            for phase, (bound, likely) in found.by_phase.items()
        },
        "tokens_per_s": None if (rate := found.tokens_per_s()) is None else rate[0],
        "param_bytes": found.param_bytes,
        "fits": found.fits,
        "assumptions": list(found.assumptions),
    }
