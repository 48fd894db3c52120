"""What a trace with planted causes is, and what a right answer says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Case:
    """A trace that a program would leave, with one to three causes in it; or none: it is healthy.

    causes: ids of the rules that must be found. also_fine: ids that may be found besides, because they are true too.
    write: writes the trace into a folder; returns the file, or the folder where it is a job's.
    gain: share of the recorded span that is saved where that cause alone is removed, as the simulation has it; a rule
    that promises none is left out. all_gain: the same, all causes removed.
    """

    name: str
    causes: frozenset[str]
    also_fine: frozenset[str]
    write: Callable[[Path], Path]
    gain: Mapping[str, float]
    all_gain: float

    def __str__(self) -> str:
        return self.name
