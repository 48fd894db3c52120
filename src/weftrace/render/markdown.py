"""Markdown that shows a name from a trace as it is: tables, and text in which nothing is read as a mark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weftrace.render.console_text import clean


def markdown_table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A pipe table: the first column to the left, the others, which are numbers, to the right.

    lines: cells that are Markdown already: see `markdown_cell`.
    """
    rule = ["---", *("--:" for _ in heads[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))


def markdown_cell(text: str) -> str:
    """Text that no reader of Markdown takes for a column's end, a tag or an emphasis."""
    summary = clean(text).replace("\\", "\\\\")
    for mark in "`*_[]<>|#":
        summary = summary.replace(mark, f"\\{mark}")
    return summary
