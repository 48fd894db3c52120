"""How do gathered values become the columns of `Trace.events`, in little memory?

Every `_PART_ROWS` rows become Polars columns of their final type, so that only one part is ever held twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from operator import itemgetter
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weftrace.trace.chrome.events import MISSING, Event
from weftrace.trace.chrome.gather import (
    CATEGORY,
    CODED,
    NUMBERED,
    ON_HOST,
    OPERATORS,
    SPARSE,
    Gatherer,
    label,
)
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.chrome.times import Ints
from weftrace.trace.model import DEVICE_CATEGORIES, EVENT_SCHEMA

_PART_ROWS = 1 << 16
_INT32 = 1 << 31
_STEP = "ProfilerStep#"
_OF_ALL = ("ts_ns", "dur_ns", "name", "cat", "thread", "correlation", "external_id")  # gathered for all rows


class Columns(Gatherer):
    """The events frame under construction."""

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self._parts: dict[str, list[pl.Series | None]] = defaultdict(list)
        self._heights: list[int] = []

    def append(self, events: Sequence[Event], ts_ns: Ints, dur_ns: Ints) -> None:
        super().append(events, ts_ns, dur_ns)
        if self._num_pending >= _PART_ROWS:
            self._flush()

    def put(self, arrays: Mapping[str, NDArray[Any]], start: int, stop: int) -> None:
        """Add rows start to stop of arrays with the codes of `tables`."""
        for column in _OF_ALL:
            self._put(column, arrays[column][start:stop])
        for kind, columns in SPARSE.items():
            if (rows := arrays.get(f"{kind} rows")) is None:
                continue
            first, end = np.searchsorted(rows, (start, stop))
            if first < end:
                self._put(f"{kind} rows", rows[first:end] + (self._num_pending - start))
                for column in columns:
                    self._put(column, arrays[column][first:end])
        self._num_pending += stop - start
        if self._num_pending >= _PART_ROWS:
            self._flush()

    @cached_property
    def _meanings(self) -> dict[str, _Meaning]:
        return _meanings()  # made where they are needed: not by the many tables of pieces

    @property
    def num_to_part(self) -> int:
        """How many more rows make a part."""
        return _PART_ROWS - self._num_pending

    def frame(self, base_ns: int) -> pl.DataFrame:
        """All rows, with `base_ns` added to their times. The columns are given up one by one as it grows."""
        self._flush()
        found: dict[str, pl.Series | None] = {}
        for column in ("ts_ns", "dur_ns", *_INT_COLUMNS):
            found[column] = self._joined(column)
        if base_ns and found["ts_ns"] is not None:
            found["ts_ns"] = found["ts_ns"] + base_ns
        for column in self._meanings:
            found[column] = self._joined(column)
        if not self._heights:
            return pl.DataFrame(schema=EVENT_SCHEMA)
        present = {column: series for column, series in found.items() if series is not None}
        frame = pl.DataFrame(present).select(
            pl.col(column) if column in present else pl.lit(None, dtype=dtype).alias(column)
            for column, dtype in EVENT_SCHEMA.items()
        )
        return self._with_steps(frame)

    def _with_steps(self, frame: pl.DataFrame) -> pl.DataFrame:
        """PyTorch 1.8 to 1.12 wrote the profiler's steps as operators: they are annotations, as they are today."""
        steps = [name for name in map(label, self._names) if name.startswith(_STEP)]
        named = pl.col("name").is_in(pl.Series(steps, dtype=pl.Categorical()).implode())
        rows = frame.select((named & (pl.col("cat") == "cpu_op")).arg_true()).to_series() if steps else ()
        if not len(rows):
            return frame
        cats = frame.get_column("cat").cast(pl.String).scatter(rows, "user_annotation")
        return frame.with_columns(cats.cast(pl.Categorical()))

    # --- one part in its final types ----------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Make a part of the pending rows."""
        if not self._num_pending:
            return
        values = {column: self._take(column) for column in _OF_ALL}
        for kind, columns in SPARSE.items():
            if self._chunks[f"{kind} rows"]:
                rows = self._take(f"{kind} rows")
                values |= {column: self._spread(column, rows) for column in columns}
        self._settle_streams(values)
        for column in ("ts_ns", "dur_ns"):
            self._parts[column].append(pl.Series(values[column]))
        for column in _INT_COLUMNS:
            self._parts[column].append(self._nullable(column, values.get(column)))
        for column, meaning in self._meanings.items():
            self._parts[column].append(meaning.of(values.get(meaning.coded), self.tables[meaning.coded]))
        self._heights.append(self._num_pending)
        self._num_pending = 0

    def _take(self, column: str) -> NDArray[Any]:
        return np.concatenate(self._chunks.pop(column))

    def _spread(self, column: str, rows: Ints) -> NDArray[Any]:
        """A column of few rows over all rows of the part."""
        values = self._take(column)
        spread = np.full(self._num_pending, 0 if column in CODED else MISSING, values.dtype)
        spread[rows] = values
        return spread

    def _settle_streams(self, values: dict[str, NDArray[Any]]) -> None:
        """Leave stream and device only where they mean something; where device events state none, take the stream from
        the thread's name and the device from the process's."""
        if "stream" not in values:
            return
        cats = [CATEGORY.get(cat, cat) for cat in self._cats]
        on_device = np.array([cat in DEVICE_CATEGORIES for cat in cats], np.bool_)[values["cat"]]
        on_host = np.array([cat in ON_HOST for cat in cats], np.bool_)[values["cat"]]
        operators = np.array([cat in OPERATORS for cat in self._cats], np.bool_)[values["cat"]]
        for column in ("moved_bytes", "graph_id", "graph_node_id", "wait_stream", "wait_correlation"):
            values[column][operators] = MISSING
        for column, place, pattern in (
            ("stream", 1, r"(?<!\d)(\d{1,15})(?!\d)"),
            ("device", 0, r"(?:^|\D)(\d{1,6})\s*$"),
        ):
            values[column][on_host] = MISSING
            absent = on_device & (values[column] == MISSING)
            if absent.any():
                threads = list(self._threads)
                codes, where = np.unique(values["thread"][absent], return_inverse=True)
                found = [re.search(pattern, label(threads[code][place])) for code in codes.tolist()]
                numbers = np.array([int(match[1]) if match else MISSING for match in found], np.int64)
                values[column][absent] = numbers[where]
        no_graph = values["graph_id"] <= 0
        values["graph_id"][no_graph] = values["graph_node_id"][no_graph] = MISSING

    def _nullable(self, column: str, values: Ints | None) -> pl.Series | None:
        """A part of a column of integers in its final type; None where no row has a value."""
        if values is None:
            return None
        absent = values == MISSING
        if EVENT_SCHEMA[column] == pl.Int32:
            beyond = ~absent & ((values < -_INT32) | (values >= _INT32))
            if beyond.any():
                self._tally.repair("integer beyond 32 bits left out", f"{values[beyond][0]:x}", int(beyond.sum()))
                absent |= beyond
            values = np.where(absent, 0, values).astype(np.int32)
        if absent.all():
            return None
        series = pl.Series(values)
        return series.set(pl.Series(absent), None) if absent.any() else series

    def _joined(self, column: str) -> pl.Series | None:
        """The parts of a column in one, which gives them up; None where no part has a value."""
        parts = self._parts.pop(column, [])
        dtype = next((part.dtype for part in parts if part is not None), None)
        if dtype is None:
            return None
        return pl.concat(
            (
                pl.repeat(None, height, dtype=dtype, eager=True) if part is None else part
                for part, height in zip(parts, self._heights, strict=True)
            ),
            rechunk=False,
        )


_INT_COLUMNS = ("correlation", "external_id", *(c for columns in SPARSE.values() for c in columns if c not in CODED))


class _Meaning:
    """What codes stand for, as one column has it. coded: the column of codes."""

    def __init__(self, coded: str, dtype: pl.DataType, value: Callable[[Any], Any] = lambda value: value) -> None:
        self.coded = coded
        self._value = value
        self._table = pl.Series(dtype=dtype)
        self._says_something = False

    def of(self, codes: NDArray[np.uint32] | None, table: Mapping[Any, int]) -> pl.Series | None:
        """What these codes stand for; None where none of the table's stands for anything."""
        new = [self._value(value) for value in islice(table, len(self._table), None)]
        if new:
            self._says_something |= any(value is not None for value in new)
            self._table = pl.concat([self._table, _values(new, self._table.dtype)], rechunk=True)
        return None if codes is None or not self._says_something else self._table.gather(pl.Series(codes))


def _meanings() -> dict[str, _Meaning]:
    """Column -> what it makes of codes."""
    text = pl.Categorical()
    return {
        "name": _Meaning("name", text),
        "cat": _Meaning("cat", text, lambda cat: CATEGORY.get(cat, cat)),
        "pid": _Meaning("thread", text, lambda thread: label(thread[0])),
        "tid": _Meaning("thread", text, lambda thread: label(thread[1])),
        **{column: _Meaning(column, text) for column in CODED if column not in NUMBERED},
        **{
            column: _Meaning(kind, EVENT_SCHEMA[column], itemgetter(at))
            for kind, columns in NUMBERED.items()
            for at, column in enumerate(columns)
        },
    }


def _values(values: Sequence[Any], dtype: pl.DataType) -> pl.Series:
    return pl.Series(values, dtype=pl.String if dtype == pl.Categorical() else dtype).cast(dtype)


def categorical(codes: pl.Series, values: Sequence[str]) -> pl.Series:
    """The values that the codes number, as a categorical column."""
    return _values(values, pl.Categorical()).gather(codes)
