"""What the commands of `weftrace flops` print beside the report's own tables: exact counts, predictions, sweeps."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from weftrace.flops.cost import Phase
from weftrace.flops.derived.account import Account
from weftrace.flops.several.sweep import Sweep
from weftrace.render.console_parts import BOLD, DIM, WARNING, section, table
from weftrace.units import short_time, si, size

MAX_WIDTH = 160


def print_exact(account: Account, console: Console) -> None:
    """The totals to the last FLOP: the tables round."""
    parts = [f"{tally.flops:,} {phase}" for phase, tally in account.totals.by_phase.items() if tally.flops]
    console.print()
    console.print(Text(f"exactly: model FLOPs {', '.join(parts) or '0'}", style=DIM), soft_wrap=True)


def print_prediction(account: Account, console: Console) -> None:
    """Roofline bound and predicted time of a step that was counted and not timed, and what the prediction assumes."""
    device, found = account.device, account.prediction
    if device is None or found is None or account.timed:
        return
    console.print()
    console.print(section("Prediction", f"one step on one {device.name}; nothing was timed"))
    lines = [
        [
            str(phase),
            short_time(bound),
            short_time(likely),
            _rate(found.tokens_per_s(phase) if phase == Phase.FORWARD else None),
        ]
        for phase, (bound, likely) in found.by_phase.items()
    ]
    bound, likely = found.bound_ns, found.predicted_ns
    lines.append(["step", short_time(bound), short_time(likely), _rate(found.tokens_per_s())])
    if len(lines) == 2:
        del lines[0]
    width = min(console.width, MAX_WIDTH)
    heads = ["", "no faster than", "predicted", "tokens/s: predicted, at most"]
    shown = range(len(heads) if account.report.tokens else len(heads) - 1)
    console.print(table([heads[i] for i in shown], [[line[i] for i in shown] for line in lines], width, left=("",)))
    if not found.fits:
        told = f"the parameters take {size(found.param_bytes)}, and {device.name} has {size(device.hbm_bytes)}"
        told = f"it does not fit: {told}"
        console.print(Text(f"{told}; these are times of one with enough memory", style=WARNING), width=width)
    for text in found.assumptions:
        console.print(Text(f"assumed: {text}", style=DIM), width=width)


def _rate(predicted_and_bound: tuple[float, float] | None) -> str:
    return "" if predicted_and_bound is None else ", ".join(f"{rate:,.0f}" for rate in predicted_and_bound)


def print_sweep(result: Sweep, console: Console) -> None:
    """A row a point; columns without a value are left out."""
    width = min(console.width, MAX_WIDTH)
    names = list(result.axes)
    title = Text("weftrace flops", style=BOLD).append(f" · {result.model}", style="")
    console.print(title.append(f" · {result.hardware}" if result.hardware else "", style=""))
    console.print()
    heads = [*names, "FLOP", "full att.", "vector", "bytes", "FLOP/B", "step", "bound", "predicted", "by"]
    heads += ["tokens/s"]
    lines = []
    for point in result.points:
        line = [f"{point.at[name]:,}" for name in names]
        line += [si(point.flops), si(point.full_flops), si(point.vector_flops), si(point.moved_bytes, "B")]
        line += ["" if point.intensity is None else f"{point.intensity:,.1f}"]
        line += ["" if t is None else short_time(t) for t in (point.step_ns, point.bound_ns, point.predicted_ns)]
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
    console.print(table([heads[at] for at in shown], [[line[at] for at in shown] for line in lines], width))
    for text in result.notes:
        console.print(Text(text, style=DIM), width=width)
    for text in result.assumptions:
        console.print(Text(f"assumed: {text}", style=DIM), width=width)
