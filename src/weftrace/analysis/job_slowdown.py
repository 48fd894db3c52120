"""How much slower a job is than at its peers' pace: the values, which are the block of the report too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, TypedDict

import polars as pl
from msgspec import Meta

from weftrace.files.schemas import Amount, Count, Ns, Share
from weftrace.files.values import As
from weftrace.notebook import InNotebook
from weftrace.units import duration, percent

#: What makes a job slower than its peers' pace. absent ranks: those here wait for ranks that have no file. spread:
#: single operations that differ, without a pattern.
CauseKind: TypeAlias = Literal[
    "slow compute", "uneven stages", "uneven sequence lengths", "garbage collection", "slow link", "late host",
    "absent ranks", "spread",
]  # fmt: skip


class WorkerRow(TypedDict):
    """A rank, and how much it alone slows the job down."""

    rank: Annotated[Count, Meta(description="As in the plan.")]
    name: str
    stage: Annotated[Count | None, Meta(description="Pipeline stage; null if unknown.")]
    slowdown: Annotated[
        Amount, Meta(description="S_w: with every other operation at its peers' pace, over all at their peers' pace.")
    ]
    is_bound: Annotated[
        bool,
        Meta(
            description="Whether S_w is not its own, but the less of that of the ranks at its place and of its stage."
        ),
    ]
    compute_ratio: Annotated[
        Amount, Meta(description="Its computation over the lower median of the ranks of its stage, mean over steps.")
    ]
    saved_ns: Annotated[
        int | None,
        Meta(description="Of a step, with this rank alone at its peers' pace; only for those with the largest S_w."),
    ]


class OperationTypeRow(TypedDict):
    """A type of operation, and how much it alone slows the job down."""

    type: Annotated[str, Meta(description="Name of the ranges, family of the kernels, or the collective and its size.")]
    pace: Annotated[str, Meta(description="compute, transfer, or host.")]
    slowdown: Annotated[Amount, Meta(description="S_t: all at its peers' pace but this type, over all at that pace.")]
    time_ns: Annotated[Ns, Meta(description="Of all of it, per step and rank, waiting apart.")]


class StageRow(TypedDict):
    """A pipeline stage, and how much it alone slows the job down."""

    stage: Count
    slowdown: Annotated[Amount, Meta(description="S_s: all at its peers' pace but this stage, over all at that pace.")]
    ratio: Annotated[Amount, Meta(description="Its computation in a step over the mean of the stages.")]
    saved_ns: Annotated[int, Meta(description="Of a step, with this stage alone at its peers' pace.")]


class SlowdownStepRow(TypedDict):
    """A step: as measured, replayed, and with every operation at its peers' pace."""

    step: int | None
    measured_ns: int
    replayed_ns: int
    ideal_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause(InNotebook):
    """One cause of a job's slowdown, and what its repair saves."""

    kind: CauseKind
    ranks: Annotated[tuple[int, ...], Meta(description="The ranks that have it, the worst first; none if all have it.")]
    stages: Annotated[tuple[int, ...], Meta(description="Of uneven stages, the longest first.")]
    saved_ns: Annotated[int, Meta(description="Of a step, mean, by repairing this cause alone.")]
    share: Annotated[float, Meta(description="saved_ns over the replayed step.")]
    alone_ns: Annotated[int, Meta(description="What this cause alone adds to a step at its peers' pace.")]
    saved_each_ns: Annotated[
        tuple[int, ...], Meta(description="Of a step, by repairing each of `ranks`, or `stages`, alone.")
    ]
    first_step: Annotated[int | None, Meta(description="Since when; null: in all steps.")]
    evidence: Annotated[str, Meta(description="The numbers that show the kind.")]
    sentence: str

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield self.kind, self.sentence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class JobSlowdown(InNotebook):
    """S of a job and its parts, by replaying its plan with other durations (`weftrace.advice.slowdown_of`).

    S = replayed_ns / ideal_ns (ByteDance's what-if study of stragglers, OSDI 2025). Ideal: each type of computation at
    the mean of all its instances, each type of transfer at the median; what hosts need at the lower median of
    the ranks.
    """

    headline: str
    num_ranks: Count
    num_steps: Count
    measured_ns: Annotated[Ns, Meta(description="A step, mean.")]
    replayed_ns: Annotated[Ns, Meta(description="The same for the replay with measured durations.")]
    ideal_ns: Annotated[Ns, Meta(description="The same with every operation at its peers' pace.")]
    slowdown: Annotated[Amount, Meta(description="S: replayed_ns / ideal_ns.")]
    without_hosts: Annotated[
        Amount,
        Meta(description="S of the study, which replays no hosts: the same with no time for them in either."),
    ]
    is_trusted: Annotated[
        bool, Meta(description="Whether the replay is within 3 % of the measurement, and S not below 0.99.")
    ]
    lost_gpu_hours: Annotated[
        Amount, Meta(description="Of the recorded steps, over all ranks: (1 - 1/S) of their time.")
    ]
    worst_share: Annotated[
        Share | None,
        Meta(description="M_w: the part of the slowdown that goes when the slowest 3 % of ranks (one at least) are at "
                         "their peers' pace; null if there is no slowdown."),
    ]  # fmt: skip
    num_worst: Annotated[Count, Meta(description="How many ranks these are.")]
    causes: Annotated[tuple[Cause, ...], Meta(description="The largest first.")]
    workers: Annotated[pl.DataFrame, As(list[WorkerRow]), Meta(description="In the order of ranks.")]
    types: Annotated[pl.DataFrame, As(list[OperationTypeRow]), Meta(description="The largest S_t first.")]
    stages: Annotated[pl.DataFrame, As(list[StageRow]), Meta(description="Where two stages or more are known.")]
    steps: Annotated[pl.DataFrame, As(list[SlowdownStepRow]), Meta(description="In order of time.")]
    origin_ns: Annotated[
        tuple[tuple[int, ...], ...],
        Meta(description="How much longer each rank alone makes each step than at its peers' pace, [ranks][steps]; "
                         "empty if it is not known for each rank."),
    ]  # fmt: skip
    absent: Annotated[
        str,
        Meta(description="Which ranks of the job have no file here, in words; empty where all have, as far as known."),
    ] = ""
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> Annotated[float, Meta(description="replayed_ns / measured_ns - 1.")]:
        """How far the replay is off."""
        return self.replayed_ns / self.measured_ns - 1 if self.measured_ns else 0.0

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "S", f"{self.slowdown:.3f}: {self.headline}"
        yield "step", f"{duration(self.measured_ns)}, at its peers' pace {duration(self.ideal_ns)}"
        yield "replay", f"{percent(self.error)} off"
        yield from ((cause.kind, cause.sentence) for cause in self.causes)
