"""The sentences of advice that no single rule writes."""

from __future__ import annotations

from collections.abc import Sequence

from weftrace.analysis.findings import Finding, saves


def headline_of(findings: Sequence[Finding]) -> str:
    """The largest loss and what its remedy saves; or that nothing here is worth a change."""
    worth = [each for each in findings if each.kind == "finding" and each.worth != "not worth it"]
    losses = [each for each in worth if not each.is_guess]
    doubts = [each for each in findings if each.kind == "remark" and each.rule in ("unrecorded-work", "ranks-missing")]
    doubt = f" {doubts[0].sentence}" if doubts else ""
    if not losses:
        return f"Nothing that the rules look for is {'surely ' if worth else ''}worth a change here.{doubt}"
    first = losses[0]
    return f"{first.sentence} {saves(first)}{doubt}"
