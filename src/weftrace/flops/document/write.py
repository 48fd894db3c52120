"""A FLOPs report as its document: `types` says what each field is."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from msgspec import UNSET

from weftrace.costs.cost import COUNTED, PHASES, Cost
from weftrace.facts import Hardware
from weftrace.files.values import filled, to_document
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.columns import Array, Columns, add_up
from weftrace.flops.derived.findings import findings
from weftrace.flops.document.types import (
    SCHEMA,
    CallColumns,
    FlopsDocument,
    PlaceColumns,
    Signature,
    SpreadColumns,
    TallyColumns,
    TimeColumns,
)
from weftrace.flops.values import FlopsReport, OpCount
from weftrace.version import __version__


def flops_document(report: FlopsReport | Account, hardware: Hardware | str | None = None) -> dict[str, Any]:
    """A report as JSON-able values.

    hardware: the accelerator that roofline, utilization and prediction are of, by default the report's own where
    weftrace knows it; without one they are null. Utilization is null too where no step was timed. Raises `FlopsError`
    where times do not fit together.
    """
    account = account_of(report, hardware)
    report = account.report
    made = filled(
        FlopsDocument,
        report,
        account,
        global_partial=report.global_partial or UNSET,
        **_operators(account),
        times=TimeColumns(
            module=[timing.module for timing in report.times],
            phase=[timing.phase for timing in report.times],
            samples_ns=[list(timing.samples_ns) for timing in report.times],
        ),
        totals={"local": account.totals, "global": account.global_totals},
        by_module=_by_module(account),
        findings=tuple(findings(account)),
    )
    return {"schema": SCHEMA, "weftrace": __version__, **to_document(made)}


def _operators(account: Account) -> dict[str, Any]:
    """Distinct costs, distinct signatures, and the calls as columns that name them."""
    number: dict[tuple[str, str, int], int] = {}
    costs: list[Cost] = []

    def calls(ops: tuple[OpCount, ...], cols: Columns | None) -> CallColumns:
        if cols is None:
            return CallColumns(module=[], phase=[], signature=[], calls=[])
        names = zip(map(attrgetter("op"), ops), map(attrgetter("signature"), ops), strict=True)
        keys = [(*name, cost) for name, cost in zip(names, (cols.cost_K + len(costs)).tolist(), strict=True)]
        costs.extend(cols.costs)
        number.update({key: index for index, key in enumerate(dict.fromkeys(keys), len(number))})
        modules, phases = np.divmod(cols.key_K, len(PHASES))
        return CallColumns(
            module=modules.tolist(),
            phase=list(map(PHASES.__getitem__, phases.tolist())),
            signature=list(map(number.__getitem__, keys)),
            calls=cols.calls_K.tolist(),
        )

    ops = calls(account.report.ops, account.cols)
    global_ops = calls(account.report.global_ops, account.global_cols)
    return {"ops": ops, "global_ops": global_ops, "costs": costs, "signatures": [Signature(*key) for key in number]}


def _by_module(account: Account) -> PlaceColumns:
    """Columns: one entry a module and phase in which anything ran or took time, in it or below it."""
    own, whole = account.own, account.whole
    own_MPS, whole_MPS, timed = _times(account)
    there = whole.there_MP | timed
    modules, phases = np.nonzero(there)
    return {
        "module": modules.tolist(),
        "phase": [PHASES[phase] for phase in phases.tolist()],
        "params": [account.module_params[module].total for module in modules.tolist()],
        "inclusive": _tallies(whole.values_MPF[there]),
        "exclusive": _tallies(own.values_MPF[there]),
        "inclusive_ns": None if whole_MPS is None else _spreads(whole_MPS[there]),
        "exclusive_ns": None if own_MPS is None else _spreads(own_MPS[there]),
    }


def _tallies(values: Array) -> TallyColumns:
    return {name: values[:, number].tolist() for number, name in enumerate(COUNTED)}  # type: ignore[return-value]


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


def _spreads(samples_KS: Array) -> SpreadColumns:
    """As `module_time.spread`, of every row."""
    ordered = np.sort(samples_KS, axis=1)
    num = ordered.shape[1]
    return {
        "median": ((ordered[:, (num - 1) // 2] + ordered[:, num // 2]) // 2).tolist(),
        "lowest": ordered[:, 0].tolist(),
        "highest": ordered[:, -1].tolist(),
        "samples": num,
    }
