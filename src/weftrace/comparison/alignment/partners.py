"""Which names that one run alone has are partners of names that only the other has?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    left = (sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys()))
    if not any(left):
        return ()
    keys = {name: keys_of(name, tuple(rules)) for name in (*left[0], *left[1])}
    exact = {name for name in before.keys() & after.keys() if before[name].group == after[name].group}
    found: list[Partners] = []
    for at, rule in enumerate(rules):
        classes: dict[_Class, tuple[list[str], list[str]]] = {}
        for side, evidence in enumerate((before, after)):
            for name in left[side]:
                own = evidence[name]
                launched_from = own.operators if rule.asks else None
                classes.setdefault((keys[name][at], own.group, launched_from), ([], []))[side].append(name)
        whole = _by_key(exact, before, rules[: at + 1]) if rule.counts else {}
        for (key, group, launched_from), (ones, others) in classes.items():
            counted = whole.get((key, group), [])
            if launched_from == frozenset() or not _agree(before, ones, after, others):
                continue
            if not (ones and others) and not (rule.alone and counted):
                continue
            name = others[0] if len(ones) == len(others) == 1 and not counted else key
            found.append(
                Partners(
                    name=name,
                    before=tuple(sorted(ones + counted)),
                    after=tuple(sorted(others + counted)),
                    rule=rule.name,
                )
            )
        done = {name for each in found for name in (*each.before, *each.after)}
        exact -= done
        left = ([name for name in left[0] if name not in done], [name for name in left[1] if name not in done])
    return tuple(found)


def _by_key(
    names: Iterable[str], evidence: Mapping[str, Evidence], rules: Sequence[NameRule]
) -> dict[tuple[str, tuple[str | None, ...]], list[str]]:
    """Names by the key of the last rule and by what they are."""
    found: dict[tuple[str, tuple[str | None, ...]], list[str]] = {}
    for name in names:
        found.setdefault((keys_of(name, tuple(rules))[-1], evidence[name].group), []).append(name)
    return found


def _agree(
    before: Mapping[str, Evidence], ones: Sequence[str], after: Mapping[str, Evidence], others: Sequence[str]
) -> bool:
    """Whether the operators that they are launched from do not speak against it."""
    known = [
        set().union(*(side[name].operators for name in names)) for side, names in ((before, ones), (after, others))
    ]
    return not all(known) or bool(known[0] & known[1])
