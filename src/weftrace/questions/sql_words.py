"""The words of SQL: whether it is a question at all, what it names, and its numbers as fractions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise

from weftrace.errors import QueryError

_STATEMENTS = ("select", "with", "from", "values", "show", "explain")
_WRITING = ("insert", "update", "delete", "create", "drop", "alter", "truncate", "copy")
SUPPORTED = "A question is a SELECT (WITH ... SELECT too); SHOW TABLES and EXPLAIN SELECT work as well."
_TOKENS = re.compile(
    r"""'(?:[^']|'')*'                           # a text
    | (?P<quoted>"[^"]*" | `[^`]*`)              # a quoted name
    | --[^\n]* | /\*.*?\*/                       # a comment
    | (?P<number>\d+\.\d*(?![\deE]))             # a number with a point and no exponent
    | (?P<word>[A-Za-z_]\w*) | (?P<open>\() | \S""",
    re.DOTALL | re.VERBOSE,
)
#: Operators in SQL, each character and AND and OR; and SELECTs and JOINs. Polars plans a chain of them by recursion:
#: with 1,000 its stack may overflow, which ends the process; before, the plan takes many seconds.
_MOST_OPERATORS, _MOST_SELECTS = 500, 100
_OPERATORS = frozenset(("and", "or", *"+-*/%|<>=!&^~"))
#: Before a text that is quoted otherwise. Polars knows few such, and where a text ends has to be plain here.
_TEXT_PREFIXES = frozenset(("e", "q", "nq", "n", "r", "b", "br", "rb"))


@dataclass(frozen=True, slots=True)
class Words:
    """first: the word that SQL begins with. names: every name in it, whatever it
    names, and in small letters. aliases: those after an AS."""

    first: str
    names: frozenset[str]
    aliases: frozenset[str]


def words_of(sql: str) -> Words:
    """The words of SQL. Raises QueryError for what is not a question, what reads files, and what is too long."""
    found: list[str] = []
    num_operators = num_selects = 0
    for token in _TOKENS.finditer(sql):
        num_operators += token[0].lower() in _OPERATORS
        num_selects += token[0].lower() in ("select", "join")
        if token["open"] and found and re.match(r"(?i)(read|scan)_", found[-1]):
            raise QueryError(f"{found[-1]}(...) reads another file; questions are asked of the trace's tables alone.")
        ends = sql[token.end() : token.end() + 1]
        if token[0] == "$" or (ends == "'" and (token["word"] or "").lower() in _TEXT_PREFIXES):
            raise QueryError("write text in single quotes only: 'text', and '' for a quote in it.")
        if word := token["word"] or (token["quoted"] or "")[1:-1]:
            found.append(word)
        elif not token["open"] and not token["quoted"] and token[0].startswith(("'", "--", "/*")):
            continue
    if num_operators > _MOST_OPERATORS or num_selects > _MOST_SELECTS:
        raise QueryError(
            f"the SQL has {num_operators:,} operators and {num_selects:,} SELECTs and JOINs; at most "
            f"{_MOST_OPERATORS} and {_MOST_SELECTS} are planned. Write many values as: name in ('a', 'b', ...)."
        )
    first = found[0].lower() if found else ""
    if not found:
        raise QueryError(f"there is no SQL. {SUPPORTED}")
    second = found[1].lower() if len(found) > 1 else ""
    if first in ("describe", "desc") or (first == "show" and second != "tables"):
        raise QueryError("weftrace query --schema TABLE lists the columns of a table")
    if first == "explain" and second not in ("select", "with", "from", "analyze"):
        raise QueryError(f"only a SELECT is explained. {SUPPORTED}")
    if first not in _STATEMENTS:
        near = [] if first in _WRITING else get_close_matches(first, _STATEMENTS, 1)
        hint = f" Do you mean {near[0]}?" if near else ""
        raise QueryError(f"SQL that begins with {found[0]} is not run: a trace is only read.{hint} {SUPPORTED}")
    aliases = [word for before, word in pairwise(found) if before.lower() == "as"]
    return Words(first, frozenset(found) | frozenset(map(str.lower, found)), frozenset(aliases))


def with_fractions(sql: str) -> str:
    """SQL whose numbers with a point are fractions (0.5 as 0.5e0): Polars takes them for decimals of few digits."""
    return _TOKENS.sub(lambda found: f"{found[0]}e0" if found["number"] else found[0], sql)
