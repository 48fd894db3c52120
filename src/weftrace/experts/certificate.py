"""How good is a placement, and what keeps it from being better?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from weftrace.experts.arrays import Bools, Floats
from weftrace.files.schemas import Amount, Fraction
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.units import percent

#: What holds most of the way from a layer's mean to what is achieved: see `Certificate`.
Binding = Literal["none", "replica granularity", "slots", "node partition", "duplicates", "constraints", "packing"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Certificate(InNotebook):
    """A placement's quality, for the loads that it was made for, against a bound that no placement under the same rules
    can beat. Times are load units over speed.

    is_optimal_L: achieved equals the bound (to 1e-9 of it), so it is proved that nothing better exists.
    binding_L: what holds most of the way from the layer's mean to what is achieved: "none" (within
        1e-9 of the mean); "slots" (the largest replica under the best counts is above the mean; more slots would cure
        it); "duplicates" (the same, but the hottest expert has a copy on every GPU already); "node partition" (groups
        may not leave their node); "constraints" (pins, or GPUs with few slots); "replica granularity" (the bound is
        above the mean because replicas are whole); "packing" (the bound is nearer, and the search did not reach it).
    target: the balancedness of `slots_for_target`, 0.99.
    slots_for_target: smallest number of slots, a multiple of the GPUs, whose lower bound on the maximum lets the mean
        balancedness reach the target: fewer cannot; None where no number up to one copy of each expert a GPU does.
    """

    mean_L: Annotated[
        Floats,
        As(list[Amount]),
        Meta(description="[L] what perfect balance would give every GPU in service, sum of loads / sum of speeds."),
    ]
    bound_L: Annotated[
        Floats, As(list[Amount]), Meta(description="[L] no placement under the same rules has a lower maximum.")
    ]
    achieved_L: Annotated[Floats, As(list[Amount]), Meta(description="[L] maximum over the GPUs of load / speed.")]
    is_optimal_L: Annotated[Bools, As(list[bool])]
    binding_L: Annotated[tuple[str, ...], As(list[Binding], read=tuple)]
    target: Fraction
    slots_for_target: Annotated[
        int | None, Meta(description="Fewer slots cannot reach the target; null if no number does.")
    ]

    @property
    def balancedness(self) -> Fraction:
        """Mean over layers of mean / achieved; 1 for layers of zeros."""
        return _ratio(self.mean_L, self.achieved_L)

    @property
    def bound_balancedness(self) -> Fraction:
        """Mean over layers of mean / bound: no placement under the same rules has a higher balancedness."""
        return _ratio(self.mean_L, self.bound_L)

    @property
    def gap(self) -> Annotated[Amount, Meta(description="Largest achieved / bound - 1.")]:
        """Largest achieved / bound - 1 of any layer: how much a better placement could at most save."""
        sane_L = self.bound_L > 0
        return float((self.achieved_L[sane_L] / self.bound_L[sane_L] - 1).max(initial=0.0))

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "balancedness", f"{self.balancedness:.4f}"
        yield "no placement exceeds", f"{self.bound_balancedness:.4f}"
        yield "largest gap to the bound", percent(self.gap, 3)
        yield "proved optimal", f"{int(self.is_optimal_L.sum()):,} of {len(self.mean_L):,} layers"
        for name, number in Counter(self.binding_L).most_common():
            yield f"held back by {name}", f"{number:,} layers"
        needed = "no number of slots" if self.slots_for_target is None else f"{self.slots_for_target:,} slots or more"
        yield f"a balancedness of {self.target}", needed


def _ratio(part_L: Floats, whole_L: Floats) -> float:
    sane = whole_L > 0
    return float((part_L[sane] / whole_L[sane]).sum() + (~sane).sum()) / len(whole_L)
