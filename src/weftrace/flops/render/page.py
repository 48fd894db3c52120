"""HTML of what a model costs: the report as one page that opens offline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from weftrace.costs.cost import PHASES, Cost, Kind, Phase, Status
from weftrace.costs.rates import limits, used_peaks, vector_rate
from weftrace.facts import Hardware
from weftrace.files.values import to_document
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.document import read_flops, report_of
from weftrace.flops.render.facts import exact_line, facts_of, flops_headline, headline_numbers, remarks_of, warnings_of
from weftrace.flops.render.fold import worst_of
from weftrace.flops.render.words import TERMS
from weftrace.flops.values import FlopsReport
from weftrace.render.page import render_page, short_numbers
from weftrace.version import __version__

#: The package that holds the page's template and static files.
HOME = "weftrace.flops.render"
STYLES = ("render/page.css", "render/charts.css", "render/icicle.css", "flops.css")

#: Significant digits of the counts that a page holds for each module; the document has them all.
DIGITS = 5
MAX_WORST = 60
MAX_OPERATORS = 300


def render_flops_html(
    report: FlopsReport | Account | Mapping[str, Any] | str | Path, hardware: Hardware | str | None = None
) -> str:
    """One self-contained page for a report, as text.

    report: the value, its account, a document (schema weftrace.flops/1), or a path to one. hardware: the accelerator
    whose peaks count; by default the one that was counted on, where weftrace knows it.
    Raises `WeftraceError` for a name that weftrace does not know, `FlopsError` for what is not a report.
    """
    if not isinstance(report, FlopsReport | Account):
        report = report_of(report) if isinstance(report, Mapping) else read_flops(report)
    account = account_of(report, hardware)
    return render_page(
        "flops.html",
        home=HOME,
        entry="flops",
        styles=STYLES,
        blocks=[("weftrace-flops", page_block(account))],
        terms=TERMS,
        title=account.report.name or "model",
        headline=flops_headline(account),
        version=__version__,
    )


def page_block(account: Account) -> dict[str, Any]:
    """What the page draws from: words and totals ready to show, modules as columns, exclusive counts.

    Counts have `DIGITS` digits; times and bounds are in ns. A column of zeros alone is left out; so is `executed` where
    it is `flops`.
    """
    report, totals = account.report, account.totals
    return {
        "name": report.name,
        "ranks": report.ranks,
        "facts": facts_of(account),
        "warnings": warnings_of(account),
        "cards": to_document(headline_numbers(account)),
        "timed": account.timed,
        "bounded": account.roofline is not None,
        "phases": [
            {
                "phase": str(phase),
                "flops": tally.flops,
                "executed": tally.executed_flops,
                "vector": tally.vector_flops,
                "bytes": tally.moved_bytes,
                "time": None if (took := account.times.by_phase.get(phase)) is None else took.typical,
            }
            for phase, tally in totals.by_phase.items()
        ],
        **_modules(account),
        "roofs": _roofs(account),
        "kinds": _kinds(account),
        "worst": short_numbers(to_document(worst_of(account, MAX_WORST)), DIGITS),
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
            for row in _most_telling(account)
        ],
        "unknown": to_document(account.coverage.unknown),
        "exact": exact_line(account),
        "coverage": to_document(account.coverage),
        "remarks": [[title, lines] for title, lines in remarks_of(account)],
    }


def _modules(account: Account) -> dict[str, Any]:
    modules = account.report.modules
    classes, details = _Names(), _Names()
    columns = {
        "name": [module.name for module in modules],
        "class": [classes(module.class_name) for module in modules],
        "detail": [details(module.detail) for module in modules],
        "parent": [-1 if module.parent is None else module.parent for module in modules],
        "same": list(account.repeated),
        "calls": [module.calls for module in modules],
        "params": [module.own_params for module in modules],
    }
    phases = [phase for phase in PHASES if phase in account.totals.by_phase or phase in account.times.by_phase]
    work = {str(phase): _work(account, phase) for phase in phases}
    return {"modules": columns, "classes": classes.listed, "details": details.listed, "work": work}


def _work(account: Account, phase: Phase) -> dict[str, Any]:
    own = [account.exclusive.get((index, phase)) for index in range(len(account.report.modules))]

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
    if account.timed:
        times = account.times.exclusive  # of one step, so that a module's time is the sum of those below it
        found["own_time"] = column(lambda spread: spread.typical, [times.get((index, phase)) for index in indices])
    if account.roofline is not None:
        rows = {row.module: row for row in account.roofline.exclusive if row.phase is phase}
        found["bound"] = column(lambda row: row.bound_ns, [rows.get(index) for index in indices])
        found["kind"] = "".join(
            rows[index].bound[0] if index in rows and rows[index].bound_ns else "-" for index in indices
        )
    return found


def _roofs(account: Account) -> dict[str, Any] | None:
    """Memory's bandwidth, and the peaks that the work used, of matrix units and of vector work, highest first."""
    chip, report = account.device, account.report
    if chip is None:
        return None
    costs = account.cols.costs
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


def _kinds(account: Account) -> list[dict[str, Any]]:
    """Operators by kind: calls, executed and vector FLOPs together, bytes, and their bound."""
    if account.device is None:
        return []
    sums: dict[Kind, list[float]] = {}
    bounds: dict[Cost, float] = {}
    for op in account.report.ops:
        cost = op.cost
        if cost.kind in (Kind.FREE, Kind.COMM) or cost.status is Status.UNKNOWN:
            continue
        if cost not in bounds:
            bounds[cost] = limits(cost, account.device, tf32=account.report.tf32).bound_ns
        into = sums.setdefault(cost.kind, [0, 0, 0, 0])
        parts = (1, cost.executed_flops + cost.vector_flops, cost.moved_bytes, bounds[cost])
        for at, value in enumerate(parts):
            into[at] += op.calls * value
    return [
        {"kind": str(kind), "calls": calls, "work": _short(work), "bytes": _short(moved), "bound_ns": _short(bound)}
        for kind, (calls, work, moved, bound) in sums.items()
    ]


def _most_telling(account: Account) -> Sequence[Any]:
    """All operators without a formula, and the dearest of the others."""
    unknown = [row for row in account.ops if row.status is Status.UNKNOWN]
    return [row for row in account.ops if row.status is not Status.UNKNOWN][:MAX_OPERATORS] + unknown


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
    """The number with `DIGITS` digits; whole ones too, which the document has to the last digit."""
    short: float = short_numbers(float(value), DIGITS)
    return short
