"""What is known of a schedule by formula: the published bubble beside the exact one, what it holds, what it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

import numpy as np

from weftrace.errors import ScheduleError
from weftrace.notebook import InNotebook
from weftrace.pipeline.costs import Costs, need_costs
from weftrace.pipeline.generators.arguments import need_counts
from weftrace.pipeline.generators.families import Family, family_of
from weftrace.pipeline.laws import bubbles, peaks
from weftrace.pipeline.laws.bubbles import Formula, Size, Times
from weftrace.pipeline.simulation import Boundary
from weftrace.units import counted, duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A formula, what it gives here, and whether that is so.

    value: in nanoseconds for a bubble, in chunks for what is held; None where costs have no one value for a letter.
    holds: whether the schedule does that here; because: why not, empty where it does.
    """

    formula: str
    value: int | None
    holds: bool
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Law(InNotebook):
    """What formulas say of a schedule, without running it.

    published: the bubble as its authors give it; None where they give no formula. exact: the bubble that the simulation
        has, to the nanosecond, where it holds; None where no formula is known for this boundary.
    peak_activations: most chunks whose activations a rank holds at once, from the start of F to the end of W or B.
    stages_per_device: whose parameters a device holds. devices: that it runs on.
    """

    name: str
    boundary: Boundary
    published: Claim | None
    exact: Claim | None
    peak_activations: Claim
    stages_per_device: int
    devices: int

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "schedule", self.name
        for what, claim in (("published", self.published), ("exact", self.exact)):
            if claim is not None:
                value = "" if claim.value is None else f" = {duration(claim.value)}"
                verdict = "holds here" if claim.holds else f"does not hold: {claim.because}"
                yield f"bubble, {what} ({self.boundary})", f"{claim.formula}{value}; {verdict}"
        yield "activations", f"{self.peak_activations.formula} = {self.peak_activations.value}"
        yield "devices", f"{self.devices}, {counted(self.stages_per_device, 'stage')} on each"


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """Of one family. published: with `meant`, the boundary that its authors mean, and `where` it is the exact one."""

    published: Formula | None = None
    meant: Boundary | None = None
    where: str = ""
    barrier: Formula
    span: Formula | None = None
    peak: Formula


_DUALPIPE = Formulas(
    published=bubbles.DUALPIPE_PUBLISHED, meant="barrier", where="I = F and W ≤ I", barrier=bubbles.DUALPIPE,
    span=bubbles.DUALPIPE_SPAN, peak=peaks.TWO_WAYS,
)  # fmt: skip
#: Family -> what is known of it by formula.
FORMULAS = {
    "gpipe": Formulas(published=bubbles.ENDS, barrier=bubbles.ENDS, span=bubbles.ENDS, peak=peaks.ALL),
    "1f1b": Formulas(published=bubbles.ENDS, barrier=bubbles.ENDS, span=bubbles.ENDS, peak=peaks.WAY_TO_THE_END),
    "interleaved": Formulas(
        published=bubbles.ENDS_OF_LOOPS, barrier=bubbles.ENDS_OF_LOOPS, span=bubbles.ENDS_OF_LOOPS, peak=peaks.OF_LOOPS
    ),
    "zb1p": Formulas(
        published=bubbles.ZB1P_PUBLISHED, where="W ≤ F and W ≤ I", barrier=bubbles.ZB1P, span=bubbles.ZB1P_SPAN,
        peak=peaks.WAY_TO_THE_END,
    ),
    "zb2p": Formulas(
        published=bubbles.NOTHING, meant="span", where="I ≤ F and F + I ≤ 2W", barrier=bubbles.ZB2P,
        span=bubbles.ZB2P_SPAN, peak=peaks.WAY_AND_BACK,
    ),
    "zbv": Formulas(
        published=bubbles.NOTHING, meant="span", where="F = I = W, or nearly so", barrier=bubbles.ZBV,
        span=bubbles.ZBV_SPAN, peak=peaks.V_WHOLE,
    ),
    "v-half": Formulas(barrier=bubbles.V_HALF, peak=peaks.V_HALF),
    "v-min": Formulas(barrier=bubbles.V_MIN, peak=peaks.V_MIN),
    "interleaved-zb": Formulas(
        barrier=bubbles.ZB_OF_LOOPS, span=bubbles.ZB_OF_LOOPS_SPAN, peak=peaks.OF_ZB_LOOPS
    ),
    "dualpipe": _DUALPIPE,
    "dualpipev": _DUALPIPE,
    "interleaved-fb": Formulas(barrier=bubbles.ENDS_OF_PAIRS, span=bubbles.SPAN_OF_PAIRS, peak=peaks.OF_PAIRS),
    "seq1f1b": Formulas(published=bubbles.ENDS, barrier=bubbles.ENDS, span=bubbles.ENDS, peak=peaks.OF_SLICES),
}  # fmt: skip


_NOT_SWITCHED = "it is for middle ranks that run their first pair one after the other, and here they overlap it"
_ANY = Times(1, 1, 1, 2, 3)  # peaks do not look at times


def laws_of(
    name: str,
    *,
    num_ranks: int | None = None,
    num_stages: int | None = None,
    num_micro_batches: int,
    costs: Costs,
    boundary: Boundary = "barrier",
    **options: int,
) -> Law:
    """The laws of a schedule, by its name in `FAMILIES`, and whether they hold with these costs.

    num_ranks, num_stages, num_micro_batches, options: as for `generate`. costs: of one chunk of the schedule. boundary:
    as for `simulate`.

    The laws are for stages that cost the same, and messages that cost nothing. Where these do, the value is still
    given: what a simulation has above it is not the schedule's bubble but the messages' share.

    Raises `ScheduleError` for an unknown schedule or boundary, and where neither ranks nor stages are given.
    """
    family = family_of(name)
    need_costs(costs)
    if boundary not in get_args(Boundary):
        raise ScheduleError(f"boundary = {boundary!r}; a step ends at a 'barrier', or a rank's own 'span' does.")
    formulas, size = FORMULAS[family.name], _size(family, num_ranks, num_stages, num_micro_batches, options)
    not_switched = "" if options.get("switch", True) else _NOT_SWITCHED
    case = _Case(size, _times(costs), costs.unit_ns, _astray(costs) or not_switched)
    formula = formulas.barrier if boundary == "barrier" else formulas.span
    exact = None if formula is None else _exact(formula, case)
    published = None
    if formulas.published is not None and exact is not None:
        published = _published(formulas.published, formulas, case, exact, boundary)
    return Law(
        name=family.title,
        boundary=boundary,
        published=published,
        exact=exact,
        peak_activations=Claim(
            formula=formulas.peak.text, value=formulas.peak.of(size, Times(1, 1, 1, 2, 3)), holds=True
        ),
        stages_per_device=size.PP * family.replicas // size.D,
        devices=size.D,
    )


@dataclass(frozen=True, slots=True)
class _Case:
    """What formulas are asked of. times: None where a letter has no one value. unit_ns: as `Costs.unit_ns`.

    astray: what the costs have that the laws leave out; empty where there is no such thing.
    """

    size: Size
    times: Times | None
    unit_ns: int
    astray: str


def _exact(formula: Formula, case: _Case) -> Claim:
    if case.times is None:
        return Claim(formula=formula.text, value=None, holds=False, because=case.astray)
    formula = formula.here(case.size, case.times)
    unmet = formula.unmet(case.size, case.times)
    because = _needs(unmet, case) if unmet else case.astray
    return Claim(formula=formula.text, value=formula.of(case.size, case.times), holds=not because, because=because)


#: Why a formula that is meant for one boundary does not hold with the other.
_MEANT: dict[Boundary, str] = {
    "barrier": "it is meant with each rank's own span, and a barrier adds what one rank starts after another",
    "span": "it is meant with a barrier at the step's end, and a span leaves out how much later a rank starts and ends",
}


def _published(formula: Formula, formulas: Formulas, case: _Case, exact: Claim, boundary: Boundary) -> Claim:
    value = None if case.times is None else formula.of(case.size, case.times)
    if case.times is None or exact.value == value:
        because = exact.because
    elif formulas.meant not in (None, boundary):
        because = _MEANT[boundary]
    elif exact.because:
        because = exact.because
    else:
        because = _needs(formulas.where, case)
    return Claim(formula=formula.text, value=value, holds=not because, because=because)


def _needs(condition: str, case: _Case) -> str:
    """What a formula needs, beside what its letters are here."""
    assert case.times is not None
    lengths = zip(("F", "I", "W", "B", "F&B"), case.times, strict=True)
    summary = {name: f"{each / case.unit_ns:g}" if case.unit_ns else duration(each) for name, each in lengths}
    values = {"M": case.size.M, "PP": case.size.PP, "D": case.size.D, **summary}
    letters = dict.fromkeys(re.findall("F&B|[A-Z]+", condition))
    return f"it needs {condition}, and here {', '.join(f'{letter} = {values[letter]}' for letter in letters)}"


def _size(
    family: Family, num_ranks: int | None, num_stages: int | None, num_micro_batches: int, options: dict[str, int]
) -> Size:
    per_rank = options.get("stages_per_rank", family.stages_per_rank)
    if num_ranks is None and num_stages is None:
        raise ScheduleError(f"{family.title}: say on how many ranks (num_ranks), or into how many stages (num_stages).")
    given = num_ranks if num_stages is None else num_stages
    need_counts(
        family.title,
        num_micro_batches=num_micro_batches,
        **{"num_ranks" if num_stages is None else "num_stages": given},
    )
    assert given is not None
    ranks = given if num_stages is None else given // per_rank
    slices = options.get("num_slices") or family.options.get("num_slices") or 1
    return Size(D=ranks, PP=ranks * per_rank, M=num_micro_batches, V=per_rank, K=slices)


def _times(costs: Costs) -> Times | None:
    """The letters, where each has one value."""
    uneven = isinstance(costs.rank_factor, tuple) and len(set(costs.rank_factor)) > 1
    F, I, W = (_one(each) for each in (costs.forward_ns, costs.input_ns, costs.weight_ns))  # noqa: E741
    if uneven or F is None or I is None or W is None:
        return None
    B = I + W if costs.backward_ns is None else _one(costs.backward_ns)
    if B is None:
        return None
    FB = F + B if costs.overlapped_ns is None else _one(costs.overlapped_ns)
    if FB is None:
        return None
    factor = float(np.max(costs.rank_factor))
    return Times(*(round(value * factor) for value in (F, I, W, B, FB)))


def _one(value: object) -> int | None:
    """The value that a field has for all stages, or pairs; None where they differ."""
    found = np.unique(np.asarray(value))
    return int(found[0]) if len(found) == 1 else None


def _astray(costs: Costs) -> str:
    """What these costs have that the laws leave out; empty where there is no such thing."""
    if _times(costs) is None:
        return "it is for stages that cost the same on every rank, and here they differ"
    if costs.latency_ns or (costs.bytes_per_s is not None and np.any(costs.message_bytes)):
        return "it is for messages that cost nothing, and here they take time"
    return ""
