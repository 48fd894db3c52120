"""Both runs under common names: phases, operators and kernels, each by name first and what is left by rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from weftrace.comparison.alignment.name_rules import KERNEL_RULES, OPERATOR_RULES, PHASE_RULES
from weftrace.comparison.alignment.partners import Evidence, Partners, partners
from weftrace.comparison.sides import Side, renamed
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Alignment(InNotebook):
    """Names that differ in the two runs and are taken for one. All others are aligned by name.

    kernels, operators, phases: partners, each with the rule that matched them. Where several of a side are summed, the
    name has … where they differ.
    """

    kernels: tuple[Partners, ...] = ()
    operators: tuple[Partners, ...] = ()
    phases: tuple[Partners, ...] = ()

    def of(self, label: str) -> tuple[Partners, ...]:
        """Those of "kernel", "operator" or "phase"; of any other label none."""
        return {"kernel": self.kernels, "operator": self.operators, "phase": self.phases}.get(label, ())

    def _describe(self) -> Iterator[tuple[str, str]]:
        for label, found in (("kernels", self.kernels), ("operators", self.operators), ("phases", self.phases)):
            yield f"{label} matched by rule", str(len(found))


def aligned(before: Side, after: Side) -> tuple[Side, Side, Alignment]:
    """Both sides under the names by which they are aligned, and which these are."""
    sides = (before, after)
    found: dict[str, tuple[Partners, ...]] = {}
    for label, rules in (("phase", PHASE_RULES), ("operator", OPERATOR_RULES)):
        one, other = (dict.fromkeys(_names(side, label), Evidence()) for side in sides)
        found[label] = partners(one, other, rules)
    sides = _renamed(sides, found)
    kernels = partners(_kernels(sides[0]), _kernels(sides[1]), KERNEL_RULES)
    sides = _renamed(sides, {"kernel": kernels})
    return *sides, Alignment(kernels=kernels, operators=found["operator"], phases=found["phase"])


def _names(side: Side, label: str) -> list[str]:
    return side.shares.get_column(label).drop_nulls().unique().sort().to_list()


def _kernels(side: Side) -> dict[str, Evidence]:
    """Each kernel with its class and the operators that launch it."""
    rows = (
        side.shares.filter(pl.col("kernel").is_not_null())
        .group_by("kernel")
        .agg(pl.col("kind", "family").drop_nulls().min(), pl.col("operator").drop_nulls().unique())
    )
    return {
        kernel: Evidence(group=(kind, family), operators=frozenset(operators))
        for kernel, kind, family, operators in rows.iter_rows()
    }


def _renamed(sides: tuple[Side, Side], found: Mapping[str, Sequence[Partners]]) -> tuple[Side, Side]:
    names: tuple[dict[str, dict[str, str]], ...] = ({}, {})
    for label, each in found.items():
        names[0][label] = {name: one.name for one in each for name in one.before}
        names[1][label] = {name: one.name for one in each for name in one.after}
    return renamed(sides[0], names[0]), renamed(sides[1], names[1])
