"""A replay and what it recommends: a value that is its document (`weftrace.replay/1`). docs/experts.md explains it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.experts.arrays import Floats
from weftrace.experts.replays.recommend import Recommendation, recommend
from weftrace.experts.replays.replay import Replay, ReplayRow
from weftrace.files.schemas import Count, Positive
from weftrace.files.values import filled
from weftrace.notebook import InNotebook


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySeries:
    """A row of the replay, window by window."""

    row: Count
    balancedness: Annotated[tuple[float | None, ...], Meta(description="By window; null if not scored.")]
    moved_fraction: Annotated[
        tuple[float | None, ...], Meta(description="By window; null if the window has no new plan.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ReplayReport(InNotebook):
    """A replay, and what it recommends."""

    source: str
    num_windows: Positive
    num_layers: Positive
    num_experts: Positive
    num_slots: Positive
    num_gpus: Positive
    rows: tuple[ReplayRow, ...]
    series: tuple[ReplaySeries, ...]
    recommendation: Recommendation

    def __post_init__(self) -> None:
        best = self.recommendation
        named = (best.row, best.baseline_row, best.cheaper_row or 0, *(series.row for series in self.series))
        if not all(0 <= row < len(self.rows) for row in named):
            raise ValueError(f"`recommendation` or `series` names a row that is none of the {len(self.rows)} `rows`")
        for each in self.series:
            if {len(each.balancedness), len(each.moved_fraction)} != {self.num_windows}:
                raise ValueError("a series of `series` has more or fewer numbers than `num_windows`")

    def _describe(self) -> Iterable[tuple[str, str]]:
        yield "loads", self.source or "given"
        yield "windows", f"{self.num_windows:,}"
        yield "combinations", f"{len(self.rows):,}"
        yield "recommended", self.recommendation.text


def replay_report(replay: Replay, recommendation: Recommendation | None = None) -> ReplayReport:
    """A replay and what it recommends; recommendation: `recommend(replay)` where none is given."""
    return filled(
        ReplayReport,
        replay,
        rows=replay.results,
        series=tuple(
            ReplaySeries(row=row, balancedness=_or_none(scored_T), moved_fraction=_or_none(moved_T))
            for row, (scored_T, moved_T) in enumerate(zip(replay.balancedness_RT, replay.moved_RT, strict=True))
        ),
        recommendation=recommend(replay) if recommendation is None else recommendation,
    )


def _or_none(value_T: Floats) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(value) else value for value in value_T.tolist())
