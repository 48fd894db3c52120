"""What do arguments say of which a file has few different ones: launch grids, shapes? Each text of JSON is read once,
and events hold its number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import islice
from typing import Any

import msgspec

from weftrace.trace.chrome.events import MISSING
from weftrace.trace.chrome.json_text import clean
from weftrace.trace.chrome.tally import Tally
from weftrace.trace.limits import ARGUMENT_CHARS, LIST_CHARS

BETWEEN = b"\0"  # of the arguments in a key: no JSON holds it

#: Columns that a kernel's launch fills, and the arguments that say it, in the order of their key.
LAUNCH_COLUMNS = ("num_blocks", "num_threads", "grid", "block", "registers", "shared_bytes", "occupancy")
_LAUNCH_KEYS = ("grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %")
#: Columns of what an operator was called with, and their arguments; torch 1.8 wrote "Input dims".
CALL_COLUMNS = ("input_shapes", "input_types", "input_strides", "call_stack")
_CALL_KEYS = ("Input Dims", "Input dims", "Input type", "Input Strides", "Call stack")
_VALUES_KEY = "Concrete Inputs"

CALL_BITS = 32

_CUT = "…"
_MAX_DIMS = 8  # of a grid or block, which have three
_INT32, _INT64 = 1 << 31, 1 << 63
_BROKEN = (ValueError, OverflowError, RecursionError)  # msgspec's errors are ValueErrors

Values = tuple[int | str | None, ...]
Note = Callable[[str, bytes], None]

#: What arguments say that were read before, perhaps of another file: a process that reads pieces of files begins often.
_KNOWN: dict[tuple[Callable[[list[bytes], Note], Values], bytes], Values] = {}
_MOST_KNOWN, _MAX_KNOWN_CHARS = 10_000, 1_000
_MOST_CALLS = 1 << 15


class Numbered(dict[bytes, int]):
    """Arguments, as JSON with BETWEEN between them -> the number of what they say; 0 of nothing.

    number_of: what each number stands for. read: makes values of arguments, and notes those that cannot be used; these
    are read, and noted, whenever they are met.
    """

    def __init__(self, read: Callable[[list[bytes], Note], Values], nothing: Values, tally: Tally) -> None:
        super().__init__()
        self._read = read
        self._tally = tally
        self.number_of = {nothing: 0}
        self._of_operator: dict[int, int] = {}

    def __missing__(self, key: bytes) -> int:
        values = _KNOWN.get((self._read, key))
        if values is None:
            unusable: list[str] = []

            def note(reason: str, raw: bytes) -> None:
                unusable.append(reason)
                self._tally.repair(reason, raw)

            values = self._read(key.split(BETWEEN), note)
            if unusable:
                return self.number(values)
            if len(key) < _MAX_KNOWN_CHARS and len(_KNOWN) < _MOST_KNOWN:
                _KNOWN[self._read, key] = values
        number = self.number(values)
        if len(key) <= LIST_CHARS:
            self[key] = number
        return number

    def number(self, values: Values) -> int:
        return self.number_of.setdefault(values, len(self.number_of))

    def of_operator(self, launch: int) -> int:
        """The number of the launch that an operator may state, where it states this one."""
        if launch not in self._of_operator:
            behind = len(self.number_of) - 1 - launch  # few: it was met just now
            values = next(islice(reversed(self.number_of), behind, None))
            self._of_operator[launch] = self.number(_of_operator(values))
        return self._of_operator[launch]


def launches(tally: Tally) -> Numbered:
    return Numbered(_launch, (None,) * len(LAUNCH_COLUMNS), tally)


def calls(tally: Tally) -> Numbered:
    return Numbered(_call, (None,) * len(CALL_COLUMNS), tally)


class Calls(dict[bytes, int]):
    """Arguments of a call, and values of its scalars behind them -> the number that `calls` has for the first and,
    `CALL_BITS` to the left, the one that `numbers` has for the text of the values.

    They are numbered apart because seeds and offsets can make values differ in every call. Then only the first keys are
    kept.
    """

    def __init__(self, calls: Numbered, numbers: dict[str | None, int], tally: Tally) -> None:
        super().__init__()
        self._calls, self._numbers, self._tally = calls, numbers, tally

    def __missing__(self, key: bytes) -> int:
        call, _, raw = key.rpartition(BETWEEN)
        both = self._calls[call]
        usable = call in self._calls
        try:
            both |= self._numbers[_list_of_texts(raw)] << CALL_BITS
        except _BROKEN:
            usable = False
            self._tally.repair(_unusable(_VALUES_KEY), raw)
        if usable and len(self) < _MOST_CALLS:
            self[key] = both
        return both


# --- launches -----------------------------------------------------------------------------------------------------


def _launch(raws: list[bytes], note: Note) -> Values:
    (blocks, grid), (threads, block) = (
        _dims(key, raw, limit, note) for key, raw, limit in zip(_LAUNCH_KEYS, raws[:2], (_INT64, _INT32), strict=False)
    )
    counts = [_count(key, raw, note) for key, raw in zip(_LAUNCH_KEYS[2:], raws[2:], strict=True)]
    return blocks, threads, grid, block, *counts


def _of_operator(launch: Values) -> Values:
    """What is left of an operator's launch, Triton's: a block only beside a grid."""
    blocks, threads, grid, block, *_ = launch
    if blocks is None:
        threads = None
        block = None if grid is None else block
    return blocks, threads, grid, block, None, None, None


def _dims(key: str, raw: bytes, limit: int, note: Note) -> tuple[int | None, str | None]:
    """(product, text) of launch dimensions; no text where the product says all, as of [n, 1, 1]."""
    try:
        value = _decoded(raw)
        if value is None or isinstance(value, str):
            return None, _cut(clean(value or "")) or None
        dims = msgspec.convert(value, list[int], strict=False)
    except _BROKEN:
        note(_unusable(key), raw)
        return None, None
    if not dims:
        return None, None
    many = len(dims) > _MAX_DIMS  # their product could take for ever
    product = limit if many else math.prod(dims)
    text = None if many or dims[1:] == [1, 1] else _compact(dims)
    return _within(product, limit, note, raw), text


def _count(key: str, raw: bytes, note: Note) -> int | None:
    try:
        value = _decoded(raw)
        number = MISSING if value is None else integer(msgspec.convert(value, int | float | str))
    except _BROKEN:
        note(_unusable(key), raw)
        return None
    return None if number == MISSING else _within(number, _INT32, note, raw)


def _within(number: int, limit: int, note: Note, raw: bytes) -> int | None:
    if -limit <= number < limit:
        return number
    note(f"integer beyond {limit.bit_length()} bits left out", raw)
    return None


def integer(value: int | float | str) -> int:
    """A number, rounded, or the one in a text such as "stream 7 "; missing where there is none."""
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return round(value) if math.isfinite(value) else MISSING
    match = re.search(r"0x[0-9a-fA-F]{1,15}(?![0-9a-fA-F])|(?<![0-9])[0-9]{1,18}(?![0-9])", value)
    return int(match[0], 0 if match[0].startswith("0x") else 10) if match else MISSING


# --- calls --------------------------------------------------------------------------------------------------------


def _call(raws: list[bytes], note: Note) -> Values:
    texts = []
    for key, raw in zip(_CALL_KEYS, raws, strict=True):
        try:
            texts.append(_list_or_text(raw))
        except _BROKEN:
            note(_unusable(key), raw)
            texts.append(None)
    shapes, old_shapes, *others = texts
    return shapes or old_shapes, *others


_TEXTS = msgspec.json.Decoder(list[str])
_JSON = msgspec.json.Encoder()


def _list_of_texts(raw: bytes) -> str | None:
    """`_list_or_text`, sooner where it is a list of texts, as it is of the values of scalars."""
    try:
        text = _JSON.encode(_TEXTS.decode(raw))
    except _BROKEN:
        return _list_or_text(raw)
    return text.decode() if 2 < len(text) <= LIST_CHARS and text.isascii() else _list_or_text(raw)


def _list_or_text(raw: bytes) -> str | None:
    """A list as JSON without blanks, or a text; None where it says nothing. A list within a text counts as the list.
    What is too long is cut, and ends with "…": a list is no JSON then. Raises ValueError where it is neither."""
    value = _decoded(raw)
    if isinstance(value, str):
        text = clean(value).strip()
        value = _list_within(text)
        if value is None:
            return _cut(text) or None
    if value is not None and not isinstance(value, list):
        raise ValueError(raw)
    return _cut(_compact(value), LIST_CHARS) if value else None


def is_list(text: str) -> bool:
    """Whether a text stands for a list, and can be written as one."""
    value = _list_within(text)
    return bool(value) and _compact(value) == text


def _list_within(text: str) -> list[Any] | None:
    if not text.startswith("["):
        return None
    try:
        value = msgspec.json.decode(text)
    except _BROKEN:
        return None
    return value if isinstance(value, list) else None


# --- both ---------------------------------------------------------------------------------------------------------


def _decoded(raw: bytes) -> Any:
    return msgspec.json.decode(raw.decode("utf-8", "replace")) if raw else None


def _compact(value: object) -> str:
    return clean(msgspec.json.encode(value).decode())


def _cut(text: str, most: int = ARGUMENT_CHARS) -> str:
    return text if len(text) <= most else text[: most - 1] + _CUT


def _unusable(key: str) -> str:
    return f"unusable args.{key} left out"
