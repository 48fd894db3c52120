"""A run as it is compared: of each rank the time of each step, shared out among kernels, and what its file says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from weftrace.analysis.arrival_times import ARRIVAL_SCHEMA
from weftrace.analysis.findings import AdviceReport
from weftrace.analysis.step_shares import StepShares
from weftrace.notebook import InNotebook
from weftrace.trace.job import Failure
from weftrace.trace.kernels import KernelRules
from weftrace.trace.work import Basis, Work

if TYPE_CHECKING:  # traces are compared without that wing
    from weftrace.advice.findings.advising import RankAdvice


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RankRun(InNotebook):
    """One device of one rank. Times in ns.

    shares: a frame of `SHARE_SCHEMA`; own_ns adds up to each step's window exactly. windows: step, start_ns, end_ns
    (absolute) of each step; empty without steps. span_ns: from the first device start to the last end.
    waits: rows that split waiting for late ranks from shares (`waiting_shares`); None where that is not known: of a
    single rank, or where no two share a collective. shared: shares with when communication ran; with arrivals, at its
    collectives, what lateness is told from; None of a saved report's.
    name, places: see `RankAnalysis`.
    num_merged: rows that a saved report has merged, its smallest ones.
    seam_ns: how far the ends of windows may be off (`StepShares`).
    shapes: calls of operators by shapes and step, a frame of `STEP_SHAPES`; without steps in a saved report's; None
    where no operators tell them.
    facts: what the file says of device, versions and settings, by name (`facts_of`). work: all of it, where a page
    needs it again; saved: in its place a saved report's rank, which holds lanes. steps_by: what ranges of the host are
    called that stand for steps (`with_steps`); None where a profiler recorded steps, or there are none. rules: by which
    its kernels were classed, weftrace's own where None: a page that reads its file again needs them. advised: what the
    rules of advice found on it, until that of all ranks is put together.
    """

    rank: int | None
    device: int | None
    world_size: int | None
    path: str
    basis: Basis
    simulated: bool
    span_ns: int
    shares: pl.DataFrame
    windows: pl.DataFrame
    arrivals: pl.DataFrame = field(default_factory=partial(pl.DataFrame, schema=ARRIVAL_SCHEMA))
    shared: StepShares | None = None
    waits: pl.DataFrame | None = None
    name: str = ""
    places: tuple[tuple[str, int], ...] = ()
    seam_ns: int | None = None
    shapes: pl.DataFrame | None = None
    num_merged: int = 0
    facts: dict[str, str] = field(default_factory=dict)
    work: Work | None = None
    saved: Mapping[str, Any] | None = None
    steps_by: str | None = None
    rules: KernelRules | None = None
    advised: RankAdvice | None = None

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(self.windows.get_column("step").to_list())

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rank", "–" if self.rank is None else str(self.rank)
        yield "steps", str(len(self.steps))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Run(InNotebook):
    """One of the two runs that are compared: a trace, a job of many ranks, or what a saved report holds of them.

    ranks: in order of rank, then device, without those that count in no sum of their job (`apart_of`). failures: files
    that could not be used. notes: what is missing or left out, and how lateness was told. advice: its findings; None
    where nothing was looked for, or something else than these ranks was.
    """

    source: str
    ranks: tuple[RankRun, ...]
    failures: tuple[Failure, ...] = ()
    notes: tuple[str, ...] = ()
    advice: AdviceReport | None = None

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "ranks", str(len(self.ranks))
        yield from (("", note) for note in self.notes)
