"""The terminal's picture of a schedule: to scale, a letter an action, idle blank, and honest where it is not exact."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.pipeline.render import simulations
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.render.page import render_schedules_html
from weftrace.pipeline.render.picture import picture_of
from weftrace.pipeline.render.scene import svg_of
from weftrace.pipeline.render.terminal import MAX_RANKS, drawn, most_of_column, print_simulation
from weftrace.pipeline.simulation import Simulation, simulate
from weftrace.units import duration


def printed(simulation: Simulation, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_simulation(simulation, console)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def rows(simulation: Simulation, width: int = 80) -> list[str]:
    """The lines of ranks, without the number before and the columns behind."""
    head, *lines = drawn(picture_of(simulation, MAX_RANKS), width).plain.splitlines()
    return [line[4 : head.index("idle%") - 1] for line in lines[: min(MAX_RANKS, simulation.schedule.num_ranks)]]


def test_1f1b_by_hand() -> None:
    """Two columns a unit: F is 1, B is 2 units; stage 3's last backward ends at 27, stage 0's at 33."""
    assert printed(simulations.f1b()) == (
        "weftrace pipeline show · 4 stages on 4 ranks, 8 micro-batches\n"
        "\n"
        "1F1B takes 33 units of time; bubble 9 (27.3 %; boundary: barrier, all ranks end \n"
        "together); a rank holds at most 4 chunks' activations.\n"
        "\n"
        "rank|0                  |10                 |20                 |30    idle%peak\n"
        "  0 F0F1F2F3            B0--F4B1--F5B2--F6B3--F7B4--  B5--  B6--  B7--  27.3   4\n"
        "  1   F0F1F2        B0--F3B1--F4B2--F5B3--F6B4--F7B5--  B6--  B7--      27.3   3\n"
        "  2     F0F1    B0--F2B1--F3B2--F4B3--F5B4--F6B5--F7B6--  B7--          27.3   2\n"
        "  3       F0B0--F1B1--F2B2--F3B3--F4B4--F5B5--F6B6--F7B7--              27.3   1\n"
        "mem ▂▂▄▄▆▆██████████████████████████████████████████▆▆▆▆▆▆▄▄▄▄▄▄▂▂▂▂▂▂\n"
        "    F forward  B backward  \n"
        "    mem: chunks with activations held, the most of any rank\n"
    )


def test_dualpipe_of_deepseek_s_figure_fits_80_columns_a_column_a_unit() -> None:
    found = rows(simulations.dual())
    assert found[0] == "FFFFFFFfiwfiwfiwfF&b   f&BF&bf&BF&bf&Bb- f&Bb- f&Bb- f&Bb-IWIWIWIW"
    assert found[7] == "fffffffFIWFIWFIWFf&B   F&bf&BF&bf&BF&bB6 F&bB7 F&bB8 F&bB9iwiwiwiw"
    text = printed(simulations.dual())
    assert "lower case: direction 1" in text and "a column is" not in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("simulation", [simulations.f1b(), simulations.dual()], ids=["1F1B", "DualPipe"])
def test_where_times_are_multiples_of_a_column_blanks_are_the_idle_time(simulation: Simulation, width: int) -> None:
    ranks = simulation.ranks.select("idle_ns", "busy_ns").rows()
    for line, (idle, busy) in zip(rows(simulation, width), ranks, strict=True):
        assert line.count(" ") * (idle + busy) == len(line) * idle


def test_a_column_shows_what_fills_most_of_it() -> None:
    """Columns of 10. 0-10 is all of the first; then it has 4 of 10, less than half; then F has 2 x 2, B 3, idle 3; then
    the longer of two. Of many short ones that fill 7 of 10 with idle time between, one is drawn, not idle time."""
    spans = [(0, 14, "F"), (20, 22, "F"), (23, 26, "B"), (28, 30, "F"), (30, 34, "F"), (34, 40, "B")]
    assert most_of_column(spans, 4, 10).tolist() == [0, -1, 1, 5]
    assert most_of_column([(0, 15, "F")], 2, 10).tolist() == [0, 0]
    assert most_of_column([(10 * at, 10 * at + 7, "F") for at in range(10)], 1, 100).tolist() == [0]
    assert most_of_column([(10 * at, 10 * at + 4, "F") for at in range(10)], 1, 100).tolist() == [-1]


def test_what_does_not_fit_is_scaled_and_says_so() -> None:
    text = printed(simulations.dual(16, 64))
    assert max(map(len, text.splitlines())) <= 80
    assert "a column is 3.12 units, longer than some actions: the kind that fills most is drawn;" in " ".join(
        text.split()
    )


def test_a_kind_that_takes_no_time_is_said_and_hides_no_other() -> None:
    text = printed(simulations.f1b(2, 2, Costs.units(1, 1, 0)))
    assert "a column is" not in text and "takes no time" not in text  # B takes I's time
    split = printed(simulate(generate("zb1p", num_ranks=2, num_micro_batches=2), Costs.units(1, 1, 0)))
    assert "a column is" not in split and "W takes no time: none is drawn." in split


def test_of_many_ranks_some_are_drawn_and_said() -> None:
    simulation = simulations.f1b(100, 4)
    assert len(picture_of(simulation, MAX_RANKS).ranks) == MAX_RANKS - 1  # one place is kept for the peak, here rank 0
    assert "31 of 100 ranks are drawn, evenly chosen: 0, 3, 7, … 99." in printed(simulation)
    assert "are drawn" not in printed(simulations.f1b())


def test_measured_costs_are_told_in_time_and_bytes() -> None:
    simulation = simulations.vee()
    text = printed(simulation)
    assert f"DualPipeV takes {duration(simulation.makespan_ns, 4)}; bubble {duration(simulation.bubble_ns, 4)}" in text
    assert "holds at most 9.0 GiB" in text
    assert "idle%    peak" in text


def test_a_boundary_is_named_with_what_it_means() -> None:
    span = simulate(simulations.f1b().schedule, simulations.UNITS, boundary="span")
    assert "boundary: span, each rank by itself, from its first action to its last" in " ".join(printed(span).split())


def test_the_smallest_and_the_emptiest_schedules_are_drawn() -> None:
    """One chunk; actions without duration; forwards alone."""
    assert "a rank holds at most 1 chunk's activations" in " ".join(printed(simulations.f1b(1, 1)).split())
    nothing = simulations.f1b(2, 2, Costs(forward_ns=0, input_ns=0, weight_ns=0))
    schedule = simulations.f1b(3, 4).schedule
    forwards = simulate(schedule.with_actions(schedule.actions.filter(kind="F")), simulations.UNITS)
    for simulation in (nothing, forwards):
        assert "takes" in printed(simulation, 40)
        for draw in (svg_of, render_schedules_html):
            assert draw([simulation])
        assert picture_of(simulation, 8).memory["rank"].n_unique() == simulation.schedule.num_ranks
