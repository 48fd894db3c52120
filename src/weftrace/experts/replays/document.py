"""A replay and what it recommends as JSON values, versioned (`weftrace.replay/1`). docs/experts.md explains it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Annotated, Final, Literal, TypedDict, cast

from msgspec import Meta

from weftrace.experts.replays.recommend import Recommendation, recommend
from weftrace.experts.replays.replay import Replay
from weftrace.files.schemas import Amount, Count, DocumentSchema, Fraction, Positive
from weftrace.version import __version__

SCHEMA: Final = "weftrace.replay/1"


class ReplayRow(TypedDict):
    """One combination of solver, estimator, window and interval, and what it would have reached."""

    solver: str
    estimator: str
    window: Annotated[int | None, Meta(description="Windows the estimator looks back over; null where it has none.")]
    interval: Annotated[int | None, Meta(description="Windows between re-plans; null where it plans once.")]
    balancedness: Annotated[Fraction, Meta(description="Mean over layers and scored windows.")]
    low: Annotated[Fraction, Meta(description="95 % moving-block bootstrap.")]
    high: Fraction
    moved_fraction: Annotated[Amount, Meta(description="Mean share of slots rewritten by a re-plan.")]
    num_plans: Count
    plan_ms: Annotated[float | None, Meta(description="Mean time of a plan; null where not measured.")]


class ReplaySeries(TypedDict):
    """A row of the replay, window by window."""

    row: Count
    balancedness: Annotated[list[float | None], Meta(description="By window; null where not scored.")]
    moved_fraction: Annotated[list[float | None], Meta(description="By window; null where nothing was planned.")]


class RecommendationSummary(TypedDict):
    """Which row to use, and what it gains over the baseline, in points of balancedness."""

    row: Count
    baseline_row: Count
    gain_points: float
    gain_low: float
    gain_high: float
    cheaper_row: int | None
    text: str


class ReplayDocument(TypedDict):
    schema: Literal["weftrace.replay/1"]
    weftrace: Annotated[str, Meta(description="Version of weftrace that wrote it.")]
    source: str
    num_windows: Positive
    num_layers: Positive
    num_experts: Positive
    num_slots: Positive
    num_gpus: Positive
    rows: list[ReplayRow]
    series: list[ReplaySeries]
    recommendation: RecommendationSummary


REPLAY_SCHEMA = DocumentSchema(
    document=ReplayDocument,
    schema=SCHEMA,
    title="What load estimators, windows, intervals and solvers would have reached on recorded loads",
)


def replay_document(replay: Replay, recommendation: Recommendation | None = None) -> ReplayDocument:
    """A replay as JSON-able values; recommendation: `recommend(replay)` where none is given."""
    return {
        "schema": SCHEMA,
        "weftrace": __version__,
        "source": replay.source,
        "num_windows": replay.num_windows,
        "num_layers": replay.num_layers,
        "num_experts": replay.num_experts,
        "num_slots": replay.num_slots,
        "num_gpus": replay.num_gpus,
        "rows": cast(list[ReplayRow], replay.table.to_dicts()),
        "series": [
            {
                "row": row,
                "balancedness": [_or_null(value) for value in replay.balancedness_RT[row].tolist()],
                "moved_fraction": [_or_null(value) for value in replay.moved_RT[row].tolist()],
            }
            for row in range(len(replay.rows))
        ],
        "recommendation": cast(
            RecommendationSummary, asdict(recommend(replay) if recommendation is None else recommendation)
        ),
    }


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
