"""What a rule returns: a finding before its gain is computed and its remedy looked up."""

from __future__ import annotations

from dataclasses import dataclass

from weftrace.advice.changes import Change
from weftrace.analysis.findings import Confidence, Number, Where

NOWHERE = Where()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a rule found on a device, or in a job. Times in ns, of the whole recording.

    sentence: what costs how much where, one sentence that ends with a full stop, without gain or remedy. cost_ns: what
    it costs. evidence: the numbers that decide, most important first.
    least, most: changes to replay: what the remedy does at least, by a realistic guess, and at most. One alone is both.
    Neither: `saves_ns`, what the trace itself says is saved (low, high), and `how` it is known, a clause; or no gain,
    and `not_told` says why, one clause. how: of changes, where their own words do not do. is_bound: no more than a
    bound is known, whatever `least` says.
    confidence, reason: how sure the rule is that this is the cause.
    remedy: what to do where the rule's own remedies do not fit, one sentence.
    key: findings of one rule over ranks are put together where they have the same.
    """

    sentence: str
    cost_ns: int
    evidence: tuple[Number, ...] = ()
    where: Where = NOWHERE
    least: tuple[Change, ...] = ()
    most: tuple[Change, ...] = ()
    saves_ns: tuple[int, int] | None = None
    how: str = ""
    is_bound: bool = False
    not_told: str = ""
    confidence: Confidence = "high"
    reason: str = ""
    remedy: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What a rule returns where the trace lacks what it looks at: what is missing, a clause."""

    what: str
