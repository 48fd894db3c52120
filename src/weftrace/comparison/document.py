"""A comparison as its document (`weftrace.diff/1`): the two sides, the verdict, what changed, the gates.

Times are whole ns of one step, mean over the steps that count and over the ranks that both runs have, unless a field
says otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypedDict, cast, get_args

import numpy as np
import polars as pl
from msgspec import Meta
from numpy.typing import NDArray

from weftrace.analysis.time_owners import PARTS
from weftrace.comparison.alignment.movers import Level, movers_of
from weftrace.comparison.diffs import Diff, RankRow
from weftrace.comparison.explanations import headline
from weftrace.comparison.finding_changes import FindingChange, finding_changes
from weftrace.comparison.gates import GateRow, IsNoise
from weftrace.comparison.noise import Difference, StepSpread, are_noise
from weftrace.comparison.runs import WAITING
from weftrace.comparison.shape_changes import ShapeChangeRow, shape_rows, shape_sentences
from weftrace.comparison.sides import Side
from weftrace.comparison.straggler_attribution import straggler_attributions
from weftrace.comparison.verdicts import Verdict
from weftrace.files.columns import Shown
from weftrace.files.schemas import Amount, Count
from weftrace.files.values import OPTIONAL, UNSAVED, filled
from weftrace.notebook import InNotebook


class SideRank(TypedDict):
    """A device of a rank that both runs have."""

    rank: int | None
    device: int | None
    path: str
    simulated: bool


class SideStep(TypedDict):
    """A step that counts."""

    step: Annotated[int | None, Meta(description="Null where the run has no steps: the whole recording is the one.")]
    span_ns: Annotated[Count, Meta(description="Its length, mean over ranks.")]


class DroppedStep(TypedDict):
    """A step that is left out."""

    step: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSummary:
    """One of the two runs, as far as it is compared."""

    source: str
    ranks: list[SideRank]
    steps: list[SideStep]
    dropped: list[DroppedStep]
    median_ns: Annotated[Count, Meta(description="Of the steps' lengths.")]
    low_ns: Annotated[Count, Meta(description="Their lower quartile.")]
    high_ns: Annotated[Count, Meta(description="Their upper quartile.")]
    failures: Annotated[list[str], Meta(description="Files that could not be used, and why.")]


class PartRow(TypedDict):
    """A part of a step and its cause. All rows and `remainder_ns` add up to `change_ns` of the document, exactly."""

    part: str
    cause: Annotated[
        str | None,
        Meta(description="Of idle time: what was waited for. Of communication: data or barrier; of waiting, for whom."),
    ]
    before_ns: int
    after_ns: int
    change_ns: int
    by_number_ns: Annotated[int, Meta(description="Of change_ns: more or fewer launches, or gaps.")]
    by_duration_ns: Annotated[int, Meta(description="Of change_ns: longer or shorter ones.")]
    by_overlap_ns: Annotated[
        int, Meta(description="Of change_ns: more or less of it is hidden, or runs next to its own kind.")
    ]
    by_kernel_ns: Annotated[int, Meta(description="Of change_ns: kernels that one run alone has.")]
    is_noise: IsNoise


class MoverRow(TypedDict):
    """A family, kernel, operator or phase: what it adds to a step, idle time that it ends left out."""

    part: Annotated[
        str, Meta(description="The part of the step that has this time; a name has one row per part and cause.")
    ]
    cause: Annotated[str | None, Meta(description="Of communication: data or barrier; of waiting, for whom.")]
    name: Annotated[str, Meta(description="Common to both runs; … where names differ that are summed.")]
    before_name: Annotated[str | None, Meta(description="As the run has it; of several, the one with most time.")]
    after_name: str | None
    kind: Annotated[str | None, Meta(description="Compute, communication, memory or fused, of most of its time.")]
    status: Literal["both", "new", "gone", "replaced"]
    replaced_by: Annotated[
        str | None, Meta(description="Of replaced kernels: the kernels that replace them, or are added.")
    ]
    matched_by: Annotated[
        str | None,
        Meta(
            description="Name, or the rule by which names are one; of replaced, what both launch from; null of others."
        ),
    ]
    before_ns: Annotated[int, Meta(description="Own time: by which it lengthens the step.")]
    after_ns: int
    change_ns: Annotated[int, Shown(term="own_time")]
    before_num: Annotated[Amount, Meta(description="Launches in a step.")]
    after_num: Amount
    before_raw_ns: Annotated[Amount, Meta(description="Durations in a step, hidden or not.")]
    after_raw_ns: Amount
    by_number_ns: Annotated[int, Shown(term="by_number")]
    by_duration_ns: Annotated[int, Shown(term="by_duration")]
    by_overlap_ns: Annotated[int, Shown(term="by_overlap")]
    by_kernel_ns: Annotated[int, Shown("by other kernels", term="by_kernel")]
    is_noise: IsNoise


class Movers(TypedDict):
    """Who changed, each list with the largest change first."""

    family: list[MoverRow]
    kernel: list[MoverRow]
    operator: list[MoverRow]
    phase: list[MoverRow]


class OwnRow(TypedDict):
    """What changed on a rank itself, in a step of this rank."""

    part: str
    cause: str | None
    family: str | None
    change_ns: int


class LatenessRow(TypedDict):
    """For how long ranks waited, exposed, because this one came last: of a step, mean over ranks."""

    name: Annotated[str, Meta(description="As `cause` of its part: rank 2.")]
    rank: Annotated[int | None, Meta(description="Null where it has no number, or one run alone has it.")]
    before_ns: int
    after_ns: int
    change_ns: int
    before_raw_ns: Annotated[Count, Meta(description="Including the waiting that computation hid.")]
    after_raw_ns: Count
    own: Annotated[list[OwnRow], Meta(description="What changed on it, the largest first, without its own waiting.")]


_OWN = 5  # changes of a late rank that are told

LEVELS: Final[tuple[Level, ...]] = get_args(Level)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DiffReport(InNotebook):
    """What changed in a step, from one run to another. diff: what it was made of, from which pictures are drawn; None
    for one that was read from a file."""

    before: SideSummary
    after: SideSummary
    verdict: Verdict
    headline: str
    is_noise: Annotated[
        bool | None,
        Meta(
            description="Whether the steps' lengths differ by no more than within a run; null: one step cannot show it."
        ),
    ]
    change_ns: Annotated[int, Meta(description="Of the median step.")]
    remainder_ns: Annotated[int, Meta(description="Change of the median step less that of the mean step.")]
    difference: Annotated[Difference | None, Meta(description="Of the mean step; null: one step cannot show it.")]
    parts: list[PartRow]
    movers: Movers
    shapes: Annotated[
        list[ShapeChangeRow],
        OPTIONAL,
        Meta(description="Operators by shapes, the largest change first, at most 400; empty if none are recorded."),
    ] = field(default_factory=list)
    shape_sentences: Annotated[
        list[str], OPTIONAL, Meta(description="What became slower at the same work, and what does other work.")
    ] = field(default_factory=list)
    findings: Annotated[
        list[FindingChange] | None,
        OPTIONAL,
        Meta(
            description="Of advice, new, gone and changed, the largest change first; null if nothing was looked for "
            "in one of the runs, as in large ones, or they are not comparable."
        ),
    ] = None
    lateness: Annotated[list[LatenessRow], Meta(description="Of jobs of several ranks; the largest change first.")]
    by_rank: Annotated[list[RankRow], Meta(description="Of jobs of several ranks.")]
    gates: list[GateRow]
    notes: Annotated[
        tuple[str, ...], Meta(description="What is missing or left out, and which ranks one run alone has.")
    ]
    diff: Annotated[Diff | None, UNSAVED] = None

    @property
    def tells_causes(self) -> bool:
        """Whether causes are named: of runs that are not comparable none is."""
        return self.verdict.word != "not comparable"

    def _describe(self) -> list[tuple[str, str]]:
        return [("verdict", self.verdict.word), ("headline", self.headline)]


def diff_report(diff: Diff, gates: Sequence[GateRow] = ()) -> DiffReport:
    """A comparison as a value that can be shown and saved. gates: as `gates.judged` returns them."""
    shapes = shape_rows(diff.before, diff.after)
    return filled(
        DiffReport,
        diff,
        shapes=shapes,
        shape_sentences=shape_sentences(shapes, "a step" if diff.before.steady.steps else "in all"),
        before=_side(diff.before, diff.spans[0]),
        after=_side(diff.after, diff.spans[1]),
        headline=headline(diff),
        parts=part_rows(diff),
        movers=cast(Movers, {level: _movers(diff, level) for level in LEVELS}),
        findings=_findings(diff),
        lateness=_lateness(diff),
        by_rank=cast(list[RankRow], diff.by_rank().to_dicts()) if len(diff.before.ranks) > 1 else [],
        gates=list(gates),
        diff=diff,
    )


def _findings(diff: Diff) -> list[FindingChange] | None:
    """Findings of both, where the ranks that are compared are all that they have."""
    sides = diff.before, diff.after
    if diff.verdict.word == "not comparable" or any(len(side.ranks) < len(side.run.ranks) for side in sides):
        return None
    difference = diff.difference
    one, other = (side.run.advice for side in sides)
    return finding_changes(one, other, None if difference is None else difference.margin_ns)


def part_rows(diff: Diff) -> list[PartRow]:
    """The parts in the order in which one hides the next, of each the causes with the largest change first."""
    rows = diff.by("part", "cause")
    in_order = (*PARTS[:2], WAITING, *PARTS[2:])
    rows = rows.sort(pl.col("part").replace_strict({part: at for at, part in enumerate(in_order)}), maintain_order=True)
    keys = [(row["part"], row["cause"]) for row in rows.iter_rows(named=True)]
    within = are_noise(*(_in_steps(side, keys) for side in (diff.before, diff.after))) if keys else None
    summary = rows.select(pl.exclude(r"^.*_(num|raw_ns)$")).to_dicts()
    return [
        cast(PartRow, {**row, "is_noise": None if within is None else bool(within[at])})
        for at, row in enumerate(summary)
    ]


def _in_steps(side: Side, keys: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
    """Own time of each part and cause in each step: [rows, steps]; 0 of what the side has not."""
    known = {(row[0], row[1]): row[2:] for row in side.per_step(("part", "cause")).iter_rows()}
    return np.array([known.get(key, (0.0,) * side.num_steps) for key in keys], np.float64)


def _side(side: Side, spread: StepSpread) -> SideSummary:
    steps = (side.steady.steps or (None,)) if side.ranks else ()
    spans_ns = side.spans_ns.tolist() if side.ranks else []
    return SideSummary(
        source=side.run.source,
        ranks=[
            {"rank": rank.rank, "device": rank.device, "path": rank.path, "simulated": rank.simulated}
            for rank in side.ranks
        ],
        steps=[{"step": step, "span_ns": round(span_ns)} for step, span_ns in zip(steps, spans_ns, strict=True)],
        dropped=[{"step": step, "why": why} for step, why in side.steady.dropped],
        median_ns=spread.median_ns,
        low_ns=spread.low_ns,
        high_ns=spread.high_ns,
        failures=[failure.error for failure in side.run.failures],
    )


def _lateness(diff: Diff) -> list[LatenessRow]:
    names = [name for name in LatenessRow.__annotations__ if name != "own"]
    return [
        cast(
            LatenessRow,
            {
                **{name: getattr(late, name) for name in names},
                "own": [] if late.own is None else late.own.head(_OWN).select(*OwnRow.__annotations__).to_dicts(),
            },
        )
        for late in straggler_attributions(diff)
    ]


def _movers(diff: Diff, level: Level) -> list[MoverRow]:
    rows = movers_of(diff, level).filter(~pl.col("part").is_in(["idle", WAITING]), pl.col("name").is_not_null())
    own = (pl.col(f"{side}_names").list.first().alias(f"{side}_name") for side in ("before", "after"))
    return cast(list[MoverRow], rows.with_columns(own).select(*MoverRow.__annotations__).to_dicts())
