"""Regexes for text that is plain ASCII, which compile several times as fast as those for all of Unicode."""

from __future__ import annotations

import re

import polars as pl

_TOKEN = re.compile(r"\\.|.", re.DOTALL)
#: What a class stands for in ASCII, outside of brackets and within.
_OUTSIDE = {r"\w": "[0-9A-Za-z_]", r"\W": "[^0-9A-Za-z_]", r"\d": "[0-9]", r"\b": r"(?-u:\b)"}
_WITHIN = {r"\w": "0-9A-Za-z_", r"\d": "0-9"}


def is_ascii(texts: pl.Series) -> bool:
    """Whether all of the texts are."""
    return bool((texts.str.len_bytes() == texts.str.len_chars()).all())


def ascii_pattern(pattern: str) -> str:
    r"""A regex in Rust's dialect that finds in ASCII text just what `pattern` does.

    A Unicode class such as `\w` takes most of the time in which a regex is compiled, so these become ranges.
    """
    if "\\" not in pattern:
        return pattern
    depth, out = 0, []
    for token in _TOKEN.findall(pattern):
        depth += {"[": 1, "]": -1}.get(token, 0)
        out.append((_WITHIN if depth else _OUTSIDE).get(token, token))
    return "".join(out)
