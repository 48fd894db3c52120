"""What changed between two reports of a model's cost, in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.flops.several.diff import Change, FlopsDiff
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, joined
from weftrace.units import counted, duration, si, small_percent

MAX_WIDTH = 140
MAX_MODULES = 20
MAX_PATHS = 10
MANY_TIMES = 99  # a change beyond it reads better as a factor than in per cent

_WORDS = {
    "flops": "model FLOPs",
    "full_flops": "FLOPs, full attention",
    "executed_flops": "executed FLOPs",
    "vector_flops": "vector FLOPs",
    "moved_bytes": "bytes",
    "time_ns": "time",
    "params_total": "parameters",
    "params_trainable": "trainable parameters",
    "params_active": "active parameters",
    "params_bytes": "bytes of parameters",
    "params_global_total": "parameters before sharding",
}


def print_flops_diff(diff: FlopsDiff, console: Console) -> None:
    """Print a comparison: the whole model's numbers that changed, then the modules', largest changes first."""
    width = min(console.width, MAX_WIDTH)
    names = " → ".join(dict.fromkeys(map(clean, diff.names)))
    blocks: list[RenderableType] = [joined([Text("weftrace flops diff", style=BOLD), names], " · ")]
    changed = [change for change in diff.model if change.before != change.after]
    if diff.is_same:
        noise = ", times within their spread" if changed else ""
        blocks.append(Text(f"Nothing changed: every count, parameter and module agrees{noise}.", style=BOLD))
    if changed:
        blocks.append(Group(section("The whole model"), _table(changed, width)))
    if diff.modules:
        ranked = diff.ranked()
        parts: list[RenderableType] = [
            section("Modules", "children included, largest changes first"),
            _table(ranked[:MAX_MODULES], width),
        ]
        if len(ranked) > MAX_MODULES:
            parts.append(Text(f"… and {len(ranked) - MAX_MODULES:,} more", style=DIM))
        blocks.append(Group(*parts))
    for title, paths in (("New", diff.added), ("Gone", diff.removed)):
        if paths:
            more = f", … and {len(paths) - MAX_PATHS:,} more" if len(paths) > MAX_PATHS else ""
            shown = ", ".join(clean(path) or "(the model)" for path in paths[:MAX_PATHS])
            blocks.append(Group(section(f"{title}: {counted(len(paths), 'module')}"), Text(shown + more)))
    if diff.notes:
        blocks.append(Group(section("Remarks"), *(Text(f"- {clean(note)}") for note in diff.notes)))
    print_blocks(blocks, console, width)


def _table(changes: Sequence[Change], width: int) -> RenderableType:
    lines = [
        [
            "(whole model)" if change.path is None else clean(change.path) or "(model's tree)",
            str(change.phase or ""),
            _WORDS.get(change.quantity, change.quantity),
            _amount(change, change.before),
            _amount(change, change.after),
            _describe(change),
        ]
        for change in changes
    ]
    heads = ("module", "phase", "number", "before", "after", "change")
    return table(heads, lines, width, left=("module", "phase", "number"))


def _amount(change: Change, value: int | None) -> str:
    if value is None:
        return "–"
    if change.quantity == "time_ns":
        return duration(value)
    return si(value, "B" if "bytes" in change.quantity else "", 4)


def _describe(change: Change) -> str:
    if math.isinf(change.relative):
        return "new"
    if change.relative >= MANY_TIMES:
        return f"{si(1 + change.relative)}×"
    text = f"{'+' if change.relative > 0 else ''}{small_percent(change.relative)}"
    return f"{text} (spread)" if change.is_within_spread else text
