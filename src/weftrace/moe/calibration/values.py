"""A calibration: what the phases of a measured trace cost, as a value that can be saved, loaded and priced with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from weftrace.errors import ProfileError
from weftrace.notebook import InNotebook
from weftrace.units import percent, us

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

    name: of the kernel that takes longest. num_kernels: of a layer, the mean, rounded. num_sms: its blocks, where it is
    persistent. alone_ns: what they take together with the phase's mean rows and nothing that moves data beside
    them: the mean over layers of time * (1 - b * (1 - 1/f)) / size, b the share of time beside communication that
    moves data, f the group's factor. least_ns: the shortest of these: of a wait, what it takes where nobody is late.
    """

    group: Group
    follows: Follows
    name: str
    num_kernels: int
    num_sms: int | None
    alone_ns: float
    least_ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedPhase(InNotebook):
    """One phase: its parts in order of first start.

    rows: mean routed rows, as launched; None where the trace does not tell them. busy_ns: mean of |its kernels|, the
    union over streams. union: what the union is of the sum over kernels; below 1 where streams run side by side.
    num_layers: how many layers it is a mean of.
    """

    phase: str
    rows: float | None
    busy_ns: float
    union: float
    num_layers: int
    parts: tuple[CalibratedPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed(InNotebook):
    """Kernels of a group take `factor` times as long while communication moves data beside them.

    families: of weftrace's kernel rules; none given: all that no other row names.
    """

    group: Group
    families: tuple[str, ...]
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested(InNotebook):
    """How far off predictions were for layers that the fit had not seen.

    what: a phase, the tested layers, or all layers.
    by: "busy", the union of a phase's kernels; "data", of communication the kernels that move data; "span", the time of
        layers one after another, with waits for other ranks as long as in the fitted layers; "span_waits", with waits
        as measured in each layer.
    measured_ns: mean of a phase's layers. errors: by what was known (see `Knowing`), the lowest and the highest of
        predicted / measured - 1 over all splits and tested layers.
    """

    what: str
    by: Literal["busy", "data", "span", "span_waits"]
    measured_ns: float | None
    errors: tuple[tuple[Knowing, float, float], ...]

    def worst(self, knowing: Knowing) -> float | None:
        """The largest error by size; None where it was not predicted."""
        return next((max(abs(low), abs(high)) for known, low, high in self.errors if known == knowing), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitTold(InNotebook):
    """One fit that was tested: on which layers, and the factors that it found.

    worst: by what was known, the error of that phase that computes and is furthest off. span: of the tested layers'
    time, with waits as measured.
    """

    layers: tuple[int, ...]
    factors: tuple[tuple[Group, float], ...]
    worst: tuple[tuple[Knowing, float], ...]
    span: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration(InNotebook):
    """What the phases of a trace cost: a level of costs.

    source: the trace. layers: those that it was fitted on. num_layers: all that the trace has. tokens: of a micro-batch
    on a GPU; None where nothing tells. gap_ns: idle time between two kernels back to back, the median. slowed: what
    communication beside them costs. info: how the run was made, as the trace tells ("profile.model" and the like).
    splits, tested: fits on some of the layers, and their errors on the others; empty where none was left out. notes:
    what was assumed.
    """

    source: str
    layers: tuple[int, ...]
    num_layers: int
    tokens: int | None
    gap_ns: int
    phases: tuple[CalibratedPhase, ...]
    slowed: tuple[Slowed, ...]
    info: tuple[tuple[str, str], ...] = ()
    splits: tuple[SplitTold, ...] = ()
    tested: tuple[Tested, ...] = ()
    notes: tuple[str, ...] = ()

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

    def _told(self) -> Iterator[tuple[str, str]]:
        yield "source", self.source
        yield "fitted on", f"layers {', '.join(map(str, self.layers))} of {self.num_layers}"
        yield from ((each.phase, us(each.busy_ns)) for each in self.phases)
        for each in self.slowed:
            yield f"{each.group} beside data", f"{each.factor:.2f} times as long"
        for test in self.tested:
            if (worst := test.worst("beside")) is not None:
                yield f"{test.what} ({test.by}), at most off by", percent(worst)
