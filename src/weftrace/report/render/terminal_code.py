"""Time by module and by function in the terminal: a tree, and a list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.module_times import CodeNode
from weftrace.render.console_parts import DIM, section, table
from weftrace.render.console_text import clean, shorten_middle, shorten_start
from weftrace.report.document_types import CodeDocument, RankDocument
from weftrace.report.render.words import CODE_NOTES, GRAPH_NOTE, NO_FUNCTIONS, NO_MODULES, NONE_LAUNCHED, OUTSIDE_CODE
from weftrace.units import counted, duration, percent, si, unit_for

MAX_MODULES = 30
MAX_FUNCTIONS = 20

#: Columns that are left out where they are empty.
_COLUMNS: tuple[tuple[Literal["self_ns", "backward_ns", "exposed_ns", "idle_ns"], str], ...] = (
    ("self_ns", "own"), ("backward_ns", "backward"), ("exposed_ns", "exposed"), ("idle_ns", "idle"),
)  # fmt: skip


def code_blocks(rank: RankDocument, width: int) -> list[RenderableType]:
    """Time by module, by function, as far as the document has them."""
    blocks: list[RenderableType] = []
    if "modules" in rank:
        blocks.append(_modules(rank["modules"], rank, width))
    if "lines" in rank:
        blocks.append(_functions(rank["lines"], rank, width))
    return blocks


def unread_frames(rank: RankDocument) -> str | None:
    """That the file has Python frames, and what else they would tell; None where it has none, or they were asked."""
    if "modules" in rank or "lines" in rank:
        return None
    if "idle_account" in rank and rank["idle_account"]["with_stacks"]:
        return "Python frames were recorded: see the time by module or function with --by module or --by line."
    number = rank["quality"]["skipped"].get("python_function", 0)
    return (
        f"{counted(number, 'Python frame')} not read: see the time by module or function with --by module or --by line."
        if number
        else None
    )


def tree_order(nodes: Sequence[CodeNode], most: int) -> list[tuple[int, int]]:
    """(position, depth) of the nodes with most time, depth first, siblings in their order. Who is above one of them is
    among them."""
    by_time = sorted(range(len(nodes)), key=lambda at: (-nodes[at]["total_ns"], at))
    below: dict[int | None, list[int]] = {}
    for at in sorted(by_time[:most]):
        below.setdefault(nodes[at]["parent"], []).append(at)
    ordered: list[tuple[int, int]] = []
    waiting = [(at, 0) for at in reversed(below.get(None, []))]
    while waiting:
        at, depth = waiting.pop()
        ordered.append((at, depth))
        waiting += [(child, depth + 1) for child in reversed(below.get(at, []))]
    return ordered


def _modules(code: CodeDocument, rank: RankDocument, width: int) -> RenderableType:
    nodes = code["folded"]
    heading = section("Time by module", CODE_NOTES[code["told_by"]])
    if not nodes and code["told_by"] == "nothing":
        return Group(heading, Text(NO_MODULES))
    shown = tree_order(nodes, MAX_MODULES)
    rows = [(_name(nodes[at], depth), nodes[at]) for at, depth in shown]
    left = len(nodes) - len(shown)
    body = _table("module", [*rows, *_outside(code)], rank, width, at_its_place)
    notes = [f"… and {left:,} more rows in the JSON report and on the page."] * bool(left)
    notes += [NONE_LAUNCHED.format("modules")] * (not nodes)
    notes += [GRAPH_NOTE.format(duration(code["graph_ns"]))] * bool(code["graph_ns"])
    return Group(heading, body, *(Text(note, style=DIM) for note in notes))


def _functions(code: CodeDocument, rank: RankDocument, width: int) -> RenderableType:
    # The end of a function's name tells more than the folders that its file lies in: its start gives way.
    heading = section("Time by Python function", "longest own time first; the line is where it begins")
    if not code["folded"] and code["told_by"] == "nothing":
        return Group(heading, Text(NO_FUNCTIONS))
    rows = sorted(code["folded"], key=lambda row: (-row["self_ns"], -row["total_ns"], row["name"]))
    shown = [(clean(row["name"]), row) for row in rows[:MAX_FUNCTIONS]]
    body = _table("function", [*shown, *_outside(code)], rank, width, shorten_start)
    left = len(rows) - len(shown)
    notes = [f"… and {left:,} more functions, in the JSON report and on the page."] * bool(left)
    notes += [NONE_LAUNCHED.format("functions")] * (not rows)
    return Group(heading, body, *(Text(note, style=DIM) for note in notes))


def _outside(code: CodeDocument) -> list[tuple[str, CodeNode]]:
    outside = code["outside"]
    return [(OUTSIDE_CODE, outside)] if outside["num_events"] or outside["idle_ns"] else []


def _name(node: CodeNode, depth: int) -> str:
    times = f" ×{node['num_members']:,}" if node["num_members"] > 1 else ""
    return "  " * depth + clean(node["name"]) + times


def _table(
    head: str,
    rows: Sequence[tuple[str, CodeNode]],
    rank: RankDocument,
    width: int,
    shorten: Callable[[str, int], str],
) -> RenderableType:
    unit = unit_for(rank["span_ns"])
    every = [row for _, row in rows]
    present = [(key, word) for key, word in _COLUMNS if any(row[key] for row in every)]
    with_flops = any(row.get("flops") for row in every)
    serial = rank["serial_ns"] or 1
    lines = [
        [
            name,
            unit(row["total_ns"]),
            percent(row["total_ns"] / serial),
            *(unit(row[key]) for key, _ in present),
            *([si(row.get("flops") or None), si(row.get("flops_per_s"))] * with_flops),
        ]
        for name, row in rows
    ]
    heads = [head, f"total {unit.name}", "share", *(word for _, word in present), *(["≥ FLOP", "FLOP/s"] * with_flops)]
    narrow = width < 100
    return table(heads, lines, width, left=(head,), gap=1 if narrow else 2, shorten=shorten)


def at_its_place(name: str, width: int) -> str:
    """A name cut in the middle, its place in the tree kept as far as there is room."""
    own = name.lstrip(" ")
    indent = min(len(name) - len(own), max(0, width - 12))
    return " " * indent + shorten_middle(own, width - indent)
