"""A report as text that other tools take: CSV for spreadsheets, Markdown for a pull request."""

from __future__ import annotations

import csv
import io
from dataclasses import fields

from weftrace.costs.cost import COUNTED, NOTHING, PHASES, Status
from weftrace.facts import Hardware
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.several.sweep import Sweep, SweepPoint
from weftrace.flops.values import FlopsReport
from weftrace.render.markdown import markdown_table
from weftrace.units import duration, percent, si, size

CSV_COLUMNS = (
    "path",
    "class",
    "depth",
    "module_calls",
    "phase",
    "params",
    "trainable_params",
    "active_params",
    "global_params",
    "param_bytes",
    *COUNTED,
    *(f"own_{name}" for name in COUNTED),
    "time_median_ns",
    "time_lowest_ns",
    "time_highest_ns",
    "own_time_median_ns",
    "own_time_lowest_ns",
    "own_time_highest_ns",
    "roofline_ns",
    "own_roofline_ns",
    "bound",
)


def to_csv(report: FlopsReport | Account, hardware: Hardware | str | None = None) -> str:
    """One row for each module and phase in which anything ran or took time in it or below it, in order; RFC 4180.

    Columns: `CSV_COLUMNS`. Counts, bytes and times include the modules below; those that begin with own_ do not. Bytes
    are bytes, times ns. Empty: not timed, or no hardware to bound it with. A path that a spreadsheet would take for a
    formula cannot be one: module paths hold no leading =, +, - or @.
    hardware: by default the report's own, where weftrace knows it.
    """
    account = account_of(report, hardware)
    own, whole = account.exclusive, account.inclusive
    own_time, whole_time = account.times.exclusive, account.times.inclusive
    line, bound = account.roofline, account.bounds
    own_bound = {} if line is None else {(row.module, row.phase): row for row in line.exclusive}
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(CSV_COLUMNS)
    for index, module in enumerate(account.report.modules):
        found = account.module_params[index]
        for phase in PHASES:
            key = (index, phase)
            if key not in whole and key not in whole_time:
                continue
            row: list[object] = [module.path, module.class_name, module.depth, module.calls, phase.value]
            row += [found.total, found.trainable, found.active, found.global_total, found.bytes]
            for tally in (whole.get(key, NOTHING), own.get(key, NOTHING)):
                row += [getattr(tally, name) for name in COUNTED]
            for took in (whole_time.get(key), own_time.get(key)):
                row += ["", "", ""] if took is None else [took.median, took.lowest, took.highest]
            limits = (bound.get(key), own_bound.get(key))
            row += ["" if limit is None else round(limit.bound_ns, 3) for limit in limits]
            row.append("" if limits[0] is None else limits[0].bound)
            writer.writerow(row)
    return text.getvalue()


def to_markdown(report: FlopsReport | Account, hardware: Hardware | str | None = None, *, depth: int | None = 2) -> str:
    """A summary table, and a table of the modules down to a depth (0: the root alone; None: all).

    MACs are half the FLOPs. A number from part of the work says so below the table. hardware: by default the report's
    own, where weftrace knows it.
    """
    account = account_of(report, hardware)
    report, timed = account.report, account.step
    step, found, covered = account.totals, account.params, account.coverage
    most = covered.flops_share(Status.UPPER_BOUND)
    rows = [
        ("Parameters", f"{found.total:,} ({size(found.bytes)})"),
        ("Trainable parameters", f"{found.trainable:,} ({percent(found.trainable_share)})"),
        ("Parameters that a token uses", f"{found.active:,} ({percent(found.active_share)})"),
        ("Parameters before sharding", f"{found.global_total:,}"),
        ("Model FLOPs", f"{si(step.flops)} ({si(step.flops // 2)} MACs)"),
        ("Model FLOPs, attention over all pairs", si(step.full_flops)),
        ("Executed FLOPs", si(step.executed_flops)),
        ("Vector FLOPs", si(step.vector_flops)),
        ("Bytes", size(step.moved_bytes)),
        *((f"Model FLOPs, {phase}", si(tally.flops)) for phase, tally in step.by_phase.items() if tally.flops),
        *([("Part of them that is an upper bound", percent(most))] if most else []),
        ("Operator calls with a formula", percent(covered.calls)),
        ("Time with a formula (estimate)", percent(covered.time)),
    ]
    if timed is not None:
        rows.append(("Step", f"{duration(timed.typical)} ({duration(timed.lowest)} to {duration(timed.highest)})"))
    if (used := account.utilization) is not None:
        rows.append((f"MFU on {used.hardware}", percent(used.mfu)))
        rows.append(("MFU, attention over all pairs", percent(used.mfu_full)))
        rows.append(("HFU", percent(used.hfu)))
    scope = "one step, one rank" if report.ranks == 1 else f"one step, {report.ranks} ranks together"
    lines = [f"## {_cell(report.name)}", "", markdown_table(("", scope), rows)]
    lines += ["", _modules(account, depth), ""]
    if covered.unknown:
        named = ", ".join(f"`{op.op}` ({op.calls:,} calls)" for op in covered.unknown)
        lines += [f"Without a formula, in no FLOP total: {named}.", ""]
    lines += [f"- {_cell(note)}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def sweep_csv(result: Sweep) -> str:
    """A row a point: the axes, then the fields of `SweepPoint`; empty where there is no value."""
    names = [item.name for item in fields(SweepPoint) if item.name != "at"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*result.axes, *names])
    for point in result.points:
        values = [getattr(point, name) for name in names]
        writer.writerow([*point.at.values(), *("" if value is None else value for value in values)])
    return text.getvalue()


def _modules(account: Account, depth: int | None) -> str:
    whole, times = account.inclusive, account.times.inclusive
    phases = [phase for phase in PHASES if any(key[1] is phase for key in (*whole, *times))]
    head = ["Module", "Class", "Parameters"]
    for phase in phases:
        head += [f"FLOPs {phase}", *([f"time {phase}"] if times else [])]
    rows = []
    for index, module in enumerate(account.report.modules):
        if depth is not None and module.depth > depth:
            continue
        name = f"`{_cell(module.path)}`" if module.path else "(model)"
        row = [name, _cell(module.class_name), f"{account.module_params[index].total:,}"]
        for phase in phases:
            tally, took = whole.get((index, phase)), times.get((index, phase))
            unknown = "" if tally is None or not tally.unknown_calls else f" + {tally.unknown_calls:,} unknown calls"
            row.append("–" if tally is None else f"{si(tally.flops)}{unknown}")
            if times:
                row.append("–" if took is None else duration(took.typical))
        rows.append(row)
    return markdown_table(head, rows)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
