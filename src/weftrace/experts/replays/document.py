"""A replay and what it recommends as JSON values, versioned (`weftrace.replay/1`). docs/experts.md explains it."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from weftrace.experts.replays.recommend import Recommendation, recommend
from weftrace.experts.replays.replay import Replay
from weftrace.version import __version__

SCHEMA = "weftrace.replay/1"
SCHEMA_FILE = Path(__file__).with_name("replay.schema.json")


def replay_document(replay: Replay, recommendation: Recommendation | None = None) -> dict[str, Any]:
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
        "rows": replay.table.to_dicts(),
        "series": [
            {
                "row": row,
                "balancedness": [_or_null(value) for value in replay.balancedness_RT[row].tolist()],
                "moved_fraction": [_or_null(value) for value in replay.moved_RT[row].tolist()],
            }
            for row in range(len(replay.rows))
        ],
        "recommendation": asdict(recommend(replay) if recommendation is None else recommendation),
    }


def _or_null(value: float) -> float | None:
    return None if math.isnan(value) else value
