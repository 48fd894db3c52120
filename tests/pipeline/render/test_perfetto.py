"""A saved simulation opens in Perfetto: valid events, arrows bound to slices, counters; and it is read back."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import weftrace as wt
from tests.pipeline.render import simulations
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe
from weftrace.pipeline.render.perfetto import perfetto_text, write_perfetto
from weftrace.pipeline.simulation import Simulation, simulate

EARLY = Costs.units(FB=3, latency=0.1, output_ready=(0.5, 0.5), input_needed=(0.0, 0.25))
BLOCKING = Costs.units(FB=3, latency=0.1, blocking=True)
CASES: dict[str, Callable[[], Simulation]] = {
    "1F1B": simulations.f1b,
    "DualPipe": simulations.dual,
    "DualPipeV, links": simulations.vee,
    "early sends": lambda: simulate(dualpipe(4, 8), EARLY),
    "blocking": lambda: simulations.f1b(costs=BLOCKING),
}


def events(simulation: Simulation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(b"".join(perfetto_text(simulation)))["traceEvents"]
    return found


def ns(us: float) -> int:
    return round(us * 1000)


def slices(found: list[dict[str, Any]]) -> dict[tuple[int, int], list[tuple[int, int, str]]]:
    """(process, thread) -> start, end and name of its slices, in the order of the file."""
    threads: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for event in found:
        if event["ph"] == "X":
            start = ns(event["ts"])
            thread = threads.setdefault((event["pid"], event["tid"]), [])
            thread.append((start, start + ns(event["dur"]), event["name"]))
    return threads


@pytest.mark.parametrize("name", CASES)
def test_slices_are_the_actions_with_their_real_durations(name: str) -> None:
    simulation = CASES[name]()
    threads = slices(events(simulation))
    names = [str(action) for action in simulation.schedule.listed()]
    rows = zip(simulation.actions.select("rank", "start_ns", "end_ns").rows(), names, strict=True)
    wanted = [(rank + 1, 7, start, end, summary) for (rank, start, end), summary in rows]
    assert [(*at, *one) for at, found in threads.items() if at[1] == 7 for one in found] == wanted
    for found in threads.values():  # on a thread nothing overlaps, so nothing is nested by mistake
        ordered = sorted(found)
        assert all(end <= start for (_, end, _), (start, _, _) in pairwise(ordered))


@pytest.mark.parametrize("name", CASES)
def test_an_arrow_goes_from_the_slice_that_makes_a_message_to_the_one_that_needs_it(name: str) -> None:
    simulation = CASES[name]()
    found = events(simulation)
    threads = slices(found)

    def bound(event: dict[str, Any]) -> str:
        at = ns(event["ts"])
        (touched,) = [summary for start, end, summary in threads[event["pid"], event["tid"]] if start <= at < end]
        return touched

    starts = {event["id"]: event for event in found if event["ph"] == "s"}
    ends = {event["id"]: event for event in found if event["ph"] == "f"}
    assert set(starts) == set(ends) and len(starts) == sum(event["ph"] == "s" for event in found)
    assert all(event["bp"] == "e" for event in ends.values())
    schedule = simulation.schedule
    between = sum(a != b for ranks in schedule.rank_of for a, b in pairwise(ranks))
    per_boundary = schedule.num_micro_batches // schedule.num_replicas
    assert len(starts) == 2 * between * per_boundary  # an activation and a gradient
    for number, start in starts.items():
        end = ends[number]
        assert start["name"] == end["name"] and start["pid"] != end["pid"]
        # In an F&B the forward is written first: 0F4&7B1.
        half = 0 if start["name"] == "activation" else -1
        (stage, batch), (next_stage, next_batch) = (
            summary.split("&")[half].replace("I", "B").replace("F", "B").split("B")
            for summary in (bound(start), bound(end))
        )
        assert batch == next_batch
        assert int(next_stage) - int(stage) == (1 if start["name"] == "activation" else -1)


@pytest.mark.parametrize("name", ["DualPipe", "DualPipeV, links"])
def test_counters_are_what_each_rank_holds(name: str) -> None:
    simulation = CASES[name]()
    found = [event for event in events(simulation) if event["ph"] == "C"]
    units = {"activations held": "chunks", "bytes held": "bytes"}
    assert {event["name"] for event in found} == set(units if name != "DualPipe" else ["activations held"])
    for rank in range(simulation.schedule.num_ranks):
        peaks = {
            summary: max(
                event["args"][unit] for event in found if event["pid"] == rank + 1 and event["name"] == summary
            )
            for summary, unit in units.items()
            if any(event["name"] == summary for event in found)
        }
        row = simulation.ranks.row(rank, named=True)
        wanted = {"activations held": row["peak_activations"], "bytes held": row["peak_bytes"]}
        assert peaks == {summary: wanted[summary] for summary in peaks}


def test_processes_are_named_after_ranks_and_none_is_the_idle_process() -> None:
    found = events(simulations.dual())
    names = {event["pid"]: event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert names == {rank + 1: f"rank {rank}" for rank in range(8)}
    colours = {event["args"]["kind"]: event["cname"] for event in found if event["ph"] == "X"}
    assert len(set(colours.values())) == len(colours) == 5


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.zst"])
def test_the_file_is_document_and_trace_at_once(name: str, suffix: str, tmp_path: Path) -> None:
    simulation = CASES[name]()
    path = tmp_path / f"plan{suffix}"
    wt.save(simulation, path)
    again = wt.load(path)
    assert again.schedule == simulation.schedule and again.costs == simulation.costs
    assert again.ranks.equals(simulation.ranks) and again.boundary == simulation.boundary
    trace: Any = wt.open(path)
    assert not trace.quality.dropped and not trace.quality.repaired
    assert trace.quality.truncated is None and trace.simulated
    assert [worker.rank for worker in trace.plain.workers] == list(range(simulation.schedule.num_ranks))
    assert "ranks are identified by the process's name" in trace.plain.notes
    assert (trace.events["cat"] == "pipeline").sum() == len(simulation.schedule)


def test_waiting_is_told_in_the_slice(tmp_path: Path) -> None:
    """Rank 0 of 1F1B on 4 stages waits for the first backward of stage 1; its forwards wait for nothing."""
    summary = {event["name"]: event["args"] for event in events(simulations.f1b()) if event["ph"] == "X"}
    assert summary["0B0"] == {"kind": "B", "stage": 0, "micro_batch": 0, "waited for": "1B0 of rank 1"}
    assert summary["0F1"] == {"kind": "F", "stage": 0, "micro_batch": 1}
    write_perfetto(simulations.dual(2, 4), tmp_path / "plan.json")
    assert Counter(event["ph"] for event in events(simulations.dual(2, 4)))["X"] == len(dualpipe(2, 4))


def test_a_report_of_the_file_finds_each_rank_as_busy_as_it_is(tmp_path: Path) -> None:
    simulation = simulations.dual()
    write_perfetto(simulation, tmp_path / "plan.json.gz")
    ranks = wt.analyze(tmp_path / "plan.json.gz").document["ranks"]
    assert {rank["rank"]: rank["compute_ns"] for rank in ranks} == dict(
        simulation.ranks.select("rank", "busy_ns").rows()
    )
