"""What if some of a measured run were changed? How long it would take, what decides then, where the answer is valid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from weftrace.advice.changes import Change, Changed, changed
from weftrace.advice.critical_paths import CriticalPath, critical_path_of, path_of
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook
from weftrace.plan.inference.replaying import Replay
from weftrace.plan.inference.values import Inferred
from weftrace.plan.times import timetable
from weftrace.units import duration, percent


@dataclass(frozen=True, kw_only=True, eq=False)
class WhatIf(InNotebook):
    """A change tried on the plan of a measured run. Times in ns, from the first start on a device to the last end.

    span_ns: measured. replayed_ns: of the plan as inferred; after_ns: of the changed plan; both replays keep the same
    things, so compare these two. replay: how far the first is from the measurement. before, after: what decides each.
    limits: why the answer may not be valid, sentences; only those that apply. notes: what the change did.
    """

    changes: tuple[Change, ...]
    replay: Replay
    after_ns: int
    before: CriticalPath
    after: CriticalPath
    plan: Changed
    limits: tuple[str, ...]

    @property
    def span_ns(self) -> int:
        """Measured."""
        return self.replay.span_ns

    @property
    def replayed_ns(self) -> int:
        """Of the plan as inferred."""
        return self.replay.replayed_ns

    @property
    def saved_ns(self) -> int:
        """replayed_ns - after_ns; negative where the change makes it longer."""
        return self.replayed_ns - self.after_ns

    @property
    def change(self) -> float:
        """after_ns over replayed_ns, less 1."""
        return self.after_ns / self.replayed_ns - 1 if self.replayed_ns else 0.0

    @property
    def error(self) -> float:
        """Of the replay: replayed over measured, less 1."""
        return self.replay.error

    @property
    def is_within_error(self) -> bool:
        """Whether the replay is off by more than the change does."""
        return abs(self.replayed_ns - self.span_ns) > abs(self.saved_ns)

    @property
    def bottleneck(self) -> str:
        """The largest class on the path after the change."""
        return str(self.after.by_class.item(0, "name"))

    @property
    def notes(self) -> tuple[str, ...]:
        """What the changes did."""
        return self.plan.notes

    @property
    def sentence(self) -> str:
        """The answer, with the replay's error."""
        return sentence_of(self)

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "what if", self.sentence
        yield from (("limit", limit) for limit in self.limits)


def what_if(inferred: Inferred, changes: Iterable[Change]) -> WhatIf:
    """Try changes, one after the other, on the plan of a measured run.

    Raises `AdviceError` where there is no change, one selects nothing, or the same is asked for twice.
    """
    listed = tuple(changes)
    if not listed:
        raise AdviceError("no change to try: communication=0.5, for example, makes communication twice as fast.")
    plan = changed(inferred, listed)
    before, after = critical_path_of(inferred), path_of(timetable(plan.plan), plan.measured, plan.edges)
    return WhatIf(
        changes=listed,
        replay=inferred.replay,
        after_ns=after.span_ns,
        before=before,
        after=after,
        plan=plan,
        limits=tuple(_limits(inferred, before, after)),
    )


def sentence_of(answer: WhatIf) -> str:
    """With ...: 126.1 instead of 129.0 ms (replayed), ..."""
    what = ", ".join(map(str, answer.changes))
    how = f"{duration(answer.after_ns)} instead of {duration(answer.replayed_ns)} ({100 * answer.change:+.1f} %)"
    off = f"the replay is {100 * answer.error:+.1f} % off the measured {duration(answer.span_ns)}"
    small = ", which is more than the change" if answer.is_within_error else ""
    return f"{what}: {how}, and {answer.bottleneck} decides then; {off}{small}."


def _limits(inferred: Inferred, before: CriticalPath, after: CriticalPath) -> Iterator[str]:
    if not inferred.replay.is_trustworthy:
        yield f"the replay is {percent(abs(inferred.replay.error))} off the measured span: do not trust the answer."
    if after.weakest is not None and after.weakest.confidence < 0.5:
        yield f"the new path goes through a wait of confidence {after.weakest.confidence:.2f}."
    if (inferred.edges.get_column("source") == "sm").any():
        yield "waits for free SMs stay as they were, though other durations may need SMs at other times."
    share_before, share = (_share_of_host(path) for path in (before, after))
    if share > max(0.1, share_before):
        yield f"the host decides {percent(share, 0)} of the span after the change, {percent(share_before, 0)} before."


def _share_of_host(path: CriticalPath) -> float:
    return float(path.by_class.filter(pl.col("name").is_in(("host", "launch"))).get_column("share").sum())
