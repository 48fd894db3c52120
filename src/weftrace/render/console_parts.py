"""What the terminal report is put together from: units, headings, tables of plain text, frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import polars as pl
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from weftrace.files.columns import Column, columns_of
from weftrace.render import palette
from weftrace.render.console_text import clean, joined, shorten_middle, suited
from weftrace.units import Unit, duration, percent, size, unit_for

BOLD = Style(bold=True)
DIM = Style(dim=True)
WARNING = Style(color="yellow", bold=True)
ERROR = Style(color=palette.EXPOSED, bold=True)


def print_blocks(blocks: Iterable[RenderableType], console: Console, width: int) -> None:
    """Print blocks with an empty line between two, in characters that the console can show."""
    spaced = [part for block in blocks for part in (block, Text())]
    console.print(suited(Group(*spaced[:-1]), console), width=width)


def opening(command: str, facts: Iterable[str], headline: str) -> list[RenderableType]:
    """The command and what it was asked of, in a line; then the answer."""
    title = joined([Text(f"weftrace {command}", style=BOLD), *map(clean, facts)], " · ")
    return [title, Text(clean(headline), style=BOLD)]


def notes_block(notes: Sequence[str]) -> list[RenderableType]:
    """A line each of what is missing or was left out; nothing where there is none."""
    return [Group(*(Text(clean(note), style=DIM) for note in notes))] if notes else []


def section(title: str, note: str = "") -> Text:
    heading = Text().append(title, style=BOLD)
    return heading.append(f"  {note}", style=DIM) if note else heading


_LEAST_FIRST = 8  # characters of the first column that are left, at least


def table(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    width: int,
    *,
    left: Sequence[str] = (),
    gap: int = 2,
    bold: int | None = None,
    coloured: tuple[str, Sequence[str | None]] = ("", ()),
    shorten: Callable[[str, int], str] = shorten_middle,
) -> RenderableType:
    """A table of plain strings, never read for markup; the first column gives way where the width is short.

    Where even that leaves too little, the columns that do not fit stand below, beside the first column once more: no
    number is ever cut.
    left: heads of columns set to the left. bold: the line that stands out. coloured: the head of a column and the
    colour of each of its cells. shorten: makes a cell of the first column fit.
    """
    needed = [max(cell_len(text) for text in column) + gap for column in zip(heads, *lines, strict=True)]
    fitting, used = 0, 0
    least_first = min(needed[0] - gap, _LEAST_FIRST)
    while fitting + 1 < len(heads) and used + needed[fitting + 1] <= width - least_first:
        used += needed[fitting + 1]
        fitting += 1
    if fitting + 1 < len(heads) and fitting > 0:
        here, below = range(fitting + 1), (0, *range(fitting + 1, len(heads)))
        return Group(
            *(
                table([heads[at] for at in part], [[line[at] for at in part] for line in lines], width, left=left,
                      gap=gap, bold=bold, coloured=coloured if coloured[0] in [heads[at] for at in part] else ("", ()),
                      shorten=shorten)
                for part in (here, below)
            )
        )  # fmt: skip
    return _one_table(heads, lines, max(width - sum(needed[1:]), least_first), left, gap, bold, coloured, shorten)


def rows_table(
    row: Any,
    rows: Sequence[Any],
    width: int,
    names: Sequence[str] = (),
    *,
    cells: Mapping[str, Callable[[Any], str]] | None = None,
    heads: Mapping[str, str] | None = None,
    unit: Unit | None = None,
    units: Mapping[str, Unit] | None = None,
    **how: Any,
) -> RenderableType:
    """A table of rows, mappings or dataclasses, by the columns of their type `row` (`files.columns`).

    names: which columns, in which order; all by default. A column in which no row has a value is left out.
    cells: name -> text of a row's cell, where the column's own is not it. heads: name -> head, instead of the column's
    label. unit: of all times, which the first head names; by default each column has that of its largest. units: of
    columns that have one of their own. how: see `table`.
    """
    known = {column.name: column for column in columns_of(row)}
    made, each_unit = dict(cells or {}), dict(units or {})
    shown = [
        name for name in names or known if name in made or any(_cell_value(each, name) is not None for each in rows)
    ]
    titles, texts = [], []
    is_named = False  # the one unit of all times stands in the first head
    for name in shown:
        column = known.get(name) or Column(name, pl.String(), label=name)
        own = unit
        title = (heads or {}).get(name, column.label)
        if column.style == "time" and name not in made:
            largest = max((abs(_cell_value(each, name) or 0) for each in rows), default=0)
            own = each_unit.get(name) or unit or unit_for(largest)
            is_common = unit is not None and name not in each_unit
            title, is_named = title if is_common and is_named else f"{title} {own.name}", is_named or is_common
        titles.append(title)
        texts.append(
            [made[name](each) if name in made else cell_text(column, _cell_value(each, name), own) for each in rows]
        )
    left = [title for title, name in zip(titles, shown, strict=True) if name not in known or known[name].is_text]
    return table(titles, list(zip(*texts, strict=True)), width, **{"left": left, **how})


def cell_text(column: Column, value: Any, unit: Unit | None = None) -> str:
    """A value as its column shows it; a dash where there is none. unit: of a time; its own by default."""
    if value is None:
        return "–"
    match column.style:
        case "time":
            return duration(value) if unit is None else unit(value)
        case "share":
            return percent(value)
        case "size":
            return size(value)
        case "count":
            return f"{value:,}"
        case "number":
            return f"{value:,.3g}" if abs(value) < 1_000 else f"{value:,.0f}"
    return clean(value)


def _cell_value(row: Any, name: str) -> Any:
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name, None)


def plain_grid(*columns: Mapping[str, Any], gap: int = 2) -> Table:
    """A table without heads. columns: what `Table.add_column` takes of each."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, gap, 0, 0))
    for column in columns:
        table.add_column(**column)
    return table


def settings_table(settings: Mapping[str, str], width: int) -> Table:
    """A line a setting: its name and its text, each cut in the middle where it does not fit."""
    names = {name: shorten_middle(clean(name), max(width // 3, _LEAST_FIRST)) for name in settings}
    room = max(width - 2 - max(map(cell_len, names.values()), default=0), _LEAST_FIRST)
    table = plain_grid({"no_wrap": True}, {"no_wrap": True})
    for name, text in settings.items():
        table.add_row(Text(names[name], style=DIM), Text(shorten_middle(clean(text), room)))
    return table


def _one_table(
    heads: Sequence[str],
    lines: Sequence[Sequence[str]],
    room: int,
    left: Sequence[str],
    gap: int,
    bold: int | None,
    coloured: tuple[str, Sequence[str | None]],
    shorten: Callable[[str, int], str],
) -> Table:
    """room: of the first column, in characters."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0))
    for head in heads:
        justify: Literal["left", "right"] = "left" if head in left else "right"
        table.add_column(Text(head, style=DIM), justify=justify, no_wrap=True, overflow="ellipsis")
    for at, line in enumerate(lines):
        cells = [Text(text, style=BOLD if at == bold else "") for text in (shorten(line[0], room), *line[1:])]
        if coloured[0]:
            cells[heads.index(coloured[0])].stylize(Style(color=coloured[1][at]))
        table.add_row(*cells)
    return table


def frame(title: str, lines: Sequence[Text], style: Style) -> Panel:
    heading = Text(title, style=style)
    return Panel(Group(*lines), title=heading, title_align="left", border_style=style, box=box.HEAVY)
