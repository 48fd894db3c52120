"""Which names that one run alone has are partners of names that only the other has?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weftrace.comparison.alignment.name_rules import NameRule, keys_of

_Class = tuple[str, tuple[str | None, ...], frozenset[str] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What must agree beside the name. group: class of the kernel. operators: that it is launched from, where known."""

    group: tuple[str | None, ...] = ()
    operators: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners:
    """Names of both runs that are taken for one. name: under which; rule: why."""

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    rule: str


def partners(
    before: Mapping[str, Evidence], after: Mapping[str, Evidence], rules: Sequence[NameRule]
) -> tuple[Partners, ...]:
    """Names that both have are each other's, and stay as they are. What is left is matched by one rule after the other.

    Several names with one key are summed: which of them is whose cannot be told. One with one goes by the name that the
    later run has, others by their key.
    """
    left = [dict.fromkeys(before.keys() - after.keys()), dict.fromkeys(after.keys() - before.keys())]
    if not all(left):
        return ()
    exact = before.keys() & after.keys()
    keys = {name: keys_of(name, tuple(rules)) for name in sorted(before.keys() | after.keys())}
    found: list[Partners] = []
    for at, rule in enumerate(rules):
        classes: dict[_Class, tuple[list[str], list[str]]] = {}
        for side, names in enumerate(left):
            evidence = (before, after)[side]
            for name in sorted(names):
                launched_from = evidence[name].operators if rule.asks else None
                classes.setdefault((keys[name][at], evidence[name].group, launched_from), ([], []))[side].append(name)
        for (key, group, launched_from), (ones, others) in classes.items():
            if launched_from == frozenset() or not (ones and others and _agree(before, ones, after, others)):
                continue
            if rule.counts:
                whole = [n for n in sorted(exact) if keys[n][at] == key and before[n].group == group == after[n].group]
                ones, others = sorted([*ones, *whole]), sorted([*others, *whole])
                exact = exact - set(whole)
            name = others[0] if len(ones) == len(others) == 1 else key
            found.append(Partners(name=name, before=tuple(ones), after=tuple(others), rule=rule.name))
            left[0] = {name: None for name in left[0] if name not in ones}
            left[1] = {name: None for name in left[1] if name not in others}
    return tuple(found)


def _agree(
    before: Mapping[str, Evidence], ones: Sequence[str], after: Mapping[str, Evidence], others: Sequence[str]
) -> bool:
    """Whether the operators that they are launched from do not speak against it."""
    known = [
        set().union(*(side[name].operators for name in names)) for side, names in ((before, ones), (after, others))
    ]
    return not all(known) or bool(known[0] & known[1])
