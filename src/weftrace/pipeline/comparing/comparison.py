"""All families of schedules on one model with the same costs: what each takes, idles and holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs, need_costs, need_times
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.families import FAMILIES, Family, family_of, generate
from weftrace.pipeline.held import Sizes, holdings
from weftrace.pipeline.laws.by_schedule import Law, laws_of
from weftrace.pipeline.schedule import Schedule, plain_int
from weftrace.pipeline.simulation import Boundary, Outcome, Simulation, simulate
from weftrace.units import counted, duration, whole

#: What a schedule of slices of sequences asks of a model.
NEEDS_OF_SLICES = (
    "attention that hands keys and values from slice to slice; a slice is taken to cost its part of a chunk"
)

#: One stage's work on one micro-batch each, over all schedules that are kept: some 5 GB.
MAX_CHUNKS = 16_000_000
_MOST_KEPT = 4_000_000  # of a comparison, which can do without
#: Stages of an interleaved schedule on a device, at most: all numbers up to it are tried where devices are equal.
MOST_STAGES = 8
#: Of a model: costs by pair of stages are as many as the square of that.
MOST_LAYERS = 1_024
_MOST_STARTS = 16  # of the stages that have one layer more
#: Chunks of them all together; with more, they have their usual two stages per device.
_MOST_INTERLEAVED = 4_000_000
_OPTION = "stages_per_rank"

#: What is kept of schedules that were simulated.
Keep = Literal["all", "outcomes if large"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Candidate(InNotebook):
    """One family's schedule for the model, simulated; or why there is none.

    outcome, law: of its simulation, and what formulas say of it; None where it is impossible, and `reason` says why.
    schedule, simulation: None there too, and where a comparison is too large to keep them; where costs are for other
        ranks or stages than it has, there is a schedule without a simulation.
    parameters: parameters that a device holds, as a multiple of one device's share where every device had one; 2 for
        DualPipe. peak_activations: the most activations that a device holds at once, in the same share of one
        micro-batch. A share is a stage where schedules are compared at equal stages, the model over the number of
        devices where at equal devices.
    stages_per_rank: of an interleaved family, which is there with several. layers: of each stage, where the model's
        number of layers is known and the stages have not all as many.
    """

    family: Family
    stages_per_rank: int | None = None
    layers: tuple[int, ...] = ()
    schedule: Schedule | None = None
    simulation: Simulation | None = None
    outcome: Outcome | None = None
    law: Law | None = None
    parameters: Fraction = Fraction(0)
    peak_activations: Fraction = Fraction(0)
    reason: str = ""

    @property
    def name(self) -> str:
        """The family's; with another number of stages per device than its own, that too: "interleaved-fb:4"."""
        usual = self.stages_per_rank in (None, self.family.stages_per_rank)
        return self.family.name if usual else f"{self.family.name}:{self.stages_per_rank}"

    @property
    def title(self) -> str:
        """The same, for tables and sentences."""
        if self.name == self.family.name:
            return self.family.title
        return f"{self.family.title} with {counted(self.stages_per_rank or 0, 'stage')} per device"

    @property
    def asks(self) -> tuple[float, ...]:
        """What it asks of a model and of whoever runs it: copies of parameters, F&B, I and W apart, stages on a device,
        slices, an order that is no family's. One that asks no more in anything, and less in something, is the
        simpler."""
        made = self.outcome
        assert made is not None, self.reason
        held = made.num_stages * made.num_replicas / made.num_ranks
        return made.num_replicas, self.family.overlaps, self.family.splits, held, made.num_slices, 0

    def is_simpler(self, other: Candidate) -> bool:
        """Whether it asks no more than another in anything, and less in something."""
        pairs = list(zip(self.asks, other.asks, strict=True))
        return all(own <= theirs for own, theirs in pairs) and self.asks != other.asks

    @property
    def split(self) -> str:
        """How many stages in a row have how many layers: "13 of 2, 35 of 1"; empty where all have as many."""
        runs = [(len(list(run)), layers) for layers, run in groupby(self.layers)]
        return ", ".join(f"{length} of {layers}" for length, layers in runs)

    @property
    def needs(self) -> str:
        """What it asks of the model beside an order of its chunks; empty where nothing."""
        return NEEDS_OF_SLICES if self.outcome is not None and self.outcome.num_slices > 1 else ""

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "schedule", self.title
        if self.outcome is None:
            yield "impossible", self.reason
            return
        yield "makespan", duration(self.outcome.makespan_ns)
        yield f"bubble ({self.outcome.boundary})", duration(self.outcome.bubble_ns)
        yield "activations", f"{float(self.peak_activations):g} at most on a device"
        yield "parameters", f"{float(self.parameters):g}x"


def candidates(
    costs: Costs,
    *,
    num_micro_batches: int,
    num_stages: int | None = None,
    num_devices: int | None = None,
    num_layers: int | None = None,
    families: Iterable[str] | None = None,
    boundary: Boundary = "barrier",
    keep: Keep = "all",
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Candidate]:
    """Every family simulated on the same model, in the order of `FAMILIES`; the impossible ones say why.

    num_stages: all cut the model into so many stages, of `costs` each; families with two stages on a device then need
        half of the devices. num_devices: all run on so many devices, and costs are of one device's share of the
        model: a family with two stages on a device has chunks of half of that. Exactly one of the two is given. On
        equal devices, interleaved families are there with 1 to `MOST_STAGES` stages on a device, as far as they have
        such schedules, and unless together they are very many chunks.
    num_layers: of the whole model, all alike: there are no more stages than that, and where it is no multiple of the
        stages, some in a row have one more, of 18 such rows the fastest. Costs by stage are cut in equal
        parts all the same.
    num_micro_batches: of the whole batch, all replicas together. families: names of `FAMILIES`; all by default. With a
        number of stages on a device, "interleaved-fb:4", of this number alone.
    keep: with "outcomes if large", schedules that are over 4 million chunks together are made and simulated one after
        another, and only their outcomes kept. on_progress: called with how many are done, and of how many.

    Sequence slices are taken to cost the same, each an equal part of its micro-batch, although attention makes the
    later ones dearer. Raises `ScheduleError` where an argument is no such thing, and where schedules would not fit in
    the memory of an ordinary machine.
    """
    if (num_stages is None) == (num_devices is None):
        raise ScheduleError("give either num_stages or num_devices: schedules are compared at equal one of them.")
    num_micro_batches, num_stages, num_devices = map(plain_int, (num_micro_batches, num_stages, num_devices))
    size = {"num_stages": num_stages} if num_devices is None else {"num_devices": num_devices}
    for what, value in (size | {"num_micro_batches": num_micro_batches}).items():
        need_counts("comparison", **{what: value})
    need_costs(costs)
    need_times(costs)
    if num_layers is not None:
        need_counts("comparison", num_layers=(num_layers := plain_int(num_layers)))
        if num_layers > MOST_LAYERS:
            raise ScheduleError(f"num_layers = {whole(num_layers)}; models of up to {MOST_LAYERS:,} layers can be cut.")
    size_of_one = (num_stages or num_devices or 0) * num_micro_batches
    names = _variants(FAMILIES if families is None else families, size_of_one, num_devices, num_layers)
    families = {name for name, _ in names}
    chunks = size_of_one * len(families)
    keeps_all = keep == "all" or chunks <= _MOST_KEPT
    if (chunks if keeps_all else size_of_one) > MAX_CHUNKS:
        fewer = "Name fewer schedules (families=, --schedule), or compare" if keeps_all else "Compare"
        raise ScheduleError(
            f"{counted(len(families) if keeps_all else 1, 'schedule')} of this size would not fit in memory: "
            f"{whole(chunks if keeps_all else size_of_one)} chunks, and {MAX_CHUNKS:,} are possible. {fewer} fewer "
            "micro-batches: bubbles do not depend on their number."
        )
    found: list[Candidate] = []
    refused = ""  # why costs do not fit the first schedule that can be made
    for name, stages_per_rank in names:
        on_progress(len(found), len(names))
        model = _Model(costs, num_micro_batches, num_stages, num_devices, num_layers, boundary)
        each = _candidate(FAMILIES[name], stages_per_rank, model)
        refused = refused or (each.reason if each.schedule is not None else "")
        each = each if keeps_all else replace(each, schedule=None, simulation=None)
        found.append(each)
    if refused and all(each.outcome is None for each in found):
        raise ScheduleError(refused)
    return found


def _variants(
    names: Iterable[str], size_of_one: int, num_devices: int | None, num_layers: int | None
) -> list[tuple[str, int | None]]:
    """Families, and how many stages a device has of those that are there with several; each once."""
    most = MOST_STAGES if num_layers is None or num_devices is None else min(MOST_STAGES, num_layers // num_devices)
    found: dict[tuple[str, int | None], None] = {}
    for given in names:
        name, mark, number = given.partition(":") if isinstance(given, str) else (given, "", "")
        family = family_of(name)
        usual = family.options.get(_OPTION)
        if mark and (usual is None or num_devices is None or not (number.isascii() and number.isdigit())):
            raise ScheduleError(
                f"{given!r}: a number of stages on a device can be given for interleaved schedules on equal devices: "
                "interleaved-fb:4."
            )
        several = usual is not None and num_devices is not None and size_of_one * MOST_STAGES**2 <= _MOST_INTERLEAVED
        least = 1 if family.overlaps else 2  # with one stage, the others are 1F1B and ZB1P
        numbers: Iterable[int | None] = [usual]
        if mark:
            numbers = [int(number[:9])]
        elif several and usual is not None:
            numbers = sorted({usual, *range(least, most + 1)})
        found.update(dict.fromkeys((family.name, each) for each in numbers))
    return list(found)


@dataclass(frozen=True, slots=True)
class _Model:
    """What all candidates run: as the arguments of `candidates`."""

    costs: Costs
    num_micro_batches: int
    num_stages: int | None
    num_devices: int | None
    num_layers: int | None
    boundary: Boundary


def _candidate(family: Family, stages_per_rank: int | None, model: _Model) -> Candidate:
    options = {} if stages_per_rank is None else {_OPTION: stages_per_rank}
    none = Candidate(family=family, stages_per_rank=stages_per_rank)
    try:
        schedule = generate(
            family.name,
            num_stages=model.num_stages,
            num_ranks=model.num_devices,
            num_micro_batches=model.num_micro_batches,
            **options,
        )
    except ScheduleError as error:
        return replace(none, reason=str(error))
    layers = model.num_layers
    if layers is not None and schedule.num_stages > layers:
        return replace(
            none, reason=f"{none.title}: {schedule.num_stages} stages are more than the {counted(layers, 'layer')}."
        )
    try:
        return _simulated(none, schedule, _split(schedule, model), model)
    except ScheduleError as error:  # costs with a value a rank, and families that have not as many
        return replace(none, schedule=schedule, reason=f"{none.title}: {error}")


def _split(schedule: Schedule, model: _Model) -> tuple[int, ...]:
    """Layers of each stage, of the ways that are tried the fastest; empty where all have as many, or it is not known.

    Some stages in a row have one more: from the first on, up to the last, or from one of others evenly between, going
    on at the first after the last.
    """
    num_stages = schedule.num_stages
    names = ("forward_ns", "input_ns", "weight_ns", "overlapped_ns")
    by_stage = any(isinstance(getattr(model.costs, name), tuple) for name in names)
    if model.num_layers is None or by_stage or not model.num_layers % num_stages:
        return ()
    each, more = divmod(model.num_layers, num_stages)
    starts = {0, num_stages - more, *(num_stages * at // _MOST_STARTS for at in range(_MOST_STARTS))}
    splits = [
        tuple(each + ((stage - start) % num_stages < more) for stage in range(num_stages)) for start in sorted(starts)
    ]
    num_parts = _num_parts(schedule, model)

    def step_ns(layers: tuple[int, ...]) -> int:
        return simulate(schedule, chunk_costs(model.costs, schedule, layers, num_parts), model.boundary).step_ns

    return min(splits, key=step_ns)


def _num_parts(schedule: Schedule, model: _Model) -> int:
    """Into how many stages a share is cut."""
    return schedule.num_stages // schedule.num_ranks if model.num_devices is not None else 1


def chunk_costs(costs: Costs, schedule: Schedule, layers: tuple[int, ...], num_parts: int) -> Costs:
    """Costs of a chunk of the schedule, from those of a share: so many equal parts of it, or by layers of each stage;
    and of that a slice. layers: of each stage; empty where all have as many."""
    if layers:
        costs = _by_layers(costs, np.array(layers) * (len(layers) / num_parts / sum(layers)))
    elif num_parts > 1:
        costs = costs.split(num_parts)
    return costs.sliced(schedule.num_slices) if schedule.num_slices > 1 else costs


def _by_layers(costs: Costs, share_S: NDArray[np.float64]) -> Costs:
    """Costs of a share of the model as those of stages that are such parts of it."""

    def times(value: Any, parts: NDArray[np.float64]) -> Any:
        return None if value is None else np.rint(value * parts).astype(np.int64)

    names = ("forward_ns", "input_ns", "weight_ns", "backward_ns", "activation_bytes", "pending_bytes", "weight_bytes")
    changed = {name: times(getattr(costs, name), share_S) for name in names}
    if costs.overlapped_ns is not None:  # as much as both have overlaps, the rest of the larger runs alone
        both = np.minimum(share_S[:, None], share_S)
        backward: Any = np.add(costs.input_ns, costs.weight_ns) if costs.backward_ns is None else costs.backward_ns
        alone = (share_S[:, None] - both) * costs.forward_ns + (share_S - both) * backward
        changed["overlapped_ns"] = np.rint(both * costs.overlapped_ns + alone).astype(np.int64)
    return replace(costs, **changed)


def _simulated(none: Candidate, schedule: Schedule, layers: tuple[int, ...], model: _Model) -> Candidate:
    num_parts = _num_parts(schedule, model)
    of_chunk = chunk_costs(model.costs, schedule, layers, num_parts)
    simulation = simulate(schedule, of_chunk, model.boundary)
    peak = simulation.ranks.select(pl.col("peak_activations").max()).item()
    chunks = Fraction(num_parts * schedule.num_slices)
    if layers:  # counted in layers, of which a chunk has some
        of_stage = np.array(layers, np.int64)
        sizes = Sizes(of_stage, of_stage * (model.costs.pending_bytes != 0))
        peak = int(holdings(schedule, simulation.ran, sizes).peaks().max())
        chunks = Fraction(sum(layers), schedule.num_ranks) * schedule.num_slices
    return replace(
        none,
        schedule=schedule,
        simulation=simulation,
        outcome=simulation.outcome,
        layers=layers,
        law=laws_of(
            none.family.name,
            num_ranks=schedule.num_ranks,
            num_micro_batches=model.num_micro_batches,
            costs=of_chunk,
            boundary=model.boundary,
            **({} if none.stages_per_rank is None else {_OPTION: none.stages_per_rank}),
        ),
        parameters=Fraction(schedule.num_stages * schedule.num_replicas, schedule.num_ranks * num_parts),
        peak_activations=Fraction(peak) / chunks,
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
    num_layers: int | None = None
    boundary: Boundary
    memory_cap: float | None
    candidates: tuple[Candidate, ...]

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """The possible ones: those that fit the cap before those that do not; of these, that which takes least time of
        devices, step x devices; of equal ones, that which holds less."""
        found = [each for each in self.candidates if each.outcome is not None]
        return tuple(sorted(found, key=lambda each: (not self.fits(each), _device_ns(each), *_held(each))))

    @property
    def left_out(self) -> str:
        """What is not kept of schedules that are too large, in a sentence; empty where all is."""
        if any(each.simulation is not None for each in self.candidates) or not self.ranked:
            return ""
        return (
            f"{counted(len(self.ranked), 'schedule')} of this size would not fit in memory together: each was "
            "simulated by itself, and none is drawn. `weftrace pipeline show` draws one."
        )

    def fits(self, candidate: Candidate) -> bool:
        """Whether a device has room for its activations."""
        return self.memory_cap is None or candidate.peak_activations <= self.memory_cap

    def _describe(self) -> Iterator[tuple[str, str]]:
        size = counted(self.num_devices, "device") if self.num_devices else counted(self.num_stages or 0, "stage")
        yield "model", f"{size}, {counted(self.num_micro_batches, 'micro-batch')}"
        for each in self.ranked:
            assert each.outcome is not None
            step, ranks = duration(each.outcome.step_ns), each.outcome.num_ranks
            where = f" on {counted(ranks, 'device')}" if self.num_devices is None else ""
            yield each.title, f"{step}{where}{'' if self.fits(each) else ', does not fit'}"


def compare(
    costs: Costs,
    *,
    num_micro_batches: int,
    num_stages: int | None = None,
    num_devices: int | None = None,
    num_layers: int | None = None,
    families: Iterable[str] | None = None,
    boundary: Boundary = "barrier",
    memory_cap: float | None = None,
    keep: Keep = "outcomes if large",
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
        num_layers=num_layers,
        families=families,
        boundary=boundary,
        keep=keep,
        on_progress=on_progress,
    )
    return Comparison(
        costs=costs,
        num_micro_batches=num_micro_batches,
        num_stages=num_stages,
        num_devices=num_devices,
        num_layers=num_layers,
        boundary=boundary,
        memory_cap=memory_cap,
        candidates=tuple(found),
    )


def _device_ns(candidate: Candidate) -> int:
    assert candidate.outcome is not None
    return candidate.outcome.step_ns * candidate.outcome.num_ranks


def _held(candidate: Candidate) -> tuple[Fraction, Fraction]:
    return candidate.peak_activations, candidate.parameters
