"""Predictions in a terminal: the predicted times of a step, and a sweep."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.costs.cost import Phase
from weftrace.flops.derived.account import Account
from weftrace.flops.several.sweep import Sweep
from weftrace.render.console_parts import BOLD, DIM, WARNING, print_blocks, section, table
from weftrace.units import duration, si, size

MAX_WIDTH = 160


def prediction_block(account: Account, width: int) -> RenderableType | None:
    """Roofline bound and predicted time of each phase of a step that was counted and not timed; None of others."""
    device, found = account.device, account.untimed_prediction
    if device is None or found is None:
        return None
    lines = [
        [
            str(phase),
            duration(each.bound_ns),
            duration(each.predicted_ns),
            _rate(found.token_rate(phase) if phase == Phase.FORWARD else None),
        ]
        for phase, each in found.by_phase.items()
    ]
    lines.append(["step", duration(found.bound_ns), duration(found.predicted_ns), _rate(found.token_rate())])
    if len(lines) == 2:
        del lines[0]
    heads = ["", "no faster than", "predicted", "tokens/s: predicted, at most"]
    shown = range(len(heads) if account.report.tokens else len(heads) - 1)
    parts: list[RenderableType] = [
        section("Prediction", f"one step on one {device.name}; nothing was timed"),
        table([heads[i] for i in shown], [[line[i] for i in shown] for line in lines], width, left=("",)),
    ]
    if not found.fits:
        summary = f"the parameters take {size(found.param_bytes)}, and {device.name} has {size(device.hbm_bytes)}"
        parts.append(Text(f"it does not fit: {summary}; these are times of one with enough memory", style=WARNING))
    return Group(*parts)


def _rate(predicted_and_bound: tuple[float, float] | None) -> str:
    return "" if predicted_and_bound is None else ", ".join(f"{rate:,.0f}" for rate in predicted_and_bound)


def print_sweep(result: Sweep, console: Console) -> None:
    """A row a point; columns without a value are left out."""
    width = min(console.width, MAX_WIDTH)
    names = list(result.axes)
    title = Text("weftrace flops", style=BOLD).append(f" · {result.model}", style="")
    title.append(f" · {result.hardware}" if result.hardware else "", style="")
    heads = [*names, "FLOP", "full att.", "vector", "bytes", "FLOP/B", "step", "bound", "predicted", "by"]
    heads += ["tokens/s"]
    lines = []
    for point in result.points:
        line = [f"{point.at[name]:,}" for name in names]
        line += [si(point.flops), si(point.full_flops), si(point.vector_flops), si(point.moved_bytes, "B")]
        line += ["" if point.intensity is None else f"{point.intensity:,.1f}"]
        line += ["" if t is None else duration(t) for t in (point.step_ns, point.bound_ns, point.predicted_ns)]
        line += [point.bound or "", "" if point.tokens_per_s is None else f"{point.tokens_per_s:,.0f}"]
        lines.append(line)
    full = heads.index("full att.")
    shown = [
        at
        for at in range(len(heads))
        if any(line[at] for line in lines) and (at != full or any(line[at] != line[at - 1] for line in lines))
    ]
    for name in ("vector", "full att.", "bytes", "bound"):  # the least missed first, where the width is short
        if sum(max(len(row[at]) for row in (heads, *lines)) + 2 for at in shown) - 2 > width:
            shown = [at for at in shown if heads[at] != name]
    below = [*result.notes, *(f"assumed: {text}" for text in result.assumptions)]
    rows = table([heads[at] for at in shown], [[line[at] for at in shown] for line in lines], width)
    print_blocks([title, Group(rows, *(Text(text, style=DIM) for text in below))], console, width)
