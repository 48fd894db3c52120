"""May an answer be believed? Trust is of an answer: a replay without an error is no proof of what a change would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from weftrace.advice.absent_ranks import Absent
from weftrace.notebook import InNotebook
from weftrace.plan.inference.replaying import MOST_ERROR, Replay
from weftrace.units import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust(InNotebook):
    """Whether an answer may be believed, and in which form."""

    is_trusted: Annotated[bool, Meta(description="Whether the replay it rests on is within its limits.")]
    answer: Annotated[
        Literal["exact", "interval"],
        Meta(description="interval: ranks that decide are not in the plan, so only bounds of the answer are known."),
    ]
    reasons: Annotated[
        tuple[str, ...], Meta(description="Why it is not trusted, or no more than an interval: a clause each.")
    ] = ()
    is_first: Annotated[
        bool, Meta(description="Whether the first sentence says so: absent ranks take 5 % of the span or more.")
    ] = False


def trust_of(replay: Replay, absent: Absent, merged: Sequence[str] = ()) -> Trust:
    """Of any answer that rests on this replay. merged: what speaks for several devices in one (`merged_devices`): an
    order of the events of two is none that either had."""
    reasons = [*merged, *replay.doubts]
    if len(absent.ops):
        reasons.append(
            f"{absent.who} {'is' if absent.present == 1 else 'are'} in this plan, and communication with others takes "
            f"{percent(absent.share, 0)} of the span: how much of it is waiting for them is not known"
        )
    return Trust(
        is_trusted=replay.is_trustworthy and not merged,
        answer="interval" if len(absent.ops) else "exact",
        reasons=tuple(reasons),
        is_first=absent.matters,
    )


def headline_of(sentence: str, replay: Replay, trust: Trust) -> str:
    """The answer; first that it is not to be trusted, with how far the replay is off, or that ranks are missing."""
    if not trust.is_trusted and replay.is_trustworthy:
        reason = trust.reasons[0]
        return f"{reason[0].upper()}{reason[1:]}, so the answer is not reliable. Untrusted: {sentence}"
    if not trust.is_trusted:
        by = f" by {percent(abs(replay.error))}" if abs(replay.error) > MOST_ERROR else ""
        return (
            f"The replay is off{by}, so the answer is not reliable: {'; '.join(replay.doubts)}. Untrusted: {sentence}"
        )
    if trust.is_first:
        reason = trust.reasons[-1]
        return f"{reason[0].upper()}{reason[1:]}. {sentence}"
    return sentence
