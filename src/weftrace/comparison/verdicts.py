"""May the two runs be compared, and may a cause be told? What both say of themselves, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from weftrace.comparison.sides import Side

#: "not comparable" refuses to state a cause; "within the noise" is said where the runs are comparable.
Word = Literal["comparable", "comparable, but", "not comparable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether what follows may be read as the effect of a change.

    reasons: what differs, a sentence each, the gravest first. facts: (name, of the one, of the other) of all that both
    or either say of themselves: device, dtypes, ranks, shapes, steps, versions.
    """

    word: Word
    reasons: tuple[str, ...] = ()
    facts: tuple[tuple[str, str, str], ...] = ()


def verdict_of(before: Side, after: Side) -> Verdict:
    """Judge two sides."""
    facts = (("ranks", _ranks(before), _ranks(after)),)
    if not before.ranks:
        return Verdict(word="not comparable", reasons=("no rank is in both",), facts=facts)
    alone = before.ranks[0].rank, after.ranks[0].rank
    if len(before.ranks) == 1 and None not in alone and alone[0] != alone[1]:
        reason = f"different ranks: the one is rank {alone[0]}, the other rank {alone[1]}"
        return Verdict(word="not comparable", reasons=(reason,), facts=facts)
    return Verdict(word="comparable", facts=facts)


def _ranks(side: Side) -> str:
    return ", ".join("unknown" if rank.rank is None else str(rank.rank) for rank in side.run.ranks[:8])
