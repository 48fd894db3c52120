"""Efficiency of one rank in the terminal: what is rated, what is not, and the shapes that take most time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.efficiency.sizes import shape_label
from weftrace.analysis.efficiency.values import PARTS, ShapeRow
from weftrace.render.console_parts import BOLD, DIM, plain_grid, rows_table, section
from weftrace.render.console_text import clean
from weftrace.report.document_types import RankDocument
from weftrace.units import Unit, adding_up, duration, percent, si, unit_for

TOP_SHAPES = 10
_PARTS = {"flops": "FLOPs", "bytes": "bytes alone", "no shapes": "no shapes", "no operator": "no operator"}
_NO_FORMULA = "no formula"  # how such reasons begin
_PERCENT = Unit(name="%", ns=1, decimals=1)


def efficiency_block(rank: RankDocument, width: int) -> RenderableType | None:
    """The section of a rank that has `efficiency`; of one whose operators have no shapes a sentence."""
    efficiency = rank.get("efficiency")
    if efficiency is None or not efficiency["total_ns"]:
        return None
    notes = [Text(clean(note), style=DIM) for note in efficiency["notes"]]
    head = section("Efficiency", f"of the peaks of {clean(efficiency['hardware'])}" if efficiency["hardware"] else "")
    if not efficiency["num_rated"]:
        return Group(section("Efficiency"), *notes[:1]) if notes else None
    grid = plain_grid({"no_wrap": True}, {"overflow": "fold"})
    grid.add_row(Text("rates", style=BOLD), Text(clean(efficiency["headline"])))
    grid.add_row(Text("known", style=BOLD), Text(parts_line(efficiency["parts"])))
    return Group(head, grid, *_shapes(efficiency, width), *notes)


def parts_line(parts: Sequence[Mapping[str, Any]]) -> str:
    """What is known of device time, in shares that add up to 100 %: "FLOPs 45.6 %, bytes alone 54.4 %". Of what is not
    known the reason with most time; of bytes how much of them are of inputs alone, because no formula is known."""
    total = max(1, sum(row["total_ns"] for row in parts))
    times = [sum(row["total_ns"] for row in parts if row["part"] == part) for part in PARTS]
    texts = adding_up((100 * time_ns / total for time_ns in times), _PERCENT)
    said = []
    for part, time_ns, text in zip(PARTS, times, texts, strict=True):
        reasons = [row["reason"] for row in parts if row["part"] == part]
        why = f" ({clean(reasons[0])})" if part.startswith("no ") and text != "0.0" else ""
        without = sum(row["total_ns"] for row in parts if row["part"] == part and row["reason"].startswith(_NO_FORMULA))
        if without >= 0.0005 * total:
            why = f" ({percent(without / total)} of operators without a formula)"
        if time_ns:
            said.append(f"{_PARTS[part]} {text} %{why}")
    return ", ".join(said)


def _shapes(efficiency: Mapping[str, Any], width: int) -> list[RenderableType]:
    """The shapes that take most time, and below them why they are below their peaks."""
    rows = efficiency["shapes"][:TOP_SHAPES]
    if not rows:
        return []
    body = rows_table(
        ShapeRow, rows, width, ["operator", "num_calls", "busy_ns", "share", "rate", "reaches"],
        unit=unit_for(max(row["busy_ns"] for row in rows)),
        heads={"operator": "operator, shapes", "busy_ns": "time"}, left=("operator, shapes",),
        cells={"operator": shape_name, "rate": rate_text, "reaches": reaches_text},
    )  # fmt: skip
    alike: dict[str, list[str]] = {}
    for row in rows:
        for text in filter(None, (row["why"], row["note"])):
            alike.setdefault(text, []).append(shape_name(row))
    why = [f"{', '.join(names)}: {clean(text)}" for text, names in alike.items()]
    total = efficiency["num_shapes"]
    note = f"the top {len(rows)} of {total:,} by device time" if total > len(rows) else "by device time"
    return [section("Shapes", note), body, *(Text(text, style=DIM) for text in why)]


def shape_lines(efficiency: Mapping[str, Any]) -> tuple[tuple[str, ...], list[list[str]]]:
    """Heads and cells of the same table, for Markdown."""
    lines = [
        [shape_name(row), f"{row['num_calls']:,}", duration(row["busy_ns"]), percent(row["share"]), rate_text(row),
         reaches_text(row)]
        for row in efficiency["shapes"][:TOP_SHAPES]
    ]  # fmt: skip
    return ("operator, shapes", "calls", "time", "share", "rate", "reaches"), lines


def shape_name(row: Mapping[str, Any]) -> str:
    """`shape_label` of a row, fit for a terminal."""
    return clean(shape_label(row["operator"], row["shapes"]))


def rate_text(row: Mapping[str, Any]) -> str:
    """FLOP/s of what has FLOPs, else bytes/s; none where the bytes are those of its inputs alone."""
    if row["flops_per_s"] is not None:
        return si(row["flops_per_s"], "FLOP/s")
    return si(None if row["status"] == "unknown" else row["bytes_per_s"], "B/s")


def reaches_text(row: Mapping[str, Any]) -> str:
    """What part of its peak that is; of bytes alone, and of products that memory bounds, of the roofline."""
    if row["peak_share"] is not None and row["bound"] != "memory":
        return f"{percent(row['peak_share'])} of peak"
    if row["roofline_share"] is None or row["status"] == "unknown":
        return ""
    return f"{percent(row['roofline_share'])} of roof"
