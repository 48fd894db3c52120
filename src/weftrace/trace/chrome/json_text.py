"""Which JSON value stands here? As written in the wild: with control characters, NaN, and numbers of any length."""

from __future__ import annotations

import json
import re
from decimal import Context, Decimal
from typing import Any

_WINDOWS = (1 << 10, 1 << 15, 1 << 20)  # characters looked at; then all: an error must not cost a look at all the text
_MAX_PARTIAL = 12  # characters that a number, name or escape may be cut short by: -Infinity, \\ud83d\\ude00


class NotJson(Exception):
    """There is no JSON value at a place in a text.

    reason: what is wrong, of a fixed set of phrases. end: where reading failed. unfinished: more text might make it
    whole. too_deep: it nests deeper than can be decoded; `end` and `unfinished` then say nothing.
    """

    def __init__(self, reason: str, end: int, *, unfinished: bool = False, too_deep: bool = False) -> None:
        super().__init__(reason, end)
        self.reason = reason
        self.end = end
        self.unfinished = unfinished
        self.too_deep = too_deep


def lenient_json(text: str, at: int) -> tuple[Any, int]:
    """The JSON value that starts at `at`, and where it ends. Fractions are decimals. Raises NotJson."""
    rest = len(text) - at
    for window in (*_WINDOWS, rest):
        piece = text[at : at + window]
        try:
            value, end = _decoded(piece)
        except json.JSONDecodeError as error:
            unfinished = error.pos >= len(piece) - _MAX_PARTIAL or error.msg.startswith("Unterminated string")
            if not unfinished or window >= rest:
                raise NotJson(error.msg, at + error.pos, unfinished=unfinished) from None
        except RecursionError:
            raise NotJson("nested too deeply", at, too_deep=True) from None
        else:
            if end < len(piece) or window >= rest:  # a number may go on behind the window
                return value, at + end
    raise AssertionError((rest, at))


def _decoded(text: str) -> tuple[Any, int]:
    try:
        return _LENIENT.raw_decode(text)
    except json.JSONDecodeError:
        raise
    except ValueError:  # Python refuses to parse integers of thousands of digits
        return _LENIENT_LONG.raw_decode(text)


def _long_integer(digits: str) -> int | Decimal:
    return int(digits) if len(digits) < 1000 else lenient_decimal(digits)


#: A decimal from its text. An exponent beyond all bounds makes an infinity, and no number NaN, but neither an error.
lenient_decimal = Context(prec=64, traps=[]).create_decimal
_LENIENT = json.JSONDecoder(strict=False, parse_float=lenient_decimal)
_LENIENT_LONG = json.JSONDecoder(strict=False, parse_float=lenient_decimal, parse_int=_long_integer)


def clean(text: str) -> str:
    """Text that UTF-8 can hold: bytes that were not UTF-8, and halves of surrogate pairs, become U+FFFD."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]]')


def nested(text: str, start: int, *, depth: int) -> int | None:
    """Where the brackets that open at `start` first nest to a depth; with depth 0, where they are closed."""
    now = 0
    for token in _TOKEN.finditer(text, start):
        if token[0] in "{[":
            now += 1
        elif token[0] in "}]":
            now -= 1
        else:
            continue
        if now == depth:
            return token.end()
    return None
