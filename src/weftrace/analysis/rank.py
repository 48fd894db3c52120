"""Everything that weftrace tells about one rank, and about a job of many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from weftrace.analysis.best_case import Headroom, headroom
from weftrace.analysis.busy_stretches import Stretches, stretches_of
from weftrace.analysis.clocks import ClockOffset, clock_offsets, collective_ends
from weftrace.analysis.data_quality import Quality, quality
from weftrace.analysis.hidden_communication import Overlap, overlap
from weftrace.analysis.idle_causes import IdleCauses, idle
from weftrace.analysis.kernel_times import KernelTable, kernel_table
from weftrace.analysis.lane_boxes import Lane, lanes
from weftrace.analysis.launch_delays import Queueing, queueing
from weftrace.analysis.operator_times import Operators, operators
from weftrace.analysis.phase_times import phase_means, phases
from weftrace.analysis.step_times import OutsideSteps, Step, outside_steps, steps
from weftrace.analysis.time_account import Breakdown, account_of
from weftrace.notebook import InNotebook
from weftrace.trace.job import Failure
from weftrace.trace.model import SmUnit, Trace
from weftrace.trace.work import Basis, StepBy, Work, as_work
from weftrace.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RankAnalysis(InNotebook):
    """All analyses of one device of one rank. See each part's type for what its numbers mean."""

    rank: int | None
    world_size: int | None
    device: int | None
    device_name: str
    num_sms: int | None
    sm_unit: SmUnit
    path: str
    basis: Basis
    step: int | None
    step_by: StepBy | None
    simulated: bool
    breakdown: Breakdown
    busy: Stretches  # when the device ran anything
    overlap: Overlap
    phases: pl.DataFrame
    phase_means: pl.DataFrame
    lanes: tuple[Lane, ...]
    kernels: KernelTable
    operators: Operators
    idle: IdleCauses
    queueing: Queueing
    headroom: Headroom
    steps: tuple[Step, ...]
    outside_steps: tuple[OutsideSteps, ...]
    quality: Quality
    collective_ends: pl.DataFrame

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "rank", "–" if self.rank is None else str(self.rank)
        yield "device", " ".join(str(part) for part in (self.device, self.device_name) if part not in (None, ""))
        yield from self.breakdown._told()
        yield "headroom", duration(self.headroom.headroom_ns)
        yield "quality", self.quality.verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Analysis(InNotebook):
    """A trace or a job, analysed.

    ranks: in order of rank, then device. failures: files that could not be used. clocks: offsets between ranks' clocks;
    empty for a single rank. notes: what is missing from the whole: ranks without a file, ranks with several.
    """

    source: str
    world_size: int | None
    ranks: tuple[RankAnalysis, ...]
    failures: tuple[Failure, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()
    notes: tuple[str, ...] = ()

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        for r in self.ranks:
            name = "rank unknown" if r.rank is None else f"rank {r.rank}"
            hidden = percent(r.breakdown.hidden_fraction)
            yield name, f"{duration(r.breakdown.span_ns)}, {hidden} of communication hidden"
        yield from ((failure.path, failure.error) for failure in self.failures)
        yield from (("", note) for note in self.notes)


def analyze_rank(source: Trace | Work) -> RankAnalysis:
    """Every analysis of one device. Raises TraceError when a Trace holds several devices: see `analyze`."""
    work = as_work(source)
    account = account_of(work)
    table = phases(account)
    kernels = kernel_table(work)
    return RankAnalysis(
        rank=work.trace.rank,
        world_size=work.trace.world_size,
        device=work.device,
        device_name="" if work.device is None else work.trace.device(work.device).name,
        num_sms=work.num_sms,
        sm_unit=work.sm_unit,
        path=work.trace.path,
        basis=work.basis,
        step=work.step,
        step_by=work.step_by,
        simulated=work.trace.simulated,
        breakdown=account.breakdown,
        busy=stretches_of(account.busy),
        overlap=overlap(account),
        phases=table,
        phase_means=phase_means(table),
        lanes=lanes(work),
        kernels=kernels,
        operators=operators(work),
        idle=idle(work),
        queueing=queueing(work),
        headroom=headroom(account),
        steps=steps(work),
        outside_steps=outside_steps(work),
        quality=quality(work, unnamed_share=kernels.unnamed_share),
        collective_ends=collective_ends(work),
    )


def by_rank(rank: RankAnalysis) -> tuple[bool, int, int, str]:
    """The key that puts ranks in order: by rank, unknown ones last, then device, then path."""
    return (rank.rank is None, rank.rank or 0, rank.device or 0, rank.path)


def collect(source: str, ranks: Iterable[RankAnalysis], failures: Iterable[Failure]) -> Analysis:
    """Ranks put together: in order, with the offsets of their clocks."""
    ordered = sorted(ranks, key=by_rank)
    ends: dict[int, pl.DataFrame] = {}
    for r in ordered:
        if r.rank is not None and not r.collective_ends.is_empty():
            ends.setdefault(r.rank, r.collective_ends)  # of two files or devices of one rank, the first
    return Analysis(
        source=source,
        world_size=next((r.world_size for r in ordered if r.world_size), None),
        ranks=tuple(ordered),
        failures=tuple(failures),
        clocks=clock_offsets(ends) if len(ends) > 1 else (),
        notes=tuple(_notes(ordered)),
    )


def _notes(ranks: list[RankAnalysis]) -> Iterator[str]:
    files = Counter(rank for rank, _ in {(r.rank, r.path) for r in ranks} if rank is not None)
    several = [rank for rank, count in sorted(files.items()) if count > 1]
    if several:
        yield f"several files say that they are rank {_listed(several)}: each is shown by itself"
    num_files = len({r.path for r in ranks})  # a process that drove several devices has one
    unknown = len({r.path for r in ranks if r.rank is None})
    if unknown and num_files > 1:
        said = (
            "file does not say its rank, and its name does"
            if unknown == 1
            else "files do not say their rank, and their names do"
        )
        yield f"{unknown:,} {said} not tell it"
    sizes = sorted({r.world_size for r in ranks if r.world_size})
    if len(sizes) > 1:
        yield f"files of different jobs? they record world sizes {_listed(sizes)}"
    elif sizes and num_files > 1 and len(files) < sizes[0]:
        absent = sizes[0] - len(files)
        yield f"{absent:,} of {sizes[0]:,} ranks have no file here: sums and means are over those that have"


def _listed(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown + (f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else "")
