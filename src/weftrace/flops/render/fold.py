"""Which modules stand in one row? Siblings that cost the same: 24 identical layers are one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weftrace.costs.cost import Phase
from weftrace.flops.derived.account import Account
from weftrace.flops.derived.roofline import BoundName, RooflineRow

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class TreeRow:
    """Neighbouring siblings that are alike: indices into `FlopsReport.modules`, and their level of the tree.

    label: "layers", "0–23"; the indices' first module stands for all of them.
    """

    members: tuple[int, ...]
    depth: int
    label: str

    @property
    def first(self) -> int:
        return self.members[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Above:
    """Modules that are alike, in one phase: their time above the roofline, together, ns. path: of all of them, as
    `repeated_modules` has it. kind: what bounds them; None without any bound."""

    path: str
    phase: Phase
    measured_ns: int
    bound_ns: float
    above_ns: float
    kind: BoundName | None


def worst_of(account: Account, k: int) -> list[Above]:
    """The k sets of modules that are alike with most time above their roofline, children not counted."""
    if account.roofline is None:
        return []
    labels = {index: label for label, members in repeated_modules(account) for index in members}
    found: dict[tuple[str, Phase], list[RooflineRow]] = {}
    for row in account.roofline.exclusive:
        if row.measured is not None:
            found.setdefault((labels[row.module], row.phase), []).append(row)
    sums = [
        Above(
            path=label,
            phase=phase,
            measured_ns=sum(row.measured.typical for row in rows if row.measured is not None),
            bound_ns=sum(row.bound_ns for row in rows),
            above_ns=sum(row.above_ns or 0.0 for row in rows),
            kind=rows[0].bound if rows[0].bound_ns else None,
        )
        for (label, phase), rows in found.items()
    ]
    return sorted((each for each in sums if each.above_ns > 0), key=lambda each: -each.above_ns)[:k]


def tree_rows(account: Account, *, depth: int | None = None, fold: bool = True) -> list[TreeRow]:
    """The tree, depth first, down to `depth` levels (0: the root alone), with neighbours that are alike folded."""
    rows = list[TreeRow]()

    def walk(siblings: Sequence[int], level: int) -> None:
        for members in _runs(siblings, account.repeated, fold):
            rows.append(TreeRow(members=members, depth=level, label=_label(account, members)))
            if depth is None or level < depth:
                walk(account.children.get(members[0], ()), level + 1)

    walk(account.children.get(None, ()), 0)
    return rows


def _runs(siblings: Sequence[int], kinds: Sequence[int], fold: bool) -> list[tuple[int, ...]]:
    runs: list[list[int]] = []
    for index in siblings:
        if fold and runs and kinds[runs[-1][0]] == kinds[index]:
            runs[-1].append(index)
        else:
            runs.append([index])
    return [tuple(run) for run in runs]


def _label(account: Account, members: tuple[int, ...]) -> str:
    first, last = (account.report.modules[index].name for index in (members[0], members[-1]))
    if not first:
        return account.report.name
    return first if len(members) == 1 else f"{first}–{last}"


def repeated_modules(account: Account) -> list[tuple[str, tuple[int, ...]]]:
    """(label, modules): modules anywhere in the tree whose paths differ in numbers alone and whose costs do not differ.

    The label has "*" for a number that differs: "layers.*.mlp ×24".
    """
    groups = dict[tuple[str, int], list[int]]()
    for index, module in enumerate(account.report.modules):
        groups.setdefault((_NUMBER.sub("*", module.path), account.repeated[index]), []).append(index)
    return [(_common(account, members), tuple(members)) for members in groups.values()]


def _common(account: Account, members: Sequence[int]) -> str:
    module = account.report.modules[members[0]]
    paths = [account.report.modules[index].path.split(".") for index in members]
    path = ".".join(part[0] if len(set(part)) == 1 else "*" for part in zip(*paths, strict=True))
    label = f"{path or account.report.name} {module.class_name}".strip()
    return label if len(members) == 1 else f"{label} ×{len(members)}"
