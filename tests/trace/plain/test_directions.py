"""Sends and receives of a model that runs through the pipeline both ways: by hand."""

from __future__ import annotations

import polars as pl
import pytest

from weftrace.trace.plain.directions import both_ways, in_two_lanes

#: Ends of forwards' transfers between three stages. Down the pipeline they end at 100, 200, ...; up it a bit later.
#:
#:     stage 0   send 1 |100 |200 |300 |400          receive 2  |175 |290 |360 |480
#:     stage 1   receive 1, the same; send 3 |150 |240 |355 |450; receive 4 |130 |250 |310 |440; send 2
#:     stage 2   receive 3, send 4
_DOWN = {(0, 1): (100, 200, 300, 400), (1, 2): (150, 240, 355, 450)}
_UP = {(1, 0): (175, 290, 360, 480), (2, 1): (130, 250, 310, 440)}


def _rows(ahead: tuple[int, ...]) -> pl.DataFrame:
    """ahead: what is added to the times of each stage."""
    rows = []
    for lane, ((sender, receiver), ends) in enumerate([*_DOWN.items(), *_UP.items()]):
        for stage, rule in ((sender, "forward_send"), (receiver, "forward_recv")):
            facts = {"worker": stage, "pp": stage, "rule": rule, "lane": lane, "step": 0}
            late = ahead[stage]
            rows += [{**facts, "ts_ns": end + late - 10, "end_ns": end + late} for end in ends]
    return pl.DataFrame(rows).with_row_index("row")


@pytest.mark.parametrize("ahead", [(0, 0, 0), (0, 5_000, -300)])
def test_lanes_of_both_directions(ahead: tuple[int, ...]) -> None:
    rows = _rows(ahead)
    found = both_ways(rows, (), one_clock=not any(ahead))
    assert found is not None
    told = rows.join(found, on="row").group_by("lane").agg("stages", "k").sort("lane")
    assert [set(stages) for stages in told.get_column("stages")] == [{"PP 0-1"}, {"PP 1-2"}, {"PP 1-0"}, {"PP 2-1"}]
    assert all(sorted(k) == [0, 0, 1, 1, 2, 2, 3, 3] for k in told.get_column("k"))


def test_only_the_stage_between_has_two_lanes() -> None:
    assert sorted(in_two_lanes(_rows((0, 0, 0))).rows()) == [(1, "forward_recv"), (1, "forward_send")]


def test_one_direction_is_left_alone() -> None:
    rows = _rows((0, 0, 0)).filter(pl.col("lane") < 2)
    assert both_ways(rows, (), one_clock=True) is None


def test_without_its_neighbours_a_lane_has_a_name_of_its_own() -> None:
    rows = _rows((0, 0, 0)).filter(pl.col("pp") > 0)
    found = both_ways(rows, (), one_clock=True)
    assert found is not None
    told = dict(rows.join(found, on="row").select("lane", "stages").unique().rows())
    assert told == {0: "PP 1 forward_recv 0", 1: "PP 1-2", 2: "PP 1 forward_send 2", 3: "PP 2-1"}
