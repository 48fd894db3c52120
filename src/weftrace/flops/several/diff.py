"""What changed between two reports? FLOPs, parameters, bytes and time of each module and phase, by path.

Counts are compared exactly. Times are compared by their medians, and a change is one only where the spreads of the two
do not overlap; a time with one sample has no known spread, so a change of it is never counted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.costs.cost import NOTHING, PHASES, Phase
from weftrace.errors import SpecError
from weftrace.files.values import As
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.module_time import Spread
from weftrace.flops.derived.params import Params
from weftrace.flops.values import FlopsReport
from weftrace.notebook import InNotebook, in_words

COUNTS = ("flops", "full_flops", "executed_flops", "vector_flops", "moved_bytes")
PARAMS = tuple(Params.__dataclass_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(InNotebook):
    """One number of a place in two reports, that of the second after that of the first.

    path: of a module, its children included; None for the whole model ("(outside)" included). phase: None for
    parameters and for the whole step. quantity: "flops", ..., "moved_bytes" (`COUNTS`); "params_total", ...
    (`PARAMS`); "time_ns".
    before, after: None where the place is in one report alone. is_within_spread: a time that differs by no more than
    its spread, or by an unknown spread.
    """

    path: Annotated[str | None, Meta(description="Of a module, children included; null: the whole model.")]
    phase: Annotated[Phase | None, Meta(description="null: parameters, and the whole step.")]
    quantity: str
    before: Annotated[int | None, Meta(description="null: not in the first report.")]
    after: Annotated[int | None, Meta(description="null: not in the second report.")]
    is_within_spread: Annotated[bool, Meta(description="A time that differs by no more than its spread.")] = False

    @property
    def relative(
        self,
    ) -> Annotated[
        float,
        As(float | None, save=lambda ratio: ratio if math.isfinite(ratio) else None),
        Meta(description="(after - before) / before; null where before is 0 and after is not."),
    ]:
        """(after - before) / before; infinite where before is 0 and after is not. A missing number counts as 0."""
        before, after = self.before or 0, self.after or 0
        if before == after:
            return 0.0
        return (after - before) / before if before else math.inf

    @property
    def is_change(self) -> bool:
        return self.before != self.after and not self.is_within_spread


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopsDiff(InNotebook):
    """Differences of two reports of a model.

    names: of the two reports. model: numbers of the whole model, by phase and altogether, changed or not. modules:
    those of single modules that changed (added and removed modules have no entries here). added, removed: paths in the
    second or the first report alone. notes: why some numbers can not be compared.
    """

    names: Annotated[tuple[str, str], Meta(description="Of the two reports.")]
    model: Annotated[tuple[Change, ...], Meta(description="Numbers of the whole model, changed or not.")]
    modules: Annotated[tuple[Change, ...], Meta(description="Numbers of single modules that changed.")]
    added: Annotated[tuple[str, ...], Meta(description="Paths in the second report alone.")]
    removed: Annotated[tuple[str, ...], Meta(description="Paths in the first report alone.")]
    notes: Annotated[tuple[str, ...], Meta(description="Why some numbers cannot be compared.")]

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "of", " → ".join(map(in_words, self.names))
        yield "same", in_words(self.is_same)
        for change in (each for each in self.model if each.is_change):
            where = change.quantity if change.phase is None else f"{change.quantity}, {change.phase}"
            yield where, f"{in_words(change.before)} → {in_words(change.after)}"
        yield "modules", f"{len(self.added):,} new, {len(self.removed):,} gone, {len(self.modules):,} numbers changed"

    @property
    def is_same(self) -> Annotated[bool, Meta(description="Every count, parameter and module agrees.")]:
        """Whether every count, parameter and module agrees; times may differ within their spread."""
        return not (self.added or self.removed or self.modules or any(change.is_change for change in self.model))

    def above(self, fraction: float) -> tuple[Change, ...]:
        """The model's numbers that changed by more than a fraction: counts and parameters either way, times up."""
        return tuple(
            change
            for change in self.model
            if change.is_change
            and (change.relative if change.quantity == "time_ns" else abs(change.relative)) > fraction
        )

    def exceeds(self, fraction: float) -> bool:
        """Whether any number of the whole model changed by more than a fraction (0.01: 1 %); see `above`."""
        return bool(self.above(fraction))

    def ranked(self) -> tuple[Change, ...]:
        """The changes of modules, the largest relative ones first."""
        return tuple(sorted(self.modules, key=lambda change: -abs(change.relative)))


def diff(before: FlopsReport | Account, after: FlopsReport | Account) -> FlopsDiff:
    """What the second has that the first has not, and how their local numbers differ."""
    one, other = account_of(before), account_of(after)
    a, b = one.report, other.report
    index_a = {module.path: index for index, module in enumerate(a.modules)}
    index_b = {module.path: index for index, module in enumerate(b.modules)}
    return FlopsDiff(
        names=(a.name, b.name),
        model=_model(one, other),
        modules=_modules(one, other, index_a, index_b),
        added=tuple(path for path in index_b if path not in index_a),
        removed=tuple(path for path in index_a if path not in index_b),
        notes=_notes(a, b, index_a, index_b),
    )


def parse_fraction(text: str) -> float:
    """0.01 from "1%", "1 %" or "0.01". Raises `SpecError` where it is neither, or below 0."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(%?)\s*", text)
    if match is None:
        raise SpecError(f"{text!r} is no fraction; write it as 1% or as 0.01")
    return float(match[1]) / (100 if match[2] else 1)


def _model(a: Account, b: Account) -> tuple[Change, ...]:
    changes = _numbers(None, None, COUNTS, a.totals, b.totals)
    for phase in PHASES:
        if phase in a.totals.by_phase or phase in b.totals.by_phase:
            before, after = (each.totals.by_phase.get(phase, NOTHING) for each in (a, b))
            changes += _numbers(None, phase, COUNTS, before, after)
    changes += _numbers(None, None, PARAMS, a.params, b.params, "params_")
    changes += _time(None, None, a.step, b.step)
    for phase in PHASES:
        changes += _time(None, phase, a.times.by_phase.get(phase), b.times.by_phase.get(phase))
    return tuple(changes)


def _modules(a: Account, b: Account, index_a: Mapping[str, int], index_b: Mapping[str, int]) -> tuple[Change, ...]:
    changes = []
    for path in (path for path in index_a if path in index_b):
        at, to = index_a[path], index_b[path]
        changes += _numbers(path, None, PARAMS, a.module_params[at], b.module_params[to], "params_")
        for phase in PHASES:
            one, other = a.inclusive.get((at, phase), NOTHING), b.inclusive.get((to, phase), NOTHING)
            if one is not other:
                changes += _numbers(path, phase, COUNTS, one, other)
            changes += _time(path, phase, a.times.inclusive.get((at, phase)), b.times.inclusive.get((to, phase)))
    return tuple(change for change in changes if change.is_change)


def _numbers(
    path: str | None, phase: Phase | None, names: Sequence[str], before: object, after: object, start: str = ""
) -> list[Change]:
    """A change of each of these attributes. start: what the quantity's name begins with."""
    return [
        Change(path=path, phase=phase, quantity=start + name, before=getattr(before, name), after=getattr(after, name))
        for name in names
    ]


def _time(path: str | None, phase: Phase | None, before: Spread | None, after: Spread | None) -> list[Change]:
    """A change of time, where both reports have one: what one of them did not time has not changed."""
    if before is None or after is None:
        return []
    overlap = before.lowest <= after.highest and after.lowest <= before.highest
    return [
        Change(
            path=path,
            phase=phase,
            quantity="time_ns",
            before=before.median,
            after=after.median,
            is_within_spread=overlap or min(before.samples, after.samples) < 2,
        )
    ]


def _notes(a: FlopsReport, b: FlopsReport, index_a: Mapping[str, int], index_b: Mapping[str, int]) -> tuple[str, ...]:
    notes = []
    for what in ("name", "device", "tf32", "samples", "tokens", "parallel", "ranks", "micro_batches", "torch_version"):
        before, after = getattr(a, what), getattr(b, what)
        if before != after:
            notes.append(f"{what} differs: {before!r} and {after!r}.")
    for path in index_a.keys() & index_b.keys():
        before, after = a.modules[index_a[path]].class_name, b.modules[index_b[path]].class_name
        if before != after:
            notes.append(f"{path or 'the root'} was a {before} and is a {after}.")
    if bool(a.times) != bool(b.times):
        notes.append("One of the reports was not timed: times are not compared.")
    elif a.times and min(a.clock.steps, b.clock.steps) < 2:
        notes.append("One step was timed: its spread is unknown, so no change of a time counts.")
    return tuple(notes)
