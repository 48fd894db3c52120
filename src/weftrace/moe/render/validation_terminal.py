"""A validation in the terminal: how far off each phase is, and the run as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.validation.comparison import ComparedPhase, ComparedRun, PhaseOfOneSide, RunSummary, Validation
from weftrace.render.console_parts import BOLD, DIM, notes_block, print_blocks, rows_table, section
from weftrace.render.console_text import clean, joined
from weftrace.units import counted, signed, unit_for

MAX_WIDTH = 100
MAX_ALONE = 12
MAX_TURN = 24


def print_validation(found: Validation, console: Console) -> None:
    """Print a validation."""
    width = min(console.width, MAX_WIDTH)
    sides = (("predicted", found.predicted), ("measured", found.measured))
    blocks: list[RenderableType] = [
        Group(
            Text("weftrace profile validate", style=BOLD),
            *(joined([Text(f"{name:<9}", style=DIM), clean(_summary(side))], " ") for name, side in sides),
        ),
        Text(clean(found.headline), style=BOLD),
    ]
    if found.phases:
        blocks.append(_phases(found, width))
    note = "time by layer" if found.per_layer else "a step of a rank"
    blocks.append(Group(section("The run", note), _times_table(ComparedRun, found.whole, width, ["what"])))
    blocks += [each for each in (_orders(found), _alone(found, width), _info(found)) if each is not None]
    print_blocks([*blocks, *notes_block(found.notes)], console, width)


def _summary(side: RunSummary) -> str:
    parts = [side.source, "simulated" if side.simulated else "measured", counted(side.num_ranks, "rank")]
    parts += [counted(side.num_steps, "step")] if side.num_steps > 1 else []
    parts += [counted(side.num_layers, "layer")] if side.num_layers else ["no phases"]
    return ", ".join(parts)


def _phases(found: Validation, width: int) -> RenderableType:
    over = "ranks" if found.measured.num_ranks > 1 else "layers and steps"
    note = f"from – to: of {over}, measured; error: predicted / measured - 1"
    if any(row.by == "data" for row in found.phases):
        note += "; *: kernels that move data"
    return Group(
        section("Phases", "of a layer, in order of start"),
        _times_table(ComparedPhase, found.phases, width, ["phase", "micro_batch"]),
        Text(note, style=DIM),
    )


def _times_table(kind: type, rows: Sequence[Any], width: int, names: Sequence[str]) -> RenderableType:
    """Rows of which both sides tell `Times`."""
    unit = unit_for(max((row.measured.median_ns for row in rows), default=0))

    def spread(row: Any) -> str:
        low, high = row.measured.low_ns, row.measured.high_ns
        return "–" if low == high else f"{unit(low)} – {unit(high)}"

    cells: dict[str, Callable[[Any], str]] = {
        "predicted": lambda row: unit(row.predicted.median_ns),
        "measured": lambda row: unit(row.measured.median_ns),
        "spread": spread,
        "error": lambda row: signed(None if row.ratio is None else row.ratio - 1),
    }
    return rows_table(
        kind, rows, width, [*names, *cells], left=("phase", ""),
        cells={**cells, "phase": lambda row: clean(row.phase) + (" *" if row.by == "data" else "")},
        heads={"what": "", "predicted": f"predicted, {unit.name}", "spread": "from – to"},
    )  # fmt: skip


def _orders(found: Validation) -> RenderableType | None:
    if not found.orders:
        return None
    lines = []
    for order in found.orders:
        if order.is_same:
            lines.append(Text(clean(f"{order.lane}, the same: {_turn(order.measured)}")))
        else:
            lines.append(Text(clean(f"{order.lane}, predicted: {_turn(order.predicted)}")))
            lines.append(Text(clean(f"{' ' * len(order.lane)}   measured: {_turn(order.measured)}")))
    return Group(section("Order", "in which phases start"), *lines)


def _turn(names: Sequence[str]) -> str:
    more = f" … and {len(names) - MAX_TURN} more" if len(names) > MAX_TURN else ""
    return " ".join(names[:MAX_TURN]) + more


def _alone(found: Validation, width: int) -> RenderableType | None:
    if not found.alone:
        return None
    unit = unit_for(max(row.median_ns for row in found.alone))
    names = ("name", "side", "median_ns", "num_samples")
    parts: list[RenderableType] = [
        section("On one side only", "in no error above"),
        rows_table(PhaseOfOneSide, found.alone[:MAX_ALONE], width, names, unit=unit, heads={"median_ns": "time,"}),
    ]
    if (more := len(found.alone) - MAX_ALONE) > 0:
        parts.append(Text(f"… and {more:,} more in the JSON", style=DIM))
    return Group(*parts)


def _info(found: Validation) -> RenderableType | None:
    """How the two were made, where it differs or one side alone states it."""
    predicted, measured = (
        {key: text for key, text in side.info if key.startswith(("profile.", "capture."))}
        for side in (found.predicted, found.measured)
    )
    both = predicted.keys() & measured.keys()
    keys = [key for key in {**predicted, **measured} if predicted.get(key) != measured.get(key)]
    keys = [key for key in keys if key in both or not key.startswith("capture.")]  # a simulation was not captured
    if not keys:
        return None
    column = max(map(len, keys)) + 2
    lines = [f"{key:<{column}}{predicted.get(key, '–')} | {measured.get(key, '–')}" for key in keys]
    heading = section("What differs in how they were made", "predicted | measured")
    return Group(heading, *(Text(clean(line)) for line in lines))
