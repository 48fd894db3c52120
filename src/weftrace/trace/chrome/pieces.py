"""What do pieces of text add to a table, and how does it get there from another process?

They are read into a table of their own, which makes no columns. Put into the file's table in the order of the file,
what they add makes it the same as reading their text there: values are numbered, and notes taken, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from weftrace.trace.chrome.columns import Columns
from weftrace.trace.chrome.events import Args, Event
from weftrace.trace.chrome.gather import Gathered, Gatherer
from weftrace.trace.chrome.table import Table
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Ints


class Reading(NamedTuple):
    """How a table reads. exact: times as decimals, from the first piece on."""

    exact: bool
    python_functions: bool
    frames: bool


class Piece(NamedTuple):
    """One piece. num_rows: how many of the rows are its own. exact: whether times are read as decimals behind it.

    others: its events that are neither rows nor only counted, as `_told` gives them; None where the tally has all.
    """

    num_rows: int
    exact: bool
    others: list[tuple[Any, ...]] | None
    tally: Tally | None


class Pieces(NamedTuple):
    """Pieces that follow one another, and what they add together; frames only where these are read."""

    each: list[Piece]
    rows: Gathered
    memory: Gathered
    frames: Gathered | None


def read_pieces(texts: Sequence[bytes | memoryview], reading: Reading) -> Pieces:
    """Of JSON lists of events that follow one another, those before the first that is none, or that only the file's own
    table can take."""
    table = _PieceTable(reading)
    each = []
    for text in texts:
        try:
            if not table.add_json(text):
                break
        except _InOrder:
            break
        each.append(table.piece())
    frames = None if table.frames is None else table.frames.gathered()
    return Pieces(each, table.columns.gathered(), table.memory.gathered(), frames)


def put_pieces(table: Table, pieces: Pieces) -> None:
    """Put behind what a table has what pieces add that were read as it reads."""
    if table.frames is not None and pieces.frames is not None:
        table.frames.put(pieces.frames)
    table.memory.put(pieces.memory)
    arrays = table.columns.tables.arrays(pieces.rows)
    start = stop = 0
    for piece in pieces.each:
        for summary in piece.others or ():
            table.take_other(_as_summary(summary))
        if piece.tally is not None:
            table.tally.add(piece.tally)
        stop += piece.num_rows
        if stop - start >= table.columns.num_to_part:  # which is where reading the text would make one
            table.columns.put(arrays, start, stop)
            start = stop
        table.exact = piece.exact
    if start < stop:
        table.columns.put(arrays, start, stop)


class _InOrder(Exception):
    """A piece has begin or end events, whose other half may be elsewhere: whose they are shows only in order."""


class _PieceTable(Table):
    def __init__(self, reading: Reading) -> None:
        super().__init__(Tally(), python_functions=reading.python_functions, frames=reading.frames)
        self.exact = reading.exact
        self.columns = self._gatherer = _PieceColumns(self.tally)
        self._others: list[tuple[Any, ...]] | None = None

    def piece(self) -> Piece:
        """What was added since this was asked last."""
        piece = Piece(self._gatherer.num_rows, self.exact, self._others, self.tally.taken())
        self._gatherer.num_rows, self._others = 0, None
        return piece

    def _paired(self, events: Sequence[Event]) -> Any:
        raise _InOrder

    def _take_others(self, events: Sequence[Event]) -> None:
        if any(event.ph in ("M", "X") or event.name == "Record Window End" for event in events):
            self._others = [_values_of(event) for event in events]
        else:
            super()._take_others(events)


class _PieceColumns(Columns):
    """Never made into columns: the table that takes the rows does that, after as many as ever. num_rows: of a piece."""

    num_rows = 0

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        Gatherer.append(self, events, ts_ns, dur_ns)
        self.num_rows += len(events)


def _values_of(event: Event) -> tuple[Any, ...]:
    """What `Table.take_other` reads of an event."""
    args = event.args
    return event.ph, event.name, event.pid, event.tid, event.ts, event.dur, args.name, args.labels, args.sort_index


def _as_summary(summary: tuple[Any, ...]) -> Event:
    ph, name, pid, tid, ts, dur, args_name, labels, sort_index = summary
    args = Args(name=args_name, labels=labels, sort_index=sort_index)
    return Event(ph=ph, name=name, pid=pid, tid=tid, ts=ts, dur=dur, args=args)
