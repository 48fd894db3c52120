"""A report as text that other tools take: CSV for spreadsheets, Markdown for a pull request."""

from __future__ import annotations

from dataclasses import fields

from weftrace.costs.cost import COUNTED, NOTHING, PHASES, Status
from weftrace.facts import Hardware
from weftrace.files.plain_text import csv_of_rows
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.several.sweep import Sweep, SweepPoint
from weftrace.flops.values import FlopsReport
from weftrace.render.markdown import markdown_code, markdown_table, markdown_text
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
    """One row for each module and phase in which anything ran or took time in it or below it, in order.

    Columns: `CSV_COLUMNS`. Counts, bytes and times include the modules below; those that begin with own_ do not. Bytes
    are bytes, times ns. Empty: not timed, or no hardware to bound it with.
    hardware: by default the report's own, where weftrace knows it.
    """
    account = account_of(report, hardware)
    own, whole = account.exclusive, account.inclusive
    own_time, whole_time = account.times.exclusive, account.times.inclusive
    line, bound = account.roofline, account.bounds
    own_bound = {} if line is None else {(row.module, row.phase): row for row in line.exclusive}
    rows: list[list[object]] = []
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
            rows.append(row)
    return csv_of_rows(CSV_COLUMNS, rows)


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
    lines = [f"## {markdown_text(report.name)}", "", markdown_table(("", scope), rows)]
    lines += ["", _modules(account, depth), ""]
    if covered.unknown:
        named = ", ".join(f"{markdown_code(op.op)} ({op.calls:,} calls)" for op in covered.unknown)
        lines += [f"Without a formula, in no FLOP total: {named}.", ""]
    lines += [f"- {markdown_text(note)}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def sweep_csv(result: Sweep) -> str:
    """A row a point: the axes, then the fields of `SweepPoint`; empty where there is no value."""
    names = [item.name for item in fields(SweepPoint) if item.name != "at"]
    rows = ([*point.at.values(), *(getattr(point, name) for name in names)] for point in result.points)
    return csv_of_rows([*result.axes, *names], rows)


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
        name = markdown_code(module.path) if module.path else "(model)"
        row = [name, module.class_name, f"{account.module_params[index].total:,}"]
        for phase in phases:
            tally, took = whole.get((index, phase)), times.get((index, phase))
            unknown = "" if tally is None or not tally.unknown_calls else f" + {tally.unknown_calls:,} unknown calls"
            row.append("–" if tally is None else f"{si(tally.flops)}{unknown}")
            if times:
                row.append("–" if took is None else duration(took.typical))
        rows.append(row)
    return markdown_table(head, rows)
