"""Which known activity is each host range part of? Rules are data: activities.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from weftrace.analysis.intervals import Array
from weftrace.errors import RulesError
from weftrace.facts.tables import read_tables

_FILE = Path(__file__).with_name("activities.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """A rule. cause: what time in it is charged to. names: matches whole names. within, needs, skips: see
    activities.toml."""

    cause: str
    names: re.Pattern[str]
    within: re.Pattern[str] | None = None
    needs: re.Pattern[str] | None = None
    skips: re.Pattern[str] | None = None


@lru_cache(1)
def activities() -> tuple[Activity, ...]:
    """The rules, in order: the first that matches wins."""
    tables = read_tables(_FILE, "activity", what="rules of activities", error=RulesError)
    return tuple(_activity(table) for table in tables)


def _activity(table: dict[str, object]) -> Activity:
    names, within, needs, skips = (table.get(key) for key in ("names", "within", "needs", "skips"))
    assert isinstance(names, list) and table.get("source"), table
    return Activity(
        cause=str(table["cause"]),
        names=_compiled("|".join(f"(?:{name})" for name in names)),
        within=_compiled(str(within)) if within else None,
        needs=_compiled(str(needs)) if needs else None,
        skips=_compiled(str(skips)) if skips else None,
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(f"(?:{pattern})\\Z", re.IGNORECASE | re.DOTALL)


def activity_of_names(names: list[str]) -> Array:
    """The rule that each name matches, as its place in `activities()`; their number where none does."""
    rules = activities()
    found = np.full(len(names), len(rules), np.int64)
    for at, name in enumerate(name.replace("\\", "/") for name in names):
        found[at] = next((k for k, rule in enumerate(rules) if not rule.within and rule.names.match(name)), len(rules))
    return found


def leading_stretches(names: list[str], starts: Array, ends: Array) -> list[tuple[int, int, int]]:
    """Stretches that rules with `within` name, as (rule, start, end), absolute ns.

    names, starts, ends: of the annotations and operators of one thread, in order of start, the outer ones first.
    """
    found = []
    for number, rule in enumerate(activities()):
        if rule.within is None or rule.needs is None:
            continue
        matches = {name: bool(rule.within.match(name)) for name in set(names)}
        for at in (k for k, name in enumerate(names) if matches[name]):
            reach, begin, until, has_needed = int(ends[at]), int(starts[at]), int(starts[at]), False
            inner = at + 1
            while inner < len(names) and starts[inner] < reach:
                if starts[inner] >= until:  # directly in it
                    if rule.names.match(names[inner]):
                        has_needed = has_needed or bool(rule.needs.match(names[inner]))
                    elif not has_needed and rule.skips and rule.skips.match(names[inner]):
                        begin = int(ends[inner])
                    else:
                        until = max(until, int(starts[inner])) if has_needed else until
                        break
                    until = int(ends[inner])
                inner += 1
            if has_needed:
                found.append((number, begin, min(until, reach)))
    return found
