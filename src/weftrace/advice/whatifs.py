"""What if some of a measured run were changed? How long it would take, what decides then, where the answer is valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from weftrace.advice.bounds import tried
from weftrace.advice.changed_plans import Changed
from weftrace.advice.changes import Change
from weftrace.advice.critical_paths import CriticalPath, critical_path_of, path_of
from weftrace.advice.limits import limits_of
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.replaying import Replay
from weftrace.plan.inference.values import Inferred
from weftrace.units import duration, percent, signed


class Spans:
    """The spans of a plan before and after a change: both replays keep the same things, so these two are compared."""

    __slots__ = ()
    replay: Replay
    after_ns: int
    low_ns: int
    high_ns: int

    @property
    def is_interval(self) -> bool:
        """Whether only bounds of the span are known."""
        return self.low_ns < self.high_ns

    @property
    def replayed_ns(self) -> Annotated[int, Meta(ge=0, description="Of the plan as inferred.")]:
        """Of the plan as inferred."""
        return self.replay.replayed_ns

    @property
    def saved_ns(
        self,
    ) -> Annotated[int, Meta(description="replayed_ns - after_ns; below 0 where the change makes it longer.")]:
        """replayed_ns - after_ns; negative where the change makes it longer."""
        return self.replayed_ns - self.after_ns

    @property
    def change(self) -> Annotated[float, Meta(description="after_ns / replayed_ns - 1.")]:
        """after_ns over replayed_ns, less 1."""
        return self.after_ns / self.replayed_ns - 1 if self.replayed_ns else 0.0

    @property
    def is_within_error(self) -> Annotated[bool, Meta(description="Whether the replay is off by more than is saved.")]:
        """Whether the replay is off by more than the change does."""
        return abs(self.replayed_ns - self.replay.span_ns) > abs(self.saved_ns)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WhatIf(Spans, InNotebook):
    """A change tried on the plan of a measured run. Times in ns, from the first start on a device to the last end.

    replay: how far the plan as inferred is from the measurement. after_ns: span of the changed plan, in which
    communication with absent ranks changes by the longest transfer that it can hold, and no more. low_ns, high_ns:
    between which the span lies whatever absent ranks do (`weftrace.advice.bounds`); both after_ns where none is absent.
    before, after: what decides each. limits: why the answer may not be valid, sentences; only those that apply. notes:
    what the change did.
    """

    changes: tuple[Change, ...]
    replay: Replay
    after_ns: int
    low_ns: int
    high_ns: int
    before: CriticalPath
    after: CriticalPath
    plan: Changed
    limits: tuple[str, ...]

    @property
    def span_ns(self) -> int:
        """Measured."""
        return self.replay.span_ns

    @property
    def error(self) -> float:
        """Of the replay: replayed over measured, less 1."""
        return self.replay.error

    @property
    def bottleneck(self) -> str:
        """The largest class on the path after the change; "nothing" where no time is left."""
        return str(self.after.by_class.item(0, "name")) if self.after.span_ns else "nothing"

    @property
    def notes(self) -> tuple[str, ...]:
        """What the changes did."""
        return self.plan.notes

    @property
    def sentence(self) -> str:
        """The answer, with the replay's error."""
        return sentence_of(self)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "what if", self.sentence
        yield from (("limit", limit) for limit in self.limits)


def what_if(inferred: Inferred, changes: Iterable[Change]) -> WhatIf:
    """Try changes, one after the other, on the plan of a measured run.

    Raises `AdviceError` where there is no change, one selects nothing, or the same is asked for twice.
    """
    listed = tuple(changes)
    if not listed:
        raise AdviceError("no change to try: communication=0.5, for example, makes communication twice as fast.")
    found = tried(inferred, listed)
    plan = found.plan
    before, after = critical_path_of(inferred), path_of(found.times, plan.measured, plan.edges)
    return WhatIf(
        changes=listed,
        replay=inferred.replay,
        after_ns=after.span_ns,
        low_ns=found.low_ns,
        high_ns=found.high_ns,
        before=before,
        after=after,
        plan=plan,
        limits=limits_of(inferred, listed, before, after),
    )


def sentence_of(answer: WhatIf) -> str:
    """What was changed, the replayed span before and after, what decides then, and how far the replay is off."""
    what = ", ".join(map(str, answer.changes))
    if answer.is_interval:
        return f"{what}: {interval_words(answer)}, as the ranks that are not here decide."
    how = (
        f"{duration(answer.after_ns, 4)} instead of {duration(answer.replayed_ns, 4)}, both replayed "
        f"({signed(answer.change)}); {answer.bottleneck} decides {percent(_share(answer), 0)} then"
    )
    off = f"The replay is {signed(answer.error)} off the measured {duration(answer.span_ns, 4)}"
    small = ": the change is smaller than the replay is off." if answer.is_within_error else "."
    return f"{what}: {how}. {off}{small}"


def interval_words(answer: Spans) -> str:
    """Between which spans the changed plan's lies, and which changes these are."""
    low, high = (signed(each / max(1, answer.replayed_ns) - 1) for each in (answer.low_ns, answer.high_ns))
    ends = f"between {duration(answer.low_ns, 4)} and {duration(answer.high_ns, 4)}"
    return f"{ends} instead of {duration(answer.replayed_ns, 4)}, replayed ({low} to {high})"


def _share(answer: WhatIf) -> float:
    return float(answer.after.by_class.item(0, "share")) if answer.after.span_ns else 0.0
