"""Why the device waited, in the terminal: causes, what the host did meanwhile, what the gaps separate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from weftrace.analysis.waiting.idle_account import IdleCauseRow, SeparatedRow
from weftrace.render.console_parts import DIM, rows_table, section, table
from weftrace.render.console_text import clean, kernel_label, shorten_middle
from weftrace.report.document_types import Block, RankDocument
from weftrace.report.render.idle_words import cause_name
from weftrace.report.render.parts import IDLE_PARTS
from weftrace.report.render.terminal_code import at_its_place
from weftrace.report.sentences.idle_sentence import plain_name
from weftrace.units import Unit, adding_up, percent, unit_for

MAX_CAUSES = 10
MAX_NODES = 12
MAX_PAIRS = 5

_NUMBERS = 30  # characters of the columns of numbers beside a cause
_LEAST_PAIR = 0.01  # of the idle time: smaller pairs are not shown


def idle_block(rank: RankDocument, width: int) -> RenderableType | None:
    """The account of idle time; nothing where none is known: of ranges, which nothing launches, and of old reports."""
    if "idle_account" not in rank or not rank["idle_ns"] or rank["basis"] == "ranges":
        return None
    account = rank["idle_account"]
    unit = unit_for(account["idle_ns"])
    blocks: list[RenderableType] = [section("Why the device waited"), Text(_by_part(account, unit), DIM)]
    blocks.append(_causes(account["causes"], width, unit))
    if account["unrecorded_ns"]:
        share = percent(account["unrecorded_ns"] / account["idle_ns"])
        blocks.append(
            Text(f"Unrecorded: work ran that is missing from the file, so this {share} may not be idle.", DIM)
        )
    if account["host"]:
        blocks += [Text(), section("What the host did meanwhile"), _host(account, width, unit)]
    if pairs := [row for row in account["separated"] if row["ns"] >= _LEAST_PAIR * account["idle_ns"]]:
        blocks += [Text(), section("What runs before and after gaps"), _separated(pairs, width, unit)]
    return Group(*blocks)


def unrecorded_ns(rank: RankDocument) -> int:
    """Of the idle time, in which work ran that the file lacks; reports of earlier versions do not tell."""
    return int(rank["idle_account"]["unrecorded_ns"]) if "idle_account" in rank else 0


def _by_part(account: Block, unit: Unit) -> str:
    """The parts that add up to the idle time, and their sum."""
    present = [(name, account[key]) for key, name, _ in IDLE_PARTS if account[key]]
    texts = adding_up([time_ns for _, time_ns in present], unit)
    parts = " + ".join(f"{name} {text}" for (name, _), text in zip(present, texts, strict=True))
    return f"{parts} = {unit(account['idle_ns'])} {unit.name}"


def _causes(rows: Sequence[Any], width: int, unit: Unit) -> RenderableType:
    shown = rows[:MAX_CAUSES]
    widest = max(len(cause_name(row["cause"])) for row in shown)
    room = max(16, width - widest - _NUMBERS)
    body = rows_table(
        IdleCauseRow, shown, width, ["cause", "ns", "share", "num_gaps", "name"], unit=unit,
        cells={
            "cause": lambda row: cause_name(row["cause"]),
            "name": lambda row: shorten_middle(clean(plain_name(row["name"] or row["child"], with_file=True)), room),
        },
    )  # fmt: skip
    if left := len(rows) - len(shown):
        return Group(body, Text(f"… and {left:,} smaller causes in the JSON report.", DIM))
    return body


def _host(account: Block, width: int, unit: Unit) -> RenderableType:
    lines = [
        ["  " * depth + name, unit(time_ns), percent(time_ns / account["idle_ns"])]
        for name, depth, time_ns in host_lines(account["host"], MAX_NODES)
    ]
    heads = ["annotation, operator, function, call", f"time {unit.name}", "of idle"]
    return table(heads, lines, width, left=heads[:1], shorten=at_its_place)


def host_lines(nodes: Sequence[Any], most: int) -> list[tuple[str, int, int]]:
    """(name, depth, ns) of the nodes with most time, at most `most` lines, depth first, the longest first.

    nodes: rows of `HostNodeRow`. A node whose one child holds all but a twentieth of its time stands in one line with
    it: what is outermost, and what is innermost.
    """
    below: dict[int, list[Any]] = {}
    for node in nodes:
        below.setdefault(node["parent"], []).append(node)
    for children in below.values():
        children.sort(key=lambda node: -node["ns"])
    folded: dict[int, tuple[str, int, list[Any]]] = {}  # id -> line, ns, and the children below it

    def fold(first: Any) -> None:
        last = first
        while len(inner := below.get(last["id"], [])) == 1 and inner[0]["ns"] >= 0.95 * first["ns"]:
            last = inner[0]
        names = [clean(plain_name(node["name"], with_file=True)) for node in (first, last)]
        folded[first["id"]] = (" › ".join(dict.fromkeys(names)), first["ns"], inner)

    waiting = list(below.get(-1, []))
    chosen: set[int] = set()
    while waiting and len(chosen) < most:  # the longest of those whose parents are chosen
        node = max(waiting, key=lambda node: node["ns"])
        waiting.remove(node)
        chosen.add(node["id"])
        fold(node)
        waiting += folded[node["id"]][2]
    lines: list[tuple[str, int, int]] = []
    stack = [(node, 0) for node in reversed(below.get(-1, []))]
    while stack:
        node, depth = stack.pop()
        if node["id"] in chosen:
            name, time_ns, inner = folded[node["id"]]
            lines.append((name, depth, time_ns))
            stack += [(child, depth + 1) for child in reversed(inner)]
    return lines


def _separated(rows: Sequence[Any], width: int, unit: Unit) -> RenderableType:
    room = max(16, (width - 34) // 2)
    return rows_table(
        SeparatedRow, rows[:MAX_PAIRS], width, unit=unit, shorten=kernel_label,
        cells={
            "before": lambda row: kernel_label(clean(row["before"]), room),
            "after": lambda row: kernel_label(clean(row["after"]), room),
        },
    )  # fmt: skip
