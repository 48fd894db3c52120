"""What a model costs as plotly figures, for notebooks: each is a function of a report, and shows nothing.

plotly is an optional dependency (the extra `notebook`) and is imported when a figure is made.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from weftrace.costs.cost import PHASES, Phase
from weftrace.costs.rates import used_peaks
from weftrace.errors import FlopsError
from weftrace.facts import Hardware
from weftrace.flops.derived.account import Account, account_of
from weftrace.flops.derived.columns import add_up
from weftrace.flops.values import FlopsReport
from weftrace.render import palette
from weftrace.render.figure_parts import add_roofs, label, layout, plotly_objects
from weftrace.units import duration, si

if TYPE_CHECKING:
    import plotly.graph_objects as go

METRICS = ("time", "flops", "params", "bytes")

PHASE_COLOURS = {
    Phase.FORWARD: palette.FORWARD,
    Phase.BACKWARD: palette.BACKWARD,
    Phase.RECOMPUTE: "#b5548f",
    Phase.OPTIMIZER: "#7a8495",
}


def flops_treemap_figure(report: FlopsReport | Account, metric: str | None = None) -> go.Figure:
    """The tree of modules, areas by what they take.

    metric: "time" (exclusive times in the step of median length), "flops" (model FLOPs), "params" or "bytes"; by
    default time where it was measured, else flops. Raises `WeftraceError` without plotly, `FlopsError` for another
    metric or time that was not measured.
    """
    go = plotly_objects()
    account = account_of(report)
    report = account.report
    metric = metric or ("time" if account.timed else "flops")
    if metric not in METRICS:
        raise FlopsError(f"no metric {metric!r}; choose from {', '.join(METRICS)}")
    if metric == "time" and not account.timed:
        raise FlopsError(f"{report.name}: nothing was timed; choose flops, params or bytes")
    own = [_own(account, index, metric) for index in range(len(report.modules))]
    whole_M = np.array(own, dtype=object)
    add_up(report, whole_M)
    whole: list[int] = whole_M.tolist()
    unit = {"flops": "FLOP", "bytes": "B"}.get(metric, "")
    text = duration if metric == "time" else partial(si, unit=unit)
    figure = go.Figure()
    figure.add_treemap(
        ids=[str(index) for index in range(len(own))],
        labels=[label(module.name or report.name) for module in report.modules],
        parents=["" if module.parent is None else str(module.parent) for module in report.modules],
        values=whole,
        branchvalues="total",
        customdata=[
            [label(module.path or report.name), label(module.class_name), text(value)]
            for module, value in zip(report.modules, whole, strict=True)
        ],
        hovertemplate="%{customdata[0]} (%{customdata[1]})<br>%{customdata[2]}, %{percentRoot:.1%}<extra></extra>",
    )
    figure.update_layout(**layout(f"{label(report.name)}: {metric} of each module", height=560))
    return figure


def flops_roofline_figure(report: FlopsReport | Account, hardware: Hardware | str | None = None) -> go.Figure:
    """What each module does itself, by phase: FLOP for a byte against FLOP a second, under the accelerator's roofs.

    Measured rates where the report has times, else the bound's, as the title says. hardware: by default the one that
    was counted on. Raises `WeftraceError` without plotly or for an unknown name, `FlopsError` where no accelerator is
    known.
    """
    go = plotly_objects()
    account = account_of(report, hardware)
    report = account.report
    if account.roofline is None or account.device is None:
        raise FlopsError(f"{report.name}: no accelerator is known, so there are no roofs; name one: hardware='h100'")
    chip, figure = account.device, go.Figure()
    intensities: list[float] = []
    for phase in PHASES:
        points = []
        for row in account.roofline.exclusive:
            took = row.bound_ns if not account.timed else row.measured.typical if row.measured is not None else 0
            if row.phase is phase and row.intensity and took:
                rate = 1e9 * (row.executed_flops + row.vector_flops) / took
                points.append((row.intensity, rate, label(row.path or report.name), duration(took)))
        if points:
            x, y, names, times = zip(*points, strict=True)
            intensities += x
            figure.add_scatter(
                name=str(phase),
                x=x,
                y=y,
                mode="markers",
                marker={
                    "color": PHASE_COLOURS[phase],
                    "size": 8,
                    "symbol": "circle" if account.timed else "circle-open",
                },
                customdata=list(zip(names, times, strict=True)),
                hovertemplate="%{customdata[0]}: %{x:.3g} FLOP/B, %{y:.3s}FLOP/s, %{customdata[1]}<extra></extra>",
            )
    peaks = {peak.dtype for peak in used_peaks(account.cols.costs, chip, tf32=report.tf32)}
    dtypes = sorted(peaks) or [max(chip.peak_flops, key=chip.peak)]
    add_roofs(figure, {dtype: chip.peak(dtype) for dtype in dtypes}, chip.hbm_bytes_per_s, intensities)
    measured = "measured" if account.timed else "at their bounds: nothing was timed"
    figure.update_layout(
        **layout(f"{label(report.name)} under the roofs of {label(chip.name)}, {measured}", height=520)
    )
    return figure


def flops_phases_figure(report: FlopsReport | Account) -> go.Figure:
    """How the phases share a step's time, executed FLOPs, vector FLOPs and bytes, in per cent. Raises `WeftraceError`
    without plotly."""
    go = plotly_objects()
    account = account_of(report)
    report = account.report
    by_phase, times = account.totals.by_phase, account.times.by_phase
    bars = {
        "bytes": {phase: tally.moved_bytes for phase, tally in by_phase.items()},
        "vector FLOPs": {phase: tally.vector_flops for phase, tally in by_phase.items()},
        "FLOPs": {phase: tally.executed_flops for phase, tally in by_phase.items()},
        "time": {phase: spread.typical for phase, spread in times.items()},
    }
    shown = {name: values for name, values in bars.items() if sum(values.values())}
    figure = go.Figure()
    for phase in PHASES:
        shares = [100 * values.get(phase, 0) / sum(values.values()) for values in shown.values()]
        if any(shares):
            figure.add_bar(
                name=str(phase),
                y=list(shown),
                x=shares,
                orientation="h",
                marker_color=PHASE_COLOURS[phase],
                hovertemplate=f"{phase}, %{{y}}: %{{x:.1f}} %<extra></extra>",
            )
    figure.update_layout(barmode="stack", **layout(f"{label(report.name)}: phases of a step", height=340))
    figure.update_xaxes(title="per cent of the step")
    return figure


def _own(account: Account, index: int, metric: str) -> int:
    if metric == "params":
        return account.report.modules[index].own_params
    if metric == "time":
        return account.time_of(index, own=True) or 0
    tally = account.over_phases(account.exclusive, index)
    return tally.flops if metric == "flops" else tally.moved_bytes
