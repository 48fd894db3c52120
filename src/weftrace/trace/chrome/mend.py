"""Which JSON was meant, where a profiler's text of an event is not quite JSON?

Kineto writes numbers as C++ prints them (`"blocks per SM": inf`), and names of Python's and torch.compile's ranges
without escaping the quotes and backslashes in them. Both are mended only where strict reading has failed, so that a
sound event is never touched; and a text that is mended never reaches into the next event.
"""

from __future__ import annotations

import re
from typing import Any

from weftrace.trace.chrome.json_text import NotJson, clean, lenient_json

_WINDOWS = (1 << 11, 1 << 16)  # characters in which an event that is to be mended must end
_MAX_MENDS = 64  # of one event; each costs a look at the event from its beginning

_NUMBER = r"[-+]?(?:inf(?:inity)?|nan(?:\(\w*\))?)"
_BARE = re.compile(rf"{_NUMBER}(?=\s*[,\]}}])", re.IGNORECASE)
_BARE_VALUE = re.compile(rf"([\s:,\[]){_NUMBER}(?=\s*[,\]}}])", re.IGNORECASE)
_CONTROL = re.compile(r"[\0-\x1f]")

# Keys of an event (the format's document, and Kineto's). A text in which one of them stands in quotes is more than one
# value: damage, not quotes that were not escaped.
_KEYS = "(?:ph|cat|name|pid|tid|ts|dur|id|bp|args|s)"
_NEXT_KEY = rf'\s*,\s*"{_KEYS}"\s*:'
_LIST_GOES_ON = r'\s*(?:\]|,\s*["\[\-\d])'
_ARGUMENTS_GO_ON = rf'{_NEXT_KEY}|\s*,\s*"[^"\\\n]{{1,64}}"\s*:|\s*\}}\s*[,\]}}]'
_EVENT_GOES_ON = rf"{_NEXT_KEY}|\s*\}}\s*[,\]{{]"
# Where a text with quotes in it ends: at the quote behind which what it stands in goes on. Group 1: a key comes first.
_END_IN_LIST, _END_IN_ARGUMENTS, _END_IN_EVENT = (
    re.compile(rf'(?<!\\)"(?:(?={goes_on})|({_KEYS}"))')
    for goes_on in (_LIST_GOES_ON, _ARGUMENTS_GO_ON, _EVENT_GOES_ON)
)
_KEY_ENDS = re.compile(r'"\s*:')
_TEXT_VALUE = re.compile(r'"\s*:\s*"')
_IN_QUOTES = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_IN_ARGUMENTS = re.compile(r'"args"\s*:\s*\{')
_QUOTE, _BACKSLASH = re.compile(r'(?<!\\)"'), re.compile(r'(?<!\\)\\(?!["\\])')


def without_flaws(text: str, used: frozenset[str]) -> tuple[str, bool] | None:
    """An event's text as strict JSON, quickly, and whether a bare number in it became null; None where only the slow
    way can tell: with escapes, or a bare number under one of the `used` keys.

    Control characters are escaped, and bytes that are not UTF-8 become U+FFFD. It may still not be JSON.
    """
    if "\\" in text:
        return None
    parts = text.split('"')  # without escapes, every other one is in quotes
    num_bare = 0
    for at in range(0, len(parts), 2):
        if "n" in parts[at] or "N" in parts[at]:
            parts[at], found = _BARE_VALUE.subn(r"\1null", parts[at])
            if found and at and parts[at - 1] in used:
                return None
            num_bare += found
    for at in range(1, len(parts), 2):
        if not parts[at].isprintable():
            parts[at] = _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", parts[at])
    return clean('"'.join(parts)), num_bare > 0


def mended(text: str, at: int, *, last: bool) -> tuple[dict[str, Any], str, int]:
    """The event at `at` with its texts escaped and bare numbers as NaN; its text then, and where it ends in `text`.

    last: no more text follows. Raises NotJson where that does not make an event of it.
    """
    rest = len(text) - at
    for window in _WINDOWS:
        try:
            value, piece, end = _mended(text[at : at + window])
        except NotJson as error:
            if error.unfinished and window < rest and window != _WINDOWS[-1]:
                continue
            unfinished = error.unfinished and rest < _WINDOWS[-1] and not last
            raise NotJson(error.reason, at + min(error.end, rest), unfinished=unfinished) from None
        return value, piece, at + end
    raise AssertionError(rest)


def _mended(piece: str) -> tuple[dict[str, Any], str, int]:
    length = len(piece)
    for _ in range(_MAX_MENDS):
        try:
            value, end = lenient_json(piece, 0)
        except NotJson as error:
            if error.too_deep:
                raise
            start, stop, instead = _mend(piece, error)
            piece = piece[:start] + instead + piece[stop:]
        else:
            return value, piece[:end], end - (len(piece) - length)
    raise NotJson("too much to repair", 0)


def _mend(piece: str, error: NotJson) -> tuple[int, int, str]:
    """What to replace at the place of an error: from, to, by what. Raises NotJson: the error itself, or one that more
    text might mend."""
    at = error.end
    if error.reason == "Expecting value" and (bare := _BARE.match(piece, at)):
        return at, bare.end(), "NaN"
    if error.reason == "Expecting ',' delimiter":
        closed = len(piece[:at].rstrip()) - 1
        start = _opened(piece, closed) if piece[closed : closed + 1] == '"' else None
        return _with_quotes(piece, start, at, error)
    if error.unfinished:
        raise error
    if "escape" in error.reason and (start := _opened(piece, at)) is not None:
        stop = _IN_QUOTES.match(piece, start).end()  # type: ignore[union-attr] # it may match nothing, but matches
        if _KEY_ENDS.match(piece, stop):
            raise error
        return start, stop, _BACKSLASH.sub(r"\\\\", piece[start:stop])
    if error.reason.startswith(("Expecting ':'", "Expecting property name")):  # behind a quote and a comma in a text
        starts = [found.end() for found in _TEXT_VALUE.finditer(piece, 0, at)]
        return _with_quotes(piece, starts[-1] if starts else None, len(piece[:at].rstrip()) - 1, error)
    raise error


def _opened(piece: str, at: int) -> int | None:
    """Where the text begins whose closing quote, or a place in it, is at `at`."""
    quote = piece.rfind('"', 0, at)
    while quote > 0 and piece[quote - 1] == "\\":
        quote = piece.rfind('"', 0, quote)
    return quote + 1 if quote >= 0 else None


def _with_quotes(piece: str, start: int | None, behind: int, error: NotJson) -> tuple[int, int, str]:
    """The text that begins at `start` with its quotes escaped, up to the one that ends it, which is at `behind` or
    later."""
    before = piece[: start - 1].rstrip()[-1:] if start else ""
    if start is None or before not in (":", "[", ","):
        raise error
    end = _END_IN_EVENT
    if before != ":":
        end = _END_IN_LIST
    elif _IN_ARGUMENTS.search(piece, 0, start):
        end = _END_IN_ARGUMENTS
    found = end.search(piece, start)
    while found is not None and not found[1] and found.start() < behind:
        found = end.search(piece, found.end())
    if found is None:
        raise NotJson(error.reason, len(piece), unfinished=True)
    if found[1]:
        raise error
    return start, found.start(), _QUOTE.sub(r'\\"', piece[start : found.start()])
