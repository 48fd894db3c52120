"""Text from a trace, written so that it stays a text: nothing in a name colours or moves a terminal, ends an XML
document, or runs in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

# What may not reach a reader as it is: controls (ESC among them), format characters (bidirectional overrides, zero
# width), lone surrogates (valid in JSON, an error in UTF-8), private use, line and paragraph separators. Unassigned
# ones (Cn) may be letters of a newer Unicode; noncharacters never are, and XML forbids two of them.
_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# What a spreadsheet takes for the start of a formula, also where it splits a line at semicolons; some read full-width
# signs likewise.
_FORMULA = re.compile(r"(^|;)(?=\s*[=+\-@＝＋－＠])")
_SURROGATE = re.compile("[\ud800-\udfff]")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
#: The cells that `csv_cell` may change, for Polars: a sign that begins a formula, a character that `clean` may write.
_SUSPECT = r"[=+\-@＝＋－＠\pC\p{Zl}\p{Zp}]"


def clean(text: object) -> str:
    """Untrusted text with every control, invisible or direction-changing character written as `\\x1b`, `\\u202e` …"""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(
        (f"\\x{ord(c):02x}" if ord(c) < 0x100 else f"\\u{ord(c):04x}") if _is_unsafe(c) else c for c in whole
    )


def _is_unsafe(character: str) -> bool:
    code = ord(character)
    is_noncharacter = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return is_noncharacter or unicodedata.category(character) in _UNSAFE_CATEGORIES


def without_surrogates(text: str) -> str:
    """Text that UTF-8 can hold: a byte of a name that is no UTF-8 as `\\xff`, other lone surrogates as `\\ud800`."""
    return text if text.isascii() else _SURROGATE.sub(_surrogate, text)


def _surrogate(found: re.Match[str]) -> str:
    byte = ord(found[0]) - 0xDC00  # where Python puts such a byte
    return f"\\x{byte:02x}" if 0x80 <= byte < 0x100 else f"\\u{ord(found[0]):04x}"


def csv_cell(text: str) -> str:
    """A text that no spreadsheet runs: an apostrophe before what would begin a formula. A number stays a number."""
    shown = clean(text)
    return shown if _NUMBER.fullmatch(shown) else _FORMULA.sub(r"\1'", shown)


def csv_of(frame: pl.DataFrame) -> str:
    """A frame as CSV, with a head line: numbers as they are, texts as `csv_cell`, lists and objects as JSON."""
    import polars as pl

    columns = [_texts(column) for column in frame]
    return csv_of_rows(frame.columns, ()) + pl.DataFrame(columns).write_csv(include_header=False)


def csv_of_rows(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, below their heads: None is empty, texts are as `csv_cell`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in (heads, *rows):
        writer.writerow([csv_cell(each) if isinstance(each, str) else each for each in row])
    return text.getvalue()


def _texts(column: pl.Series) -> pl.Series:
    """A column as it stands in CSV."""
    import msgspec
    import polars as pl

    if column.dtype.is_nested() or isinstance(column.dtype, pl.Binary | pl.Duration):
        values = (msgspec.to_builtins(each) for each in column.to_list())
        texts = [each if isinstance(each, str | None) else msgspec.json.encode(each).decode() for each in values]
        column = pl.Series(column.name, texts, pl.String)
    if not isinstance(column.dtype, pl.String | pl.Categorical | pl.Enum):
        return column
    column = column.cast(pl.String)
    suspects = column.filter(column.str.contains(_SUSPECT)).unique().to_list()
    changed = {each: shown for each in suspects if (shown := csv_cell(each)) != each}
    return column.replace(changed) if changed else column
