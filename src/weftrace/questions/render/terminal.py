"""Answers and columns in a terminal, and an answer as Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import polars as pl
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from weftrace.questions.asking import Answer
from weftrace.questions.columns import TABLES, Table
from weftrace.render.console_parts import BOLD, DIM, print_blocks, section, table
from weftrace.render.console_text import clean, kernel_label, shorten_middle, shorten_start
from weftrace.render.markdown import markdown_table, markdown_text
from weftrace.units import counted, duration, grouped

MAX_WIDTH = 200
LIMIT = 40
_GAP = 2
_LEAST = 12  # characters of a column of text, at least, where the width is short
_NOTHING = "–"
_LEAST_FIRST = 6  # of the first column, as `table` reserves
_SHORTENED: dict[str, Callable[[str, int], str]] = {
    **dict.fromkeys(("name", "kernel", "next_name", "prev_name"), kernel_label),
    "path": shorten_start,
}


def print_answer(answer: Answer, console: Console, *, limit: int = LIMIT, human: bool = False) -> None:
    """Print an answer's first rows, and how many there are. limit: rows at most, 0 for all. human: times in ns with the
    unit that a person would choose."""
    width = min(console.width, MAX_WIDTH)
    rows = answer.frame.head(limit) if limit else answer.frame
    blocks: list[RenderableType] = []
    if rows.width and rows.height:
        blocks.append(_rows(rows, width, human=human))
    blocks.append(Text(clean(count_words(answer, rows.height)), style=DIM))
    print_blocks(blocks, console, width)


def count_words(answer: Answer, shown: int) -> str:
    """How many rows there are, and what an empty answer was looked for in."""
    total = answer.frame.height
    without = f", without {counted(len(answer.failures), 'file')} that cannot be read" if answer.failures else ""
    if not total:
        read = " and ".join(f"{counted(rows, 'row')} of {name}" for name, rows in answer.read.items())
        return f"no rows, of {read}{without}" if read else f"no rows{without}"
    if shown < total:
        return f"{shown:,} of {total:,} rows{without}; --limit 0 shows all, -o FILE writes all"
    return f"{counted(total, 'row')}{without}"


def print_tables(names: Sequence[str], console: Console) -> None:
    """Print what columns the tables have, or of all tables what a row is, where none is named."""
    width = min(console.width, 120)
    if names:
        print_blocks([_columns(TABLES[name], width) for name in names], console, width)
        return
    blocks: list[RenderableType] = [_columns(each, width) for each in TABLES.values()]
    print_blocks(
        [*blocks, Text("of one table: weftrace query --schema work; as JSON: --json", style=DIM)], console, width
    )


def markdown(answer: Answer) -> str:
    """An answer as a Markdown table, all rows, below its SQL."""
    frame = answer.frame
    lines = zip(*(cells(frame.get_column(name)) for name in frame.columns), strict=True)
    are_numbers = [dtype.is_numeric() for dtype in frame.dtypes]
    summary = markdown_table(frame.columns, lines, are_numbers=are_numbers) if frame.width else ""
    sql = "\n".join(map(clean, answer.sql.strip().replace("```", "'''").split("\n")))
    return f"```sql\n{sql}\n```\n\n{summary}\n\n{markdown_text(count_words(answer, frame.height))}\n"


def cells(column: pl.Series, *, human: bool = False) -> list[str]:
    """A column as text: thousands separated, decimals alike, a dash for null."""
    values = column.to_list()
    if human and column.name.endswith("_ns") and column.dtype.is_numeric() and not _is_date(column):
        return [_NOTHING if value is None else duration(value, 4) for value in values]
    if column.dtype.is_float():
        return [_NOTHING if value is None else grouped(value, _decimals(column)) for value in values]
    if column.dtype.is_integer():
        return [_NOTHING if value is None else f"{value:,}" for value in values]
    return [_NOTHING if value is None else clean(value) for value in values]


def _is_date(column: pl.Series) -> bool:
    """Whether times are counted from 1970 rather than lengths: no length is a year."""
    return int(column.max() or 0) > 365 * 86_400 * 10**9  # type: ignore[arg-type]


def _decimals(column: pl.Series) -> int:
    """So many that the largest value has five digits or so."""
    finite = column.filter(column.is_finite()).abs()
    largest = float(finite.max() or 0)  # type: ignore[arg-type]
    return 6 if 0 < largest < 0.01 else 4 if largest < 1 else 3 if largest < 100 else 1 if largest < 1e5 else 0


def _rows(frame: pl.DataFrame, width: int, *, human: bool) -> RenderableType:
    heads = [clean(name) for name in frame.columns]
    columns = [cells(frame.get_column(name), human=human) for name in frame.columns]
    left = [name for name, dtype in zip(heads, frame.dtypes, strict=True) if not dtype.is_numeric()]
    fitted = _fitted(heads, columns, left, width)
    return table(heads, list(zip(*fitted, strict=True)), width, left=left, gap=_GAP)


def _fitted(heads: Sequence[str], columns: list[list[str]], left: Sequence[str], width: int) -> list[list[str]]:
    """Columns of text shortened until all columns fit: the widest gives way first, and none to under a few letters."""
    needed = [max(map(cell_len, (head, *column))) for head, column in zip(heads, columns, strict=True)]
    least = [max(cell_len(head), _LEAST) if head in left else need for head, need in zip(heads, needed, strict=True)]
    needed[0] = max(needed[0], _LEAST_FIRST)
    room = width - _GAP * len(heads)
    while sum(needed) > room:
        widest = max(range(len(needed)), key=lambda at: needed[at] - least[at])
        if needed[widest] <= least[widest]:
            break
        needed[widest] -= 1
    return [
        [cell if cell_len(cell) <= need else _SHORTENED.get(head, shorten_middle)(cell, need) for cell in column]
        for head, column, need in zip(heads, columns, needed, strict=True)
    ]


def _columns(each: Table, width: int) -> RenderableType:
    names = max(len(column.name) for column in each.columns) + _GAP
    types = max(len(_type(column.dtype)) for column in each.columns) + _GAP
    lines = [section(each.name), *_wrapped(each.meaning, width, "")]
    for column in each.columns:
        head = f"  {column.name:<{names}}{_type(column.dtype):<{types}}"
        first, *rest = textwrap.wrap(column.meaning, max(width - len(head), 20)) or [""]
        lines.append(Text.assemble((f"  {column.name:<{names}}", BOLD), (head[2 + names :], DIM), first))
        lines += [Text(" " * len(head) + line) for line in rest]
    return Group(*lines)


def _wrapped(text: str, width: int, indent: str) -> list[Text]:
    return [Text(indent + line, style=DIM) for line in textwrap.wrap(text, width - len(indent))]


def _type(dtype: pl.DataType) -> str:
    return str(dtype).lower()
