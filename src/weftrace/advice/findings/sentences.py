"""The sentences of advice that no single rule writes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from weftrace.advice.changes import (
    Change,
    FreeStreams,
    NoBarrierWait,
    NoBlocking,
    NoHostGaps,
    PerfectOverlap,
    Remove,
    Scale,
)
from weftrace.analysis.findings import Finding
from weftrace.units import percent

#: Letters of a headline: two lines of 100.
_MOST_OF_HEADLINE = 200
_MOST_OF_NAME = 44
_NAMES = frozenset({"Python", "Triton", "Inductor", "Dynamo"})
_PLAIN: dict[type, str] = {
    NoHostGaps: "no gaps of the host",
    NoBarrierWait: "no waits for other ranks at barriers",
    PerfectOverlap: "no waits between communication and computation",
    FreeStreams: "streams that do not wait for each other",
}
_KINDS = {"host": "the host", "launch": "launches", "communication.data": "transfers", "communication": "communication"}


def headline_of(findings: Sequence[Finding], *, has_device_work: bool = True) -> str:
    """The largest loss, what its remedy saves, and what casts doubt on it, as far as two lines hold them; or that
    nothing here is worth a change."""
    worth = [each for each in findings if each.kind == "finding" and each.worth != "not worth it"]
    losses = [each for each in worth if not each.is_guess]
    if not worth and not has_device_work:
        return "No work of a device is recorded: most rules have nothing to look at."
    surely = "surely " if worth else ""
    headline = losses[0].sentence if losses else f"Nothing that the rules look for is {surely}worth a change here."
    doubts = [each for each in findings if each.kind == "remark" and each.rule in ("unrecorded-work", "ranks-missing")]
    parts = [each.sentence.partition(":")[0].rstrip(".") + "." for each in doubts[:1]]
    if losses and losses[0].gain is not None:
        parts.insert(0, f"The remedy saves {losses[0].gain.words}.")
    for part in parts:
        if len(headline) + 1 + len(part) <= _MOST_OF_HEADLINE:
            headline = f"{headline} {part}"
    return headline


def inside_sentence(sentence: str) -> str:
    """A sentence to follow other words: its first word in lower case, unless it is a name."""
    first = sentence.split(maxsplit=1)[0].rstrip(",:").removesuffix("'s")
    if first in _NAMES or not (first[1:].isalpha() and first[1:].islower()):
        return sentence
    return sentence[0].lower() + sentence[1:]


def change_words(changes: Sequence[Change]) -> str:
    """What is changed in a replay, for a person: "half the time of the host and launches"."""
    words: dict[str, list[str]] = {}
    for change in changes:
        if isinstance(change, Scale):
            words.setdefault(_share_words(change.factor), []).append(_selected(change.selector))
        else:
            words.setdefault(_words(change), [])
    return ", ".join(
        f"{said} of {' and '.join(dict.fromkeys(names))}" if names else said for said, names in words.items()
    )


def _words(change: Change) -> str:
    if isinstance(change, NoBlocking):
        return f"no waits of the host in {_names_in(change.pattern)}"
    if isinstance(change, Remove):
        return f"without {_selected(change.selector)}"
    return _PLAIN.get(type(change)) or re.sub(r"( on|,) (rank|device) \d+", "", str(change))


def _share_words(factor: float) -> str:
    return {0: "no time", 0.5: "half the time"}.get(factor) or f"{percent(factor, 0)} of the time"


def _selected(selector: str) -> str:
    kind, colon, pattern = selector.partition(":")
    if not colon or not pattern:
        return _KINDS.get(selector, selector)
    return f"rank {pattern}" if kind == "rank" else _names_in(pattern)


def _names_in(pattern: str) -> str:
    """The names that a regular expression of alternatives finds, the first two of many."""
    inner = pattern.removeprefix("^").removesuffix("$")
    inner = inner[1:-1] if inner.startswith("(") and inner.endswith(")") else inner
    names = [re.sub(r"\\(.)", r"\1", each) for each in re.split(r"(?<!\\)\|", inner)]
    rest = [f"{len(names) - 2} more"] * (len(names) > 2)
    return " and ".join([*(_short(each.rsplit("/", 1)[-1]) for each in names[:2]), *rest])


def _short(name: str) -> str:
    half = _MOST_OF_NAME // 2
    return name if len(name) <= _MOST_OF_NAME else f"{name[:half]}…{name[1 - half :]}"
