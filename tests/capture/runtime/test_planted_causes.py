"""Two ranks on gloo, of which rank 1 is slow for a reason of its own: recorded, and named by the report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.living import Ranks
from weftrace.report import analyze

pytest.importorskip("torch")


@pytest.mark.parametrize(
    ("planted", "cause", "function"),
    [
        ("sleep", "python", "polls_a_server"),
        ("loader", "data_loading", "decodes_an_image"),
        ("collection", "garbage_collection", ""),
    ],
)
def test_what_a_rank_did_while_the_other_waited_is_named(
    ranks: Ranks, tmp_path: Path, planted: str, cause: str, function: str
) -> None:
    case = "tests.capture.runtime.planted_cases:trains_with_one_slow"
    ranks.run(case, 2, planted=planted, folder=str(tmp_path))
    document = analyze(tmp_path, workers=1, timelines=False).document
    row = document["ranks"][1]["idle_account"]["causes"][0]
    assert row["cause"] == cause and function in row["name"]
    assert row["num_main"] >= 3 and row["ns"] >= 2 * 30_000_000  # of four pauses of 30 ms
    slow, others = document["ranks"][1]["idle_account"], document["ranks"][0]["idle_account"]
    assert row["ns"] > 3 * others["idle_ns"] and slow["unrecorded_ns"] == 0
    assert "In rank 1, " in document["headline"] and function in document["headline"]
    assert "Rank 1 made rank 0 wait" in document["headline"]
