"""The analyses of a device that are one table each: a line in `TABLES`, and reports, pages and documents have it.

A table is declared by the type of its rows: fields say what each column means and how it is shown (`files.columns`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import polars as pl

from weftrace.analysis.copy_rates import CopyRow, copies
from weftrace.analysis.host_self_times import HostTimeRow, host_functions, host_operators, launch_bound_sentence
from weftrace.analysis.serving_steps import EngineKindRow, EngineStepRow, engine_kinds, engine_steps
from weftrace.analysis.waiting.blocking_calls import BlockingCallRow, blocking_calls
from weftrace.files.columns import columns_of, frame_schema
from weftrace.trace.work import Work

#: Rows of a table that a report holds.
MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class RankTable:
    """title: its heading. row: type of its rows, whose docstring says what a row is. rows: from a device's work to a
    frame of them, the most important first. most: rows that a report holds. says: from the rows of a document and the
    device's span in ns to what they tell in a sentence, empty where that is nothing. in_terminal: the columns that a
    terminal has room for; all where it is empty."""

    title: str
    row: Any
    rows: Callable[[Work], pl.DataFrame]
    most: int = MOST_ROWS
    says: Callable[[Sequence[Any], int], str] | None = None
    in_terminal: tuple[str, ...] = ()


_HOST = ("name", "num_calls", "self_ns", "device_ns", "idle_ns")

#: Name in documents -> table, in the order in which they are shown.
TABLES: dict[str, RankTable] = {
    "blocking_calls": RankTable("Calls that blocked the host", BlockingCallRow, blocking_calls),
    "copies": RankTable("Copies and fills", CopyRow, copies),
    "host_operators": RankTable(
        "Operators on the host by self time", HostTimeRow, host_operators, most=200, says=launch_bound_sentence,
        in_terminal=_HOST,
    ),
    "host_functions": RankTable(
        "Python functions on the host by self time", HostTimeRow, host_functions, most=100, in_terminal=_HOST
    ),
    "engine_kinds": RankTable("Serving, by kind of step", EngineKindRow, engine_kinds),
    "engine_steps": RankTable("Serving steps", EngineStepRow, engine_steps),
}  # fmt: skip


def rank_tables(work: Work) -> dict[str, pl.DataFrame]:
    """Name -> rows of each table; those that are empty are left out."""
    found = {name: table.rows(work).head(table.most).cast(frame_schema(table.row)) for name, table in TABLES.items()}  # type: ignore[arg-type]
    return {name: frame for name, frame in found.items() if frame.height}


def table_notes(tables: Mapping[str, Sequence[Any]], span_ns: int) -> dict[str, str]:
    """Name -> what the rows of a table tell in a sentence; those that tell nothing are left out."""
    said = {name: table.says(tables.get(name, ()), span_ns) for name, table in TABLES.items() if table.says}
    return {name: sentence for name, sentence in said.items() if sentence}


def tables_type() -> Any:
    """The type of a document's `tables`: name -> rows of each table that a rank has."""
    rows: dict[str, Any] = {name: list[table.row] for name, table in TABLES.items()}  # type: ignore[name-defined]
    return TypedDict("TablesDocument", rows, total=False)  # type: ignore[operator]


def tables_terms(names: Collection[str]) -> Mapping[str, tuple[str, str]]:
    """Definitions for pages with these tables: `NAME` of each, and `NAME.COLUMN` of each column that has a meaning."""
    shown = {name: table for name, table in TABLES.items() if name in names}
    terms = {name: (table.title, " ".join((table.row.__doc__ or "").split())) for name, table in shown.items()}
    for name, table in shown.items():
        columns = columns_of(table.row)
        terms |= {f"{name}.{column.name}": (column.label, column.meaning) for column in columns if column.meaning}
    return terms
