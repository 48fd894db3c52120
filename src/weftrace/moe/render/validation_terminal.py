"""A validation in the terminal: how far off each phase is, and the run as a whole."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.validation.document import SideRow, TimesRow, ValidationDocument, WholeTold
from weftrace.render.console_parts import BOLD, DIM, Unit, print_blocks, section, table, unit_for
from weftrace.render.console_text import clean, joined
from weftrace.units import counted

MAX_WIDTH = 100
MAX_ALONE = 12
MAX_TURN = 24


def print_validation(document: ValidationDocument, console: Console) -> None:
    """Print a `weftrace.profile.validation/1` document."""
    width = min(console.width, MAX_WIDTH)
    blocks: list[RenderableType] = [
        Group(
            Text("weftrace profile validate", style=BOLD),
            *(
                joined([Text(f"{side:<9}", style=DIM), clean(_told(document[side]))], " ")
                for side in ("predicted", "measured")
            ),
        ),
        Text(clean(document["headline"]), style=BOLD),
    ]
    if document["phases"]:
        blocks.append(_phases(document, width))
    blocks.append(_whole(document, width))
    blocks += [each for each in (_orders(document), _alone(document, width), _info(document)) if each is not None]
    if document["notes"]:
        blocks.append(Group(*(Text(clean(note), style=DIM) for note in document["notes"])))
    print_blocks(blocks, console, width)


def _told(side: SideRow) -> str:
    parts = [side["source"], "simulated" if side["simulated"] else "measured", counted(side["num_ranks"], "rank")]
    parts += [counted(side["num_steps"], "step")] if side["num_steps"] > 1 else []
    parts += [counted(side["num_layers"], "layer")] if side["num_layers"] else ["no phases"]
    return ", ".join(parts)


def _phases(document: ValidationDocument, width: int) -> RenderableType:
    rows = document["phases"]
    unit = unit_for(max(row["measured"]["median_ns"] for row in rows))
    has_micro_batches = any(row["micro_batch"] is not None for row in rows)
    lines = [
        [
            clean(row["phase"]) + (" *" if row["by"] == "data" else ""),
            *(["–" if row["micro_batch"] is None else str(row["micro_batch"])] if has_micro_batches else []),
            unit(row["predicted"]["median_ns"]),
            *_measured(row["measured"], unit),
            _error(row["ratio"]),
        ]
        for row in rows
    ]
    heads = (
        "phase", *(["micro-batch"] if has_micro_batches else []), f"predicted, {unit.name}", "measured", "from – to",
        "error",
    )  # fmt: skip
    parts = [section("Phases", "of a layer, in order of start"), table(heads, lines, width, left=heads[:1])]
    over = "ranks" if document["measured"]["num_ranks"] > 1 else "layers and steps"
    told = f"from – to: of {over}, measured; error: predicted / measured - 1"
    if any(row["by"] == "data" for row in rows):
        told += "; *: kernels that move data"
    return Group(*parts, Text(told, style=DIM))


def _whole(document: ValidationDocument, width: int) -> RenderableType:
    rows: Sequence[WholeTold] = document["whole"]
    unit = unit_for(max(row["measured"]["median_ns"] for row in rows))
    lines = [
        [row["what"], unit(row["predicted"]["median_ns"]), *_measured(row["measured"], unit), _error(row["ratio"])]
        for row in rows
    ]
    heads = ("", f"predicted, {unit.name}", "measured", "from – to", "error")
    return Group(
        section("The run", "time by layer" if document["per_layer"] else "a step of a rank"),
        table(heads, lines, width, left=heads[:1]),
    )


def _measured(times: TimesRow, unit: Unit) -> list[str]:
    spread = "–" if times["low_ns"] == times["high_ns"] else f"{unit(times['low_ns'])} – {unit(times['high_ns'])}"
    return [unit(times["median_ns"]), spread]


def _error(ratio: float | None) -> str:
    return "–" if ratio is None else f"{100 * (ratio - 1):+.1f} %"


def _orders(document: ValidationDocument) -> RenderableType | None:
    if not document["orders"]:
        return None
    lines = []
    for order in document["orders"]:
        if order["is_same"]:
            lines.append(Text(clean(f"{order['lane']}, the same: {_turn(order['measured'])}")))
        else:
            lines.append(Text(clean(f"{order['lane']}, predicted: {_turn(order['predicted'])}")))
            lines.append(Text(clean(f"{' ' * len(order['lane'])}   measured: {_turn(order['measured'])}")))
    return Group(section("Order", "in which phases start"), *lines)


def _turn(names: Sequence[str]) -> str:
    more = f" … and {len(names) - MAX_TURN} more" if len(names) > MAX_TURN else ""
    return " ".join(names[:MAX_TURN]) + more


def _alone(document: ValidationDocument, width: int) -> RenderableType | None:
    rows = document["alone"]
    if not rows:
        return None
    unit = unit_for(max(row["median_ns"] for row in rows))
    lines = [
        [clean(row["name"]), row["side"], unit(row["median_ns"]), f"{row['num_samples']:,}"] for row in rows[:MAX_ALONE]
    ]
    heads = ("phase", "only", f"time, {unit.name}", "samples")
    parts: list[RenderableType] = [
        section("On one side only", "in no error above"), table(heads, lines, width, left=heads[:2])
    ]  # fmt: skip
    if more := len(rows) - MAX_ALONE:
        parts += [Text(f"… and {more:,} more in the JSON", style=DIM)] if more > 0 else []
    return Group(*parts)


def _info(document: ValidationDocument) -> RenderableType | None:
    """What is told of how the two were made, where it differs, or one side alone tells it."""
    predicted, measured = (
        {key: text for key, text in document[side]["info"] if key.startswith(("profile.", "capture."))}
        for side in ("predicted", "measured")
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
