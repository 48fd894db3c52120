"""Why is a published step's bubble longer than its schedule makes it?

The published parts tell what a chunk cost there; the schedule with these costs has a bubble of its own. What the
published one has beyond it is *slip*: time that ranks lose to what no schedule plans. Which cause it was, a table of
parts cannot tell; so each is asked how large it would have to be, were it alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import simulate
from weftrace.pipeline.steps.published import PublishedStep
from weftrace.units import duration, percent

_MOST_SLOWER = 2_000  # thousandths


@dataclass(frozen=True, slots=True, kw_only=True)
class BubbleSlip(InNotebook):
    """The bubble of a published step, and what of it the schedule makes. Bubbles are means over ranks.

    costs: of a chunk, from the published parts: 1F by the mean number of forwards of a rank, and so on; B and I are
        told apart by W.
    law_ns: the bubble of the schedule with these costs, law_most_ns on the rank that idles most. slip_ns =
        published_ns - law_ns.
    alone_latency_ns: what a message would have to need on its way to make all of the slip. alone_slower: by what part a
        rank in the middle would have to be slower; None where twice is not enough. alone_barrier_ns: time a step in
        which all ranks wait, which is the slip itself.
    """

    published_ns: int
    costs: Costs
    law_ns: int
    law_most_ns: int
    alone_latency_ns: int
    alone_slower: float | None

    @property
    def slip_ns(self) -> int:
        return self.published_ns - self.law_ns

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "published bubble", duration(self.published_ns)
        yield "the schedule's own", f"{duration(self.law_ns)}, {duration(self.law_most_ns)} on the rank that idles most"
        yield "slip", duration(self.slip_ns)
        yield "as messages alone", f"{duration(self.alone_latency_ns)} each"
        yield "as one slow rank alone", percent(self.alone_slower)


def bubble_slip(schedule: Schedule, published: PublishedStep) -> BubbleSlip:
    """What the schedule with the published parts' own costs leaves of the published bubble."""
    costs = _costs_of_parts(schedule, published)
    own = simulate(schedule, costs)
    bubble_ns = published.parts_ns["bubble"]
    target = bubble_ns * schedule.num_ranks

    def with_latency(latency_ns: int) -> int:
        return _idle_ns(schedule, replace(costs, latency_ns=latency_ns))

    def with_slow_rank(thousandths: int) -> int:
        factor = [1.0] * schedule.num_ranks
        factor[schedule.num_ranks // 2] += thousandths / 1000
        return _idle_ns(schedule, replace(costs, rank_factor=tuple(factor)))

    latency_ns = bisect_left(range(bubble_ns), target, key=with_latency)
    slower = bisect_left(range(_MOST_SLOWER), target, key=with_slow_rank)
    return BubbleSlip(
        published_ns=bubble_ns,
        costs=costs,
        law_ns=round(own.ranks.get_column("idle_ns").sum() / schedule.num_ranks),
        law_most_ns=own.bubble_ns,
        alone_latency_ns=latency_ns,
        alone_slower=slower / 1000 if slower < _MOST_SLOWER else None,
    )


def _costs_of_parts(schedule: Schedule, published: PublishedStep) -> Costs:
    """A chunk's costs: parts by the mean number of their actions on a rank. 1B = B's I and W, and the I alone."""
    counts = {
        kind: number / schedule.num_ranks
        for kind, number in schedule.actions.group_by(pl.col("kind").cast(pl.String)).len().iter_rows()
    }
    parts = published.parts_ns
    weight = parts["1W"] / counts["W"]
    both = parts["1B"] - counts["B"] * weight
    return Costs(
        forward_ns=round(parts["1F"] / counts["F"]),
        input_ns=round(both / (counts["B"] + counts["I"])),
        weight_ns=round(weight),
        overlapped_ns=round(parts["1F1B"] / counts["F&B"]),
        source=f"parts of {published.name}",
    )


def _idle_ns(schedule: Schedule, costs: Costs) -> int:
    """Of all ranks together: their mean is what the published parts are taken to be."""
    return int(simulate(schedule, costs).ranks.get_column("idle_ns").sum())
