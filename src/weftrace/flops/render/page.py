"""HTML of what a model costs: the report as one page that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weftrace.facts import Hardware
from weftrace.flops.cost import PHASES, Cost, Kind, Phase, Status
from weftrace.flops.derived.account import Numbers, numbers_of
from weftrace.flops.derived.rates import limits, used_peaks, vector_rate
from weftrace.flops.document import read_flops, report_of
from weftrace.flops.render.facts import facts_of, flops_headline, headline_numbers, remarks_of, warnings_of
from weftrace.flops.render.fold import kinds_of, worst_of
from weftrace.flops.render.words import TERMS
from weftrace.flops.values import FlopsReport
from weftrace.render.page import render_page
from weftrace.version import __version__

#: The package that holds the page's template and static files.
HOME = "weftrace.flops.render"
STYLES = ("render/page.css", "render/charts.css", "flops.css")

#: Significant digits of the counts that a page holds for each module; the document has them all.
DIGITS = 5
MAX_WORST = 60
MAX_OPERATORS = 300


def render_flops_html(
    report: FlopsReport | Mapping[str, Any] | str | Path, hardware: Hardware | str | None = None
) -> str:
    """One self-contained page for a report, as text.

    report: the value, or a document (schema weftrace.flops/1), or a path to one. hardware: the accelerator whose peaks
    count; by default the one that was counted on, where weftrace knows it.
    Raises `WeftraceError` for a name that weftrace does not know, `FlopsError` for what is not a report.
    """
    if not isinstance(report, FlopsReport):
        report = report_of(report) if isinstance(report, Mapping) else read_flops(report)
    numbers = numbers_of(report, hardware)
    return render_page(
        "flops.html",
        home=HOME,
        entry="flops",
        styles=STYLES,
        blocks=[("weftrace-flops", page_block(numbers))],
        terms=TERMS,
        title=report.name or "model",
        headline=flops_headline(numbers),
        version=__version__,
    )


def page_block(numbers: Numbers) -> dict[str, Any]:
    """What the page draws from: words and totals ready to show, modules as columns, exclusive counts.

    Counts have `DIGITS` digits; times and bounds are in ns. A column of zeros alone is left out; so is `executed` where
    it is `flops`.
    """
    report, totals = numbers.report, numbers.totals
    return {
        "name": report.name,
        "ranks": report.ranks,
        "facts": facts_of(numbers),
        "warnings": warnings_of(numbers),
        "cards": [
            {"key": n.key, "label": n.label, "value": n.value, "note": n.note, "look": n.look}
            for n in headline_numbers(numbers)
        ],
        "timed": numbers.timed,
        "bounded": numbers.roofline is not None,
        "phases": [
            {
                "phase": str(phase),
                "flops": tally.flops,
                "executed": tally.executed_flops,
                "vector": tally.vector_flops,
                "bytes": tally.moved_bytes,
                "time": None if (took := numbers.phase_times.get(phase)) is None else took.median,
            }
            for phase, tally in totals.by_phase.items()
        ],
        **_modules(numbers),
        "roofs": _roofs(numbers),
        "kinds": _kinds(numbers),
        "worst": _worst(numbers),
        "ops": [
            {
                "op": row.op,
                "phase": str(row.phase),
                "kind": str(row.kind),
                "calls": row.tally.calls,
                "executed": row.tally.executed_flops,
                "vector": row.tally.vector_flops,
                "bytes": row.tally.moved_bytes,
                "status": str(row.status),
                "note": row.note,
            }
            for row in _most_telling(numbers)
        ],
        "unknown": [{"op": op.op, "calls": op.calls} for op in numbers.coverage.unknown],
        "coverage": {
            "calls": numbers.coverage.calls,
            "bytes": numbers.coverage.moved_bytes,
            "time": numbers.coverage.time,
        },
        "remarks": [[title, lines] for title, lines in remarks_of(numbers)],
    }


def _modules(numbers: Numbers) -> dict[str, Any]:
    modules = numbers.report.modules
    classes, details = _Names(), _Names()
    columns = {
        "name": [module.name for module in modules],
        "class": [classes(module.class_name) for module in modules],
        "detail": [details(module.detail) for module in modules],
        "parent": [-1 if module.parent is None else module.parent for module in modules],
        "same": kinds_of(numbers),
        "calls": [module.calls for module in modules],
        "params": [module.own_params for module in modules],
    }
    phases = [phase for phase in PHASES if phase in numbers.totals.by_phase or phase in numbers.phase_times]
    work = {str(phase): _work(numbers, phase) for phase in phases}
    return {"modules": columns, "classes": classes.listed, "details": details.listed, "work": work}


def _work(numbers: Numbers, phase: Phase) -> dict[str, Any]:
    own = [numbers.exclusive.get((index, phase)) for index in range(len(numbers.report.modules))]

    def column(value: Callable[[Any], float], items: Iterable[Any] = own) -> list[float]:
        return [0 if item is None else _short(value(item)) for item in items]

    columns = {
        "flops": column(lambda tally: tally.flops),
        "executed": column(lambda tally: tally.executed_flops),
        "vector": column(lambda tally: tally.vector_flops),
        "bytes": column(lambda tally: tally.moved_bytes),
    }
    if columns["executed"] == columns["flops"]:
        del columns["executed"]
    found: dict[str, Any] = {name: values for name, values in columns.items() if name == "flops" or any(values)}
    indices = range(len(own))
    if numbers.timed:
        for name, times in (("time", numbers.times), ("own_time", numbers.own_times)):
            found[name] = column(lambda spread: spread.median, [times.get((index, phase)) for index in indices])
    if numbers.roofline is not None:
        rows = {row.module: row for row in numbers.roofline.rows if row.phase is phase}
        found["bound"] = column(lambda row: row.bound_ns, [rows.get(index) for index in indices])
        found["kind"] = "".join(
            rows[index].bound[0] if index in rows and rows[index].bound_ns else "-" for index in indices
        )
    return found


def _roofs(numbers: Numbers) -> dict[str, Any] | None:
    """Memory's bandwidth, and the peaks that the work used, of matrix units and of vector work, highest first."""
    chip, report = numbers.device, numbers.report
    if chip is None:
        return None
    costs = numbers.cols.costs
    peaks = {peak.dtype: peak.flops_per_s for peak in used_peaks(costs, chip, tf32=report.tf32)}
    compute: list[list[Any]] = [[f"{dtype} peak", rate] for dtype, rate in peaks.items()]
    vector = vector_rate(chip)
    if vector is not None and any(cost.vector_flops for cost in costs):
        if "fp32" in peaks:
            compute = [[f"{name}, vector work" if name == "fp32 peak" else name, rate] for name, rate in compute]
        else:
            compute.append(["vector work (fp32)", vector])
    if not compute:
        compute = [[f"{max(chip.peak_flops, key=chip.peak)} peak", max(chip.peak_flops.values())]]
    compute.sort(key=lambda pair: -pair[1])
    return {"name": chip.name, "bytes_per_s": chip.hbm_bytes_per_s, "compute": compute}


def _kinds(numbers: Numbers) -> list[dict[str, Any]]:
    """Operators by kind: calls, executed and vector FLOPs together, bytes, and their bound."""
    if numbers.device is None:
        return []
    sums: dict[Kind, list[float]] = {}
    bounds: dict[Cost, float] = {}
    for op in numbers.report.ops:
        cost = op.cost
        if cost.kind in (Kind.FREE, Kind.COMM) or cost.status is Status.UNKNOWN:
            continue
        if cost not in bounds:
            bounds[cost] = limits(cost, numbers.device, tf32=numbers.report.tf32).bound_ns
        into = sums.setdefault(cost.kind, [0, 0, 0, 0])
        parts = (1, cost.executed_flops + cost.vector_flops, cost.moved_bytes, bounds[cost])
        for at, value in enumerate(parts):
            into[at] += op.calls * value
    return [
        {"kind": str(kind), "calls": calls, "work": _short(work), "bytes": _short(moved), "bound_ns": _short(bound)}
        for kind, (calls, work, moved, bound) in sums.items()
    ]


def _worst(numbers: Numbers) -> list[dict[str, Any]]:
    return [
        {
            "path": each.label,
            "phase": str(each.phase),
            "measured_ns": each.measured_ns,
            "bound_ns": _short(each.bound_ns),
            "above_ns": _short(each.above_ns),
            "kind": each.bound,
        }
        for each in worst_of(numbers, MAX_WORST)
    ]


def _most_telling(numbers: Numbers) -> Sequence[Any]:
    """All operators without a formula, and the dearest of the others."""
    unknown = [row for row in numbers.ops if row.status is Status.UNKNOWN]
    return [row for row in numbers.ops if row.status is not Status.UNKNOWN][:MAX_OPERATORS] + unknown


class _Names:
    """Texts that occur often, once each: a text's number in `listed`."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.setdefault(text, len(self._numbers))
        if number == len(self.listed):
            self.listed.append(text)
        return number


def _short(value: float) -> float:
    """`DIGITS` significant digits, as JSON writes in the fewest characters."""
    if isinstance(value, int) and abs(value) < 10**DIGITS:
        return value
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
