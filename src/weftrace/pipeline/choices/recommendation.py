"""Which schedule should a model be trained with, on so many devices and so much memory? What would change that?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.pipeline.choices.flips import Flip, chosen_of, flips
from weftrace.pipeline.choices.searched import Search, search_near, why_not_searched
from weftrace.pipeline.comparing.comparison import Candidate, candidates
from weftrace.pipeline.comparing.lower_bound import lower_bound_ns
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.search.local_search import NUM_MOVES
from weftrace.pipeline.simulation import Boundary, Simulation
from weftrace.units import duration

#: What others are compared with, beside the next best: where most start from.
BASELINE = "1f1b"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendation(InNotebook):
    """Every schedule on the same devices, and the choice among those that the memory allows.

    costs: of one device's share of the model on one micro-batch. boundary: how a step ends. memory_cap: most
        activations that a device may hold, as `Candidate.peak_activations` counts them; cap_bytes: most bytes, with
        parameters; None for no limit.
    ranked: the candidates that have a schedule for these numbers, fastest first; of two that take the same, the one
        that holds less. impossible: those that have none, with the reason.
    choice: of those that fit and may be chosen, the fastest, or one that is simpler and as good, see `chosen_of`; None
        where there is none. bound_ns: see `lower_bound_ns`; 0 where slices may be chosen.
    num_layers: that limit the stages; None where they are not known. front: of those that may be
        chosen, the ones that hold less than every faster one, as `held` counts it.
    flips: changes of one cost that would make another one that fits the choice; None where none were looked for.
        was_asked: whether families were named. search: how a faster order was searched for, which is then among
        `ranked`, as `Searched`; None where none was, although it `was_search_asked` perhaps.
    """

    costs: Costs
    num_devices: int
    num_micro_batches: int
    boundary: Boundary
    memory_cap: float | None
    cap_bytes: int | None
    ranked: tuple[Candidate, ...]
    impossible: tuple[Candidate, ...]
    choice: Candidate | None
    bound_ns: int
    num_layers: int | None
    front: tuple[Candidate, ...]
    flips: tuple[Flip, ...] | None
    was_asked: bool = False
    was_search_asked: bool = False
    search: Search | None = None

    def fits(self, candidate: Candidate) -> bool:
        """Whether it is within the caps."""
        return _fits(candidate, self.memory_cap, self.cap_bytes)

    @property
    def runner_up(self) -> Candidate | None:
        """The next best that could be chosen."""
        return next((each for each in self._able if each is not self.choice), None)

    @property
    def fastest(self) -> Candidate | None:
        """The fastest that could be chosen."""
        return next(iter(self._able), None)

    @property
    def gap(self) -> float | None:
        """By what part the choice takes longer than the lower bound, at most that of any schedule; None without one."""
        if self.choice is None or not self.bound_ns:
            return None
        return max(0.0, of(self.choice).step_ns / self.bound_ns - 1)

    @property
    def _able(self) -> list[Candidate]:
        return [each for each in self.ranked if self.fits(each) and self.may_be_chosen(each)]

    @property
    def tells_sizes(self) -> bool:
        """Whether the costs tell what activations hold in bytes."""
        return self.costs.tells_sizes

    @property
    def in_bytes(self) -> bool:
        """Whether memory is compared in bytes, parameters included, and not in chunk activations."""
        return _in_bytes(self.costs, self.memory_cap, self.cap_bytes)

    def held(self, candidate: Candidate) -> float:
        """What a device holds at most: bytes where `in_bytes`, else chunk activations."""
        return _held(candidate, self.in_bytes)

    def may_be_chosen(self, candidate: Candidate) -> bool:
        """Whether it needs nothing but another order, or was asked for by name."""
        return self.was_asked or not candidate.needs

    @property
    def baseline(self) -> Candidate | None:
        """1F1B, whether it fits or not; None where it is not among the candidates."""
        return next((each for each in self.ranked if each.family.name == BASELINE), None)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "choice", "none fits" if self.choice is None else self.choice.title
        for each in self.ranked:
            over = "" if self.fits(each) else ", over the cap"
            yield each.title, f"{duration(of(each).step_ns)} at {float(each.peak_activations):g} chunks{over}"


def of(candidate: Candidate) -> Simulation:
    """The simulation of a candidate that has a schedule."""
    assert candidate.simulation is not None, candidate.reason
    return candidate.simulation


def peak_bytes(candidate: Candidate) -> int:
    """Most bytes that a device holds at once, with parameters, as far as the costs tell sizes."""
    return int(of(candidate).ranks.get_column("peak_bytes").max())  # type: ignore[arg-type]


def recommend(
    costs: Costs,
    *,
    num_devices: int,
    num_micro_batches: int,
    memory_cap: float | None = None,
    cap_bytes: int | None = None,
    boundary: Boundary = "barrier",
    num_layers: int | None = None,
    families: Iterable[str] | None = None,
    with_flips: bool = True,
    search_seconds: float = 0,
    search_moves: int = NUM_MOVES,
    on_look: Callable[[], object] | None = None,
    on_search: Callable[[float], object] = lambda part: None,
) -> Recommendation:
    """Simulate every family on the same devices, and choose the fastest that fits, or one as good that is simpler.

    costs: of one chunk, where the model is cut into one stage per device. memory_cap, cap_bytes, boundary: as in
    `Recommendation`. num_layers: of the whole model, as in `candidates`. families: names to choose from, all by
    default; one that needs more of the model than an order of its chunks (`Candidate.needs`) is ranked, and chosen only
    where it is named here. with_flips: whether changes of cost are looked at, which takes most of the time; on_look is
    called after each. search_seconds: at most, for a search of faster orders near those that fit; search_moves: changes
    of order that it tries at random in each of three rounds, if there is time; then its result is always the same.
    on_search: called with the part that is done.

    Raises `ScheduleError` for numbers below one, a cap that holds nothing, an unknown family, and a cap in bytes with
    costs that tell no sizes.
    """
    for what, number in (("devices", num_devices), ("micro-batches", num_micro_batches)):
        if number < 1:
            raise ScheduleError(f"{number} {what}: there must be one or more.")
    for cap in (memory_cap, cap_bytes):
        if cap is not None and not 0 < cap < float("inf"):
            raise ScheduleError(f"a memory cap of {cap!r}: it is a number above 0.")
    if cap_bytes is not None and not costs.tells_sizes:
        raise ScheduleError(
            "a cap in bytes needs costs that tell activation_bytes, which a trace does not; give a number of chunk "
            "activations instead."
        )
    asked = None if families is None else list(families)
    found = candidates(
        costs, num_micro_batches=num_micro_batches, num_devices=num_devices, num_layers=num_layers, families=asked,
        boundary=boundary,
    )  # fmt: skip
    ranked = sorted((each for each in found if each.simulation is not None), key=_rank)
    search = None
    if search_seconds > 0 and not why_not_searched(costs, boundary):
        may = [each for each in ranked if _fits(each, memory_cap, cap_bytes) and not each.needs]
        search, better = search_near(
            may, costs, memory_cap=memory_cap, cap_bytes=cap_bytes, num_layers=num_layers, seconds=search_seconds,
            num_moves=search_moves, on_progress=on_search,
        )  # fmt: skip
        ranked = sorted([*ranked, *([] if better is None else [better])], key=_rank)
    open_to_choice = [each for each in ranked if asked is not None or not each.needs]
    able = [each for each in open_to_choice if _fits(each, memory_cap, cap_bytes)]
    choice = chosen_of(able, [of(each).step_ns for each in able]) if able else None
    with_slices = any(each.needs for each in open_to_choice)
    bound_ns = 0 if with_slices else lower_bound_ns(
        costs, num_devices=num_devices, num_micro_batches=num_micro_batches, num_layers=num_layers, boundary=boundary,
        memory_cap=memory_cap, cap_bytes=cap_bytes,
    )  # fmt: skip
    return Recommendation(
        costs=costs,
        num_devices=num_devices,
        num_micro_batches=num_micro_batches,
        boundary=boundary,
        memory_cap=memory_cap,
        cap_bytes=cap_bytes,
        ranked=tuple(ranked),
        impossible=tuple(each for each in found if each.simulation is None),
        choice=choice,
        bound_ns=bound_ns,
        num_layers=num_layers,
        front=_front(open_to_choice, in_bytes=_in_bytes(costs, memory_cap, cap_bytes)),
        flips=_flips(choice, able, costs, boundary, on_look) if with_flips else None,
        was_asked=asked is not None,
        was_search_asked=search_seconds > 0,
        search=search,
    )


def _rank(each: Candidate) -> tuple[int, Fraction, Fraction]:
    return of(each).step_ns, each.peak_activations, each.parameters


def _flips(
    choice: Candidate | None, able: list[Candidate], costs: Costs, boundary: Boundary,
    on_look: Callable[[], object] | None,
) -> tuple[Flip, ...]:  # fmt: skip
    rivals = [each for each in able if each is not choice]
    return flips(choice, rivals, costs, boundary, on_look) if choice is not None and rivals else ()


def _fits(candidate: Candidate, cap: float | None, cap_bytes: int | None) -> bool:
    return (cap is None or candidate.peak_activations <= cap) and (
        cap_bytes is None or peak_bytes(candidate) <= cap_bytes
    )


def _front(ranked: list[Candidate], *, in_bytes: bool) -> tuple[Candidate, ...]:
    front: list[Candidate] = []
    for each in ranked:
        held = _held(each, in_bytes)
        if all(held < _held(faster, in_bytes) for faster in front):
            front.append(each)
    return tuple(front)


def _held(candidate: Candidate, in_bytes: bool) -> float:
    return peak_bytes(candidate) if in_bytes else float(candidate.peak_activations)


def _in_bytes(costs: Costs, cap: float | None, cap_bytes: int | None) -> bool:
    return cap_bytes is not None or (cap is None and costs.tells_sizes)
