"""A calibration: what the phases of a measured trace cost, as a value that can be saved, loaded and priced with."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from weftrace.errors import ProfileError
from weftrace.files.columns import Shown
from weftrace.files.documents import read_document
from weftrace.files.schemas import Amount, Count, Positive
from weftrace.files.values import from_document
from weftrace.notebook import InNotebook
from weftrace.units import duration, percent

SCHEMA = "weftrace.profile.calibration/1"

#: How a kernel's time comes about: by matrix work; by the bytes of device memory that it moves; by the data that it
#: sends to other ranks; by waiting for them.
Group = Literal["matrix", "memory", "data", "wait"]
#: What a kernel's time is proportional to: routed rows, tokens, or their sum.
Follows = Literal["rows", "tokens", "both"]
#: How much of what is known of a layer a prediction uses: the mean alone; its routed rows too; and what ran beside it.
Knowing = Literal["means", "rows", "beside"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPart(InNotebook):
    """The kernels of a phase that are of one group and follow one size (see `parts.py`), of one layer.

    alone_ns is the mean over layers of time * (1 - b * (1 - 1/f)) / size, b the share of time beside communication that
    moves data, f the group's factor. least_ns of a wait is what it takes where nobody is late.
    """

    group: Annotated[
        Group,
        Meta(description="matrix work, bytes of device memory, data sent to other ranks, waits for other ranks."),
    ]
    follows: Annotated[
        Follows, Meta(description="What its time is proportional to: routed rows, tokens, or rows + tokens.")
    ]
    name: Annotated[str, Meta(description="Of the kernel that takes longest.")]
    num_kernels: Annotated[Positive, Meta(description="Of a layer: the mean, rounded.")]
    num_sms: Annotated[Count | None, Meta(description="Blocks of that kernel where it is persistent.")]
    alone_ns: Annotated[Amount, Meta(description="With the phase's mean rows, and no data moved at the same time.")]
    least_ns: Annotated[Amount, Meta(description="The shortest of the times that alone_ns is the mean of.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPhase(InNotebook):
    """One phase of a layer."""

    phase: Annotated[str, Shown(wide=True)]
    rows: Annotated[Amount | None, Meta(description="Mean routed rows as launched; null where the trace tells none.")]
    busy_ns: Annotated[Amount, Meta(description="Mean of its kernels' union over streams."), Shown("busy")]
    union: Annotated[
        float, Meta(gt=0, description="The union of its kernels, by their sum; below 1 where streams run side by side.")
    ]
    num_layers: Annotated[Positive, Meta(description="Layers that it is a mean of.")]
    parts: Annotated[tuple[CalibratedPart, ...], Meta(description="In order of first start.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed(InNotebook):
    """What communication that moves data costs the kernels of a group that run beside it."""

    group: Group
    families: Annotated[tuple[str, ...], Meta(description="Kernel families; none: all that no other row names.")]
    factor: Annotated[float, Meta(ge=1, description="Factor by which they take longer.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested(InNotebook):
    """How far off predictions of layers were that the fit had not seen."""

    what: Annotated[str, Meta(description="A phase, the tested layers, or all layers."), Shown("phase", wide=True)]
    by: Annotated[
        Literal["busy", "data", "span", "span_waits"],
        Meta(
            description="busy: the union of a phase's kernels; data: of those that move data; span: the time of layers "
            "one after another, with waits for other ranks as in the fitted layers; span_waits: with waits as measured."
        ),
    ]
    measured_ns: Annotated[
        float | None, Meta(description="Mean of the tested layers; null of a span."), Shown("measured")
    ]
    errors: Annotated[
        tuple[tuple[Knowing, float, float], ...],
        Meta(
            description="What was known about a tested layer; the lowest and highest predicted / measured - 1 over all "
            "splits."
        ),
    ]

    def worst(self, knowing: str) -> float | None:
        """The largest error by size; None where it was not predicted."""
        return next((max(abs(low), abs(high)) for known, low, high in self.errors if known == knowing), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedFit(InNotebook):
    """A fit on some layers, tested on the others."""

    layers: Annotated[tuple[Count, ...], Shown("fitted on", style="text", wide=True)]
    factors: Annotated[
        tuple[tuple[Group, float], ...], Meta(description="What communication costs the kernels beside it.")
    ]
    worst: Annotated[
        tuple[tuple[Knowing, float], ...],
        Meta(description="What was known about a tested layer; the error of the least accurate phase that computes."),
    ]
    span: Annotated[float | None, Meta(description="Error of the tested layers' time, waits as measured; null: none.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(InNotebook):
    """What the phases of a measured trace cost, and how well that predicts layers it was not fitted on: a level of
    costs."""

    source: str
    layers: Annotated[tuple[Count, ...], Meta(description="Layers of the trace that it was fitted on.")]
    num_layers: Annotated[Positive, Meta(description="All that the trace has.")]
    tokens: Annotated[Positive | None, Meta(description="Per micro-batch on a GPU; null if unknown.")]
    gap_ns: Annotated[Count, Meta(description="Idle time between two kernels back to back, the median.")]
    phases: tuple[CalibratedPhase, ...]
    slowed: tuple[Slowed, ...]
    info: Annotated[tuple[tuple[str, str], ...], Meta(description="How the run was made, as its trace tells.")] = ()
    splits: Annotated[
        tuple[TestedFit, ...], Meta(description="Fits that the errors are of, and what each was off by at most.")
    ] = ()
    tested: Annotated[
        tuple[Tested, ...], Meta(description="Errors over all splits; empty if no layer was left out.")
    ] = ()
    notes: Annotated[tuple[str, ...], Meta(description="What was assumed.")] = ()

    def __post_init__(self) -> None:
        if self.tested and not self.splits:
            raise ValueError("`tested` holds errors of no fit: `splits` is empty")
        for name, keys in (
            ("phases", [each.phase for each in self.phases]),
            ("slowed", [(each.group, each.families) for each in self.slowed]),
        ):
            if len(set(keys)) < len(keys):
                raise ValueError(f"`{name}` has two rows of one kind")

    def __getitem__(self, phase: str) -> CalibratedPhase:
        found = next((each for each in self.phases if each.phase == phase), None)
        if found is None:
            names = ", ".join(each.phase for each in self.phases)
            raise ProfileError(f"{self.source}: calibrated on no phase {phase!r}; its phases are {names}")
        return found

    @property
    def basis(self) -> str:
        """What pieces say of where their time comes from."""
        layers = ", ".join(map(str, self.layers))
        return f"calibrated on layer{'s' if len(self.layers) > 1 else ''} {layers} of {self.source}"

    @property
    def name(self) -> str:
        """How the level is named beside what it is used for, with the largest error that is known of it."""
        known = [worst for each in self.tested if each.by == "busy" and (worst := each.worst("beside")) is not None]
        error = f"at most {percent(max(known))} off a phase where tested" if known else "error not known"
        return f"{self.basis} ({error})"

    def factor(self, group: str) -> float:
        """By how much communication that moves data slows kernels of a group."""
        return next((each.factor for each in self.slowed if each.group == group), 1.0)

    def _describe(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "fitted on", f"layers {', '.join(map(str, self.layers))} of {self.num_layers}"
        yield from ((each.phase, duration(each.busy_ns)) for each in self.phases)
        for each in self.slowed:
            yield f"{each.group} beside data", f"{each.factor:.2f} times as long"
        for test in self.tested:
            if (worst := test.worst("beside")) is not None:
                yield f"{test.what} ({test.by}), at most off by", percent(worst)


def read_calibration(path: str | os.PathLike[str]) -> Calibration:
    """A calibration from a JSON file, plain or compressed. Raises `DocumentError`."""
    return from_document(Calibration, read_document(path), schema=SCHEMA, what=os.fspath(path))
