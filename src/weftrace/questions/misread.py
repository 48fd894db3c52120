"""SQL that cannot be run, told to a person: what is not there and what is nearest, or where the text goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from weftrace.errors import QueryError
from weftrace.questions.columns import TABLES, table_named, tables_with
from weftrace.questions.sql_words import SUPPORTED, Words

#: Functions worth naming where one is not known.
FUNCTIONS = (
    "count", "sum", "avg", "min", "max", "median", "quantile_cont", "quantile_disc", "stddev", "variance", "first",
    "last", "string_agg", "array_agg", "corr", "abs", "ceil", "floor", "round", "sqrt", "ln", "log10", "exp", "pow",
    "greatest", "least", "coalesce", "nullif", "if", "concat", "upper", "lower", "length", "substr", "left", "right",
    "replace", "starts_with", "ends_with", "regexp_like", "strpos", "row_number", "rank", "dense_rank", "lag", "lead",
    "first_value", "last_value", "ntile",
)  # fmt: skip
_OTHERWISE = {
    **dict.fromkeys(("percentile_cont", "percentile", "quantile", "approx_quantile"), "quantile_cont(x, 0.5)"),
    **dict.fromkeys(("arg_max", "max_by"), "row_number() over (partition by ... order by ... desc)"),
    "any_value": "first(x)", "mean": "avg(x)", "group_concat": "string_agg(x, ', ')", "ifnull": "coalesce(x, 0)",
    "contains": "x like '%text%'",
}  # fmt: skip


def explained(error: BaseException, sql: str, words: Words) -> QueryError:
    """What Polars says of SQL, in words of the tables."""
    summary = str(error)
    first = (summary.splitlines() or [type(error).__name__])[0]
    if (found := re.search(r"unable to find column \"(.*?)\"; valid columns: \[(.*)\]", first)) and (
        found[1] in _known(words) - words.aliases
    ):
        return QueryError(_not_passed_on(found[1], found[2].replace('"', ""), words))
    for pattern, tell in _TOLD:
        if found := re.search(pattern, first):
            return QueryError(tell(found[1], sql, words))
    if found := re.search(r"sql parser error: (.*?)(?: at Line: (\d+), Column: (\d+))?$", first):
        return QueryError(_misspelt(found[1], sql, int(found[2] or 0), int(found[3] or 0)))
    plain = first.split(": ")[0] if "Ident {" in first else first  # the parser's own values tell a person nothing
    return QueryError(f"the SQL cannot be run: {plain[:300]}")


def _no_table(name: str, sql: str, words: Words) -> str:
    try:
        table_named(name)
    except QueryError as error:
        return str(error)
    return f"table {name} cannot be used so."


def _known(words: Words) -> set[str]:
    """Columns of the tables that SQL names."""
    return {column for word in words.names & TABLES.keys() for column in TABLES[word].schema}


def _not_passed_on(name: str, there: str, words: Words) -> str:
    has = ", ".join(table for table in tables_with(name) if table in words.names)
    return f"column {name} of {has} is not there where it is used: an inner SELECT leaves it out. There are: {there}."


def _no_column(name: str, sql: str, words: Words) -> str:
    used = [TABLES[word] for word in TABLES if word in words.names]
    known = dict.fromkeys(column for table in used for column in table.schema)
    parts = [f"there is no column {name}."]
    if name in words.aliases:
        parts.append(f"{name} is a name that SELECT gives, which WHERE does not know yet: repeat what it stands for.")
    elif elsewhere := [table for table in tables_with(name) if table not in words.names]:
        parts.append(f"Tables with such a column: {', '.join(elsewhere)}.")
    else:
        parts[0] += _nearest(name, known)
    parts += [f"Columns of {table.name}: {', '.join(table.schema)}." for table in used]
    return " ".join(parts)


def _no_function(name: str, sql: str, words: Words) -> str:
    if name.lower() in _OTHERWISE:
        return f"there is no function {name}; write {_OTHERWISE[name.lower()]}."
    return (
        f"there is no function {name}.{_nearest(name, FUNCTIONS)} Among those that there are: {', '.join(FUNCTIONS)}."
    )


def _one_alone(name: str, sql: str, words: Words) -> str:
    return "one question at a time: keep only one of the statements."


def _many_values(number: str, sql: str, words: Words) -> str:
    return f"a SELECT that stands for a value gives {number} rows: let it give one, with max(...) say, or limit 1."


def _same_name(name: str, sql: str, words: Words) -> str:
    return f"two columns would be called {name}: give one another name with AS."


def _no_statement(name: str, sql: str, words: Words) -> str:
    return f"such a statement is not run: a trace is only read. {SUPPORTED}"


def _nearest(name: str, known: Iterable[str]) -> str:
    lower = {each.lower(): each for each in known}
    near = (
        get_close_matches(name.lower(), lower, 1, 0.6)
        or [each for each in lower if len(name) > 2 and name.lower() in each][:1]
    )
    return f" Do you mean {lower[near[0]]}?" if near else ""


def _misspelt(what: str, sql: str, line: int, column: int) -> str:
    """What the parser says, and the line with a mark below the place; without a place, at its end."""
    lines = sql.rstrip().splitlines() or [""]
    line, column = (line, column) if 0 < line <= len(lines) else (len(lines), len(lines[-1]) + 1)
    text = lines[line - 1]
    from_, width = max(0, column - 50), 70
    shown = ("…" if from_ else "") + text[from_ : from_ + width] + ("…" if len(text) > from_ + width else "")
    mark = " " * (column - 1 - from_ + bool(from_)) + "^"
    said = what.replace("found: EOF", "found: the end of the text")
    return f"the SQL is not understood in line {line}: {said[:1].lower()}{said[1:200]}\n  {shown}\n  {mark}"


_TOLD = (
    (r"relation '(.*?)' was not found", _no_table),
    (r"no table or struct column named '(.*?)' found", _no_table),
    (r"unable to find column \"(.*?)\"", _no_column),
    (r"no column named '(.*?)' found", _no_column),
    (r"unsupported function '(.*?)'", _no_function),
    (r"(one \(and only one\)) statement", _one_alone),
    (r"aggregation 'item' expected no or a single value, got (\d+) values", _many_values),
    (r"duplicate output name '(.*?)'", _same_name),
    (r"the name '(.*?)' passed to .* is duplicate", _same_name),
    (r"(statement type is not supported|operation is currently unsupported)", _no_statement),
)
