"""Everything that weftrace tells about one rank, and about a job of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from weftrace.analysis.activity import Stretches, stretches_of
from weftrace.analysis.arrival_times import arrivals
from weftrace.analysis.clocks import ClockOffset, offsets_of
from weftrace.analysis.collective_peaks import chip_of
from weftrace.analysis.data_quality import Quality, quality
from weftrace.analysis.efficiency import Efficiency, efficiency_or_none
from weftrace.analysis.excluded_ranks import Apart, apart_notes, apart_of, by_rank, excluded_words, names_of, placed
from weftrace.analysis.headroom_bound import Headroom, headroom
from weftrace.analysis.hidden_communication import Overlap, overlap
from weftrace.analysis.idle_causes import IdleCauses, idle
from weftrace.analysis.kernel_times import KernelTable, kernel_table
from weftrace.analysis.lane_boxes import Lane, lanes
from weftrace.analysis.launch_delays import Queueing, queueing
from weftrace.analysis.meetings import meetings_of
from weftrace.analysis.memory import MemoryUse, memory_use
from weftrace.analysis.module_times import CodeTimes, code_times
from weftrace.analysis.operator_times import Operators, operator_rows, operators
from weftrace.analysis.phase_times import phase_means, phases
from weftrace.analysis.rank_tables import rank_tables
from weftrace.analysis.run_facts import facts_of
from weftrace.analysis.slow_work import ALL, TIMES_SCHEMA, SlowWork, slow_work
from weftrace.analysis.step_shares import StepShares, step_shares
from weftrace.analysis.step_times import OutsideSteps, Step, outside_steps, steps
from weftrace.analysis.stragglers import Lateness, lateness_of
from weftrace.analysis.time_account import Breakdown, account_of
from weftrace.analysis.transfer_bandwidth import Bandwidth, bandwidth_of
from weftrace.analysis.waiting.idle_account import IdleAccount, idle_account
from weftrace.analysis.waiting_shares import waiting_shares
from weftrace.costs.custom_ops import CustomOp
from weftrace.facts import Hardware
from weftrace.files.sources import file_name
from weftrace.notebook import InNotebook
from weftrace.trace.code_names import By
from weftrace.trace.job import Failure
from weftrace.trace.model import SmUnit, Trace
from weftrace.trace.work import Basis, StepBy, Work, as_work
from weftrace.units import duration, percent


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class RankAnalysis(InNotebook):
    """All analyses of one device of one rank. See each part's type for what its numbers mean.

    code: time by module, by function, as far as it was asked for.
    apart: why it is in no sum of its job (`Apart`); None where it is. name: what a plain trace calls it ("DP 0 PP 3"),
    or nothing. places: its coordinates in the job that such a trace tells, as ("pp", 3).
    configuration: how its trace was made, where it says so (`Trace.configuration`).
    steps_by: what ranges are called that stand for steps in `shared`; None where they are the profiler's, or none are.
    machine: of a rank on CPUs the host that its file names, whose processes share a clock; empty where none is named.
    facts: what its file says of device, versions, shapes and settings (`facts_of`).
    efficiency: FLOP/s, bytes/s and part of the peak of its operators and shapes; None where it has no operators to
    tell them by: of ranges, of a simulation, and of a host that only launches.
    shared: whose the time of each step is; waits: what splits waiting for late ranks from it (`waiting_shares`), None
    where that is not known: what a comparison needs of it.
    """

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
    idle_account: IdleAccount
    queueing: Queueing
    headroom: Headroom
    steps: tuple[Step, ...]
    outside_steps: tuple[OutsideSteps, ...]
    quality: Quality
    arrivals: pl.DataFrame  # at its collectives
    shared: StepShares
    efficiency: Efficiency | None = None
    waits: pl.DataFrame | None = None
    steps_by: str | None = None
    facts: Mapping[str, str] = field(default_factory=dict)
    machine: str = ""
    memory_bytes: int | None = None  # of the device, where its file says
    code: tuple[CodeTimes, ...] = ()
    apart: Apart | None = None
    name: str = ""
    places: tuple[tuple[str, int], ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)  # of `rank_tables`
    memory: tuple[MemoryUse, ...] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "rank", "–" if self.rank is None else str(self.rank)
        yield "device", " ".join(str(part) for part in (self.device, self.device_name) if part not in (None, ""))
        yield from self.breakdown._describe()
        yield "headroom", duration(self.headroom.headroom_ns)
        yield "quality", self.quality.verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Analysis(InNotebook):
    """A trace or a job, analysed.

    ranks: in order of rank, then device. failures: files that could not be used. clocks: offsets between ranks' clocks;
    empty for a single rank. lateness: of the ranks that are in sums; None where no two share a collective.
    slow_work: which ranks compute longer than their peers; None of a single rank.
    bandwidth: of the ranks' collectives, of their transfers too where they are matched; None where none communicates.
    notes: what is missing from the whole: ranks without a file, ranks with several.
    """

    source: str
    world_size: int | None
    ranks: tuple[RankAnalysis, ...]
    failures: tuple[Failure, ...] = ()
    clocks: tuple[ClockOffset, ...] = ()
    lateness: Lateness | None = None
    slow_work: SlowWork | None = None
    bandwidth: Bandwidth | None = None
    notes: tuple[str, ...] = ()

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        for r in self.ranks:
            name = "rank unknown" if r.rank is None else f"rank {r.rank}"
            hidden = percent(r.breakdown.hidden_fraction)
            yield name, f"{duration(r.breakdown.span_ns)}, {hidden} of communication hidden"
        yield from ((failure.path, failure.error) for failure in self.failures)
        yield from (("", note) for note in self.notes)


def analyze_rank(
    source: Trace | Work,
    *,
    by: Sequence[By] = (),
    stepped: Work | None = None,
    hardware: Hardware | str | None = None,
    custom_ops: tuple[CustomOp, ...] | None = None,
) -> RankAnalysis:
    """Every analysis of one device. by: time by module or by function too, which needs a trace read with frames=True.
    stepped: the same work with ranges that stand for steps (`with_steps`), for shares, where none are recorded.
    hardware: the accelerator whose peaks count for efficiency, by default the one that the trace names. custom_ops:
    what operators of other libraries cost (`costs.load_custom_ops`).

    Raises TraceError when a Trace holds several devices: see `analyze`.
    """
    work = as_work(source)
    account = account_of(work)
    table = phases(account)
    kernels = kernel_table(work)
    steps_of = stepped or work
    launched_by = operator_rows(steps_of.trace.events, steps_of.events) if work.basis == "device" else None
    efficiency = efficiency_or_none(work, hardware, launched_by if steps_of is work else None, custom_ops)
    worker = work.trace.plain.workers[0] if work.trace.plain else None
    waiting = replace(idle_account(work), pieces=None)  # which are many, and what they tell is in its tables
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
        operators=operators(work, launched_by if steps_of is work else None),
        idle=idle(work),
        idle_account=waiting,
        queueing=queueing(work),
        headroom=headroom(account),
        steps=steps(work),
        outside_steps=outside_steps(work),
        quality=quality(work, unnamed_share=kernels.unnamed_share, account=waiting),
        arrivals=arrivals(work),
        shared=step_shares(stepped or account, launched_by=launched_by if work.around is work else None),
        facts=facts_of(steps_of, launched_by),
        efficiency=efficiency and replace(efficiency, in_events=efficiency.in_events.clear()),  # which are many
        memory_bytes=None if work.device is None else work.trace.device(work.device).memory_bytes,
        machine=work.trace.info.get("host_name", "") if work.basis == "host" else "",
        name=worker.name if worker else "",
        places=worker.places if worker else (),
        code=tuple(code_times(account, each, None if efficiency is None else efficiency.in_events) for each in by),
        configuration=work.trace.configuration,
        tables=rank_tables(work),
        memory=memory_use(work),
    )


def collect(
    source: str, ranks: Iterable[RankAnalysis], failures: Iterable[Failure], chip: Hardware | None = None
) -> Analysis:
    """Puts ranks together, in order: says which are in no sum, and finds how far the others' clocks are apart.

    chip: the accelerator whose link and network bound collectives, by default the one that all files name.
    """
    ordered, renumbered = placed(sorted(ranks, key=by_rank))
    ordered = [replace(r, apart=reason) for r, reason in zip(ordered, apart_of(ordered), strict=True)]
    counted = [r for r in ordered if r.apart is None]
    # all ranks of a plan are on one clock, and processes of one machine
    clock_of = ["(simulated)" if r.simulated else r.machine or r.path for r in counted]
    meetings = meetings_of([r.arrivals for r in counted], clock_of)
    num_events = [r.arrivals.height for r in counted]
    clocks = offsets_of(meetings.clocks, [r.rank for r in counted], num_events)
    late = lateness_of(meetings)
    return Analysis(
        source=source,
        world_size=next((r.world_size for r in counted if r.world_size), None),
        ranks=tuple(_with_waits(ordered, late)),
        failures=tuple(failures),
        clocks=clocks if len(clocks) > 1 else (),
        lateness=late,
        slow_work=_slow_work(counted),
        bandwidth=bandwidth_of([r.arrivals for r in counted], meetings, chip or _chip(counted)),
        notes=(*renumbered, *apart_notes(ordered, [r.apart for r in ordered], excluded_words)),
    )


def _chip(ranks: Sequence[RankAnalysis]) -> Hardware | None:
    return chip_of((r.device_name, r.num_sms, r.memory_bytes) for r in ranks if r.basis == "device")


def _with_waits(ranks: Sequence[RankAnalysis], late: Lateness | None) -> Iterator[RankAnalysis]:
    counted = [r for r in ranks if r.apart is None]
    summary = waiting_shares([r.shared for r in counted], names_of(counted), late.began) if late is not None else []
    waits = iter(summary)
    yield from (replace(r, waits=next(waits, None)) if r.apart is None else r for r in ranks)


def _slow_work(ranks: list[RankAnalysis]) -> SlowWork | None:
    """Operators on a host wait for others within, so their time compares nothing."""
    if any(rank.basis not in ("device", "ranges") for rank in ranks):
        return None
    stages = [dict(rank.places).get("pp") for rank in ranks]
    found = slow_work([_compute_times(rank) for rank in ranks], stages)
    called = {name: [getattr(rank, name) for rank in ranks] for name in ("rank", "device", "name")}
    named = pl.DataFrame({**called, "path": [file_name(rank.path) for rank in ranks], "stage": stages})
    return found and replace(found, ranks=named.hstack(found.ranks.drop("at", "stage")))


def _compute_times(rank: RankAnalysis) -> pl.DataFrame:
    """What a rank computed in each step, and in each phase of it: a frame of `TIMES_SCHEMA`."""
    whole: list[tuple[int | None, str, int]]
    whole = [(s.step, ALL, s.breakdown.compute_ns) for s in rank.steps] or [(None, ALL, rank.breakdown.compute_ns)]
    steps = pl.lit(None, dtype=pl.Int64).alias("step") if not rank.steps else pl.col("step")
    named = rank.phases.filter(pl.col("compute_ns") > 0).group_by(steps, phase="name").agg(pl.col("compute_ns").sum())
    return pl.concat([pl.DataFrame(whole, schema=TIMES_SCHEMA, orient="row"), named.select(*TIMES_SCHEMA)])
