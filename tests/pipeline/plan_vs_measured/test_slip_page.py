"""What is drawn of a measured step is what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.browser import Open
from tests.pipeline.plan_vs_measured.test_slip import COSTS, jittered, measured
from tests.pipeline.render.test_page import block
from weftrace.errors import OutputError
from weftrace.pipeline import simulate
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.plan_vs_measured.document import slip_report
from weftrace.pipeline.render.slip_page import measured_simulation, render_slip_html
from weftrace.plan import timetable


def test_the_measured_simulation_has_the_measured_times_and_the_plans_memory(tmp_path: Path) -> None:
    schedule = dualpipe(4, 8)
    times, _, _ = jittered(schedule, COSTS, 3)
    found = measured(tmp_path, schedule, times)
    drawn = measured_simulation(found)
    assert drawn.makespan_ns == found.measured_ns and drawn.bubble_ns == found.bubble_ns
    for name in ("start_ns", "end_ns"):
        assert drawn.actions[name].to_list() == found.actions[name].to_list()
    assert drawn.ranks["idle_ns"].to_list() == found.ranks["idle_ns"].to_list()
    assert drawn.ranks["peak_activations"].to_list() == [5] * 4
    # The plan that it stands on gives these times, but for what ranks waited for before their first action.
    run = timetable(drawn.times.plan)
    assert (run.start_ns <= drawn.times.start_ns).all()
    assert (np.diff(run.end_ns) == np.diff(drawn.times.end_ns)).mean() > 0.9


def test_the_page_draws_both_on_one_scale_of_time(tmp_path: Path, open_html: Open) -> None:
    schedule = dualpipe(4, 8)
    times, _, _ = jittered(schedule, COSTS, 3)
    found = measured(tmp_path / "run", schedule, times)
    html = render_slip_html(slip_report(found))
    pictures = block(html)["pictures"]
    assert [(picture["name"], picture["makespan_ns"]) for picture in pictures] == [
        ("planned", found.planned_ns), ("measured", found.measured_ns),
    ]  # fmt: skip
    page = open_html(html)
    assert page.locator(".schedule canvas").count() == 2
    assert "longer than planned" in page.locator("h1").inner_text().replace("\u00a0", " ")


def test_offloaded_activations_are_not_drawn(tmp_path: Path) -> None:
    plain = dualpipe(4, 8)
    is_first = (pl.col("kind") == "F") & (pl.col("micro_batch") == 0) & (pl.col("stage") == 0)
    schedule = plain.with_actions(plain.actions.with_columns(offload=is_first))
    costs = replace(COSTS, activation_bytes=100, offload_bytes_per_s=1e9)
    found = measured(tmp_path, schedule, simulate(schedule, costs).times, costs)
    assert found.error == 0
    with pytest.raises(OutputError, match="no trace tells their copies"):
        render_slip_html(slip_report(found))
