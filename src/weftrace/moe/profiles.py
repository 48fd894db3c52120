"""A simulated profile: an operation list, priced, laid out in time; and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

from weftrace.moe.as_plan import plan_of
from weftrace.moe.operations import Overlap
from weftrace.moe.pieces import Prices
from weftrace.moe.setting import Kind, Setting
from weftrace.notebook import InNotebook
from weftrace.plan import Plan, Timetable, timetable
from weftrace.units import us

#: The operation list of each published profile.
PUBLISHED_OVERLAP: dict[Kind, str] = {"train": "training", "prefill": "two-micro-batches", "decode": "five-stages"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile(InNotebook):
    """A profile as it was simulated.

    setting, overlap, prices: what it was made of; level: how prices were found. times: of its plan.
    """

    setting: Setting
    overlap: Overlap
    level: str
    prices: Prices
    times: Timetable

    @property
    def plan(self) -> Plan:
        return self.times.plan

    @property
    def span_ns(self) -> int:
        """From the first start to the last end, over all ranks."""
        return self.times.makespan_ns

    @property
    def layer_ns(self) -> float:
        """Time that a layer adds: from the last repetition's first start back to the second's, by repetition; of one
        layer alone its span."""
        starts = self._starts_ns()
        return float(self.span_ns) if len(starts) < 3 else float(starts[-1] - starts[1]) / (len(starts) - 2)

    def _starts_ns(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """When the list's first operation starts in each layer, on the rank where it is last."""
        first = self.overlap.operations[0]
        ops = self.times.ops.filter(phase=first.phase, micro_batch=first.micro_batch)
        latest = (
            ops.group_by("layer", "rank").agg(pl.col("start_ns").min()).group_by("layer").agg(pl.col("start_ns").max())
        )
        found: np.ndarray[tuple[int], np.dtype[np.int64]] = latest.sort("layer").get_column("start_ns").to_numpy()
        return found

    def _told(self) -> Iterator[tuple[str, str]]:
        yield from self.setting.told().items()
        yield "overlap", self.overlap.title
        yield "costs", self.level
        yield "span", us(self.span_ns)
        yield "a layer", us(round(self.layer_ns))


def simulated(setting: Setting, overlap: Overlap, prices: Prices, *, level: str, num_ranks: int = 1) -> Profile:
    """The profile of these prices.

    Raises `ProfileError` where they do not fit the list, and `PlanError` where the list stands still.
    """
    plan = plan_of(overlap, prices, setting, num_ranks=num_ranks)
    return Profile(setting=setting, overlap=overlap, level=level, prices=prices, times=timetable(plan))
