"""All families of schedules on one model with the same costs: what each takes, idles and holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby
from typing import Literal

import numpy as np
import polars as pl

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.pipeline.comparing.lower_bound import lower_bound_ns
from weftrace.pipeline.comparing.splits import chunk_costs as chunk_costs
from weftrace.pipeline.comparing.splits import quickest_split
from weftrace.pipeline.comparing.variants import (
    MOST_CHANGED,
    Variant,
    Wanted,
    changed,
    changes,
    made,
    wanted,
)
from weftrace.pipeline.comparing.variants import MOST_STAGES as MOST_STAGES
from weftrace.pipeline.costs import Costs, need_costs, need_times
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.families import FAMILIES, Family
from weftrace.pipeline.held import Sizes, holdings
from weftrace.pipeline.laws.by_schedule import Law, laws_of
from weftrace.pipeline.passes.fitting import least_ns
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
#: Of a model: costs by pair of stages are as many as the square of that.
MOST_LAYERS = 1_024
#: A simpler schedule that takes no more than this part longer than the fastest is the choice.
SIMPLER_WITHIN = Fraction(1, 100)

#: What is kept of schedules that were simulated.
Keep = Literal["all", "outcomes if large"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Candidate(InNotebook):
    """One family's schedule for the model, simulated; or why there is none.

    outcome, law: of its simulation, and what formulas say of it; None where it is impossible, and `reason` says why.
        There is no law of an order that is not the family's own.
    schedule, simulation: None there too, and where a comparison is too large to keep them; where costs are for other
        ranks or stages than it has, there is a schedule without a simulation.
    parameters: parameters that a device holds, as a multiple of one device's share where every device had one; 2 for
        DualPipe. peak_activations: the most activations that a device holds at once, in the same share of one
        micro-batch. A share is a stage where schedules are compared at equal stages, the model over the number of
        devices where at equal devices.
    variant: the form of its family. layers: of each stage, where the model's number of layers is known and the stages
        have not all as many.
    """

    variant: Variant
    layers: tuple[int, ...] = ()
    schedule: Schedule | None = None
    simulation: Simulation | None = None
    outcome: Outcome | None = None
    law: Law | None = None
    parameters: Fraction = Fraction(0)
    peak_activations: Fraction = Fraction(0)
    reason: str = ""

    @property
    def family(self) -> Family:
        """Whose form it is."""
        return self.variant.family

    @property
    def name(self) -> str:
        """The family's, and what is not its usual form: "interleaved-fb:4"."""
        return self.variant.name

    @property
    def title(self) -> str:
        """The same, for tables and sentences."""
        return self.variant.title

    @property
    def asks(self) -> tuple[float, ...]:
        """What it asks of a model and of whoever runs it: copies of parameters, F&B, I and W apart, stages on a device,
        slices, another order than the published one (2: a searched one). One that asks no more in anything, and less in
        something, is the simpler."""
        made = self.outcome
        assert made is not None, self.reason
        held = made.num_stages * made.num_replicas / made.num_ranks
        splits = self.family.splits or self.variant.change == "fit"
        return made.num_replicas, self.family.overlaps, splits, held, made.num_slices, bool(self.variant.change)

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


def chosen_of(able: Sequence[Candidate], step_ns: Sequence[int]) -> Candidate:
    """The fastest; or instead, while there is one, the fastest that is simpler than it and takes at most
    `SIMPLER_WITHIN` longer than the fastest of all. Of equal ones the first."""
    most = min(step_ns) * (1 + SIMPLER_WITHIN)
    near = sorted((at for at in range(len(able)) if step_ns[at] <= most), key=lambda at: step_ns[at])
    chosen = able[near[0]]
    while simpler := [able[at] for at in near if able[at].is_simpler(chosen)]:
        chosen = simpler[0]
    return chosen


def candidates(
    costs: Costs,
    *,
    num_micro_batches: int,
    num_stages: int | None = None,
    num_devices: int | None = None,
    num_layers: int | None = None,
    families: Iterable[str | Variant] | None = None,
    boundary: Boundary = "barrier",
    keep: Keep = "all",
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> list[Candidate]:
    """Every family simulated on the same model, in the order of `FAMILIES`; the impossible ones say why.

    A family is there in its usual form, and in others: on equal devices, interleaved families have 1 to `MOST_STAGES`
    stages on a device, and groups of more micro-batches where messages take time; sequences have 2 to 16 slices; and
    passes make orders for these costs, as far as schedules are not too large. Groups, slices and orders are left out
    where another candidate takes no longer and holds no more.

    num_stages: all cut the model into so many stages, of `costs` each; families with two stages on a device then need
        half of the devices. num_devices: all run on so many devices, and costs are of one device's share of the
        model: a family with two stages on a device has chunks of half of that. Exactly one of the two is given.
    num_layers: of the whole model, all alike: there are no more stages than that, and where it is no multiple of the
        stages, some in a row have one more: see `quickest_split`. Costs by stage are cut in equal parts all the same.
    num_micro_batches: of the whole batch, all replicas together. families: names of `FAMILIES`, all by default, or of
        one form alone, "interleaved-fb:4": see `variants`.
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
    forms: dict[str, Wanted] = {}
    for name in FAMILIES if families is None else families:
        for form in wanted(name, costs, num_devices=num_devices, chunks=size_of_one, num_layers=num_layers):
            forms.setdefault(form.variant.name, form)
    chunks = size_of_one * len(families := {form.variant.family.name for form in forms.values()})
    keeps_all = keep == "all" or chunks <= _MOST_KEPT
    if (chunks if keeps_all else size_of_one) > MAX_CHUNKS:
        fewer = "Name fewer schedules (families=, --schedule), or compare" if keeps_all else "Compare"
        raise ScheduleError(
            f"{counted(len(families) if keeps_all else 1, 'schedule')} of this size would not fit in memory: "
            f"{whole(chunks if keeps_all else size_of_one)} chunks, and {MAX_CHUNKS:,} are possible. {fewer} fewer "
            "micro-batches: bubbles do not depend on their number."
        )
    model = _Model(costs, num_micro_batches, num_stages, num_devices, num_layers, boundary)
    found: list[Candidate] = []
    extra: set[str] = set()  # forms that are left out where they are no better
    refused = ""  # why costs do not fit the first schedule that can be made
    for done, form in enumerate(forms.values()):
        on_progress(done, len(forms))
        one = Candidate(variant=form.variant, reason=form.left_out)
        one = one if form.left_out else _candidate(form.variant, model)
        refused = refused or (one.reason if one.schedule is not None else "")
        more = [] if form.left_out or not form.by_family else _changed(one, found, model)
        extra |= {each.name for each in ([one, *more] if form.by_family and form.variant.is_extra else more)}
        found += [each if keeps_all else replace(each, schedule=None, simulation=None) for each in (one, *more)]
    if refused and all(each.outcome is None for each in found):
        raise ScheduleError(refused)
    kept = [each for each in found if each.name not in extra or each.outcome is not None]
    return [each for each in kept if each.name not in extra or not any(_is_beaten(each, other) for other in kept)]


def _is_beaten(each: Candidate, other: Candidate) -> bool:
    """Whether another takes no longer, holds no more and needs no more; of two alike, the one with the longer name."""
    if each is other or other.outcome is None or (other.needs and not each.needs):
        return False
    own, theirs = _takes(each), _takes(other)
    return all(value <= most for value, most in zip(theirs, own, strict=True)) and (
        theirs != own or len(other.name) < len(each.name)
    )


def _takes(each: Candidate) -> tuple[float | Fraction, ...]:
    run = each.outcome
    assert run is not None, each.reason
    return run.step_ns, run.num_ranks, each.peak_activations, each.parameters, max(run.ranks["peak_bytes"])


@dataclass(frozen=True, slots=True)
class _Model:
    """What all candidates run: as the arguments of `candidates`."""

    costs: Costs
    num_micro_batches: int
    num_stages: int | None
    num_devices: int | None
    num_layers: int | None
    boundary: Boundary


def _changed(one: Candidate, found: Sequence[Candidate], model: _Model) -> list[Candidate]:
    """What passes make of a candidate's order, but where one that was found before is sure to beat it."""
    if one.simulation is None or one.schedule is None or len(one.schedule) > MOST_CHANGED:
        return []
    made = []
    for change in changes(one.variant, one.schedule, is_even=not one.layers):
        least = 0 if change != "fit" else least_ns(one.schedule, one.simulation.costs, model.boundary)
        if not any(
            other.outcome is not None
            and not other.needs
            and other.outcome.num_ranks == one.schedule.num_ranks
            and other.outcome.step_ns <= least
            and other.parameters <= one.parameters
            and other.peak_activations <= one.peak_activations
            for other in found
        ):
            made.append(_candidate(replace(one.variant, change=change), model, one))
    return made


def _candidate(variant: Variant, model: _Model, of: Candidate | None = None) -> Candidate:
    """of: the candidate of the family's own order, where it is known already."""
    none = Candidate(variant=variant)
    layers = model.num_layers
    try:
        if of is None or of.schedule is None:
            schedule = made(
                variant,
                num_stages=model.num_stages,
                num_devices=model.num_devices,
                num_micro_batches=model.num_micro_batches,
            )
        else:
            schedule = of.schedule
    except ScheduleError as error:
        return replace(none, reason=str(error))
    if layers is not None and schedule.num_stages > layers:
        return replace(
            none, reason=f"{none.title}: {schedule.num_stages} stages are more than the {counted(layers, 'layer')}."
        )
    try:
        num_parts = _num_parts(schedule, model)
        split = of.layers if of is not None else ()
        if of is None and layers is not None:
            split = quickest_split(schedule, model.costs, layers, num_parts, model.boundary)
        of_chunk = chunk_costs(model.costs, schedule, split, num_parts)
        if split:  # what is held is counted in layers
            of_chunk = replace(of_chunk, activation_bytes=split)
        if variant.change:
            schedule = changed(schedule, variant.change, of_chunk, model.boundary)
        return _simulated(none, schedule, split, model)
    except ScheduleError as error:  # costs with a value a rank, and families that have not as many
        return replace(none, schedule=schedule, reason=f"{none.title}: {error}")


def _num_parts(schedule: Schedule, model: _Model) -> int:
    """Into how many stages a share is cut."""
    return schedule.num_stages // schedule.num_ranks if model.num_devices is not None else 1


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
            **none.variant.options,
        )
        if none.variant.is_published
        else None,
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
    def able(self) -> tuple[Candidate, ...]:
        """Those to choose from, ranked: that fit and need nothing but an order, or, where none does, all that fit."""
        fit = [each for each in self.ranked if self.fits(each)]
        return tuple([each for each in fit if not each.needs] or fit)

    @property
    def choice(self) -> Candidate | None:
        """Of those to choose from, the one that takes least time of devices, or a simpler one that is as good."""
        return chosen_of(self.able, [_device_ns(each) for each in self.able]) if self.able else None

    @property
    def bound_ns(self) -> int:
        """What no schedule of whole micro-batches takes less than on these devices, within the cap; 0 where schedules
        are compared at equal stages, or the choice has slices."""
        if self.num_devices is None or self.choice is None or self.choice.needs:
            return 0
        return lower_bound_ns(
            self.costs,
            num_devices=self.num_devices,
            num_micro_batches=self.num_micro_batches,
            num_layers=self.num_layers,
            boundary=self.boundary,
            memory_cap=self.memory_cap,
        )

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
    families: Iterable[str | Variant] | None = None,
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
