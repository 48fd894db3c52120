"""A calibration in the terminal: errors on layers that no fit had seen first, then what the phases cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.moe.calibration.values import CalibratedPhase, Calibration, Tested, TestedFit
from weftrace.render.console_parts import DIM, notes_block, opening, print_blocks, rows_table, section
from weftrace.render.console_text import clean
from weftrace.units import counted, percent, signed, unit_for

MAX_WIDTH = 100
MAX_SPLITS = 10
_KNOWN: dict[str, str] = {"means": "means", "rows": "with rows", "beside": "with overlap"}
_PARTS = ("matrix", "memory", "data", "wait")


def print_calibration(found: Calibration, console: Console) -> None:
    """Print a calibration."""
    width = min(console.width, MAX_WIDTH)
    blocks = opening("profile calibrate", [found.source], headline(found))
    if found.tested:
        blocks += [_tested(found, width), _splits(found, width)]
    print_blocks([*blocks, _phases(found, width), *notes_block(found.notes)], console, width)


def headline(found: Calibration) -> str:
    """How far off predictions were at most, for layers that no fit had seen; never how well the fit fits."""
    busy = [row for row in found.tested if row.by == "busy"]
    if not busy:
        return "Costs of phases; how well they predict other layers is not known."
    worst = {knowing: max(row.worst(knowing) or 0.0 for row in busy) for knowing in _KNOWN}
    return (
        f"Layers that a fit had not seen: phases that compute are predicted within {percent(worst['beside'])} over "
        f"{counted(len(found.splits), 'fit')}, given their rows and what ran beside them; {percent(worst['means'])} by "
        "means alone."
    )


def _known(found: Calibration) -> list[str]:
    """Without rows they predict what means do."""
    has_rows = any(row.rows is not None for row in found.phases)
    return [each for each in _KNOWN if has_rows or each != "rows"]


def _tested(found: Calibration, width: int) -> RenderableType:
    unit = unit_for(round(max(row.measured_ns or 0 for row in found.tested)))
    marks = {"data": " *", "span_waits": " **"}

    def spread(row: Tested, knowing: str) -> str:
        own = ((low, high) for known, low, high in row.errors if known == knowing)
        return next((f"{signed(low).removesuffix(' %')} … {signed(high)}" for low, high in own), "–")

    known = _known(found)
    notes = [
        "predicted / measured - 1, from lowest to highest: all tested layers of all fits, each on "
        + counted(len(found.splits[0].layers), "layer"),
        "means: of the fitted layers; with rows: given the routed rows; with overlap: given also the share of time "
        "beside communication that moves data, at the cost that was fitted",
    ]
    if any(row.by == "data" for row in found.tested):
        notes.append("*: kernels that move data; waits for other ranks are not predicted from one rank")
    if any(row.by == "span_waits" for row in found.tested):
        notes.append(
            "layers: their time one after another, simulated; all of them, the fitted ones too; **: given how long "
            "each waited for other ranks, else as long as the fitted ones did"
        )
    rows = rows_table(
        Tested, found.tested, width, ["what", "measured_ns", *known], heads={**_KNOWN, "measured_ns": "measured,"},
        unit=unit, left=("phase",),
        cells={"what": lambda row: clean(row.what) + marks.get(row.by, ""),
               **{each: partial(spread, knowing=each) for each in known}},
    )  # fmt: skip
    return Group(section("Errors on layers left out of the fit"), rows, *(Text(line, style=DIM) for line in notes))


def _splits(found: Calibration, width: int) -> RenderableType:
    known = _known(found)

    def factor(row: TestedFit, group: str) -> str:
        return next((f"{own:.2f}" for of, own in row.factors if of == group), "–")

    def worst(row: TestedFit, knowing: str) -> str:
        return next((signed(error) for of, error in row.worst if of == knowing), "–")

    cells: dict[str, Callable[[TestedFit], str]] = {
        "layers": lambda row: ", ".join(map(str, row.layers)),
        **{group: partial(factor, group=group) for group in ("matrix", "memory")},
        **{each: partial(worst, knowing=each) for each in known},
        "span": lambda row: signed(row.span),
    }
    heads = {**_KNOWN, "span": "layers **"}
    rows = rows_table(
        TestedFit, found.splits[:MAX_SPLITS], width, list(cells), cells=cells, heads=heads, left=("fitted on",)
    )
    parts = [section("Each fit", "factors beside data; the phase furthest off; tested layers"), rows]
    if (more := len(found.splits) - MAX_SPLITS) > 0:
        parts.append(Text(f"… and {more:,} more in the JSON", style=DIM))
    return Group(*parts)


def _phases(found: Calibration, width: int) -> RenderableType:
    unit = unit_for(round(max((row.busy_ns for row in found.phases), default=0)))

    def alone(row: CalibratedPhase, group: str) -> str:
        own = [part.alone_ns for part in row.parts if part.group == group]
        return unit(sum(own)) if own else "–"

    cells: dict[str, Callable[[CalibratedPhase], str]] = {each: partial(alone, group=each) for each in _PARTS}
    if any(row.rows is not None for row in found.phases):
        cells["rows"] = lambda row: "–" if row.rows is None else f"{row.rows:,.0f}"
    heads = {"busy_ns": "busy,"}
    rows = rows_table(
        CalibratedPhase, found.phases, width, ["phase", "busy_ns", *cells], cells=cells, heads=heads, unit=unit,
        left=("phase",),
    )  # fmt: skip
    factors = ", ".join(f"{each.group} kernels {each.factor:.2f}" for each in found.slowed)
    note = (
        f"matrix, memory, data, wait: kernels alone, summed; beside data that moves they take: {factors} times as long"
    )
    layers = f"means of {counted(len(found.layers), 'layer')} of {found.num_layers}"
    return Group(section("Costs of a layer", layers), rows, Text(note, style=DIM))
