"""Why the device waited, in a sentence: the largest causes of idle time, by name, from the one account of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from weftrace.analysis.data_quality import MUCH_UNRECORDED
from weftrace.analysis.waiting.cause_words import LAUNCH_BOUND, WORDS
from weftrace.analysis.waiting.idle_pieces import BETWEEN_NS
from weftrace.analysis.waiting.naming import COMPILED
from weftrace.report.document_types import RankDocument
from weftrace.units import duration, listed, percent

_ALSO = 0.15  # of idle time: a further cause that is named
_MOST_CLAUSES = 3
_MOST_OF_RANKS = 0.5  # of a cause: a rank that has more of it is named
_FEW = 12
_MOST_LETTERS = 100  # of a name
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_FRAME = re.compile(r"^(?P<file>.*)\(\d+\): (?P<function>.*)$")


def unrecorded_share(ranks: Sequence[RankDocument]) -> float:
    """Part of the idle time of ranks in which work ran that their files lack."""
    idle = sum(rank["idle_ns"] for rank in ranks)
    return sum(_account(rank)["unrecorded_ns"] for rank in ranks) / idle if idle else 0.0


def leads_with_unrecorded(ranks: Sequence[RankDocument]) -> bool:
    """Whether so much of the idle time is unrecorded that none of it may be told as a fact."""
    return unrecorded_share(ranks) > MUCH_UNRECORDED


def idle_sentence(ranks: Sequence[RankDocument]) -> str:
    """The whole sentence of ranks, whose idle time is their largest loss; without its full stop."""
    span, idle = sum(rank["span_ns"] for rank in ranks), sum(rank["idle_ns"] for rank in ranks)
    rows = causes_of(ranks)
    if leads_with_unrecorded(ranks):
        return _of_unrecorded(rows, idle)
    named = [row for at, row in enumerate(rows) if at == 0 or row["ns"] >= _ALSO * idle][:_MOST_CLAUSES]
    clauses = [_clause(row, len(ranks), is_first=at == 0) for at, row in enumerate(named)]
    return f"The device waited {duration(idle)} of {duration(span)} ({percent(idle / span)}): {listed(clauses)}"


def host_sentence(ranks: Sequence[RankDocument]) -> str:
    """Of ranks without device work: what the host did in most of the time without operators, and in which rank; empty
    where nothing tells."""
    found = [(rows[0], rank) for rank in ranks if (rows := causes_of([rank]))]
    if not found:
        return ""
    row, rank = max(found, key=lambda pair: pair[0]["ns"])
    if not row["name"]:
        return ""
    place = f"In rank {rank['rank']}, " if len(ranks) > 1 and rank["rank"] is not None else "Of this, "
    return f" {place}{_clause(row, 1, is_first=True).replace(' for ', ' went to ', 1)}."


def recording_note(ranks: Sequence[RankDocument]) -> str:
    """What recording itself adds, where many small launches are the cause and stacks were recorded; else nothing."""
    rows = causes_of(ranks)
    if not rows or rows[0]["cause"] not in LAUNCH_BOUND or not any(_account(rank)["with_stacks"] for rank in ranks):
        return ""
    if rows[0]["main_ns"] >= BETWEEN_NS:  # a call or a function of its own, and no small operators
        return ""
    return " Recording stacks made small operators 2.4 to 3 times slower."


def causes_of(ranks: Sequence[RankDocument]) -> list[dict[str, Any]]:
    """Causes over ranks, the largest first: a row of `IdleCauseRow` each, with the names of the rank that has most."""
    rows: dict[str, dict[str, Any]] = {}
    largest: dict[str, int] = {}
    for rank in ranks:
        for row in _account(rank)["causes"]:
            kept = rows.setdefault(row["cause"], {**row, "ns": 0, "num_main": 0})
            if row["ns"] > largest.get(row["cause"], -1):
                largest[row["cause"]] = row["ns"]
                kept |= {key: value for key, value in row.items() if key not in ("ns", "num_main")}
                kept |= {"largest_ns": row["ns"], "rank": rank["rank"]}
            kept["ns"] += row["ns"]
            kept["num_main"] += row["num_main"]
    accounts = [_account(rank) for rank in ranks]
    every = [row for account in accounts for row in account["causes"]]
    for row in rows.values():
        same = [other for other in every if other["cause"] == row["cause"]]
        for name in ("name", "child"):  # what the largest is called by, in all ranks where it is called so
            row[f"{name}_ns"] = sum(other[f"{name}_ns"] for other in same if other[name] == row[name])
        row["operators"] = [pair for account in accounts for pair in account["operators"]]
        row["with_stacks"] = any(account["with_stacks"] for account in accounts)
        row["unread"] = any(rank["quality"]["skipped"].get("python_function") for rank in ranks)
    return sorted(rows.values(), key=lambda row: -row["ns"])


def _clause(row: dict[str, Any], num_ranks: int, *, is_first: bool) -> str:
    details = [_detail(row), _how_often(row, num_ranks)] if is_first else [_how_often(row, num_ranks)]
    said = ", ".join(filter(None, details))
    return f"{duration(row['ns'])} for {_what(row)}{_in_rank(row, num_ranks)}" + (f" ({said})" if said else "")


def _in_rank(row: dict[str, Any], num_ranks: int) -> str:
    """The one of several ranks that has most of a cause, and one and a half times an even share or more."""
    share = row["largest_ns"] / row["ns"] if row["ns"] else 0
    stands_out = num_ranks > 1 and row["rank"] is not None and share > max(_MOST_OF_RANKS, 1.5 / num_ranks)
    return f", {'all' if share > 0.995 else 'most'} of it in rank {row['rank']}" if stands_out else ""


def _what(row: dict[str, Any]) -> str:
    cause, name = row["cause"], row["name"]
    if cause == "first_use":
        place = f" in {plain_name(row['within'])}" if row["within"] else ""
        if row["num_gaps"] > 1:
            return f"{row['num_gaps']:,} launch calls that blocked, each the first of its kernel, which loads its code"
        return (
            f"one launch call that blocked: {name or 'a launch'}{place}, the first of its kernel, which loads its code"
        )
    if cause == "backward_thread":
        return f"a launching thread that recorded nothing while {plain_name(name)} was open" if name else WORDS[cause]
    if cause == "annotation":
        return f"host code in {plain_name(name)}" if name else WORDS[cause]
    if cause == "python" and not row["with_stacks"]:
        return "host code between operators"
    if cause == "operators" and row["operators"] and row["operators"][0][0].startswith(COMPILED):
        return "compiled code, which launches one kernel after another"
    return WORDS[cause]


def _detail(row: dict[str, Any]) -> str:
    """The name that holds most of a cause, with its time, and the largest in it."""
    if row["cause"] in ("annotation", "nothing_recorded"):
        return _what_tells_more(row)
    if row["cause"] in ("first_use", "backward_thread"):
        return ""
    if row["cause"] == "operators" and row["operators"]:
        return listed([f"{duration(ns)} in {plain_name(name)}" for name, ns in row["operators"][:2]])
    return ", ".join(filter(None, [_named(row), _what_tells_more(row) if row["cause"] == "python" else ""]))


def _what_tells_more(row: dict[str, Any]) -> str:
    """What to read or to record, where the file does not say what the host did."""
    if row["unread"]:
        return "--by module reads its Python frames, which show more"
    return "" if row["with_stacks"] else "record with_stack=True to see what it did"


def _named(row: dict[str, Any]) -> str:
    """The name of a cause with its time; nothing where it has none, or where the cause is called by it."""
    name, ns = (row["name"], row["name_ns"]) if row["name"] else (row["child"], row["child_ns"])
    if not name or "(DataLoader)" in name:
        return ""
    share = "all" if ns >= 0.995 * row["ns"] else duration(ns)
    inside = f" in {plain_name(row['within'])}" if row["within"] and row["cause"].startswith("blocking") else ""
    child = ""
    if row["name"] and row["child"] and row["child_ns"] >= 0.25 * row["ns"]:
        child = f", {duration(row['child_ns'])} in {plain_name(row['child'])}"
    return f"{share} of it in {plain_name(name, with_file=True)}{inside}{child}"


def _how_often(row: dict[str, Any], num_ranks: int) -> str:
    """One gap, a few, or every step."""
    if row["cause"] in ("first_use", "operators"):
        return ""
    if row["num_main"] == 1:
        return "one gap"
    if row["num_main"] <= _FEW:
        return f"{_NUMBERS[row['num_main']]} gaps of {duration(row['main_ns'])}"
    if row["num_steps"] > 1 and num_ranks == 1:
        return f"{duration(row['ns'] / row['num_steps'])} in each of {row['num_steps']} steps"
    return ""


def _of_unrecorded(rows: list[dict[str, Any]], idle: int) -> str:
    lost = {row["cause"]: row for row in rows if row["cause"] in ("unrecorded", "file_cut")}
    total = sum(row["ns"] for row in lost.values())
    amount = f"{percent(total / idle)} of the apparent idle time ({duration(total)} of {duration(idle)}) is unrecorded"
    if "file_cut" in lost and lost["file_cut"]["ns"] > total / 2:
        why = "there are gaps as long as whole iterations, which were probably cut from the file"
    else:
        why = "work was queued and nothing ran, so events are missing (sampled, or not recorded in graphs)"
    return f"{amount}: {why}. The real idle time is unknown"


def _account(rank: RankDocument) -> dict[str, Any]:
    return rank["idle_account"]


def plain_name(name: str, *, with_file: bool = False) -> str:
    """As a person would say it: a function without its line, an operator without its namespace."""
    name = "".join(letter if letter.isprintable() else " " for letter in name)
    if found := _FRAME.match(name):
        function = _cut(found["function"])
        return f"{function} of {_short(found['file'])}" if with_file else function
    return _cut(name.removeprefix("aten::").removeprefix("nn.Module: ").removeprefix("torch::autograd::"))


def _short(file: str) -> str:
    return _cut("/".join(re.split(r"[/\\]", file)[-3:]))


def _cut(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else name[:_MOST_LETTERS] + "…"
