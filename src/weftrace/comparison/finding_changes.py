"""Which findings of advice did a change remove, which are new, and which cost more or less?

Rules tell what costs more than their thresholds, so a finding that is gone may still cost less than that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from weftrace.analysis.findings import AdviceReport, Finding, Gain
from weftrace.comparison.gates import IsNoise
from weftrace.units import duration, percent

_LEAST_OF_STEP, _LEAST_OF_COST = 0.005, 0.1


class FindingChange(TypedDict):
    """A rule of advice that found something in one run alone, or what costs another time in both."""

    rule: Annotated[str, Meta(description="Its id, as in weftrace.advice/1.")]
    title: str
    kind: Literal["new", "gone", "changed"]
    before_ns: Annotated[
        int, Meta(ge=0, description="What its findings cost of a step; of the recording if it has no steps.")
    ]
    after_ns: Annotated[int, Meta(ge=0)]
    change_ns: int
    before_gain: Annotated[Gain | None, Meta(description="What the remedy of the largest saves; null: unknown.")]
    after_gain: Gain | None
    is_noise: IsNoise
    sentence: str


def finding_changes(
    before: AdviceReport | None, after: AdviceReport | None, noise_ns: float | None
) -> list[FindingChange] | None:
    """The largest change first; None where nothing was looked for in one of the runs, or one alone tells of steps.

    Left out are rules that could not look in the other run, remarks, and changes of less than 0.5 % of the step or 10 %
    of the cost. noise_ns: by how much steps of one run differ; None where that is not known.
    """
    if before is None or after is None or bool(before.num_steps) != bool(after.num_steps):
        return None
    each = "of a step" if before.num_steps else "in all"
    least_ns = _LEAST_OF_STEP * max(before.step_ns, after.step_ns)
    blind = {rule.rule for side in (before, after) for rule in side.not_found if not rule.looked}
    rules = dict.fromkeys(one.rule for side in (before, after) for one in side.losses)
    sides = [(_of_rule(before, rule), _of_rule(after, rule)) for rule in rules if rule not in blind]
    changes = [_change(*pair, each, noise_ns) for pair in sides]
    seen = [
        one
        for one in changes
        if abs(one["change_ns"]) > max(least_ns, _LEAST_OF_COST * max(one["before_ns"], one["after_ns"]))
    ]
    return sorted(seen, key=lambda one: -abs(one["change_ns"]))


def _of_rule(advice: AdviceReport, rule: str) -> list[Finding]:
    """What the rule found, the most costly first."""
    return sorted((one for one in advice.losses if one.rule == rule), key=lambda one: -one.cost_ns)


def _change(before: Sequence[Finding], after: Sequence[Finding], each: str, noise_ns: float | None) -> FindingChange:
    one, other = (sum(finding.cost_ns for finding in side) for side in (before, after))
    kind: Literal["new", "gone", "changed"] = "changed" if before and after else "new" if after else "gone"
    first = (before or after)[0]
    is_noise = None if noise_ns is None else abs(other - one) <= noise_ns
    sentences = [*_sentences(kind, (before, after), (one, other), each), *["Within the noise."] * bool(is_noise)]
    return {
        "rule": first.rule,
        "title": first.title,
        "kind": kind,
        "before_ns": one,
        "after_ns": other,
        "change_ns": other - one,
        "before_gain": before[0].gain if before else None,
        "after_gain": after[0].gain if after else None,
        "is_noise": is_noise,
        "sentence": " ".join(sentences),
    }


def _sentences(
    kind: str, sides: tuple[Sequence[Finding], Sequence[Finding]], costs: tuple[int, int], each: str
) -> Iterator[str]:
    title = (sides[0] or sides[1])[0].title
    if kind == "new":
        yield f"New: {title}, {duration(costs[1])} {each}."
        yield sides[1][0].sentence
    elif kind == "gone":
        gain = sides[0][0].gain
        told = f"; the remedy was to save {gain.words}" if gain is not None and len(sides[0]) == 1 else ""
        yield f"Gone: {title}, {duration(costs[0])} {each} before{told}."
    else:
        share = percent(abs(costs[1] / costs[0] - 1), 0) if costs[0] else ""
        word = "More" if costs[1] > costs[0] else "Less"
        yield f"{word}: {title}, {duration(costs[0])} → {duration(costs[1])} {each}{f' ({share})' if share else ''}."
