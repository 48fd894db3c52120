"""An order that a search found, as a candidate beside the schedules with a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.pipeline.comparing.comparison import Candidate, chunk_costs
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.held import Sizes, holdings, in_chunks
from weftrace.pipeline.laws.by_schedule import Claim, Law
from weftrace.pipeline.search.local_search import Found, Start, searched
from weftrace.pipeline.simulation import Boundary, simulate


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How an order was searched for."""

    num_moves: Annotated[Count, Meta(description="Changes of an order that were tried at random.")] = 0
    found_from: Annotated[str | None, Meta(description="The schedule that it began with; null: none faster found.")] = (
        None
    )
    is_settled: Annotated[
        bool,
        Meta(description="No swap of two actions of a rank, and no move of a layer to another stage, saves 0.1 %."),
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Searched(Candidate):
    """An order that no family makes. found_from: the title of the schedule that the search began with; family: its."""

    found_from: str

    @property
    def name(self) -> str:
        """The same for all."""
        return "searched"

    @property
    def title(self) -> str:
        """For tables and sentences."""
        return f"an order searched from {self.found_from}"

    @property
    def asks(self) -> tuple[float, ...]:
        """As of a family, by its actions; and an order that neither a family nor a pass makes."""
        assert self.schedule is not None
        copies, _, _, held, slices, _ = Candidate.asks.fget(self)  # type: ignore[attr-defined]
        kinds = set(self.schedule.actions["kind"].unique())
        return copies, "F&B" in kinds, "W" in kinds, held, slices, 2


def search_near(
    ranked: Sequence[Candidate],
    costs: Costs,
    *,
    memory_cap: float | None,
    cap_bytes: int | None,
    num_layers: int | None,
    seconds: float,
    num_moves: int,
    on_progress: Callable[[float], object],
) -> tuple[Search, Searched | None]:
    """Search from candidates within the caps, fastest first. seconds, num_moves: as in `searched`."""
    starts = {each.name: (each, _start(each, num_layers)) for each in ranked}
    found, tried = searched(
        [start for _, start in starts.values()], costs, memory_cap=memory_cap, cap_bytes=cap_bytes, seconds=seconds,
        num_moves=num_moves, on_progress=on_progress,
    )  # fmt: skip
    if found is None:
        return Search(num_moves=tried), None
    begun = starts[found.start.name][0]
    return (
        Search(num_moves=tried, found_from=begun.title, is_settled=found.is_settled),
        _candidate(found, begun, costs),
    )


def why_not_searched(costs: Costs, boundary: Boundary) -> str:
    """Why no order is searched for, in a sentence; empty where one is."""
    if boundary != "barrier":
        return "No order was searched for: the search makes steps that end with a barrier shorter."
    if costs.blocking:
        return "No order was searched for: the search does not count messages that block."
    return ""


def _start(each: Candidate, num_layers: int | None) -> Start:
    assert each.schedule is not None, each.reason
    return Start(
        name=each.name, schedule=each.schedule, num_parts=_num_parts(each), held=each.peak_activations,
        layers=each.layers, num_layers=num_layers,
    )  # fmt: skip


def _num_parts(each: Candidate) -> int:
    assert each.schedule is not None
    return each.schedule.num_stages // each.schedule.num_ranks


def _candidate(found: Found, begun: Candidate, costs: Costs) -> Searched:
    schedule, num_parts = found.schedule, _num_parts(begun)
    of_chunk = chunk_costs(costs, schedule, found.layers, num_parts)
    simulation = simulate(schedule, of_chunk)
    sizes, share = in_chunks(schedule, of_chunk), Fraction(num_parts)
    if found.layers:  # counted in layers, of which a chunk has some
        of_stage = np.array(found.layers, np.int64)
        sizes, share = Sizes(of_stage, of_stage * sizes.pending_S), Fraction(sum(found.layers), schedule.num_ranks)
    peak = int(holdings(schedule, simulation.ran, sizes).peaks().max())
    none = Claim(formula="", value=None, holds=False)
    return Searched(
        variant=begun.variant, found_from=begun.title, schedule=schedule,
        layers=found.layers, simulation=simulation, outcome=simulation.outcome,
        law=Law(
            name="searched", boundary="barrier", published=None, exact=None, peak_activations=none,
            stages_per_device=num_parts, devices=schedule.num_ranks,
        ),
        parameters=begun.parameters, peak_activations=Fraction(peak) / share,
    )  # fmt: skip
