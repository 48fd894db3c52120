"""Runs a program under weftrace's counter and under torch's profiler, and adds up what either says it cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import polars as pl
import torch
from torch import nn

from weftrace.analysis.efficiency.counted_calls import outermost_counted
from weftrace.costs.cost import Cost, Kind, Tally, tally_of
from weftrace.costs.recorded import RecordedCall, cost_of
from weftrace.flops import profile
from weftrace.trace import read_chrome

Program = Callable[[], object]


def live_tallies(model: nn.Module, program: Program) -> dict[str, Tally]:
    """Operator -> its work as the counter has it."""
    with profile(model, time=False, samples=1) as counter:
        program()
    return added((count.op, count.cost, count.calls) for count in counter.report().ops)


def traced_tallies(program: Program, folder: Path) -> dict[str, Tally]:
    """The same from a trace of the program."""
    return added((call.name, cost, calls) for call, cost, calls in traced_costs(program, folder))


def traced_costs(program: Program, folder: Path) -> list[tuple[RecordedCall, Cost, int]]:
    """The calls with a formula in a trace of the program, what one costs, and how often each came.

    Calls that differ by strides alone are taken for the first of them, because the counter does so: what it asks a
    formula for is known by shapes.
    """
    path = folder / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recorded:
        program()
    recorded.export_chrome_trace(str(path))
    events = read_chrome(path).events
    names = ("name", "input_shapes", "input_types", "input_values")
    calls = events.select(pl.col(*names, "input_strides").cast(pl.String))[outermost_counted(events)]
    alike = calls.group_by(names, maintain_order=True).agg(pl.col("input_strides").first(), pl.len())
    found = []
    for name, shapes, types, values, strides, count in alike.iter_rows():
        call = RecordedCall(name, shapes, types, strides, values)
        cost = cost_of(call)
        assert cost is not None, call
        found.append((call, cost, count))
    return found


def added(counts: Iterable[tuple[str, Cost, int]]) -> dict[str, Tally]:
    """By operator, without overloads. Gradients are added up by add_ in a program and by add under a mode that looks
    on, as the counter is (torch's InputBuffer): the two are one here.
    """
    tallies: dict[str, Tally] = {}
    for op, cost, calls in counts:
        name = ".".join(op.replace("::", ".").split(".")[:2]).removeprefix("aten.")
        name = "add" if name == "add_" else name
        if cost.kind is not Kind.FREE:
            tallies[name] = tallies.get(name, Tally()).plus(tally_of(cost, calls))
    return tallies
