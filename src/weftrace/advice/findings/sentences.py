"""The sentences of advice that no single rule writes."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.advice.findings.values import Finding, Gain
from weftrace.units import percent


def headline_of(findings: Sequence[Finding], together: Gain | None) -> str:
    """The largest loss and what its remedy saves; or that nothing here is worth a change."""
    losses = [each for each in findings if each.kind == "finding" and each.worth != "not worth it"]
    doubts = [each for each in findings if each.kind == "remark" and each.rule in ("unrecorded-work", "ranks-missing")]
    doubt = f" {doubts[0].sentence}" if doubts else ""
    if not losses:
        return f"Nothing that the rules look for is worth a change here.{doubt}"
    first = losses[0]
    return f"{first.sentence} {saves(first)}{doubt}"


def saves(finding: Finding) -> str:
    """What the remedy saves, a sentence."""
    gain = finding.gain
    if gain is None:
        return f"What a remedy saves is not told: {finding.not_told}."
    if finding.worth == "not worth it":
        return f"It is not worth a change: it saves {gain.words} of a step."
    return f"The remedy saves {gain.words} of a step."


def together_words(gain: Gain, num: int) -> str:
    """ "all five: −31 %"."""
    low, high = percent(max(gain.low_share, 0)), percent(max(gain.high_share, 0))
    share = f"−{high}" if low == high else f"−{low} to −{high}"
    return f"all {num}: {share}"
