"""A finding: what costs time where, what it rests on, what to do about it, and what that would save.

Times are of a step, in ns: those of the recording over its steps (over 1 where none are recorded).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from weftrace.files.schemas import Count, Ns
from weftrace.notebook import InNotebook
from weftrace.units import duration, percent

#: How a gain is known. replay: the plan with the change, run again. bound: no more than that can be saved. measured: by
#: what the same trace does elsewhere, without a replay.
Method: TypeAlias = Literal["replay", "bound", "measured"]

#: remark: something that limits what can be said, or that is not worth doing; it is no loss.
Kind: TypeAlias = Literal["finding", "remark"]

#: Whether a finding is worth acting on: its gain against the error of the replay; untold where no gain is known.
Worth: TypeAlias = Literal["worth it", "not worth it", "not told"]

Confidence: TypeAlias = Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number that a finding rests on."""

    name: Annotated[str, Meta(description="What it is: idle after it, calls per step.")]
    value: float
    unit: Annotated[
        Literal["ns", "count", "share", "bytes", "bytes/s", "FLOP/s", "ratio"], Meta(description="ns: shown as a time.")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where a finding is. Empty, or None, where that is not one place.

    events: rows of the trace's events in which it shows best, the longest first; of `path`'s file.
    """

    ranks: Annotated[tuple[int, ...], Meta(description="Ranks that have it, the worst first; none where unknown.")] = ()
    device: int | None = None
    step: Annotated[int | None, Meta(description="The only step that has it; null: in most of them.")] = None
    phase: str = ""
    module: str = ""
    code: Annotated[str, Meta(description="A line of Python: train.py(42): step.")] = ""
    operator: str = ""
    kernels: Annotated[tuple[str, ...], Meta(description="Names, the longest first.")] = ()
    path: Annotated[str, Meta(description="The file that `events` are of.")] = ""
    events: Annotated[tuple[int, ...], Meta(description="Rows of the trace's events, the longest first.")] = ()
    start_ns: Annotated[
        int | None, Meta(description="Of the first of these events, or of the gap before it, on the trace's clock.")
    ] = None
    end_ns: Annotated[int | None, Meta(description="Its end.")] = None

    @property
    def place(self) -> str:
        """The best name of the place, the line of code first; empty where it has none."""
        return self.code or self.module or self.operator or self.phase or (self.kernels[0] if self.kernels else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a remedy saves of a step: between low_ns and high_ns; below 0 where it may cost."""

    low_ns: int
    high_ns: int
    low_share: Annotated[float, Meta(description="low_ns over the replayed step.")]
    high_share: Annotated[float, Meta(description="high_ns over the replayed step.")]
    method: Method
    changes: Annotated[tuple[str, ...], Meta(description="What was changed in the replay, or what the bound is.")] = ()
    how: Annotated[str, Meta(description="The same for a person to read, in a few words.")] = ""

    @property
    def expected_ns(self) -> float:
        """What findings are ordered by: the middle of the interval; of a bound, of which no more is known than that it
        is not more, a quarter."""
        return self.high_ns / 4 if self.method == "bound" else (self.low_ns + self.high_ns) / 2

    @property
    def words(self) -> str:
        """ "12.3 ms (4.1 %)", "1.2 to 3.4 ms (3 to 9 %)", "up to 3.4 ms (9 %)"."""
        return self.words_per("")

    def words_per(self, per: str) -> str:
        """The same with what it is of: " per step" gives "12.3 ms per step (4.1 %)"."""
        low, high = max(self.low_ns, 0), max(self.high_ns, 0)
        if self.method == "bound" or not low:
            return f"up to {duration(high)}{per} ({percent(max(self.high_share, 0.0))})"
        if percent(self.low_share) == percent(self.high_share):
            return f"{duration(high)}{per} ({percent(self.high_share)})"
        return f"{duration(low)} to {duration(high)}{per} ({percent(self.low_share)} to {percent(self.high_share)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What to do, in one framework."""

    framework: str
    remedy: Annotated[str, Meta(description="One sentence.")]
    switch: Annotated[str, Meta(description="The code, flag, JSON or variable; empty if there is none.")] = ""
    versions: Annotated[str, Meta(description="For which it was checked.")] = ""
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(InNotebook):
    """One finding, with its remedy and what that would save."""

    rule: Annotated[str, Meta(description="Its id, as `--gate` takes it.")]
    title: str
    kind: Kind
    sentence: Annotated[str, Meta(description="What costs how much where, in one sentence.")]
    where: Where
    evidence: tuple[Number, ...]
    cost_ns: Annotated[int, Meta(ge=0, description="What it costs of a step.")]
    cost_share: Annotated[float, Meta(ge=0, description="cost_ns over the step.")]
    gain: Annotated[Gain | None, Meta(description="What the remedy saves of a step; null if unknown.")]
    not_told: Annotated[str, Meta(description="Why the gain is unknown; empty if it is known.")]
    worth: Worth
    confidence: Confidence
    reason: Annotated[str, Meta(description="Why the confidence is what it is.")]
    remedy: Remedy | None
    others: Annotated[tuple[Remedy, ...], Meta(description="For the other frameworks of the rule.")] = ()
    when_not: Annotated[str, Meta(description="When the remedy does not fit.")] = ""

    @property
    def gain_low_share(self) -> float | None:
        return None if self.gain is None else self.gain.low_share

    @property
    def gain_high_share(self) -> float | None:
        return None if self.gain is None else self.gain.high_share

    @property
    def value_ns(self) -> float:
        """What findings are ordered by: the gain that is expected, or a quarter of the cost where none is told; of low
        confidence a quarter of that."""
        value = self.cost_ns / 4 if self.gain is None else self.gain.expected_ns
        return value / 4 if self.confidence == "low" else value

    @property
    def is_guess(self) -> bool:
        """Whether nothing tells a gain and little the cause."""
        return self.gain is None and self.confidence == "low"

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield self.rule, self.sentence
        if self.gain is not None:
            yield "saves", self.gain.words
        if self.remedy is not None:
            yield "do", self.remedy.remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """A rule that found nothing, or could not look."""

    rule: str
    title: str
    looked: Annotated[bool, Meta(description="Whether the trace has what the rule looks at.")]
    why: Annotated[str, Meta(description="What was looked for, or what is missing.")]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class AdviceReport(InNotebook):
    """What to do about a run: findings, most gain first, and what was looked for and not found.

    together: what the remedies of the first five findings, `together_of`, save when all are replayed at once; null of
    fewer than two with a replay.
    """

    source: str
    device_name: str
    ranks: list[int]
    headline: str
    frameworks: Annotated[tuple[str, ...], Meta(description="That the trace shows, the most specific first.")]
    span_ns: Annotated[Ns, Meta(description="Of the recording: the longest of the ranks.")]
    num_steps: Annotated[Count, Meta(description="Recorded steps that launched device work; 0 if none did.")]
    step_ns: Annotated[Ns, Meta(description="span_ns over the steps; all of it if there are none.")]
    is_trusted: Annotated[
        bool | None, Meta(description="Whether the replay is within its limits; null if nothing was replayed.")
    ]
    doubts: Annotated[tuple[str, ...], Meta(description="Why it is not, or gives no more than intervals.")]
    findings: Annotated[tuple[Finding, ...], Meta(description="Remarks that cast doubt, then by gain, leave-it last.")]
    together: Gain | None
    together_of: tuple[str, ...]
    not_found: tuple[NotFound, ...]
    notes: tuple[str, ...] = ()
    sources: Annotated[Mapping[str, tuple[str, ...]], Meta(description="Rule -> public threads about it.")] = field(
        default_factory=dict
    )

    @property
    def losses(self) -> tuple[Finding, ...]:
        """Findings without remarks."""
        return tuple(each for each in self.findings if each.kind == "finding")

    @property
    def whole(self) -> str:
        """What times and gains are of: a step, or the recording where no steps are recorded."""
        return "a step" if self.num_steps else "the recording"

    @property
    def remarks(self) -> tuple[Finding, ...]:
        return tuple(each for each in self.findings if each.kind == "remark")

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "advice", self.headline
        for each in self.losses[:5]:
            yield each.rule, each.sentence


def saves(finding: Finding, whole: str = "a step") -> str:
    """What the remedy saves of the whole, a sentence."""
    gain = finding.gain
    if gain is None:
        return f"What a remedy saves is not known: {finding.not_told}."
    if finding.worth == "not worth it":
        return f"It is not worth a change: it saves {gain.words} of {whole}."
    return f"The remedy saves {gain.words} of {whole}."


def together_words(report: AdviceReport) -> str:
    """ "The first 5 together, replayed at once: −31 % of a step."; empty where nothing was replayed together."""
    gain = report.together
    if gain is None:
        return ""
    numbers: list[int] = []
    for rule in report.together_of:
        numbers.append(next(n for n, each in enumerate(report.losses, 1) if each.rule == rule and n not in numbers))
    first = numbers == list(range(1, len(numbers) + 1))
    who = f"The first {len(numbers)}" if first else f"Findings {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    low, high = (percent(max(share, 0), 0) for share in (gain.low_share, gain.high_share))
    share = f"−{high}" if low == high else f"−{low} to −{high}" if gain.low_share > 0 else f"up to −{high}"
    return f"{who} together, replayed at once: {share} of {report.whole}."
