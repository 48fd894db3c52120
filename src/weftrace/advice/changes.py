"""What can be tried on an inferred plan: changes as values, and as text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from weftrace.advice.op_times import OpTimes
from weftrace.advice.swaps.placements import PlacementSwap
from weftrace.errors import AdviceError
from weftrace.notebook import InNotebook

#: Classes that can be scaled by name. communication.data and .barrier are parts of communication: kernels that move
#: data, and those that only wait for other ranks. launch: calls that launch, and the latency after them. host: what
#: threads do between calls, and calls that block, less what they wait for.
SCALABLE = ("compute", "communication", "communication.data", "communication.barrier", "memory", "fused", "launch",
            "host")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale(InNotebook):
    """Durations of what `selector` names times `factor`: 0.5 is twice as fast, 0 takes no time at all.

    selector: a name of `SCALABLE`; a kernel family ("gemm"); "phase:NAME"; "rank:N", the device work of a rank;
    "kernel:PATTERN", kernels whose name the regular expression finds. "operator:PATTERN", "annotation:PATTERN",
    "frame:PATTERN" (Python), device work launched inside such a range; "module:PATTERN", the same of modules, by the
    path of their names, with their backward. "host:PATTERN", what host threads do inside operators, annotations and
    Python frames, calls among it and not what they wait for; of what lies partly inside, that part.
    """

    selector: str
    factor: float

    def __str__(self) -> str:
        return f"{self.selector} ×{self.factor:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBarrierWait(InNotebook):
    """Communication that only waits for other ranks takes no time. What collectives wait in a meet stays."""

    def __str__(self) -> str:
        return "no barrier waits"


@dataclass(frozen=True, slots=True, kw_only=True)
class PerfectOverlap(InNotebook):
    """On no device does communication wait for other work, or other work for communication.

    Waits between the two are dropped, and where one stream holds both, each gets a stream of its own. The order within
    either, waits within either, launches and blocking calls stay. No order of the ops could be better at overlapping
    them; as most of the waits are for data, none may be as good: a bound.
    """

    def __str__(self) -> str:
        return "perfect overlap"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHostGaps(InNotebook):
    """Host threads take no time for launches and between calls, and launches have no latency; calls that block wait."""

    def __str__(self) -> str:
        return "no host gaps"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoBlocking(InNotebook):
    """Host calls that block no longer wait for the device; what they take besides stays.

    pattern: a regular expression that finds something in the call's own name, or in that of an operator, annotation or
    Python frame around it on its thread. Launches that waited for room in the device's queue still do.
    """

    pattern: str

    def __str__(self) -> str:
        return f"no blocking in {self.pattern}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(InNotebook):
    """Device work that `selector` names, as `Scale` has it, is not done: it takes no time, nor does the gap before it,
    its launch, the latency after that, or the host time of operators that launched nothing else. What waited for it
    waits for what it waited for.
    """

    selector: str

    def __str__(self) -> str:
        return f"without {self.selector}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStreams(InNotebook):
    """Streams of a device no longer wait for each other where that was voted, and no call between the two launches
    makes a stream wait: what may be the order of the launches alone. A bound: some may have been for data."""

    def __str__(self) -> str:
        return "free streams"


@dataclass(frozen=True, slots=True, kw_only=True)
class SmSplit(InNotebook):
    """Another split of the device's SMs: so many for computation, so many for communication."""

    compute: int
    communication: int

    def __str__(self) -> str:
        return f"{self.compute} SMs compute, {self.communication} communicate"


Change = (
    Scale | Remove | NoBarrierWait | PerfectOverlap | NoHostGaps | NoBlocking | FreeStreams | SmSplit | OpTimes
    | PlacementSwap
)  # fmt: skip


def parse_change(text: str) -> Scale:
    """ "communication=0.5" as a `Scale`. Raises `AdviceError` where it is not a selector and a factor of 0 or more."""
    selector, equals, factor = text.rpartition("=")
    if not equals or not selector.strip():
        raise AdviceError(f"{text!r} is no change: write what and how much, as in communication=0.5.")
    try:
        number = float(factor)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise AdviceError(
            f"{text!r}: {factor.strip()!r} is no factor: durations are multiplied by a number of 0 or more."
        )
    return Scale(selector=selector.strip(), factor=number)


def parse_sms(text: str) -> SmSplit:
    """ "124/8" as an `SmSplit`. Raises `AdviceError`."""
    if not (found := re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)):
        raise AdviceError(f"{text!r} is no split of SMs: write compute/communication, as in 124/8.")
    return SmSplit(compute=int(found[1]), communication=int(found[2]))
