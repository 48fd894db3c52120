"""A report's operators as arrays, so that many thousands are summed in milliseconds, and exactly.

K operators, C distinct costs, M modules, P phases (in the order of `PHASES`). Sums are int64 where all of them fit,
which is found out beforehand, and Python's own integers where they do not: the work of a large model's step passes
2^63.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from weftrace.costs.cost import COUNTED, PHASES, Cost, Phase, tally_of
from weftrace.flops.values import FlopsReport, OpCount

Array = npt.NDArray[Any]
_NUMBER_OF_PHASE = {phase: number for number, phase in enumerate(PHASES)}
_SAFE = 2.0**62  # a sum in floats below this is an exact one below 2^63
_counted = attrgetter(*COUNTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """costs: the distinct ones, C. cost_K: which of them an operator has. key_K: its module * P + phase. calls_K."""

    costs: tuple[Cost, ...]
    cost_K: Array
    key_K: Array
    calls_K: Array

    def calls_C(self) -> list[int]:
        """Calls with each distinct cost, exactly."""
        fits = float(self.calls_K.astype(float).sum()) < _SAFE
        calls_C = np.zeros(len(self.costs), dtype=np.int64 if fits else object)
        np.add.at(calls_C, self.cost_K, self.calls_K)
        return [int(calls) for calls in calls_C]

    def calls_PC(self, ranks: int = 1) -> Array:
        """Calls in each phase with each distinct cost, over `ranks`; floats."""
        num_phases, num_costs = len(PHASES), max(1, len(self.costs))
        key_K = self.key_K % num_phases * num_costs + self.cost_K
        calls_K = self.calls_K.astype(float) / ranks
        return np.bincount(key_K, calls_K, num_phases * num_costs).reshape(num_phases, num_costs)


@dataclass(frozen=True, slots=True, kw_only=True)
class SumTable:
    """Sums by module and phase. values_MPF: F fields each; there_MP: whether any operator ran."""

    values_MPF: Array
    there_MP: Array

    def keys(self) -> list[tuple[int, Phase]]:
        """(module, phase) of every place where something ran, modules in order."""
        modules, phases = np.nonzero(self.there_MP)
        return [(module, PHASES[phase]) for module, phase in zip(modules.tolist(), phases.tolist(), strict=True)]

    def rows(self) -> list[list[int]]:
        """The fields at `keys`, as Python integers."""
        rows: list[list[int]] = self.values_MPF[self.there_MP].tolist()
        return rows


def columns(ops: Sequence[OpCount]) -> Columns:
    """The operators as arrays. Costs are told apart by identity: operators share them; equal ones do no harm twice."""
    costs = list(map(attrgetter("cost"), ops))
    ids = list(map(id, costs))
    distinct = dict(zip(ids, costs, strict=True))
    number = {identity: index for index, identity in enumerate(distinct)}
    calls = list(map(attrgetter("calls"), ops))
    module_K = np.fromiter(map(attrgetter("module"), ops), np.int64, len(calls))
    phase_K = np.fromiter(map(_NUMBER_OF_PHASE.__getitem__, map(attrgetter("phase"), ops)), np.int64, len(calls))
    fits = max(calls, default=0) < 2**63
    return Columns(
        costs=tuple(distinct.values()),
        cost_K=np.fromiter(map(number.__getitem__, ids), np.int64, len(ids)),
        key_K=module_K * len(PHASES) + phase_K,
        calls_K=np.array(calls, dtype=np.int64 if fits else object),
    )


def sums(report: FlopsReport, cols: Columns, factor: int = 1) -> SumTable:
    """The fields of a `Tally`, in their order, summed by module and phase: `factor` times what ran in each itself."""
    num_fields = len(COUNTED)
    table: list[tuple[int, ...]] = [_counted(tally_of(cost)) for cost in cols.costs] or [(0,) * num_fields]
    rough_CF = np.array([[float(value) for value in row] for row in table])
    top = float((rough_CF[cols.cost_K] * cols.calls_K.astype(float)[:, None]).sum(axis=0).max(initial=0)) * factor
    dtype: Any = np.int64 if top < _SAFE and rough_CF.max() < _SAFE else object
    num_modules, num_phases = len(report.modules), len(PHASES)
    values = np.zeros((num_modules * num_phases, num_fields), dtype=dtype)
    there = np.zeros(num_modules * num_phases, dtype=bool)
    if len(cols.key_K):
        order = np.argsort(cols.key_K, kind="stable")
        key_K = cols.key_K[order]
        each_KF = np.array(table, dtype=dtype)[cols.cost_K[order]] * cols.calls_K[order].astype(dtype)[:, None]
        starts = np.flatnonzero(np.concatenate(([True], key_K[1:] != key_K[:-1])))
        values[key_K[starts]] = np.add.reduceat(each_KF, starts, axis=0) * factor
        there[key_K[starts]] = True
    shape = (num_modules, num_phases)
    return SumTable(values_MPF=values.reshape(*shape, num_fields), there_MP=there.reshape(shape))


def with_children(report: FlopsReport, own: SumTable) -> SumTable:
    """Each module with all below it."""
    values, there = own.values_MPF.copy(), own.there_MP.copy()
    add_up(report, values)
    add_up(report, there)
    return SumTable(values_MPF=values, there_MP=there)


def add_up(report: FlopsReport, value_M: Array) -> None:
    """Add every module's values to its parent's, in place, so that each holds its own and all below (booleans: or).

    Children come after their parents: a pass backwards adds each when it is complete.
    """
    for index in range(len(report.modules) - 1, -1, -1):
        parent = report.modules[index].parent
        if parent is not None:
            value_M[parent] += value_M[index]
