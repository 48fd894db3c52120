"""The block of the path's picture: what it holds is what the frames say, nothing is drawn where nothing ran."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.advice.runs import two_streams
from tests.pages import numbers_of
from weftrace.advice.changes import PerfectOverlap, parse_change
from weftrace.advice.critical_paths import critical_path_of
from weftrace.advice.render.picture import path_picture
from weftrace.advice.whatifs import what_if


def columns(block: Any) -> dict[str, Any]:
    return {name: numbers_of(column) for name, column in block.items()}


def test_parts_lie_end_to_end_over_the_span_and_add_up_by_class(tmp_path: Path) -> None:
    path = critical_path_of(two_streams(tmp_path))
    picture = path_picture(path)
    parts = columns(picture["parts"])
    ends = (path.parts["until_ns"] - path.parts["from_ns"][0]).to_numpy()
    assert (np.cumsum(parts["dur"]) == ends).all() and ends[-1] == picture["span_ns"] and parts["dur"].min() > 0
    by_class = {name: int(parts["dur"][parts["class"] == at].sum()) for at, name in enumerate(picture["classes"])}
    assert {name: ns for name, ns in by_class.items() if ns} == dict(path.by_class.select("name", "time_ns").rows())


def test_ops_stand_on_their_rows_at_their_replayed_times(tmp_path: Path) -> None:
    path = critical_path_of(two_streams(tmp_path))
    picture = path_picture(path)
    begin = path.parts.item(0, "from_ns")
    ops = columns(picture["ops"])
    on_7 = next(row for row in picture["rows"] if row["name"] == "stream 7")
    some = slice(on_7["first"], on_7["first"] + on_7["count"])
    expected = path.times.ops.filter(stream=7)
    assert (ops["start"][some] == (expected["start_ns"] - begin).to_numpy()).all()
    assert (ops["dur"][some] == (expected["end_ns"] - expected["start_ns"]).to_numpy()).all()
    assert [picture["names"][at] for at in ops["name"][some]] == expected["name"].cast(pl.String).to_list()
    assert not picture["left_out_ops"] and not picture["left_out_rows"]


def test_of_too_many_ops_those_of_devices_stay(tmp_path: Path) -> None:
    path = critical_path_of(two_streams(tmp_path))
    num_device = path.measured.filter(pl.col("event").is_not_null()).height
    whole, few = path_picture(path), path_picture(path, max_ops=num_device)
    assert [row["count"] for row in few["rows"] if row["on_device"]] == [
        row["count"] for row in whole["rows"] if row["on_device"]
    ]
    assert few["left_out_ops"] == len(numbers_of(whole["ops"]["start"])) - num_device
    assert few["path"] | {"name": 0, "waited_for": 0} == whole["path"] | {"name": 0, "waited_for": 0}


def test_hops_join_the_rows_of_the_path(tmp_path: Path) -> None:
    picture = path_picture(critical_path_of(two_streams(tmp_path)))
    hops = picture["hops"]
    assert hops["from_row"] and all(a != b for a, b in zip(hops["from_row"], hops["to_row"], strict=True))
    names = {picture["rows"][at]["name"] for at in hops["from_row"]}
    assert "thread 0" in names


def test_a_changed_plan_is_drawn_on_the_threads_that_it_had(tmp_path: Path) -> None:
    answer = what_if(two_streams(tmp_path), [parse_change("host=0.5"), PerfectOverlap()])
    picture = path_picture(answer.after, before=answer.before)
    names = [row["name"] for row in picture["rows"]]
    assert names == ["stream 7", "stream 20, apart", "thread 0"] and not picture["left_out_rows"]
    assert None not in picture["causes"]
