"""All families of schedules on one model with the same costs: what each takes, idles and holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import polars as pl

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs, need_costs, need_times
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.families import FAMILIES, Family, family_of, generate
from weftrace.pipeline.laws.by_schedule import Law, laws_of
from weftrace.pipeline.schedule import Schedule, plain_int
from weftrace.pipeline.simulation import Boundary, Simulation, simulate
from weftrace.units import counted, duration, whole

#: What a schedule of slices of sequences asks of a model.
NEEDS_OF_SLICES = (
    "attention that hands keys and values from slice to slice; a slice is taken to cost its part of a chunk"
)

#: One stage's work on one micro-batch each: more, over all schedules, take over 7 GB.
MAX_CHUNKS = 16_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Candidate(InNotebook):
    """One family's schedule for the model, simulated; or why there is none.

    schedule, simulation, law: None where it is impossible, for which `reason` says why; where costs are for other ranks
        or stages than it has, there is a schedule all the same. law: what formulas say of it.
    parameters: parameters that a device holds, as a multiple of one device's share where every device had one; 2 for
        DualPipe. peak_activations: the most activations that a device holds at once, in the same share of one
        micro-batch. A share is a stage where schedules are compared at equal stages, the model over the number of
        devices where at equal devices.
    """

    family: Family
    schedule: Schedule | None = None
    simulation: Simulation | None = None
    law: Law | None = None
    parameters: Fraction = Fraction(0)
    peak_activations: Fraction = Fraction(0)
    reason: str = ""

    @property
    def needs(self) -> str:
        """What it asks of the model beside an order of its chunks; empty where nothing."""
        return NEEDS_OF_SLICES if self.schedule is not None and self.schedule.num_slices > 1 else ""

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "family", self.family.title
        if self.simulation is None:
            yield "impossible", self.reason
            return
        yield "makespan", duration(self.simulation.makespan_ns)
        yield f"bubble ({self.simulation.boundary})", duration(self.simulation.bubble_ns)
        yield "activations", f"{float(self.peak_activations):g} at most on a device"
        yield "parameters", f"{float(self.parameters):g}x"


def candidates(
    costs: Costs,
    *,
    num_micro_batches: int,
    num_stages: int | None = None,
    num_devices: int | None = None,
    families: Iterable[str] | None = None,
    boundary: Boundary = "barrier",
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Candidate]:
    """Every family simulated on the same model, in the order of `FAMILIES`; the impossible ones say why.

    num_stages: all cut the model into so many stages, of `costs` each; families with two stages on a device then need
        half of the devices. num_devices: all run on so many devices, and costs are of one device's share of the
        model: a family with two stages on a device has chunks of half of that. Exactly one of the two is given.
    num_micro_batches: of the whole batch, all replicas together. families: names of `FAMILIES`; all by default.
    on_progress: called with how many are done, and of how many.

    Sequence slices are taken to cost the same, each an equal part of its micro-batch, although attention makes the
    later ones dearer. Raises `ScheduleError` where an argument is no such thing, and where all together would not fit
    in the memory of an ordinary machine.
    """
    if (num_stages is None) == (num_devices is None):
        raise ScheduleError("give either num_stages or num_devices: schedules are compared at equal one of them.")
    num_micro_batches, num_stages, num_devices = map(plain_int, (num_micro_batches, num_stages, num_devices))
    size = {"num_stages": num_stages} if num_devices is None else {"num_devices": num_devices}
    for what, value in (size | {"num_micro_batches": num_micro_batches}).items():
        need_counts("comparison", **{what: value})
    need_costs(costs)
    need_times(costs)
    names = FAMILIES if families is None else dict.fromkeys(family_of(name).name for name in families)
    chunks = (num_stages or num_devices or 0) * num_micro_batches * len(names)
    if chunks > MAX_CHUNKS:
        raise ScheduleError(
            f"{counted(len(names), 'schedule')} of this size would not fit in memory: {whole(chunks)} chunks, and "
            f"{MAX_CHUNKS:,} are possible. Name fewer schedules (families=, --schedule), or compare fewer "
            "micro-batches: bubbles do not depend on their number."
        )
    found: list[Candidate] = []
    for name in names:
        on_progress(len(found), len(names))
        found.append(_candidate(FAMILIES[name], costs, num_micro_batches, num_stages, num_devices, boundary))
    made = [each for each in found if each.schedule is not None]
    if made and all(each.simulation is None for each in made):
        raise ScheduleError(made[0].reason)
    return found


def _candidate(
    family: Family,
    costs: Costs,
    num_micro_batches: int,
    num_stages: int | None,
    num_devices: int | None,
    boundary: Boundary,
) -> Candidate:
    try:
        schedule = generate(
            family.name, num_stages=num_stages, num_ranks=num_devices, num_micro_batches=num_micro_batches
        )
    except ScheduleError as error:
        return Candidate(family=family, reason=str(error))
    num_parts = family.stages_per_rank if num_devices is not None else 1
    of_chunk = costs.split(num_parts) if num_parts > 1 else costs
    if schedule.num_slices > 1:
        of_chunk = of_chunk.sliced(schedule.num_slices)
    try:
        simulation = simulate(schedule, of_chunk, boundary)
    except ScheduleError as error:  # costs with a value a rank, and families that have not as many
        return Candidate(family=family, schedule=schedule, reason=f"{family.title}: {error}")
    peak = simulation.ranks.select(pl.col("peak_activations").max()).item()
    held = Fraction(schedule.num_stages * schedule.num_replicas, schedule.num_ranks)
    return Candidate(
        family=family,
        schedule=schedule,
        simulation=simulation,
        law=laws_of(
            family.name,
            num_ranks=schedule.num_ranks,
            num_micro_batches=num_micro_batches,
            costs=of_chunk,
            boundary=boundary,
        ),
        parameters=held / num_parts,
        peak_activations=Fraction(peak, num_parts * schedule.num_slices),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Comparison(InNotebook):
    """Schedules on one model, side by side.

    costs: of one stage's work on one micro-batch where `num_stages` is given; of one device's share of the model where
        `num_devices` is. memory_cap: peak activations that a device has room for; None where that is not asked.
    candidates: every family asked for, those that are impossible too.
    """

    costs: Costs
    num_micro_batches: int
    num_stages: int | None
    num_devices: int | None
    boundary: Boundary
    memory_cap: float | None
    candidates: tuple[Candidate, ...]

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """The possible ones: those that fit the cap before those that do not; of these, that which takes least time of
        devices, step x devices; of equal ones, that which holds less."""
        found = [each for each in self.candidates if each.simulation is not None]
        return tuple(sorted(found, key=lambda each: (not self.fits(each), _device_ns(each), *_held(each))))

    def fits(self, candidate: Candidate) -> bool:
        """Whether a device has room for its activations."""
        return self.memory_cap is None or candidate.peak_activations <= self.memory_cap

    def _describe(self) -> Iterator[tuple[str, str]]:
        size = counted(self.num_devices, "device") if self.num_devices else counted(self.num_stages or 0, "stage")
        yield "model", f"{size}, {counted(self.num_micro_batches, 'micro-batch')}"
        for each in self.ranked:
            assert each.simulation is not None
            step, ranks = duration(each.simulation.step_ns), each.simulation.schedule.num_ranks
            where = f" on {counted(ranks, 'device')}" if self.num_devices is None else ""
            yield each.family.title, f"{step}{where}{'' if self.fits(each) else ', does not fit'}"


def compare(
    costs: Costs,
    *,
    num_micro_batches: int,
    num_stages: int | None = None,
    num_devices: int | None = None,
    families: Iterable[str] | None = None,
    boundary: Boundary = "barrier",
    memory_cap: float | None = None,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> Comparison:
    """All families, or those named, on one model: see `candidates` for what the arguments mean.

    memory_cap: peak activations that a device has room for, in shares as `Candidate.peak_activations` has them.
    Raises `ScheduleError` as `candidates` does, and for a cap that is no number above 0.
    """
    if memory_cap is not None and not (isinstance(memory_cap, int | float) and 0 < memory_cap < float("inf")):
        raise ScheduleError(f"memory_cap = {memory_cap!r}; it is a number of activations above 0.")
    found = candidates(
        costs,
        num_micro_batches=num_micro_batches,
        num_stages=num_stages,
        num_devices=num_devices,
        families=families,
        boundary=boundary,
        on_progress=on_progress,
    )
    return Comparison(
        costs=costs,
        num_micro_batches=num_micro_batches,
        num_stages=num_stages,
        num_devices=num_devices,
        boundary=boundary,
        memory_cap=memory_cap,
        candidates=tuple(found),
    )


def _device_ns(candidate: Candidate) -> int:
    assert candidate.simulation is not None
    return candidate.simulation.step_ns * candidate.simulation.schedule.num_ranks


def _held(candidate: Candidate) -> tuple[Fraction, Fraction]:
    return candidate.peak_activations, candidate.parameters
