"""Do a trace and a report belong together? Whose peaks count, how many steps there are, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import polars as pl

from weftrace.costs.cost import MATRIX_KINDS
from weftrace.facts import Hardware
from weftrace.flops.derived.device import device_of, named
from weftrace.flops.values import FlopsReport
from weftrace.trace.model import is_annotation
from weftrace.trace.phases import find_steps
from weftrace.trace.work import Work

_MOST_NAMES = 3


def accelerator(report: FlopsReport, work: Work, wanted: Hardware | str | None) -> tuple[Hardware | None, list[str]]:
    """The chip whose peaks count, and in what the two differ. Raises `WeftraceError` where an unknown one is wanted."""
    notes: list[str] = []
    name = "" if work.device is None else work.trace.device(work.device).name
    counted_on = report.device.partition(": ")[2]
    if work.basis == "host" and report.device.startswith("cuda"):
        notes.append(f"The FLOPs were counted on {report.device}; the trace has no device events.")
    elif name and counted_on and name != counted_on:
        notes.append(f"The FLOPs were counted on {counted_on}, the trace was taken on {name}: kernels may differ.")
    if work.trace.rank is not None and report.ranks == 1 and work.trace.rank != report.rank:
        notes.append(
            f"The FLOPs are those of rank {report.rank}, the trace is of rank {work.trace.rank}: taken to do the same."
        )
    if report.ranks > 1:
        notes.append(
            f"The FLOPs are those of {report.ranks} ranks together, the trace is of one: use one rank's report."
        )
    if wanted:
        return device_of(report, wanted)[0], notes
    summary = name or (report.hardware if work.basis != "host" else "")
    chip, _ = named(summary)
    if chip is None:
        who = f"No peak rates are known for {summary}" if summary else "Neither trace nor report names an accelerator"
        how = "Name an accelerator" if summary else "Name one"
        notes.append(f"{who}: MFU is left out. {how} with --hardware.")
    return chip, notes


def steps_of(report: FlopsReport, work: Work) -> tuple[int, list[str]]:
    """How many of the report's steps the trace holds, and what speaks against it."""
    windows = 1 if work.step is not None else len(work.steps)
    calls, expected = _matrix_calls(report, work), _expected_calls(report)
    ratios = {calls[name] / number for name, number in expected.items() if name in calls}
    whole = len(ratios) == 1 and min(ratios).is_integer() and min(ratios) >= 1 and len(calls) == len(expected)
    optimizers = work.trace.events.filter(
        is_annotation(), pl.col("name").cast(pl.String).str.starts_with("Optimizer.step#")
    ).height
    notes: list[str] = []
    if windows:
        steps = windows
    elif whole:
        steps = int(min(ratios))
        notes.append(f"The trace marks no steps; by its matrix operators it holds {steps} of the report's (estimated).")
    else:
        steps = max(1, optimizers)
        why = f"it has {optimizers} optimizer steps" if optimizers else "nothing in it tells"
        notes.append(f"The trace marks no steps: taken for {steps} of the report's ({why}).")
    if not calls:
        if expected:
            notes.append("None of the report's matrix operators is in the trace, so the two may not be of one run.")
    else:
        wrong = [name for name, number in expected.items() if calls.get(name, 0) != number * steps]
        summary = ", ".join(
            f"{name} {calls.get(name, 0):,} for {expected[name] * steps:,}" for name in wrong[:_MOST_NAMES]
        )
        if wrong:
            notes.append(
                f"Trace and report do not agree on the calls in {steps} steps: {summary}. MFU may be of another run."
            )
    return steps, notes


def _expected_calls(report: FlopsReport) -> Mapping[str, int]:
    """Matrix operators by the profiler's names ("aten::mm") -> calls in one step."""
    calls: dict[str, int] = {}
    for op in report.ops:
        if op.cost.kind in MATRIX_KINDS and op.op.count(".") >= 1:
            namespace, name = op.op.split(".")[:2]
            calls[f"{namespace}::{name}"] = calls.get(f"{namespace}::{name}", 0) + op.calls
    return calls


def _matrix_calls(report: FlopsReport, work: Work) -> Mapping[str, int]:
    """The same operators -> calls in the trace, within its steps where it marks some."""
    ops = work.trace.events.filter(pl.col("cat") == "cpu_op").with_columns(pl.col("name").cast(pl.String))
    ops = ops.filter(pl.col("name").is_in(list(_expected_calls(report))))
    wanted = work.steps if work.step is None else (work.step,)
    windows = find_steps(work.trace.events).filter(pl.col("step").is_in(list(wanted)))
    if windows.height:
        bounds = windows.select("host_start_ns", "host_end_ns").rows()
        within = partial(pl.col("ts_ns").is_between, closed="left")
        ops = ops.filter(pl.any_horizontal(*(within(start, end) for start, end in bounds)))
    return dict(ops.group_by("name").len().iter_rows())
