"""Which forms of the families are simulated: numbers of stages and slices, groups, and orders that passes make.

A form has a name: `interleaved-fb:4` has 4 stages on a device, `interleaved-fb:4:g32` runs groups of 32 micro-batches,
`seq1f1b:8` cuts sequences into 8 slices, and `zbv+fit` is an order that `fit_order` makes for the stages of ZBV.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Literal, cast

from weftrace.errors import ScheduleError
from weftrace.pipeline.costs import Costs
from weftrace.pipeline.generators.dualpipe import dualpipe, dualpipe_v
from weftrace.pipeline.generators.families import Family, family_of, generate
from weftrace.pipeline.passes.fitting import fit_order, why_not_fitted
from weftrace.pipeline.passes.weight_placement import placed
from weftrace.pipeline.schedule import Schedule
from weftrace.pipeline.simulation import Boundary
from weftrace.units import counted

#: Stages of an interleaved schedule on a device, at most: all numbers up to it are tried where devices are equal.
MOST_STAGES = 8
#: Chunks of one family's forms together, at most, beside its usual form.
_MOST_CHUNKS = 2_000_000
#: Actions of a schedule of which passes make another order, at most.
MOST_CHANGED = 200_000
_SLICES = (2, 8, 16)
_FORM = re.compile(r"([^:+]*)(?::(\d{1,9}))?(?::g(\d{1,9}))?(?:\+(w|fit))?")

_HINT = (
    "a number of stages on a device can be given for interleaved schedules on equal devices: interleaved-fb:4; and one "
    "of slices: seq1f1b:8."
)

#: What is made of a family's order. w: W placed, and DualPipe without its switch where that is quicker. fit: all in an
#: order for the costs.
Change = Literal["", "w", "fit"]
_TITLES: dict[Change, str] = {"": "{}", "w": "{} with placed W", "fit": "fitted {}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A form of a family. stages_per_rank, num_slices: None where the family has no such option. group_size: of an
    interleaved family, None for as many as ranks."""

    family: Family
    stages_per_rank: int | None = None
    group_size: int | None = None
    num_slices: int | None = None
    change: Change = ""

    @property
    def name(self) -> str:
        """The family's, and what is not its usual form: "interleaved-fb:4:g32"."""
        odd = self._unusual("stages_per_rank") or self._unusual("num_slices")
        parts = (f":{odd}" if odd else "", f":g{self.group_size}" if self.group_size else "")
        return "".join((self.family.name, *parts, f"+{self.change}" if self.change else ""))

    @property
    def title(self) -> str:
        """The same, for tables and sentences."""
        stages, slices = self._unusual("stages_per_rank"), self._unusual("num_slices")
        parts = (
            f" with {counted(stages, 'stage')} per device" if stages else "",
            f" with {counted(slices, 'slice')}" if slices else "",
            f" in groups of {self.group_size}" if self.group_size else "",
        )
        return _TITLES[self.change].format("".join((self.family.title, *parts)))

    @property
    def is_published(self) -> bool:
        """Whether the order is the family's own, for which there are laws."""
        return not self.change and self.group_size is None

    @property
    def is_extra(self) -> bool:
        """Whether it is of interest only where it is better than others: other groups or slices than the usual."""
        return self.group_size is not None or bool(self._unusual("num_slices"))

    @property
    def options(self) -> dict[str, int]:
        """Of `generate`, beside the numbers of ranks and micro-batches."""
        given = {name: getattr(self, name) for name in ("stages_per_rank", "group_size", "num_slices")}
        return {name: value for name, value in given.items() if value is not None}

    def _unusual(self, name: str) -> int:
        value = getattr(self, name)
        return 0 if value in (None, self.family.options.get(name)) else int(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Forms that were asked for. by_family: whether all forms of a family were, and not one by its name: then those
    that are no better than others are left out. left_out: why there are not more of them; empty where there are all."""

    variant: Variant
    by_family: bool
    left_out: str = ""


def variant_of(name: str) -> Variant:
    """The form of this name; of a family's, its usual form. Raises `ScheduleError` where there is none."""
    found = _FORM.fullmatch(name.strip().lower()) if isinstance(name, str) else None
    family = family_of(found[1] if found else name.partition(":")[0] if isinstance(name, str) else name)
    if isinstance(name, str) and not found:
        raise ScheduleError(f"{name!r}: {_HINT}")
    number, group, change = found.groups()[1:] if found else (None, None, None)
    stages, slices = (family.options.get(each) for each in ("stages_per_rank", "num_slices"))
    if (group and stages is None) or (number and stages is None and slices is None):
        raise ScheduleError(f"{name!r}: {_HINT}")
    if number:
        stages, slices = (None if each is None else int(number) for each in (stages, slices))
    size = int(group) if group else None
    return Variant(
        family=family, stages_per_rank=stages, group_size=size, num_slices=slices, change=cast(Change, change or "")
    )


def wanted(
    given: str | Variant, costs: Costs, *, num_devices: int | None, chunks: int, num_layers: int | None
) -> list[Wanted]:
    """The forms that are asked for: one, or by the name of a family all that are tried, its usual one first.

    chunks: ranks x micro-batches of a schedule with one stage on a rank. num_layers: limit the stages; None where they
    are not known. Raises `ScheduleError` where there is no such family or form.
    """
    variant = given if isinstance(given, Variant) else variant_of(given)
    if isinstance(given, Variant) or set(given) & {":", "+"}:
        if num_devices is None and (variant.stages_per_rank != variant.family.options.get("stages_per_rank")):
            raise ScheduleError(f"{variant.name!r}: {_HINT}")
        return [Wanted(variant=variant, by_family=False)]
    return [Wanted(variant=variant, by_family=True), *_others(variant, costs, num_devices, chunks, num_layers)]


def _others(
    usual: Variant, costs: Costs, num_devices: int | None, chunks: int, num_layers: int | None
) -> Iterator[Wanted]:
    """All other forms of a family, as far as they are not too large."""
    forms = [replace(usual, num_slices=number) for number in _SLICES if usual.num_slices]
    if usual.stages_per_rank is not None and num_devices is not None:
        most = MOST_STAGES if num_layers is None else min(MOST_STAGES, num_layers // num_devices)
        least = 1 if usual.family.overlaps else 2  # with one stage, the others are 1F1B and ZB1P
        forms = [replace(usual, stages_per_rank=number) for number in range(least, most + 1)]
        takes_time = costs.latency_ns > 0 or (costs.bytes_per_s is not None and costs.message_bytes != 0)
        rounds = chunks // num_devices // num_devices
        for count in sorted({rounds - 1, rounds // 2} - {0}, reverse=True) if takes_time else ():
            size = chunks // num_devices // count
            forms += [replace(form, group_size=size) for form in forms if not form.group_size and size > num_devices]
    room = _MOST_CHUNKS
    for form in forms:
        if form == usual:
            continue
        room -= chunks * (form.stages_per_rank or form.num_slices or 1)
        if room < 0:
            why = f"{form.title} and others are not tried: with them, {usual.family.title} has over {_MOST_CHUNKS:,}"
            yield Wanted(variant=form, by_family=True, left_out=f"{why} chunks. Name the one you want: {form.name}.")
            return
        yield Wanted(variant=form, by_family=True)


def changes(variant: Variant, schedule: Schedule, *, is_even: bool) -> tuple[Change, ...]:
    """What passes may make better of a family's order. is_even: whether all stages have as many layers: then more
    stages on a device leave little to gain."""
    if variant.change or variant.family.name == "1f1b":  # of which ZB1P is made
        return ()
    if variant.family.overlaps:
        return ("w",) if variant.family.splits else ()
    return () if why_not_fitted(schedule) or (is_even and ":" in variant.name) else ("fit",)


def changed(schedule: Schedule, change: Change, costs: Costs, boundary: Boundary) -> Schedule:
    """What a pass makes of a family's own schedule. costs: of a chunk."""
    if change == "fit":
        return fit_order(schedule, costs, boundary=boundary)
    make = dualpipe if schedule.num_replicas > 1 else dualpipe_v
    unswitched = make(schedule.num_ranks, schedule.num_micro_batches, switch=False)
    return min((placed(each, costs, None, boundary) for each in (schedule, unswitched)), key=itemgetter(0))[1]


def made(variant: Variant, *, num_stages: int | None, num_devices: int | None, num_micro_batches: int) -> Schedule:
    """The family's schedule of this form, as `generate` makes it."""
    return generate(
        variant.family.name,
        num_stages=num_stages,
        num_ranks=num_devices,
        num_micro_batches=num_micro_batches,
        **variant.options,
    )
