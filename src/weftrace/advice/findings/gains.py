"""What would a remedy save? The plan of the run with the changes that a rule names, replayed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from weftrace.advice.absent_ranks import absent_from
from weftrace.advice.bounds import spans_of
from weftrace.advice.changes import Change, Scale
from weftrace.advice.findings.found import Found
from weftrace.advice.findings.sentences import change_words
from weftrace.advice.trust import Trust, trust_of
from weftrace.analysis.data_quality import merged_devices
from weftrace.analysis.findings import Gain, Worth
from weftrace.errors import AdviceError
from weftrace.plan.inference.values import Inferred

#: Less than this share of a step is not worth a change.
LEAST_GAIN = 0.005


@dataclass(kw_only=True, eq=False)
class Replays:
    """Replays of one plan with changes, each done once. inferred: None where there is no plan to replay; why_not: why.

    num_steps: over which what is saved is shared out; 0 counts as one.
    """

    inferred: Inferred | None
    num_steps: int
    span_ns: int
    why_not: str = ""

    def __post_init__(self) -> None:
        self._saved: dict[str, tuple[int, int] | str] = {}

    @cached_property
    def trust(self) -> Trust | None:
        """Whether answers of the plan may be believed."""
        if self.inferred is None:
            return None
        merged = [words for work in self.inferred.works if (words := merged_devices(work))]
        return trust_of(self.inferred.replay, absent_from(self.inferred.kernels or self.inferred), merged)

    @property
    def error_ns(self) -> int:
        """What the replay is off, of the recording."""
        if self.inferred is None:
            return 0
        return abs(self.inferred.replay.replayed_ns - self.inferred.replay.span_ns)

    @property
    def replayed_ns(self) -> int:
        return self.span_ns if self.inferred is None else self.inferred.replay.replayed_ns

    def saved(self, changes: Sequence[Change]) -> tuple[int, int] | str:
        """(at least, at most) ns of the recording; or why it cannot be told, a clause."""
        if self.inferred is None:
            return self.why_not or "there is no plan to replay"
        if self.trust is not None and not self.trust.is_trusted:
            return f"the replay is not to be trusted: {self.trust.reasons[0]}"
        key = "; ".join(map(str, changes))
        if key not in self._saved:
            try:
                found = spans_of(self.inferred, _once(changes))
                self._saved[key] = (self.replayed_ns - found.high_ns, self.replayed_ns - found.low_ns)
            except AdviceError as error:
                self._saved[key] = f"{key} cannot be replayed: {error}"
        return self._saved[key]

    def gain_of(self, found: Found) -> tuple[Gain | None, str]:
        """What the remedy of a finding saves of a step, or None and why that is not told."""
        if found.not_told:
            return None, found.not_told
        if not (found.least or found.most):
            if found.saves_ns is None:
                return None, "the trace does not contain it"
            method = "bound" if found.is_bound else "measured"
            bound = (found.how,) if found.how else ()
            return self._gain(*found.saves_ns, method=method, changes=bound, how=found.how, whole_ns=self.span_ns), ""
        ends = [self.saved(changes) for changes in (found.least, found.most) if changes]
        told = [each for each in ends if not isinstance(each, str)]
        if not told:
            return None, str(ends[0])
        low, high = min(each[0] for each in told), max(each[1] for each in told)
        changes = tuple(dict.fromkeys(str(change) for change in (*found.least, *found.most)))
        how = found.how or "; at most ".join(dict.fromkeys(filter(None, map(change_words, (found.least, found.most)))))
        return self._gain(low, high, method="bound" if found.is_bound else "replay", changes=changes, how=how), ""

    def worth_of(self, gain: Gain | None) -> Worth:
        """Whether a gain is more than the replay is off, and more than nothing to speak of."""
        if gain is None:
            return "not told"
        error_ns = self.error_ns / max(1, self.num_steps) if gain.method != "measured" else 0
        return "not worth it" if gain.high_ns <= error_ns or gain.high_share < LEAST_GAIN else "worth it"

    def together(self, found: Sequence[Found]) -> Gain | None:
        """What the remedies of several findings save at once; None where fewer than two can be replayed."""
        each = [one for one in found if one.least or one.most]
        if len(each) < 2:
            return None
        least = [change for one in each for change in one.least or one.most]
        most = [change for one in each for change in one.most or one.least]
        return self.gain_of(Found(sentence="", cost_ns=0, least=tuple(least), most=tuple(most)))[0]

    def _gain(self, low: int, high: int, *, method: str, changes: tuple[str, ...], how: str, whole_ns: int = 0) -> Gain:
        steps, whole = max(1, self.num_steps), max(1, whole_ns or self.replayed_ns)
        return Gain(
            low_ns=round(low / steps), high_ns=round(high / steps), low_share=low / whole, high_share=high / whole,
            method=method, changes=changes, how=how,  # type: ignore[arg-type]
        )  # fmt: skip


def _once(changes: Sequence[Change]) -> list[Change]:
    """Each change once; of what is scaled twice the smaller factor."""
    scales: dict[str, Scale] = {}
    others: list[Change] = []
    for change in changes:
        if isinstance(change, Scale):
            known = scales.setdefault(change.selector, change)
            scales[change.selector] = known if known.factor <= change.factor else change
        elif change not in others:
            others.append(change)
    return [*scales.values(), *others]
