"""What every drawing shares: what an action waited for, what shades tell apart, what is held, which ranks are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.pipeline.render import simulations
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.dependencies import messages
from weftrace.pipeline.generators.families import generate
from weftrace.pipeline.render.picture import causes, memory_of, picture_of, shades_of
from weftrace.pipeline.simulation import Simulation, simulate

SLOW = Costs.units(FB=3, latency=0.3, rank_factor=(1.0, 1.7, 1.0, 1.1))
LINKED = Costs(
    forward_ns=1_000, input_ns=1_100, weight_ns=300, overlapped_ns=1_500, message_bytes=800, bytes_per_s=1e9,
    latency_ns=20, output_ready=(0.5, 0.6), input_needed=(0.1, 0.2),
)  # fmt: skip


def of(name: str, costs: Costs) -> Simulation:
    return simulate(generate(name, num_ranks=4, num_micro_batches=12), costs)


CASES: dict[str, Callable[[], Simulation]] = {
    "no latency": lambda: of("zb1p", simulations.UNITS),
    "a slow rank, F&B": lambda: of("interleaved-fb", Costs.units(FB=3, rank_factor=(1.0, 1.0, 2.0, 1.0))),
    "latency, slow ranks": lambda: of("dualpipe", SLOW),
    "links, times inside F&B": lambda: of("dualpipev", LINKED),
    "links, 1F1B": lambda: of("1f1b", LINKED),
}


@pytest.mark.parametrize("name", CASES)
def test_who_waits_waits_for_what_it_needs_and_who_does_not_waits_for_nothing(name: str) -> None:
    simulation = CASES[name]()
    sent = set(messages(simulation.schedule).select("op", "on").rows())
    free = dict.fromkeys(range(4), 0)
    found, ends = causes(simulation).tolist(), simulation.actions["end_ns"].to_list()
    for row, (rank, start, end) in enumerate(simulation.actions.select("rank", "start_ns", "end_ns").iter_rows()):
        assert (found[row] >= 0) == (start > free[rank])
        if found[row] >= 0:
            assert (row, found[row]) in sent
            if "links" not in name:  # of two that it needs, the one that came then, and not the one that was there
                assert ends[found[row]] + simulation.costs.latency_ns == start
        free[rank] = end


def test_messages_that_block_wait_for_the_other_rank_too() -> None:
    simulation = of("1f1b", Costs.units(latency=0.5, blocking=True))
    found = causes(simulation).tolist()
    free = dict.fromkeys(range(4), 0)
    for row, (rank, start, end) in enumerate(simulation.actions.select("rank", "start_ns", "end_ns").iter_rows()):
        assert (found[row] >= 0) == (start > free[rank])
        free[rank] = end


@pytest.mark.parametrize(
    ("name", "shades"),
    [
        ("1f1b", ("",)),
        ("dualpipe", ("direction 0", "direction 1")),
        ("zbv", ("chunk 0", "chunk 1")),
        ("interleaved", ("chunk 0", "chunk 1")),
    ],
)
def test_shades(name: str, shades: tuple[str, ...]) -> None:
    schedule = generate(name, num_ranks=4, num_micro_batches=8)
    named, shade_of = shades_of(schedule)
    assert named == shades
    if name == "zbv":  # stages 0-3 down the ranks, 4-7 back up
        assert [shade_of[rank, rank] for rank in range(4)] == [0] * 4
        assert [shade_of[rank, 7 - rank] for rank in range(4)] == [1] * 4


@pytest.mark.parametrize("name", ["1f1b", "zb2p", "v-half", "dualpipe"])
def test_chunks_are_held_as_the_simulation_counts_them(name: str) -> None:
    """Also where costs give activations no size."""
    for costs in (simulations.UNITS, Costs(forward_ns=5, input_ns=7, weight_ns=3)):
        simulation = of(name, costs)
        curves = memory_of(simulation, [0, 1, 2, 3], in_bytes=False)
        for rank in range(4):
            curve = curves.filter(rank=rank)
            assert curve["held"].max() == simulation.ranks["peak_activations"][rank]
            assert curve["held"][-1] == 0 and curve["time_ns"][0] == 0


def test_of_many_ranks_the_one_that_holds_most_is_drawn() -> None:
    schedule = generate("1f1b", num_ranks=50, num_micro_batches=60)
    slow = Costs.units(activation_bytes=tuple(9 if stage == 17 else 1 for stage in range(50)), source="a test")
    picture = picture_of(simulate(schedule, slow), 5)
    assert picture.peak_rank == 17
    assert picture.ranks["rank"].to_list() == [0, 16, 17, 33, 49]
    assert picture.cells["rank"].unique().to_list() == [0, 16, 17, 33, 49]
    known = picture.cells["cause"].drop_nulls().to_list()
    ranks, ends, starts = (picture.cells[name].to_list() for name in ("rank", "end_ns", "start_ns"))
    rows = [row for row, cause in enumerate(picture.cells["cause"].to_list()) if cause is not None]
    assert known and {ranks[cause] for cause in known} <= {16, 17}  # the only neighbours among those drawn
    assert all(ends[cause] == starts[row] for row, cause in zip(rows, known, strict=True))


def test_costs_of_a_trace_which_count_chunks_are_no_bytes() -> None:
    """A trace tells times alone; its 1 counts activations, whole or, of half a chunk, rounded away."""
    costs = Costs(forward_ns=1_000, input_ns=1_000, weight_ns=500, activation_bytes=1, source="train.json")
    for each in (costs, costs.split(2)):
        picture = picture_of(of("1f1b", each), 4)
        assert (picture.held_in, picture.peak) == ("chunks", 4)
    assert picture_of(of("1f1b", replace(costs, activation_bytes=1 << 30)), 4).held_in == "bytes"
