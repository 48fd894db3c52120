"""A comparison as Markdown, made for a pull request, and as a table of movers."""

from __future__ import annotations

import polars as pl

from weftrace.comparison.document import LEVELS, DiffDocument, MoverRow
from weftrace.render.console_text import clean


def diff_markdown(document: DiffDocument) -> str:
    """The headline."""
    return f"**{clean(document['headline'])}**\n"


def movers_table(document: DiffDocument) -> pl.DataFrame:
    """The movers of all levels, a row each."""
    rows = [{"level": level, **row} for level in LEVELS for row in document["movers"][level]]
    return pl.DataFrame(rows, schema=["level", *MoverRow.__annotations__], infer_schema_length=None)
