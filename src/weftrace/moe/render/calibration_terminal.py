"""A calibration in the terminal: errors on layers that no fit had seen first, then what the phases cost."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.calibration.document import CalibrationDocument, PhaseTold, TestedRow
from weftrace.moe.calibration.values import Group as Part
from weftrace.moe.calibration.values import Knowing
from weftrace.render.console_parts import BOLD, DIM, Unit, print_blocks, section, table, unit_for
from weftrace.render.console_text import clean
from weftrace.units import counted, percent

MAX_WIDTH = 100
MAX_SPLITS = 10
_ALL_KNOWN: tuple[tuple[Knowing, str], ...] = (("means", "means"), ("rows", "with rows"), ("beside", "with overlap"))
_PARTS: tuple[Part, ...] = ("matrix", "memory", "data", "wait")


def print_calibration(document: CalibrationDocument, console: Console) -> None:
    """Print a `weftrace.profile.calibration/1` document."""
    width = min(console.width, MAX_WIDTH)
    layers = f"{counted(len(document['layers']), 'layer')} of {document['num_layers']}"
    blocks: list[RenderableType] = [
        Text(f"weftrace profile calibrate · {clean(document['source'])}", style=BOLD),
        Text(clean(headline(document)), style=BOLD),
    ]
    if document["tested"]:
        blocks += [_tested(document, width), _splits(document, width)]
    blocks.append(_phases(document, width, layers))
    if document["notes"]:
        blocks.append(Group(*(Text(clean(note), style=DIM) for note in document["notes"])))
    print_blocks(blocks, console, width)


def headline(document: CalibrationDocument) -> str:
    """How far off predictions were at most, for layers that no fit had seen; never how well the fit fits."""
    busy = [row for row in document["tested"] if row["by"] == "busy"]
    if not busy:
        return "Costs of phases; how well they predict other layers is not known."
    worst = {knowing: max(_size(row, knowing) for row in busy) for knowing, _ in _ALL_KNOWN}
    fits = counted(len(document["splits"]), "fit")
    return (
        f"Layers that a fit had not seen: phases that compute are predicted within {percent(worst['beside'])} over "
        f"{fits}, given their rows and what ran beside them; {percent(worst['means'])} by means alone."
    )


def _known(document: CalibrationDocument) -> tuple[tuple[Knowing, str], ...]:
    """Without rows they predict what means do."""
    has_rows = any(row["rows"] is not None for row in document["phases"])
    return tuple(each for each in _ALL_KNOWN if has_rows or each[0] != "rows")


def _size(row: TestedRow, knowing: Knowing) -> float:
    return next((max(abs(low), abs(high)) for known, low, high in row["errors"] if known == knowing), 0.0)


def _tested(document: CalibrationDocument, width: int) -> RenderableType:
    rows, known = document["tested"], _known(document)
    unit = unit_for(round(max(row["measured_ns"] or 0 for row in rows)))
    lines = [
        [
            clean(row["what"]) + {"data": " *", "span": "", "span_waits": " **"}.get(row["by"], ""),
            "–" if row["measured_ns"] is None else unit(row["measured_ns"]),
            *(_range(row, knowing) for knowing, _ in known),
        ]
        for row in rows
    ]
    heads = ("phase", f"measured, {unit.name}", *(name for _, name in known))
    fitted = counted(len(document["splits"][0]["layers"]), "layer")
    told = [
        f"predicted / measured - 1, from lowest to highest: all tested layers of all fits, each on {fitted}",
        "means: of the fitted layers; with rows: given the routed rows; with overlap: given also the share of time "
        "beside communication that moves data, at the cost that was fitted",
    ]
    if any(row["by"] == "data" for row in rows):
        told.append("*: kernels that move data; waits for other ranks are not predicted from one rank")
    if any(row["by"] == "span_waits" for row in rows):
        told.append(
            "layers: their time one after another, simulated; all of them, the fitted ones too; **: given how long "
            "each waited for other ranks, else as long as the fitted ones did"
        )
    heading = section("Errors on layers left out of the fit")
    return Group(heading, table(heads, lines, width, left=heads[:1]), *(Text(line, style=DIM) for line in told))


def _range(row: TestedRow, knowing: Knowing) -> str:
    return next(
        (f"{100 * low:+.1f} … {100 * high:+.1f} %" for known, low, high in row["errors"] if known == knowing), "–"
    )


def _splits(document: CalibrationDocument, width: int) -> RenderableType:
    rows, known = document["splits"], _known(document)
    lines = []
    for row in rows[:MAX_SPLITS]:
        factors, worst = dict(row["factors"]), dict(row["worst"])
        lines.append(
            [
                ", ".join(map(str, row["layers"])),
                *(f"{factors[group]:.2f}" if group in factors else "–" for group in ("matrix", "memory")),
                *(f"{100 * worst[knowing]:+.1f} %" if knowing in worst else "–" for knowing, _ in known),
                "–" if row["span"] is None else f"{100 * row['span']:+.1f} %",
            ]
        )
    heads = ("fitted on", "matrix", "memory", *(name for _, name in known), "layers **")
    parts: list[RenderableType] = [
        section("Each fit", "factors beside data; the phase furthest off; tested layers"),
        table(heads, lines, width, left=heads[:1]),
    ]
    if (more := len(rows) - MAX_SPLITS) > 0:
        parts.append(Text(f"… and {more:,} more in the JSON", style=DIM))
    return Group(*parts)


def _phases(document: CalibrationDocument, width: int, layers: str) -> RenderableType:
    rows = document["phases"]
    unit = unit_for(round(max(row["busy_ns"] for row in rows)))
    has_rows = any(row["rows"] is not None for row in rows)
    lines = [
        [
            clean(row["phase"]),
            unit(row["busy_ns"]),
            *(_of_group(row, group, unit) for group in _PARTS),
            *(["–" if row["rows"] is None else f"{row['rows']:,.0f}"] if has_rows else []),
        ]
        for row in rows
    ]
    heads: Sequence[str] = ("phase", f"busy, {unit.name}", *_PARTS, *(["rows"] if has_rows else []))
    factors = ", ".join(f"{each['group']} kernels {each['factor']:.2f}" for each in document["slowed"])
    told = (
        f"matrix, memory, data, wait: kernels alone, summed; beside data that moves they take: {factors} times as long"
    )
    heading = section("Costs of a layer", f"means of {layers}")
    return Group(heading, table(heads, lines, width, left=heads[:1]), Text(told, style=DIM))


def _of_group(row: PhaseTold, group: Part, unit: Unit) -> str:
    found = [part["alone_ns"] for part in row["parts"] if part["group"] == group]
    return unit(sum(found)) if found else "–"
