"""Runs a program twice, under weftrace's counter and under torch's profiler, and adds up what either says it cost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import torch
from torch import nn

from weftrace.analysis.efficiency.counted_calls import outermost_counted
from weftrace.costs.cost import Cost, Kind, Status, Tally, tally_of
from weftrace.costs.recorded import RecordedCall, cost_of
from weftrace.flops import profile
from weftrace.trace import read_chrome

Program = Callable[[], object]
TEXTS = ("name", "input_shapes", "input_types", "input_strides", "input_values")


def live_tallies(model: nn.Module, program: Program) -> tuple[dict[str, Tally], dict[str, set[Status]]]:
    """Operator -> its work as the counter has it, and how sure it is of it."""
    with profile(model, time=False, samples=1) as counter:
        program()
    return _added([(count.op, count.cost, count.calls) for count in counter.report().ops])


def traced_tallies(program: Program, folder: Path) -> tuple[dict[str, Tally], dict[str, set[Status]]]:
    """The same from a trace of the program."""
    return _added(
        [
            (name, cost, calls)
            for name, *texts, calls in traced_calls(program, folder).iter_rows()
            if (cost := cost_of(RecordedCall(name, *texts))) is not None
        ]
    )


def traced_calls(program: Program, folder: Path) -> pl.DataFrame:
    """The calls with a formula that a trace of the program has: their texts, and how often each came."""
    path = folder / "trace.json"
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as recorded:
        program()
    recorded.export_chrome_trace(str(path))
    events = read_chrome(path).events
    calls = events.select(pl.col(TEXTS).cast(pl.String))[outermost_counted(events)]
    return calls.group_by(TEXTS).len()


def _added(counts: list[tuple[str, Cost, int]]) -> tuple[dict[str, Tally], dict[str, set[Status]]]:
    tallies: dict[str, Tally] = {}
    statuses: dict[str, set[Status]] = {}
    for op, cost, calls in counts:
        name = ".".join(op.replace("::", ".").split(".")[:2]).removeprefix("aten.")  # no overload
        if cost.kind is not Kind.FREE:
            tallies[name] = tallies.get(name, Tally()).plus(tally_of(cost, calls))
            statuses.setdefault(name, set()).add(cost.status)
    return tallies, statuses
