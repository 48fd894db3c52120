"""What did each module, each phase and the whole model cost? Sums of a report's operators, exact integers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Annotated

from msgspec import Meta

from weftrace.costs.cost import COUNTED, NOTHING, PHASES, Phase, Tally
from weftrace.errors import FlopsError
from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED
from weftrace.flops.derived.columns import Columns, SumTable, columns, sums, with_children
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook, in_words
from weftrace.units import si, size

Key = tuple[int, Phase]  # index into FlopsReport.modules, and when

MODEL_PHASES = (Phase.FORWARD, Phase.BACKWARD)
"""Where work for the model's sake is done. Recomputation is executed, not needed; an optimizer's is not the model's."""

LOCAL, GLOBAL = "local", "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals(InNotebook):
    """The four FLOP totals and the bytes of one step.

    by_phase: phase -> sums over all modules and "(outside)"; only phases in which anything ran.
    model: sums over forward and backward. step: over all phases.
    flops, full_flops: of `model`. executed_flops, vector_flops, moved_bytes: of `step`, recomputation and optimizer
        included. Matrix and vector FLOPs are never added.
    partial: of global totals, why they are less than the work of all ranks; "" where they are not.
    """

    by_phase: Mapping[Phase, Tally]
    model: Annotated[Tally, UNSAVED]
    step: Annotated[Tally, UNSAVED]
    partial: Annotated[str, UNSAVED] = ""

    @property
    def flops(self) -> Annotated[Count, Meta(description="Model FLOPs, forward and backward; causal attention exact.")]:
        return self.model.flops

    @property
    def full_flops(
        self,
    ) -> Annotated[Count, Meta(description="The same, attention over all pairs (PaLM's convention).")]:
        return self.model.full_flops

    @property
    def executed_flops(
        self,
    ) -> Annotated[Count, Meta(description="Executed on matrix units in all phases, recomputation included.")]:
        return self.step.executed_flops

    @property
    def vector_flops(
        self,
    ) -> Annotated[Count, Meta(description="Off the matrix units, all phases; never added to the others.")]:
        return self.step.vector_flops

    @property
    def macs(self) -> Annotated[Count, Meta(description="Half of flops.")]:
        return self.flops // 2

    @property
    def moved_bytes(self) -> Annotated[Count, Meta(description="Bytes read and written, all phases.")]:
        return self.step.moved_bytes

    def _describe(self) -> Iterable[tuple[str, str]]:
        for name in ("flops", "full_flops", "executed_flops", "vector_flops", "moved_bytes"):
            yield name, in_words(getattr(self, name), name)
        for phase, tally in self.by_phase.items():
            yield str(phase), f"{si(tally.flops, 'FLOP')}, {size(tally.moved_bytes)}"
        if self.partial:
            yield "partial", in_words(self.partial)


def exclusive(report: FlopsReport, scope: str = LOCAL) -> dict[Key, Tally]:
    """(module, phase) -> what ran in the module itself, outside its children. A key is there where any operator ran.

    scope: "local", what this rank (the merged ranks together) executes; "global", the work of all ranks: the operators
    counted on global shapes, which are those of one replica, times the replicas; without any, local work times
    `global_factor`. Raises `FlopsError` where scope
    is neither, or the global work cannot be known.
    """
    return tallies(sum_table(report, scope))


def inclusive(report: FlopsReport, scope: str = LOCAL) -> dict[Key, Tally]:
    """(module, phase) -> what ran in the module and below it: exactly its own and its children's sums."""
    return tallies(with_children(report, sum_table(report, scope)))


def total(report: FlopsReport, phases: Iterable[Phase] | None = None, scope: str = LOCAL) -> Tally:
    """Sums over all modules and "(outside)" in these phases; None: in all of them."""
    return total_of(exclusive(report, scope), phases)


def total_of(found: Mapping[Key, Tally], phases: Iterable[Phase] | None = None) -> Tally:
    """The same, of what `exclusive` returned."""
    wanted = frozenset(PHASES if phases is None else phases)
    return _sum(tally for (_, phase), tally in found.items() if phase in wanted)


def totals(report: FlopsReport, scope: str = LOCAL) -> Totals:
    """The totals of one step on one rank (scope "local"), or of all ranks ("global"): `Totals.partial` says where those
    are not whole."""
    partial = report.global_partial if scope == GLOBAL else ""
    return replace(totals_of(sum_table(report, scope)), partial=partial)


def totals_of(table: SumTable, factor: int = 1) -> Totals:
    """The same, of exclusive sums; `factor` times them."""
    by_phase: dict[Phase, Tally] = {}
    for number, phase in enumerate(PHASES):
        if table.there_MP[:, number].any():
            by_phase[phase] = _tally([factor * value for value in table.values_MPF[:, number].sum(axis=0).tolist()])
    return Totals(
        by_phase=by_phase,
        model=_sum(by_phase.get(phase, NOTHING) for phase in MODEL_PHASES),
        step=_sum(by_phase.values()),
    )


def global_factor(report: FlopsReport) -> int:
    """By how much the work of all ranks exceeds the local work of a report that has no global operators.

    One rank: the data-parallel replicas, which do the same. Merged ranks: the world over the merged ranks; 1 where the
    report tells of no more ranks than were merged. Raises `FlopsError` where that is no whole number.
    """
    if report.ranks == 1:
        return report.parallel.data
    if report.parallel.world % report.ranks and report.parallel.world > report.ranks:
        raise FlopsError(
            f"{report.name}: {report.ranks} of {report.parallel.world} ranks were merged; the work of all "
            "ranks is not known from a part that does not divide them. Merge every rank, or ask for the local work"
        )
    return max(1, report.parallel.world // report.ranks)


def children_of(report: FlopsReport) -> dict[int | None, list[int]]:
    """Index of a module -> those of its children, in order; None -> the root and "(outside)"."""
    children: dict[int | None, list[int]] = {}
    for index, module in enumerate(report.modules):
        children.setdefault(module.parent, []).append(index)
    return children


def sum_table(report: FlopsReport, scope: str = LOCAL) -> SumTable:
    """What `exclusive` returns, as arrays."""
    if scope == LOCAL:
        return sums(report, columns(report.ops))
    if scope != GLOBAL:
        raise FlopsError(f"no scope {scope!r}; choose from {LOCAL!r} and {GLOBAL!r}")
    if report.global_ops:
        return global_sums(report, columns(report.global_ops))
    return sums(report, columns(report.ops), global_factor(report))


def global_sums(report: FlopsReport, cols: Columns) -> SumTable:
    """The work of all ranks, of the operators that were counted on global shapes."""
    return sums(report, cols, report.parallel.data)  # DTensors have a replica's shapes


def tallies(table: SumTable) -> dict[Key, Tally]:
    """The same as values."""
    return {key: _tally(row) for key, row in zip(table.keys(), table.rows(), strict=True)}


def _tally(row: list[int]) -> Tally:
    return Tally(**dict(zip(COUNTED, row, strict=True)))


def _sum(parts: Iterable[Tally]) -> Tally:
    return reduce(Tally.plus, parts, NOTHING)
