"""The plotly figure of a schedule: bars where actions ran, in the colours of the other pictures."""

from __future__ import annotations

from typing import Any

import pytest

import weftrace as wt
from tests.pipeline.render import simulations
from weftrace.pipeline.render import scene
from weftrace.pipeline.render.colours import colour
from weftrace.pipeline.render.scene import figure_schedule
from weftrace.pipeline.simulation import Simulation

pytest.importorskip("plotly")


def bars(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data if trace.type == "bar"}


def rows_of(figure: Any) -> dict[float, str]:
    """Where a row is -> its label."""
    return dict(zip(figure.layout.yaxis.tickvals, figure.layout.yaxis.ticktext, strict=True))


@pytest.mark.parametrize("simulation", [simulations.dual(), simulations.vee()], ids=["DualPipe", "DualPipeV"])
def test_bars_lie_where_actions_ran_and_cover_what_is_busy(simulation: Simulation) -> None:
    figure = figure_schedule(simulation)
    found = bars(figure)
    pairs = found.pop("F&amp;B, overlapped")
    unit = 1_000 if simulation.costs.source == "units" else 1_000_000
    area = sum(x * width for trace in found.values() for x, width in zip(trace.x, trace.width, strict=True))
    (whole,) = set(pairs.width)
    assert area / whole * unit == pytest.approx(simulation.ranks["busy_ns"].sum())
    wanted = simulation.actions.filter(kind="F&B")
    assert list(pairs.base) == pytest.approx((wanted["start_ns"] / unit).to_list())
    rank_at = {y: int(name.removeprefix("rank ")) for y, name in rows_of(figure).items()}
    assert [rank_at[y] for y in pairs.y] == wanted["rank"].to_list()
    assert figure.layout.xaxis.range[1] * unit == pytest.approx(simulation.makespan_ns)


def test_colours_and_shades_are_those_of_the_other_pictures() -> None:
    found = bars(figure_schedule(simulations.dual()))
    assert found["I, input gradient, direction 1"].marker.color == colour("I", 1, 2)
    assert list(bars(figure_schedule(simulations.f1b()))) == ["F, forward", "B, backward"]


def test_the_memory_line_peaks_at_the_peak() -> None:
    figure = figure_schedule(simulations.vee())
    line = figure.data[-1]
    assert max(line.y) == 9 << 30 and "peaks at 9.0 GiB" in line.name
    assert figure.layout.title.text.startswith("DualPipeV takes 4.7")


def test_of_a_large_schedule_some_ranks_are_drawn_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "MAX_BARS", 200)
    figure = figure_schedule(simulations.f1b(40, 20))
    assert list(rows_of(figure).values()) == ["rank 0", "rank 13", "rank 26", "rank 39"]
    assert "4 of 40 ranks are drawn" in figure.layout.title.text


def test_the_door_draws_simulations_and_schedules() -> None:
    simulation = simulations.dual()
    for value in (simulation, simulation.schedule):
        assert len(wt.figure(value).data) == len(figure_schedule(simulation).data)
