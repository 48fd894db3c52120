"""A comparison in a terminal; drawn from its document, so a saved JSON prints the same."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.text import Text

from weftrace.comparison.document import DiffDocument
from weftrace.render.console_parts import BOLD, print_blocks, table, unit_for
from weftrace.render.console_text import clean

MAX_WIDTH = 140
TOP = 8


def print_diff(document: DiffDocument, console: Console, top: int = TOP) -> None:
    """Print a `weftrace.diff/1` document: verdict, sentence, parts. top: rows of each table, at most."""
    width = min(console.width, MAX_WIDTH)
    unit = unit_for(document["before"]["median_ns"])
    lines = [
        [f"{row['part']}, {row['cause'] or ''}", unit(row["before_ns"]), unit(row["after_ns"]), unit(row["change_ns"])]
        for row in document["parts"][:top]
    ]
    blocks: list[RenderableType] = [
        Text(clean(document["headline"]), style=BOLD),
        table((unit.name, "before", "after", "change"), lines, width, left=(unit.name,)),
    ]
    print_blocks(blocks, console, width)
