"""How long does a whole step take, and what does it reach, from what one chunk costs?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import polars as pl
from msgspec import Meta

from weftrace.errors import ScheduleError
from weftrace.files.schemas import Count
from weftrace.notebook import InNotebook
from weftrace.pipeline.simulation import Simulation
from weftrace.pipeline.steps.token_flops import TokenFlops
from weftrace.units import S, counted, duration, si

PartName = Literal["1F", "bubble", "1B", "1W", "1F1B", "optimizer"]
Attention = Literal["causal", "full"]

#: Part -> the kinds of action that it is made of: alone, or overlapped.
KINDS_OF_PART: dict[PartName, tuple[str, ...]] = {"1F": ("F",), "1B": ("B", "I"), "1W": ("W",), "1F1B": ("F&B",)}
DAY_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPart(InNotebook):
    """One part of a step. time_ns: the mean over the pipeline's ranks."""

    name: PartName
    time_ns: Count
    fewest: Annotated[
        int | None, Meta(description="Actions of this part on a rank, at least; null where it has none.")
    ] = None
    most: Annotated[int | None, Meta(description="At most.")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeStep(InNotebook):
    """A step of training on many pipelines side by side, predicted from the costs of a chunk.

    parts: they add up to step_ns. The time of a part is that of its actions, the mean over ranks, each rank counting
        alike; the bubble is what is left of the step; the optimizer's time is what was given.
    tokens: of the whole step. flops: of one token, None where the model was not given. peak_flops_per_s: of a GPU.
    tokens_per_s = tokens / step; FLOP/s of a GPU = tokens x FLOPs of a token / (ranks x step); MFU = that / peak.
    """

    schedule: str
    num_stages: int
    num_pipeline_ranks: int
    num_micro_batches: int
    num_ranks: int
    parts: tuple[StepPart, ...]
    step_ns: int
    tokens: int
    flops: TokenFlops | None = None
    peak_flops_per_s: float | None = None

    @property
    def num_pipelines(self) -> int:
        return self.num_ranks // self.num_pipeline_ranks

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / (self.step_ns / S)

    def flops_per_s(self, attention: Attention) -> float | None:
        """Model FLOP/s of a GPU; None where the model was not given."""
        return None if self.flops is None else rate_of(self, self.step_ns, attention)

    def mfu(self, attention: Attention) -> float | None:
        """Of the peak; None where model or peak were not given."""
        rate = self.flops_per_s(attention)
        return None if rate is None or self.peak_flops_per_s is None else rate / self.peak_flops_per_s

    def part(self, name: PartName) -> StepPart:
        """The part of that name; of time 0 where the step has none."""
        return next((part for part in self.parts if part.name == name), StepPart(name=name, time_ns=0))

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "step", f"{duration(self.step_ns)}, {si(self.tokens_per_s, 'tokens/s')}"
        yield from ((part.name, duration(part.time_ns)) for part in self.parts)


def rate_of(step: WholeStep, step_ns: int, attention: Attention) -> float:
    """Model FLOP/s of a GPU, had the step taken that long."""
    assert step.flops is not None, step
    of_token = step.flops.causal if attention == "causal" else step.flops.full
    return step.tokens * of_token / step.num_ranks / (step_ns / S)


def whole_step(
    simulation: Simulation,
    *,
    num_ranks: int,
    tokens_per_micro_batch: int,
    optimizer_ns: int = 0,
    flops: TokenFlops | None = None,
    peak_flops_per_s: float | None = None,
) -> WholeStep:
    """The step of `num_ranks` ranks, as many pipelines side by side as they make, each as simulated.

    Pipelines are taken to be alike and to wait for nothing between them but what the optimizer's time holds. Raises
    `ScheduleError` where the ranks are no whole number of pipelines, or the boundary is no barrier.
    """
    schedule = simulation.schedule
    if num_ranks < 1 or num_ranks % schedule.num_ranks:
        raise ScheduleError(
            f"{counted(num_ranks, 'rank')} cannot be a whole number of pipelines of {schedule.num_ranks:,}; "
            "give a multiple of it."
        )
    if simulation.boundary != "barrier":
        raise ScheduleError("a step ends when all ranks are done with it: simulate it with boundary='barrier'.")
    if not simulation.makespan_ns:
        raise ScheduleError("the pipeline takes no time: give what a chunk costs.")
    parts = _busy_parts(simulation)
    bubble_ns = simulation.makespan_ns - sum(part.time_ns for part in parts)
    parts.insert(1, StepPart(name="bubble", time_ns=bubble_ns))
    if optimizer_ns:
        parts.append(StepPart(name="optimizer", time_ns=optimizer_ns))
    sequences = schedule.num_micro_batches // schedule.num_slices
    return WholeStep(
        schedule=schedule.name,
        num_stages=schedule.num_stages,
        num_pipeline_ranks=schedule.num_ranks,
        num_micro_batches=sequences,
        num_ranks=num_ranks,
        parts=tuple(parts),
        step_ns=simulation.makespan_ns + optimizer_ns,
        tokens=tokens_per_micro_batch * sequences * (num_ranks // schedule.num_ranks),
        flops=flops,
        peak_flops_per_s=peak_flops_per_s,
    )


def _busy_parts(simulation: Simulation) -> list[StepPart]:
    """The parts that actions make, those that the schedule has."""
    num_ranks = simulation.schedule.num_ranks
    taken = simulation.actions.with_columns(
        pl.col("kind").cast(pl.String), time_ns=pl.col("end_ns") - pl.col("start_ns")
    )
    parts = []
    for name, kinds in KINDS_OF_PART.items():
        own = taken.filter(pl.col("kind").is_in(kinds))
        if own.is_empty():
            continue
        counts = own.group_by("rank").len().get_column("len").to_list()
        counts += [0] * (num_ranks - len(counts))
        time_ns = round(own.get_column("time_ns").sum() / num_ranks)
        parts.append(StepPart(name=name, time_ns=time_ns, fewest=min(counts), most=max(counts)))
    return parts
