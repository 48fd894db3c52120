"""Plans whose ops would wait for each other in a circle run without what makes it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import weftrace as wt
from tests.jobs import recipes, write
from tests.jobs import simulate as sim
from weftrace.advice import infer_lanes_of
from weftrace.plan.graph import check
from weftrace.plan.inference.lanes.circles import without_circles
from weftrace.plan.inference.values import Inferred
from weftrace.plan.inference.waits import as_waits


@pytest.fixture(scope="module")
def inferred(tmp_path_factory: pytest.TempPathFactory) -> Inferred:
    job = recipes.pipeline(1, 2, num_mb=3, steps=1)
    return infer_lanes_of(wt.open(str(write.one_file(job, sim.run(job), tmp_path_factory.mktemp("job") / "t.json"))))


def _row(inferred: Inferred, rank: int, name: str, nth: int) -> int:
    rows = inferred.plan.ops.select(pl.col("name").cast(pl.String), "rank").with_row_index("row")
    return int(rows.filter(rank=rank, name=name).get_column("row")[nth])


def test_a_plan_without_circles_stays(inferred: Inferred) -> None:
    assert without_circles(inferred) is inferred


def test_the_least_sure_vote_on_a_circle_goes(inferred: Inferred) -> None:
    """The first forward voted to wait for the send of what it computes, which waits for it."""
    forward, sent = (_row(inferred, 0, name, 0) for name in ("forward-compute", "forward-send"))
    vote = as_waits(pl.DataFrame({"op": [forward], "on": [sent], "source": ["voted"], "confidence": [0.6]}))
    waits = inferred.plan.waits.hstack(inferred.edges)
    order = pl.concat([waits, vote.select(waits.columns)]).sort("op", maintain_order=True)
    edges = order.select(inferred.edges.columns)
    wrong = replace(inferred, plan=replace(inferred.plan, waits=order.select(inferred.plan.waits.columns)), edges=edges)
    mended = without_circles(wrong)
    assert mended.plan.waits.equals(inferred.plan.waits) and mended.edges.equals(inferred.edges)
    assert mended.notes[-1].startswith("1 wait and 0 meetings of ranks are left out")


def test_meetings_that_cross_do_not_meet(inferred: Inferred) -> None:
    """The first send of stage 0 meets the second receive of stage 1, and the second the first. They end as recorded."""
    ops = inferred.plan.ops
    one, other = (_row(inferred, 1, "forward-recv", nth) for nth in (0, 1))
    meets = ops.get_column("meet").to_list()
    meets[one], meets[other] = meets[other], meets[one]
    crossed = ops.with_columns(pl.Series("meet", meets, dtype=ops.schema["meet"]))
    mended = without_circles(replace(inferred, plan=replace(inferred.plan, ops=crossed)))
    check(mended.plan)
    assert mended.plan.ops.get_column("meet")[one] is None
    length = inferred.measured.select(pl.col("end_ns") - pl.col("start_ns")).to_series()
    assert mended.plan.ops.get_column("duration_ns")[one] == length[one]
    assert "2 meetings of ranks are left out" in mended.notes[-1]


def test_a_job_that_mixes_both_directions_on_one_lane_is_not_trusted(tmp_path: Path) -> None:
    """Nothing tells which way a send goes: S would be 0.7."""
    job = recipes.pipeline(2, 4, schedule="dualpipe", num_mb=8, steps=2)
    times = sim.run(job)
    for op in job.ops:
        op.lane = op.lane.removesuffix(" 2")
    found = wt.advice.slowdown_of(infer_lanes_of(wt.open(str(write.table(job, times, tmp_path / "t.parquet")))))
    assert not found.is_trusted
    assert "who waited for whom is not known" in found.headline
