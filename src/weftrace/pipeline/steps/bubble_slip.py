"""Why is a published step's bubble longer than its schedule makes it?

The published parts tell what a chunk cost there; the schedule with these costs has a bubble of its own. What the
published one has beyond it is *slip*: time that ranks lose to what no schedule plans. Which cause it was, a table of
parts cannot tell; so each is asked how large it would have to be, were it alone.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Annotated

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Count
from weftrace.files.values import UNSAVED
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
        separated by W. alone_slower: None where twice as slow is not enough.
    """

    published_ns: Count
    law_ns: Annotated[Count, Meta(description="The schedule's own, with the costs of the published parts.")]
    law_most_ns: Annotated[Count, Meta(description="On the rank that idles most.")]
    alone_latency_ns: Annotated[Count, Meta(description="A message's time that alone would make the slip.")]
    alone_slower: Annotated[float | None, Meta(description="Part by which one slower rank alone would make it.")]
    costs: Annotated[Costs | None, UNSAVED] = None

    @property
    def slip_ns(self) -> Annotated[int, Meta(description="published_ns - law_ns.")]:
        return self.published_ns - self.law_ns

    @property
    def text(self) -> Annotated[str, Meta(description="How large each cause of the slip would have to be alone.")]:
        alone = [f"messages of {duration(self.alone_latency_ns)} each"]
        if self.alone_slower is not None:
            alone.append(f"one rank in the middle that is {percent(self.alone_slower)} slower")
        alone.append(f"{duration(self.slip_ns)} a step in which all ranks wait for each other")
        return (
            f"Of the published bubble of {duration(self.published_ns)} the schedule itself makes "
            f"{duration(self.law_ns)} with the published parts' own costs ({duration(self.law_most_ns)} on the "
            f"rank that idles most): that much is the law's. The other {duration(self.slip_ns)} are slip, which no "
            f"schedule plans. Each of these alone would make it: {'; '.join(alone)}."
        )


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
